//! Debian's slapd as a peer, with the configuration of `pando bench` and the changes of a test.

use super::Scratch;
use super::running::{Running, setup};
use bench::peers::{Amendments, OpenLdap, PeerError};
use std::net::SocketAddr;

/// A running slapd, killed when dropped.
pub type Slapd = Running<OpenLdap>;

impl Slapd {
    /// Starts a server over an empty database in `scratch`, with an equality index of each attribute in `indexes`.
    ///
    /// # Panics
    /// If slapd is not installed, or does not answer on its port.
    pub fn start(scratch: &Scratch, indexes: &[&str]) -> Slapd {
        Slapd::amended(scratch, indexes, Amendments::default())
    }

    /// Starts a server with changes to its configuration. Every client may write, unless rules in the changes forbid
    /// it.
    ///
    /// # Panics
    /// The same as for [`Slapd::start`].
    pub fn amended(scratch: &Scratch, indexes: &[&str], mut amendments: Amendments) -> Slapd {
        let setup = setup(indexes);
        amendments.rules.get_or_insert_with(|| "access to * by * write".to_owned());
        let folder = scratch.join("slapd");
        // Another process may take the port before slapd does. Then slapd ends, and the next port is tried.
        for _ in 0..10 {
            let peer = OpenLdap::amended(&folder, &setup, &amendments)
                .unwrap_or_else(|error| panic!("{error}: run the tests by ./dev test, which installs it"));
            match Running::of(peer) {
                Ok(running) => return running,
                Err(PeerError::Ended { output, .. }) if output.contains("bind(") => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("slapd finds no port");
    }

    /// Returns the address of slapd's listener for `ldaps://`. Panics if slapd has no such listener.
    pub fn secure_address(&self) -> SocketAddr {
        self.peer.secure_address().expect("it listens for ldaps")
    }
}
