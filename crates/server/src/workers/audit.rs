//! The thread that writes the audit trail.
//!
//! The thread receives events from the event loops. It derives the events of changes from the records of the
//! directory's log, starting after the trail's position. Records survive a crash. Therefore every change has its event,
//! and no event needs a separate sync. The log retains each record until the trail contains its event durably.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use audit::{
    AuditError, EventWriter, Field, Kind, NodeKey, Opening, Options, Trail, ValueEffect, put_values,
};
use directory::log_changes::LoggedChange;
use directory::record::{Change, Record, Value, ValueChange, ValueChangeKind};
use directory::rows::AttrId;
use directory::value_ends::name_with_end;
use directory::{Directory, Snapshot, own_changes};

use crate::config::audit::{AuditSettings, AuditValues, Overload};
use crate::limits::{
    AUDIT_ATTRIBUTES_MAX, AUDIT_BLOCK_BYTES, AUDIT_LAG_CHANGES_MAX, AUDIT_RETRY, AUDIT_SYNC_INTERVAL,
};
use crate::stamp::now_micros;
use crate::telemetry::operation_event::put_tracking;
use crate::workers::audit_feed::{AuditFeed, Choice, Chunk};
use crate::workers::service::Service;

/// File with the node's signing key, in the data directory.
const KEY_FILE: &str = "audit.key";

/// Maximum time that the thread sleeps while an anchor is due.
const ANCHOR_WAIT: Duration = Duration::from_secs(5);

/// Attributes that the server sets with every change. Events do not contain them.
const STAMPS: [&str; 7] = [
    "modifyTimestamp",
    "modifiersName",
    "entryCSN",
    "createTimestamp",
    "creatorsName",
    "entryUUID",
    "structuralObjectClass",
];

/// Opens the audit trail that the settings describe, and creates the queue of its events. Returns `None` if the
/// settings describe no trail. From now on, the log retains records for the trail.
///
/// # Errors
/// The trail cannot be written or continued.
pub(crate) fn open(
    settings: &AuditSettings,
    data: &Path,
    directory: &Arc<Directory>,
) -> Result<Option<(Trail, Arc<AuditFeed>)>, AuditError> {
    let Some(folder) = &settings.folder else { return Ok(None) };
    let position = directory.snapshot().and_then(|snapshot| snapshot.position()).unwrap_or(0);
    let hours = |hours: u64| hours.saturating_mul(3_600_000_000);
    let options = Options {
        folder: folder.clone(),
        key: NodeKey::load_or_create(&data.join(KEY_FILE))?,
        segment_bytes: settings.segment_bytes,
        segment_micros: hours(settings.segment_hours),
        keep_bytes: settings.keep_bytes,
        keep_micros: hours(settings.keep_days.saturating_mul(24)),
    };
    let (mut trail, opening) = Trail::open(options, position, now_micros())?;
    report(folder, &trail, opening);
    if trail.position() > position {
        // After a backup is restored, the log reuses positions. The new changes at those positions must be audited.
        tracing::warn!(
            "the audit trail has changes up to position {}, the data ends at {position}: it goes on from there",
            trail.position()
        );
        let (mut fields, mut events) = (Vec::new(), Vec::new());
        EventWriter::new(&mut fields)
            .kind(Kind::Gap)
            .number(Field::Time, now_micros())
            .number(Field::Position, trail.position())
            .number(Field::Until, position)
            .text(Field::Reason, "the data is older than the trail: a backup was restored");
        EventWriter::finish(&mut events, &[&fields]);
        trail.write(&events, 1, position, now_micros())?;
        trail.anchor(now_micros())?;
    }
    directory.keep_log_from(trail.position() + 1);
    Ok(Some((trail, Arc::new(AuditFeed::new(settings.clone())))))
}

fn report(folder: &Path, trail: &Trail, opening: Opening) {
    let folder = folder.display();
    match opening.position {
        None => tracing::info!("an audit trail begins in {folder}"),
        Some(position) => tracing::info!("the audit trail in {folder} continues after position {position}"),
    }
    if let Some(torn) = opening.torn {
        tracing::warn!(
            "a crash tore the last write of the audit trail: segment {}, offset {}, {} bytes; it goes on with block {}",
            torn.segment,
            torn.offset,
            torn.bytes,
            trail.last_block()
        );
    }
}

