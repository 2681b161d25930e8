//! A bounded pool of threads that verify and compute password hashes, which are slow on purpose.
//!
//! Argon2id takes about 20 ms and 19 MiB for a password, and would block an event loop for that time. The number of
//! threads bounds memory and processor time. The length of the queue bounds the waiting time. If the queue is full, the
//! answer is `busy`. A right password that is stored as a fast salted digest never needs the pool. A wrong password
//! always uses the pool, so that all failures cost the same.
//!
//! The module `hash_queue` chooses the next job, so that clients that cause a flood delay mainly themselves. The
//! passwords of a change are prepared one hash at a time, with turns of other jobs in between (`changed_passwords`). A
//! recently verified password needs no job (`verified_binds`).
//!
//! An operation holds a [`HashClaim`] while it waits for its job. A thread skips a job whose claim was dropped, even
//! between two hashes. A full queue drops such jobs. Therefore no client waits for jobs of disconnected clients.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use directory::password::{self, StorageScheme, Verification};
use directory::{SaslKeyRules, ServerFault};

use zeroize::Zeroizing;

use crate::kerberos::{KerberosJob, KerberosTurn};
use crate::limits::{HASH_IDENTITY_DIVISOR, HASHES_PER_THREAD_MAX};
use crate::net::mailbox::{Address, HashDone, HashResult, LoopMessage, Mailbox, VerifiedPassword};
use crate::net::request_memory::Source;
use crate::stamp::Random;
use crate::telemetry::traces::Stage;
use crate::workers::bad_passwords::BadPasswords;
use crate::workers::changed_passwords::{Preparation, make_keys};
use crate::workers::hash_queue::{FairQueue, Lane, Place, Reputations};
use crate::workers::verified_binds::{VerifiedBinds, VerifiedKey};

/// A job of the pool. It does not implement `Debug`, because it contains passwords.
struct HashJob {
    /// Address of the operation that receives the result.
    address: Address,
    work: HashWork,
    /// Key under which a right password is cached as a verified bind, and the lifetime in the cache.
    verified_key: Option<(VerifiedKey, Duration)>,
    /// Expires when the [`HashClaim`] is dropped.
    claim: Weak<()>,
    /// Time of the submission.
    since: Instant,
    /// Start of the first turn.
    started: Option<Instant>,
}

/// An operation's claim on the result of a job. Dropping the claim cancels the job.
pub(crate) struct HashClaim {
    alive: Arc<()>,
    /// Number of claims that were dropped before a thread took their jobs. The number may be too low. Therefore a
    /// thread checks the claim again when it takes a job.
    given_up: Arc<AtomicU64>,
}

