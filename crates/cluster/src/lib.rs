//! A node of a cluster: one directory on several machines, whose log is a topic of Apache Kafka.
//!
//! The crate `replication` implements the protocol: the rules for accepting messages of the log and for becoming the
//! writer. This crate implements the node. Its thread ([`Cluster::run`]) owns the directory's writer, follows the log,
//! and decides changes while this node is the writer. The thread reaches its environment through traits: [`Host`] is
//! the server that contains the node, and the module `environment` has the traits for time, the log and other nodes.
//! Production uses the system's clock, Kafka (`kafka`) and TLS (`transport`). The tests run the same node with real
//! directories in a simulation that a seed determines.
//!
//! `docs/how-to/cluster.md` is for administrators, `docs/reference/cluster-protocol.md` defines the messages.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

mod budget;
mod environment;
mod error;
mod event;
pub mod figures;
mod former_members;
mod growth;
mod host;
pub mod identity;
mod kafka;
pub mod limits;
mod node;
mod open;
mod operation;
mod settings;
#[cfg(test)]
mod simulation;
pub mod stage;
mod tasks;
pub mod transport;

pub use error::ClusterError;
pub use host::{
    Answer, ChangeTimes, DecidedForOther, Host, LocalChange, LocalWork, MessageContext, TransactionChange,
};
pub use node::snapshots::{Verified, verify};
pub use open::{Changes, Cluster, check_topic, log_settings};
pub use settings::NodeSettings;
