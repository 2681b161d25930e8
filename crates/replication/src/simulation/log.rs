//! A node's connection to the log. The simulated network transports the messages in both directions.

use std::collections::VecDeque;

use crate::shared_log::{LogEvent, SharedLog};

/// Client of the log in the process of a node.
#[derive(Debug, Default)]
pub(super) struct LogEnd {
    /// Events for the node.
    pub(super) events: VecDeque<LogEvent>,
    /// Messages that the simulation has not appended to the log yet.
    pub(super) appends: Vec<(u64, Vec<u8>)>,
    /// Offset of the next message to read.
    pub(super) from: u64,
    /// Time at which the outstanding fetch was sent.
    pub(super) fetching_since: Option<u64>,
    /// Number of the last fetch. Results of older fetches are ignored.
    pub(super) fetch: u64,
}

impl SharedLog for LogEnd {
    fn append(&mut self, ticket: u64, message: Vec<u8>) {
        self.appends.push((ticket, message));
    }

    fn read_from(&mut self, offset: u64) {
        self.from = offset;
        self.fetching_since = None;
        self.events.retain(|event| !matches!(event, LogEvent::Message { .. }));
    }

    fn next_event(&mut self) -> Option<LogEvent> {
        self.events.pop_front()
    }
}

impl LogEnd {
    /// Receives the messages of a fetch.
    pub(super) fn fetched(&mut self, fetch: u64, messages: Vec<(u64, Vec<u8>)>) {
        if fetch != self.fetch || self.fetching_since.is_none() {
            return;
        }
        self.fetching_since = None;
        for (offset, bytes) in messages {
            self.from = self.from.max(offset + 1);
            self.events.push_back(LogEvent::Message { offset, bytes });
        }
    }
}
