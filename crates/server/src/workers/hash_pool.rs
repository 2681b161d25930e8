//! A bounded pool of threads that verify and make password hashes, which are slow on purpose.
//!
//! Argon2id takes about 20 ms and 19 MiB for a password, and would stop an event loop for that time. The number of
//! threads bounds memory and processor time. The length of the queue bounds waiting; beyond it the answer is busy. A
//! right password that is stored as a fast salted digest never comes here. A wrong one does, so that every failure
//! costs the same.
//!
//! Which job is next, `hash_queue` says: a flood of guesses makes those who guess wait. A password that was verified a
//! moment ago needs no job: see `verified_binds`.
//!
//! An operation holds a [`HashClaim`] while it waits for its job. A thread skips a job without its claim, and a full
//! queue drops such jobs. So nobody waits for the jobs of clients that disconnected.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use directory::password::{self, StorageScheme, Verification};
use directory::{HistoryChecks, SaslKeyRules, ServerFault};

use sasl::cram::{CRAM_MD5, CramKey};
use sasl::digest::{DIGEST_MD5, DigestKey};
use sasl::{Hash, ScramKeys};

use zeroize::Zeroizing;

use crate::kerberos::{KerberosJob, KerberosTurn};
use crate::limits::HASH_JOBS_PER_THREAD_MAX;
use crate::net::mailbox::{
    Address, HashDone, HashResult, HashedPasswords, LoopMessage, Mailbox, PasswordKeys, PreparedPasswords,
    VerifiedPassword,
};
use crate::net::request_memory::Source;
use crate::stamp::Random;
use crate::workers::bad_passwords::BadPasswords;
use crate::workers::hash_queue::{FairQueue, Standings};
use crate::workers::verified_binds::{VerifiedBinds, VerifiedKey};

/// Work for the pool. No `Debug`: it carries passwords.
struct HashJob {
    /// The operation that gets the result.
    address: Address,
    work: HashWork,
    /// Under what the password is known afterwards, and for how long, if it is right.
    known: Option<(VerifiedKey, Duration)>,
    /// Dead when the [`HashClaim`] is dropped.
    claim: Weak<()>,
}

/// An operation's claim on the result of a job. Dropping it cancels the job.
pub(crate) struct HashClaim {
    alive: Arc<()>,
    /// Counts those that were dropped before their jobs were taken. A job that is looked at just then is found later,
    /// at the latest when its turn comes.
    given_up: Arc<AtomicU64>,
}