/// Starts the thread. It writes all events before it stops. Therefore the threads that send events must be stopped
/// first.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(trail: Trail, feed: &Arc<AuditFeed>, directory: &Arc<Directory>) -> io::Result<Service> {
    let (own, directory, feed) = (Arc::clone(feed), Arc::clone(directory), Arc::clone(feed));
    Service::start("pando-audit", move || run(trail, &own, &directory), move || feed.close())
}

/// Writes the audit trail until the queue of events is closed.
fn run(trail: Trail, feed: &AuditFeed, directory: &Arc<Directory>) {
    let snapshot = match directory.snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => return tracing::error!(%error, "the audit trail cannot read the directory"),
    };
    let choice = Choice::of(&feed.settings, &snapshot);
    let mut scribe = Scribe {
        trail,
        feed,
        directory,
        snapshot,
        choice,
        unwritten: Vec::new(),
        lost: 0,
        synced: Instant::now(),
        is_synced: true,
        is_failing: false,
        is_holding: false,
    };
    scribe.run();
    scribe.close();
}

struct Scribe<'a> {
    trail: Trail,
    feed: &'a AuditFeed,
    directory: &'a Arc<Directory>,
    snapshot: Snapshot,
    choice: Choice,
    unwritten: Vec<Chunk>,
    /// Number of lost events that the trail does not report yet.
    lost: u64,
    synced: Instant,
    is_synced: bool,
    is_failing: bool,
    is_holding: bool,
}

