//! A bounded pool of threads for what is slow on purpose: verifying and making password hashes.
//!
//! Argon2id takes about 20 ms and 19 MiB a password, on an event loop that would be 20 ms for everybody. The number of
//! threads bounds memory and processor time, the length of the queue bounds how long anybody waits; beyond it the answer
//! is busy. Fast salted digests never come here.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use directory::ServerFault;
use directory::password::{self, StorageScheme};

use crate::limits::HASH_JOBS_PER_THREAD_MAX;
use crate::mailbox::{Address, Letter, Mailbox};
use crate::stamp::Random;

/// Pairs of a clear password and its stored form.
pub(crate) type HashedPasswords = Vec<(Vec<u8>, Vec<u8>)>;

/// Work for the pool. No `Debug`: it carries passwords.
pub(crate) struct HashJob {
    /// Who waits for it.
    pub(crate) address: Address,
    pub(crate) work: HashWork,
}

/// What to do.
pub(crate) enum HashWork {
    /// Is `asserted` the password of one of `stored`?
    Verify { stored: Vec<Vec<u8>>, asserted: Vec<u8> },
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

/// The passwords of a change, each clear one with its stored form. No `Debug`: clear passwords are in it.
#[derive(Clone, Default)]
pub(crate) struct PreparedPasswords {
    /// To be stored.
    pub(crate) hashed: HashedPasswords,
    /// To be deleted.
    pub(crate) matched: HashedPasswords,
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
        (!self.new.is_empty() && is_slow_scheme(self.scheme))
            || stored.any(|stored| password::is_slow(stored))
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

/// Work done.
pub(crate) struct HashDone {
    /// Who waits for it.
    pub(crate) address: Address,
    pub(crate) result: HashResult,
}

/// What came of it.
pub(crate) enum HashResult {
    /// Whether the password is right.
    Verified(bool),
    /// The stored forms.
    Prepared(PreparedPasswords),
    /// The system gave no random salt, or a defect was met.
    Failed(ServerFault),
}

/// Says who waits, never what was hashed.
impl std::fmt::Debug for HashDone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashDone").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The pool. Dropping it finishes what is queued and ends the threads.
#[derive(Debug)]
pub(crate) struct HashPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    work_arrived: Condvar,
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
        let mut pool = HashPool { queue: Arc::clone(&queue), threads: Vec::new() };
        for index in 0..threads.max(1) {
            let (queue, mailboxes) = (Arc::clone(&queue), Arc::clone(&mailboxes));
            let thread = std::thread::Builder::new()
                .name(format!("pando-hash-{index}"))
                .spawn(move || work(&queue, &mailboxes))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Queues a job; false when the queue is full.
    pub(crate) fn submit(&self, job: HashJob) -> bool {
        let mut state = self.queue.lock();
        if state.jobs.len() >= self.threads.len() * HASH_JOBS_PER_THREAD_MAX {
            return false;
        }
        state.jobs.push_back(job);
        drop(state);
        self.queue.work_arrived.notify_one();
        true
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
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.work_arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn work(queue: &Queue, mailboxes: &[Mailbox]) {
    let mut random = Random::default();
    while let Some(HashJob { address, work }) = queue.next() {
        // Hashing runs on bytes that a peer chose, through libraries: a bug there costs one answer, not the pool.
        let result = catch_unwind(AssertUnwindSafe(|| perform(work, &mut random)))
            .unwrap_or(HashResult::Failed(ServerFault::Defect));
        if let Some(mailbox) = mailboxes.get(usize::from(address.event_loop)) {
            mailbox.post(Letter::Hashed(HashDone { address, result }));
        }
    }
}

/// Does a job, on whatever thread this is.
fn perform(work: HashWork, random: &mut Random) -> HashResult {
    match work {
        HashWork::Verify { stored, asserted } => {
            HashResult::Verified(stored.iter().any(|stored| password::verify(stored, &asserted)))
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

/// Whether making a stored form takes milliseconds, so that it belongs on the pool. A scheme that is not known here is
/// taken to be slow.
pub(crate) fn is_slow_scheme(scheme: StorageScheme) -> bool {
    use StorageScheme::{Clear, Ssha, Ssha256, Ssha512};
    !matches!(scheme, Clear | Ssha | Ssha256 | Ssha512)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll, Token, Waker};

    use super::*;

    #[test]
    fn jobs_are_done_and_answered() {
        let mut poll = Poll::new().unwrap();
        let mailboxes: Arc<[Mailbox]> = [Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap())].into();
        let pool = HashPool::start(2, Arc::clone(&mailboxes)).unwrap();
        let address = |ticket| Address { event_loop: 0, slot: 3, connection: 9, ticket };
        let clear = vec![b"one".to_vec(), b"two".to_vec()];
        let old_stored = password::hash(StorageScheme::Argon2id, b"old", &[8; 16]);
        let old = vec![
            (b"old".to_vec(), vec![b"{SSHA}AAAA".to_vec(), old_stored.clone()]),
            (b"wrong".to_vec(), vec![old_stored.clone()]),
        ];
        let passwords = ChangedPasswords { scheme: StorageScheme::Ssha512, new: clear, old };
        assert!(passwords.is_slow() && passwords.hash_count() == 5);
        let hash = HashWork::Prepare(passwords);
        assert!(pool.submit(HashJob { address: address(1), work: hash }));
        let stored = password::hash(StorageScheme::Argon2id, b"secret", &[7; 16]);
        let verify =
            HashWork::Verify { stored: vec![b"other".to_vec(), stored], asserted: b"secret".to_vec() };
        assert!(pool.submit(HashJob { address: address(2), work: verify }));
        let mut done = Vec::new();
        while done.len() < 2 {
            poll.poll(&mut Events::with_capacity(1), Some(Duration::from_secs(60))).unwrap();
            let mut letters = Vec::new();
            mailboxes[0].take(&mut letters);
            done.append(&mut letters);
        }
        for letter in done {
            let Letter::Hashed(HashDone { address, result }) = letter else { panic!("{letter:?}") };
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

    #[test]
    fn slow_schemes_go_to_the_pool() {
        assert!(is_slow_scheme(StorageScheme::Argon2id) && is_slow_scheme(StorageScheme::Pbkdf2Sha256));
        assert!(!is_slow_scheme(StorageScheme::Ssha) && !is_slow_scheme(StorageScheme::Clear));
    }
}