impl Drop for HashClaim {
    fn drop(&mut self) {
        if Arc::weak_count(&self.alive) > 0 {
            self.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What the pool has done.
#[derive(Debug, Default)]
pub(crate) struct HashFigures {
    /// Jobs that were taken.
    pub(crate) submitted: AtomicU64,
    /// Jobs that were refused, or gave way to others, because the queue was full.
    pub(crate) refused: AtomicU64,
    /// Passwords that were verified a moment before.
    pub(crate) known: AtomicU64,
    /// Jobs that were dropped because their claims were.
    pub(crate) dropped: AtomicU64,
    /// Slow hashes computed to verify passwords.
    pub(crate) verified: AtomicU64,
}

/// The work of a job.
pub(crate) enum HashWork {
    /// Verify that `asserted` is the password, and make of it what the policy wants besides.
    Verify { verification: Verification, asserted: Zeroizing<Vec<u8>>, wanted: Wanted },
    /// Prepare the passwords of a change.
    Prepare(ChangedPasswords),
    /// Take a message of an exchange of Kerberos.
    Kerberos(Box<KerberosJob>),
}

/// What is made of a password that is right.
#[derive(Default)]
pub(crate) struct Wanted {
    /// A form of this scheme, where a weaker one is stored.
    pub(crate) stronger: Option<StorageScheme>,
    /// Keys for proofs.
    pub(crate) keys: SaslKeyRules,
}

impl Wanted {
    /// Whether the password is enough.
    pub(crate) fn is_nothing(&self) -> bool {
        self.stronger.is_none() && self.keys.mechanisms.is_empty()
    }
}

/// The clear passwords of a change.
pub(crate) struct ChangedPasswords {
    pub(crate) scheme: StorageScheme,
    /// Passwords that the change adds, to be hashed.
    pub(crate) new: Vec<Vec<u8>>,
    /// Passwords that the change deletes, each with the stored forms among which its own may be.
    pub(crate) old: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    /// Stored forms that no new password may match.
    pub(crate) former: Vec<Vec<u8>>,
    /// Whether new ones may not be on the lists of bad ones.
    pub(crate) checks_lists: bool,
    /// The keys for proofs that are made of new ones.
    pub(crate) keys: SaslKeyRules,
}

impl ChangedPasswords {
    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    /// Most hashes that [`prepare`](ChangedPasswords::prepare) computes.
    pub(crate) fn hash_count(&self) -> usize {
        self.new.len() + self.old.iter().map(|(_, stored)| stored.len()).sum::<usize>()
    }

    /// Whether this belongs on the pool.
    pub(crate) fn is_slow(&self) -> bool {
        let old = self.old.iter().flat_map(|(_, stored)| stored);
        let former = self.former.iter().filter(|_| !self.new.is_empty());
        let mut stored = old.chain(former);
        let makes_slow = self.scheme.is_slow() || !self.keys.mechanisms.is_empty() || self.checks_lists;
        (!self.new.is_empty() && makes_slow) || stored.any(|stored| password::is_slow(stored))
    }

    /// Hashes the new passwords and finds the stored forms of the old ones.
    ///
    /// # Errors
    /// The system gave no random salt.
    pub(crate) fn prepare(self, random: &mut Random) -> Result<PreparedPasswords, getrandom::Error> {
        let is_used = |stored: &&Vec<u8>| {
            self.new.iter().any(|clear| password::verify(stored, password::clear_of(clear)))
        };
        let matching = self.former.iter().filter(is_used).cloned().collect();
        let history = HistoryChecks { matching, forms: self.former };
        let scram = make_keys(&self.new, &self.keys, random)?;
        let hashed = hash_all(self.scheme, self.new, random)?;
        let matching = self.old.into_iter().filter_map(|(clear, stored)| {
            let stored = stored.into_iter().find(|stored| password::verify(stored, &clear))?;
            Some((clear, stored))
        });
        Ok(PreparedPasswords { hashed, matched: matching.collect(), history, scram, listed: Vec::new() })
    }
}

/// The pool. Dropping it finishes the queued jobs and ends the threads.
pub(crate) struct HashPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    jobs_max: usize,
    mailboxes: Arc<[Mailbox]>,
}

struct Queue {
    waiting: Mutex<WaitingJobs>,
    work_arrived: Condvar,
    figures: Arc<HashFigures>,
    verified: VerifiedBinds,
    /// Claims that were dropped since jobs without claims were last looked for, which goes through the whole queue.
    given_up: Arc<AtomicU64>,
}

#[derive(Default)]
struct WaitingJobs {
    jobs: FairQueue<HashJob>,
    standings: Standings,
    closed: bool,
}

impl HashPool {
    /// Starts `threads` threads, at least one. Results go to the mailbox of the event loop that asked.
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
        let jobs_max = threads * HASH_JOBS_PER_THREAD_MAX;
        let mut pool = HashPool {
            queue: Arc::clone(&queue),
            threads: Vec::new(),
            jobs_max,
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

    /// Whether this password was verified a moment ago, by the same stored values, within `lifetime`. If not, a key
    /// under which [`submit`](HashPool::submit) keeps that it was.
    pub(crate) fn is_known(
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
        self.queue.figures.known.fetch_add(1, Ordering::Relaxed);
        self.queue.lock().standings.note(source, true, now);
        Ok(())
    }

    /// Queues a job. Its result goes to `address` while the claim is held; `known` as in [`HashPool::is_known`]. `None`
    /// when the queue is full of jobs that go first.
    pub(crate) fn submit(
        &self,
        address: Address,
        work: HashWork,
        known: Option<(VerifiedKey, Duration)>,
        (source, now): (Source, Instant),
    ) -> Option<HashClaim> {
        let figures = &self.queue.figures;
        let mut waiting = self.queue.lock();
        let standing = waiting.standings.of(&source, now);
        if waiting.jobs.len() >= self.jobs_max && self.queue.given_up.swap(0, Ordering::Relaxed) > 0 {
            waiting.drop_unclaimed(figures);
        }
        let mut gave_way = None;
        if waiting.jobs.len() >= self.jobs_max {
            figures.refused.fetch_add(1, Ordering::Relaxed);
            // Of a change, others of its connection may wait already.
            let may_go = |job: &HashJob| !matches!(job.work, HashWork::Prepare(_));
            let Some((other, job)) = waiting.jobs.give_way(&source, standing, may_go) else {
                waiting.standings.note_refusal(source, now);
                return None;
            };
            waiting.standings.note_refusal(other, now);
            gave_way = Some(job);
        }
        let alive = Arc::new(());
        waiting.jobs.push(source, standing, HashJob { address, work, known, claim: Arc::downgrade(&alive) });
        drop(waiting);
        figures.submitted.fetch_add(1, Ordering::Relaxed);
        self.queue.work_arrived.notify_one();
        if let Some(HashJob { address, .. }) = gave_way {
            post(&self.mailboxes, address, HashResult::Busy);
        }
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
            // A thread ends early only by a panic outside of the guarded work, and nobody is left to be told.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Jobs are pushed and popped whole, so a poisoned lock is fit for use.
    fn lock(&self) -> MutexGuard<'_, WaitingJobs> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next claimed job; `None` when the pool is closed and the queue is empty.
    fn next(&self) -> Option<(Source, HashJob)> {
        let mut waiting = self.lock();
        loop {
            while let Some((source, job)) = waiting.jobs.pop() {
                if job.is_claimed() {
                    return Some((source, job));
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
        figures.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }
}

fn work(queue: &Queue, bad_passwords: &BadPasswords, mailboxes: &[Mailbox]) {
    let mut random = Random::default();
    while let Some((source, HashJob { address, work, known, .. })) = queue.next() {
        // Hashing runs libraries on bytes of a peer. A defect that they trigger must cost one answer, not the thread.
        let result =
            catch_unwind(AssertUnwindSafe(|| perform(work, &mut random, bad_passwords, &queue.figures)))
                .unwrap_or(HashResult::Failed(ServerFault::Defect));
        let now = Instant::now();
        match &result {
            HashResult::Verified(VerifiedPassword { is_right, rehashed, .. }) => {
                queue.lock().standings.note(source, *is_right, now);
                if let Some((key, lifetime)) = known.filter(|_| *is_right && rehashed.is_none()) {
                    queue.verified.keep(key, lifetime, now);
                }
            }
            HashResult::Kerberos(turn) => match **turn {
                KerberosTurn::Shown(_) => queue.lock().standings.note(source, true, now),
                KerberosTurn::Refused(_) => queue.lock().standings.note(source, false, now),
                KerberosTurn::Say(..) | KerberosTurn::Unfit(_) => {}
            },
            _ => {}
        }
        post(mailboxes, address, result);
    }
}

fn post(mailboxes: &[Mailbox], address: Address, result: HashResult) {
    if let Some(mailbox) = mailboxes.get(usize::from(address.event_loop)) {
        mailbox.post(LoopMessage::Hashed(HashDone { address, result }));
    }
}

/// Does the work of a job.
fn perform(
    work: HashWork,
    random: &mut Random,
    bad_passwords: &BadPasswords,
    figures: &HashFigures,
) -> HashResult {
    match work {
        HashWork::Verify { verification, asserted, wanted } => {
            let is_right = verification.run_quick(&asserted).unwrap_or_else(|| {
                let verified = verification.run(&asserted);
                figures.verified.fetch_add(verified.hash_count.into(), Ordering::Relaxed);
                verified.is_right
            });
            let rehashed = wanted.stronger.filter(|_| is_right).and_then(|scheme| {
                let old = verification.weaker_match(&asserted, scheme)?;
                // Without random numbers the old form stays.
                Some((old.to_vec(), password::hash(scheme, &asserted, &random.bytes().ok()?)))
            });
            // Without random numbers there are none this time.
            let made = match is_right && !wanted.keys.mechanisms.is_empty() {
                true => {
                    make_keys(&[asserted.to_vec()], &wanted.keys, random).ok().and_then(|mut all| all.pop())
                }
                false => None,
            };
            let keys = made.and_then(|(_, keys)| Some((verification.matching(&asserted)?.to_vec(), keys)));
            HashResult::Verified(VerifiedPassword { is_right, rehashed, keys })
        }
        HashWork::Kerberos(job) => HashResult::Kerberos(Box::new(job.run())),
        HashWork::Prepare(passwords) => {
            let bad = |clear: &&Vec<u8>| bad_passwords.have(clear);
            let listed =
                passwords.new.iter().filter(|_| passwords.checks_lists).filter(bad).cloned().collect();
            match passwords.prepare(random) {
                Ok(prepared) => HashResult::Prepared(PreparedPasswords { listed, ..prepared }),
                Err(_) => HashResult::Failed(ServerFault::Random),
            }
        }
    }
}

/// Clear passwords with the text forms of their keys: for SCRAM, each with its own salt, for CRAM-MD5, and for
/// DIGEST-MD5, one a name. What is no UTF-8 has none.
///
/// # Errors
/// The system gave no random salt.
fn make_keys(
    clear: &[Vec<u8>],
    SaslKeyRules { mechanisms, iterations, names, realm }: &SaslKeyRules,
    random: &mut Random,
) -> Result<PasswordKeys, getrandom::Error> {
    let mut all = Vec::new();
    for clear in clear.iter().filter(|_| !mechanisms.is_empty()) {
        let Ok(text) = std::str::from_utf8(password::clear_of(clear)) else { continue };
        let mut keys = Vec::new();
        if mechanisms.iter().any(|name| name == CRAM_MD5) {
            keys.push(CramKey::derive(text.as_bytes()).text());
        }
        if mechanisms.iter().any(|name| name == DIGEST_MD5) {
            keys.extend(names.iter().map(|name| DigestKey::derive(name, realm, text).text()));
        }
        for (hash, _) in mechanisms.iter().filter_map(|name| Hash::of_mechanism(name)) {
            keys.push(ScramKeys::derive(hash, text, &random.bytes()?, *iterations).text());
        }
        all.push((clear.clone(), keys));
    }
    Ok(all)
}

/// Pairs of clear passwords and their stored forms, each with its own salt.
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
    use mio::{Events, Poll, Token, Waker};

    use super::*;
    use crate::workers::hash_queue::Standing;

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
            let pool = HashPool::start(threads, BadPasswords::default(), Arc::clone(&mailboxes)).unwrap();
            Sample { poll, mailboxes, pool }
        }

        fn submit(&self, ticket: u64, work: HashWork) -> Option<HashClaim> {
            self.submit_from(1, ticket, work)
        }

        fn submit_from(&self, from: u8, ticket: u64, work: HashWork) -> Option<HashClaim> {
            let source = Source::Network([127, 0, 0, from].into());
            let address = Address { event_loop: 0, slot: 3, connection: 9, ticket };
            self.pool.submit(address, work, None, (source, Instant::now()))
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
        HashWork::Verify { verification, asserted: asserted.to_vec().into(), wanted: Wanted::default() }
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
        let _prepares = sample.submit(1, HashWork::Prepare(passwords)).unwrap();
        let stored = password::hash(StorageScheme::Argon2id, b"secret", &[7; 16]);
        let _verifies = sample.submit(2, verify(vec![b"other".to_vec(), stored], b"secret")).unwrap();
        for HashDone { address, result } in sample.take(2) {
            match result {
                HashResult::Verified(VerifiedPassword { is_right, rehashed, .. }) => {
                    assert!(is_right && rehashed.is_none() && address.ticket == 2);
                }
                HashResult::Prepared(PreparedPasswords {
                    hashed: pairs, matched, history, listed, ..
                }) => {
                    assert!(history.forms.len() == 2 && listed.is_empty());
                    assert_eq!(history.matching, [b"two"], "the former password that comes again");
                    assert_eq!(address.ticket, 1);
                    assert_eq!(matched, [(b"old".to_vec(), old_stored.clone())]);
                    assert!(pairs.iter().all(|(clear, stored)| password::verify(stored, clear)));
                    assert_eq!(pairs.len(), 2);
                }
                HashResult::Failed(fault) => panic!("{fault:?}"),
                _ => panic!("there is room, and nobody to ask"),
            }
        }
    }

    /// The story: 1,500 binds of disconnected clients were hashed before the bind of one that waited, for 4 s.
    #[test]
    fn jobs_that_nobody_waits_for_are_not_done() {
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
                let job = HashJob { address, work, known: None, claim };
                (job, alive)
            };
            let (jobs, claims): (Vec<_>, Vec<_>) = (0..HASH_JOBS_PER_THREAD_MAX as u64).map(fill).unzip();
            let source = Source::Network([127, 0, 0, 1].into());
            jobs.into_iter().for_each(|job| waiting.jobs.push(source, Standing::New, job));
            drop(claims);
            // The queue is full of jobs without claims.
            waiting.drop_unclaimed(&figures);
            assert_eq!((waiting.jobs.len(), count(&figures.dropped)), (0, HASH_JOBS_PER_THREAD_MAX as u64));
            let (jobs, claims): (Vec<_>, Vec<_>) = (0..100).map(fill).unzip();
            let source = Source::Network([127, 0, 0, 1].into());
            jobs.into_iter().for_each(|job| waiting.jobs.push(source, Standing::New, job));
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

    #[test]
    fn a_full_queue_lets_the_newest_job_of_who_asks_most_give_way() {
        let mut sample = Sample::start(1);
        let submitted = std::iter::repeat_with(|| sample.submit(7, verify(Vec::new(), b"x")));
        let claims: Vec<_> = submitted.map_while(|claim| claim).collect();
        let other = sample.submit_from(2, 8, verify(Vec::new(), b"x")).expect("one of the others gives way");
        // Long before all of those that wait: at its source's first turn.
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
        assert!(is_busy && place < 50, "behind {place}");
        drop((claims, other));
    }
}
