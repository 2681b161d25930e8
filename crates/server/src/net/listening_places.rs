//! Places for persistent searches (also refreshAndPersist of RFC 4533), by client.
//!
//! The server has a fixed number of places. While fewer than half are taken, a client may take any number. After that,
//! each identity and each source may only have its share. The administrator has some reserved places and no share. The
//! anonymous clients of a source count as one identity. A trusted network or a Unix socket has no share as a source,
//! because many cooperating clients connect from there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use directory::Requester;

use crate::config::PersistentSearchLimits;
use crate::limits::{PERSISTENT_SEARCHES_RESERVE_DIVISOR, PERSISTENT_SEARCHES_SHARE_DIVISOR};
use crate::net::client_identity::ClientIdentity;
use crate::net::request_memory::{HolderKey, Source};
use crate::telemetry::limited_warning::LimitedWarning;

/// Places for persistent searches.
#[derive(Debug, Default)]
pub(crate) struct ListeningPlaces {
    in_use: Mutex<PlacesInUse>,
    /// Maximum number of places, for monitoring.
    count_max: AtomicUsize,
    refused: LimitedWarning,
    cut_off: AtomicU64,
}

#[derive(Debug, Default)]
struct PlacesInUse {
    count: usize,
    by_source: HashMap<Source, usize>,
    by_identity: HashMap<ClientIdentity, usize>,
}

/// Client of a persistent search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListeningClient<'c> {
    pub(crate) source: Source,
    /// Whether the share of a source does not apply to this source.
    pub(crate) is_trusted: bool,
    pub(crate) requester: &'c Requester,
}

/// Place of a persistent search. Dropping it releases the place.
#[derive(Debug)]
pub(crate) struct ListeningPlace {
    places: Arc<ListeningPlaces>,
    source: Source,
    identity: ClientIdentity,
}

/// Reason why a persistent search gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All places are taken, except those reserved for the administrator.
    Full,
    /// The identity has used its share.
    IdentityShare,
    /// The source has used its share.
    SourceShare,
}

impl NoPlace {
    /// Returns the text for the client and the log.
    pub(crate) fn text(self) -> &'static str {
        match self {
            NoPlace::Full => {
                "as many searches listen for changes as may (limits.persistent_searches): poll (refreshOnly), or ask \
                 again later"
            }
            NoPlace::IdentityShare => {
                "your searches that listen for changes are your share (limits.persistent_searches_share): end some of \
                 them, or poll (refreshOnly)"
            }
            NoPlace::SourceShare => {
                "searches from your address that listen for changes are its share (limits.persistent_searches_share): \
                 end some of them, or poll (refreshOnly)"
            }
        }
    }
}

impl ListeningPlaces {
    /// Takes a place for a persistent search of this client.
    ///
    /// # Errors
    /// No place is free, or the client has used its share.
    pub(crate) fn take(
        self: &Arc<Self>,
        limits: PersistentSearchLimits,
        client: ListeningClient<'_>,
        now: Instant,
    ) -> Result<ListeningPlace, NoPlace> {
        let identity = ClientIdentity::of(client.requester, client.source);
        let admission = self.lock().take(limits, client, identity);
        if let Err(why) = admission {
            if let Some(before) = self.refused.happened(now) {
                let key = HolderKey::new(client.source, client.requester);
                tracing::warn!(
                    "a search of {key} that is to listen for changes is refused: {}{before}",
                    why.text()
                );
            }
            return Err(why);
        }
        Ok(ListeningPlace { places: Arc::clone(self), source: client.source, identity })
    }

    /// Returns the maximum number of places, from the settings.
    pub(crate) fn count_max(&self) -> usize {
        self.count_max.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of places.
    pub(crate) fn set_count_max(&self, count_max: usize) {
        self.count_max.store(count_max, Ordering::Relaxed);
    }

    /// Returns the number of places that are taken.
    pub(crate) fn count(&self) -> usize {
        self.lock().count
    }

    /// Returns the number of searches that got no place.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.count()
    }

