//! Threads that wait for the disk, so that event loops do not.
//!
//! Where the data is larger than memory, a page that is not there stops the thread that touches it until the disk has
//! brought it, and one thread at a time gets a sixth of what a disk can do. So while an event loop meets such pages
//! ([`Coldness`]) it has requests gone through here before it looks at them itself: many threads wait for many pages, and
//! what the loop reads afterwards is in memory. The loop alone answers; what is found here is thrown away, so nothing
//! depends on whether, when or by whom a request was read ahead.
//!
//! The threads are started when they are first wanted: a directory that fits into memory never has them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use directory::read_ahead::read_ahead;
use directory::search::Budget;
use directory::{Directory, Requester, Snapshot};
use ldap::{DecodeLimits, Message};

use crate::limits::{
    COLD_FAULTS_MIN, COLD_TICK, COLD_TICKS, READ_AHEAD_MEMORY_PER_THREAD, READ_AHEAD_MESSAGES,
    SLICE_BYTES_MAX, SLICE_ENTRIES_MAX,
};
use crate::mailbox::{Address, Letter, Mailbox};
use crate::memory;
use crate::process::major_faults;

/// What is read of a search: its first slice on the event loop.
const BUDGET: Budget = Budget { entries_examined_max: SLICE_ENTRIES_MAX, out_bytes_max: SLICE_BYTES_MAX };

/// Requests to go through, in a row. No `Debug`: there may be passwords among them.
pub(crate) struct Errand {
    /// Whom to tell when it is done.
    address: Address,
    requester: Arc<Requester>,
    /// Whole messages.
    messages: Vec<u8>,
}

/// The threads. Dropping it ends them.
pub(crate) struct ReadAheadPool {
    queue: Arc<Queue>,
    threads_max: usize,
    directory: Arc<Directory>,
    mailboxes: Arc<[Mailbox]>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    work_arrived: Condvar,
    figures: Arc<ReadAheadFigures>,
}

#[derive(Default)]
struct State {
    errands: VecDeque<Errand>,
    waiting_threads: usize,
    closed: bool,
}

/// What the threads have done, for monitoring.
#[derive(Debug, Default)]
pub(crate) struct ReadAheadFigures {
    /// Threads that were started.
    pub(crate) threads: AtomicU64,
    /// Requests gone through.
    pub(crate) requests: AtomicU64,
}

/// Cuts the whole messages at the front of `input` into errands, a few messages each, so that several threads can go
/// through what one connection sent at once. None where there is no whole message, or none that may be looked at.
pub(crate) fn errands(
    address: Address,
    requester: &Arc<Requester>,
    input: &[u8],
    message_size_max: usize,
) -> Vec<Errand> {
    let mut errands = Vec::new();
    let (mut begin, mut end, mut count) = (0, 0, 0);
    let mut push = |messages: &[u8]| {
        errands.push(Errand { address, requester: Arc::clone(requester), messages: messages.to_vec() });
    };
    while let Ok(Some(size)) = ldap::frame_len(&input[end..])
        && size <= message_size_max
        && end + size <= input.len()
    {
        end += size;
        count += 1;
        if count == READ_AHEAD_MESSAGES {
            push(&input[begin..end]);
            (begin, count) = (end, 0);
        }
    }
    if begin < end {
        push(&input[begin..end]);
    }
    errands
}

impl ReadAheadPool {
    /// A pool of at most so many threads, which are started with the first errand; with none, nothing is read ahead.
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

    /// Makes sure that there are threads. False where there cannot be any.
    pub(crate) fn start(&self) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = threads_for(memory::available_bytes()).min(self.threads_max);
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

