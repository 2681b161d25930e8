//! Places for concurrent sign-ins.
//!
//! The server delays the answers to wrong passwords, and a sign-in occupies a thread for that time. Therefore only a
//! few sign-ins may run at once. Sources from which a user has signed in before have separate places. Many wrong
//! passwords from other sources cannot occupy these places.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::host::Client;
use crate::limits::{
    KNOWN_PART_REQUESTS_MAX, KNOWN_SIGN_INS_MAX, KNOWN_SOURCES_MAX, SIGN_INS_MAX, SIGN_INS_PER_SOURCE_MAX,
};
use crate::places::{Place, Places, source};

/// The sign-ins in progress.
pub struct SignIns {
    all: Arc<Places<IpAddr>>,
    known: Arc<Places<IpAddr>>,
    /// Sources from which a user has successfully signed in.
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

    /// Returns the places for a [`Part`](crate::Part). Each request of a part signs in. A part has more places than the
    /// pages, because its clients send many requests at a time.
    pub fn of_part() -> SignIns {
        let known = Places::new(KNOWN_PART_REQUESTS_MAX, KNOWN_PART_REQUESTS_MAX);
        SignIns { known, ..SignIns::new() }
    }

    /// Takes a place for a request of a part. Dropping the result makes the place free again. Returns `None` if no
    /// place is free or the source has too many places.
    pub fn take_for(&self, client: &Client) -> Option<impl Send + use<>> {
        self.take(client.address.ip())
    }

    /// Records that a request of a part has successfully signed in.
    pub fn note_success(&self, client: &Client) {
        self.succeeded(client.address.ip());
    }

    /// Takes a place for a sign-in from this address. Returns `None` if no place is free or the source has too many
    /// places.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Place<IpAddr>> {
        let source = source(address);
        let is_known = self.sources.lock().unwrap_or_else(PoisonError::into_inner).contains(&source);
        let own = if is_known { self.known.take(source) } else { None };
        own.or_else(|| self.all.take(source))
    }

    /// Records a successful sign-in from this address. If there are too many sources, all earlier sources are
    /// forgotten.
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
