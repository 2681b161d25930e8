//! [`Health`]: faults of the server itself, and their reports to the administrator.
//!
//! Every fault is reported to the administrator, because clients cannot repair it. There are two kinds of reports:
//!
//! - A change of the state of the whole server ([`Health::stop_changes`] and the events of the store). It is reported
//!   in the log, to the service manager, in `cn=monitor` and by the exit code.
//! - An operation that failed because of a fault of the server ([`Health::log_failure`]). It is logged when it is
//!   answered, with at most a few lines a minute for each kind of fault.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use directory::ServerFault;
use ldap::{MessageId, ResultCode};
use sd_notify::NotifyState;
use store::{Event, Observer, StoreError};

use crate::limits::{FAULT_LINES_INTERVAL, FAULT_LINES_MAX, FULL_DISK_NOTED};

/// The faults of the server. All threads share this struct.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The reason why no changes are made until a restart; not set if changes are made.
    stopped: OnceLock<String>,
    faults: Mutex<BTreeMap<ServerFault, LoggedFaults>>,
    full: Mutex<Option<FullDisk>>,
}

/// The last refusal of a change because the disk is full.
#[derive(Debug)]
struct FullDisk {
    since: Instant,
    /// Whether the free space of the disk was too small. If a quota caused the refusal, there may be enough free space.
    is_visible: bool,
}

/// The log lines about one kind of fault in the current interval.
#[derive(Debug)]
struct LoggedFaults {
    since: Instant,
    /// Hashes of the logged texts.
    texts: Vec<u64>,
    /// Number of failures that were not logged since the last log line.
    omitted: u64,
}

/// The description of a failed operation in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedOperation {
    pub(crate) connection: u64,
    pub(crate) id: MessageId,
    pub(crate) name: &'static str,
    pub(crate) code: ResultCode,
}

impl Health {
    /// Records and reports that no changes are made until a restart. Only the first call has an effect.
    pub(crate) fn stop_changes(&self, cause: &str) {
        let mut is_new = false;
        self.stopped.get_or_init(|| {
            is_new = true;
            cause.to_owned()
        });
        if is_new {
            tracing::error!(
                "no more changes until a restart, reading goes on: {cause}; see that the disk is sound, then restart \
                 the server"
            );
            set_status(&format!("reading only: {cause}"));
        }
    }

    /// Returns the reason why no changes are made until a restart, if that is the case.
    pub(crate) fn changes_stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Reports that the disk is full. If `full` is `None`, reports that the disk has room again.
    pub(crate) fn disk_full(&self, full: Option<&StoreError>) {
        match full {
            Some(error) => {
                tracing::error!(%error, "changes are refused until there is room");
                set_status(&format!("changes are refused: {error}"));
            }
            None => {
                tracing::info!("the disk has room again: changes are accepted");
                if self.changes_stopped().is_none() {
                    set_status("serving");
                }
            }
        }
    }

    /// Records that a change was refused because the disk is full. If `full` is `None`, records that a change was made.
    pub(crate) fn note_full(&self, full: Option<&StoreError>) {
        let full = full.map(|error| {
            let is_visible = matches!(error, StoreError::DiskFull { free_bytes, reserve_bytes, .. }
                if free_bytes < reserve_bytes);
            FullDisk { since: Instant::now(), is_visible }
        });
        *self.lock_full() = full;
    }

    /// Records that there is enough free space. If too little free space caused the last refusal, that refusal is
    /// dropped.
    pub(crate) fn note_free_space(&self) {
        self.lock_full().take_if(|full| full.is_visible);
    }

    /// Returns true if a change was refused a short time ago because the disk is full. After that time, only the next
    /// change can show whether there is room again, because nothing else detects a quota.
    fn is_full(&self, now: Instant) -> bool {
        let noted = |full: &FullDisk| now.saturating_duration_since(full.since) < FULL_DISK_NOTED;
        self.lock_full().as_ref().is_some_and(noted)
    }

    /// Returns the reason why the server refuses changes. Considers only the failures of earlier changes.
    pub(crate) fn refusal(&self, now: Instant) -> Option<String> {
        if let Some(cause) = self.changes_stopped() {
            return Some(format!("no change is made until a restart: {cause}"));
        }
        self.is_full(now).then(|| "the disk is full: it refused a change".to_owned())
    }

    fn lock_full(&self) -> MutexGuard<'_, Option<FullDisk>> {
        self.full.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs that an operation failed because of a fault of the server. `text` must not contain values of entries. The
    /// texts of a [`ServerFault`] contain no such values.
    pub(crate) fn log_failure(&self, now: Instant, fault: ServerFault, failed: FailedOperation, text: &str) {
        let Some(omitted) = self.count_failure(now, fault, text) else { return };
        let FailedOperation { connection, id, name, code } = failed;
        let advice = advice(fault);
        let before = if omitted == 0 { String::new() } else { format!("; {omitted} more like it before") };
        let line = format!("conn={connection} op={id} {name} failed with {code}: {text}{advice}{before}");
        match fault {
            ServerFault::Damaged | ServerFault::Store | ServerFault::Defect => tracing::error!("{line}"),
            _ => tracing::warn!("{line}"),
        }
    }

