//! OpenDJ as a peer, with the configuration of `pando bench`.

use super::Scratch;
use super::running::{Running, setup};
use bench::peers::OpenDj;

/// A running OpenDJ, killed when dropped.
pub type RunningOpenDj = Running<OpenDj>;

impl RunningOpenDj {
    /// Starts a server over an empty database in `scratch`, with an external change log, and with an equality index of
    /// each attribute in `indexes`.
    ///
    /// # Panics
    /// If OpenDJ is not installed, or does not answer on its port.
    pub fn with_change_log(scratch: &Scratch, indexes: &[&str]) -> RunningOpenDj {
        let setup = setup(indexes);
        let started =
            OpenDj::configure(&OpenDj::unpacked(), &scratch.join("opendj"), &setup).and_then(|peer| {
                peer.keep_changes()?;
                Running::of(peer)
            });
        started.unwrap_or_else(|error| panic!("{error}: run the test by ./dev test-peers, which installs it"))
    }
}
