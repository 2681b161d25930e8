//! Prefetch threads, which wait for the disk in place of event loops.
//!
//! If the data is larger than memory, a page fault blocks the thread that accesses the page. A single thread achieves
//! only a sixth of the random reads of which a disk is capable. Therefore a cold event loop ([`ColdLoopDetector`])
//! first makes a dry run of each request, which reads only pages in memory ([`dry_run`]). If all pages of a request are
//! in memory, the loop executes it at once. Otherwise the dry run finds one missing page. A prefetch thread reads that
//! page together with pages of other requests, and the loop repeats the dry run. If a request reads many rows, a
//! prefetch thread makes the whole dry run. The event loop executes every request itself, so that no answer depends on
//! prefetching.
//!
//! The threads start when they are first needed. If the data fits into memory, they never start.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use directory::read_ahead::{self, read_ahead};
use directory::search::Budget;
use directory::{Directory, Requester, Snapshot};
use ldap::{DecodeLimits, Message};
use nix::sys::resource::UsageWho;
use store::PageNumber;
use system::lower_priority;

use crate::limits::{
    BUFFER_SIZE, COLD_PAGES_MIN, COLD_TICK, COLD_TICKS, COLD_WAIT_MIN, READ_AHEAD_LOOK_ENTRIES,
    READ_AHEAD_LOOKS, READ_AHEAD_MEMORY_PER_THREAD, READ_AHEAD_MESSAGES, READ_AHEAD_NICENESS,
    READ_AHEAD_PAGES, READ_AHEAD_ROUNDS, SLICE_BYTES_MAX, SLICE_ENTRIES_MAX,
};
use crate::net::mailbox::{Address, LoopMessage, Mailbox};
use crate::telemetry::process::{bytes_read, time_used};

/// Size of a page of memory in octets.
const PAGE_SIZE: u64 = 4096;

/// Budget of a prefetch thread for the dry run of a search. The first slice on the event loop has the same budget.
const BUDGET: Budget = Budget { entries_examined_max: SLICE_ENTRIES_MAX, out_bytes_max: SLICE_BYTES_MAX };

/// Budget of an event loop for the dry run of a search.
const LOOK: Budget = Budget { entries_examined_max: READ_AHEAD_LOOK_ENTRIES, out_bytes_max: BUFFER_SIZE };

/// Job of an event loop for a prefetch thread. It does not implement `Debug`, because it may contain passwords.
pub(crate) struct PrefetchJob {
    /// Address that is notified when the job is done.
    address: Address,
    work: Work,
}

enum Work {
    /// Pages to read from the disk.
    Pages(Vec<PageNumber>),
    /// Complete messages. The thread makes dry runs of their requests, one after another.
    Requests { requester: Arc<Requester>, messages: Vec<u8> },
}

/// The prefetch threads and their queue. Dropping this struct ends the threads.
pub(crate) struct ReadAheadPool {
    queue: Arc<Queue>,
    threads_max: usize,
    directory: Arc<Directory>,
    mailboxes: Arc<[Mailbox]>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<JobQueue>,
    work_arrived: Condvar,
    figures: Arc<ReadAheadFigures>,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<PrefetchJob>,
    waiting_threads: usize,
    closed: bool,
}

/// Counters of the prefetch threads.
#[derive(Debug, Default)]
pub(crate) struct ReadAheadFigures {
    /// Number of threads started.
    pub(crate) threads: AtomicU64,
    /// Number of requests of which the threads made dry runs.
    pub(crate) requests: AtomicU64,
    /// Number of pages prefetched.
    pub(crate) pages: AtomicU64,
}

/// Result of an event loop's dry runs for its input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DryRun {
    /// Number of octets at the start of the input that can be handled now.
    ready: usize,
    /// Number of jobs that were created for the rest of the input. Each job ends with a notification.
    awaited: u32,
    /// Whether all of the input can be handled after the jobs, without another dry run.
    is_all: bool,
}

