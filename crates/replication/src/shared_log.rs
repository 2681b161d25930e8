//! What the protocol needs of a log that machines share.

/// A log with offsets that count from somewhere without holes: one partition of a topic without transactions and
/// without compaction.
///
/// Calls do not wait. What they lead to comes as events, in the order of the log for messages.
pub trait SharedLog {
    /// Starts appending. One [`LogEvent::Appended`] or [`LogEvent::Failed`] with this ticket follows.
    fn append(&mut self, ticket: u64, message: Vec<u8>);

    /// Has messages come from `offset` on.
    fn read_from(&mut self, offset: u64);

    /// What happened next, if anything did.
    fn next_event(&mut self) -> Option<LogEvent>;
}

/// What a shared log has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// The message at an offset.
    Message {
        /// Where it stands.
        offset: u64,
        /// All of it.
        bytes: Vec<u8>,
    },
    /// A message is in the log for good.
    Appended {
        /// Of the call.
        ticket: u64,
        /// Where it stands.
        offset: u64,
    },
    /// A message may not be in the log.
    Failed {
        /// Of the call.
        ticket: u64,
        /// What is known of it.
        error: AppendError,
    },
}

/// What is known of a message whose appending failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// It is not in the log and never will be: it did not leave this machine, or the log refused it.
    #[error("the message is not in the log")]
    NotAppended,
    /// It may be in the log, or get there later.
    #[error("it is not known whether the message is in the log")]
    Unknown,
}