    /// Has requests gone through. A letter follows for each errand.
    pub(crate) fn submit(&self, errands: &mut Vec<Errand>) {
        if errands.is_empty() {
            return;
        }
        let mut state = self.queue.lock();
        let wanted = errands.len().min(state.waiting_threads);
        state.errands.extend(errands.drain(..));
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
            // A thread only ends early by a panic outside of the guarded work; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Errands are pushed and popped whole, so a panic elsewhere leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The errand that waited longest; `None` when the pool is closed. Before it waits, `snapshot` lets go of its position.
    fn next(&self, snapshot: &mut Snapshot) -> Option<Errand> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(errand) = state.errands.pop_front() {
                return Some(errand);
            }
            snapshot.park();
            state.waiting_threads += 1;
            state = self.work_arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting_threads -= 1;
        }
    }
}

/// Threads that there is memory for. Asked when they are wanted first: a process may be put under a limit after its start.
fn threads_for(memory_bytes: Option<u64>) -> usize {
    let count = memory_bytes.map(|bytes| bytes / READ_AHEAD_MEMORY_PER_THREAD);
    count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX).max(1))
}

fn work(queue: &Queue, mut snapshot: Snapshot, mailboxes: &[Mailbox]) {
    let mut scratch = Vec::new();
    while let Some(errand) = queue.next(&mut snapshot) {
        // What went wrong here goes wrong again on the event loop, where somebody is told.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            if snapshot.renew().is_ok() {
                let count = errand.go(&snapshot, &mut scratch);
                queue.figures.requests.fetch_add(count, Ordering::Relaxed);
            }
        }));
        if let Some(mailbox) = mailboxes.get(usize::from(errand.address.event_loop)) {
            mailbox.post(Letter::ReadAhead(errand.address));
        }
    }
}

impl Errand {
    /// Goes through the requests, and says how many there were.
    fn go(&self, snapshot: &Snapshot, scratch: &mut Vec<u8>) -> u64 {
        let (mut rest, mut count) = (self.messages.as_slice(), 0);
        while let Ok(Some(size)) = ldap::frame_len(rest)
            && let Some((frame, others)) = rest.split_at_checked(size)
        {
            if let Ok(message) = Message::decode(frame, &DecodeLimits::AUTHENTICATED) {
                read_ahead(snapshot, &self.requester, &message, &BUDGET, scratch);
            }
            (rest, count) = (others, count + 1);
        }
        if scratch.capacity() > 2 * SLICE_BYTES_MAX {
            *scratch = Vec::new();
        }
        count
    }
}

/// Whether an event loop waits for the disk, as it finds out by counting.
///
/// The kernel counts how often a thread had to wait for a page of the data file: a *major fault*. A loop that has some in
/// a tick is cold from then on, until the whole process, the threads that read ahead included, had hardly any for a
/// while. A tick costs a short read from `/proc`.
pub(crate) struct Coldness {
    /// What is counted of this thread; there from the first tick on.
    thread: Option<FaultCount>,
    /// The same of the process.
    process: Option<FaultCount>,
    next_tick: Instant,
    /// Ticks to stay cold for if nothing more happens; 0 is warm.
    ticks_left: u32,
}

impl Coldness {
    /// A warm loop, of the thread that will tick.
    pub(crate) fn new(now: Instant) -> Coldness {
        Coldness { thread: None, process: None, next_tick: now, ticks_left: 0 }
    }

    pub(crate) fn is_cold(&self) -> bool {
        self.ticks_left > 0
    }

    /// Looks, when it is time to. True when the loop has just become cold.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        if now < self.next_tick {
            return false;
        }
        self.next_tick = now + COLD_TICK;
        let (count, path) = match self.is_cold() {
            false => (&mut self.thread, "/proc/thread-self/stat"),
            true => (&mut self.process, "/proc/self/stat"),
        };
        let faults = match count {
            Some(count) => count.new_faults(),
            None => {
                *count = FaultCount::open(path);
                // Nothing to compare with yet; a cold loop stays so until there is.
                if self.is_cold() { COLD_FAULTS_MIN } else { 0 }
            }
        };
        self.count(faults)
    }

    /// Takes the faults of one tick. True when they make a warm loop cold.
    fn count(&mut self, faults: u64) -> bool {
        let was_cold = self.is_cold();
        let is_many = faults >= COLD_FAULTS_MIN;
        self.ticks_left = if is_many { COLD_TICKS } else { self.ticks_left.saturating_sub(1) };
        if was_cold && !self.is_cold() {
            // What happens until the loop is cold again is not to be counted then.
            self.process = None;
        }
        !was_cold && self.is_cold()
    }
}

