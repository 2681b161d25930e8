//! Interfaces of a node to its environment: time and events, the shared log, and other nodes.
//!
//! No call waits, except [`Runtime::next_event`]. Results arrive as [`NodeEvent`]s.

use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kafka_log::LogError;
use replication::NodeId;
use replication::forward::Request;

use crate::event::NodeEvent;

/// Work for another thread.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// Time, events, and work on other threads.
pub(crate) trait Runtime: Send {
    /// Returns the monotonic time.
    fn now(&self) -> Instant;

    /// Returns the wall-clock time in microseconds since 1970.
    fn now_micros(&self) -> u64;

    /// Waits for the next event, for at most `patience`.
    fn next_event(&mut self, patience: Duration) -> Option<NodeEvent>;

    /// Returns the next event without waiting; `None` if there is no event.
    fn ready_event(&mut self) -> Option<NodeEvent>;

    /// Returns a sender of events to this node.
    fn sender(&self) -> Sender<NodeEvent>;

    /// Runs `work` on a new thread.
    fn spawn(&mut self, name: &str, work: Work) -> io::Result<()>;
}

/// Access of a node to the shared log.
pub(crate) trait Log: Send {
    /// Fetches the message at `offset`, after `delay`. One [`NodeEvent::LogPlace`] with `number` follows for each
    /// failed attempt, and finally one with the result.
    fn find(&mut self, number: u64, offset: u64, delay: Duration) -> io::Result<()>;

    /// Fetches the claim of an epoch. [`NodeEvent::WriterAddress`] follows.
    fn find_address(&mut self, epoch: u64) -> io::Result<()>;

    /// Reads from offset `next` on, as the reader with number `reading`. If the log is not open yet, also joins the
    /// election and accepts appends.
    fn open(&mut self, reading: u64, next: u64) -> Result<(), LogError>;

    /// Returns true between [`open`](Log::open) and [`close`](Log::close).
    fn is_open(&self) -> bool;

    /// Stops reading and leaves the election. Appends in flight may still succeed.
    fn close(&mut self);

    /// Starts an append. `Appended` or `Failed` with this ticket follows. Does nothing while the log is closed.
    fn append(&mut self, ticket: usize, key: &[u8], message: &[u8]);

    /// Reports that a message of `bytes` bytes was applied, so that the reader may read more.
    fn release(&mut self, bytes: usize);

    /// Deletes all messages before `offset`. [`NodeEvent::Trimmed`] follows.
    fn delete_before(&mut self, offset: u64) -> io::Result<()>;
}

/// Access of a node to other nodes.
pub(crate) trait Peers: Send {
    /// Sends a frame of requests to the writer. One [`NodeEvent::Answers`] with `number` follows.
    fn send(&mut self, number: u64, to: NodeId, address: &str, requests: Vec<Request>);

    /// Abandons the frame in flight, because another node is the writer now.
    fn forget(&mut self);

    /// Fetches the key with this number from the first of `sources` that has the key. [`NodeEvent::Keys`] follows.
    fn fetch_keys(&mut self, sources: Vec<(NodeId, String)>, number: u32) -> io::Result<()>;
}

/// Returns the system's time in microseconds since 1970; 0 if the system's clock is before 1970.
pub(crate) fn system_micros() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// The system's clock, a channel of events, and threads.
pub(crate) struct SystemRuntime {
    events: Receiver<NodeEvent>,
    sender: Sender<NodeEvent>,
}

impl SystemRuntime {
    pub(crate) fn new(events: Receiver<NodeEvent>, sender: Sender<NodeEvent>) -> SystemRuntime {
        SystemRuntime { events, sender }
    }
}

impl Runtime for SystemRuntime {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn now_micros(&self) -> u64 {
        system_micros()
    }

    fn next_event(&mut self, patience: Duration) -> Option<NodeEvent> {
        // The runtime itself has a sender, so the only error is the timeout.
        self.events.recv_timeout(patience).ok()
    }

    fn ready_event(&mut self) -> Option<NodeEvent> {
        self.events.try_recv().ok()
    }

    fn sender(&self) -> Sender<NodeEvent> {
        self.sender.clone()
    }

    fn spawn(&mut self, name: &str, work: Work) -> io::Result<()> {
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }
}
