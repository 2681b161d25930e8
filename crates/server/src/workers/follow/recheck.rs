//! Reads again the entries whose values name other entries.
//!
//! In the copy such values follow a renamed entry, or are removed with a deleted entry. Most servers leave such values
//! unchanged. slapd's overlay refint changes such values some time after the rename or delete, and sends no message.
//! Even with refint, the copy can differ in three cases. A client may change an entry before refint does, so that the
//! source sends the entry with the old name. Refint may replace the last value of an attribute. Refint loses a change
//! if the entry that it changes is renamed meanwhile.
//!
//! Therefore two kinds of entries are read again: entries that received a value that names no entry, and entries that
//! named a deleted or renamed entry. These entries are read again twice soon, and twice later, because a busy slapd may
//! take long.

use std::time::{Duration, Instant};

use client::Connection;
use directory::follow::{SourceAttribute, SourceEntry, doubtful, identifier};
use ldap::{Control, ControlsBuf, Scope, SyncUuid, oids};

use super::changes::ChangeList;
use super::{Follow, FollowError, cookie, source};
use crate::limits::follow::{FOLLOW_RECHECK, FOLLOW_RECHECK_LATE, FOLLOW_RECHECKED_MAX};

/// Checks at one interval. Each check reads the entries that became doubtful since the second-last check.
struct Series {
    /// Positions of this server's log at the last two checks, the older position first.
    positions: [u64; 2],
    at: Instant,
    interval: Duration,
}

/// Progress of the two series of checks, with a short and a long interval.
pub(super) struct Recheck([Series; 2]);

impl Default for Recheck {
    fn default() -> Recheck {
        let series = |interval| Series { positions: [0; 2], at: Instant::now(), interval };
        Recheck([series(FOLLOW_RECHECK), series(FOLLOW_RECHECK_LATE)])
    }
}

impl Series {
    fn is_due(&self) -> bool {
        self.at.elapsed() >= self.interval
    }
}

impl Recheck {
    pub(super) fn is_due(&self) -> bool {
        self.0.iter().any(Series::is_due)
    }

    /// Begins the checks that are due. Returns the entries to read.
    pub(super) fn begin(&mut self, follow: &Follow) -> Result<Vec<(SyncUuid, String)>, FollowError> {
        let snapshot = follow.directory.snapshot()?;
        let mut all: Vec<(SyncUuid, String)> = Vec::new();
        for series in self.0.iter_mut().filter(|series| series.is_due()) {
            series.at = Instant::now();
            let [before, last] = series.positions;
            let (entries, position) =
                doubtful(&snapshot, follow.settings.base(), before, FOLLOW_RECHECKED_MAX)?;
            series.positions = [last, position];
            all.extend(entries);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }
}

/// Returns true if the source of a cookie does not treat values that name entries as this server does.
pub(super) fn is_needed(cookie: &[u8]) -> bool {
    !cookie.is_empty() && !cookie::is_pando(cookie) && !ChangeList::is_dir_sync(cookie)
}

/// Reads an entry on a separate connection, so that the returned entry is not older than the messages that were
/// received before. Returns `None` if the source has no such entry under this name. In that case the source has sent a
/// message about the entry, or will send one.
pub(super) fn read(
    connection: &mut Connection,
    follow: &Follow,
    (uuid, dn): (SyncUuid, &str),
) -> Result<Option<SourceEntry>, FollowError> {
    let control = Control { oid: oids::MANAGE_DSA_IT, critical: false, value: None };
    let controls = ControlsBuf::from_iter([control]);
    let filter = follow.settings.filter.as_str();
    let snapshot = follow.directory.snapshot()?;
    let there = follow.settings.mapping.inverse().dn(&snapshot.state().catalog.schema, dn);
    drop(snapshot);
    let dn = there.as_deref().unwrap_or(dn);
    let reply = connection.search_with(
        dn,
        Scope::BaseObject,
        filter,
        &["*", "+", "nsUniqueId"],
        controls.as_controls(),
    )?;
    let Some(entry) = reply.entries.into_iter().next() else { return Ok(None) };
    let attributes = entry
        .attributes
        .into_iter()
        .map(|attribute| SourceAttribute { description: attribute.description, values: attribute.values });
    let entry = SourceEntry { uuid, dn: entry.dn, attributes: attributes.collect() };
    Ok(is_identified(&entry).then_some(entry))
}

/// Returns true if the attributes of an entry include its identifier.
fn is_identified(entry: &SourceEntry) -> bool {
    entry.attributes.iter().any(|attribute| {
        let names_it =
            ["entryUUID", "nsUniqueId"].iter().any(|own| attribute.description.eq_ignore_ascii_case(own));
        names_it && attribute.values.first().and_then(|value| identifier(value)) == Some(entry.uuid)
    })
}

/// Opens a connection for reading entries. A failure does not end the copy, because the next check reads the entries.
pub(super) fn connect(follow: &Follow) -> Option<Connection> {
    let connected = source::connect(&follow.settings);
    connected.inspect_err(|error| tracing::warn!("entries of the source cannot be read again: {error}")).ok()
}