/// The major faults of a thread or a process.
struct FaultCount {
    stat: File,
    seen: u64,
}

impl FaultCount {
    fn open(path: &str) -> Option<FaultCount> {
        let mut count = FaultCount { stat: File::open(path).ok()?, seen: 0 };
        count.new_faults();
        Some(count)
    }

    /// How many came since the last call.
    fn new_faults(&mut self) -> u64 {
        let mut bytes = [0; 512];
        let length = self.stat.read_at(&mut bytes, 0).unwrap_or(0);
        let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let all = text.and_then(major_faults).unwrap_or(self.seen);
        all - std::mem::replace(&mut self.seen, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Address = Address { event_loop: 0, slot: 1, connection: 2, ticket: 0 };

    /// A delete of "a" with this id.
    fn delete(id: u8) -> Vec<u8> {
        vec![0x30, 6, 2, 1, id, 0x4a, 1, b'a']
    }

    #[test]
    fn whole_messages_are_cut_into_errands() {
        let check = |input: &[u8], expected: &[usize]| {
            let cut = errands(ADDRESS, &Arc::new(Requester::Anonymous), input, 100);
            let sizes: Vec<usize> = cut.iter().map(|errand| errand.messages.len()).collect();
            assert_eq!(sizes, expected);
            assert_eq!(cut.concat_messages(), input[..sizes.iter().sum()]);
        };
        let many: Vec<u8> = (0..10).flat_map(delete).collect();
        check(&[], &[]);
        check(&delete(1)[..7], &[]);
        check(&delete(1), &[8]);
        check(&many[..15], &[8]);
        check(&many, &[32, 32, 16]);
        // A message over the limit, and no message: the session says what is wrong with them.
        check(&[0x30, 0x7f, 2, 1], &[]);
        check(&[&delete(1), b"GET / HTTP/1.1".as_slice()].concat(), &[8]);
    }

    trait ConcatMessages {
        fn concat_messages(&self) -> Vec<u8>;
    }

    impl ConcatMessages for Vec<Errand> {
        fn concat_messages(&self) -> Vec<u8> {
            self.iter().flat_map(|errand| errand.messages.clone()).collect()
        }
    }

    #[test]
    fn a_loop_is_cold_while_there_are_faults_and_a_while_longer() {
        let mut coldness = Coldness::new(Instant::now());
        assert!(!coldness.count(COLD_FAULTS_MIN - 1) && !coldness.is_cold());
        assert!(coldness.count(COLD_FAULTS_MIN) && coldness.is_cold());
        assert!(!coldness.count(COLD_FAULTS_MIN) && coldness.is_cold());
        for _ in 1..COLD_TICKS {
            assert!(!coldness.count(0) && coldness.is_cold());
        }
        assert!(!coldness.count(0) && !coldness.is_cold());
    }

    #[test]
    fn threads_are_as_many_as_fit() {
        assert_eq!(threads_for(None), usize::MAX);
        assert_eq!(threads_for(Some(1 << 20)), 1);
        assert_eq!(threads_for(Some(64 << 20)), 4);
    }

    #[test]
    fn the_kernel_counts() {
        assert!(
            FaultCount::open("/proc/thread-self/stat").is_some_and(|count| count.stat.metadata().is_ok())
        );
        let mut coldness = Coldness::new(Instant::now());
        assert!(!coldness.tick(Instant::now()));
        assert!(coldness.thread.is_some());
    }
}
