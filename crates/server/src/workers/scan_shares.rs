//! Shares of the scan threads' time, so that no client uses all of it for searches without an index.
//!
//! A share is a percentage of the time of all scan threads over a minute (`limits.scan_share`). Each identity and each
//! source has a tally: the processor time of its searches in a leaky bucket, which drains at the rate of the share.
//! While the tally of a client exceeds a minute's share, the client's searches without an index are refused. Therefore
//! a client that scans occasionally may use all threads, and a client that scans continuously gets its share.
//!
//! The administrator has no tally. Trusted sources and local sockets have no tally either, because many cooperating
//! clients connect from them. Anonymous clients of one source count as one identity.
//!
//! The table of tallies is bounded. If it is full, drained tallies are removed, or the lowest tally if none is drained.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use directory::Requester;

use crate::limits::SCAN_TALLIES_MAX;
use crate::net::client_identity::ClientIdentity;
use crate::net::request_memory::{HolderKey, Source};
use crate::telemetry::limited_warning::LimitedWarning;

/// Time over which a share is measured.
const PERIOD: Duration = Duration::from_secs(60);

/// The tallies of all clients.
#[derive(Debug)]
pub(crate) struct ScanShares {
    /// Number of scan threads, at least 1.
    threads: u32,
    tallies: Mutex<HashMap<ShareOwner, Tally>>,
    /// Searches that were refused because of a limit on searches without an index.
    refused: LimitedWarning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ShareOwner {
    Identity(ClientIdentity),
    Source(Source),
}

/// Processor time of the searches of an identity or source, in microseconds, minus the part that has drained until
/// `at`.
#[derive(Clone, Copy, Debug)]
struct Tally {
    micros: u64,
    at: Instant,
}

/// The client of a search without an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanClient<'c> {
    pub(crate) requester: &'c Requester,
    pub(crate) source: Source,
    /// Whether the client's source has no tally.
    pub(crate) is_trusted: bool,
    /// Share in percent of the scan threads' time; 0 for no limit.
    pub(crate) share_percent: u32,
}

/// The account of one search without an index.
#[derive(Debug)]
pub(crate) struct ScanAccount {
    shares: Arc<ScanShares>,
    owners: [Option<ShareOwner>; 2],
    share_percent: u32,
    /// Tally at which searches are refused, in microseconds.
    tally_max: u64,
    /// Microseconds of processor time that the search took.
    micros: AtomicU64,
    /// Microseconds in `micros` that scan threads took and that no event loop has counted yet.
    uncounted: AtomicU64,
}

impl ScanShares {
    pub(crate) fn new(threads: usize) -> ScanShares {
        let threads = u32::try_from(threads.max(1)).unwrap_or(u32::MAX);
        ScanShares { threads, tallies: Mutex::default(), refused: LimitedWarning::default() }
    }

    /// Opens the account of a search.
    pub(crate) fn open(self: &Arc<Self>, client: ScanClient<'_>) -> ScanAccount {
        let ScanClient { requester, source, is_trusted, share_percent } = client;
        let identity = ClientIdentity::of(requester, source);
        let is_limited = share_percent > 0 && identity != ClientIdentity::Administrator;
        let period = u64::try_from(PERIOD.as_micros()).unwrap_or(u64::MAX);
        ScanAccount {
            shares: Arc::clone(self),
            owners: [
                is_limited.then_some(ShareOwner::Identity(identity)),
                (is_limited && !is_trusted).then_some(ShareOwner::Source(source)),
            ],
            share_percent,
            tally_max: period / 100 * u64::from(share_percent) * u64::from(self.threads),
            micros: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
        }
    }

    /// Counts a search that was refused because of a limit. Logs it unless another refusal was logged recently.
    #[cold]
    pub(crate) fn report_refusal(&self, client: HolderKey, text: &str, now: Instant) {
        if let Some(before) = self.refused.happened(now) {
            tracing::warn!("a search of {client} is refused: {text}{before}");
        }
    }

