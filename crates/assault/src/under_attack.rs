//! A server under attack: somebody else uses it meanwhile, and when the attackers have gone, so has what they cost.

use std::time::Duration;

use crate::bystander::Bystander;
use crate::process::{MIB, Memory, descriptors, wait_until};
use crate::report::Finding;
use crate::support::Scratch;
use crate::support::pando::{Pando, Start};

/// What an attack may do to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Octets that the server may hold more than before, meanwhile.
    pub(crate) cost: u64,
    /// How long another client's answer may take.
    pub(crate) slowest: Duration,
}

/// How much more than before the server may hold when the attackers have gone.
const KEPT_MAX: u64 = 40 * MIB;

/// The same of descriptors: those of the other client, which comes and goes, and of the store, which has written.
const DESCRIPTORS_KEPT_MAX: usize = 12;

/// How long descriptors of connections that have gone may stay in use: some of them have a bind before their end that
/// waits for its turn to be hashed.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// Starts a server and attacks it. The connections of `attack` have gone when it returns.
pub(crate) fn under_attack(
    scratch: &Scratch,
    start: Start,
    bounds: Bounds,
    attack: impl FnOnce(&Pando) -> Finding,
) -> Finding {
    let pando = start.ready();
    let bystander = Bystander::start(pando.address(), &Pando::data(scratch));
    let (before, memory) = (descriptors(pando.id()), Memory::watch(pando.id()));
    let finding = attack(&pando);
    let descriptors_max = before + DESCRIPTORS_KEPT_MAX;
    wait_until(CLEAN_UP, || descriptors(pando.id()) <= descriptors_max);
    let left = descriptors(pando.id());
    let (peak, kept) = (memory.peak_growth(), memory.given_back(KEPT_MAX));
    let seen = bystander.end();
    let mib = |octets: u64| format!("+{} MiB", octets / MIB);
    let finding = finding
        .bounded(peak <= bounds.cost, mib(peak), format!("at most {}", bounds.cost / MIB))
        .bounded(
            kept <= KEPT_MAX,
            format!("{} when they are gone", mib(kept)),
            format!("at most {}", KEPT_MAX / MIB),
        )
        .bounded(
            left <= descriptors_max,
            format!("{before} descriptors before, {left} after"),
            format!("{DESCRIPTORS_KEPT_MAX} more at most"),
        );
    seen.add_to(finding, bounds.slowest)
}
