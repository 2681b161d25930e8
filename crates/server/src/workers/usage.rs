//! Statistics of each event loop's work by listener, client and index.
//!
//! An event loop adds the work of a connection's turn to counters that only this loop writes ([`UsageCounters`]). Any
//! thread may read them ([`Usage`]). The loop takes a lock only for a new client or index.
//!
//! Clients are recorded for the current and the previous period. If the table of a period is full, a new client
//! replaces the client with the lowest cost. The new client inherits that cost when clients are compared for the next
//! replacement (the Space-Saving algorithm). Therefore a client with a high cost is found among any number of other
//! clients, even if each of its turns is short. The reported work is the client's work since it got its place in the
//! table. That is a lower bound.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foldhash::fast::RandomState;

use crate::config::ListenerIndex;
use crate::limits::{CLIENT_NAME_SIZE_MAX, CLIENTS_KEPT_MAX, CLIENTS_PERIOD, INDEXES_COUNTED_MAX};
use crate::net::client_identity::ClientIdentity;
use crate::net::request_memory::Source;
use crate::telemetry::client_use::{ClientUse, Work};
use crate::telemetry::counter::Counter;

/// The work of one event loop, for readers on other threads.
#[derive(Debug)]
pub(crate) struct Usage {
    /// Counters of listeners, by [`ListenerIndex`].
    listeners: Box<[ListenerCounters]>,
    indexes: Mutex<Vec<Arc<IndexCounters>>>,
    clients: Mutex<Clients>,
}

impl Default for Usage {
    fn default() -> Usage {
        let listeners = (0..=u8::MAX).map(|_| ListenerCounters::default()).collect();
        Usage { listeners, indexes: Mutex::default(), clients: Mutex::default() }
    }
}

/// Clients of the current and of the previous period.
#[derive(Debug, Default)]
struct Clients {
    present: Vec<Arc<ClientCounters>>,
    before: Vec<Arc<ClientCounters>>,
    /// Start of the current period.
    began: Option<Instant>,
}

/// A client: an identity and a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    pub(crate) source: Source,
    pub(crate) identity: ClientIdentity,
}

#[derive(Debug)]
struct ClientCounters {
    key: ClientKey,
    dn: Box<str>,
    work: WorkCounters,
    /// Cost in microseconds that the client inherited from the client that it replaced.
    inherited: u64,
}

impl ClientCounters {
    /// Returns an upper bound of the client's cost in the period, in microseconds.
    fn cost_max(&self) -> u64 {
        self.inherited + self.work.micros.value()
    }
}

#[derive(Debug, Default)]
struct ListenerCounters {
    opened: Counter,
    closed: Counter,
    work: WorkCounters,
}

#[derive(Debug)]
struct IndexCounters {
    name: Box<str>,
    searches: Counter,
    examined: Counter,
    returned: Counter,
}

/// Atomic counters of [`Work`].
#[derive(Debug, Default)]
struct WorkCounters {
    micros: Counter,
    operations: Counter,
    examined: Counter,
    bytes_received: Counter,
    bytes_sent: Counter,
}

impl WorkCounters {
    fn add(&self, work: &Work) {
        self.micros.add(work.micros);
        self.operations.add(work.operations);
        self.examined.add(work.examined);
        self.bytes_received.add(work.bytes_received);
        self.bytes_sent.add(work.bytes_sent);
    }

    fn value(&self) -> Work {
        Work {
            micros: self.micros.value(),
            operations: self.operations.value(),
            examined: self.examined.value(),
            bytes_received: self.bytes_received.value(),
            bytes_sent: self.bytes_sent.value(),
        }
    }
}

/// Connections of a listener, and the work for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerUse {
    pub(crate) opened: u64,
    pub(crate) closed: u64,
    pub(crate) work: Work,
}

/// Searches that took their candidates from an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexUse {
    pub(crate) searches: u64,
    /// Number of candidates examined.
    pub(crate) examined: u64,
    /// Number of entries returned.
    pub(crate) returned: u64,
}

/// The counters of one event loop. Only the loop itself changes them.
#[derive(Debug)]
pub(crate) struct UsageCounters {
    shared: Arc<Usage>,
    /// Total work of the loop that was attributed so far.
    seen: Work,
    /// Copy of [`Clients::present`] that the loop reads without a lock.
    clients: Vec<Arc<ClientCounters>>,
    /// Copy of [`Clients::began`] that the loop reads without a lock.
    began: Option<Instant>,
    indexes: HashMap<Box<str>, Arc<IndexCounters>, RandomState>,
}

