//! Request memory: one budget of bytes for the whole server.
//!
//! A request that is not answered at once occupies memory: its received bytes, its compiled filter, and answers that
//! its client does not read. Each connection has an [`Account`] for these bytes. The accounts of one source and
//! identity belong to one *holder*, and all holders share the budget.
//!
//! There are three bounds:
//! - A connection that occupies [`OUTSTANDING_BYTES_MAX`](crate::limits::OUTSTANDING_BYTES_MAX) accepts no further
//!   request. The request waits in its socket, and TCP slows the client.
//! - A connection whose holder occupies a quarter of the budget accepts no further request either. If it needs memory
//!   for the rest of a message, it is closed.
//! - If the whole budget is used, requests of holders that occupy more than their *share* are answered with busy. A
//!   share is the budget divided by the number of holders. Holders that occupy less are served as usual. Therefore no
//!   client waits for the memory of others, and all holders in total occupy at most twice the budget.
//!
//! The administrator has a separate reserve, whether over the network or the socket in the data directory.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use directory::Requester;

use crate::limits::{
    HOLDER_DIVISOR, REQUEST_MEMORY_MIN, REQUEST_MEMORY_RESERVE_DIVISOR, UNCHARGED_MAX, WARNING_INTERVAL,
};
use crate::net::stream::Peer;

/// The memory budget, and the bytes that each holder occupies.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    /// Maximum bytes of all holders together, except administrators.
    limit: usize,
    /// Maximum bytes of all administrators together.
    reserve: usize,
    /// Maximum bytes of one holder.
    holder_max: usize,
    used: AtomicUsize,
    reserve_used: AtomicUsize,
    /// Number of holders that occupy memory, except administrators.
    holding: AtomicUsize,
    holders: Mutex<HashMap<HolderKey, Arc<Holder>>>,
    /// Number of requests answered with busy, and of connections closed, because the budget was used.
    pub(crate) refused: AtomicU64,
    /// Number of times that a request had to wait because its holder was at its bound.
    pub(crate) waited: AtomicU64,
    warned: Mutex<Option<Instant>>,
}

/// Key of a holder: a source and an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HolderKey {
    source: Source,
    identity: Identity,
}

/// Source of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A network address. For IPv6, only its first 64 bits, because one customer usually has all addresses with that
    /// prefix.
    Network(IpAddr),
    /// User id of a process on this machine that uses a Unix socket; `None` if unknown.
    User(Option<u32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Anonymous,
    Entry(u64),
    Administrator,
}

#[derive(Debug)]
struct Holder {
    key: HolderKey,
    bytes: AtomicUsize,
}

/// Bytes that one connection occupies. [`close`](Account::close) must be called before the account is dropped.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Holder of the bytes; `None` until the account first needs its holder.
    holder: Option<Arc<Holder>>,
    charged: usize,
}

/// Decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The request is accepted.
    Admitted,
    /// The request must wait in its socket, because its holder is at its bound. The rest of a message cannot wait and
    /// is refused.
    MustWait,
    /// The request is answered with busy, because the budget is used and its holder occupies more than its share.
    Refused,
}

impl Source {
    /// Returns the source of a client at a network address.
    pub(crate) fn at(address: IpAddr) -> Source {
        Source::Network(match address {
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(address) => IpAddr::V4(address),
                None => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            },
            address => address,
        })
    }
}

impl From<&Peer> for Source {
    fn from(peer: &Peer) -> Source {
        match peer {
            Peer::Network(address) | Peer::Proxied { client: address, .. } => Source::at(address.ip()),
            Peer::Console(client) => Source::at(client.address.ip()),
            Peer::Local(process) => Source::User(process.map(|process| process.user_id)),
        }
    }
}

impl HolderKey {
    pub(crate) fn new(source: Source, requester: &Requester) -> HolderKey {
        let identity = match requester {
            Requester::Anonymous => Identity::Anonymous,
            Requester::User { id, .. } => Identity::Entry(id.0),
            Requester::Administrator { .. } => Identity::Administrator,
        };
        HolderKey { source, identity }
    }

    fn is_administrator(&self) -> bool {
        self.identity == Identity::Administrator
    }
}

