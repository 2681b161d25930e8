//! The thread that reads the log for replicas.
//!
//! A replica requests the records after its position. If there are none, the request waits for the next commit, up to
//! the time in the request. Therefore the server holds at most one answer of bounded size per replica. A slow replica
//! delays no other replica, because it requests more records only when it is ready. The records are read and encoded
//! once for replicas at the same position, and these replicas are answered together ([`pace`]).
//!
//! The thread starts with the first request.

mod blocks;
mod comparison;
mod consumers;
mod pace;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use directory::{Directory, OperationError, Outcome, Snapshot};
use ldap::{LogAnswer, LogPart, ResultCode};
use replication::comparison::Report;
use replication::{Lineage, Refusal, RetainedLog};
use sha2::{Digest, Sha256};

use self::blocks::{Blocks, Frame, RecordRange};
use self::comparison::Comparisons;
pub(crate) use self::consumers::{Consumer, Consumers};
use self::pace::Pace;
use crate::limits::{LOG_READS_MAX, LOG_WAIT_MAX};
use crate::net::mailbox::{Address, LoopMessage, Mailbox, SharedValue, Written};

/// Size of a record's digest in a request, in octets.
pub(crate) const RECORD_DIGEST_BYTES: usize = 16;

/// A decoded and validated request of a replica.
pub(crate) struct LogRead {
    pub(crate) address: Address,
    pub(crate) generation: [u8; 16],
    /// Position of the last record that the replica has.
    pub(crate) position: u64,
    /// Digest of the record at `position`, if it must be compared.
    pub(crate) digest: Option<[u8; RECORD_DIGEST_BYTES]>,
    pub(crate) lineage: Lineage,
    pub(crate) bytes_max: usize,
    /// Time at which the request is answered even without records.
    pub(crate) until: Instant,
    pub(crate) consumer: Consumer,
    /// Digests of the replica's data at a digest barrier.
    pub(crate) report: Option<Report>,
}

/// The thread and its queue. Dropping this struct ends the thread.
pub(crate) struct LogReader {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    /// Weak because the directory owns the monitor, and the monitor owns this reader.
    directory: Weak<Directory>,
    /// See [`LogReader::new`].
    generations: [[u8; 16]; 2],
    mailboxes: Arc<[Mailbox]>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// Whether the next commit must wake the thread.
    wants_commit: AtomicBool,
    consumers: Consumers,
    comparisons: Comparisons,
}

#[derive(Default)]
struct Waiting {
    arrived: Vec<LogRead>,
    /// Number of unanswered requests: the requests in `arrived`, and the requests that the thread has taken.
    count: usize,
    has_commit: bool,
    /// End of the thread's pause. Until then the thread is woken only by urgent requests.
    pause_end: Option<Instant>,
    /// Position up to which records are sent during the pause.
    served: u64,
    /// Whether an urgent request has arrived.
    has_urgent: bool,
    is_closed: bool,
}

impl Waiting {
    /// Adds a request. Returns true if the thread must be woken for it.
    fn add(&mut self, read: LogRead) -> bool {
        let is_urgent = self.is_urgent(&read);
        self.has_urgent |= is_urgent;
        self.count += 1;
        self.arrived.push(read);
        is_urgent
    }

    /// Returns true if a request is urgent: it cannot wait for the end of the pause, because the replica lacks records
    /// that are sent already or the deadline is earlier.
    fn is_urgent(&self, read: &LogRead) -> bool {
        self.pause_end.is_none_or(|end| read.position < self.served || read.until < end)
    }
}

/// Reason why a request is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestRefusal {
    #[error("too many replicas wait for records here: try again later")]
    TooMany,
    #[error("the system gives no thread: {0}")]
    NoThread(#[from] io::Error),
}

impl LogReader {
    /// Creates a reader of the log. `generations` are the names of the data in `directory`: the generation that clients
    /// receive, and the secret generation that replicas know from their copy of the data.
    pub(crate) fn new(
        directory: &Arc<Directory>,
        generations: [[u8; 16]; 2],
        mailboxes: &Arc<[Mailbox]>,
    ) -> LogReader {
        let inner = Inner {
            directory: Arc::downgrade(directory),
            generations,
            mailboxes: Arc::clone(mailboxes),
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            wants_commit: AtomicBool::new(false),
            consumers: Consumers::default(),
            comparisons: Comparisons::default(),
        };
        LogReader { inner: Arc::new(inner), thread: Mutex::default() }
    }

