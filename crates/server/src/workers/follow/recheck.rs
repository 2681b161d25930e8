//! Reads again entries that the source may have changed without a message.
//!
//! slapd's overlay refint changes values that name a renamed or deleted entry, after the rename or delete, and sends no
//! message. In the copy such values follow the renamed entry, or are removed with the deleted one. The copy can still
//! differ: a client may change an entry before refint does, so that it is sent with the old name; refint may replace a
//! last value; and refint loses a change if the entry itself is renamed meanwhile. So entries that received a value
//! that names no entry, and entries that named a deleted or renamed one, are read again: twice soon, and twice later,
//! because a busy slapd may take long.

use std::time::{Duration, Instant};

use client::Connection;
use directory::follow::{SourceAttribute, SourceEntry, doubtful};
use ldap::{Control, ControlsBuf, Scope, SyncUuid, oids};

use super::{Follow, FollowError, source};
use crate::limits::follow::{FOLLOW_RECHECK, FOLLOW_RECHECK_LATE, FOLLOW_RECHECKED_MAX};

/// Checks at one interval. Each reads the entries that became doubtful since the check before the last one.
struct Series {
    /// Positions of this server's log at the check before the last one, and at the last one.
    positions: [u64; 2],
    at: Instant,
    interval: Duration,
}

/// Progress of the two series of checks: soon, and later.
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

/// Reads an entry on a separate connection, so that it is not older than the messages received before. Returns `None`
/// if the source has no such entry under this name; then it has sent, or will send, a message.
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
    let reply = connection.search_with(dn, Scope::BaseObject, filter, &["*", "+"], controls.as_controls())?;
    let Some(entry) = reply.entries.into_iter().next() else { return Ok(None) };
    let attributes = entry
        .attributes
        .into_iter()
        .map(|attribute| SourceAttribute { description: attribute.description, values: attribute.values });
    let entry = SourceEntry { uuid, dn: entry.dn, attributes: attributes.collect() };
    Ok(entry.has_uuid().then_some(entry))
}

/// Connects to read entries. A failure does not end the copy: the entries are read with the next check.
pub(super) fn connect(follow: &Follow) -> Option<Connection> {
    let connected = source::connect(&follow.settings);
    connected.inspect_err(|error| tracing::warn!("entries of the source cannot be read again: {error}")).ok()
}
