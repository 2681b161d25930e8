//! Figures in `cn=monitor`, for users who may read it.

use std::collections::BTreeMap;

use client::{ClientError, Connection, Entry};
use ldap::Scope;
use serde::Serialize;

use crate::ask::{self, Search};
use crate::limits::PAGE_BYTES_MAX;
use crate::trouble::Trouble;

/// Maximum number of entries of `cn=monitor` that are read.
const FIGURES_MAX: u32 = 2_000;

/// Attributes that may contain the value of a figure. An entry has one of them.
const VALUES: [&str; 4] = ["monitoredInfo", "monitorCounter", "monitorTimestamp", "monitorOpCompleted"];

/// Values by the DNs of their entries relative to `cn=monitor`, in lower case.
pub(crate) type Figures = BTreeMap<String, String>;

/// A figure of a group.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Name of the figure, such as `Last Backup`.
    pub(crate) name: String,
    pub(crate) value: String,
    /// Explanation of the figure by the server.
    pub(crate) help: String,
}

/// Reads all figures. Blocks.
///
/// # Errors
/// The requester may not read them, or the directory does not answer.
pub(crate) fn figures(connection: &mut Connection) -> Result<Figures, Trouble> {
    let entries = entries(connection, "cn=monitor", Scope::WholeSubtree)?;
    if entries.is_empty() {
        return Err(Trouble::Client(ClientError::Unexpected("cn=monitor is empty".to_owned())));
    }
    let pairs = entries.into_iter().filter_map(|entry| {
        let name = entry.dn.to_ascii_lowercase();
        let name = name.strip_suffix(",cn=monitor").unwrap_or(&name).to_owned();
        Some((name, value(&entry)?))
    });
    Ok(pairs.collect())
}

/// Reads the figures of a group, in the server's order; empty if the server has no such group. Blocks.
///
/// # Errors
/// The requester may not read them, or the directory does not answer.
pub(crate) fn group(connection: &mut Connection, name: &str) -> Result<Vec<Figure>, Trouble> {
    let entries = match entries(connection, &format!("cn={name},cn=monitor"), Scope::SingleLevel) {
        Err(Trouble::Refused(outcome, _)) if is_missing(connection, &outcome)? => return Ok(Vec::new()),
        entries => entries?,
    };
    let figure = |entry: Entry| {
        let (name, help) = (entry.text("cn")?, entry.text("description").unwrap_or_default());
        Some(Figure { name, value: value(&entry)?, help })
    };
    Ok(entries.into_iter().filter_map(figure).collect())
}

/// Returns true if only this group is missing, and not all of `cn=monitor` is hidden from the requester.
fn is_missing(connection: &mut Connection, outcome: &client::Outcome) -> Result<bool, Trouble> {
    Ok(outcome.code == ldap::ResultCode::NO_SUCH_OBJECT && may_read(connection)?)
}

/// Returns true if the requester may read `cn=monitor`. Blocks.
///
/// # Errors
/// The directory does not answer.
pub(crate) fn may_read(connection: &mut Connection) -> Result<bool, Trouble> {
    Ok(connection.entry("cn=monitor", &["1.1"])?.is_some())
}

fn entries(connection: &mut Connection, base: &str, scope: Scope) -> Result<Vec<Entry>, Trouble> {
    let attributes = VALUES.iter().chain(&["cn", "description"]).map(|name| (*name).to_owned());
    let search = Search {
        base: base.to_owned(),
        scope,
        filter: "(objectClass=*)".to_owned(),
        attributes: attributes.collect(),
    };
    Ok(ask::page(connection, &search, FIGURES_MAX, &[], PAGE_BYTES_MAX)?.entries)
}

fn value(entry: &Entry) -> Option<String> {
    VALUES.iter().find_map(|name| entry.text(name))
}
