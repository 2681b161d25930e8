//! Counts of connections under the `[[limit]]` tables that limit them.
//!
//! A connection has a place in at most one table: the first table with the key `connections` that applies to its
//! client. A table is identified by the clients to which it applies. Therefore places survive a reload that changes the
//! limit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::limit_tables::{ConnectionsLimit, LimitedWho};

/// Places in all tables.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPlaces {
    tables: Mutex<Vec<Arc<TablePlaces>>>,
}

/// Number of places of one table that are taken.
#[derive(Debug)]
struct TablePlaces {
    who: Arc<[LimitedWho]>,
    count: AtomicUsize,
}

/// A connection's place in a table. Dropping it releases the place.
#[derive(Debug)]
pub(crate) struct ConnectionPlace(Arc<TablePlaces>);

impl ConnectionPlaces {
    /// Takes a place; `None` if no place is free.
    pub(crate) fn take(&self, limit: &ConnectionsLimit) -> Option<ConnectionPlace> {
        let table = self.table(&limit.who);
        let more = |count: usize| (count < limit.connections_max).then_some(count + 1);
        table.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(ConnectionPlace(table))
    }

    fn table(&self, who: &Arc<[LimitedWho]>) -> Arc<TablePlaces> {
        // The list is consistent after every step. Therefore a poisoned lock is usable.
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = tables.iter().find(|table| table.who == *who) {
            return Arc::clone(table);
        }
        // This drops tables without connections. Such tables may have been removed from the settings.
        tables.retain(|table| Arc::strong_count(table) > 1);
        let table = Arc::new(TablePlaces { who: Arc::clone(who), count: AtomicUsize::new(0) });
        tables.push(Arc::clone(&table));
        table
    }
}

impl ConnectionPlace {
    /// Returns true if this place is in the table with the limit `limit`.
    pub(crate) fn is_of(&self, limit: &ConnectionsLimit) -> bool {
        self.0.who == limit.who
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_released_and_still_counted_after_a_reload() {
        let places = ConnectionPlaces::default();
        let limit = |who: &str, connections_max| ConnectionsLimit {
            connections_max,
            who: [who.parse().unwrap()].into(),
        };
        let (users, anonymous) = (limit("users", 2), limit("anonymous", 1));
        let first = places.take(&users).unwrap();
        let second = places.take(&users);
        assert!(second.is_some() && places.take(&users).is_none());
        assert!(first.is_of(&users) && !first.is_of(&anonymous));
        assert!(places.take(&anonymous).is_some(), "of another table");
        // A reload creates a new limit for the same clients. The new limit counts the same places.
        assert!(places.take(&limit("users", 2)).is_none());
        let third = places.take(&limit("users", 3));
        assert!(third.is_some());
        drop((second, third));
        assert!(places.take(&limit("users", 1)).is_none());
        drop(first);
        assert!(places.take(&limit("users", 1)).is_some());
    }
}