    /// Returns the number of searches that were refused because of a limit.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.count()
    }

    /// A tally is written in one step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<ShareOwner, Tally>> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    /// Returns the tally at the time `now`. A tally of `max` drains to zero in one period.
    fn at(self, now: Instant, max: u64) -> Tally {
        let elapsed = now.saturating_duration_since(self.at).as_micros();
        let drained = elapsed.saturating_mul(u128::from(max)) / PERIOD.as_micros();
        let micros = self.micros.saturating_sub(u64::try_from(drained).unwrap_or(u64::MAX));
        Tally { micros, at: self.at.max(now) }
    }
}

impl ScanAccount {
    /// Adds processor time of the search to the tallies of its client, in microseconds.
    pub(crate) fn charge(&self, micros: u64, now: Instant) {
        self.micros.fetch_add(micros, Ordering::Relaxed);
        if self.owners == [None; 2] {
            return;
        }
        let mut tallies = self.shares.lock();
        for owner in self.owners.into_iter().flatten() {
            if tallies.len() >= SCAN_TALLIES_MAX && !tallies.contains_key(&owner) {
                make_room(&mut tallies, now, self.tally_max);
            }
            let tally = tallies.entry(owner).or_insert(Tally { micros: 0, at: now });
            *tally = tally.at(now, self.tally_max);
            tally.micros = tally.micros.saturating_add(micros);
        }
    }

    /// Adds processor time of a scan thread, as [`charge`](ScanAccount::charge) does. An event loop counts this time
    /// later as work of the client.
    pub(crate) fn charge_scan(&self, micros: u64, now: Instant) {
        self.uncounted.fetch_add(micros, Ordering::Relaxed);
        self.charge(micros, now);
    }

    /// Returns the processor time of scan threads since the last call, in microseconds.
    pub(crate) fn take_uncounted(&self) -> u64 {
        self.uncounted.swap(0, Ordering::Relaxed)
    }

    /// Returns the microseconds of processor time that the search took so far.
    pub(crate) fn micros(&self) -> u64 {
        self.micros.load(Ordering::Relaxed)
    }

    /// Returns a description of the limit that the client's searches have reached; `None` if they may continue.
    pub(crate) fn met_limit(&self, now: Instant) -> Option<String> {
        if self.owners == [None; 2] {
            return None;
        }
        let tallies = self.shares.lock();
        let is_used = |owner: &ShareOwner| {
            tallies.get(owner).is_some_and(|tally| tally.at(now, self.tally_max).micros >= self.tally_max)
        };
        let used = self.owners.into_iter().flatten().find(is_used)?;
        let whose = match used {
            ShareOwner::Identity(_) => "your",
            ShareOwner::Source(_) => "your address's",
        };
        Some(format!(
            "{whose} searches without an index have taken {} % of the scan threads' time for a minute \
             (limits.scan_share, or limit.scan_share of the node file)",
            self.share_percent
        ))
    }
}

