//! A limited number of places, for example for HTTP connections or for sessions. Each holder, such as a client address,
//! may have only a share of the places.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Returns the address under which a client is counted. For IPv6 it consists of the first 64 bits, because one client
/// usually has all addresses with the same 64 bits.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

/// A limited number of places, and the number of places that each holder has.
pub(crate) struct Places<H> {
    places_max: usize,
    share_max: usize,
    used: Mutex<HashMap<H, usize>>,
}

/// A place that is in use. Dropping this struct makes the place free again.
pub(crate) struct Place<H: Eq + Hash> {
    holder: Option<H>,
    places: Arc<Places<H>>,
}

impl<H: Clone + Eq + Hash> Places<H> {
    pub(crate) fn new(places_max: usize, share_max: usize) -> Arc<Places<H>> {
        Arc::new(Places { places_max, share_max, used: Mutex::default() })
    }

    /// Takes a place. Returns `None` if no place is free or the holder already has its share.
    pub(crate) fn take(self: &Arc<Self>, holder: H) -> Option<Place<H>> {
        self.take_within(holder, self.share_max)
    }

    /// Takes a place for a holder that acts for many clients, for example a proxy. Its number of places is not limited
    /// separately.
    pub(crate) fn take_for_others(self: &Arc<Self>, holder: H) -> Option<Place<H>> {
        self.take_within(holder, self.places_max)
    }

    fn take_within(self: &Arc<Self>, holder: H, share_max: usize) -> Option<Place<H>> {
        let mut used = self.lock();
        let all: usize = used.values().sum();
        let own = used.get(&holder).copied().unwrap_or(0);
        if all >= self.places_max || own >= share_max {
            return None;
        }
        used.insert(holder.clone(), own + 1);
        Some(Place { holder: Some(holder), places: Arc::clone(self) })
    }
}

impl<H> Places<H> {
    /// The numbers are consistent after each statement. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<H, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Eq + Hash> Drop for Place<H> {
    fn drop(&mut self) {
        let Some(holder) = self.holder.take() else { return };
        let mut used = self.places.lock();
        match used.get_mut(&holder) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(used.remove(&holder)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_cannot_take_all_places() {
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
