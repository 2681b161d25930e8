//! The thread that reads the audit trail for permitted clients, so that no event loop waits for its files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use audit::{AuditError, Item, Walk};
use directory::Outcome;
use ldap::{ResultCode, TrailAnswer, TrailPiece, TrailPosition, TrailRequest};

use crate::limits::{TRAIL_ANSWER_BYTES, TRAIL_READS_MAX};
use crate::net::mailbox::{Address, LoopMessage, Mailbox, Written};

/// The thread and its queue. Dropping it ends the thread after its present job.
pub(crate) struct TrailReader {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

struct Queue {
    folder: PathBuf,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<(Address, TrailRequest)>,
    closed: bool,
}

impl TrailReader {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(folder: &Path, mailboxes: &Arc<[Mailbox]>) -> std::io::Result<TrailReader> {
        let (waiting, arrived) = (Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { folder: folder.to_owned(), waiting, arrived });
        let (own, mailboxes) = (Arc::clone(&queue), Arc::clone(mailboxes));
        let thread =
            std::thread::Builder::new().name("pando-trail".to_owned()).spawn(move || own.work(&mailboxes))?;
        Ok(TrailReader { queue, thread: Some(thread) })
    }

    /// Queues a request; the answer goes to the mailbox of its event loop. Returns false if too many wait.
    pub(crate) fn submit(&self, address: Address, asked: TrailRequest) -> bool {
        let mut waiting = self.queue.lock();
        if waiting.jobs.len() >= TRAIL_READS_MAX {
            return false;
        }
        waiting.jobs.push_back((address, asked));
        drop(waiting);
        self.queue.arrived.notify_one();
        true
    }
}

impl Drop for TrailReader {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn work(&self, mailboxes: &[Mailbox]) {
        while let Some((address, asked)) = self.next() {
            let (outcome, value) = match read(&self.folder, asked) {
                Ok(value) => (Outcome::success(), Some(value)),
                Err(error) => {
                    tracing::error!(%error, "the audit trail cannot be read for a client");
                    let text = "the audit trail cannot be read: the server's log says why";
                    (Outcome::new(ResultCode::OTHER, text), None)
                }
            };
            let answer = Written { address, outcome, value, position: None, positions: Vec::new() };
            if let Some(mailbox) = mailboxes.get(usize::from(address.event_loop)) {
                mailbox.post(LoopMessage::Written(vec![answer]));
            }
        }
    }

    fn next(&self) -> Option<(Address, TrailRequest)> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A panic under the lock cannot leave half a job, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads blocks from a place on, about [`TRAIL_ANSWER_BYTES`] of them.
fn read(folder: &Path, asked: TrailRequest) -> Result<Vec<u8>, AuditError> {
    let mut walk = match asked.from {
        Some(TrailPosition { segment, offset }) => Walk::resume(folder, segment, offset)?,
        None => Walk::begin(folder)?,
    };
    let start = asked.from.unwrap_or(TrailPosition { segment: 0, offset: 0 });
    let mut read: Vec<(u64, u64, Vec<u8>)> = Vec::new();
    // Damage goes with the block that it stands before: `read` has as many blocks then.
    let mut notes: Vec<(usize, String)> = Vec::new();
    let (mut bytes, mut is_end, mut torn) = (0, false, None);
    let mut next = start;
    while bytes < TRAIL_ANSWER_BYTES {
        match walk.follow()? {
            None => {
                is_end = true;
                break;
            }
            Some(Item::Torn(place)) => {
                // The block may be being written: the next request reads it again.
                torn = Some(place.to_string());
                next = TrailPosition { segment: place.segment, offset: place.offset };
                is_end = true;
                break;
            }
            Some(Item::Damage(place, damage)) => {
                let note = format!("{place}: {damage}");
                bytes += note.len();
                notes.push((read.len(), note));
            }
            Some(Item::Block(block)) => {
                if block.written_micros >= asked.since_micros && !block.is_anchor {
                    bytes += block.events.len();
                    read.push((block.number, block.written_micros, block.events));
                }
                let end = block.place.offset + block.place.length;
                next = TrailPosition { segment: block.place.segment, offset: end };
            }
        }
    }
    let mut pieces = Vec::with_capacity(read.len() + notes.len());
    let mut noted = notes.iter().peekable();
    for (index, (number, micros, events)) in read.iter().enumerate() {
        while let Some((_, note)) = noted.next_if(|(before, _)| *before <= index) {
            pieces.push(TrailPiece::Damage(note));
        }
        pieces.push(TrailPiece::Block(*number, *micros, events));
    }
    pieces.extend(noted.map(|(_, note)| TrailPiece::Damage(note)));
    pieces.extend(torn.as_deref().map(TrailPiece::Torn));
    Ok(TrailAnswer { next, is_end, pieces }.encode())
}
