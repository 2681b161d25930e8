//! Events that reach the node's thread.

use std::sync::mpsc::SyncSender;

use kafka_log::Message;
use replication::PlannedSlice;
use replication::digest::Parts;
use replication::forward::{Answer, Request};

use crate::host::LocalChange;
use crate::identity::keys::NumberedKey;

/// Event for the node's thread.
pub(crate) enum NodeEvent {
    /// Changes of this node's clients.
    Local(Vec<LocalChange>),
    /// The node's clients send no more changes.
    Closed,
    /// Changes of another node's clients.
    Frame(Frame),
    /// Answers of the writer to the frame of this number.
    Answers(u64, Result<Vec<Answer>, String>),
    /// Event of the log, with the number of the reader that produced it. Messages of earlier readers are ignored.
    Log(u64, kafka_log::Event),
    /// Result of looking for the node's last committed message in the log, with the number of the search.
    LogPlace(u64, Result<LogPlace, String>),
    /// Offset of the last message in a snapshot that this node made by itself, or the reason why the snapshot failed.
    SnapshotWritten(Result<u64, String>),
    /// First offset of the log after a deletion, or the reason why the deletion failed.
    Trimmed(Result<u64, String>),
    /// Keys of the cluster, received from another node.
    Keys(Result<Vec<NumberedKey>, String>),
    /// The next slice to compare.
    SlicePlanned(Result<PlannedSlice, String>),
    /// Digests of a slice of this node's data at a digest barrier, or the reason why they could not be computed.
    Digested(u64, Result<Parts, String>),
    /// Address of the writer of an epoch.
    WriterAddress(u64, Option<String>),
}

/// Requests of another node. The answers go to `reply`.
pub(crate) struct Frame {
    pub(crate) requests: Vec<Request>,
    pub(crate) reply: SyncSender<Vec<Answer>>,
}

/// Message at an offset of the log, and the offsets of the log's first and next message.
#[derive(Debug)]
pub(crate) struct LogPlace {
    /// `None` if the log has no message at that offset.
    pub(crate) message: Option<Message>,
    pub(crate) start: u64,
    pub(crate) end: u64,
}
