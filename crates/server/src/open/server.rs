//! A running server.

use std::net::SocketAddr;
use std::sync::Arc;

use ldap::ServerUrl;

use super::event_loops::EventLoops;
use super::handle::Handle;
use crate::error::ServeError;
use crate::net::certificate::AuthorityFile;
use crate::telemetry::health::Health;
use crate::workers::service::Services;

/// A running server. Dropping it stops it and waits for its end. Its fields are dropped in order.
pub struct Server {
    pub(super) handle: Handle,
    pub(super) urls: Vec<ServerUrl>,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) health: Arc<Health>,
    /// Dropped before the services, which the loops use.
    pub(super) loops: EventLoops,
    pub(super) services: Services,
}

impl Server {
    /// Returns the addresses on which the server listens, with the actual ports. The socket in the data directory is
    /// last.
    pub fn listeners(&self) -> &[ServerUrl] {
        &self.urls
    }

    /// Returns the network addresses on which the server listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the certificate with which clients verify this server, if its own authority has signed the server's
    /// certificate.
    pub fn authority(&self) -> Option<AuthorityFile> {
        self.handle.authority()
    }

    /// Returns a handle that can stop the server and change its settings from any thread.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until the server has stopped. Outstanding operations are then answered, if they ended in time, and all
    /// answered changes are on disk.
    ///
    /// # Errors
    /// The server stopped because of an error.
    pub fn wait(self) -> Result<(), ServeError> {
        let ended = self.loops.wait();
        let stopped = self.services.stop().map_err(ServeError::Panicked);
        stopped.and(ended)?;
        if let Some(error) = self.handle.accept_failure() {
            return Err(ServeError::Accepting(error));
        }
        match self.health.changes_stopped() {
            Some(cause) => Err(ServeError::ChangesStopped(cause.to_owned())),
            None => Ok(()),
        }
    }
}
