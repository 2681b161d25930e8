//! The writer's queue. It contains reserved room and waiting changes, and sends notices of commits.

mod commit_control;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use directory::rows::EntryId;
use directory::{Outcome, Requester};
use ldap::ResultCode;

use super::{UPDATE_BYTES, WriteRequest, WriterWork};
use crate::limits::{WRITES_QUEUED_BYTES_MAX, WRITES_QUEUED_MAX};
use crate::net::mailbox::{Address, LoopMessage, Mailbox, PreparedPasswords};
use crate::telemetry::limited_warning::LimitedWarning;
use crate::workers::attempts::Attempts;
use crate::workers::audit_feed::AuditFeed;
use crate::workers::log_reader::LogReader;
use crate::workers::read_age::ReadAge;

/// Event loop in the address of a request of the server itself.
const OF_SERVER: u16 = u16::MAX;

/// The writer's queue, which all event loops share.
pub(crate) struct WriteQueue {
    waiting: Mutex<WaitingChanges>,
    work_arrived: Condvar,
    reserved: Mutex<Reserved>,
    /// Number of commits. An event loop whose snapshot is older renews the snapshot before it handles requests.
    /// Therefore every later request, on any connection, sees the changes that were answered.
    commits: AtomicU64,
    /// Whether the next commit must be announced to each event loop.
    wanted_by: Box<[AtomicBool]>,
    pub(super) mailboxes: Arc<[Mailbox]>,
    /// Unrecorded password attempts of all accounts.
    attempts: Attempts,
    /// Queue of the audit trail. It gets a notice of each commit.
    audit: Option<Arc<AuditFeed>>,
    /// Reader of the log for replicas, which gets a notice of each commit.
    log_reader: Option<Arc<LogReader>>,
    /// Age of the data. The queue notifies it when this server becomes the writer or ceases to be the writer.
    read_age: Option<Arc<ReadAge>>,
    /// Whether the writer measures its batches for traces.
    is_timed: bool,
    /// Refusals of changes that were due.
    refused_due: LimitedWarning,
}

/// Room in the queue for `count` changes. That is one change, or more after the reservations of a batch were joined.
/// Dropping the reservation releases the room, whether the change was made, was refused, or ended with its session.
pub(crate) struct Reservation {
    queue: Arc<WriteQueue>,
    count: usize,
    bytes: usize,
}

impl Reservation {
    /// Returns a reservation of no room, for a change that is not submitted to the writer by itself.
    pub(crate) fn none(queue: &Arc<WriteQueue>) -> Reservation {
        Reservation { queue: Arc::clone(queue), count: 0, bytes: 0 }
    }

