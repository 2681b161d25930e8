//! Reasons for which a node cannot take part in its cluster.

use crate::identity::IdentityError;

/// Reason for which a node cannot take part in its cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The folder with the node's identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Kafka cannot be used.
    #[error(transparent)]
    Log(#[from] kafka_log::LogError),
    /// The topic is not fit to be a log.
    #[error("the topic {topic:?} is not fit to be a log: {}", problems.join("; "))]
    Topic {
        /// Name of the topic.
        topic: String,
        /// Each setting of the topic that makes it unfit.
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
