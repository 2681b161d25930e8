//! The cluster node of the server, if the settings define one.

use std::sync::Arc;

use directory::{Directory, Writer};

#[cfg(feature = "kafka")]
use crate::cluster_host::{self, HostParts};
use crate::config::Config;
use crate::error::ServeError;
use crate::session::context::Shared;
use crate::telemetry::health::Health;
use crate::workers::writer::WriteQueue;

/// A node that is not running yet.
#[cfg(feature = "kafka")]
pub(super) type Node = cluster::Cluster;

/// A node. This program was built without cluster support. Therefore this type has no values.
#[cfg(not(feature = "kafka"))]
pub(super) enum Node {}

/// Opens the node if the settings define one. The node then accepts connections from other nodes, but it does not run
/// yet.
///
/// # Errors
/// The node cannot run in its cluster, or this program was built without cluster support.
#[cfg(feature = "kafka")]
pub(super) fn open(config: &Config, shared: &Shared) -> Result<Option<Node>, ServeError> {
    let Some(settings) = &config.cluster else { return Ok(None) };
    let parts = HostParts {
        queue: Arc::clone(&shared.writes),
        read_age: shared.read_age.clone(),
        traces: shared.traces.clone(),
        generation: shared.generation,
    };
    Ok(Some(cluster_host::open(settings, &config.data, &shared.directory, parts)?))
}

/// Fails if the settings define a node.
#[cfg(not(feature = "kafka"))]
pub(super) fn open(config: &Config, _: &Shared) -> Result<Option<Node>, ServeError> {
    if config.cluster.is_some() { Err(ServeError::NoKafka) } else { Ok(None) }
}

/// Runs the node in place of the writer. See [`cluster_host::run`].
#[cfg(feature = "kafka")]
pub(super) fn run(node: Node, writer: Writer, queue: &Arc<WriteQueue>, health: &Health, end: &dyn Fn()) {
    cluster_host::run(node, writer, queue, health, end);
}

/// Cannot be called, because there is no node.
#[cfg(not(feature = "kafka"))]
pub(super) fn run(node: Node, _: Writer, _: &Arc<WriteQueue>, _: &Health, _: &dyn Fn()) {
    match node {}
}

/// Returns the generation of the data that clients receive. All nodes of a cluster share one generation. That
/// generation is no secret. Without a cluster, the result is derived from the generation of the directory.
pub(super) fn generation(directory: &Directory) -> Result<[u8; 16], ServeError> {
    #[cfg(feature = "kafka")]
    if let Some(cursor) = replication::Cursor::of_rows(&directory.log_rows()?) {
        return Ok(cursor.generation);
    }
    Ok(directory.published_generation())
}
