//! The work of each event loop by listener, client and index.
//!
//! An event loop adds the work of a connection's turn to a table of its own. Only readers of the monitor contend for
//! the lock. Clients are kept for two periods: the present one and the one before. If there are more than fit, the
//! cheapest gives way, so a client that costs much stays, whatever number of others there is.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::config::ListenerIndex;
use crate::limits::{CLIENT_NAME_SIZE_MAX, CLIENTS_KEPT_MAX, CLIENTS_PERIOD, INDEXES_COUNTED_MAX};
use crate::net::client_identity::ClientIdentity;
use crate::net::request_memory::Source;
use crate::telemetry::client_use::{ClientUse, Work};

/// The work of one event loop.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// All work that was attributed.
    seen: Work,
    /// By [`ListenerIndex`].
    listeners: HashMap<u8, ListenerUse>,
    indexes: HashMap<Box<str>, IndexUse>,
    /// Clients of this period, and of the one before.
    clients: [HashMap<ClientKey, Client>; 2],
    /// Start of this period.
    began: Option<Instant>,
}

/// A client: an identity at a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    pub(crate) source: Source,
    pub(crate) identity: ClientIdentity,
}

#[derive(Debug)]
struct Client {
    dn: Box<str>,
    work: Work,
}

/// Connections and work of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenerUse {
    pub(crate) opened: u64,
    pub(crate) closed: u64,
    pub(crate) work: Work,
}

/// Searches whose candidates came from an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexUse {
    pub(crate) searches: u64,
    /// Candidates examined.
    pub(crate) examined: u64,
    /// Entries returned.
    pub(crate) returned: u64,
}

impl Usage {
    /// Adds the work that the loop did since the last call. `total` is all its work.
    pub(crate) fn attribute(
        &self,
        total: &Work,
        listener: ListenerIndex,
        client: ClientKey,
        dn: &str,
        now: Instant,
    ) {
        let mut table = self.lock();
        let work = total.since(&table.seen);
        table.seen = *total;
        table.listener(listener).work.add(&work);
        table.renew(now);
        table.client(client, dn).work.add(&work);
    }

    /// Counts a connection that opens.
    pub(crate) fn opened(&self, listener: ListenerIndex) {
        self.lock().listener(listener).opened += 1;
    }

    /// Counts a connection that closes.
    pub(crate) fn closed(&self, listener: ListenerIndex) {
        self.lock().listener(listener).closed += 1;
    }

    /// Counts a search whose candidates came from an index of this attribute.
    pub(crate) fn index_used(&self, attribute: &str, examined: u64, returned: u64) {
        let mut table = self.lock();
        let is_full = table.indexes.len() >= INDEXES_COUNTED_MAX;
        let used = match table.indexes.get_mut(attribute) {
            Some(used) => used,
            None if is_full => return,
            None => table.indexes.entry(attribute.into()).or_default(),
        };
        used.searches += 1;
        used.examined = used.examined.saturating_add(examined);
        used.returned = used.returned.saturating_add(returned);
    }

    /// Each step leaves a whole table, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn listener(&mut self, listener: ListenerIndex) -> &mut ListenerUse {
        self.listeners.entry(listener.0).or_default()
    }

    /// Begins a new period if the present one is over.
    fn renew(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let elapsed = now.saturating_duration_since(began);
        if elapsed < CLIENTS_PERIOD {
            return;
        }
        let [present, before] = &mut self.clients;
        *before = std::mem::take(present);
        if elapsed >= 2 * CLIENTS_PERIOD {
            before.clear();
        }
        self.began = Some(now);
    }

    fn client(&mut self, key: ClientKey, dn: &str) -> &mut Client {
        let [clients, _] = &mut self.clients;
        if clients.len() >= CLIENTS_KEPT_MAX && !clients.contains_key(&key) {
            let cheapest = clients.iter().min_by_key(|(_, client)| client.work.micros).map(|(key, _)| *key);
            cheapest.and_then(|cheapest| clients.remove(&cheapest));
        }
        clients.entry(key).or_insert_with(|| Client { dn: cut(dn).into(), work: Work::default() })
    }
}

