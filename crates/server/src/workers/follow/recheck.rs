//! Reads entries of the source again that it may have changed without a message.
//!
//! slapd's overlay refint changes values that name a renamed or deleted entry, after the rename or delete, and sends no
//! message. Here such values follow the entry, or are removed with it. They differ if a client changed the entry before
//! refint did, so that it was sent with the old name, or if refint replaces a last value. So entries that received a
//! value that names no entry, and those that lost one with a deleted entry, are read again: once soon and once later.

use std::time::Instant;

use client::Connection;
use directory::follow::{SourceAttribute, SourceEntry, doubtful};
use ldap::{Control, ControlsBuf, Scope, SyncUuid, oids};

use super::{Follow, FollowError, source};
use crate::limits::{FOLLOW_RECHECK, FOLLOW_RECHECKED_MAX};

/// Progress of the checks.
pub(super) struct Recheck {
    /// Positions of the log here at the check before the last one, and at the last one.
    positions: [u64; 2],
    at: Instant,
}

impl Default for Recheck {
    fn default() -> Recheck {
        Recheck { positions: [0; 2], at: Instant::now() }
    }
}

impl Recheck {
    pub(super) fn is_due(&self) -> bool {
        self.at.elapsed() >= FOLLOW_RECHECK
    }

    /// Begins a check: returns the entries to read.
    pub(super) fn begin(&mut self, follow: &Follow) -> Result<Vec<(SyncUuid, String)>, FollowError> {
        self.at = Instant::now();
        let [before, last] = self.positions;
        let (entries, position) = doubtful(&follow.directory.snapshot()?, before, FOLLOW_RECHECKED_MAX)?;
        self.positions = [last, position];
        Ok(entries)
    }
}

/// Reads an entry on a connection of its own, so that it is not older than what was received before. Returns `None` if
/// the source has no such entry under this name: then it has sent, or will send, a message.
pub(super) fn read(
    connection: &mut Connection,
    follow: &Follow,
    (uuid, dn): (SyncUuid, &str),
) -> Result<Option<SourceEntry>, FollowError> {
    let control = Control { oid: oids::MANAGE_DSA_IT, critical: false, value: None };
    let controls = ControlsBuf::from_iter([control]);
    let filter = follow.settings.filter.as_str();
    let reply = connection.search_with(dn, Scope::BaseObject, filter, &["*", "+"], controls.as_controls())?;
    let Some(entry) = reply.entries.into_iter().next() else { return Ok(None) };
    let attributes = entry
        .attributes
        .into_iter()
        .map(|attribute| SourceAttribute { description: attribute.description, values: attribute.values });
    let entry = SourceEntry { uuid, dn: entry.dn, attributes: attributes.collect() };
    Ok(entry.has_uuid().then_some(entry))
}

/// Connects to read entries. A failure does not end the copy: they are read again with the next ones.
pub(super) fn connect(follow: &Follow) -> Option<Connection> {
    let connected = source::connect(&follow.settings);
    connected.inspect_err(|error| tracing::warn!("entries of the source cannot be read again: {error}")).ok()
}
