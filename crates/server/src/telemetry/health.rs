//! [`Health`]: what is wrong with the server itself, and that its operator hears of it.
//!
//! An error that only a client is answered with is one that nobody mends. So there are two ways to here and no others:
//! what changes the state of the whole server ([`Health::stop_changes`], and what the store says unasked), and each
//! answer that failed by no fault of the client ([`Health::tell`]), where it becomes an answer. The first is said in
//! the log, to the service manager, below `cn=monitor` and by the exit code; the second in the log, a few lines a
//! minute for each kind of cause, however many clients meet it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use directory::ServerFault;
use ldap::{MessageId, ResultCode};
use sd_notify::NotifyState;
use store::{Event, Observer, StoreError};

use crate::limits::{FAULT_LINES_INTERVAL, FAULT_LINES_MAX};

/// What is wrong with the server. Shared by all its threads.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Why changes have stopped until a restart.
    stopped: OnceLock<String>,
    faults: Mutex<BTreeMap<ServerFault, Told>>,
}

/// What the log has heard of a kind of fault lately.
#[derive(Debug)]
struct Told {
    since: Instant,
    /// Hashes of the texts.
    texts: Vec<u64>,
    /// Answers that were not worth a line.
    more: u64,
}

/// The answer to an operation that failed, as the log names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedOperation {
    pub(crate) connection: u64,
    pub(crate) id: MessageId,
    pub(crate) name: &'static str,
    pub(crate) code: ResultCode,
}

impl Health {
    /// No change is taken until a restart. Heard of once, whoever finds out first.
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

    /// Why changes have stopped.
    pub(crate) fn changes_stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// The disk is full, or has room again.
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

    /// Says in the log that an operation failed by a fault of the server's. `text` has no values of entries, as no text
    /// of a [`ServerFault`] has.
    pub(crate) fn tell(&self, now: Instant, fault: ServerFault, failed: FailedOperation, text: &str) {
        let Some(more) = self.is_worth_a_line(now, fault, text) else { return };
        let FailedOperation { connection, id, name, code } = failed;
        let what_to_do = what_to_do(fault);
        let before = if more == 0 { String::new() } else { format!("; {more} more like it before") };
        let line = format!("conn={connection} op={id} {name} failed with {code}: {text}{what_to_do}{before}");
        match fault {
            ServerFault::Damaged | ServerFault::Store | ServerFault::Defect => tracing::error!("{line}"),
            _ => tracing::warn!("{line}"),
        }
    }

    /// How many answers before had no line; `None` where this one has none either.
    fn is_worth_a_line(&self, now: Instant, fault: ServerFault, text: &str) -> Option<u64> {
        let text = match fault {
            // These say how much is free, or what failed first: one line is enough.
            ServerFault::DiskFull | ServerFault::WritesStopped => 0,
            _ => hash(text),
        };
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let told = faults.entry(fault).or_insert_with(|| Told { since: now, texts: Vec::new(), more: 0 });
        if now.saturating_duration_since(told.since) >= FAULT_LINES_INTERVAL {
            (told.since, told.texts) = (now, Vec::new());
        }
        if told.texts.len() >= FAULT_LINES_MAX || told.texts.contains(&text) {
            told.more += 1;
            return None;
        }
        told.texts.push(text);
        Some(std::mem::take(&mut told.more))
    }
}

impl Observer for Health {
    fn notice(&self, event: &Event<'_>) {
        match event {
            Event::WritesStopped { cause } => self.stop_changes(cause),
            Event::FoldFailed { error } => tracing::error!(
                %error,
                "changes are durable, but cannot be brought into the data file for now: it is tried every second"
            ),
            Event::FoldRecovered => tracing::info!("changes are brought into the data file again"),
            Event::SegmentFailed { error } => {
                tracing::warn!(%error, "a segment of the redo log could not be made or used again");
            }
            other => tracing::warn!("{other:?}"),
        }
    }
}

fn what_to_do(fault: ServerFault) -> &'static str {
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

/// Says to the service manager, if there is one, what `systemctl status` shows.
fn set_status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// Tells the service manager, if there is one.
pub(crate) fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_fault_has_few_lines_a_minute_and_those_left_out_are_counted() {
        let health = Health::default();
        let begin = Instant::now();
        let ask = |now: Instant, fault, text: &str| health.is_worth_a_line(now, fault, text);
        assert_eq!(ask(begin, ServerFault::Damaged, "row 1"), Some(0));
        assert_eq!(ask(begin, ServerFault::Damaged, "row 1"), None, "the same again");
        for row in 2..=FAULT_LINES_MAX {
            assert!(ask(begin, ServerFault::Damaged, &format!("row {row}")).is_some());
        }
        for row in 0..1_000 {
            assert_eq!(ask(begin, ServerFault::Damaged, &format!("other row {row}")), None, "a flood");
        }
        assert_eq!(ask(begin, ServerFault::Random, "none"), Some(0), "another kind");
        assert_eq!(ask(begin, ServerFault::DiskFull, "5 bytes free"), Some(0));
        assert_eq!(ask(begin, ServerFault::DiskFull, "6 bytes free"), None);
        let later = begin + FAULT_LINES_INTERVAL;
        assert_eq!(ask(later, ServerFault::Damaged, "row 1"), Some(1_000));
        assert_eq!(ask(later, ServerFault::Damaged, "row 2"), Some(0));
    }

    #[test]
    fn what_stops_changes_first_is_the_cause() {
        let health = Health::default();
        assert_eq!(health.changes_stopped(), None);
        health.notice(&Event::WritesStopped { cause: "sync: EIO" });
        health.stop_changes("later");
        assert_eq!(health.changes_stopped(), Some("sync: EIO"));
    }
}
