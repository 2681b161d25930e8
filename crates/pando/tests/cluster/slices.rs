//! Nodes that compare their data one slice at a time.

use super::nodes::reseed;
use ldap::ResultCode;
use test_support::altered_rows::alter_row;
use test_support::cluster::{Cluster, add_unit, figure, figure_of, read, unit, until};
use test_support::{Pando, SUFFIX};

/// Maximum size of a slice in bytes, so small that a round over some forty entries has several slices.
const SLICE_BYTES: usize = 2_500;

/// Maximum number of starts of a node until a round is complete. At each start, one slice is compared.
const STARTS_MAX: usize = 30;

/// A row of one node is altered. The row may be inside or outside the slice that is compared when the node starts. When
/// a later slice contains the row, the node stops. The other nodes know the progress of the round.
#[test]
fn a_slice_of_a_round_finds_what_was_altered() {
    let (cluster, first) = Cluster::new("cluster-slices");
    for node in [2, 3] {
        cluster.join(node);
        let file = cluster.node_file(node);
        let text = std::fs::read_to_string(&file).unwrap() + &format!("compare_bytes = {SLICE_BYTES}\n");
        std::fs::write(&file, text).unwrap();
    }
    let third = cluster.start(3);
    let mut second = cluster.start(2);
    let mut one = first.administrator();
    for number in 10..50 {
        assert_eq!(add_unit(&mut one, &format!("unit-{number}")).code, ResultCode::SUCCESS);
    }
    until("node 3 has them", || read(&mut third.administrator(), &unit("unit-49")));
    assert!(third.stop().success());
    alter_row(&cluster.data(3), b"unit-37");
    let mut third = cluster.start(3);

    let mut is_under_way = false;
    let has_alarms = || figure(&first, "Alarms") != "0";
    for _ in 0..STARTS_MAX {
        second = compare_next(&cluster, &first, second);
        is_under_way |= figure(&first, "Comparison Round").contains(" since ");
        if is_under_way && has_alarms() {
            break;
        }
    }
    let round = figure(&first, "Comparison Round");
    assert!(is_under_way, "a round has several slices: {round}");
    assert!(has_alarms(), "{round}");
    assert!(!third.exit().success());
    let said = third.log();
    assert!(
        said.contains("is not that of the cluster") && said.contains(&format!("in: {SUFFIX}.")),
        "{said}"
    );
    assert_eq!(add_unit(&mut one, "unmoved").code, ResultCode::SUCCESS, "the other nodes continue");

    cluster.cluster_command(1, &["unregister", "3"]).expect_code(0);
    // While the key changes, digest barriers in flight have no effect.
    until("the new key is in force", || {
        [&first, &second].iter().all(|node| figure(node, "Key") != "1").then_some(())
    });
    a_dispute_lasts_until_its_slice_is_equal(&cluster, &first, second);
}

/// One of two nodes has an altered row, so neither is known to be right. The dispute lasts as long as only other slices
/// are equal. It ends when the node has the right data again, even though the barrier at the node's start concerns
/// another slice.
fn a_dispute_lasts_until_its_slice_is_equal(cluster: &Cluster, first: &Pando, mut second: Pando) {
    let mut one = first.administrator();
    let before = figure(first, "Alarms");
    until("node 2 has it", || read(&mut second.administrator(), &unit("unmoved")));
    assert!(second.stop().success());
    alter_row(&cluster.data(2), b"unit-12");
    second = cluster.start(2);
    let is_disputed = || figure(first, "Alarms") != before;
    for _ in 0..STARTS_MAX {
        if is_disputed() {
            break;
        }
        second = compare_next(cluster, first, second);
    }
    assert!(is_disputed(), "{}", figure(first, "Comparison Round"));
    assert_eq!(add_unit(&mut one, "disputed").code, ResultCode::UNAVAILABLE);
    second = compare_next(cluster, first, second);
    assert_eq!(add_unit(&mut one, "disputed").code, ResultCode::UNAVAILABLE);

    assert!(second.stop().success());
    reseed(cluster, 2);
    let second = cluster.start(2);
    until("changes are made", || (add_unit(&mut one, "settled").code == ResultCode::SUCCESS).then_some(()));
    cluster.expect_equal(&[(1, first), (2, &second)]);
}

/// Restarts node 2, so that the next slice is compared. If node 2 stopped before it had read the previous slice to its
/// end, that slice is compared again.
fn compare_next(cluster: &Cluster, first: &Pando, second: Pando) -> Pando {
    let mark = |node: &Pando| Some(figure_of(node, "Digest")?.split_once(':')?.0.to_owned());
    let before = mark(first);
    assert!(second.stop().success());
    let second = cluster.start(2);
    until("a slice is compared", || {
        let (own, now) = (mark(&second)?, mark(first)?);
        (own == now || before.as_ref() != Some(&now)).then_some(())
    });
    second
}
