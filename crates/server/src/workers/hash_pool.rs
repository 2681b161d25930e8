//! A bounded pool of threads for what is slow on purpose: verifying and making password hashes.
//!
//! Argon2id takes about 20 ms and 19 MiB a password, on an event loop that would be 20 ms for everybody. The number of
//! threads bounds memory and processor time, the length of the queue bounds how long anybody waits; beyond it the
//! answer is busy. Right passwords that are stored as fast salted digests never come here; wrong ones do, since every
//! failure costs the same.
//!
//! Whoever submits a job holds a [`HashClaim`] while it waits for the result. A job without its claim costs nothing: a
//! thread throws it away, and a full queue makes room of such. So clients that have gone keep nobody waiting.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use directory::ServerFault;
use directory::password::{self, StorageScheme, Verification};

use crate::limits::HASH_JOBS_PER_THREAD_MAX;
use crate::net::mailbox::{
    Address, HashDone, HashResult, HashedPasswords, LoopMessage, Mailbox, PreparedPasswords,
};
use crate::stamp::Random;

/// Work for the pool. No `Debug`: it carries passwords.
struct HashJob {
    /// Where the result goes.
    address: Address,
    work: HashWork,
    /// Gone when nobody waits any more.
    claim: Weak<()>,
}

/// The right to the result of a job. The job is worth nothing without it.
#[derive(Debug)]
pub(crate) struct HashClaim {
    _alive: Arc<()>,
}

/// What the pool has done.
#[derive(Debug, Default)]
pub(crate) struct HashFigures {
    /// Jobs that were taken.
    pub(crate) submitted: AtomicU64,
    /// Jobs that were refused, because the queue was full.
    pub(crate) refused: AtomicU64,
    /// Jobs thrown away, because nobody waited for them any more.
    pub(crate) dropped: AtomicU64,
    /// Slow hashes computed for passwords to be verified.
    pub(crate) verified: AtomicU64,
}

/// What to do.
pub(crate) enum HashWork {
    /// Is `asserted` the password?
    Verify { verification: Verification, asserted: Vec<u8> },
    /// Prepare the passwords of a change.
    Prepare(ChangedPasswords),
}

/// The passwords of a change, before work.
pub(crate) struct ChangedPasswords {
    pub(crate) scheme: StorageScheme,
    /// Clear ones that come: their stored forms are to be made.
    pub(crate) new: Vec<Vec<u8>>,
    /// Clear ones that go, each with the stored forms of which one may be its own.
    pub(crate) old: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
}

impl ChangedPasswords {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    /// How many times a password is to be hashed, at most.
    pub(crate) fn hash_count(&self) -> usize {
        self.new.len() + self.old.iter().map(|(_, stored)| stored.len()).sum::<usize>()
    }

    /// Whether this belongs on the pool.
    pub(crate) fn is_slow(&self) -> bool {
        let mut stored = self.old.iter().flat_map(|(_, stored)| stored);
        (!self.new.is_empty() && self.scheme.is_slow()) || stored.any(|stored| password::is_slow(stored))
    }

    /// Does the work, on whatever thread this is.
    ///
    /// # Errors
    /// The system gave no random salt.
    pub(crate) fn prepare(self, random: &mut Random) -> Result<PreparedPasswords, getrandom::Error> {
        let hashed = hash_all(self.scheme, self.new, random)?;
        let matching = self.old.into_iter().filter_map(|(clear, stored)| {
            let stored = stored.into_iter().find(|stored| password::verify(stored, &clear))?;
            Some((clear, stored))
        });
        Ok(PreparedPasswords { hashed, matched: matching.collect() })
    }
}

/// Says who waits, never what was hashed.
/// The pool. Dropping it finishes what is queued and ends the threads.
#[derive(Debug)]
pub(crate) struct HashPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    jobs_max: usize,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    work_arrived: Condvar,
    figures: Arc<HashFigures>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<HashJob>,
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("jobs", &self.jobs.len()).field("closed", &self.closed).finish()
    }
}

