//! Reasons why a node cannot take part in its cluster.

use crate::identity::IdentityError;

/// Reason why a node cannot take part in its cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The folder with the node's identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Kafka cannot be used.
    #[error(transparent)]
    Log(#[from] kafka_log::LogError),
    /// The topic cannot serve as a log.
    #[error("the topic {topic:?} is not fit to be a log: {}", problems.join("; "))]
    Topic {
        /// Name of the topic.
        topic: String,
        /// The problem with each unsuitable setting of the topic.
        problems: Vec<String>,
    },
    /// The port cannot be opened, or the system cannot start a thread.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The directory cannot be read.
    #[error(transparent)]
    Directory(#[from] directory::OperationError),
    /// The request cannot be carried out, for the reason in the text.
    #[error("{0}")]
    Refused(String),
}