    /// Counts a persistent search that was ended because its client reads too slowly.
    pub(crate) fn has_cut_off(&self) {
        self.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of persistent searches that were ended because their clients read too slowly.
    pub(crate) fn cut_off(&self) -> u64 {
        self.cut_off.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, PlacesInUse> {
        // No panic is possible between changes of the counts. Therefore a poisoned lock is usable.
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlacesInUse {
    fn take(
        &mut self,
        limits: PersistentSearchLimits,
        client: ListeningClient<'_>,
        identity: ClientIdentity,
    ) -> Result<(), NoPlace> {
        let all = limits.count_max;
        if identity != ClientIdentity::Administrator {
            let reserve = (all / PERSISTENT_SEARCHES_RESERVE_DIVISOR).max(1);
            let share = limits.share_max.unwrap_or((all / PERSISTENT_SEARCHES_SHARE_DIVISOR).max(1));
            if self.count >= all.saturating_sub(reserve) {
                return Err(NoPlace::Full);
            }
            if self.count >= all / 2 {
                if self.by_identity.get(&identity).is_some_and(|count| *count >= share) {
                    return Err(NoPlace::IdentityShare);
                }
                let of_source = self.by_source.get(&client.source);
                if !client.is_trusted && of_source.is_some_and(|count| *count >= share) {
                    return Err(NoPlace::SourceShare);
                }
            }
        } else if self.count >= all {
            return Err(NoPlace::Full);
        }
        self.count += 1;
        *self.by_source.entry(client.source).or_default() += 1;
        *self.by_identity.entry(identity).or_default() += 1;
        Ok(())
    }
}

impl Drop for ListeningPlace {
    fn drop(&mut self) {
        let mut in_use = self.places.lock();
        in_use.count -= 1;
        leave(&mut in_use.by_source, self.source);
        leave(&mut in_use.by_identity, self.identity);
    }
}

fn leave<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use directory::rows::EntryId;

    use super::*;

    const LIMITS: PersistentSearchLimits = PersistentSearchLimits { count_max: 32, share_max: None };

    fn source_at(address: u8) -> Source {
        Source::Network(IpAddr::V4(Ipv4Addr::new(192, 0, 2, address)))
    }

    fn user(id: u64) -> Requester {
        Requester::User { id: EntryId(id), dn: format!("uid={id}") }
    }

    fn client(source: Source, requester: &Requester) -> ListeningClient<'_> {
        ListeningClient { source, is_trusted: false, requester }
    }

    #[test]
    fn an_identity_or_a_source_cannot_take_all_places() {
        let (places, now) = (Arc::<ListeningPlaces>::default(), Instant::now());
        let take = |client| places.take(LIMITS, client, now);
        let (greedy, other) = (user(1), user(2));
        // From several sources, the identity takes half of all places. After that it gets none, because its share is
        // only an eighth.
        let greedy_places: Vec<_> = (0..16).map(|of| take(client(source_at(of), &greedy)).unwrap()).collect();
        assert_eq!(take(client(source_at(99), &greedy)).unwrap_err(), NoPlace::IdentityShare);
        // Another identity gets its share, although the first identity has a search from the same address.
        let others: Vec<_> = (0..3).map(|_| take(client(source_at(0), &other)).unwrap()).collect();
        assert_eq!(take(client(source_at(0), &other)).unwrap_err(), NoPlace::SourceShare);
        let trusted = ListeningClient { is_trusted: true, ..client(source_at(0), &other) };
        let last = take(trusted).unwrap();
        assert_eq!(take(client(source_at(50), &other)).unwrap_err(), NoPlace::IdentityShare);
        // The anonymous clients of a source are one identity.
        let anonymous = Requester::Anonymous;
        let nobodies: Vec<_> = (0..4).map(|_| take(client(source_at(60), &anonymous)).unwrap()).collect();
        assert_eq!(take(client(source_at(60), &anonymous)).unwrap_err(), NoPlace::IdentityShare);
        let elsewhere = take(client(source_at(61), &anonymous)).unwrap();
        assert_eq!((places.count(), places.refused()), (25, 4));
        drop((greedy_places, others, last, nobodies, elsewhere));
        assert_eq!(places.count(), 0);
        let in_use = places.lock();
        assert!(in_use.by_source.is_empty() && in_use.by_identity.is_empty());
    }

    #[test]
    fn some_places_are_reserved_for_the_administrator() {
        let (places, now) = (Arc::<ListeningPlaces>::default(), Instant::now());
        let users: Vec<_> = (0..40).map(user).collect();
        let of_users: Vec<_> = users
            .iter()
            .zip(0..)
            .map_while(|(user, of)| places.take(LIMITS, client(source_at(of), user), now).ok())
            .collect();
        assert_eq!(of_users.len(), 30);
        let administrator = Requester::Administrator { dn: "cn=admin".to_owned() };
        let take = || places.take(LIMITS, client(source_at(1), &administrator), now);
        let own: Vec<_> = (0..2).map(|_| take().unwrap()).collect();
        assert_eq!(take().unwrap_err(), NoPlace::Full);
        drop(own);
        assert!(take().is_ok());
    }
}