/// Returns the beginning of a name, at most [`CLIENT_NAME_SIZE_MAX`] octets.
fn cut(dn: &str) -> &str {
    let end = (0..=CLIENT_NAME_SIZE_MAX.min(dn.len())).rev().find(|end| dn.is_char_boundary(*end));
    dn.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Returns the clients of all loops that cost most, the costliest first.
pub(crate) fn top_clients(loops: &[Arc<Usage>], count: usize, now: Instant) -> Vec<ClientUse> {
    let mut sums: HashMap<ClientKey, Client> = HashMap::new();
    for usage in loops {
        let mut table = usage.lock();
        table.renew(now);
        for (key, client) in table.clients.iter().flatten() {
            let sum =
                sums.entry(*key).or_insert_with(|| Client { dn: client.dn.clone(), work: Work::default() });
            sum.work.add(&client.work);
        }
    }
    let mut all: Vec<(ClientKey, Client)> = sums.into_iter().collect();
    all.sort_by(|(_, one), (_, other)| {
        other.work.micros.cmp(&one.work.micros).then_with(|| one.dn.cmp(&other.dn))
    });
    all.truncate(count);
    let shown = |(key, client): (ClientKey, Client)| ClientUse {
        work: client.work,
        source: key.source.to_string(),
        dn: client.dn.into(),
    };
    all.into_iter().map(shown).collect()
}

/// Returns the sum over all loops of what a listener did.
pub(crate) fn listener_use(loops: &[Arc<Usage>], listener: ListenerIndex) -> ListenerUse {
    let mut sum = ListenerUse::default();
    for usage in loops {
        let table = usage.lock();
        if let Some(found) = table.listeners.get(&listener.0) {
            sum.opened += found.opened;
            sum.closed += found.closed;
            sum.work.add(&found.work);
        }
    }
    sum
}

/// Returns the use of each index, in the order of the names.
pub(crate) fn index_uses(loops: &[Arc<Usage>]) -> Vec<(String, IndexUse)> {
    let mut sums = BTreeMap::<String, IndexUse>::new();
    for usage in loops {
        for (name, used) in &usage.lock().indexes {
            let sum = sums.entry(name.to_string()).or_default();
            sum.searches += used.searches;
            sum.examined = sum.examined.saturating_add(used.examined);
            sum.returned = sum.returned.saturating_add(used.returned);
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

    #[test]
    fn the_costliest_clients_of_all_loops_stay_for_two_periods() {
        let (loops, start) = ([Arc::<Usage>::default(), Arc::default()], Instant::now());
        let listener = ListenerIndex(0);
        loops[0].attribute(&work(5), listener, key(1), "cn=a", start);
        let later = Work { operations: 2, ..work(12) };
        loops[0].attribute(&later, listener, key(2), "cn=b", start);
        loops[1].attribute(&work(4), listener, key(1), "cn=a", start);
        let costs = |now: Instant| -> Vec<(String, u64)> {
            top_clients(&loops, 10, now).into_iter().map(|client| (client.dn, client.work.micros)).collect()
        };
        assert_eq!(costs(start), [("cn=a".to_owned(), 9), ("cn=b".to_owned(), 7)]);
        assert_eq!(top_clients(&loops, 1, start).len(), 1);
        assert_eq!(costs(start + CLIENTS_PERIOD).len(), 2);
        assert_eq!(costs(start + 2 * CLIENTS_PERIOD).len(), 0);
        assert_eq!(listener_use(&loops, listener).work, Work { operations: 3, ..work(16) });
    }

    #[test]
    fn clients_are_bounded_and_a_costly_one_stays() {
        let (loops, start) = ([Arc::<Usage>::default()], Instant::now());
        let mut total = work(1_000);
        loops[0].attribute(&total, ListenerIndex(0), key(0), "cn=costly", start);
        let long = "ä".repeat(CLIENT_NAME_SIZE_MAX);
        for number in 1..=2 * CLIENTS_KEPT_MAX as u64 {
            total.micros += 1;
            loops[0].attribute(&total, ListenerIndex(0), key(number), &long, start);
        }
        let top = top_clients(&loops, usize::MAX, start);
        assert_eq!((top.len(), top[0].dn.as_str()), (CLIENTS_KEPT_MAX, "cn=costly"));
        assert!(top.iter().all(|client| client.dn.len() <= CLIENT_NAME_SIZE_MAX));
    }

    #[test]
    fn indexes_and_connections_are_counted() {
        let loops = [Arc::<Usage>::default(), Arc::default()];
        loops[0].index_used("mail", 3, 1);
        loops[1].index_used("mail", 2, 2);
        loops[1].index_used("cn", 1, 1);
        let mail = IndexUse { searches: 2, examined: 5, returned: 3 };
        assert_eq!(index_uses(&loops)[1], ("mail".to_owned(), mail));
        loops[0].opened(ListenerIndex::DATA_DIRECTORY);
        loops[1].closed(ListenerIndex::DATA_DIRECTORY);
        let found = listener_use(&loops, ListenerIndex::DATA_DIRECTORY);
        assert_eq!((found.opened, found.closed), (1, 1));
    }
}
