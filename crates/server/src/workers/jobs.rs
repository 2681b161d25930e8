//! A thread that performs jobs of sessions in the order received, with a bounded queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use directory::{OperationError, Outcome};

use crate::net::mailbox::{Address, Mailbox, post_extended};

/// The thread and its queue. Dropping this struct ends the thread after its current job.
pub(crate) struct Jobs<J> {
    queue: Arc<Queue<(Address, J)>>,
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
    /// Starts the thread. `work` returns the outcome and the value of an extended response. They go to the mailbox of
    /// the job's event loop.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(
        name: &str,
        jobs_max: usize,
        mailboxes: &Arc<[Mailbox]>,
        mut work: impl FnMut(J) -> (Outcome, Option<Vec<u8>>) + Send + 'static,
    ) -> std::io::Result<Jobs<J>> {
        let waiting = Mutex::new(Waiting { jobs: VecDeque::new(), closed: false });
        let queue = Arc::new(Queue { jobs_max, waiting, arrived: Condvar::new() });
        let (own, mailboxes) = (Arc::clone(&queue), Arc::clone(mailboxes));
        let work = move || {
            while let Some((address, job)) = own.next() {
                // A job contains octets from a client. A defect that such octets trigger must cost one answer, not the
                // thread.
                let worked = catch_unwind(AssertUnwindSafe(|| work(job)));
                let (outcome, value) = worked.unwrap_or_else(|_| {
                    (OperationError::Defect("the request met a defect in the server").into(), None)
                });
                post_extended(&mailboxes, address, outcome, value);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Jobs { queue, thread: Some(thread) })
    }

    /// Queues a job. Returns false if too many jobs wait.
    pub(crate) fn submit(&self, job: (Address, J)) -> bool {
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

    /// A panic under the lock cannot leave half a job. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Waiting<J>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ldap::ResultCode;
    use mio::{Events, Poll, Token, Waker};

    use super::*;
    use crate::net::mailbox::LoopMessage;

    #[test]
    fn a_panic_in_a_job_fails_only_that_job() {
        let mut poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mailboxes: Arc<[Mailbox]> = [mailbox].into();
        let work = |job: &str| {
            assert_ne!(job, "defect", "the test wants this panic");
            (Outcome::success(), Some(job.into()))
        };
        let jobs = Jobs::start("jobs-test", 2, &mailboxes, work).unwrap();
        for (job, code) in [("defect", ResultCode::OTHER), ("fine", ResultCode::SUCCESS)] {
            assert!(jobs.submit((Address { event_loop: 0, slot: 3, connection: 9, ticket: 1 }, job)));
            let mut messages = Vec::new();
            while messages.is_empty() {
                poll.poll(&mut Events::with_capacity(1), Some(Duration::from_secs(60))).unwrap();
                mailboxes[0].take(&mut messages);
            }
            match &messages[..] {
                [LoopMessage::Written(written)] => assert_eq!(written[0].outcome.code, code, "{job}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
