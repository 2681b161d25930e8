//! Queue of events from the event loops to the thread that writes the audit trail.
//!
//! Each event loop gathers its events in a buffer. It hands the buffer over when the buffer is large or old, or when
//! the loop is idle. Therefore an event costs the loop only a copy. The queue is bounded in bytes. If it is full,
//! requests are held back, or events are lost and counted, depending on the settings.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use audit::{EventWriter, Field, Kind};
use directory::Snapshot;
use directory::name::{NormalName, parse_dn};

use crate::config::audit::{AuditSettings, Kinds, Overload};
use crate::limits::{
    AUDIT_BLOCK_BYTES, AUDIT_BUFFER_BYTES, AUDIT_GATHER, AUDIT_HAND_OVER, AUDIT_WAITING_BYTES_MAX,
};
use crate::stamp::now_micros;

/// Encoded events of one event loop.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
}

/// State of the audit trail that the event loops, the writer and the trail's thread share.
pub(crate) struct AuditFeed {
    pub(crate) settings: AuditSettings,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// Size in octets of the chunks that are not written yet.
    waiting_bytes: AtomicUsize,
    /// Whether the audit trail lacks so many changes of the log that requests must wait.
    holds: AtomicBool,
    pub(crate) figures: AuditFigures,
}

/// Figures about the audit trail, for `cn=monitor`.
#[derive(Debug, Default)]
pub(crate) struct AuditFigures {
    /// Number of written events.
    pub(crate) events: AtomicU64,
    /// Number of written blocks.
    pub(crate) blocks: AtomicU64,
    /// Size of the trail in octets.
    pub(crate) bytes: AtomicU64,
    /// Position of the last change in the trail.
    pub(crate) position: AtomicU64,
    /// Number of lost events.
    pub(crate) lost: AtomicU64,
    /// Whether the audit trail cannot be written now.
    pub(crate) is_failing: AtomicBool,
    /// Number of times that requests were held back.
    pub(crate) held: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    chunks: Vec<Chunk>,
    /// Size of the chunks in octets.
    bytes: usize,
    /// Whether the log has new changes.
    has_changes: bool,
    /// Number of lost events that the trail does not report yet.
    lost: u64,
    is_closed: bool,
}

/// Events and changes to write.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) lost: u64,
    pub(crate) is_closed: bool,
}

impl AuditFeed {
    pub(crate) fn new(settings: AuditSettings) -> AuditFeed {
        AuditFeed {
            settings,
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            waiting_bytes: AtomicUsize::new(0),
            holds: AtomicBool::new(false),
            figures: AuditFigures::default(),
        }
    }

    /// Returns true if requests must be held back.
    #[inline]
    pub(crate) fn must_hold(&self) -> bool {
        let is_full = self.waiting_bytes.load(Ordering::Relaxed) >= AUDIT_WAITING_BYTES_MAX;
        (is_full || self.holds.load(Ordering::Relaxed)) && self.settings.overload == Overload::Hold
    }

    /// Sets whether too many changes of the log are missing in the audit trail.
    pub(crate) fn set_lagging(&self, is_lagging: bool) {
        self.holds.store(is_lagging, Ordering::Relaxed);
    }

    /// Wakes the thread, because the log has new changes.
    pub(crate) fn changed(&self) {
        let was_idle = {
            let mut waiting = self.lock();
            let was_idle = waiting.chunks.is_empty() && !waiting.has_changes;
            waiting.has_changes = true;
            was_idle
        };
        if was_idle {
            self.arrived.notify_one();
        }
    }

    fn hand_over(&self, chunk: Chunk) {
        let length = chunk.bytes.len();
        let is_full = self.waiting_bytes.load(Ordering::Relaxed) + length > AUDIT_WAITING_BYTES_MAX;
        let mut waiting = self.lock();
        if is_full && self.settings.overload == Overload::Count {
            waiting.lost += u64::from(chunk.count);
            self.figures.lost.fetch_add(chunk.count.into(), Ordering::Relaxed);
            return;
        }
        let was_idle = waiting.chunks.is_empty() && !waiting.has_changes;
        let was_small = waiting.bytes < AUDIT_BLOCK_BYTES;
        waiting.chunks.push(chunk);
        waiting.bytes += length;
        let is_large = waiting.bytes >= AUDIT_BLOCK_BYTES;
        drop(waiting);
        self.waiting_bytes.fetch_add(length, Ordering::Relaxed);
        if was_idle || (was_small && is_large) {
            self.arrived.notify_one();
        }
    }

