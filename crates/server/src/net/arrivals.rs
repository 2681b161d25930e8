//! Connections by source: the number of open connections, and the number of connections that arrived in the current
//! second.
//!
//! While less than half of the maximum number of connections are open, a source may have any number of connections.
//! When more connections are open, a source may only have its share. Therefore a source that keeps opening connections
//! leaves room for other sources. Trusted networks and Unix sockets are not counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::OnlineSettings;
use crate::config::limit_tables::ConnectionsLimit;
use crate::limits::{CONNECTIONS_SHARE_DIVISOR, SOURCES_MAX};
use crate::net::acceptor::AcceptorControl;
use crate::net::connection_places::{ConnectionPlace, ConnectionPlaces};
use crate::net::request_memory::Source;
use crate::telemetry::counters::Counters;
use crate::telemetry::limited_warning::LimitedWarning;

/// Counts of the connections of all event loops.
pub(crate) struct Arrivals {
    sources: Mutex<HashMap<Source, Arrived>>,
    control: Arc<AcceptorControl>,
    counters: Arc<[Arc<Counters>]>,
    places: ConnectionPlaces,
    refused: LimitedWarning,
    refused_by_table: LimitedWarning,
}

/// Counts of one source.
#[derive(Debug)]
struct Arrived {
    open: usize,
    /// Start of the second for which `in_second` is counted.
    second: Instant,
    in_second: usize,
}

/// Limits on the connections of a source.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    open_max: usize,
    in_second_max: usize,
}

const SECOND: Duration = Duration::from_secs(1);

impl Arrivals {
    pub(crate) fn new(control: Arc<AcceptorControl>, counters: Arc<[Arc<Counters>]>) -> Arrivals {
        Arrivals {
            sources: Mutex::default(),
            control,
            counters,
            places: ConnectionPlaces::default(),
            refused: LimitedWarning::default(),
            refused_by_table: LimitedWarning::default(),
        }
    }

    /// Counts a connection. The caller must call [`leave`](Arrivals::leave) when the connection closes.
    ///
    /// # Errors
    /// The connection exceeds a limit, is not counted, and must be closed at once. The text is for the client.
    pub(crate) fn enter(
        &self,
        source: Source,
        settings: &OnlineSettings,
        now: Instant,
    ) -> Result<(), &'static str> {
        let connections_max = self.control.effective_max();
        let share = settings.connections_per_address_max;
        let share = share.unwrap_or_else(|| (connections_max / CONNECTIONS_SHARE_DIVISOR).max(1));
        let open: u64 = self.counters.iter().map(|counters| counters.connections()).sum();
        // `open` includes this connection.
        let has_room = open.saturating_sub(1) < (connections_max / 2) as u64;
        let bounds = Bounds {
            open_max: if has_room { usize::MAX } else { share },
            in_second_max: settings.connects_per_second_max.unwrap_or(usize::MAX),
        };
        enter(&mut self.lock(), source, bounds, now).inspect_err(|why| {
            self.control.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if let Some(before) = self.refused.happened(now) {
                tracing::warn!("a connection from {source} is refused: {why}{before}");
            }
        })
    }

    /// Takes a place for a connection under the connection limit of a `[[limit]]` table.
    ///
    /// # Errors
    /// The table has no free place. The text is for the client.
    pub(crate) fn take_place(
        &self,
        limit: &ConnectionsLimit,
        source: Source,
        now: Instant,
    ) -> Result<ConnectionPlace, &'static str> {
        self.places.take(limit).ok_or_else(|| {
            self.control.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if let Some(before) = self.refused_by_table.happened(now) {
                tracing::warn!("a connection from {source} is refused: {limit}{before}");
            }
            "as many connections are open as clients like this one may have"
        })
    }

    /// Records that a counted connection is closed.
    pub(crate) fn leave(&self, source: Source, now: Instant) {
        let mut sources = self.lock();
        if let Some(arrived) = sources.get_mut(&source) {
            arrived.open = arrived.open.saturating_sub(1);
            if arrived.is_over(now) {
                sources.remove(&source);
            }
        }
    }

    /// The counts are consistent after every step. Therefore a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, HashMap<Source, Arrived>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrived {
    /// Returns true if the counts can be dropped, because no connection is open and the second is over.
    fn is_over(&self, now: Instant) -> bool {
        self.open == 0 && now.saturating_duration_since(self.second) >= SECOND
    }
}

fn enter(
    sources: &mut HashMap<Source, Arrived>,
    source: Source,
    bounds: Bounds,
    now: Instant,
) -> Result<(), &'static str> {
    if sources.len() >= SOURCES_MAX && !sources.contains_key(&source) {
        // Each remaining entry has an open or a very recent connection. Therefore the size of the table is bounded.
        sources.retain(|_, arrived| !arrived.is_over(now));
    }
    let arrived = sources.entry(source).or_insert(Arrived { open: 0, second: now, in_second: 0 });
    if now.saturating_duration_since(arrived.second) >= SECOND {
        (arrived.second, arrived.in_second) = (now, 0);
    }
    arrived.in_second = arrived.in_second.saturating_add(1);
    if arrived.in_second > bounds.in_second_max {
        return Err("too many new connections a second from this address");
    }
    if arrived.open >= bounds.open_max {
        return Err("too many connections from this address");
    }
    arrived.open += 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn connections_of_a_source_are_limited_in_number_and_rate() {
        let (mut sources, now) = (HashMap::new(), Instant::now());
        let source = |last| Source::Network(IpAddr::from([192, 0, 2, last]));
        let bounds = Bounds { open_max: 3, in_second_max: 5 };
        let mut enter = |source, now| super::enter(&mut sources, source, bounds, now).is_ok();
        assert!((0..3).all(|_| enter(source(1), now)));
        assert!(!enter(source(1), now), "its share");
        assert!(enter(source(2), now), "another's");
        let later = now + SECOND;
        assert!((0..3).all(|_| enter(source(3), later)));
        let all = Bounds { open_max: usize::MAX, in_second_max: 5 };
        let mut enter = |source, now| super::enter(&mut sources, source, all, now).is_ok();
        assert!(enter(source(3), later) && enter(source(3), later));
        assert!(!enter(source(3), later), "its rate");
        assert!(enter(source(3), later + SECOND), "of the next second");
    }
}
