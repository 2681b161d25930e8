//! Runs `./dev cluster --smoke` as a test: three brokers, three nodes, a load, and five rounds of faults.
//!
//! This is a separate test binary, because a machine with two cores cannot run other tests at the same time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[test]
fn nothing_acknowledged_is_lost_where_nodes_and_brokers_are_killed_cut_off_and_filled_up() {
    cluster_rig::run(test_support::pando::program().into(), cluster_rig::Run::Smoke).unwrap();
}