    /// Returns true if `generation` identifies the data of this server.
    pub(crate) fn is_same_data(&self, generation: &[u8; 16]) -> bool {
        self.inner.generations.contains(generation)
    }

    /// Queues a request. The answer goes to the mailbox of the event loop in the request's address.
    ///
    /// # Errors
    /// Too many requests wait, or the thread cannot be started.
    pub(crate) fn submit(&self, read: LogRead) -> Result<(), RequestRefusal> {
        {
            let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
            if thread.is_none() {
                let inner = Arc::clone(&self.inner);
                let work = move || inner.work();
                *thread = Some(std::thread::Builder::new().name("pando-log".to_owned()).spawn(work)?);
            }
        }
        let mut waiting = self.inner.lock();
        if waiting.count >= LOG_READS_MAX {
            return Err(RequestRefusal::TooMany);
        }
        let wakes = waiting.add(read);
        drop(waiting);
        if wakes {
            self.inner.arrived.notify_one();
        }
        Ok(())
    }

    /// Ends the threads, because their snapshots keep the directory open.
    pub(crate) fn stop(&self) {
        self.inner.lock().is_closed = true;
        self.inner.arrived.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread returns no result.
            let _ = thread.join();
        }
        self.inner.comparisons.stop();
    }

    /// Notifies the thread of a commit. Costs one load if no replica waits.
    #[inline]
    pub(crate) fn committed(&self) {
        if self.inner.wants_commit.load(Ordering::SeqCst) {
            self.inner.wake();
        }
    }

    /// Returns the replicas that sent requests recently.
    pub(crate) fn consumers(&self) -> Vec<(u64, Consumer)> {
        self.inner.consumers.all(Instant::now())
    }

    /// Returns the number of comparisons with replicas that found a difference.
    pub(crate) fn differences(&self) -> u64 {
        self.inner.comparisons.differences()
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inner {
    #[cold]
    fn wake(&self) {
        if self.wants_commit.swap(false, Ordering::SeqCst) {
            self.lock().has_commit = true;
            self.arrived.notify_one();
        }
    }

    /// Answers requests until the reader is dropped.
    fn work(&self) {
        let (mut reads, mut blocks) = (Vec::new(), Blocks::default());
        let (mut snapshot, mut pace) = (None, Pace::default());
        while self.fetch(&mut reads, &pace) {
            // A later commit wakes the thread. An earlier commit is in the snapshot that is renewed below.
            self.wants_commit.store(true, Ordering::SeqCst);
            let answered = self.answer_ready(&mut snapshot, &mut reads, &mut blocks, &mut pace);
            if let Err(error) = answered {
                tracing::error!(%error, "the log cannot be read for replicas");
                let text = "the log cannot be read: the server's log says why";
                let refusal = |read: &LogRead| refused(read, ResultCode::OTHER, text);
                self.post(reads.drain(..).map(|read| refusal(&read)));
            }
            if reads.is_empty() || pace.pause_end().is_some() {
                self.wants_commit.store(false, Ordering::SeqCst);
            }
            if let Some(snapshot) = &mut snapshot {
                snapshot.park();
            }
        }
    }

    /// Waits for a request, a commit, or the deadline of one of `reads`. During a pause, waits only for its end or an
    /// urgent request. Returns false when the reader is dropped.
    fn fetch(&self, reads: &mut Vec<LogRead>, pace: &Pace) -> bool {
        let mut waiting = self.lock();
        waiting.count = reads.len() + waiting.arrived.len();
        (waiting.pause_end, waiting.served) = (pace.pause_end(), pace.served());
        // Urgent requests may have arrived while the thread worked.
        waiting.has_urgent = waiting.arrived.iter().any(|read| waiting.is_urgent(read));
        loop {
            if waiting.is_closed {
                return false;
            }
            let has_work = match waiting.pause_end {
                Some(_) => waiting.has_urgent,
                None => !waiting.arrived.is_empty() || waiting.has_commit,
            };
            let until = reads.iter().map(|read| read.until).chain(waiting.pause_end).min();
            let patience = until.map(|until| until.saturating_duration_since(Instant::now()));
            if has_work || patience.is_some_and(|patience| patience.is_zero()) {
                reads.append(&mut waiting.arrived);
                (waiting.has_commit, waiting.has_urgent) = (false, false);
                return true;
            }
            waiting = match patience {
                None => self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    self.arrived.wait_timeout(waiting, patience).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Answers the requests in `reads` that need not wait. Leaves the other requests in `reads`.
    fn answer_ready(
        &self,
        snapshot: &mut Option<Snapshot>,
        reads: &mut Vec<LogRead>,
        blocks: &mut Blocks,
        pace: &mut Pace,
    ) -> Result<(), OperationError> {
        let directory = self.directory.upgrade();
        let snapshot = match snapshot {
            Some(snapshot) => {
                snapshot.renew()?;
                snapshot
            }
            None => match &directory {
                Some(directory) => snapshot.insert(directory.snapshot()?),
                // The server has stopped, so no replica awaits an answer.
                None => {
                    reads.clear();
                    return Ok(());
                }
            },
        };
        let (newest, now) = (snapshot.position()?, Instant::now());
        pace.go_on(newest, now);
        if let Some(directory) = directory.filter(|_| !reads.is_empty()) {
            self.comparisons.go_on(now, || Ok(directory.snapshot()?))?;
        }
        let supplier = Supplier {
            snapshot,
            newest,
            served: pace.served(),
            generations: self.generations,
            lineage: Lineage::decode(snapshot.lineage()?).unwrap_or_default(),
            comparisons: &self.comparisons,
        };
        let (answers, answered) = answer_until_error(reads, |read| {
            let Some((value, is_served)) = supplier.answer(read, now, blocks)? else { return Ok(None) };
            if is_served {
                self.consumers.note(read.address.connection, &read.consumer, newest, now);
            }
            Ok(Some(written(read, Outcome::success(), Some(value))))
        });
        pace.answered(answers.len(), now);
        self.post(answers.into_iter());
        answered
    }

    /// Sends answers to their event loops, one message per event loop.
    fn post(&self, answers: impl Iterator<Item = Written>) {
        let mut of_loops: Vec<Vec<Written>> = self.mailboxes.iter().map(|_| Vec::new()).collect();
        for answer in answers {
            if let Some(of_loop) = of_loops.get_mut(usize::from(answer.address.event_loop)) {
                of_loop.push(answer);
            }
        }
        for (mailbox, answers) in self.mailboxes.iter().zip(of_loops) {
            if !answers.is_empty() {
                mailbox.post(LoopMessage::Written(answers));
            }
        }
    }

    /// A panic under the lock cannot leave half a request. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The data of this server at one position, from which replicas are answered.
struct Supplier<'s> {
    snapshot: &'s Snapshot,
    newest: u64,
    /// Position up to which records are sent to replicas that wait.
    served: u64,
    generations: [[u8; 16]; 2],
    lineage: Lineage,
    comparisons: &'s Comparisons,
}

impl Supplier<'_> {
    /// Returns the value of the answer, and whether the replica may receive records. Returns `None` if the request must
    /// wait.
    fn answer(
        &self,
        read: &LogRead,
        now: Instant,
        blocks: &mut Blocks,
    ) -> Result<Option<(SharedValue, bool)>, OperationError> {
        let first = read.position + 1;
        if let Some(refusal) = self.refusal(read)? {
            return Ok(Some((self.without_records(refusal, &[]), false)));
        }
        let has_waited = read.until <= now;
        let up_to = if has_waited { self.newest } else { self.served };
        if up_to >= first {
            let wanted = RecordRange { first, up_to, bytes_max: read.bytes_max };
            let (lineage, notice) = (self.lineage.encode(), self.comparisons.notice(read));
            let frame = Frame { newest: self.newest, lineage, notice };
            return Ok(Some((blocks.answer(self.snapshot, wanted, frame)?, true)));
        }
        let none = || LogPart::Records { first, records: Vec::new() };
        let nothing = || self.without_records(none(), &self.comparisons.notice(read));
        Ok(has_waited.then(|| (nothing(), true)))
    }

    fn without_records(&self, part: LogPart<'_>, comparison: &[u8]) -> SharedValue {
        let lineage = &self.lineage.encode();
        Arc::new(LogAnswer { newest: self.newest, lineage, part, comparison }.encode())
    }

    /// Returns the answer that refuses records, if the replica's data or position does not permit sending them.
    fn refusal(&self, read: &LogRead) -> Result<Option<LogPart<'static>>, OperationError> {
        if !self.generations.contains(&read.generation) {
            return Ok(Some(LogPart::OtherData));
        }
        let first = self.snapshot.first_log_position()?.unwrap_or(self.newest + 1);
        let log = RetainedLog { first, newest: self.newest };
        match self.lineage.refusal(log, &read.lineage, read.position) {
            Some(Refusal::Replaced) => return Ok(Some(LogPart::Replaced)),
            Some(Refusal::Diverged(since)) => return Ok(Some(LogPart::Diverged(since))),
            Some(Refusal::Trimmed(first)) => return Ok(Some(LogPart::Trimmed(first))),
            None => {}
        }
        if let Some(expected) = read.digest
            && let Some((position, record)) = self.snapshot.log_records(read.position).next().transpose()?
            && position == read.position
            && record_digest(record) != expected
        {
            return Ok(Some(LogPart::Diverged(read.position)));
        }
        Ok(None)
    }
}

/// Calls `answer` for each request, up to the first error. Returns the answers. Leaves the requests without an answer
/// in `reads`, so that the caller can refuse them after an error.
fn answer_until_error<R, A, E>(
    reads: &mut Vec<R>,
    mut answer: impl FnMut(&R) -> Result<Option<A>, E>,
) -> (Vec<A>, Result<(), E>) {
    let (mut answers, mut result) = (Vec::new(), Ok(()));
    reads.retain(|read| {
        if result.is_err() {
            return true;
        }
        match answer(read) {
            Ok(Some(answer)) => {
                answers.push(answer);
                false
            }
            Ok(None) => true,
            Err(error) => {
                result = Err(error);
                true
            }
        }
    });
    (answers, result)
}

/// Returns the digest of a record. A replica sends the digest of its last record. The supplier compares this digest
/// with the digest of its own record at the same position.
pub(crate) fn record_digest(record: &[u8]) -> [u8; RECORD_DIGEST_BYTES] {
    let digest: [u8; 32] = Sha256::digest(record).into();
    let mut short = [0; RECORD_DIGEST_BYTES];
    short.copy_from_slice(digest.get(..RECORD_DIGEST_BYTES).unwrap_or_default());
    short
}

/// Returns the deadline of a request that arrived at `now` and waits for at most `wait_ms` milliseconds. The wait is
/// limited to [`LOG_WAIT_MAX`].
pub(crate) fn wait_until(now: Instant, wait_ms: u32) -> Instant {
    now + Duration::from_millis(wait_ms.into()).min(LOG_WAIT_MAX)
}

fn refused(read: &LogRead, code: ResultCode, text: &str) -> Written {
    written(read, Outcome::new(code, text), None)
}

fn written(read: &LogRead, outcome: Outcome, value: Option<SharedValue>) -> Written {
    Written::of_extended(read.address, outcome, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After an error, the requests without an answer were dropped. Their replicas waited for the end of a timeout.
    #[test]
    fn an_error_leaves_the_requests_without_an_answer() {
        let mut reads = vec![1, 2, 3, 4, 5];
        let (answers, result) = answer_until_error(&mut reads, |read| match read {
            1 | 5 => Ok(Some(10 * read)),
            2 => Ok(None),
            3 => Err("damaged"),
            other => panic!("{other} follows the error"),
        });
        assert_eq!((answers, result), (vec![10], Err("damaged")));
        assert_eq!(reads, [2, 3, 4, 5]);
        let (answers, result) =
            answer_until_error(&mut reads, |read| Ok::<_, ()>((*read > 2).then_some(*read)));
        assert_eq!((answers, result, reads), (vec![3, 4, 5], Ok(()), vec![2]));
    }
}
