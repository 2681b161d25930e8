//! Membership of nodes, and trimming of the log: real nodes on a real broker.

use ldap::ResultCode;
use test_support::cluster::{Cluster, add_unit, figure, figure_of, read, unit, until};
use test_support::pando::{Start, command};

/// Nodes join and leave, and messages of the log that no node needs are deleted.
#[test]
fn a_departed_node_is_rejected_and_the_log_is_trimmed() {
    let (cluster, first) = Cluster::secured("cluster-members");
    // Node 2 copies the data of the first node, which is running. If the copy fails, nothing is created.
    let (invitation, address) = (cluster.invite(2), figure(&first, "Address"));
    let join = |address: &str, more: &[&str]| {
        let words = [&["join", "--invitation", &invitation, "--copy-from", address][..], more].concat();
        cluster.cluster_command(2, &words)
    };
    let unreached = join("127.0.0.1:1", &[]);
    assert!(unreached.code != Some(0) && unreached.stderr.contains("no copy of node 1"), "{unreached}");
    let other = join(&address, &["--number-there", "7"]);
    assert!(other.code != Some(0) && other.stderr.contains("no copy of node 7"), "{other}");
    assert!(
        !cluster.data(2).join("copy-being-received").exists() && !cluster.data(2).join("data.mdb").exists()
    );
    join(&address, &[]).expect_code(0).expect_output("node 2 is made");
    let again = join(&address, &[]);
    assert!(again.code != Some(0) && again.stderr.contains("data"), "{again}");
    assert!(!cluster.data(1).join("copy-being-sent").exists());
    cluster.join(3);
    let (second, third) = (cluster.start(2), cluster.start(3));
    let mut one = first.administrator();
    for (node, server) in [(1, &first), (2, &second), (3, &third)] {
        let name = format!("Node {node}");
        until("the log knows the node", || figure_of(&first, &name));
        assert_eq!(add_unit(&mut server.administrator(), &format!("of-{node}")).code, ResultCode::SUCCESS);
    }
    cluster.expect_equal(&[(1, &first), (2, &second), (3, &third)]);

    // Without snapshots on two machines, nothing is deleted.
    let kept = cluster.cluster_command(2, &["trim"]);
    assert!(kept.code != Some(0) && kept.stderr.contains("0 machines have a verified snapshot"), "{kept}");
    for node in [1, 2] {
        let folder = cluster.scratch.join(&format!("snapshot-{node}"));
        let made = cluster.cluster_command(node, &["snapshot", folder.to_str().unwrap()]);
        made.expect_code(0).expect_output("has all 4 entries");
    }
    until("both snapshots are known", || {
        let known = |node| figure_of(&first, &format!("Node {node}")).filter(|text| !text.ends_with("none"));
        known(1).and(known(2))
    });
    // The third node reported its position before these changes, so the log keeps the changes for the third node.
    let says = cluster.cluster_command(1, &["trim", "--dry-run"]).expect_code(0).stdout;
    let before = figure(&first, "Log Start Offset");
    let start = until("the monitor knows it too", || figure_of(&first, "Deletable Before"));
    assert!(
        before == "0" && says.contains(&format!("would be deleted; the log begins at offset {start}")),
        "{says}"
    );

    // The third node is unregistered. Afterwards no messages are kept for it, the other nodes reject it, and it notices
    // that it is unregistered.
    let old_deletable: u64 = start.parse().unwrap();
    let gone = cluster.cluster_command(1, &["unregister", "3"]).expect_code(0);
    gone.expect_output("node 3 is unregistered");
    // The former node's certificate does not give a client a copy of the data either.
    let theirs = cluster.scratch.join("node-3.invitation");
    cluster.write_node_file(9);
    until("its certificate is refused", || {
        let words = ["join", "--invitation", theirs.to_str().unwrap(), "--copy-from", &address];
        let refused = cluster.cluster_command(9, &words);
        (refused.code != Some(0) && refused.stderr.contains("no copy of node 1")).then_some(())
    });
    until("the third one stops", || figure_of(&third, "Role").filter(|role| role.contains("taken out of")));
    let refused = add_unit(&mut third.administrator(), "by-a-stranger");
    assert_eq!(refused.code, ResultCode::UNAVAILABLE, "{refused:?}");
    assert!(read(&mut third.administrator(), &unit("of-1")).is_some(), "it still reads");
    let twice = cluster.cluster_command(2, &["unregister", "3"]);
    assert!(twice.code != Some(0) && twice.stderr.contains("does not belong"), "{twice}");
    assert!(third.stop().success());

    // A node reports its position when it starts.
    for round in 0..5 {
        assert_eq!(add_unit(&mut one, &format!("more-{round}")).code, ResultCode::SUCCESS);
    }
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    assert!(first.stop().success() && second.stop().success());
    let (first, second) = (cluster.start(1), cluster.start(2));
    for (node, server) in [(1, &first), (2, &second)] {
        let folder = cluster.scratch.join(&format!("later-{node}"));
        let made = cluster.cluster_command(node, &["snapshot", folder.to_str().unwrap()]);
        made.expect_code(0).expect_output("has all 9 entries");
        until("the node has told", || {
            figure_of(server, "Deletable Before")
                .filter(|offset| offset.parse::<u64>().unwrap() > old_deletable)
        });
    }
    until("the writer is there", || {
        (add_unit(&mut first.administrator(), "still").code != ResultCode::UNAVAILABLE).then_some(())
    });
    cluster.cluster_command(2, &["trim"]).expect_code(0).expect_output("are deleted");
    let start: u64 = until("the log begins later", || {
        figure_of(&first, "Log Start Offset")
            .and_then(|offset| offset.parse().ok())
            .filter(|offset| *offset > 0)
    });
    assert!(start > old_deletable, "{start}");

    // The nodes continue, and so does a node that was created from a snapshot. A node whose data is older than the log
    // is refused.
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    let mut second = second;
    for _ in 0..5 {
        // Directly after a start, the node is still asking Kafka for its position. It must stop cleanly nevertheless.
        assert!(second.stop().success());
        second = cluster.start(2);
    }
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    let kept = cluster.scratch.join("later-1");
    cluster.join_from(4, &kept);
    let fourth = cluster.start(4);
    cluster.expect_equal(&[(1, &first), (2, &second), (4, &fourth)]);
    cluster.join_from(5, &cluster.scratch.join("snapshot-1"));
    let fifth = cluster.start(5);
    until("too old", || figure_of(&fifth, "Role").filter(|role| role.contains("the log begins at offset")));
    assert!(fifth.stop().success());

    // A node that leaves reports this in the log. Afterwards it is an independent directory.
    assert!(fourth.stop().success());
    let left = cluster.cluster_command(4, &["leave"]).expect_code(0);
    left.expect_output("no node any longer");
    until("the others know", || figure_of(&first, "Node 4").filter(|text| text.starts_with("gone")));
    let alone = Start::bare(&cluster.scratch, "node-4").ready();
    assert!(alone.stop().success());

    let mut status = command(&["cluster", "status"], Some(&cluster.data(1))).expect_code(0);
    for line in
        ["Log Bytes ", "Log Bytes Per Day", "Log Messages", "Node 2", "gone: its certificate is refused"]
    {
        status = status.expect_output(line);
    }
}
