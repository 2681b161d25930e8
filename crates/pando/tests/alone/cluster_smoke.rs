//! Runs `./dev cluster --smoke` as a test: three brokers, three nodes, a load, and five rounds of faults.
//!
//! It runs alone, because a machine with two cores cannot run other tests at the same time.

#[test]
fn nothing_acknowledged_is_lost_by_kills_partitions_and_full_disks() {
    let _alone = crate::alone();
    cluster_rig::run(test_support::pando::program().into(), cluster_rig::Run::Smoke).unwrap();
}
