//! The thread that notifies event loops when a delayed answer is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::net::mailbox::{Address, LoopMessage, Mailbox};

/// The thread and its queue. Dropping this struct ends the thread, without notifications for the answers that still
/// wait.
pub(crate) struct Delays {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Answers that wait, ordered by time. Answers with equal times are ordered by number.
    answers: BinaryHeap<Reverse<(Instant, u64)>>,
    addresses: std::collections::HashMap<u64, Address>,
    next: u64,
    closed: bool,
}

impl Delays {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(mailboxes: Arc<[Mailbox]>) -> std::io::Result<Delays> {
        let queue = Arc::new(Queue::default());
        let own = Arc::clone(&queue);
        let thread =
            std::thread::Builder::new().name("pando-delays".to_owned()).spawn(move || own.run(&mailboxes))?;
        Ok(Delays { queue, thread: Some(thread) })
    }

    /// Posts [`LoopMessage::Delayed`] at the time `at`.
    pub(crate) fn post_at(&self, at: Instant, address: Address) {
        let mut waiting = self.queue.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.answers.push(Reverse((at, number)));
        waiting.addresses.insert(number, address);
        drop(waiting);
        self.queue.changed.notify_one();
    }
}

impl Drop for Delays {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn run(&self, mailboxes: &[Mailbox]) {
        let mut waiting = self.lock();
        while !waiting.closed {
            let now = Instant::now();
            match waiting.answers.peek() {
                None => waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(Reverse((at, number))) if *at <= now => {
                    let number = *number;
                    waiting.answers.pop();
                    let address = waiting.addresses.remove(&number);
                    if let Some(address) = address
                        && let Some(mailbox) = mailboxes.get(usize::from(address.event_loop))
                    {
                        mailbox.post(LoopMessage::Delayed(address));
                    }
                }
                Some(Reverse((at, _))) => {
                    let limit = at.saturating_duration_since(now);
                    let woken = self.changed.wait_timeout(waiting, limit);
                    waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// The queue is consistent after every step, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
