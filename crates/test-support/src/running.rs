//! A peer's server that a test kills and starts again.

use super::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX};
use bench::peers::{Index, Peer, PeerError, Server, Setup};
use std::net::SocketAddr;

/// A running server, killed when dropped.
pub struct Running<P> {
    pub(crate) peer: P,
    server: Option<Server>,
    address: SocketAddr,
}

impl<P: Peer> Running<P> {
    /// Starts a server.
    ///
    /// # Errors
    /// The server ends, or does not answer.
    pub(crate) fn of(mut peer: P) -> Result<Running<P>, PeerError> {
        let server = peer.start()?;
        Ok(Running { address: server.address(), server: Some(server), peer })
    }

    /// Returns the address of the server's listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills the server, and starts it again on the same address.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn restart(&mut self) {
        self.restart_after(|| ());
    }

    /// Kills the server, and starts it again on the same address after calling `step`.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn restart_after(&mut self, step: impl FnOnce()) {
        self.server = None;
        step();
        self.server = Some(self.peer.start_at(self.address).unwrap_or_else(|error| panic!("{error}")));
    }
}

/// Returns the setup of a peer over an empty database, with an equality index of each attribute in `indexes`.
pub(crate) fn setup(indexes: &[&str]) -> Setup {
    Setup {
        admin_dn: ADMIN_DN.to_owned(),
        admin_password: ADMIN_PASSWORD.to_owned(),
        ..Setup::new(SUFFIX, indexes.iter().map(|name| name.parse::<Index>().unwrap()).collect(), 0)
    }
}
