//! 389 DS as a peer, with the configuration of `pando bench`.

use super::{ADMIN_DN, ADMIN_PASSWORD, SUFFIX, Scratch};
use bench::peers::{Ds389, Index, Peer, Server, Setup};
use client::Connection;
use ldap::ChangeOperation;
use std::net::SocketAddr;

/// A running ns-slapd, killed when dropped.
pub struct RunningDs389 {
    server: Server,
}

impl RunningDs389 {
    /// Starts one over an empty database in `scratch`, with an equality index of each of these attributes.
    ///
    /// # Panics
    /// When 389 DS is not installed, or never answers on its port.
    pub fn start(scratch: &Scratch, indexes: &[&str]) -> RunningDs389 {
        RunningDs389::with_plugins(scratch, indexes, &[])
    }

    /// Starts one with plug-ins, each with its name and further values.
    ///
    /// # Panics
    /// As [`start`](RunningDs389::start), or when it has no such plug-in.
    pub fn with_plugins(
        scratch: &Scratch,
        indexes: &[&str],
        plugins: &[(&str, &[(&str, &str)])],
    ) -> RunningDs389 {
        let setup = Setup {
            admin_dn: ADMIN_DN.to_owned(),
            admin_password: ADMIN_PASSWORD.to_owned(),
            ..Setup::new(SUFFIX, indexes.iter().map(|name| name.parse::<Index>().unwrap()).collect(), 0)
        };
        let mut peer = Ds389::configure(&scratch.join("ds389"), &setup)
            .unwrap_or_else(|error| panic!("{error}: run the test by ./dev test-peers, which installs it"));
        let mut server = peer.start().unwrap_or_else(|error| panic!("{error}"));
        if !plugins.is_empty() {
            let mut admin = Connection::open(server.address()).unwrap();
            assert!(admin.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
            for (name, more) in plugins {
                let values = [("nsslapd-pluginEnabled", "on")];
                for (attribute, value) in values.iter().chain(*more) {
                    let change = [(ChangeOperation::Replace, *attribute, &[*value][..])];
                    let changed = admin.modify(&format!("cn={name},cn=plugins,cn=config"), &change).unwrap();
                    assert!(changed.is_success(), "{name} {attribute}: {changed:?}");
                }
            }
            drop((admin, server));
            // Plug-ins take effect after a restart.
            server = peer.start().unwrap_or_else(|error| panic!("{error}"));
        }
        RunningDs389 { server }
    }

    /// Returns the address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}