impl UsageCounters {
    /// Creates the counters of an event loop that has done no work yet.
    pub(crate) fn new(shared: Arc<Usage>) -> UsageCounters {
        UsageCounters {
            shared,
            seen: Work::default(),
            clients: Vec::new(),
            began: None,
            indexes: HashMap::default(),
        }
    }

    /// Attributes the loop's work since the last call to a listener and a client. `total` is the work of the loop since
    /// its start. `place` is a hint for the index of the client's counters, and is updated.
    pub(crate) fn attribute(
        &mut self,
        total: &Work,
        listener: ListenerIndex,
        (client, place): (ClientKey, &mut u8),
        dn: &str,
        now: Instant,
    ) {
        let work = total.since(&self.seen);
        self.seen = *total;
        if let Some(listener) = self.shared.listener(listener) {
            listener.work.add(&work);
        }
        if self.began.is_none_or(|began| now.saturating_duration_since(began) >= CLIENTS_PERIOD) {
            self.begin_period(now);
        }
        let is_client = |counters: &&Arc<ClientCounters>| counters.key == client;
        match self.clients.get(usize::from(*place)).filter(is_client) {
            Some(counters) => counters.work.add(&work),
            None => *place = self.add_to_client(&work, client, dn),
        }
    }

    /// Adds work to the counters of a client. Returns their index.
    #[inline(never)]
    fn add_to_client(&mut self, work: &Work, key: ClientKey, dn: &str) -> u8 {
        let place = self.clients.iter().position(|client| client.key == key).unwrap_or_else(|| {
            let (dn, work) = (cut(dn).into(), WorkCounters::default());
            self.add_client(ClientCounters { key, dn, work, inherited: 0 })
        });
        if let Some(client) = self.clients.get(place) {
            client.work.add(work);
        }
        u8::try_from(place).unwrap_or(u8::MAX)
    }

    /// Adds a client. If the table is full, replaces the client with the lowest cost. Returns the index of the new
    /// client.
    fn add_client(&mut self, client: ClientCounters) -> usize {
        let mut shared = self.shared.clients();
        if self.clients.len() < CLIENTS_KEPT_MAX {
            let client = Arc::new(client);
            self.clients.push(Arc::clone(&client));
            shared.present.push(client);
            return self.clients.len() - 1;
        }
        let costs = self.clients.iter().map(|client| client.cost_max()).zip(0..);
        let (inherited, place) = costs.min().unwrap_or_default();
        let client = Arc::new(ClientCounters { inherited, ..client });
        for clients in [&mut self.clients, &mut shared.present] {
            if let Some(cheapest) = clients.get_mut(place) {
                *cheapest = Arc::clone(&client);
            }
        }
        place
    }

    #[cold]
    fn begin_period(&mut self, now: Instant) {
        let is_over = self.began.is_some_and(|began| began + 2 * CLIENTS_PERIOD <= now);
        self.began = Some(now);
        let present = std::mem::take(&mut self.clients);
        let mut shared = self.shared.clients();
        *shared = Clients {
            present: Vec::new(),
            before: if is_over { Vec::new() } else { present },
            began: self.began,
        };
    }

    /// Counts an opened connection.
    pub(crate) fn opened(&self, listener: ListenerIndex) {
        if let Some(listener) = self.shared.listener(listener) {
            listener.opened.add(1);
        }
    }

    /// Counts a closed connection.
    pub(crate) fn closed(&self, listener: ListenerIndex) {
        if let Some(listener) = self.shared.listener(listener) {
            listener.closed.add(1);
        }
    }

    /// Counts a search that took its candidates from an index of this attribute.
    pub(crate) fn index_used(&mut self, attribute: &str, examined: u64, returned: u64) {
        let Some(index) = self.indexes.get(attribute) else {
            return self.add_index(attribute, examined, returned);
        };
        index.searches.add(1);
        index.examined.add(examined);
        index.returned.add(returned);
    }

    /// Adds counters for an index with its first search, unless there are too many indexes.
    #[cold]
    fn add_index(&mut self, attribute: &str, examined: u64, returned: u64) {
        if self.indexes.len() >= INDEXES_COUNTED_MAX {
            return;
        }
        let counters = Arc::new(IndexCounters {
            name: attribute.into(),
            searches: Counter::default(),
            examined: Counter::default(),
            returned: Counter::default(),
        });
        counters.searches.add(1);
        counters.examined.add(examined);
        counters.returned.add(returned);
        self.shared.indexes().push(Arc::clone(&counters));
        self.indexes.insert(attribute.into(), counters);
    }
}