impl Source {
    /// Returns the network address of the source; `None` for a process on this machine. For IPv6 it is the address of
    /// the /64 network.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Source::Network(address) => Some(*address),
            Source::User(_) => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Network(address) => write!(f, "{address}"),
            Source::User(Some(user)) => write!(f, "user {user} of this machine"),
            Source::User(None) => f.write_str("a process of this machine"),
        }
    }
}

impl fmt::Display for HolderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)?;
        match self.identity {
            Identity::Anonymous => f.write_str(" (anonymous)"),
            Identity::Entry(id) => write!(f, " (entry {id})"),
            Identity::Administrator => f.write_str(" (the administrator)"),
        }
    }
}

impl RequestMemory {
    /// Creates a budget of `limit` bytes, but not less than [`REQUEST_MEMORY_MIN`]. One holder may always have two
    /// messages of `message_size_max` bytes.
    pub(crate) fn new(limit: usize, message_size_max: usize) -> RequestMemory {
        let limit = limit.max(REQUEST_MEMORY_MIN);
        RequestMemory {
            limit,
            reserve: limit / REQUEST_MEMORY_RESERVE_DIVISOR,
            // A holder needs room for a complete message and for another message that is being received.
            holder_max: (limit / HOLDER_DIVISOR).max(2 * message_size_max),
            used: AtomicUsize::new(0),
            reserve_used: AtomicUsize::new(0),
            holding: AtomicUsize::new(0),
            holders: Mutex::default(),
            refused: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            warned: Mutex::default(),
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of bytes that all holders except administrators occupy.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that administrators occupy.
    pub(crate) fn reserve_used(&self) -> usize {
        self.reserve_used.load(Ordering::Relaxed)
    }

    /// Returns the number of holders that occupy memory, except administrators.
    pub(crate) fn holders(&self) -> usize {
        self.holding.load(Ordering::Relaxed)
    }

    /// Counts a request that is answered with busy, or a connection that is closed. Logs a warning at most once in
    /// [`WARNING_INTERVAL`].
    pub(crate) fn refuse(&self, now: Instant) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_some_and(|warned| now.duration_since(warned) < WARNING_INTERVAL) {
            return;
        }
        *warned = Some(now);
        drop(warned);
        let most = self
            .lock()
            .values()
            .map(|holder| (holder.bytes.load(Ordering::Relaxed), holder.key))
            .max_by_key(|(bytes, _)| *bytes);
        if let Some((bytes, key)) = most {
            tracing::warn!(
                "requests hold {} of {} bytes (request_memory_bytes): clients above their share are answered busy; \
                 {key} holds most, {bytes} bytes",
                self.used(),
                self.limit
            );
        }
    }

    fn holder(&self, key: HolderKey) -> Arc<Holder> {
        let mut holders = self.lock();
        let new = || Arc::new(Holder { key, bytes: AtomicUsize::new(0) });
        Arc::clone(holders.entry(key).or_insert_with(new))
    }

    /// Removes a holder from the table unless another account uses it.
    fn forget(&self, holder: Arc<Holder>) {
        let mut holders = self.lock();
        // One reference is in the table, the other is `holder`.
        if Arc::strong_count(&holder) == 2 {
            holders.remove(&holder.key);
        }
    }

    /// Entries are inserted and removed in one step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<HolderKey, Arc<Holder>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn total_of(&self, holder: &Holder) -> &AtomicUsize {
        if holder.key.is_administrator() { &self.reserve_used } else { &self.used }
    }
}

impl Account {
    /// Sets the number of bytes that the connection occupies. `key` returns the key of the connection's holder. Up to
    /// [`UNCHARGED_MAX`] bytes count as zero, so that most calls access no shared counter. Returns by how many bytes
    /// the charge has decreased.
    #[inline]
    pub(crate) fn set(
        &mut self,
        memory: &RequestMemory,
        key: impl FnOnce() -> HolderKey,
        bytes: usize,
    ) -> usize {
        let bytes = if bytes <= UNCHARGED_MAX { 0 } else { bytes };
        let released = self.charged.saturating_sub(bytes);
        if bytes != self.charged {
            self.charge(memory, key, bytes);
        }
        released
    }

