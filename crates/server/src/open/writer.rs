//! The one thread that changes the directory. It runs the writer, a cluster node or a replica.

use std::io;
use std::sync::Arc;

use directory::Writer;
use directory::replica::ReplicationRole;

use super::cluster::{self, Node};
use super::shared::writer_cache_bytes;
use crate::config::Config;
use crate::net::acceptor::AcceptorControl;
use crate::session::context::Shared;
use crate::workers::replica::{self, ReplicaParts};
use crate::workers::service::Service;
use crate::workers::writer::{self, replaced};

/// Starts the thread. When the thread is stopped, it first makes the changes in the queue. Therefore the threads that
/// add changes must stop before this thread. If the data of a cluster node must no longer be served, the thread stops
/// the server through `control`.
///
/// # Errors
/// The system cannot start a thread.
pub(super) fn start(
    mut writer: Writer,
    (node, replica): (Option<Node>, Option<ReplicaParts>),
    config: &Config,
    shared: &Shared,
    control: Arc<AcceptorControl>,
) -> io::Result<Service> {
    let cache_bytes = writer_cache_bytes(config);
    if cache_bytes > 0 {
        writer.cache_rows(cache_bytes);
    }
    let is_replaced = matches!(writer.replication_role(), Ok(ReplicationRole::Replaced { .. }));
    let (queue, health) = (Arc::clone(&shared.writes), Arc::clone(&shared.health));
    let closing = Arc::clone(&queue);
    let run = move || match (node, replica) {
        (Some(node), _) => cluster::run(node, writer, &queue, &health, &|| control.stop()),
        (None, Some(replica)) => replica::run(replica, writer, &queue, &health),
        (None, None) if is_replaced => replaced::run(writer, &queue, &health, Vec::new()),
        (None, None) => writer::run(writer, &queue, &health),
    };
    Service::start("pando-writer", run, move || closing.close())
}
