//! The log that the nodes of a cluster share: one partition of an Apache Kafka topic.
//!
//! A node has three Kafka clients, each with its own threads. The [`Reader`] reads every message from an offset on. The
//! [`Appender`] appends messages. The [`Election`] reports whether this node should be the writer. The nodes form a
//! consumer group, and the member that has the partition should be the writer. All three report [`Event`]s through one
//! callback. This crate does not interpret messages; the crate `replication` does.

mod appender;
mod election;
mod reader;
mod settings;
mod topic;
mod wait;

pub use appender::Appender;
pub use election::Election;
pub use reader::{Reader, fetch, fetch_unless};
pub use settings::Settings;
pub use topic::{TopicFacts, create_topic, delete_before, topic_facts};

use std::time::Instant;

use replication::AppendError;

/// Default maximum size of a message in a topic (`max.message.bytes`), in octets.
pub const MESSAGE_BYTES_DEFAULT: usize = 1_048_588;

/// Event of the log.
#[derive(Debug)]
pub enum Event {
    /// The next message was read.
    Message(Message),
    /// A message is durably in the log.
    Appended {
        /// Ticket of [`Appender::append`].
        ticket: usize,
        /// Offset of the message.
        offset: u64,
    },
    /// Appending a message failed; it may still be in the log.
    Failed {
        /// Ticket of [`Appender::append`].
        ticket: usize,
        /// Kind of the failure.
        error: AppendError,
        /// Kafka's error text.
        reason: String,
    },
    /// Whether this node is elected now.
    Elected(bool),
    /// Answer to a query that is repeated at intervals: the offsets of the log's first message and of the next message,
    /// or the reason why these offsets are unknown.
    Ends {
        /// Time of the query.
        requested: Instant,
        /// Result of the query.
        ends: Result<(u64, u64), String>,
    },
    /// The log cannot be read from the given offset. No further message follows.
    Lost(String),
}

/// Message of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Offset of the message.
    pub offset: u64,
    /// Kafka's key of the message. It is only a hint, because the message's tag does not cover it.
    pub key: Vec<u8>,
    /// The whole message.
    pub bytes: Vec<u8>,
    /// Time of the append, by the clock of the appending client, in milliseconds since 1970.
    pub millis: i64,
}

/// Receiver of events. Kafka clients call it on any thread; blocking delays the calling client.
pub type Sink = std::sync::Arc<dyn Fn(Event) + Send + Sync>;

/// Error of Kafka or its client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A call failed.
    #[error("Kafka, {doing}: {error}")]
    Kafka {
        /// Failed action.
        doing: &'static str,
        /// Kafka's error.
        error: rdkafka::error::KafkaError,
    },
    /// The brokers cannot be reached.
    #[error("Kafka, {doing}: {error}; {last_error}")]
    NoTalk {
        /// Failed action.
        doing: &'static str,
        /// Kafka's error.
        error: rdkafka::error::KafkaError,
        /// Last error of a connection.
        last_error: String,
    },
    /// The topic does not exist.
    #[error("Kafka has no topic {0:?}; `pando cluster init` creates it")]
    NoTopic(String),
    /// The system cannot start a thread.
    #[error(transparent)]
    Thread(#[from] std::io::Error),
}

pub(crate) fn failed(doing: &'static str) -> impl Fn(rdkafka::error::KafkaError) -> LogError {
    move |error| LogError::Kafka { doing, error }
}
