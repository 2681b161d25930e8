//! The figures in `cn=monitor`. Only users with permission can read them.

use std::collections::BTreeMap;

use client::{ClientError, Connection, Entry};
use ldap::Scope;
use serde::Serialize;

use crate::limits::PAGE_BYTES_MAX;
use crate::page_error::PageError;
use crate::requests::{self, Search};

/// Maximum number of entries that are read from `cn=monitor`.
const FIGURES_MAX: u32 = 2_000;

/// Attributes in which an entry may contain the value of its figure. Each entry has one of them.
const VALUES: [&str; 4] = ["monitoredInfo", "monitorCounter", "monitorTimestamp", "monitorOpCompleted"];

/// Values of figures. The key is the DN of the figure's entry in lower case, without `cn=monitor`.
pub(crate) type Figures = BTreeMap<String, String>;

/// A figure of a group.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Name of the figure, for example `Last Backup`.
    pub(crate) name: String,
    pub(crate) value: String,
    /// The server's explanation of the figure.
    pub(crate) help: String,
}

/// Reads all figures. Blocks.
///
/// # Errors
/// The requester cannot read them, or the directory does not answer.
pub(crate) fn figures(connection: &mut Connection) -> Result<Figures, PageError> {
    let entries = entries(connection, "cn=monitor", Scope::WholeSubtree)?;
    if entries.is_empty() {
        return Err(PageError::Client(ClientError::Unexpected("cn=monitor is empty".to_owned())));
    }
    let pairs = entries.into_iter().filter_map(|entry| {
        let name = entry.dn.to_ascii_lowercase();
        let name = name.strip_suffix(",cn=monitor").unwrap_or(&name).to_owned();
        Some((name, value(&entry)?))
    });
    Ok(pairs.collect())
}

/// Reads the figures of a group in the server's order. Returns an empty list if the server has no such group. Blocks.
///
/// # Errors
/// The requester cannot read them, or the directory does not answer.
pub(crate) fn group(connection: &mut Connection, name: &str) -> Result<Vec<Figure>, PageError> {
    let entries = match entries(connection, &format!("cn={name},cn=monitor"), Scope::SingleLevel) {
        Err(PageError::Refused(outcome, _)) if is_missing(connection, &outcome)? => return Ok(Vec::new()),
        entries => entries?,
    };
    let figure = |entry: Entry| {
        let (name, help) = (entry.text("cn")?, entry.text("description").unwrap_or_default());
        Some(Figure { name, value: value(&entry)?, help })
    };
    Ok(entries.into_iter().filter_map(figure).collect())
}

/// Returns true if the group does not exist. Returns false if the requester cannot read `cn=monitor` at all.
fn is_missing(connection: &mut Connection, outcome: &client::Outcome) -> Result<bool, PageError> {
    Ok(outcome.code == ldap::ResultCode::NO_SUCH_OBJECT && may_read(connection)?)
}

/// Returns true if the requester can read `cn=monitor`. Blocks.
///
/// # Errors
/// The directory does not answer.
pub(crate) fn may_read(connection: &mut Connection) -> Result<bool, PageError> {
    Ok(connection.entry("cn=monitor", &["1.1"])?.is_some())
}

fn entries(connection: &mut Connection, base: &str, scope: Scope) -> Result<Vec<Entry>, PageError> {
    let attributes = VALUES.iter().chain(&["cn", "description"]).map(|name| (*name).to_owned());
    let search = Search {
        base: base.to_owned(),
        scope,
        filter: "(objectClass=*)".to_owned(),
        attributes: attributes.collect(),
    };
    Ok(requests::page(connection, &search, FIGURES_MAX, &[], PAGE_BYTES_MAX)?.entries)
}

fn value(entry: &Entry) -> Option<String> {
    VALUES.iter().find_map(|name| entry.text(name))
}
