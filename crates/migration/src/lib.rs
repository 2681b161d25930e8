//! Reads the configuration of another directory server, and proposes settings, a node file, password policies and a
//! page of decisions for the administrator.
//!
//! The caller reads a [`Configuration`]: entries of `cn=config`, or the text of a slapd.conf, which is converted to
//! such entries. [`propose()`] recognizes OpenLDAP, 389 DS and OpenDJ. Each value of the configuration becomes a
//! proposed setting, a feature that Pando has without a setting, a decision, or an item in the list of values without
//! a counterpart, so no value is lost silently.
//!
//! The crate opens neither files nor sockets.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

mod configuration;
mod ds389;
mod found;
mod opendj;
mod openldap;
mod output;
mod secrets;
mod slapd_conf;
#[cfg(test)]
mod tests;

pub use configuration::{ConfigEntry, ConfigValue, Configuration};
pub use found::in_toml;
pub use output::{Proposal, SCHEMA_FILE};
pub use slapd_conf::{Included, read_slapd_conf};

use access_rules::translate;
use found::Found;

/// Directory server that a configuration belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// OpenLDAP's slapd.
    OpenLdap,
    /// 389 Directory Server, Red Hat Directory Server, FreeIPA.
    Ds389,
    /// OpenDJ and its relatives.
    OpenDj,
}

impl Product {
    /// Recognizes the product by the attributes of a configuration.
    pub fn of(configuration: &Configuration) -> Option<Product> {
        let mut names = configuration.entries.iter().flat_map(|entry| &entry.values).map(|value| &value.name);
        names.find_map(|name| match name.as_str() {
            name if name.starts_with("olc") => Some(Product::OpenLdap),
            name if name.starts_with("nsslapd-") => Some(Product::Ds389),
            name if name.starts_with("ds-cfg-") => Some(Product::OpenDj),
            _ => None,
        })
    }

    /// Returns the full name of the product, for people.
    pub fn name(self) -> &'static str {
        match self {
            Product::OpenLdap => "OpenLDAP",
            Product::Ds389 => "389 Directory Server",
            Product::OpenDj => "OpenDJ",
        }
    }
}

/// Proposes a configuration of Pando; returns `None` if the product is unknown.
pub fn propose(configuration: &Configuration) -> Option<Proposal> {
    let product = Product::of(configuration)?;
    let mut found = Found::default();
    match product {
        Product::OpenLdap => openldap::analyse(configuration, &mut found),
        Product::Ds389 => ds389::analyse(configuration, &mut found),
        Product::OpenDj => opendj::analyse(configuration, &mut found),
    }
    found.schema_files.clone_from(&configuration.schema_files);
    if !configuration.data_rules.is_empty() {
        found.add_rules(&translate(&configuration.data_rules));
    }
    Some(Proposal::of(product, found))
}