    fn charge(&mut self, memory: &RequestMemory, key: impl FnOnce() -> HolderKey, bytes: usize) {
        let holder = self.holder.get_or_insert_with(|| memory.holder(key()));
        let total = memory.total_of(holder);
        let before = if bytes > self.charged {
            let more = bytes - self.charged;
            total.fetch_add(more, Ordering::Relaxed);
            holder.bytes.fetch_add(more, Ordering::Relaxed)
        } else {
            let less = self.charged - bytes;
            total.fetch_sub(less, Ordering::Relaxed);
            holder.bytes.fetch_sub(less, Ordering::Relaxed)
        };
        if !holder.key.is_administrator() {
            let after = before + bytes - self.charged;
            match (before, after) {
                (0, 1..) => drop(memory.holding.fetch_add(1, Ordering::Relaxed)),
                (1.., 0) => drop(memory.holding.fetch_sub(1, Ordering::Relaxed)),
                _ => {}
            }
        }
        self.charged = bytes;
    }

    /// Releases all bytes, because the connection closes or changes its identity. In the second case, the next call of
    /// [`set`](Account::set) charges the new holder. Returns the number of released bytes.
    pub(crate) fn close(&mut self, memory: &RequestMemory) -> usize {
        let Some(holder) = self.holder.clone() else { return 0 };
        let released = self.set(memory, || holder.key, 0);
        self.holder = None;
        memory.forget(holder);
        released
    }

    /// Decides whether a request of this connection is accepted. `key` returns the key of its holder.
    #[inline]
    pub(crate) fn admission(&mut self, memory: &RequestMemory, key: impl FnOnce() -> HolderKey) -> Admission {
        match &self.holder {
            Some(holder) => holder.admission(memory),
            // Memory is not short. Therefore the holder, which may have other connections, need not be looked up.
            None if memory.used() < memory.limit / 2 => Admission::Admitted,
            None => self.holder.insert(memory.holder(key())).admission(memory),
        }
    }
}

