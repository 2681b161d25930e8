//! What every black-box test needs: scratch folders, the real `pando` binary on a free loopback port, Debian's slapd
//! as a peer, and the clients that people use. Nothing here waits by sleeping for a fixed time: it waits for a line,
//! an answer or an exit, and deadlines only bound how long a failure takes.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

pub mod access_requests;
pub mod changes;
pub mod clients;
pub mod cluster;
pub mod corpus;
pub mod ds389;
pub mod filters;
pub mod givens;
pub mod interrupted;
pub mod metrics;
pub mod pando;
pub mod positions;
pub mod root;
pub mod scratch;
pub mod slapd;
pub mod tree;
pub mod writers;

#[allow(unused_imports, reason = "each test binary uses its own part")]
pub use givens::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, SUFFIX};
#[allow(unused_imports, reason = "each test binary uses its own part")]
pub use pando::Pando;
pub use scratch::Scratch;

/// Where a test's random choices start: PANDO_TEST_SEED, or a new number; printed, so that a failure's can be given
/// again.
pub fn seed() -> u64 {
    seed_or(fastrand::u64(..))
}

/// The same with a number of the test's own: where the peer has quirks that a new number every time would sooner or
/// later find, and call ours.
pub fn seed_or(own: u64) -> u64 {
    let seed = std::env::var("PANDO_TEST_SEED")
        .map_or(own, |text| text.parse().expect("PANDO_TEST_SEED is a number"));
    println!("PANDO_TEST_SEED={seed}");
    seed
}

/// How often a test tries something at random: PANDO_TEST_ROUNDS times as often as usual.
pub fn rounds(usual: u64) -> u64 {
    let times = std::env::var("PANDO_TEST_ROUNDS");
    usual * times.map_or(1, |text| text.parse::<u64>().expect("PANDO_TEST_ROUNDS is a number"))
}
