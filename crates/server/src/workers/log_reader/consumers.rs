//! Figures of the replicas that read this server's log.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::limits::{CONSUMER_KEPT, LOG_READS_MAX};

/// A replica as it describes itself in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    /// Name in the replica's settings.
    pub(crate) name: String,
    /// Authorization identity of the replica's connection.
    pub(crate) who: String,
    /// Position of the last record that the replica has.
    pub(crate) position: u64,
}

/// Replicas with the times of their last requests, by the number of their connection.
#[derive(Default)]
pub(crate) struct Consumers(Mutex<HashMap<u64, (Instant, Consumer)>>);

impl Consumers {
    /// Records an answered request. Removes replicas that have sent no request for some time.
    pub(super) fn note(&self, connection: u64, consumer: &Consumer, newest: u64, now: Instant) {
        let mut consumers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, same)) = consumers.get_mut(&connection)
            && (&same.name, &same.who) == (&consumer.name, &consumer.who)
        {
            (*seen, same.position) = (now, consumer.position);
            return;
        }
        let is_new = !consumers.contains_key(&connection);
        if is_new {
            consumers.retain(|_, (seen, _)| now.saturating_duration_since(*seen) < CONSUMER_KEPT);
        }
        if is_new && consumers.len() >= LOG_READS_MAX {
            return;
        }
        if is_new {
            let Consumer { name, who, position } = consumer;
            let lag = newest.saturating_sub(*position);
            tracing::info!(
                "conn={connection} replica {name:?} of {who} reads the log; it lacks {lag} changes"
            );
        }
        consumers.insert(connection, (now, consumer.clone()));
    }

    /// Returns the replicas that sent requests recently, by connection.
    pub(super) fn all(&self, now: Instant) -> Vec<(u64, Consumer)> {
        let consumers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh =
            consumers.iter().filter(|(_, (seen, _))| now.saturating_duration_since(*seen) < CONSUMER_KEPT);
        let mut all: Vec<_> =
            fresh.map(|(connection, (_, consumer))| (*connection, consumer.clone())).collect();
        all.sort_by_key(|(connection, _)| *connection);
        all
    }
}
