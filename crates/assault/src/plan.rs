//! How much is done: a quick run, or one of so many minutes; and where random choices begin.

use std::time::Duration;

/// How long the attacks that go on at random do so in a quick run, all together.
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

    /// Where random choices begin.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Random choices of one attack: the same whichever other attacks run.
    pub(crate) fn random(&self, attack: &str) -> fastrand::Rng {
        // FNV-1a, so that attacks differ.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        fastrand::Rng::with_seed(attack.bytes().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, step))
    }

    /// Whether this is the short run of CI.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// A number for the quick run, or one for the full run.
    pub(crate) fn count(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// A part of the time for attacks that go on at random, in hundredths.
    pub(crate) fn share(&self, hundredths: u32) -> Duration {
        self.time * hundredths / 100
    }
}