impl Drop for HashClaim {
    fn drop(&mut self) {
        if Arc::weak_count(&self.alive) > 0 {
            self.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counters of the hash pool.
#[derive(Debug, Default)]
pub(crate) struct HashFigures {
    /// Number of accepted jobs.
    pub(crate) submitted: AtomicU64,
    /// Number of jobs that were refused or evicted, because the queue was full or a share was used up.
    pub(crate) refused: AtomicU64,
    /// Number of passwords found in the cache of verified binds.
    pub(crate) from_cache: AtomicU64,
    /// Number of jobs that were dropped because their claims had been dropped.
    pub(crate) dropped: AtomicU64,
    /// Number of slow hashes computed to verify passwords.
    pub(crate) verified: AtomicU64,
    /// Cost of the waiting jobs in hashes.
    pub(crate) waiting: AtomicU64,
    /// Total time that jobs have waited for their first turn, in microseconds.
    pub(crate) waited_micros: AtomicU64,
}

impl HashFigures {
    fn note_waiting(&self, waiting: &WaitingJobs) {
        let cost = waiting.jobs.cost(Lane::Binds) + waiting.jobs.cost(Lane::Changes);
        self.waiting.store(cost, Ordering::Relaxed);
    }
}

/// Work of a job.
pub(crate) enum HashWork {
    /// Verify that `asserted` is the password. If it is, derive the values in `wanted`.
    Verify { verification: Verification, asserted: Zeroizing<Vec<u8>>, wanted: DerivedValues },
    /// Prepare the passwords of a change.
    Prepare(Box<Preparation>),
    /// Handle a message of a Kerberos exchange.
    Kerberos(Box<KerberosJob>),
}

/// Submitter of a job, for fair queuing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submitter {
    pub(crate) source: Source,
    /// Number of an account, by [`account_number`](crate::workers::guesses::account_number): for a proof, the account
    /// to be proved; for a change, the requester.
    pub(crate) identity: u64,
    /// Whether the identity's jobs are not limited to a share. True for the administrator.
    pub(crate) is_unshared: bool,
    pub(crate) now: Instant,
}

impl HashWork {
    /// Returns the maximum cost in hashes.
    fn cost(&self) -> u32 {
        match self {
            HashWork::Verify { verification, wanted, .. } => {
                let more =
                    u32::from(wanted.stronger.is_some()) + u32::from(!wanted.keys.mechanisms.is_empty());
                verification.cost().saturating_add(more)
            }
            HashWork::Prepare(preparation) => preparation.cost_left(),
            HashWork::Kerberos(_) => 1,
        }
    }

    /// Returns the name of the work in traces.
    fn stage(&self) -> &'static str {
        match self {
            HashWork::Verify { .. } => "verify the password",
            HashWork::Prepare(_) => "hash the passwords",
            HashWork::Kerberos(_) => "verify the ticket",
        }
    }

    fn lane(&self) -> Lane {
        match self {
            HashWork::Verify { .. } | HashWork::Kerberos(_) => Lane::Binds,
            HashWork::Prepare(_) => Lane::Changes,
        }
    }

    /// Returns true if at least one step of the job was made.
    fn has_started(&self) -> bool {
        matches!(self, HashWork::Prepare(preparation) if preparation.has_started())
    }
}

/// Values to derive from a right password.
#[derive(Default)]
pub(crate) struct DerivedValues {
    /// Scheme for hashing the password again, if the stored hash is weaker.
    pub(crate) stronger: Option<StorageScheme>,
    /// SASL keys to derive.
    pub(crate) keys: SaslKeyRules,
}

impl DerivedValues {
    /// Returns true if nothing must be derived.
    pub(crate) fn is_nothing(&self) -> bool {
        self.stronger.is_none() && self.keys.mechanisms.is_empty()
    }
}

/// The hash pool. Dropping it finishes the queued jobs and ends the threads.
pub(crate) struct HashPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    /// Maximum cost of the waiting jobs in each lane, in hashes.
    cost_max: u64,
    mailboxes: Arc<[Mailbox]>,
}

struct Queue {
    waiting: Mutex<WaitingJobs>,
    work_arrived: Condvar,
    figures: Arc<HashFigures>,
    verified: VerifiedBinds,
    /// Number of claims that were dropped since the queue was last searched for jobs without claims. A search costs a
    /// scan of the whole queue, so it is made only if this number is not 0.
    given_up: Arc<AtomicU64>,
}

#[derive(Default)]
struct WaitingJobs {
    jobs: FairQueue<HashJob>,
    reputations: Reputations,
    closed: bool,
}