impl DryRun {
    /// Returns the result for an input without missing pages.
    pub(crate) fn all(input: &[u8]) -> DryRun {
        DryRun { ready: input.len(), awaited: 0, is_all: true }
    }
}

/// Progress of prefetching pages for a connection's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefetchProgress {
    /// Number of jobs that are not done yet.
    awaited: u32,
    /// Number of consecutive dry runs in which the first request lacked pages.
    rounds: u8,
    /// Whether all of the input can be handled when no job is left.
    is_done: bool,
}

impl PrefetchProgress {
    /// Returns the number of octets of `input` that can be handled; 0 while jobs are not done. Calls `dry_run_one` if
    /// the number is unknown.
    pub(crate) fn ready(&mut self, input: &[u8], dry_run_one: impl FnOnce(&[u8]) -> DryRun) -> usize {
        if self.awaited > 0 {
            return 0;
        }
        if self.is_done || self.rounds >= READ_AHEAD_ROUNDS {
            *self = PrefetchProgress::default();
            return input.len();
        }
        let DryRun { ready, awaited, is_all } = dry_run_one(input);
        let rounds = if ready == 0 { self.rounds + 1 } else { 0 };
        *self = PrefetchProgress { awaited, rounds, is_done: is_all && awaited > 0 };
        // Without a job, no notification would cause the next dry run. So the input is handled without prefetching.
        if ready == 0 && awaited == 0 { input.len() } else { ready }
    }

    /// Counts a job that is done.
    pub(crate) fn one_is_done(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
    }
}

/// Makes dry runs of the complete messages at the start of `input`. A dry run reads only pages in memory. Creates jobs
/// for missing pages. `scratch` is a buffer for output that is discarded.
pub(crate) fn dry_run(
    snapshot: &Snapshot,
    limits: &DecodeLimits,
    address: Address,
    requester: &Arc<Requester>,
    input: &[u8],
    scratch: &mut Vec<u8>,
    jobs: &mut Vec<PrefetchJob>,
) -> DryRun {
    let (mut ready, mut end, mut awaited) = (0, 0, 0);
    for _ in 0..READ_AHEAD_LOOKS {
        let Some(frame) = first_frame(input.get(end..).unwrap_or_default(), limits.message_size_max) else {
            if awaited == 0 {
                // The session must handle the octets that follow: it waits for the rest of a message, or reports an
                // error.
                return DryRun::all(input);
            }
            break;
        };
        let decoded = Message::decode(frame, limits).ok();
        let dry_run_one = |message| read_ahead::dry_run(snapshot, requester, &message, &LOOK, scratch);
        let absent = decoded.map(dry_run_one).unwrap_or_default();
        if absent.is_walk && end == 0 {
            let whole = whole_requests(address, requester, input, limits.message_size_max);
            awaited = u32::try_from(whole.len()).unwrap_or(u32::MAX);
            jobs.extend(whole);
            return DryRun { ready: 0, awaited, is_all: true };
        } else if absent.is_walk {
            // When this request is the first of the input, a prefetch thread will make its dry run.
            break;
        }
        end += frame.len();
        if !absent.pages.is_empty() {
            awaited += 1;
            jobs.push(PrefetchJob { address, work: Work::Pages(absent.pages) });
        } else if awaited == 0 {
            ready = end;
        }
    }
    scratch.clear();
    scratch.shrink_to(2 * SLICE_BYTES_MAX);
    DryRun { ready, awaited, is_all: false }
}

/// Returns the message at the start of the input, if it is complete and not too large.
fn first_frame(input: &[u8], message_size_max: usize) -> Option<&[u8]> {
    let size = ldap::frame_len(input).ok().flatten().filter(|size| *size <= message_size_max)?;
    input.get(..size)
}