impl Holder {
    fn admission(&self, memory: &RequestMemory) -> Admission {
        if self.key.is_administrator() {
            let fits = memory.reserve_used() < memory.reserve.max(memory.holder_max);
            return if fits { Admission::Admitted } else { Admission::MustWait };
        }
        let (own, is_used) = (self.bytes.load(Ordering::Relaxed), memory.used() >= memory.limit);
        let share = memory.limit / memory.holders().max(1);
        match (own >= memory.holder_max, is_used) {
            (false, false) => Admission::Admitted,
            (false, true) if own < share => Admission::Admitted,
            (_, true) => Admission::Refused,
            (true, false) => Admission::MustWait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn key(address: [u8; 4]) -> HolderKey {
        HolderKey::new(Source::Network(IpAddr::from(address)), &Requester::Anonymous)
    }

    fn administrator() -> HolderKey {
        let requester = Requester::Administrator { dn: "cn=admin".to_owned() };
        HolderKey::new(Source::User(Some(0)), &requester)
    }

    #[test]
    fn returns_charged_memory() {
        let memory = RequestMemory::new(256 * MIB, MIB);
        let [mut one, mut two] = [Account::default(), Account::default()];
        one.set(&memory, || key([1; 4]), UNCHARGED_MAX);
        assert_eq!((memory.used(), memory.holders(), memory.lock().len()), (0, 0, 0));
        one.set(&memory, || key([1; 4]), 3 * MIB);
        two.set(&memory, || key([1; 4]), MIB);
        one.set(&memory, || key([1; 4]), 2 * MIB);
        assert_eq!((memory.used(), memory.holders(), memory.lock().len()), (3 * MIB, 1, 1));
        one.close(&memory);
        assert_eq!((memory.used(), memory.holders(), memory.lock().len()), (MIB, 1, 1));
        two.set(&memory, || key([1; 4]), 0);
        assert_eq!((memory.used(), memory.holders(), memory.lock().len()), (0, 0, 1));
        two.close(&memory);
        assert_eq!((memory.used(), memory.lock().len()), (0, 0));
    }

    #[test]
    fn a_holder_of_a_quarter_of_the_budget_waits_and_others_do_not() {
        let memory = RequestMemory::new(256 * MIB, MIB);
        let [mut greedy, mut modest] = [Account::default(), Account::default()];
        assert_eq!(greedy.admission(&memory, || key([1; 4])), Admission::Admitted);
        greedy.set(&memory, || key([1; 4]), 64 * MIB - 1);
        modest.set(&memory, || key([2; 4]), MIB);
        assert_eq!(greedy.admission(&memory, || key([1; 4])), Admission::Admitted);
        greedy.set(&memory, || key([1; 4]), 64 * MIB);
        assert_eq!(greedy.admission(&memory, || key([1; 4])), Admission::MustWait);
        assert_eq!(modest.admission(&memory, || key([2; 4])), Admission::Admitted);
    }

    /// Holders below their share are served, however many there are. In total, all holders occupy at most twice the
    /// budget.
    #[test]
    fn an_exhausted_budget_refuses_holders_above_their_share() {
        let memory = RequestMemory::new(256 * MIB, MIB);
        let mut greedy: Vec<Account> = Vec::new();
        for number in 0..4 {
            let mut account = Account::default();
            account.set(&memory, || key([1, 1, 1, number]), 64 * MIB);
            greedy.push(account);
        }
        let is_refused =
            |account: &mut Account| account.admission(&memory, || key([9; 4])) == Admission::Refused;
        assert!(greedy.iter_mut().all(is_refused));
        let mut modest: Vec<Account> = (0..100).map(|_| Account::default()).collect();
        for round in 1..=64 {
            for (number, account) in modest.iter_mut().enumerate() {
                if account.admission(&memory, || key([2, 2, 2, number as u8])) == Admission::Admitted {
                    account.set(&memory, || key([2, 2, 2, number as u8]), round * MIB);
                }
            }
            assert!(memory.used() <= 2 * memory.limit() + 100 * MIB, "{}", memory.used());
        }
        let [mut late, mut another] = [Account::default(), Account::default()];
        late.set(&memory, || key([3; 4]), MIB);
        assert_eq!(late.admission(&memory, || key([3; 4])), Admission::Admitted);
        // A new connection is treated like the other connections of its source.
        assert_eq!(another.admission(&memory, || key([1, 1, 1, 0])), Admission::Refused);
        another.close(&memory);
        for mut account in greedy.into_iter().chain(modest).chain([late]) {
            account.close(&memory);
        }
        assert_eq!((memory.used(), memory.holders(), memory.lock().len()), (0, 0, 0));
    }

    #[test]
    fn administrators_have_a_reserve() {
        let memory = RequestMemory::new(256 * MIB, MIB);
        let [mut greedy, mut admin] = [Account::default(), Account::default()];
        greedy.set(&memory, || key([1; 4]), 600 * MIB);
        assert_eq!(greedy.admission(&memory, || key([1; 4])), Admission::Refused);
        admin.set(&memory, administrator, 40 * MIB);
        assert_eq!(admin.admission(&memory, administrator), Admission::Admitted);
        assert_eq!((memory.used(), memory.reserve_used()), (600 * MIB, 40 * MIB));
        admin.set(&memory, administrator, 64 * MIB);
        assert_eq!(admin.admission(&memory, administrator), Admission::MustWait);
    }

    #[test]
    fn sources_are_addresses_and_networks_of_64_bits() {
        let source = |text: &str| Source::from(&Peer::Network(text.parse().unwrap()));
        assert_eq!(source("[2001:db8::1]:1"), source("[2001:db8::ffff:2]:9"));
        assert_ne!(source("[2001:db8::1]:1"), source("[2001:db8:0:1::1]:1"));
        assert_eq!(source("[::ffff:192.0.2.1]:1"), source("192.0.2.1:5"));
        assert_ne!(source("192.0.2.1:5"), source("192.0.2.2:5"));
        assert_eq!(key([192, 0, 2, 1]).to_string(), "192.0.2.1 (anonymous)");
        assert_eq!(administrator().to_string(), "user 0 of this machine (the administrator)");
    }
}
