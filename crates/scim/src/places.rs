//! Stored places in lists, for clients that request pages by index.
//!
//! The directory can continue a list at a cookie but not at an index. Therefore the indexes that were used last are
//! stored with their cookies. If an index is not stored, the list is read from its beginning up to that index. The
//! directory refuses a cookie that belongs to another request or another requester, so a wrong cookie does no harm.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use crate::limits::PLACES_MAX;

/// A place in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) cookie: Vec<u8>,
    /// Length of the whole list. The entries were counted with the first page.
    pub(crate) total: usize,
}

/// The places that were used last.
#[derive(Default)]
pub(crate) struct Places {
    hasher: RandomState,
    recent: Mutex<VecDeque<(u64, Place)>>,
}

impl Places {
    /// Returns the key of the place with this index in a list.
    pub(crate) fn key(&self, credentials: &str, list: &[&str], index: usize) -> u64 {
        self.hasher.hash_one((credentials, list, index))
    }

    pub(crate) fn find(&self, key: u64) -> Option<Place> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.iter().find(|(known, _)| *known == key).map(|(_, place)| place.clone())
    }

    pub(crate) fn remember(&self, key: u64, place: Place) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|(known, _)| *known != key);
        if recent.len() == PLACES_MAX {
            recent.pop_back();
        }
        recent.push_front((key, place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_place_replaces_the_oldest_one() {
        let places = Places::default();
        let place = |total| Place { cookie: vec![1], total };
        for index in 0..=PLACES_MAX {
            places.remember(places.key("a", &["list"], index), place(index));
        }
        assert_eq!(places.find(places.key("a", &["list"], 0)), None);
        assert_eq!(places.find(places.key("a", &["list"], PLACES_MAX)), Some(place(PLACES_MAX)));
        assert_eq!(places.find(places.key("b", &["list"], PLACES_MAX)), None);
    }
}
