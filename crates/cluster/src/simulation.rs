//! Whole clusters of real nodes, determined by a seed. They run the production code with real directories.
//!
//! Only the environment is replaced: time, the log, the network between nodes, and the server ([`runtime`], [`world`]).
//! Each node has a thread, and exactly one thread runs at a time. A node that waits for an event hands control back to
//! the simulated world, which advances the clock. So a run is a function of its seed, apart from certificates and the
//! checkpointer of the store, whose results no node depends on.
//!
//! The simulation in `replication` covers the protocol with thousands of seeds and finds planted defects. This
//! simulation has few seeds and covers the rest: batches that are open while the log decides, commits, retries, expiry,
//! and the node's handling of keys and digests.
//!
//! `PANDO_TEST_SEED=N` makes the first run use seed N. `PANDO_TEST_SEEDS=M` requests M runs.

mod data;
mod runtime;
mod workload;
mod world;

use workload::{Kind, LogLimits, too_large};
use world::{Figures, World};

/// Returns the requested seeds, or `count` seeds from 1 on.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let variable = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    let first = variable("PANDO_TEST_SEED");
    let count = variable("PANDO_TEST_SEEDS").unwrap_or(if first.is_some() { 1 } else { count });
    let first = first.unwrap_or(1);
    first..first + count
}

/// No acknowledged change is lost, no change is decided twice, and all nodes end with equal data.
#[test]
fn no_seed_of_real_nodes_violates_the_guarantees() {
    let (mut sum, range) = (Figures::default(), seeds(6));
    let is_whole = range.clone().count() >= 6;
    for seed in range {
        match World::new(seed).run() {
            Ok(figures) => sum.add(&figures),
            Err(text) => panic!("PANDO_TEST_SEED={seed}: {text}"),
        }
    }
    println!("{sum:?}");
    if is_whole {
        assert!(sum.all().iter().all(|count| *count > 0), "something never happened: {sum:?}");
    }
}

/// Regression test: a transaction was decided again and again if the heads of its records alone exceeded a message.
/// Only its first record was checked, and that record fits into an empty group.
#[test]
fn a_transaction_that_no_group_can_hold_is_refused() {
    for (group_bytes_max, group_records_max) in [(23_000, 1 << 16), (1 << 20, 100)] {
        let world = World::quiet(LogLimits { group_bytes_max, group_records_max });
        let figures = world.run_one(too_large("token-000-000000")).unwrap();
        assert_eq!(figures.kinds[Kind::TooLarge as usize], 1, "{group_bytes_max} octets: {figures:?}");
    }
}