    /// Returns the number of reserved octets.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes over the room of another reservation, which is empty afterwards.
    pub(super) fn absorb(&mut self, other: &mut Reservation) {
        self.count += std::mem::take(&mut other.count);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Releases the room.
    pub(super) fn release(&mut self) {
        if self.count > 0 {
            self.queue.release(std::mem::take(&mut self.count), std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}

/// The reserved room. A thread never holds both locks of the queue.
#[derive(Default)]
struct Reserved {
    /// Number of changes for which room is reserved: in sessions, in the queue, and in the batch.
    count: usize,
    /// Size of the messages of these changes, in octets.
    bytes: usize,
    /// Whether an event loop found the queue full and must receive [`LoopMessage::WriterHasRoom`].
    wanted: bool,
}

#[derive(Default)]
struct WaitingChanges {
    requests: Vec<WriteRequest>,
    closed: bool,
    /// Whether a replica's thread must stop waiting, because it has other work.
    poked: bool,
}

impl WriteQueue {
    pub(crate) fn new(mailboxes: Arc<[Mailbox]>) -> WriteQueue {
        WriteQueue {
            waiting: Mutex::default(),
            work_arrived: Condvar::new(),
            reserved: Mutex::default(),
            commits: AtomicU64::new(0),
            wanted_by: mailboxes.iter().map(|_| AtomicBool::default()).collect(),
            mailboxes,
            attempts: Attempts::default(),
            audit: None,
            log_reader: None,
            read_age: None,
            is_timed: false,
            refused_due: LimitedWarning::default(),
        }
    }

    /// Makes the queue announce each commit to `log_reader`, and to the audit trail if there is one.
    pub(crate) fn noticed(self, audit: Option<Arc<AuditFeed>>, log_reader: Arc<LogReader>) -> WriteQueue {
        WriteQueue { audit, log_reader: Some(log_reader), ..self }
    }

    /// Sets the age of the data. The queue notifies it when this server becomes the writer or ceases to be the writer.
    pub(crate) fn aging(self, read_age: Option<Arc<ReadAge>>) -> WriteQueue {
        WriteQueue { read_age, ..self }
    }

    /// Records whether this server is the writer from now on.
    pub(super) fn decides(&self, is_writer: bool) {
        if let Some(age) = &self.read_age {
            age.decides(is_writer, Instant::now());
        }
    }

    /// Sets whether the writer measures its batches for traces.
    pub(crate) fn timed(self, is_timed: bool) -> WriteQueue {
        WriteQueue { is_timed, ..self }
    }

    /// Returns true if the writer measures its batches.
    pub(super) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Announces a commit. Each event loop sees the commit before it handles more requests.
    pub(crate) fn committed(&self) {
        self.commits.fetch_add(1, Ordering::SeqCst);
        for (wanted, mailbox) in self.wanted_by.iter().zip(self.mailboxes.iter()) {
            if wanted.load(Ordering::SeqCst) && wanted.swap(false, Ordering::SeqCst) {
                mailbox.post(LoopMessage::Committed);
            }
        }
        if let Some(audit) = &self.audit {
            audit.changed();
        }
        if let Some(log_reader) = &self.log_reader {
            log_reader.committed();
        }
    }

    /// Makes the next commit post [`LoopMessage::Committed`] to an event loop. After the call, the loop must compare
    /// [`commits`](WriteQueue::commits) itself, because it gets no message for earlier commits.
    pub(crate) fn request_commit_notice(&self, event_loop: u16) {
        if let Some(wanted) = self.wanted_by.get(usize::from(event_loop)) {
            wanted.store(true, Ordering::SeqCst);
        }
    }

    /// Reserves room for a message of `bytes` octets. Returns `None` if the queue is full. In that case
    /// [`LoopMessage::WriterHasRoom`] announces when to try again.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let mut reserved = lock(&self.reserved);
        let fits = reserved.count < WRITES_QUEUED_MAX && reserved.bytes + bytes <= WRITES_QUEUED_BYTES_MAX;
        // An empty queue accepts a message of any size. Otherwise a message above the limit would wait forever.
        if fits || reserved.count == 0 {
            reserved.count += 1;
            reserved.bytes += bytes;
            return Some(Reservation { queue: Arc::clone(self), count: 1, bytes });
        }
        reserved.wanted = true;
        None
    }

    fn release(&self, count: usize, bytes: usize) {
        let wanted = {
            let mut reserved = lock(&self.reserved);
            reserved.count -= count;
            reserved.bytes -= bytes;
            std::mem::take(&mut reserved.wanted)
        };
        if wanted {
            self.mailboxes.iter().for_each(|mailbox| mailbox.post(LoopMessage::WriterHasRoom));
        }
    }

    /// Queues the changes in `requests` in their order, and leaves `requests` empty.
    pub(crate) fn submit(&self, requests: &mut Vec<WriteRequest>) {
        if requests.is_empty() {
            return;
        }
        let was_empty = {
            let mut waiting = lock(&self.waiting);
            let was_empty = waiting.requests.is_empty();
            waiting.requests.append(requests);
            was_empty
        };
        if was_empty {
            self.work_arrived.notify_one();
        }
    }

    /// Returns the unrecorded password attempts of all accounts.
    pub(crate) fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    /// Returns a request to record an account's attempts, which are in [`attempts`](WriteQueue::attempts). No client
    /// waits for it. Returns `None` if the queue is full.
    pub(crate) fn account_request(
        self: &Arc<Self>,
        id: EntryId,
        anonymous: &Arc<Requester>,
    ) -> Option<WriteRequest> {
        self.own_request(WriterWork::Account { id, grace: None, totp_step: None }, anonymous)
    }

    /// Returns a request of the server itself, so that no client waits for the answer. Returns `None` if the queue is
    /// full.
    pub(crate) fn own_request(
        self: &Arc<Self>,
        change: WriterWork,
        anonymous: &Arc<Requester>,
    ) -> Option<WriteRequest> {
        Some(WriteRequest {
            address: Address { event_loop: OF_SERVER, slot: 0, connection: 0, ticket: 0 },
            requester: Arc::clone(anonymous),
            link: None,
            change,
            passwords: PreparedPasswords::default(),
            reservation: self.reserve(UPDATE_BYTES)?,
            origin: None,
            keeps_old_values: false,
            is_forwarded: false,
        })
    }

    /// Logs that a request of the server itself for the due changes was refused.
    pub(crate) fn note_due(&self, address: Address, outcome: &Outcome) {
        if address.event_loop != OF_SERVER || outcome.code == ResultCode::SUCCESS {
            return;
        }
        if let Some(more) = self.refused_due.happened(Instant::now()) {
            let (code, text) = (outcome.code, &outcome.diagnostic);
            tracing::warn!("a change that is due is refused with {code}: {text}{more}");
        }
    }

    /// Returns the number of commits since the start.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns the number of changes that have reserved room, for the monitor.
    pub(crate) fn reserved_count(&self) -> usize {
        lock(&self.reserved).count
    }

    /// Makes the writer end after it has made the queued changes.
    pub(crate) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.work_arrived.notify_one();
    }

    /// Moves all waiting changes to the end of `backlog`. If there are none, waits for changes, but for at most
    /// `patience` if it is given.
    pub(crate) fn fetch(&self, backlog: &mut Vec<WriteRequest>, patience: Option<Duration>) -> Fetched {
        let mut waiting = lock(&self.waiting);
        let mut patience = patience;
        while backlog.is_empty() && waiting.requests.is_empty() {
            if waiting.closed {
                return Fetched::Closed;
            }
            if std::mem::take(&mut waiting.poked) {
                return Fetched::Nothing;
            }
            waiting = match patience {
                Some(Duration::ZERO) => return Fetched::Nothing,
                // After a spurious wake-up the wait ends early, which does no harm.
                Some(limit) => {
                    patience = Some(Duration::ZERO);
                    self.work_arrived.wait_timeout(waiting, limit).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.work_arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
        backlog.append(&mut waiting.requests);
        Fetched::Changes
    }
}

/// Result of [`WriteQueue::fetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    Changes,
    /// No change has arrived in time, or the wait was ended by [`poke`](WriteQueue::poke).
    Nothing,
    /// There is no change, and the queue is closed, so that none can follow.
    Closed,
}

/// Every update under the locks is one step. Therefore a poisoned lock is usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{queue, request};
    use super::*;

    fn has_message(queue: &WriteQueue) -> bool {
        let mut answers = Vec::new();
        queue.mailboxes[0].take(&mut answers);
        matches!(answers[..], [LoopMessage::WriterHasRoom])
    }

    #[test]
    fn a_loop_that_found_the_queue_full_is_notified_of_free_space() {
        let (_poll, queue) = queue();
        let large = queue.reserve(WRITES_QUEUED_BYTES_MAX - 1).unwrap();
        let small = queue.reserve(1).unwrap();
        drop(small);
        assert!(!has_message(&queue), "no client waited");
        assert!(queue.reserve(2).is_none());
        drop(large);
        assert!(has_message(&queue));
        assert_eq!(queue.reserved_count(), 0);
        assert!(queue.reserve(2 * WRITES_QUEUED_BYTES_MAX).is_some(), "an empty queue takes any message");
    }

    #[test]
    fn reservations_are_bounded_by_count() {
        let (_poll, queue) = queue();
        let mut reservations: Vec<_> = (0..WRITES_QUEUED_MAX).map(|_| queue.reserve(1).unwrap()).collect();
        assert!(queue.reserve(1).is_none());
        reservations.pop();
        let last = queue.reserve(1);
        assert!(last.is_some() && queue.reserve(1).is_none());
    }

    #[test]
    fn a_closed_queue_returns_its_requests_and_then_ends() {
        let (_poll, queue) = queue();
        queue.submit(&mut vec![request(&queue, 1), request(&queue, 2)]);
        queue.close();
        let mut backlog = Vec::new();
        assert_eq!(queue.fetch(&mut backlog, Some(Duration::ZERO)), Fetched::Changes);
        assert_eq!(backlog.len(), 2);
        backlog.clear();
        assert_eq!(queue.fetch(&mut backlog, None), Fetched::Closed);
    }
}