impl Scribe<'_> {
    fn run(&mut self) {
        loop {
            let fetched = self.feed.fetch(self.patience());
            self.unwritten.extend(fetched.chunks);
            self.lost += fetched.lost;
            if let Err(error) = self.write() {
                self.failed(&error, fetched.is_closed);
            } else if std::mem::take(&mut self.is_failing) {
                self.feed.figures.is_failing.store(false, Ordering::Relaxed);
                self.feed.set_lagging(false);
                self.is_holding = false;
                tracing::info!("the audit trail is written again");
            }
            self.publish();
            if fetched.is_closed {
                return;
            }
        }
    }

    /// Returns the maximum time that the thread waits if no event arrives; `None` for no limit.
    fn patience(&self) -> Option<Duration> {
        if self.is_failing {
            Some(AUDIT_RETRY)
        } else if !self.is_synced {
            Some(AUDIT_SYNC_INTERVAL.saturating_sub(self.synced.elapsed()))
        } else {
            self.trail.wants_anchor().then_some(ANCHOR_WAIT)
        }
    }

    /// Writes all waiting events and changes.
    fn write(&mut self) -> Result<(), ScribeError> {
        self.write_chunks()?;
        self.write_changes()?;
        if self.lost > 0 {
            let lost = self.lost;
            self.write_note(|event| {
                event.kind(Kind::Lost).number(Field::Count, lost);
            })?;
            self.lost = 0;
        }
        if !self.is_synced && self.synced.elapsed() >= AUDIT_SYNC_INTERVAL {
            self.sync()?;
        }
        self.trail.anchor_if_due(now_micros())?;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), AuditError> {
        self.trail.sync()?;
        (self.is_synced, self.synced) = (true, Instant::now());
        self.directory.keep_log_from(self.trail.position() + 1);
        Ok(())
    }

    fn write_chunks(&mut self) -> Result<(), AuditError> {
        let mut done = 0;
        while done < self.unwritten.len() {
            let (mut bytes, mut count, mut end) = (Vec::new(), 0, done);
            while let Some(chunk) = self.unwritten.get(end)
                && (bytes.is_empty() || bytes.len() + chunk.bytes.len() <= AUDIT_BLOCK_BYTES)
            {
                bytes.extend_from_slice(&chunk.bytes);
                count += chunk.count;
                end += 1;
            }
            let written = self.append(&bytes, count, self.trail.position());
            if let Err(error) = written {
                self.unwritten.drain(..done);
                return Err(error);
            }
            self.feed.written(bytes.len());
            done = end;
        }
        self.unwritten.clear();
        Ok(())
    }

    /// Writes the events of the changes after the trail's position in the log.
    fn write_changes(&mut self) -> Result<(), ScribeError> {
        self.snapshot.renew().map_err(|error| ScribeError::Log(error.to_string()))?;
        loop {
            let from = self.trail.position() + 1;
            let changes = self.snapshot.log_changes(from, AUDIT_BLOCK_BYTES);
            let changes = changes.map_err(|error| ScribeError::Log(error.to_string()))?;
            let Some(last) = changes.list.last().map(|change| change.position) else { break };
            let mut bytes = Vec::new();
            let mut count = 0;
            if changes.first > from {
                let mut fields = Vec::new();
                EventWriter::new(&mut fields)
                    .kind(Kind::Gap)
                    .number(Field::Time, now_micros())
                    .number(Field::Position, from)
                    .number(Field::Until, changes.first - 1);
                EventWriter::finish(&mut bytes, &[&fields]);
                count += 1;
                tracing::warn!(
                    "changes at positions {from} to {} are not in the audit trail: the log does not have them any more",
                    changes.first - 1
                );
            }
            for change in &changes.list {
                count += self.describe(change, &mut bytes);
            }
            match count {
                // None of these changes has an event. The next block of the trail records their position.
                0 if last == self.snapshot.position().unwrap_or(last) && last - from < 64 => break,
                _ => self.append(&bytes, count, last)?,
            }
        }
        // While its snapshot is parked, an idle thread does not prevent the store from reusing old pages.
        self.snapshot.park();
        Ok(())
    }

    fn write_note(&mut self, write: impl FnOnce(&mut EventWriter<'_>)) -> Result<(), AuditError> {
        let (mut fields, mut bytes) = (Vec::new(), Vec::new());
        let mut event = EventWriter::new(&mut fields);
        write(&mut event);
        event.number(Field::Time, now_micros());
        EventWriter::finish(&mut bytes, &[&fields]);
        self.append(&bytes, 1, self.trail.position())
    }

    fn append(&mut self, events: &[u8], count: u32, position: u64) -> Result<(), AuditError> {
        self.trail.write(events, count, position, now_micros())?;
        if self.is_synced {
            (self.is_synced, self.synced) = (false, Instant::now());
        }
        self.feed.figures.events.fetch_add(count.into(), Ordering::Relaxed);
        self.feed.figures.blocks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Handles a failure to write the trail. Depending on the settings, requests are held back or events are lost.
    fn failed(&mut self, error: &ScribeError, is_closed: bool) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let what = match self.feed.settings.overload {
                Overload::Hold => "requests will be held back",
                Overload::Count => "events will be lost and counted",
            };
            tracing::error!(%error, "the audit trail cannot be written: soon {what}");
        }
        self.feed.figures.is_failing.store(true, Ordering::Relaxed);
        let position = self.snapshot.renew().and_then(|()| self.snapshot.position()).unwrap_or(0);
        self.snapshot.park();
        let behind = position.saturating_sub(self.trail.position());
        let is_far_behind = behind > AUDIT_LAG_CHANGES_MAX;
        self.feed.set_lagging(is_far_behind);
        if is_far_behind && self.feed.settings.overload == Overload::Count {
            // The log may now drop these records. The trail will report the missing changes as a gap.
            self.directory.keep_log_from(position + 1 - AUDIT_LAG_CHANGES_MAX);
        }
        if self.feed.must_hold() && !std::mem::replace(&mut self.is_holding, true) {
            tracing::error!(%error, "requests are held back: the audit trail cannot be written");
        }
        if is_closed {
            let events: u64 = self.unwritten.iter().map(|chunk| u64::from(chunk.count)).sum();
            tracing::error!(
                events,
                "events are lost: the server stops while the audit trail cannot be written"
            );
        }
    }

    fn publish(&self) {
        let figures = &self.feed.figures;
        figures.bytes.store(self.trail.bytes(), Ordering::Relaxed);
        figures.position.store(self.trail.position(), Ordering::Relaxed);
    }

    /// Closes the trail, with a signature if possible.
    fn close(self) {
        if let Err(error) = self.trail.close(now_micros()) {
            tracing::error!(%error, "the audit trail could not be ended: its last blocks are not signed");
        }
    }

    /// Appends the events of a change to `out`. Returns the number of events.
    fn describe(&self, change: &LoggedChange, out: &mut Vec<u8>) -> u32 {
        let LoggedChange { position, record } = change;
        let (kind, target) = change_target(record);
        let origin = &record.origin;
        let who = if origin.acts_for.is_empty() { &record.requester } else { &origin.acts_for };
        if !self.choice.keeps(&self.snapshot, kind, who, target) {
            return 0;
        }
        let mut fields = Vec::with_capacity(256);
        let mut event = EventWriter::new(&mut fields);
        event.kind(kind).number(Field::Time, record.csn.micros).number(Field::Result, 0);
        event.number(Field::Position, *position).text(Field::Csn, &record.csn.to_string());
        for (field, number) in [
            (Field::Connection, origin.connection),
            (Field::MessageId, origin.message_id),
            (Field::Epoch, origin.epoch),
        ] {
            number.iter().for_each(|&number| {
                event.number(field, number);
            });
        }
        event.text_if_any(Field::Who, who);
        if !origin.acts_for.is_empty() {
            event.text(Field::ActsAs, &format!("dn:{}", record.requester));
        }
        event
            .text_if_any(Field::Network, &origin.network)
            .text_if_any(Field::Rule, &origin.rule)
            .text_if_any(Field::Target, target);
        put_tracking(&origin.tracking, &mut event);
        if !origin.operation_id.is_empty() {
            event.bytes(Field::OperationId, &origin.operation_id);
        }
        self.describe_effect(record, &mut event);
        EventWriter::finish(out, &[&fields]);
        1
    }

    fn describe_effect(&self, record: &Record, event: &mut EventWriter<'_>) {
        match &record.change {
            Change::Add(add) => {
                let values = add.values.iter().map(|(id, values)| Described {
                    id: *id,
                    fate: ValueEffect::Added,
                    until: None,
                    values,
                });
                self.describe_values(values.chain(add.ends.iter().map(fate_of)), event);
            }
            Change::Modify(modify) => {
                let name =
                    if is_own(record) { Some("account") } else { own_changes::name_of(&record.requester) };
                if let Some(name) = name {
                    event.text(Field::Name, name);
                }
                self.describe_values(modify.changes.iter().map(fate_of), event);
            }
            Change::ModifyDn(rename) => {
                event.text(Field::Name, &rename.rdn);
                if let Ok(Some(superior)) = self.snapshot.state().dn(rename.parent) {
                    event.text(Field::Superior, &superior);
                }
                self.describe_values(rename.changes.iter().map(fate_of), event);
            }
            Change::Delete(_) => {
                if let Some(name) = own_changes::name_of(&record.requester) {
                    event.text(Field::Name, name);
                }
            }
            Change::DeleteTree(tree) => {
                event.text(Field::Name, "tree").number(Field::Entries, tree.below.len() as u64);
            }
            Change::Suffix { .. } => {
                event.text(Field::Name, "suffix");
            }
            Change::Settings(_) => {
                event.text(Field::Name, "settings");
            }
            Change::Administrator { .. } => {
                event.text(Field::Name, "administrator password");
            }
            Change::Undelete(undelete) => {
                let below = undelete.entries.len().saturating_sub(1);
                event.text(Field::Name, "undelete").number(Field::Entries, below as u64);
            }
            Change::Joins(_) => {
                event.text(Field::Name, "progress of automatic memberships");
            }
            Change::Links(step) => {
                event
                    .text(Field::Name, "values become links")
                    .number(Field::Entries, step.entries.len() as u64);
            }
            Change::Purge { .. } => {
                event.text(Field::Name, "removal of deleted entries");
            }
        }
        if self.feed.settings.values == AuditValues::All {
            let old = &record.origin.old_values;
            for (id, values) in old {
                self.put_values((*id, None), ValueEffect::Before, values, event);
            }
        }
    }

    fn describe_values<'r>(&self, changes: impl Iterator<Item = Described<'r>>, event: &mut EventWriter<'_>) {
        let mut named = Vec::new();
        for Described { id, fate, until, values } in changes {
            let Some(attribute) = self.snapshot.logged_attribute(id) else { continue };
            if STAMPS.contains(&attribute.name) {
                continue;
            }
            if !named.contains(&id) && named.len() < AUDIT_ATTRIBUTES_MAX {
                event.text(Field::Attribute, attribute.name);
                named.push(id);
            }
            let is_kept = match self.feed.settings.values {
                AuditValues::None => false,
                AuditValues::New => fate != ValueEffect::Removed,
                AuditValues::All => true,
            };
            if is_kept {
                self.put_values((id, until), fate, values, event);
            }
        }
    }

    /// Appends the values of an attribute and their expiry. Omits secret values.
    fn put_values(
        &self,
        (id, until): (AttrId, Option<u64>),
        fate: ValueEffect,
        values: &[Value],
        event: &mut EventWriter<'_>,
    ) {
        let Some(attribute) = self.snapshot.logged_attribute(id).filter(|attribute| !attribute.is_secret)
        else {
            return;
        };
        if STAMPS.contains(&attribute.name) {
            return;
        }
        let values: Vec<_> = values.iter().map(|value| self.snapshot.logged_value(value)).collect();
        let mut bytes = Vec::new();
        let name = until.map(|until| name_with_end(attribute.name, until));
        let name = name.as_deref().unwrap_or(attribute.name);
        put_values(&mut bytes, fate, name, values.iter().map(Vec::as_slice));
        event.bytes(Field::Values, &bytes);
    }
}

