//! Support for black-box tests: scratch folders, the real `pando` binary on a free loopback port, other LDAP servers as
//! peers, and common clients.
//!
//! Tests never wait by sleeping for a fixed time. They wait for a line, an answer or an exit, and deadlines only limit
//! the time until a failure.
//!
//! This code is a separate crate, so that it is compiled once for all test binaries and `assault`.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

pub mod access_requests;
pub mod altered_rows;
pub mod certificates;
pub mod changes;
pub mod clients;
pub mod cluster;
pub mod collector;
pub mod corpus;
pub mod ds389;
pub mod filters;
mod givens;
pub mod hidden_data;
pub mod http;
pub mod interrupted;
pub mod kdc;
pub mod metrics;
pub mod opendj;
pub mod page;
pub mod pando;
pub mod positions;
pub mod relay;
pub mod root;
pub mod running;
pub mod s3;
pub mod scratch;
pub mod slapd;
pub mod sync_source;
pub mod transactions;
pub mod tree;
pub mod writers;

pub use givens::{ADMIN_DN, ADMIN_PASSWORD, DEADLINE, SUFFIX};
pub use pando::Pando;
pub use scratch::Scratch;

/// Returns the seed for a test's random choices: PANDO_TEST_SEED, or a new number. The seed is printed, so that a
/// failure can be reproduced.
pub fn seed() -> u64 {
    seed_or(fastrand::u64(..))
}

/// Returns PANDO_TEST_SEED, or the fixed seed `own` if the variable is not set. For comparisons with a peer that has
/// defects: with random seeds, a test would find these defects and blame Pando for them.
pub fn seed_or(own: u64) -> u64 {
    let seed = std::env::var("PANDO_TEST_SEED")
        .map_or(own, |text| text.parse().expect("PANDO_TEST_SEED is a number"));
    println!("PANDO_TEST_SEED={seed}");
    seed
}

/// Returns how often a test tries random input: the usual number, multiplied by PANDO_TEST_ROUNDS.
pub fn rounds(usual: u64) -> u64 {
    let times = std::env::var("PANDO_TEST_ROUNDS");
    usual * times.map_or(1, |text| text.parse::<u64>().expect("PANDO_TEST_ROUNDS is a number"))
}