    /// Makes the trail's thread write all waiting events and end.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Waits for events or changes, for at most `patience` if it is given. When some have arrived, waits up to
    /// [`AUDIT_GATHER`] for more.
    pub(crate) fn fetch(&self, patience: Option<Duration>) -> Fetched {
        let is_idle = |waiting: &mut Waiting| {
            waiting.chunks.is_empty() && !waiting.has_changes && waiting.lost == 0 && !waiting.is_closed
        };
        let mut waiting = self.lock();
        waiting = match patience {
            Some(patience) => {
                let waited = self.arrived.wait_timeout_while(waiting, patience, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.arrived.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner),
        };
        if !is_idle(&mut waiting) {
            let is_small = |waiting: &mut Waiting| waiting.bytes < AUDIT_BLOCK_BYTES && !waiting.is_closed;
            let waited = self.arrived.wait_timeout_while(waiting, AUDIT_GATHER, is_small);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let Waiting { chunks, bytes, has_changes, lost, is_closed } = &mut *waiting;
        (*bytes, *has_changes) = (0, false);
        Fetched { chunks: std::mem::take(chunks), lost: std::mem::take(lost), is_closed: *is_closed }
    }

    /// Records that chunks of this total size are in the trail.
    pub(crate) fn written(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Every update under the lock is one step, so a poisoned lock is usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Selection of the events to record, with names in normal form.
pub(crate) struct Choice {
    what: Kinds,
    except: Vec<Exception>,
}

struct Exception {
    what: Kinds,
    who: Vec<NormalName>,
    targets: Vec<NormalName>,
}

impl Choice {
    pub(crate) fn of(settings: &AuditSettings, snapshot: &Snapshot) -> Choice {
        let schema = &snapshot.state().catalog.schema;
        let normal = |names: &[crate::config::values::DnText]| {
            let names = names.iter().filter_map(|name| parse_dn(name.as_str()).ok());
            names.map(|dn| NormalName::of(&dn, schema)).collect()
        };
        let except = settings.except.iter().map(|rule| Exception {
            what: rule.what,
            who: normal(&rule.who),
            targets: normal(&rule.targets),
        });
        Choice { what: settings.what, except: except.collect() }
    }

    /// Returns true if an event of this kind, requester and target is recorded.
    pub(crate) fn keeps(&self, snapshot: &Snapshot, kind: Kind, who: &str, target: &str) -> bool {
        self.what.contains(kind)
            && (self.except.is_empty()
                || !self.except.iter().any(|rule| rule.fits(snapshot, kind, who, target)))
    }
}

impl Exception {
    fn fits(&self, snapshot: &Snapshot, kind: Kind, who: &str, target: &str) -> bool {
        self.what.contains(kind)
            && (self.who.is_empty() || is_below(snapshot, who, &self.who))
            && (self.targets.is_empty() || is_below(snapshot, target, &self.targets))
    }
}

fn is_below(snapshot: &Snapshot, name: &str, superiors: &[NormalName]) -> bool {
    let Ok(dn) = parse_dn(name) else { return false };
    let name = NormalName::of(&dn, &snapshot.state().catalog.schema);
    // The key of an entry begins with the key of each superior, and that prefix ends where an RDN ends.
    superiors.iter().any(|superior| {
        superior.failure.is_none()
            && name.key.starts_with(&superior.key)
            && name.ends.contains(&superior.key.len())
    })
}

/// Event buffer of an event loop. It stays empty if there is no audit trail.
pub(crate) struct AuditBuffer {
    trail: Option<(Arc<AuditFeed>, Choice)>,
    gathered: RefCell<Gathered>,
}

struct Gathered {
    chunk: Chunk,
    /// Time at which the oldest event was added.
    since: Instant,
    /// Readings of the monotonic clock and of the system's clock at the same time. With them, most events need only a
    /// reading of the monotonic clock.
    clock: (Instant, u64),
}

/// Time after which the system's clock is read again.
const CLOCK_GOOD: Duration = Duration::from_secs(1);

impl AuditBuffer {
    pub(crate) fn new(feed: Option<Arc<AuditFeed>>, snapshot: &Snapshot) -> AuditBuffer {
        let trail = feed.map(|feed| {
            let choice = Choice::of(&feed.settings, snapshot);
            (feed, choice)
        });
        let now = Instant::now();
        let gathered = Gathered { chunk: Chunk::default(), since: now, clock: (now, now_micros()) };
        AuditBuffer { trail, gathered: RefCell::new(gathered) }
    }

    /// Returns true if there is an audit trail.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.trail.is_some()
    }

    /// Returns true if requests must wait for the audit trail.
    #[inline]
    pub(crate) fn must_hold(&self) -> bool {
        self.trail.as_ref().is_some_and(|(feed, _)| {
            let must_hold = feed.must_hold();
            if must_hold {
                feed.figures.held.fetch_add(1, Ordering::Relaxed);
            }
            must_hold
        })
    }

    /// Returns true if the events of changes contain the old values.
    pub(crate) fn keeps_old_values(&self) -> bool {
        self.trail
            .as_ref()
            .is_some_and(|(feed, _)| feed.settings.values == crate::config::audit::AuditValues::All)
    }

    /// Returns true if an event of this kind, requester and target is recorded; false without an audit trail.
    pub(crate) fn keeps(&self, snapshot: &Snapshot, kind: Kind, who: &str, target: &str) -> bool {
        self.trail.as_ref().is_some_and(|(_, choice)| choice.keeps(snapshot, kind, who, target))
    }

    /// Returns the time `instant` in microseconds since 1970.
    pub(crate) fn micros_at(&self, instant: Instant) -> u64 {
        let mut gathered = self.gathered.borrow_mut();
        if instant.saturating_duration_since(gathered.clock.0) > CLOCK_GOOD {
            gathered.clock = (Instant::now(), now_micros());
        }
        let (at, micros) = gathered.clock;
        let since = |later: Instant, earlier| {
            u64::try_from(later.saturating_duration_since(earlier).as_micros()).unwrap_or(u64::MAX)
        };
        micros.saturating_add(since(instant, at)).saturating_sub(since(at, instant))
    }

    /// Adds an event with these encoded fields.
    pub(crate) fn push(&self, fields: &[&[u8]]) {
        let mut gathered = self.gathered.borrow_mut();
        if gathered.chunk.bytes.is_empty() {
            gathered.chunk.bytes.reserve(AUDIT_BUFFER_BYTES + 1_024);
            gathered.since = Instant::now();
        }
        EventWriter::finish(&mut gathered.chunk.bytes, fields);
        gathered.chunk.count += 1;
        if gathered.chunk.bytes.len() >= AUDIT_BUFFER_BYTES {
            self.hand_over_of(&mut gathered);
        }
    }

    /// Adds an event about a connection itself, such as its opening.
    pub(crate) fn connection_event(
        &self,
        snapshot: &Snapshot,
        kind: Kind,
        (connection, network, who): (u64, &str, &str),
        method: &str,
    ) {
        if !self.keeps(snapshot, kind, who, "") {
            return;
        }
        let mut fields = Vec::with_capacity(64);
        EventWriter::new(&mut fields)
            .kind(kind)
            .number(Field::Time, now_micros())
            .number(Field::Connection, connection)
            .text_if_any(Field::Network, network)
            .text_if_any(Field::Who, who)
            .text_if_any(Field::Method, method);
        self.push(&[&fields]);
    }

    /// Hands over the events if the oldest event has waited too long at `now`.
    #[inline]
    pub(crate) fn hand_over_old(&self, now: Instant) {
        if self.is_on() {
            let mut gathered = self.gathered.borrow_mut();
            if gathered.chunk.count > 0 && now.saturating_duration_since(gathered.since) >= AUDIT_HAND_OVER {
                self.hand_over_of(&mut gathered);
            }
        }
    }

    /// Hands over all events, because the loop becomes idle or ends.
    pub(crate) fn hand_over(&self) {
        self.hand_over_of(&mut self.gathered.borrow_mut());
    }

    fn hand_over_of(&self, gathered: &mut Gathered) {
        if let Some((feed, _)) = &self.trail
            && gathered.chunk.count > 0
        {
            feed.hand_over(std::mem::take(&mut gathered.chunk));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(overload: Overload) -> AuditFeed {
        AuditFeed::new(AuditSettings { overload, ..AuditSettings::default() })
    }

    fn chunk(bytes: usize) -> Chunk {
        Chunk { bytes: vec![0; bytes], count: 10 }
    }

    #[test]
    fn a_full_audit_feed_holds_operations_or_counts_lost_events() {
        let holding = feed(Overload::Hold);
        holding.hand_over(chunk(AUDIT_WAITING_BYTES_MAX - 1));
        assert!(!holding.must_hold());
        holding.hand_over(chunk(10));
        assert!(holding.must_hold());
        let fetched = holding.fetch(None);
        assert_eq!((fetched.chunks.len(), fetched.lost), (2, 0));
        assert!(holding.must_hold(), "until it is written");
        fetched.chunks.iter().for_each(|chunk| holding.written(chunk.bytes.len()));
        assert!(!holding.must_hold());
        holding.set_lagging(true);
        assert!(holding.must_hold());
        let counting = feed(Overload::Count);
        counting.hand_over(chunk(AUDIT_WAITING_BYTES_MAX));
        counting.hand_over(chunk(1));
        counting.set_lagging(true);
        assert!(!counting.must_hold());
        let fetched = counting.fetch(None);
        assert_eq!((fetched.chunks.len(), fetched.lost), (1, 10));
        assert_eq!(counting.fetch(Some(Duration::ZERO)).lost, 0, "lost events are reported once");
    }

    #[test]
    fn a_closed_feed_still_returns_its_events() {
        let feed = feed(Overload::Hold);
        feed.hand_over(chunk(1));
        feed.changed();
        feed.close();
        let fetched = feed.fetch(None);
        assert_eq!((fetched.chunks.len(), fetched.is_closed), (1, true));
    }
}
