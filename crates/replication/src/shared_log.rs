//! Interface of the log that the machines of a cluster share.

/// Log whose offsets have no gaps but need not begin at 0: one partition of a topic without transactions and without
/// compaction.
///
/// The methods do not block. Their results are returned as events. Messages are returned in the order of the log.
pub trait SharedLog {
    /// Starts appending. One [`LogEvent::Appended`] or [`LogEvent::Failed`] with this ticket follows.
    fn append(&mut self, ticket: u64, message: Vec<u8>);

    /// Starts reading messages from `offset` on.
    fn read_from(&mut self, offset: u64);

    /// Returns the next event, if there is one.
    fn next_event(&mut self) -> Option<LogEvent>;
}

/// Event of a shared log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// A message was read.
    Message {
        /// Offset of the message.
        offset: u64,
        /// The whole message.
        bytes: Vec<u8>,
    },
    /// A message is durably in the log.
    Appended {
        /// Ticket of the call of `append`.
        ticket: u64,
        /// Offset of the message.
        offset: u64,
    },
    /// Appending a message failed. The kind of the failure says whether the message may still be in the log.
    Failed {
        /// Ticket of the call of `append`.
        ticket: u64,
        /// Kind of the failure.
        error: AppendError,
    },
}

/// Kind of failure to append a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The message is not in the log and never will be: it did not leave this machine, or the log refused it.
    #[error("the message is not in the log")]
    NotAppended,
    /// The message may be in the log, or arrive there later.
    #[error("it is not known whether the message is in the log")]
    Unknown,
}