/// Divides the complete messages at the start of `input` into jobs of a few messages, so that several threads can make
/// dry runs for one connection at the same time. Ends before the first message that is incomplete or too large.
#[expect(clippy::indexing_slicing, reason = "begin and end count whole messages of the input")]
fn whole_requests(
    address: Address,
    requester: &Arc<Requester>,
    input: &[u8],
    message_size_max: usize,
) -> Vec<PrefetchJob> {
    let mut jobs = Vec::new();
    let (mut begin, mut end, mut count) = (0, 0, 0);
    let mut push = |messages: &[u8]| {
        let requester = Arc::clone(requester);
        jobs.push(PrefetchJob { address, work: Work::Requests { requester, messages: messages.to_vec() } });
    };
    while let Some(frame) = first_frame(&input[end..], message_size_max) {
        end += frame.len();
        count += 1;
        if count == READ_AHEAD_MESSAGES {
            push(&input[begin..end]);
            (begin, count) = (end, 0);
        }
    }
    if begin < end {
        push(&input[begin..end]);
    }
    jobs
}

impl ReadAheadPool {
    /// Creates a pool of at most `threads_max` threads, which start with the first job. If `threads_max` is 0, nothing
    /// is prefetched.
    pub(crate) fn new(
        threads_max: usize,
        directory: &Arc<Directory>,
        mailboxes: &Arc<[Mailbox]>,
    ) -> ReadAheadPool {
        ReadAheadPool {
            queue: Arc::default(),
            threads_max,
            directory: Arc::clone(directory),
            mailboxes: Arc::clone(mailboxes),
            threads: Mutex::default(),
        }
    }

    /// Starts the threads if they do not run. Returns false if no thread runs.
    pub(crate) fn start(&self) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = threads_for(system::available_memory_bytes()).min(self.threads_max);
        while threads.len() < wanted {
            match self.start_one(threads.len()) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    let count = threads.len();
                    tracing::warn!(%error, "only {count} threads read ahead for event loops");
                    break;
                }
            }
        }
        self.queue.figures.threads.store(threads.len() as u64, Ordering::Relaxed);
        !threads.is_empty()
    }

    fn start_one(&self, index: usize) -> io::Result<JoinHandle<()>> {
        let mut snapshot = self.directory.snapshot().map_err(io::Error::other)?;
        snapshot.park();
        let (queue, mailboxes) = (Arc::clone(&self.queue), Arc::clone(&self.mailboxes));
        let builder = std::thread::Builder::new().name(format!("pando-ahead-{index}"));
        builder.spawn(move || work(&queue, snapshot, &mailboxes))
    }

    /// Queues jobs. The event loop receives a message when a job is done.
    pub(crate) fn submit(&self, jobs: &mut Vec<PrefetchJob>) {
        if jobs.is_empty() {
            return;
        }
        let page_jobs = jobs.iter().filter(|job| job.is_pages()).count();
        let busy = jobs.len() - page_jobs + page_jobs.div_ceil(READ_AHEAD_PAGES);
        let mut state = self.queue.lock();
        let wanted = busy.min(state.waiting_threads);
        state.jobs.extend(jobs.drain(..));
        drop(state);
        for _ in 0..wanted {
            self.queue.work_arrived.notify_one();
        }
    }

    pub(crate) fn figures(&self) -> Arc<ReadAheadFigures> {
        Arc::clone(&self.queue.figures)
    }
}

impl Drop for ReadAheadPool {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.work_arrived.notify_all();
        for thread in self.threads.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // The thread may have ended by a panic outside of `catch_unwind`. No caller could handle that.
            let _ = thread.join();
        }
    }
}

impl JobQueue {
    /// Takes the job that has waited longest. If it is for pages, also takes the jobs for pages that directly follow
    /// it, up to [`READ_AHEAD_PAGES`] in total. Returns false if the queue is empty.
    fn take(&mut self, into: &mut Vec<PrefetchJob>) -> bool {
        let pages = self.jobs.iter().take(READ_AHEAD_PAGES).take_while(|job| job.is_pages());
        let count = pages.count().max(1).min(self.jobs.len());
        into.extend(self.jobs.drain(..count));
        count > 0
    }
}

