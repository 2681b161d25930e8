//! Debian's slapd as a peer, with the configuration of `pando bench` and the changes of a test.

use super::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};
use bench::peers::{Amendments, Index, OpenLdap, Peer, PeerError, Server, Setup};
use std::net::SocketAddr;

/// A running slapd, killed when dropped.
pub struct Slapd {
    peer: OpenLdap,
    server: Option<Server>,
    address: SocketAddr,
}

impl Slapd {
    /// Starts one over an empty database in `scratch`, with an equality index of each of these attributes.
    ///
    /// # Panics
    /// When slapd is not installed, or never answers on its port.
    pub fn start(scratch: &Scratch, indexes: &[&str]) -> Slapd {
        Slapd::amended(scratch, indexes, Amendments::default())
    }

    /// Starts one with changes to its configuration. Every client may write, unless rules in the changes forbid it.
    ///
    /// # Panics
    /// As [`Slapd::start`].
    pub fn amended(scratch: &Scratch, indexes: &[&str], mut amendments: Amendments) -> Slapd {
        let indexes = indexes.iter().map(|name| name.parse::<Index>().unwrap()).collect();
        let setup = Setup {
            admin_dn: ADMIN_DN.to_owned(),
            admin_password: ADMIN_PASSWORD.to_owned(),
            ..Setup::new(SUFFIX, indexes, 0)
        };
        amendments.rules.get_or_insert_with(|| "access to * by * write".to_owned());
        let folder = scratch.join("slapd");
        // Another process may take the port before slapd does. Then slapd ends, and the next port is tried.
        for _ in 0..10 {
            let mut peer = OpenLdap::amended(&folder, &setup, &amendments)
                .unwrap_or_else(|error| panic!("{error}: run the tests by ./dev test, which installs it"));
            match peer.start() {
                Ok(server) => return Slapd { address: server.address(), server: Some(server), peer },
                Err(PeerError::Ended { said, .. }) if said.contains("bind(") => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("slapd finds no port");
    }

    /// Returns the address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it, and starts it again on the same address.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.restart_after(|| ());
    }

    /// Kills it, and starts it again on the same address after a step.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart_after(&mut self, step: impl FnOnce()) {
        self.server = None;
        step();
        self.server = Some(self.peer.start_at(self.address).unwrap_or_else(|error| panic!("{error}")));
    }

    /// Returns the address of its listener for `ldaps://`, if it has one.
    pub fn secure_address(&self) -> SocketAddr {
        self.peer.secure_address().expect("it listens for ldaps")
    }
}
