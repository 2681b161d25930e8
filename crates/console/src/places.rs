//! Bounded numbers of places that sources share: for HTTP connections and for sessions.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Returns the address for counting a client. For IPv6 it is the first 64 bits, because one client usually has all
/// addresses with that prefix.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

/// A bounded number of places, with a bounded share for each holder.
pub(crate) struct Places<H> {
    places_max: usize,
    share_max: usize,
    taken: Mutex<HashMap<H, usize>>,
}

/// A taken place. Dropping it frees the place.
pub(crate) struct Place<H: Eq + Hash> {
    holder: Option<H>,
    places: Arc<Places<H>>,
}

impl<H: Clone + Eq + Hash> Places<H> {
    pub(crate) fn new(places_max: usize, share_max: usize) -> Arc<Places<H>> {
        Arc::new(Places { places_max, share_max, taken: Mutex::default() })
    }

    /// Takes a place. Returns `None` if all places, or all of the holder's share, are taken.
    pub(crate) fn take(self: &Arc<Self>, holder: H) -> Option<Place<H>> {
        self.take_within(holder, self.share_max)
    }

    /// Takes a place for a holder that acts for many clients, such as a proxy. No share applies to it.
    pub(crate) fn take_for_others(self: &Arc<Self>, holder: H) -> Option<Place<H>> {
        self.take_within(holder, self.places_max)
    }

    fn take_within(self: &Arc<Self>, holder: H, share_max: usize) -> Option<Place<H>> {
        let mut taken = self.lock();
        let all: usize = taken.values().sum();
        let own = taken.get(&holder).copied().unwrap_or(0);
        if all >= self.places_max || own >= share_max {
            return None;
        }
        taken.insert(holder.clone(), own + 1);
        Some(Place { holder: Some(holder), places: Arc::clone(self) })
    }
}

impl<H> Places<H> {
    /// Counts are consistent after every step, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<H, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Eq + Hash> Drop for Place<H> {
    fn drop(&mut self) {
        let Some(holder) = self.holder.take() else { return };
        let mut taken = self.places.lock();
        match taken.get_mut(&holder) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(taken.remove(&holder)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_leaves_places_for_others() {
        let places = Places::new(3, 2);
        let own: Vec<_> = (0..2).map(|_| places.take("a").unwrap()).collect();
        assert!(places.take("a").is_none(), "its share");
        assert!(places.take_for_others("a").is_some(), "a proxy");
        let other = places.take("b").unwrap();
        assert!(places.take("c").is_none(), "all");
        drop(other);
        assert!(places.take("c").is_some());
        drop(own);
        assert!(places.lock().is_empty());
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let of = |text: &str| source(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
