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

/// A running server. Dropping this struct stops the server and waits until it has ended. The fields are dropped in the
/// order of their declaration.
pub struct Server {
    pub(super) handle: Handle,
    pub(super) urls: Vec<ServerUrl>,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) health: Arc<Health>,
    /// The event loops. The event loops are dropped before `services`, because they use the services.
    pub(super) loops: EventLoops,
    pub(super) services: Services,
}

impl Server {
    /// Returns the addresses on which the server listens, with the actual ports. The last address is the socket in the
    /// data directory.
    pub fn listeners(&self) -> &[ServerUrl] {
        &self.urls
    }

    /// Returns the network addresses on which the server listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the certificate with which clients verify the server. Returns `None` if the server's certificate was not
    /// signed by the server's own authority.
    pub fn authority(&self) -> Option<AuthorityFile> {
        self.handle.authority()
    }

    /// Returns a handle with which any thread can stop the server and change its settings.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until the server has stopped. When this function returns, all changes that were answered are on disk.
    /// Operations that did not finish within the time limit were not answered.
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