impl Queue {
    /// Jobs are pushed and popped in one step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for jobs and takes them as [`JobQueue::take`] does. Parks `snapshot` while it waits. Returns false when
    /// the pool is closed.
    fn next(&self, snapshot: &mut Snapshot, jobs: &mut Vec<PrefetchJob>) -> bool {
        let mut state = self.lock();
        loop {
            if state.closed {
                return false;
            }
            if state.take(jobs) {
                return true;
            }
            snapshot.park();
            state.waiting_threads += 1;
            state = self.work_arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting_threads -= 1;
        }
    }
}

/// Returns the maximum number of threads for an amount of memory. This function is called when the first thread is
/// needed, because a memory limit may be set after the process has started.
fn threads_for(memory_bytes: Option<u64>) -> usize {
    let count = memory_bytes.map(|bytes| bytes / READ_AHEAD_MEMORY_PER_THREAD);
    count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX).max(1))
}

fn work(queue: &Queue, mut snapshot: Snapshot, mailboxes: &[Mailbox]) {
    lower_priority(READ_AHEAD_NICENESS, "threads that read ahead have no lower priority");
    let (mut jobs, mut scratch) = (Vec::new(), Vec::new());
    while queue.next(&mut snapshot, &mut jobs) {
        // An error is ignored, because it occurs again on the event loop, which reports it.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            run_jobs(&jobs, &mut snapshot, &mut scratch, &queue.figures);
        }));
        jobs.sort_by_key(|job| job.address.event_loop);
        for done in jobs.chunk_by(|one, other| one.address.event_loop == other.address.event_loop) {
            let event_loop = done.first().map_or(0, |job| usize::from(job.address.event_loop));
            let addresses = done.iter().map(|job| job.address).collect();
            let pages = done.iter().flat_map(PrefetchJob::pages).copied().collect();
            if let Some(mailbox) = mailboxes.get(event_loop) {
                mailbox.post(LoopMessage::ReadAhead(addresses, pages));
            }
        }
        jobs.clear();
    }
}

/// Performs jobs. First prefetches all pages, then makes the dry runs.
fn run_jobs(
    jobs: &[PrefetchJob],
    snapshot: &mut Snapshot,
    scratch: &mut Vec<u8>,
    figures: &ReadAheadFigures,
) {
    let pages: Vec<PageNumber> = jobs.iter().flat_map(PrefetchJob::pages).copied().collect();
    if !pages.is_empty() && read_ahead::bring_in(snapshot, &pages).is_ok() {
        figures.pages.fetch_add(pages.len() as u64, Ordering::Relaxed);
    }
    for job in jobs {
        if let Work::Requests { requester, messages } = &job.work
            && snapshot.renew().is_ok()
        {
            let count = go_through(snapshot, requester, messages, scratch);
            figures.requests.fetch_add(count, Ordering::Relaxed);
        }
    }
}

/// Makes dry runs of requests. Returns the number of requests.
fn go_through(snapshot: &Snapshot, requester: &Requester, messages: &[u8], scratch: &mut Vec<u8>) -> u64 {
    let (mut rest, mut count) = (messages, 0);
    while let Some(frame) = first_frame(rest, usize::MAX) {
        if let Ok(message) = Message::decode(frame, &DecodeLimits::AUTHENTICATED) {
            read_ahead(snapshot, requester, &message, &BUDGET, scratch);
        }
        (rest, count) = (rest.get(frame.len()..).unwrap_or_default(), count + 1);
    }
    if scratch.capacity() > 2 * SLICE_BYTES_MAX {
        *scratch = Vec::new();
    }
    count
}

impl PrefetchJob {
    fn is_pages(&self) -> bool {
        matches!(self.work, Work::Pages(_))
    }

    /// Returns the pages to prefetch; empty for a job of requests.
    fn pages(&self) -> &[PageNumber] {
        match &self.work {
            Work::Pages(pages) => pages,
            Work::Requests { .. } => &[],
        }
    }
}