impl HashPool {
    /// Starts `threads` threads, at least one. Results go to the mailbox of the event loop that asked.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(threads: usize, mailboxes: Arc<[Mailbox]>) -> std::io::Result<HashPool> {
        let queue = Arc::new(Queue::default());
        let threads = threads.max(1);
        let jobs_max = threads * HASH_JOBS_PER_THREAD_MAX;
        let mut pool = HashPool { queue: Arc::clone(&queue), threads: Vec::new(), jobs_max };
        for index in 0..threads {
            let (queue, mailboxes) = (Arc::clone(&queue), Arc::clone(&mailboxes));
            let thread = std::thread::Builder::new()
                .name(format!("pando-hash-{index}"))
                .spawn(move || work(&queue, &mailboxes))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Queues a job, whose result goes to `address` as long as the claim is held; `None` when the queue is full.
    pub(crate) fn submit(&self, address: Address, work: HashWork) -> Option<HashClaim> {
        let figures = &self.queue.figures;
        let mut state = self.queue.lock();
        if state.jobs.len() >= self.jobs_max {
            state.drop_unclaimed(figures);
        }
        if state.jobs.len() >= self.jobs_max {
            figures.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let alive = Arc::new(());
        state.jobs.push_back(HashJob { address, work, claim: Arc::downgrade(&alive) });
        drop(state);
        figures.submitted.fetch_add(1, Ordering::Relaxed);
        self.queue.work_arrived.notify_one();
        Some(HashClaim { _alive: alive })
    }

    /// What it has done.
    pub(crate) fn figures(&self) -> Arc<HashFigures> {
        Arc::clone(&self.queue.figures)
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.work_arrived.notify_all();
        for thread in self.threads.drain(..) {
            // A thread only ends early by a panic outside of the guarded work; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Jobs are pushed and popped whole, so a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` when the pool is closed and everything is done.
    fn next(&self) -> Option<HashJob> {
        let mut state = self.lock();
        loop {
            while let Some(job) = state.jobs.pop_front() {
                if job.is_claimed() {
                    return Some(job);
                }
                self.figures.dropped.fetch_add(1, Ordering::Relaxed);
            }
            if state.closed {
                return None;
            }
            state = self.work_arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl HashJob {
    fn is_claimed(&self) -> bool {
        self.claim.strong_count() > 0
    }
}

impl State {
    /// Throws away the jobs that nobody waits for.
    fn drop_unclaimed(&mut self, figures: &HashFigures) {
        let before = self.jobs.len();
        self.jobs.retain(HashJob::is_claimed);
        figures.dropped.fetch_add((before - self.jobs.len()) as u64, Ordering::Relaxed);
    }
}

fn work(queue: &Queue, mailboxes: &[Mailbox]) {
    let mut random = Random::default();
    while let Some(HashJob { address, work, .. }) = queue.next() {
        // Hashing runs on bytes that a peer chose, through libraries: a bug there costs one answer, not the pool.
        let result = catch_unwind(AssertUnwindSafe(|| perform(work, &mut random, &queue.figures)))
            .unwrap_or(HashResult::Failed(ServerFault::Defect));
        if let Some(mailbox) = mailboxes.get(usize::from(address.event_loop)) {
            mailbox.post(LoopMessage::Hashed(HashDone { address, result }));
        }
    }
}

/// Does a job, on whatever thread this is.
fn perform(work: HashWork, random: &mut Random, figures: &HashFigures) -> HashResult {
    match work {
        HashWork::Verify { verification, asserted } => {
            let verified = verification.run(&asserted);
            figures.verified.fetch_add(verified.hash_count.into(), Ordering::Relaxed);
            HashResult::Verified(verified.is_right)
        }
        HashWork::Prepare(passwords) => {
            passwords.prepare(random).map_or(HashResult::Failed(ServerFault::Random), HashResult::Prepared)
        }
    }
}

/// The stored forms of some clear passwords, each with a salt of its own.
///
/// # Errors
/// The system gave no random salt.
pub(crate) fn hash_all(
    scheme: StorageScheme,
    clear: Vec<Vec<u8>>,
    random: &mut Random,
) -> Result<HashedPasswords, getrandom::Error> {
    let mut hashed = Vec::with_capacity(clear.len());
    for clear in clear {
        let stored = password::hash(scheme, &clear, &random.bytes()?);
        hashed.push((clear, stored));
    }
    Ok(hashed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll, Token, Waker};

    use super::*;

    /// A pool with its one mailbox.
    struct Sample {
        poll: Poll,
        mailboxes: Arc<[Mailbox]>,
        pool: HashPool,
    }

    impl Sample {
        fn start(threads: usize) -> Sample {
            let poll = Poll::new().unwrap();
            let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
            let mailboxes: Arc<[Mailbox]> = [mailbox].into();
            let pool = HashPool::start(threads, Arc::clone(&mailboxes)).unwrap();
            Sample { poll, mailboxes, pool }
        }

        fn submit(&self, ticket: u64, work: HashWork) -> Option<HashClaim> {
            self.pool.submit(Address { event_loop: 0, slot: 3, connection: 9, ticket }, work)
        }

        /// Waits for as many results.
        fn take(&mut self, count: usize) -> Vec<HashDone> {
            let mut done = Vec::new();
            while done.len() < count {
                self.poll.poll(&mut Events::with_capacity(1), Some(Duration::from_secs(60))).unwrap();
                let mut messages = Vec::new();
                self.mailboxes[0].take(&mut messages);
                done.extend(messages.into_iter().map(|message| match message {
                    LoopMessage::Hashed(done) => done,
                    other => panic!("{other:?}"),
                }));
            }
            done
        }
    }

    fn verify(stored: Vec<Vec<u8>>, asserted: &[u8]) -> HashWork {
        let verification = Verification::new(stored, StorageScheme::Argon2id);
        HashWork::Verify { verification, asserted: asserted.to_vec() }
    }

    #[test]
    fn jobs_are_done_and_answered() {
        let mut sample = Sample::start(2);
        let clear = vec![b"one".to_vec(), b"two".to_vec()];
        let old_stored = password::hash(StorageScheme::Argon2id, b"old", &[8; 16]);
        let old = vec![
            (b"old".to_vec(), vec![b"{SSHA}AAAA".to_vec(), old_stored.clone()]),
            (b"wrong".to_vec(), vec![old_stored.clone()]),
        ];
        let passwords = ChangedPasswords { scheme: StorageScheme::Ssha512, new: clear, old };
        assert!(passwords.is_slow() && passwords.hash_count() == 5);
        let _prepares = sample.submit(1, HashWork::Prepare(passwords)).unwrap();
        let stored = password::hash(StorageScheme::Argon2id, b"secret", &[7; 16]);
        let _verifies = sample.submit(2, verify(vec![b"other".to_vec(), stored], b"secret")).unwrap();
        for HashDone { address, result } in sample.take(2) {
            match result {
                HashResult::Verified(right) => assert!(right && address.ticket == 2),
                HashResult::Prepared(PreparedPasswords { hashed: pairs, matched }) => {
                    assert_eq!(address.ticket, 1);
                    assert_eq!(matched, [(b"old".to_vec(), old_stored.clone())]);
                    assert!(pairs.iter().all(|(clear, stored)| password::verify(stored, clear)));
                    assert_eq!(pairs.len(), 2);
                }
                HashResult::Failed(fault) => panic!("{fault:?}"),
            }
        }
    }

    /// The story: 1,500 binds of clients that had gone were hashed before the bind of one that waited, for 4 s.
    #[test]
    fn jobs_that_nobody_waits_for_are_not_done() {
        let mut sample = Sample::start(1);
        let figures = sample.pool.figures();
        let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        // Nothing is taken from the queue while the lock is held, so all of them stand in it before the thread looks.
        let claims: Vec<_> = {
            let mut state = sample.pool.queue.lock();
            let fill = |ticket: u64| {
                let alive = Arc::new(());
                let address = Address { event_loop: 0, slot: 3, connection: 9, ticket };
                let job = HashJob { address, work: verify(Vec::new(), b"x"), claim: Arc::downgrade(&alive) };
                (job, alive)
            };
            let (jobs, claims): (Vec<_>, Vec<_>) = (0..HASH_JOBS_PER_THREAD_MAX as u64).map(fill).unzip();
            state.jobs.extend(jobs);
            drop(claims);
            // The queue is full, of jobs that nobody waits for.
            state.drop_unclaimed(&figures);
            assert_eq!((state.jobs.len(), count(&figures.dropped)), (0, HASH_JOBS_PER_THREAD_MAX as u64));
            let (jobs, claims): (Vec<_>, Vec<_>) = (0..100).map(fill).unzip();
            state.jobs.extend(jobs);
            claims.into_iter().skip(99).collect()
        };
        let last = sample.submit(100, verify(Vec::new(), b"x")).unwrap();
        let done = sample.take(2);
        assert_eq!(done.iter().map(|done| done.address.ticket).collect::<Vec<_>>(), [99, 100]);
        assert_eq!(count(&figures.verified), 2, "hashes done");
        assert_eq!(count(&figures.dropped), HASH_JOBS_PER_THREAD_MAX as u64 + 99);
        drop((claims, last));
    }

    #[test]
    fn a_full_queue_takes_no_more_unless_somebody_has_gone() {
        let sample = Sample::start(1);
        // The thread takes some meanwhile, but each of them costs it milliseconds.
        let submitted = std::iter::repeat_with(|| sample.submit(0, verify(Vec::new(), b"x")));
        let claims: Vec<_> = submitted.map_while(|claim| claim).collect();
        assert!(claims.len() >= HASH_JOBS_PER_THREAD_MAX);
        assert!(sample.pool.figures().refused.load(Ordering::Relaxed) == 1);
        drop(claims);
        assert!(sample.submit(1, verify(Vec::new(), b"x")).is_some());
    }
}
