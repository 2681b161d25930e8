//! The node of a cluster that the server is, if the settings say so.

use std::sync::Arc;

use directory::{Directory, Writer};

#[cfg(feature = "kafka")]
use crate::cluster_host;
use crate::config::Config;
use crate::error::ServeError;
use crate::session::context::Shared;
use crate::telemetry::health::Health;
use crate::workers::writer::WriteQueue;

/// A node that does not run yet.
#[cfg(feature = "kafka")]
pub(super) type Node = cluster::Cluster;

/// A node: this program was built without them, so there is no value.
#[cfg(not(feature = "kafka"))]
pub(super) enum Node {}

/// Opens the node of the settings, if they have one: it accepts connections of other nodes, and does not run yet.
///
/// # Errors
/// The node cannot take part in its cluster, or this program was built without clusters.
#[cfg(feature = "kafka")]
pub(super) fn open(config: &Config, shared: &Shared) -> Result<Option<Node>, ServeError> {
    let Some(settings) = &config.cluster else { return Ok(None) };
    let age = shared.read_age.clone();
    Ok(Some(cluster_host::open(settings, &config.data, &shared.directory, &shared.writes, age)?))
}

/// See above.
#[cfg(not(feature = "kafka"))]
pub(super) fn open(config: &Config, _: &Shared) -> Result<Option<Node>, ServeError> {
    if config.cluster.is_some() { Err(ServeError::NoKafka) } else { Ok(None) }
}

/// Runs a node in the place of the writer: see [`cluster_host::run`].
#[cfg(feature = "kafka")]
pub(super) fn run(node: Node, writer: Writer, queue: &Arc<WriteQueue>, health: &Health, end: &dyn Fn()) {
    cluster_host::run(node, writer, queue, health, end);
}

/// See above.
#[cfg(not(feature = "kafka"))]
pub(super) fn run(node: Node, _: Writer, _: &Arc<WriteQueue>, _: &Health, _: &dyn Fn()) {
    match node {}
}

/// Returns the generation of the data: in a cluster the cluster's, which all nodes share, otherwise the directory's
/// own.
pub(super) fn generation(directory: &Directory) -> Result<[u8; 16], ServeError> {
    #[cfg(feature = "kafka")]
    if let Some(cursor) = replication::Cursor::of_rows(&directory.log_rows()?) {
        return Ok(cursor.generation);
    }
    Ok(directory.generation()?)
}