/// Detector of event loops that wait for the disk.
///
/// The kernel counts the octets that each thread caused to be read from a disk. A loop becomes cold if it waited for
/// such reads for more than a small part of a tick. It becomes warm again after some ticks in which the reads of the
/// whole process, including prefetch threads, were too few to delay the loop that long. A cold loop is slower: it goes
/// through every request twice, and asks the kernel about each page that it has not used recently. Therefore occasional
/// page faults do not make a loop cold.
///
/// A tick costs a call of getrusage(2) and, in a warm loop, a short read from `/proc`. If the kernel does not count the
/// octets read, a loop is never cold. Counts of major faults are not usable instead: a page in memory that is being
/// written, for example by a checkpoint, may cause a major fault, too.
pub(crate) struct ColdLoopDetector {
    counts: Option<Counts>,
    tick_began: Instant,
    /// Time since which the loop has been waiting for events; `None` while it works.
    idle_since: Option<Instant>,
    /// Time that the loop has waited for events in this tick.
    idle: Duration,
    /// Average time for which the loop waited for one page, as last measured while the loop was warm.
    page_wait: Duration,
    /// Number of ticks after which the loop becomes warm if few pages are read; 0 if it is warm.
    ticks_left: u32,
}

impl ColdLoopDetector {
    /// Creates the detector of a warm loop. Only the loop's own thread may call `tick`.
    pub(crate) fn new(now: Instant) -> ColdLoopDetector {
        ColdLoopDetector {
            counts: None,
            tick_began: now,
            idle_since: None,
            idle: Duration::ZERO,
            page_wait: Duration::ZERO,
            ticks_left: 0,
        }
    }

    pub(crate) fn is_cold(&self) -> bool {
        self.ticks_left > 0
    }

    /// Records that the loop waits for events from `now` until it calls [`tick`](Self::tick).
    pub(crate) fn idle_from(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }

    /// Evaluates the kernel's counts if a tick is over. Returns true if the loop becomes cold.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        if let Some(since) = self.idle_since.take() {
            self.idle += now.saturating_duration_since(since);
        }
        let elapsed = now.saturating_duration_since(self.tick_began);
        if elapsed < COLD_TICK {
            return false;
        }
        self.tick_began = now;
        let idle = std::mem::take(&mut self.idle);
        let Some(counts) = &mut self.counts else {
            // This tick has no count with which to compare, so it only opens the counters.
            self.counts = Counts::open(self.is_cold());
            return false;
        };
        let pages = counts.read_since_last() / PAGE_SIZE;
        let used = counts.used.as_mut().map(|used| Duration::from_nanos(used.since_last()));
        self.count(pages, used.map(|used| elapsed.saturating_sub(idle + used)))
    }

    /// Evaluates the number of pages read in a tick. `waited` is the time for which a warm loop waited for these pages,
    /// if known. Returns true if a warm loop becomes cold.
    fn count(&mut self, pages: u64, waited: Option<Duration>) -> bool {
        let was_cold = self.is_cold();
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        if !was_cold && pages > 0 {
            // If the wait is unknown, it is assumed to be the smallest wait that makes the loop cold with the smallest
            // number of pages.
            self.page_wait = waited.map_or(COLD_WAIT_MIN / COLD_PAGES_MIN, |waited| waited / pages);
        }
        let is_much = pages >= COLD_PAGES_MIN && self.page_wait.saturating_mul(pages) >= COLD_WAIT_MIN;
        self.ticks_left = if is_much { COLD_TICKS } else { self.ticks_left.saturating_sub(1) };
        if was_cold != self.is_cold() {
            // Cold and warm loops count the reads of different threads. Therefore counting begins again at the next
            // tick.
            self.counts = None;
        }
        !was_cold && self.is_cold()
    }
}

/// Counters of the kernel at the last tick.
struct Counts {
    /// Threads whose reads count: for a warm loop its own thread, for a cold loop the whole process.
    whose: UsageWho,
    /// Number of octets that these threads had read from a disk at the last tick.
    read: u64,
    /// Time in nanoseconds that the thread of a warm loop has used or waited for a processor; `None` if the kernel does
    /// not count it.
    used: Option<Count>,
}

