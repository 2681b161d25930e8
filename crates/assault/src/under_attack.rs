//! Attack of a server while another client uses the server. After the attack, the server must release the memory and
//! descriptors.

use std::time::Duration;

use crate::bystander::Bystander;
use crate::process::{MIB, Memory, descriptors, wait_until};
use crate::report::Finding;
use test_support::Scratch;
use test_support::pando::{Pando, Start};

/// Limits of an attack's effects on a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Maximum growth in octets of the server's memory during the attack.
    pub(crate) cost: u64,
    /// Maximum latency of another client's answer.
    pub(crate) slowest: Duration,
}

/// Maximum growth in octets of the server's memory that may remain after the attack.
const KEPT_MAX: u64 = 40 * MIB;

/// Maximum number of additional descriptors after the attack: descriptors for connections of the other client, which
/// reconnects, and descriptors of the store, which has written data.
const DESCRIPTORS_KEPT_MAX: usize = 12;

/// Maximum time until the descriptors of closed connections are released. Some of these connections have a bind that
/// waits for hashing.
const CLEAN_UP: Duration = Duration::from_secs(30);

/// Starts a server and attacks it. `attack` closes its connections before it returns.
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
    let (peak, retained) = (memory.peak_growth(), memory.given_back(KEPT_MAX));
    let seen = bystander.end();
    let mib = |octets: u64| format!("+{} MiB", octets / MIB);
    let finding = finding
        .bounded(peak <= bounds.cost, mib(peak), format!("at most {}", bounds.cost / MIB))
        .bounded(
            retained <= KEPT_MAX,
            format!("{} when they are gone", mib(retained)),
            format!("at most {}", KEPT_MAX / MIB),
        )
        .bounded(
            left <= descriptors_max,
            format!("{before} descriptors before, {left} after"),
            format!("{DESCRIPTORS_KEPT_MAX} more at most"),
        );
    seen.add_to(finding, bounds.slowest)
}