impl HashPool {
    /// Starts `threads` threads, at least one. Results go to the mailbox of the submitting event loop.
    ///
    /// # Errors
    /// The system cannot start a thread, or has no random bytes.
    pub(crate) fn start(
        threads: usize,
        bad_passwords: BadPasswords,
        mailboxes: Arc<[Mailbox]>,
    ) -> std::io::Result<HashPool> {
        let bad_passwords = Arc::new(bad_passwords);
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            work_arrived: Condvar::new(),
            figures: Arc::default(),
            verified: VerifiedBinds::new().map_err(std::io::Error::from)?,
            given_up: Arc::default(),
        });
        let threads = threads.max(1);
        let cost_max = (threads * HASHES_PER_THREAD_MAX) as u64;
        let mut pool = HashPool {
            queue: Arc::clone(&queue),
            threads: Vec::new(),
            cost_max,
            mailboxes: Arc::clone(&mailboxes),
        };
        for index in 0..threads {
            let (queue, mailboxes) = (Arc::clone(&queue), Arc::clone(&mailboxes));
            let bad_passwords = Arc::clone(&bad_passwords);
            let thread = std::thread::Builder::new()
                .name(format!("pando-hash-{index}"))
                .spawn(move || work(&queue, &bad_passwords, &mailboxes))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Returns `Ok` if this password was verified against the same stored values within `lifetime`. Otherwise the error
    /// contains the key under which [`submit`](HashPool::submit) caches the verification.
    pub(crate) fn is_verified(
        &self,
        verification: &Verification,
        asserted: &[u8],
        lifetime: Duration,
        (source, now): (Source, Instant),
    ) -> Result<(), Option<VerifiedKey>> {
        let Some(key) = self.queue.verified.key(verification, asserted) else { return Err(None) };
        if !self.queue.verified.has(&key, lifetime, now) {
            return Err(Some(key));
        }
        self.queue.figures.from_cache.fetch_add(1, Ordering::Relaxed);
        self.queue.lock().reputations.note(source, true, now);
        Ok(())
    }

    /// Queues a job. Its result goes to `address` unless the claim is dropped. `verified_key` is the key from
    /// [`HashPool::is_verified`] and its lifetime. Returns `None` if the lane is full of jobs that take precedence, or
    /// if the identity has used its share of the lane.
    pub(crate) fn submit(
        &self,
        address: Address,
        work: HashWork,
        verified_key: Option<(VerifiedKey, Duration)>,
        Submitter { source, identity, is_unshared, now }: Submitter,
    ) -> Option<HashClaim> {
        let figures = &self.queue.figures;
        let mut waiting = self.queue.lock();
        let reputation = waiting.reputations.of(&source, now);
        let (place, cost) = (Place { lane: work.lane(), reputation, source, identity }, work.cost());
        let is_full = |waiting: &WaitingJobs| waiting.has_no_room(place.lane, cost, self.cost_max);
        let share = match place.lane {
            Lane::Changes if !is_unshared => self.cost_max / HASH_IDENTITY_DIVISOR,
            // Any client may send a bind with any name. A share for each name would let other clients use up the share
            // of the name's owner.
            Lane::Changes | Lane::Binds => u64::MAX,
        };
        let has_share = |waiting: &WaitingJobs| waiting.leaves_share(&place, cost, share);
        if (is_full(&waiting) || !has_share(&waiting)) && self.queue.given_up.swap(0, Ordering::Relaxed) > 0 {
            waiting.drop_unclaimed(figures);
        }
        let mut gave_way = Vec::new();
        let mut is_taken = has_share(&waiting);
        while is_taken && is_full(&waiting) {
            // A job in progress is not evicted, because its hashes would be wasted.
            let may_go = |job: &HashJob| !job.work.has_started();
            match waiting.jobs.evict(&place, cost, may_go) {
                Some((other, job)) => {
                    waiting.reputations.note_refusal(other, now);
                    gave_way.push(job.address);
                }
                None => is_taken = false,
            }
        }
        let alive = Arc::new(());
        if is_taken {
            let claim = Arc::downgrade(&alive);
            let job = HashJob { address, work, verified_key, claim, since: now, started: None };
            waiting.jobs.push(&place, cost, job);
        } else {
            waiting.reputations.note_refusal(source, now);
        }
        figures.note_waiting(&waiting);
        drop(waiting);
        let refused = gave_way.len() as u64 + u64::from(!is_taken);
        figures.refused.fetch_add(refused, Ordering::Relaxed);
        gave_way.into_iter().for_each(|address| post(&self.mailboxes, address, HashResult::Busy, None));
        if !is_taken {
            return None;
        }
        figures.submitted.fetch_add(1, Ordering::Relaxed);
        self.queue.work_arrived.notify_one();
        Some(HashClaim { alive, given_up: Arc::clone(&self.queue.given_up) })
    }

    pub(crate) fn figures(&self) -> Arc<HashFigures> {
        Arc::clone(&self.queue.figures)
    }
}

