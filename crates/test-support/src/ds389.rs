//! 389 DS as a peer, with the configuration of `pando bench`.

use super::running::{Running, setup};
use super::{ADMIN_DN, ADMIN_PASSWORD, Scratch};
use bench::peers::Ds389;
use client::Connection;
use ldap::ChangeOperation;

/// A running ns-slapd, killed when dropped.
pub type RunningDs389 = Running<Ds389>;

impl RunningDs389 {
    /// Starts a server over an empty database in `scratch`, with an equality index of each attribute in `indexes`.
    ///
    /// # Panics
    /// If 389 DS is not installed, or does not answer on its port.
    pub fn start(scratch: &Scratch, indexes: &[&str]) -> RunningDs389 {
        RunningDs389::with_plugins(scratch, indexes, &[])
    }

    /// Starts a server with plug-ins, each with its name and further values.
    ///
    /// # Panics
    /// The same as for [`start`](RunningDs389::start), or if the server has no such plug-in.
    pub fn with_plugins(
        scratch: &Scratch,
        indexes: &[&str],
        plugins: &[(&str, &[(&str, &str)])],
    ) -> RunningDs389 {
        let setup = setup(indexes);
        let started = Ds389::configure(&scratch.join("ds389"), &setup).and_then(Running::of);
        let mut running = started
            .unwrap_or_else(|error| panic!("{error}: run the test by ./dev test-peers, which installs it"));
        if !plugins.is_empty() {
            let mut admin = Connection::open(running.address()).unwrap();
            assert!(admin.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
            for (name, more) in plugins {
                let values = [("nsslapd-pluginEnabled", "on")];
                for (attribute, value) in values.iter().chain(*more) {
                    let change = [(ChangeOperation::Replace, *attribute, &[*value][..])];
                    let changed = admin.modify(&format!("cn={name},cn=plugins,cn=config"), &change).unwrap();
                    assert!(changed.is_success(), "{name} {attribute}: {changed:?}");
                }
            }
            drop(admin);
            // Plug-ins take effect after a restart.
            running.restart();
        }
        running
    }
}
