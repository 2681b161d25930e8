//! The log that the nodes of a cluster share, on one partition of an Apache Kafka topic.
//!
//! Three clients of Kafka for a node, each with threads of its own: the [`Reader`] brings every message from an offset
//! on, the [`Appender`] appends, and the [`Election`] says whether this node is the one that should write: whoever has
//! the partition in a consumer group. What they have to say comes as [`Event`]s through one callback. Nothing here
//! knows what messages mean; the crate `replication` does.

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

/// The largest message of a topic that nothing else is said of (`max.message.bytes`).
pub const MESSAGE_BYTES_DEFAULT: usize = 1_048_588;

/// What happened to the log.
#[derive(Debug)]
pub enum Event {
    /// The next message.
    Message(Message),
    /// A message is in the log for good.
    Appended {
        /// What [`Appender::append`] was given.
        ticket: usize,
        /// Where it stands.
        offset: u64,
    },
    /// A message may not be in the log.
    Failed {
        /// As above.
        ticket: usize,
        /// What is known of it.
        error: AppendError,
        /// Kafka's words.
        reason: String,
    },
    /// This node is the one that should write, or is no longer.
    Elected(bool),
    /// The offsets of the log's first message and of the one to come, from time to time; or why nobody can say.
    Ends {
        /// When that was asked.
        asked: Instant,
        /// The answer.
        ends: Result<(u64, u64), String>,
    },
    /// The log cannot be read on from where it was to be: nothing will come any more.
    Lost(String),
}

/// A message of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Where it stands.
    pub offset: u64,
    /// Kafka's key: not covered by any tag, a hint.
    pub key: Vec<u8>,
    /// All of it.
    pub bytes: Vec<u8>,
    /// When it was appended, by the clock of whoever did, in milliseconds since 1970.
    pub millis: i64,
}

/// Takes events, on whatever thread has one. It may wait, which holds that client of Kafka up.
pub type Sink = std::sync::Arc<dyn Fn(Event) + Send + Sync>;

/// Why Kafka could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A call failed.
    #[error("Kafka, {doing}: {error}")]
    Kafka {
        /// What was tried.
        doing: &'static str,
        /// Kafka's words.
        error: rdkafka::error::KafkaError,
    },
    /// Brokers cannot be talked to.
    #[error("Kafka, {doing}: {error}; {said}")]
    NoTalk {
        /// What was tried.
        doing: &'static str,
        /// Kafka's words.
        error: rdkafka::error::KafkaError,
        /// What a connection failed with last.
        said: String,
    },
    /// The topic is not there.
    #[error("Kafka has no topic {0:?}; `pando cluster init` creates it")]
    NoTopic(String),
    /// The system gives no thread.
    #[error(transparent)]
    Thread(#[from] std::io::Error),
}

pub(crate) fn failed(doing: &'static str) -> impl Fn(rdkafka::error::KafkaError) -> LogError {
    move |error| LogError::Kafka { doing, error }
}