/// Change of an attribute's values, as an event describes it.
struct Described<'r> {
    id: AttrId,
    fate: ValueEffect,
    /// End time that the change sets for the values, in seconds since 1970; 0 if they no longer expire. `None` if the
    /// change sets no end time.
    until: Option<u64>,
    values: &'r [Value],
}

fn fate_of(change: &ValueChange) -> Described<'_> {
    let (fate, until) = match change.kind {
        ValueChangeKind::Add => (ValueEffect::Added, None),
        ValueChangeKind::Remove => (ValueEffect::Removed, None),
        ValueChangeKind::Replace => (ValueEffect::Replaced, None),
        ValueChangeKind::Until(until) => (ValueEffect::Added, Some(until)),
    };
    Described { id: change.attribute, fate, until, values: &change.values }
}

/// Returns true if no client requested the change, for example an update of an account's state.
fn is_own(record: &Record) -> bool {
    record.requester.is_empty() && record.origin.connection.is_none()
}

/// Returns the kind of a change and its target entry.
fn change_target(record: &Record) -> (Kind, &str) {
    match &record.change {
        Change::Add(add) => (Kind::Add, &add.dn),
        Change::Modify(modify) if is_own(record) => (Kind::Administration, &modify.dn),
        Change::Modify(modify) => (Kind::Modify, &modify.dn),
        Change::Delete(delete) => (Kind::Delete, &delete.dn),
        Change::DeleteTree(tree) => (Kind::Delete, &tree.dn),
        Change::ModifyDn(rename) => (Kind::ModifyDn, &rename.old_dn),
        Change::Suffix { dn } => (Kind::Administration, dn),
        Change::Undelete(undelete) => (Kind::Add, &undelete.dn),
        Change::Settings(_)
        | Change::Joins(_)
        | Change::Links(_)
        | Change::Administrator { .. }
        | Change::Purge { .. } => (Kind::Administration, ""),
    }
}

/// Error that prevented events from being written.
#[derive(Debug, thiserror::Error)]
enum ScribeError {
    #[error(transparent)]
    Trail(#[from] AuditError),
    #[error("the log cannot be read: {0}")]
    Log(String),
}