/// Each step leaves the lists complete. Therefore a poisoned lock is usable.
impl Usage {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn indexes(&self) -> MutexGuard<'_, Vec<Arc<IndexCounters>>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listener(&self, listener: ListenerIndex) -> Option<&ListenerCounters> {
        self.listeners.get(usize::from(listener.0))
    }
}

impl Clients {
    /// Returns the clients of the period that contains `now`, and of the previous period.
    fn at(&self, now: Instant) -> impl Iterator<Item = &Arc<ClientCounters>> {
        let elapsed = self.began.map(|began| now.saturating_duration_since(began)).unwrap_or_default();
        let present = if elapsed < 2 * CLIENTS_PERIOD { &self.present[..] } else { &[] };
        let before = if elapsed < CLIENTS_PERIOD { &self.before[..] } else { &[] };
        present.iter().chain(before)
    }
}

/// Returns the first [`CLIENT_NAME_SIZE_MAX`] octets of a name, or fewer, so that it ends at a character boundary.
fn cut(dn: &str) -> &str {
    let end = (0..=CLIENT_NAME_SIZE_MAX.min(dn.len())).rev().find(|end| dn.is_char_boundary(*end));
    dn.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Returns the clients with the highest cost over all loops, in descending order.
pub(crate) fn top_clients(loops: &[Arc<Usage>], count: usize, now: Instant) -> Vec<ClientUse> {
    let mut sums: HashMap<ClientKey, (Box<str>, Work)> = HashMap::new();
    for usage in loops {
        for client in usage.clients().at(now) {
            let (_, sum) = sums.entry(client.key).or_insert_with(|| (client.dn.clone(), Work::default()));
            sum.add(&client.work.value());
        }
    }
    let shown = |(key, (dn, work)): (ClientKey, (Box<str>, Work))| ClientUse {
        work,
        source: key.source.to_string(),
        dn: dn.into(),
    };
    let mut all: Vec<ClientUse> = sums.into_iter().map(shown).collect();
    all.sort_by(|one, other| other.work.micros.cmp(&one.work.micros).then_with(|| one.dn.cmp(&other.dn)));
    all.truncate(count);
    all
}

/// Returns the use of a listener, as the sum over all loops.
pub(crate) fn listener_use(loops: &[Arc<Usage>], listener: ListenerIndex) -> ListenerUse {
    let mut sum = ListenerUse::default();
    for usage in loops {
        if let Some(found) = usage.listener(listener) {
            sum.opened += found.opened.value();
            sum.closed += found.closed.value();
            sum.work.add(&found.work.value());
        }
    }
    sum
}

/// Returns the use of each index over all loops, in the order of the names.
pub(crate) fn index_uses(loops: &[Arc<Usage>]) -> Vec<(String, IndexUse)> {
    let mut sums = BTreeMap::<String, IndexUse>::new();
    for usage in loops {
        for used in usage.indexes().iter() {
            let sum = sums.entry(used.name.to_string()).or_default();
            sum.searches += used.searches.value();
            sum.examined = sum.examined.saturating_add(used.examined.value());
            sum.returned = sum.returned.saturating_add(used.returned.value());
        }
    }
    sums.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> ClientKey {
        ClientKey { source: Source::User(None), identity: ClientIdentity::Entry(number) }
    }

    fn work(micros: u64) -> Work {
        Work { micros, operations: 1, ..Work::default() }
    }

    /// Returns the counters of two event loops, and the statistics that readers see.
    fn loops() -> ([UsageCounters; 2], [Arc<Usage>; 2]) {
        let shared = [Arc::<Usage>::default(), Arc::default()];
        (shared.clone().map(UsageCounters::new), shared)
    }

    #[test]
    fn the_costliest_clients_of_all_loops_are_listed_for_two_periods() {
        let ((mut loops, shared), start) = (loops(), Instant::now());
        let (listener, mut places) = (ListenerIndex(0), [0; 2]);
        loops[0].attribute(&work(5), listener, (key(1), &mut places[0]), "cn=a", start);
        let later = Work { operations: 2, ..work(12) };
        loops[0].attribute(&later, listener, (key(2), &mut places[1]), "cn=b", start);
        assert_eq!(places, [0, 1]);
        loops[1].attribute(&work(4), listener, (key(1), &mut places[1]), "cn=a", start);
        let costs = |now: Instant| -> Vec<(String, u64)> {
            top_clients(&shared, 10, now).into_iter().map(|client| (client.dn, client.work.micros)).collect()
        };
        assert_eq!(costs(start), [("cn=a".to_owned(), 9), ("cn=b".to_owned(), 7)]);
        assert_eq!(top_clients(&shared, 1, start).len(), 1);
        assert_eq!(costs(start + CLIENTS_PERIOD).len(), 2);
        assert_eq!(costs(start + 2 * CLIENTS_PERIOD).len(), 0);
        assert_eq!(listener_use(&shared, listener).work, Work { operations: 3, ..work(16) });
        // In the second period, the first place in the table belongs to the second client.
        let (next, total) = (start + CLIENTS_PERIOD, Work { operations: 3, ..work(13) });
        loops[0].attribute(&total, listener, (key(2), &mut places[0]), "cn=b", next);
        assert_eq!(costs(next), [("cn=a".to_owned(), 9), ("cn=b".to_owned(), 8)]);
        let (third, total) = (next + CLIENTS_PERIOD, Work { operations: 4, ..work(14) });
        loops[0].attribute(&total, listener, (key(1), &mut places[0]), "cn=a", third);
        assert_eq!(costs(third), [("cn=a".to_owned(), 1), ("cn=b".to_owned(), 1)]);
    }

    #[test]
    fn a_full_client_table_keeps_the_costliest_client() {
        let ((mut loops, shared), start) = (loops(), Instant::now());
        let (mut total, mut place) = (work(1_000), 0);
        loops[0].attribute(&total, ListenerIndex(0), (key(0), &mut place), "cn=costly", start);
        let long = "ä".repeat(CLIENT_NAME_SIZE_MAX);
        for number in 1..=2 * CLIENTS_KEPT_MAX as u64 {
            total.micros += 1;
            loops[0].attribute(&total, ListenerIndex(0), (key(number), &mut place), &long, start);
        }
        let top = top_clients(&shared, usize::MAX, start);
        assert_eq!((top.len(), top[0].dn.as_str()), (CLIENTS_KEPT_MAX, "cn=costly"));
        assert!(top.iter().all(|client| client.dn.len() <= CLIENT_NAME_SIZE_MAX));
    }

    /// Regression: a client with many cheap turns was replaced after each turn, because each turn of other clients was
    /// more expensive.
    #[test]
    fn a_costly_client_with_many_short_turns_is_listed() {
        let ((mut loops, shared), start) = (loops(), Instant::now());
        let (mut total, mut place) = (work(0), 0);
        for number in 1..=40 * CLIENTS_KEPT_MAX as u64 {
            total.micros += 2;
            loops[0].attribute(&total, ListenerIndex(0), (key(number), &mut place), "cn=one turn", start);
            if number % 4 == 0 {
                total.micros += 1;
                loops[0].attribute(&total, ListenerIndex(0), (key(0), &mut place), "cn=costly", start);
            }
        }
        let top = top_clients(&shared, 1, start);
        assert_eq!(top[0].dn, "cn=costly");
        assert!(top[0].work.micros > 5 * CLIENTS_KEPT_MAX as u64, "{:?}", top[0].work);
    }

    #[test]
    fn indexes_and_connections_are_counted() {
        let (mut loops, shared) = loops();
        loops[0].index_used("mail", 3, 1);
        loops[1].index_used("mail", 2, 2);
        loops[1].index_used("cn", 1, 1);
        let mail = IndexUse { searches: 2, examined: 5, returned: 3 };
        assert_eq!(index_uses(&shared)[1], ("mail".to_owned(), mail));
        loops[0].opened(ListenerIndex::DATA_DIRECTORY);
        loops[1].closed(ListenerIndex::DATA_DIRECTORY);
        let found = listener_use(&shared, ListenerIndex::DATA_DIRECTORY);
        assert_eq!((found.opened, found.closed), (1, 1));
        for number in 0..2 * INDEXES_COUNTED_MAX {
            loops[0].index_used(&number.to_string(), 1, 1);
        }
        assert_eq!(index_uses(&shared).len(), INDEXES_COUNTED_MAX + 1, "the second loop has cn as well");
    }
}
