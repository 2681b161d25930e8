//! Plan of a run: its extent (quick, or a number of minutes), and the seed of its random choices.

use std::time::Duration;

/// Total time of all random attacks in a quick run.
const QUICK: Duration = Duration::from_secs(40);

/// The plan of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    quick: bool,
    time: Duration,
    seed: u64,
}

impl Plan {
    pub(crate) fn new(quick: bool, minutes: u64, seed: u64) -> Plan {
        let time = if quick { QUICK } else { Duration::from_secs(60 * minutes) };
        Plan { quick, time, seed }
    }

    /// Returns the seed of random choices.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the random generator of an attack. Its numbers do not depend on which other attacks run.
    pub(crate) fn random(&self, attack: &str) -> fastrand::Rng {
        // The FNV-1a hash of the name gives each attack its own seed.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        fastrand::Rng::with_seed(attack.bytes().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, step))
    }

    /// Returns true for the short run of CI.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// Returns `quick` in a quick run, and `full` in a full run.
    pub(crate) fn count(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// Returns this share, in percent, of the time for random attacks.
    pub(crate) fn share(&self, hundredths: u32) -> Duration {
        self.time * hundredths / 100
    }
}
