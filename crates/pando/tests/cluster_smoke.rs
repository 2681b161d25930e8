//! `./dev cluster --smoke` as a test: three brokers, three nodes, a load; the writer and a broker are killed.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[test]
fn nothing_acknowledged_is_lost_where_the_writer_and_a_broker_are_killed() {
    cluster_rig::run(env!("CARGO_BIN_EXE_pando").into(), cluster_rig::Run::Smoke).unwrap();
}
