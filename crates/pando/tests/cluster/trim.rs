//! Nodes that make snapshots and trim the log by themselves: real nodes on a real broker.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ldap::ResultCode;
use test_support::cluster::{Cluster, add_unit, figure, figure_of, until};
use test_support::pando::command;

/// Configures a node to keep snapshots in a folder.
fn keep_snapshots(cluster: &Cluster, node: u32, folder: &Path) {
    cluster.write_node_file(node);
    let text = std::fs::read_to_string(cluster.node_file(node)).unwrap();
    let key = format!("[cluster]\nsnapshots = {:?}\n", folder.to_str().unwrap());
    cluster.scratch.write(&format!("node-{node}.toml"), text.replace("[cluster]\n", &key));
}

fn snapshots_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn start_of(server: &test_support::Pando) -> u64 {
    figure(server, "Log Start Offset").parse().unwrap()
}

/// Returns the last offset that a node has reported as committed.
fn committed(server: &test_support::Pando, node: u32) -> Option<u64> {
    let text = figure_of(server, &format!("Node {node}"))?;
    text.strip_prefix("committed up to offset ")?.split(',').next()?.parse().ok()
}

#[test]
fn the_log_is_trimmed_automatically_and_keeps_needed_messages() {
    let (cluster, first) = Cluster::new("cluster-trim");
    // A node reports its position when it starts.
    assert_eq!(add_unit(&mut first.administrator(), "before").code, ResultCode::SUCCESS);
    cluster.join(2);
    cluster.join(3);
    assert!(first.stop().success());
    let folders = [1, 2].map(|node| cluster.scratch.join(&format!("snapshots-{node}")));
    keep_snapshots(&cluster, 1, &folders[0]);
    // One node cannot make snapshots, because a file is in the way. So nothing is deleted.
    cluster.scratch.write("snapshots-2", "no folder");
    keep_snapshots(&cluster, 2, &folders[1]);
    let (first, second, third) = (cluster.start(1), cluster.start(2), cluster.start(3));
    until("the writer is there", || add_unit(&mut first.administrator(), "one").is_success().then_some(()));
    until("the first one has one", || {
        figure_of(&first, "Own Snapshot").filter(|text| text.starts_with("of offset"))
    });
    until("the second one says why not", || {
        figure_of(&second, "Own Snapshot").filter(|text| text.starts_with("failed:"))
    });
    until("one is not enough", || figure_of(&first, "Kept Whole").filter(|text| text.contains("1 machines")));
    assert_eq!(start_of(&first), 0);

    // The log keeps the messages that a stopped node lacks.
    cluster.expect_equal(&[(1, &first), (3, &third)]);
    assert!(third.stop().success());
    let third = cluster.start(3);
    let lacks_from = until("the log knows the third", || committed(&first, 3).filter(|offset| *offset > 0));
    assert!(third.stop().success());
    for round in 0..5 {
        assert_eq!(add_unit(&mut first.administrator(), &format!("later-{round}")).code, ResultCode::SUCCESS);
    }
    assert!(second.stop().success());
    std::fs::remove_file(&folders[1]).unwrap();
    let second = cluster.start(2);
    until("the second one has one", || {
        figure_of(&second, "Own Snapshot").filter(|text| text.starts_with("of offset"))
    });
    let start = until("messages that no node needs are deleted", || {
        Some(start_of(&first)).filter(|start| *start > 0)
    });
    assert!(start <= lacks_from, "{start}, {lacks_from}");
    until("all are known to have what is gone", || {
        [1, 2].iter().all(|node| committed(&first, *node) >= Some(start)).then_some(())
    });
    until("who writes says that it has deleted", || {
        let said = |node| command(&["cluster", "status"], Some(&cluster.data(node))).expect_code(0).stdout;
        let writer = [said(1), said(2)].into_iter().find(|status| status.contains("writing"))?;
        let figures = ["Last Trim", "Log Bytes In 30 Days", "Deletable Bytes", "Own Snapshot"];
        figures.iter().all(|figure| writer.contains(figure)).then_some(())
    });
    let third = cluster.start(3);
    cluster.expect_equal(&[(1, &first), (2, &second), (3, &third)]);

    // A node can start from the snapshot, and the next snapshot replaces it.
    let [kept] = &snapshots_in(&folders[0])[..] else { panic!("one snapshot") };
    command(&["verify"], Some(kept)).expect_code(0);
    let old = SystemTime::now() - Duration::from_secs(48 * 60 * 60);
    std::fs::File::open(kept).unwrap().set_modified(old).unwrap();
    // A node checks the age of its snapshot when it starts.
    assert!(first.stop().success());
    let first = cluster.start(1);
    let mut newer = until("another one", || {
        let found = snapshots_in(&folders[0]);
        (found.len() == 1 && found[0] != *kept && found[0].join("data.mdb").exists()).then_some(found)
    });
    cluster.join_from(4, &newer.remove(0));
    let fourth = cluster.start(4);
    assert_eq!(add_unit(&mut fourth.administrator(), "of-4").code, ResultCode::SUCCESS);
    cluster.expect_equal(&[(1, &first), (4, &fourth)]);
}
