//! A node's end of the log. The world carries what it has to say.

use std::collections::VecDeque;

use crate::shared_log::{LogEvent, SharedLog};

/// The client of the log in a node's process.
#[derive(Debug, Default)]
pub(super) struct LogEnd {
    /// What happened, for the node.
    pub(super) events: VecDeque<LogEvent>,
    /// Messages to be appended, for the world.
    pub(super) appends: Vec<(u64, Vec<u8>)>,
    /// Where to read on.
    pub(super) from: u64,
    /// When the last fetch was sent, until its messages come.
    pub(super) fetching_since: Option<u64>,
    /// Counts the fetches. What older ones bring is not looked at.
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
    /// Messages that a fetch brought.
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