impl Drop for HashPool {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.work_arrived.notify_all();
        for thread in self.threads.drain(..) {
            // The thread may have ended by a panic outside of `catch_unwind`. No caller could handle that.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Jobs are pushed and popped in one step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, WaitingJobs> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next job with a claim. Returns it with the start of its first turn. Returns `None` when the pool
    /// is closed and the queue is empty.
    fn next(&self) -> Option<(Place, HashJob, Instant)> {
        let mut waiting = self.lock();
        loop {
            while let Some((place, job)) = waiting.jobs.pop() {
                self.figures.note_waiting(&waiting);
                if job.is_claimed() {
                    let started = job.started.unwrap_or_else(|| {
                        let now = Instant::now();
                        let waited = now.saturating_duration_since(job.since).as_micros();
                        let waited = u64::try_from(waited).unwrap_or(u64::MAX);
                        self.figures.waited_micros.fetch_add(waited, Ordering::Relaxed);
                        now
                    });
                    return Some((place, job, started));
                }
                self.figures.dropped.fetch_add(1, Ordering::Relaxed);
            }
            if waiting.closed {
                return None;
            }
            waiting = self.work_arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl HashJob {
    fn is_claimed(&self) -> bool {
        self.claim.strong_count() > 0
    }
}

impl WaitingJobs {
    /// Drops the jobs whose claims were dropped.
    fn drop_unclaimed(&mut self, figures: &HashFigures) {
        let dropped = self.jobs.retain(HashJob::is_claimed);
        figures.note_waiting(self);
        figures.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }

    /// Records the end of a job that cost `cost` hashes. `is_right` is the result if the job was a proof.
    fn ended(&mut self, place: &Place, cost: u32, is_right: Option<bool>, now: Instant) {
        // The hashes of a change were already charged one by one.
        if place.lane == Lane::Binds {
            self.jobs.charge(place, cost.saturating_sub(1));
        }
        if let Some(is_right) = is_right {
            self.reputations.note(place.source, is_right, now);
        }
    }

    /// Returns true if a lane has no room for a job of this cost. An empty lane accepts any job.
    fn has_no_room(&self, lane: Lane, cost: u32, cost_max: u64) -> bool {
        let waiting = self.jobs.cost(lane);
        waiting > 0 && waiting + u64::from(cost) > cost_max
    }

    /// Returns true if a job of this cost fits into the share of its identity. An identity without a waiting job may
    /// always submit one job.
    fn leaves_share(&self, place: &Place, cost: u32, share: u64) -> bool {
        let own = self.jobs.cost_of(place.lane, place.identity);
        own == 0 || own + u64::from(cost) <= share
    }
}

fn work(queue: &Queue, bad_passwords: &BadPasswords, mailboxes: &[Mailbox]) {
    let mut random = Random::default();
    while let Some((place, HashJob { address, work, verified_key, claim, since, .. }, started)) = queue.next()
    {
        let (cost, stage) = (work.cost(), work.stage());
        // Hashing calls libraries with octets from a client. A defect that such octets trigger must cost one answer,
        // not the thread.
        let performed =
            catch_unwind(AssertUnwindSafe(|| perform(work, &mut random, bad_passwords, &queue.figures)))
                .unwrap_or(JobOutcome::Done(HashResult::Failed(ServerFault::Defect)));
        let result = match performed {
            JobOutcome::Done(result) => result,
            JobOutcome::Part { left, cost } => {
                let mut waiting = queue.lock();
                let work = HashWork::Prepare(left);
                let cost_left = work.cost();
                let job = HashJob { address, work, verified_key, claim, since, started: Some(started) };
                waiting.jobs.push_started(&place, cost_left, job);
                waiting.jobs.charge(&place, cost.saturating_sub(1));
                continue;
            }
        };
        let now = Instant::now();
        let is_right = match &result {
            HashResult::Verified(VerifiedPassword { is_right, rehashed, .. }) => {
                if let Some((key, lifetime)) = verified_key.filter(|_| *is_right && rehashed.is_none()) {
                    queue.verified.keep(key, lifetime, now);
                }
                Some(*is_right)
            }
            HashResult::Kerberos(turn) => match **turn {
                KerberosTurn::Authenticated(_) => Some(true),
                KerberosTurn::Refused(_) => Some(false),
                KerberosTurn::Say(..) | KerberosTurn::Unfit(_) => None,
            },
            _ => None,
        };
        queue.lock().ended(&place, cost, is_right, now);
        post(mailboxes, address, result, Some([("wait for the hash pool", started), (stage, now)]));
    }
}

fn post(mailboxes: &[Mailbox], address: Address, result: HashResult, stages: Option<[Stage; 2]>) {
    if let Some(mailbox) = mailboxes.get(usize::from(address.event_loop)) {
        mailbox.post(LoopMessage::Hashed(HashDone { address, result, stages }));
    }
}

/// Result of a job's turn.
enum JobOutcome {
    Done(HashResult),
    /// The job needs further turns. `cost` is the cost of this turn in hashes.
    Part {
        left: Box<Preparation>,
        cost: u32,
    },
}

/// Performs a job. For a change, stops after the next hash.
fn perform(
    work: HashWork,
    random: &mut Random,
    bad_passwords: &BadPasswords,
    figures: &HashFigures,
) -> JobOutcome {
    let result = match work {
        HashWork::Verify { verification, asserted, wanted } => {
            let is_right = verification.run_quick(&asserted).unwrap_or_else(|| {
                let verified = verification.run(&asserted);
                figures.verified.fetch_add(verified.hash_count.into(), Ordering::Relaxed);
                verified.is_right
            });
            let rehashed = wanted.stronger.filter(|_| is_right).and_then(|scheme| {
                let old = verification.weaker_match(&asserted, scheme)?;
                // Without random numbers for a salt, the old hash is kept.
                Some((old.to_vec(), password::hash(scheme, &asserted, &random.bytes().ok()?)))
            });
            // Without random numbers for salts, no keys are derived at this bind.
            let derived = match is_right && !wanted.keys.mechanisms.is_empty() {
                true => {
                    make_keys(&[asserted.to_vec()], &wanted.keys, random).ok().and_then(|mut all| all.pop())
                }
                false => None,
            };
            let keys = derived.and_then(|(_, keys)| Some((verification.matching(&asserted)?.to_vec(), keys)));
            HashResult::Verified(VerifiedPassword { is_right, rehashed, keys })
        }
        HashWork::Kerberos(job) => HashResult::Kerberos(Box::new(job.run())),
        HashWork::Prepare(mut preparation) => match preparation.step(random, bad_passwords) {
            Ok(cost) if preparation.cost_left() > 0 => return JobOutcome::Part { left: preparation, cost },
            Ok(_) => HashResult::Prepared(preparation.end()),
            Err(_) => HashResult::Failed(ServerFault::Random),
        },
    };
    JobOutcome::Done(result)
}

#[cfg(test)]
mod tests {
    use mio::{Events, Poll, Token, Waker};

    use super::*;
    use crate::net::mailbox::PreparedPasswords;
    use crate::workers::changed_passwords::ChangedPasswords;
    use crate::workers::hash_queue::Reputation;

    /// A pool with one event loop, and the mailbox of that loop.
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
            let pool = HashPool::start(threads, BadPasswords::default(), Arc::clone(&mailboxes)).unwrap();
            Sample { poll, mailboxes, pool }
        }

        fn submit(&self, ticket: u64, work: HashWork) -> Option<HashClaim> {
            self.submit_from(1, ticket, work)
        }

        fn submit_from(&self, from: u8, ticket: u64, work: HashWork) -> Option<HashClaim> {
            let source = Source::Network([127, 0, 0, from].into());
            let address = Address { event_loop: 0, slot: 3, connection: 9, ticket };
            self.pool.submit(address, work, None, submitter(source, from.into()))
        }

        /// Waits for `count` results.
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

    fn submitter(source: Source, identity: u64) -> Submitter {
        Submitter { source, identity, is_unshared: false, now: Instant::now() }
    }

    fn bind_from_one() -> Place {
        let source = Source::Network([127, 0, 0, 1].into());
        Place { lane: Lane::Binds, reputation: Reputation::New, source, identity: 1 }
    }

    fn verify(stored: Vec<Vec<u8>>, asserted: &[u8]) -> HashWork {
        let verification = Verification::new(stored, StorageScheme::Argon2id);
        HashWork::Verify {
            verification,
            asserted: asserted.to_vec().into(),
            wanted: DerivedValues::default(),
        }
    }

    #[test]
    fn each_job_is_answered_with_its_result() {
        let mut sample = Sample::start(2);
        let clear = vec![b"one".to_vec(), b"two".to_vec()];
        let old_stored = password::hash(StorageScheme::Argon2id, b"old", &[8; 16]);
        let old = vec![
            (b"old".to_vec(), vec![b"{SSHA}AAAA".to_vec(), old_stored.clone()]),
            (b"wrong".to_vec(), vec![old_stored.clone()]),
        ];
        let former = vec![b"two".to_vec(), b"three".to_vec()];
        let passwords = ChangedPasswords {
            scheme: StorageScheme::Ssha512,
            new: clear,
            old,
            former,
            checks_lists: false,
            keys: Default::default(),
        };
        assert!(passwords.is_slow() && passwords.hash_count() == 5);
        let _prepares = sample.submit(1, HashWork::Prepare(Box::new(Preparation::new(passwords)))).unwrap();
        let stored = password::hash(StorageScheme::Argon2id, b"secret", &[7; 16]);
        let _verifies = sample.submit(2, verify(vec![b"other".to_vec(), stored], b"secret")).unwrap();
        for HashDone { address, result, stages } in sample.take(2) {
            assert!(stages.is_some_and(|[(_, started), (_, ended)]| started <= ended));
            match result {
                HashResult::Verified(VerifiedPassword { is_right, rehashed, .. }) => {
                    assert!(is_right && rehashed.is_none() && address.ticket == 2);
                }
                HashResult::Prepared(PreparedPasswords {
                    hashed: pairs, matched, history, listed, ..
                }) => {
                    assert!(history.forms.len() == 2 && listed.is_empty());
                    assert_eq!(history.matching, [b"two"], "the repeated former password");
                    assert_eq!(address.ticket, 1);
                    assert_eq!(matched, [(b"old".to_vec(), old_stored.clone())]);
                    assert!(pairs.iter().all(|(clear, stored)| password::verify(stored, clear)));
                    assert_eq!(pairs.len(), 2);
                }
                HashResult::Failed(fault) => panic!("{fault:?}"),
                _ => panic!("unexpected result"),
            }
        }
    }

    /// Regression: 1,500 binds of disconnected clients were hashed before the bind of a waiting client.
    #[test]
    fn skips_jobs_of_closed_connections() {
        let mut sample = Sample::start(1);
        let figures = sample.pool.figures();
        let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        // The thread takes no job while the lock is held.
        let claims: Vec<_> = {
            let mut waiting = sample.pool.queue.lock();
            let fill = |ticket: u64| {
                let alive = Arc::new(());
                let address = Address { event_loop: 0, slot: 3, connection: 9, ticket };
                let (work, claim) = (verify(Vec::new(), b"x"), Arc::downgrade(&alive));
                let job = HashJob {
                    address,
                    work,
                    verified_key: None,
                    claim,
                    since: Instant::now(),
                    started: None,
                };
                (job, alive)
            };
            let (jobs, claims): (Vec<_>, Vec<_>) = (0..HASHES_PER_THREAD_MAX as u64).map(fill).unzip();
            jobs.into_iter().for_each(|job| waiting.jobs.push(&bind_from_one(), 1, job));
            drop(claims);
            // The queue now is full of jobs without claims.
            waiting.drop_unclaimed(&figures);
            assert_eq!(
                (waiting.jobs.cost(Lane::Binds), count(&figures.dropped)),
                (0, HASHES_PER_THREAD_MAX as u64)
            );
            let (jobs, claims): (Vec<_>, Vec<_>) = (0..100).map(fill).unzip();
            jobs.into_iter().for_each(|job| waiting.jobs.push(&bind_from_one(), 1, job));
            claims.into_iter().skip(99).collect()
        };
        let last = sample.submit(100, verify(Vec::new(), b"x")).unwrap();
        let done = sample.take(2);
        assert_eq!(done.iter().map(|done| done.address.ticket).collect::<Vec<_>>(), [99, 100]);
        assert_eq!(count(&figures.verified), 2, "hashes done");
        assert_eq!(count(&figures.dropped), HASHES_PER_THREAD_MAX as u64 + 99);
        drop((claims, last));
    }

    #[test]
    fn a_full_queue_accepts_a_job_only_after_a_client_has_left() {
        let sample = Sample::start(1);
        // The thread takes some jobs while the queue is filled, but needs milliseconds for each.
        let submitted = std::iter::repeat_with(|| sample.submit(0, verify(Vec::new(), b"x")));
        let claims: Vec<_> = submitted.map_while(|claim| claim).collect();
        assert!(claims.len() >= HASHES_PER_THREAD_MAX);
        assert!(sample.pool.figures().refused.load(Ordering::Relaxed) == 1);
        drop(claims);
        assert!(sample.submit(1, verify(Vec::new(), b"x")).is_some());
    }

    /// Regression: a lane full of binds for one name refused the owner's bind, because the name had used up its share.
    #[test]
    fn a_flood_of_binds_for_a_name_does_not_block_its_owner() {
        let mut sample = Sample::start(1);
        let submit = |sample: &Sample, from: u8, ticket| {
            let source = Source::Network([127, 0, 0, from].into());
            let address = Address { event_loop: 0, slot: 3, connection: 9, ticket };
            sample.pool.submit(address, verify(Vec::new(), b"x"), None, submitter(source, 7))
        };
        let flood: Vec<_> =
            std::iter::repeat_with(|| submit(&sample, 1, 0)).map_while(|claim| claim).collect();
        assert!(flood.len() >= HASHES_PER_THREAD_MAX);
        let owner = submit(&sample, 2, 1).expect("a bind of the flood is evicted");
        while sample.take(1).remove(0).address.ticket != 1 {}
        drop((flood, owner));
    }

    #[test]
    fn a_full_queue_evicts_the_newest_job_of_the_busiest_source() {
        let mut sample = Sample::start(1);
        let submitted = std::iter::repeat_with(|| sample.submit(7, verify(Vec::new(), b"x")));
        let claims: Vec<_> = submitted.map_while(|claim| claim).collect();
        let other = sample
            .submit_from(2, 8, verify(Vec::new(), b"x"))
            .expect("a bind of the other source is evicted");
        // The bind is answered in its source's first turn, long before the other waiting jobs.
        let (mut is_busy, mut place) = (false, 0);
        loop {
            let done = sample.take(1).remove(0);
            match (done.result, done.address.ticket) {
                (HashResult::Busy, 7) => is_busy = true,
                (HashResult::Verified(_), 7) => place += 1,
                (HashResult::Verified(_), 8) => break,
                _ => panic!("nothing else was asked"),
            }
        }
        assert!(is_busy && place < 50, "after {place}");
        drop((claims, other));
    }

    /// Returns a change of a password with a history of 24 passwords. `former` is the stored value of each.
    fn costly_change(former: &[u8]) -> HashWork {
        let passwords = ChangedPasswords {
            scheme: StorageScheme::Argon2id,
            new: vec![b"new".to_vec()],
            old: Vec::new(),
            former: vec![former.to_vec(); 24],
            checks_lists: false,
            keys: SaslKeyRules::default(),
        };
        HashWork::Prepare(Box::new(Preparation::new(passwords)))
    }

    /// Regression: one user's flood of changes of its own password, each of which costs up to 25 hashes, filled the
    /// queue. None of them was evicted, and the first bind of every other client was answered `busy`.
    #[test]
    fn a_flood_of_password_changes_does_not_block_binds() {
        let mut sample = Sample::start(1);
        let former = password::hash(StorageScheme::Argon2id, b"old", &[7; 16]);
        let changes: Vec<_> =
            (0..40).map_while(|ticket| sample.submit_from(1, ticket, costly_change(&former))).collect();
        // The share is a quarter of 512 hashes. A change costs 25 hashes. The thread may already have taken one change.
        assert!((5..=6).contains(&changes.len()), "{}", changes.len());
        let _others: Vec<_> = (2..40)
            .filter_map(|from| sample.submit_from(from, 100 + u64::from(from), costly_change(&former)))
            .collect();
        let _bind = sample
            .submit_from(99, 1_000, verify(Vec::new(), b"x"))
            .expect("binds have their own share of the queue");
        // The bind is done before any change, because changes are prepared one hash at a time.
        loop {
            let done = sample.take(1).remove(0);
            match done.result {
                HashResult::Verified(_) => break assert_eq!(done.address.ticket, 1_000),
                HashResult::Busy => {}
                _ => panic!("a change was done before the bind"),
            }
        }
        drop((changes, _others));
        // A job without a claim is dropped between two hashes. Therefore the bind waits for one hash and not for a
        // whole change.
        let _bind = sample.submit_from(99, 1_001, verify(Vec::new(), b"x")).unwrap();
        let before = sample.pool.figures().verified.load(Ordering::Relaxed);
        let done = sample.take(1).remove(0);
        assert!(
            matches!(done.result, HashResult::Verified(_)) && done.address.ticket == 1_001 && before >= 1
        );
    }
}