    /// Counts a failure. Returns `None` if it must not be logged. Otherwise returns the number of failures that were
    /// not logged since the last log line.
    fn count_failure(&self, now: Instant, fault: ServerFault, text: &str) -> Option<u64> {
        let text = match fault {
            // All texts of these faults count as the same text. They differ only in the free space or in the first
            // failure.
            ServerFault::DiskFull | ServerFault::WritesStopped => 0,
            _ => hash(text),
        };
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || LoggedFaults { since: now, texts: Vec::new(), omitted: 0 };
        let logged = faults.entry(fault).or_insert_with(new);
        if now.saturating_duration_since(logged.since) >= FAULT_LINES_INTERVAL {
            (logged.since, logged.texts) = (now, Vec::new());
        }
        if logged.texts.len() >= FAULT_LINES_MAX || logged.texts.contains(&text) {
            logged.omitted += 1;
            return None;
        }
        logged.texts.push(text);
        Some(std::mem::take(&mut logged.omitted))
    }
}

impl Observer for Health {
    fn notice(&self, event: &Event<'_>) {
        match event {
            Event::WritesStopped { cause } => self.stop_changes(cause),
            Event::CheckpointFailed { error } => tracing::error!(
                %error,
                "changes are durable, but cannot be brought into the data file for now: it is tried every second"
            ),
            Event::CheckpointRecovered => tracing::info!("changes are brought into the data file again"),
            Event::SegmentFailed { error } => {
                tracing::warn!(%error, "a segment of the redo log could not be made or used again");
            }
            other => tracing::warn!("{other:?}"),
        }
    }
}

/// Returns the advice at the end of the log line about a fault; empty if there is none.
fn advice(fault: ServerFault) -> &'static str {
    match fault {
        ServerFault::Damaged => "; `pando verify` says what is damaged",
        ServerFault::Exhausted => "; more open files or memory help",
        ServerFault::Defect => "; please report it",
        _ => "",
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Sets the status that the service manager shows. Has no effect if there is no service manager.
fn set_status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// Sends a notification to the service manager. Has no effect if there is no service manager.
pub(crate) fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_of_a_fault_are_limited_and_omitted_ones_counted() {
        let health = Health::default();
        let begin = Instant::now();
        let count = |now: Instant, fault, text: &str| health.count_failure(now, fault, text);
        assert_eq!(count(begin, ServerFault::Damaged, "row 1"), Some(0));
        assert_eq!(count(begin, ServerFault::Damaged, "row 1"), None, "the same again");
        for row in 2..=FAULT_LINES_MAX {
            assert!(count(begin, ServerFault::Damaged, &format!("row {row}")).is_some());
        }
        for row in 0..1_000 {
            assert_eq!(count(begin, ServerFault::Damaged, &format!("other row {row}")), None, "a flood");
        }
        assert_eq!(count(begin, ServerFault::Random, "none"), Some(0), "another kind");
        assert_eq!(count(begin, ServerFault::DiskFull, "5 bytes free"), Some(0));
        assert_eq!(count(begin, ServerFault::DiskFull, "6 bytes free"), None);
        let later = begin + FAULT_LINES_INTERVAL;
        assert_eq!(count(later, ServerFault::Damaged, "row 1"), Some(1_000));
        assert_eq!(count(later, ServerFault::Damaged, "row 2"), Some(0));
    }

    #[test]
    fn a_full_disk_refuses_changes_until_space_is_free() {
        let health = Health::default();
        let full =
            |free_bytes| StoreError::DiskFull { directory: "/d".into(), free_bytes, reserve_bytes: 10 };
        let begin = Instant::now();
        let is_refused = |now| health.refusal(now).is_some_and(|reason| reason.contains("the disk is full"));
        assert!(!is_refused(begin));
        health.note_full(Some(&full(9)));
        assert!(is_refused(begin));
        health.note_free_space();
        assert!(!is_refused(begin), "the disk has enough free space again");
        // The disk has enough free space, so a quota caused this refusal.
        health.note_full(Some(&full(11)));
        health.note_free_space();
        assert!(is_refused(begin));
        assert!(!is_refused(Instant::now() + FULL_DISK_NOTED), "a change has to try it");
        health.note_full(None);
        assert!(!is_refused(begin), "a change was made");
    }

    #[test]
    fn the_first_fault_that_stops_changes_is_the_cause() {
        let health = Health::default();
        assert_eq!(health.changes_stopped(), None);
        health.notice(&Event::WritesStopped { cause: "sync: EIO" });
        health.stop_changes("later");
        assert_eq!(health.changes_stopped(), Some("sync: EIO"));
    }
}
