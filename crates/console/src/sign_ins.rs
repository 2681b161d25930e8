//! Places for concurrent sign-ins. The server delays answers to wrong passwords, and a sign-in occupies a thread until
//! then, so only a few may run concurrently. Sources from which a user has signed in before have separate places, so
//! that a flood from many other addresses does not take them.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::host::Client;
use crate::limits::{
    KNOWN_PART_REQUESTS_MAX, KNOWN_SIGN_INS_MAX, KNOWN_SOURCES_MAX, SIGN_INS_MAX, SIGN_INS_PER_SOURCE_MAX,
};
use crate::places::{Place, Places, source};

/// Sign-ins in progress.
pub struct SignIns {
    all: Arc<Places<IpAddr>>,
    known: Arc<Places<IpAddr>>,
    /// Sources of successful sign-ins.
    sources: Mutex<HashSet<IpAddr>>,
}

impl SignIns {
    pub(crate) fn new() -> SignIns {
        SignIns {
            all: Places::new(SIGN_INS_MAX, SIGN_INS_PER_SOURCE_MAX),
            known: Places::new(KNOWN_SIGN_INS_MAX, SIGN_INS_PER_SOURCE_MAX),
            sources: Mutex::default(),
        }
    }

    /// Returns the places for a [`Part`](crate::Part) whose requests sign in each. Its clients send many at a time.
    pub fn of_part() -> SignIns {
        let known = Places::new(KNOWN_PART_REQUESTS_MAX, KNOWN_PART_REQUESTS_MAX);
        SignIns { known, ..SignIns::new() }
    }

    /// Takes a place for a request of a part, which signs in. The place is free again when the result is dropped.
    pub fn take_for(&self, client: &Client) -> Option<impl Send + use<>> {
        self.take(client.address.ip())
    }

    /// Notes that a request of a part has signed in.
    pub fn note_success(&self, client: &Client) {
        self.succeeded(client.address.ip());
    }

    /// Takes a place for a sign-in from this address; `None` if all places, or all of the source's share, are taken.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Place<IpAddr>> {
        let source = source(address);
        let is_known = self.sources.lock().unwrap_or_else(PoisonError::into_inner).contains(&source);
        let own = if is_known { self.known.take(source) } else { None };
        own.or_else(|| self.all.take(source))
    }

    /// Notes a successful sign-in from this address. If there are too many sources, forgets all earlier ones.
    pub(crate) fn succeeded(&self, address: IpAddr) {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= KNOWN_SOURCES_MAX {
            sources.clear();
        }
        sources.insert(source(address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_places_for_known_sources() {
        let sign_ins = SignIns::new();
        let address = |number: u8| IpAddr::from([192, 0, 2, number]);
        sign_ins.succeeded(address(1));
        let flood: Vec<_> = (10..100).filter_map(|number| sign_ins.take(address(number))).collect();
        assert_eq!(flood.len(), SIGN_INS_MAX);
        assert!(sign_ins.take(address(2)).is_none(), "an unknown source waits");
        let own: Vec<_> = (0..10).filter_map(|_| sign_ins.take(address(1))).collect();
        assert_eq!(own.len(), SIGN_INS_PER_SOURCE_MAX);
        for number in 0..KNOWN_SOURCES_MAX {
            sign_ins.succeeded(IpAddr::from(u32::try_from(number).unwrap().to_be_bytes()));
        }
        assert!(sign_ins.sources.lock().unwrap().len() <= KNOWN_SOURCES_MAX);
    }
}
