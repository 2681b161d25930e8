//! Places for connections to the HTTP listener, and the choice of the connection that a new connection evicts.
//!
//! Each source has a share of the places, so that a single address cannot take all of them. If a source has used its
//! share, a new connection evicts another connection of the same source. If all places are taken, it evicts a
//! connection of the source with the most connections.
//!
//! The oldest connection without a complete request is evicted first. A probe sends its request at once, whereas an
//! attacker that only wants to occupy a place does not. New connections are evicted last. If all connections are new,
//! no client is accepted for a moment ([`free_at`]). Therefore a burst of connections cannot evict a probe during its
//! TLS handshake.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::net::request_memory::Source;

/// Progress of a connection. Connections in earlier stages are evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// No complete request has arrived.
    Receiving,
    /// The answer is being sent.
    Sending,
    /// The page is being made.
    Preparing,
}

/// Facts about a connection by which [`choose_evicted`] chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) source: Source,
    /// Whether the connection still has time to send its request.
    pub(super) is_new: bool,
    pub(super) stage: Stage,
    pub(super) since: Instant,
}

/// Returns the index of the connection that a new connection from `source` must evict; `None` if a place is free.
/// `places_max` is the total number of places, and `share` is the maximum number for one source.
pub(super) fn choose_evicted(
    places: &[Place],
    source: Source,
    places_max: usize,
    share: usize,
) -> Option<usize> {
    let mut counts: HashMap<Source, usize> = HashMap::new();
    places.iter().for_each(|place| *counts.entry(place.source).or_default() += 1);
    let is_at_share = counts.get(&source).is_some_and(|own| *own >= share);
    if !is_at_share && places.len() < places_max {
        return None;
    }
    let most = counts.values().copied().max().unwrap_or_default();
    let may_go = |place: &Place| match is_at_share {
        true => place.source == source,
        false => counts.get(&place.source) == Some(&most),
    };
    let may_go = places.iter().enumerate().filter(|(_, place)| may_go(place));
    may_go.min_by_key(|(_, place)| (place.is_new, place.stage, place.since)).map(|(index, _)| index)
}

/// Returns the time at which a new connection may get a place; `None` if a place is free now. `begins` are the start
/// times of the present connections. Each connection keeps its place for `grace`.
pub(super) fn free_at(
    begins: impl ExactSizeIterator<Item = Instant>,
    places_max: usize,
    grace: Duration,
) -> Option<Instant> {
    if begins.len() < places_max {
        return None;
    }
    begins.min().map(|oldest| oldest + grace)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const PLACES: usize = 8;
    const SHARE: usize = 4;

    fn source(number: u8) -> Source {
        Source::Network(IpAddr::from([127, 0, 0, number]))
    }

    /// Checks which connection is evicted by a new connection from the source `new`. `connections` are the present
    /// connections, the oldest first.
    #[track_caller]
    fn check(connections: &[(u8, Stage)], new: u8, expected: Option<usize>) {
        let begin = Instant::now();
        let place = |(number, &(from, stage)): (u64, &(u8, Stage))| {
            let since = begin + Duration::from_millis(number);
            Place { source: source(from), is_new: false, stage, since }
        };
        let mut places: Vec<Place> = (0..).zip(connections).map(place).collect();
        assert_eq!(choose_evicted(&places, source(new), PLACES, SHARE), expected, "{connections:?}");
        // If all connections are new, they are evicted in the same order.
        places.iter_mut().for_each(|place| place.is_new = true);
        assert_eq!(choose_evicted(&places, source(new), PLACES, SHARE), expected, "{connections:?}");
    }

    #[test]
    fn a_new_connection_has_time_to_send_its_request() {
        let since = Instant::now();
        let place = |is_new, stage| Place { source: source(1), is_new, stage, since };
        let places =
            [place(true, Stage::Receiving), place(false, Stage::Preparing), place(true, Stage::Sending)];
        assert_eq!(choose_evicted(&places, source(1), PLACES, places.len()), Some(1));
    }

    #[test]
    fn evicts_no_connection_while_places_are_free() {
        check(&[], 1, None);
        check(&[(1, Stage::Receiving); 3], 1, None);
        check(&[(1, Stage::Receiving); 4], 2, None);
    }

    #[test]
    fn a_place_becomes_free_after_the_grace_period_of_the_oldest() {
        let grace = Duration::from_millis(25);
        let begin = Instant::now();
        let begins = [3, 1, 2].map(|milliseconds| begin + Duration::from_millis(milliseconds));
        assert_eq!(free_at(begins.into_iter(), 4, grace), None);
        assert_eq!(free_at(begins.into_iter(), 3, grace), Some(begins[1] + grace));
    }

    #[test]
    fn a_source_at_its_share_evicts_its_own_connection() {
        use Stage::{Preparing, Receiving, Sending};
        check(&[(2, Receiving), (1, Receiving), (1, Receiving), (1, Receiving), (1, Receiving)], 1, Some(1));
        check(&[(2, Receiving), (1, Sending), (1, Preparing), (1, Receiving), (1, Receiving)], 1, Some(3));
        check(&[(1, Preparing), (1, Sending), (1, Sending), (1, Preparing)], 1, Some(1));
        check(&[(1, Preparing); 4], 1, Some(0));
    }

    #[test]
    fn evicts_from_the_source_with_most_connections_if_all_places_are_taken() {
        use Stage::{Receiving, Sending};
        let mut places = vec![(9, Receiving), (9, Receiving)];
        places.extend([(1, Sending), (1, Receiving), (1, Receiving)]);
        places.extend([(2, Receiving); 3]);
        check(&places, 3, Some(3));
        check(&places, 9, Some(3));
        // If each connection has a different address, the oldest connection without a request is evicted.
        let each: Vec<(u8, Stage)> =
            (0..PLACES as u8).map(|from| (from, if from < 3 { Sending } else { Receiving })).collect();
        check(&each, 77, Some(3));
    }
}
