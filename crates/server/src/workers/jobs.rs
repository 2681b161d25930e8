//! A thread that does jobs in their order, with a bounded queue.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use directory::Outcome;

use crate::net::mailbox::{Address, LoopMessage, Mailbox, Written};

/// The thread and its queue. Dropping it ends the thread after its present job.
pub(crate) struct Jobs<J> {
    queue: Arc<Queue<J>>,
    thread: Option<JoinHandle<()>>,
}

struct Queue<J> {
    jobs_max: usize,
    waiting: Mutex<Waiting<J>>,
    arrived: Condvar,
}

struct Waiting<J> {
    jobs: VecDeque<J>,
    closed: bool,
}

impl<J: Send + 'static> Jobs<J> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        name: &str,
        jobs_max: usize,
        mut work: impl FnMut(J) + Send + 'static,
    ) -> std::io::Result<Jobs<J>> {
        let waiting = Mutex::new(Waiting { jobs: VecDeque::new(), closed: false });
        let queue = Arc::new(Queue { jobs_max, waiting, arrived: Condvar::new() });
        let own = Arc::clone(&queue);
        let work = move || {
            while let Some(job) = own.next() {
                work(job);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Jobs { queue, thread: Some(thread) })
    }

    /// Queues a job. Returns false if too many wait.
    pub(crate) fn submit(&self, job: J) -> bool {
        let mut waiting = self.queue.lock();
        if waiting.jobs.len() >= self.queue.jobs_max {
            return false;
        }
        waiting.jobs.push_back(job);
        drop(waiting);
        self.queue.arrived.notify_one();
        true
    }
}

impl<J> Drop for Jobs<J> {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}

impl<J> Queue<J> {
    fn next(&self) -> Option<J> {
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
    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the answer to an extended operation to its event loop.
pub(crate) fn answer(mailboxes: &[Mailbox], address: Address, outcome: Outcome, value: Option<Vec<u8>>) {
    let answer = Written { address, outcome, value, position: None, positions: Vec::new() };
    if let Some(mailbox) = mailboxes.get(usize::from(address.event_loop)) {
        mailbox.post(LoopMessage::Written(vec![answer]));
    }
}