/// Removes the drained tallies, or the lowest tally if none is drained. Each tally is assumed to drain `max` in one
/// period, although this is exact only for clients with the same share. If a tally is removed too early, its owner can
/// scan a little more.
fn make_room(tallies: &mut HashMap<ShareOwner, Tally>, now: Instant, max: u64) {
    tallies.retain(|_, tally| tally.at(now, max).micros > 0);
    if tallies.len() >= SCAN_TALLIES_MAX
        && let Some(lowest) = tallies.iter().min_by_key(|(_, tally)| tally.micros).map(|(owner, _)| *owner)
    {
        tallies.remove(&lowest);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use directory::rows::EntryId;

    use super::*;

    /// Duration of a slice in microseconds.
    const SLICE: u64 = 10_000;

    /// Number of slices in a minute with a share of 25 % of two threads.
    const SHARE_SLICES: usize = 3_000;

    fn source_at(address: u8) -> Source {
        Source::Network(IpAddr::V4(Ipv4Addr::new(192, 0, 2, address)))
    }

    fn user(id: u64) -> Requester {
        Requester::User { id: EntryId(id), dn: format!("uid={id}") }
    }

    fn client(requester: &Requester, source: Source) -> ScanClient<'_> {
        ScanClient { requester, source, is_trusted: false, share_percent: 25 }
    }

    /// Charges slices to `account` until it has reached its limit. Returns the number of slices.
    fn slices(account: &ScanAccount, now: Instant, max: usize) -> usize {
        (0..max)
            .take_while(|_| account.met_limit(now).is_none().then(|| account.charge(SLICE, now)).is_some())
            .count()
    }

    #[test]
    fn a_client_that_scans_continuously_gets_its_share() {
        let (shares, start) = (Arc::new(ScanShares::new(2)), Instant::now());
        let (greedy, other) = (user(1), user(2));
        let account = shares.open(client(&greedy, source_at(1)));
        assert_eq!(slices(&account, start, usize::MAX), SHARE_SLICES);
        let limit = account.met_limit(start).unwrap();
        assert!(limit.starts_with("your searches") && limit.contains("25 %"), "{limit}");
        // The share is used up for the same identity at another address, but not for another identity.
        assert_eq!(slices(&shares.open(client(&greedy, source_at(2))), start, 1), 0);
        assert_eq!(slices(&shares.open(client(&other, source_at(3))), start, 10), 10);
        // From now on, the client gets half a second of every second: 25 % of two threads.
        let mut given = 0;
        for second in 1..=120 {
            given += slices(&account, start + Duration::from_secs(second), usize::MAX);
        }
        assert_eq!(given, 120 * 50);
        assert_eq!(slices(&account, start + PERIOD * 4, usize::MAX), SHARE_SLICES, "drained");
    }

    #[test]
    fn an_address_has_a_share_unless_it_is_trusted() {
        let (shares, now) = (Arc::new(ScanShares::new(1)), Instant::now());
        let users: Vec<_> = (0..10).map(user).collect();
        let mut given = 0;
        for user in &users {
            given += slices(&shares.open(client(user, source_at(1))), now, 200);
        }
        assert_eq!(given, SHARE_SLICES / 2);
        let limit = shares.open(client(&users[9], source_at(1))).met_limit(now).unwrap();
        assert!(limit.starts_with("your address's"), "{limit}");
        let trusted = ScanClient { is_trusted: true, ..client(&users[9], source_at(1)) };
        assert_eq!(slices(&shares.open(trusted), now, 200), 200);
        // Anonymous clients are a separate identity for each source.
        let anonymous = Requester::Anonymous;
        assert_eq!(slices(&shares.open(client(&anonymous, source_at(2))), now, usize::MAX), SHARE_SLICES / 2);
        assert_eq!(slices(&shares.open(client(&anonymous, source_at(3))), now, 5), 5);
    }

    #[test]
    fn the_administrator_and_a_share_of_0_are_unlimited() {
        let (shares, now) = (Arc::new(ScanShares::new(1)), Instant::now());
        let administrator = Requester::Administrator { dn: "cn=admin".to_owned() };
        assert_eq!(slices(&shares.open(client(&administrator, source_at(1))), now, 10_000), 10_000);
        let any = ScanClient { share_percent: 0, ..client(&Requester::Anonymous, source_at(1)) };
        assert_eq!(slices(&shares.open(any), now, 10_000), 10_000);
        assert!(shares.lock().is_empty());
    }

    /// The event loop counts its own slices at the end of the turn, not with the time of scan threads.
    #[test]
    fn time_of_scan_threads_is_counted_once() {
        let (shares, now, requester) = (Arc::new(ScanShares::new(1)), Instant::now(), user(1));
        let account = shares.open(client(&requester, source_at(1)));
        account.charge(1, now);
        account.charge_scan(2, now);
        account.charge_scan(4, now);
        assert_eq!((account.micros(), account.take_uncounted(), account.take_uncounted()), (7, 6, 0));
    }

    #[test]
    fn the_table_is_bounded() {
        let (shares, now) = (Arc::new(ScanShares::new(1)), Instant::now());
        let charge = |number, at| {
            let user = user(number);
            let trusted = ScanClient { is_trusted: true, ..client(&user, source_at(1)) };
            shares.open(trusted).charge(number + 1, at);
        };
        for number in 0..SCAN_TALLIES_MAX as u64 + 10 {
            charge(number, now);
        }
        assert_eq!(shares.lock().len(), SCAN_TALLIES_MAX);
        charge(0, now + PERIOD);
        assert_eq!(shares.lock().len(), 1, "drained rows are removed");
    }
}