impl Counts {
    fn open(is_cold: bool) -> Option<Counts> {
        let whose = if is_cold { UsageWho::RUSAGE_SELF } else { UsageWho::RUSAGE_THREAD };
        let used = (!is_cold).then(|| Count::open("/proc/thread-self/schedstat", time_used)).flatten();
        Some(Counts { whose, read: bytes_read(whose)?, used })
    }

    fn read_since_last(&mut self) -> u64 {
        let all = bytes_read(self.whose).unwrap_or(self.read);
        all.saturating_sub(std::mem::replace(&mut self.read, all))
    }
}

/// A counter of the kernel in a file of `/proc`.
struct Count {
    file: File,
    find: fn(&str) -> Option<u64>,
    seen: u64,
}

impl Count {
    /// Opens a counter; `None` if it does not exist.
    fn open(path: &str, find: fn(&str) -> Option<u64>) -> Option<Count> {
        let mut count = Count { file: File::open(path).ok()?, find, seen: 0 };
        count.seen = count.now()?;
        Some(count)
    }

    /// Returns the increase since the last call.
    fn since_last(&mut self) -> u64 {
        let all = self.now().unwrap_or(self.seen);
        all.saturating_sub(std::mem::replace(&mut self.seen, all))
    }

    fn now(&self) -> Option<u64> {
        let mut bytes = [0; 512];
        let length = self.file.read_at(&mut bytes, 0).ok()?;
        (self.find)(std::str::from_utf8(bytes.get(..length)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Address = Address { event_loop: 0, slot: 1, connection: 2, ticket: 0 };

    /// Returns a delete of "a" with this id.
    fn delete(id: u8) -> Vec<u8> {
        vec![0x30, 6, 2, 1, id, 0x4a, 1, b'a']
    }

    #[test]
    fn cuts_whole_messages_into_prefetch_jobs() {
        let check = |input: &[u8], expected: &[usize]| {
            let cut: Vec<Vec<u8>> = whole_requests(ADDRESS, &Arc::new(Requester::Anonymous), input, 100)
                .into_iter()
                .map(|job| match job.work {
                    Work::Requests { messages, .. } => messages,
                    Work::Pages(_) => panic!("pages"),
                })
                .collect();
            let sizes: Vec<usize> = cut.iter().map(Vec::len).collect();
            assert_eq!(sizes, expected);
            assert_eq!(cut.concat(), input[..sizes.iter().sum()]);
        };
        let many: Vec<u8> = (0..10).flat_map(delete).collect();
        check(&[], &[]);
        check(&delete(1)[..7], &[]);
        check(&delete(1), &[8]);
        check(&many[..15], &[8]);
        check(&many, &[32, 32, 16]);
        // A message above the size limit, and octets that are no message, get no job. The session reports the error.
        check(&[0x30, 0x7f, 2, 1], &[]);
        check(&[&delete(1), b"GET / HTTP/1.1".as_slice()].concat(), &[8]);
    }

    #[test]
    fn a_connection_waits_for_its_prefetch_jobs_for_limited_rounds() {
        let input = [0; 30];
        let never = |_: &[u8]| -> DryRun { panic!("there is nothing to look for") };
        let pages = |ready, awaited| move |_: &[u8]| DryRun { ready, awaited, is_all: false };
        let mut reading = PrefetchProgress::default();
        assert_eq!(reading.ready(&input, DryRun::all), 30);
        assert_eq!(reading, PrefetchProgress::default());
        // The first 20 octets are ready. The rest waits for two jobs.
        assert_eq!(reading.ready(&input, pages(20, 2)), 20);
        assert_eq!(reading.ready(&input, never), 0);
        reading.one_is_done();
        assert_eq!(reading.ready(&input, never), 0);
        reading.one_is_done();
        assert_eq!(reading.ready(&input, pages(10, 0)), 10);
        // A prefetch thread makes the dry run of the whole input. Therefore `dry_run_one` is not called again.
        assert_eq!(reading.ready(&input, |_| DryRun { ready: 0, awaited: 1, is_all: true }), 0);
        reading.one_is_done();
        assert_eq!(reading.ready(&input, never), 30);
        // The pages are evicted each time between their prefetch and the next dry run.
        for _ in 0..READ_AHEAD_ROUNDS {
            assert_eq!(reading.ready(&input, pages(0, 1)), 0);
            reading.one_is_done();
        }
        assert_eq!(reading.ready(&input, never), 30);
        assert_eq!(reading.ready(&input, pages(0, 1)), 0);
    }

    #[test]
    fn prefetch_jobs_for_pages_are_taken_in_groups() {
        let mut state = JobQueue::default();
        let pages = || PrefetchJob { address: ADDRESS, work: Work::Pages(Vec::new()) };
        state.jobs.extend((0..READ_AHEAD_PAGES + 2).map(|_| pages()));
        state.jobs.extend(whole_requests(
            ADDRESS,
            &Arc::new(Requester::Anonymous),
            &[&delete(1)[..]; 5].concat(),
            100,
        ));
        state.jobs.push_back(pages());
        let order = std::iter::from_fn(|| {
            let mut into = Vec::new();
            state.take(&mut into).then(|| (into.len(), into.iter().all(PrefetchJob::is_pages)))
        });
        let expected = [(READ_AHEAD_PAGES, true), (2, true), (1, false), (1, false), (1, true)];
        assert_eq!(order.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_loop_is_cold_while_page_faults_would_delay_it() {
        let mut coldness = ColdLoopDetector::new(Instant::now());
        let (few, many) = (u64::from(COLD_PAGES_MIN) - 1, u64::from(COLD_PAGES_MIN) * 10);
        assert!(!coldness.count(few, Some(COLD_TICK)) && !coldness.count(few, None), "few pages");
        assert!(!coldness.count(many, Some(COLD_WAIT_MIN / 2)) && !coldness.is_cold(), "a fast disk");
        assert!(coldness.count(many, Some(COLD_WAIT_MIN * 2)) && coldness.is_cold());
        // The page wait was measured while the loop was warm. With this wait, half of the pages are enough to keep the
        // loop cold, and a quarter is not.
        assert!(!coldness.count(many / 2 + 1, None));
        for _ in 1..COLD_TICKS {
            assert!(!coldness.count(many / 4, None) && coldness.is_cold());
        }
        assert!(!coldness.count(0, None) && !coldness.is_cold());
        // The kernel does not report the waiting time.
        assert!(coldness.count(u64::from(COLD_PAGES_MIN), None) && coldness.is_cold());
    }

    #[test]
    fn the_memory_limit_determines_the_number_of_threads() {
        assert_eq!(threads_for(None), usize::MAX);
        assert_eq!(threads_for(Some(1 << 20)), 1);
        assert_eq!(threads_for(Some(64 << 20)), 4);
    }

    #[test]
    fn idle_time_is_not_waiting_time() {
        let begin = Instant::now();
        let mut coldness = ColdLoopDetector::new(begin);
        coldness.idle_from(begin);
        assert!(!coldness.tick(begin + COLD_TICK / 2));
        assert_eq!(coldness.idle, COLD_TICK / 2);
        assert!(!coldness.tick(begin + COLD_TICK) && coldness.counts.is_some());
        assert_eq!((coldness.idle, coldness.tick_began), (Duration::ZERO, begin + COLD_TICK));
    }

    #[test]
    fn the_kernel_counts_the_time_of_the_thread() {
        let counts = Counts::open(false).unwrap();
        assert!(Counts::open(true).unwrap().used.is_none());
        let mut used = counts.used.unwrap();
        let mut spent = 0;
        // On some systems the kernel updates the counter only when the thread leaves its processor.
        for _ in 0..100_000 {
            spent += used.since_last();
            std::thread::yield_now();
        }
        assert!(spent > 0);
    }
}
