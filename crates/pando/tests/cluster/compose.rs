//! `packaging/compose`: the scripts that create nodes in containers, here run without containers.

use std::path::Path;

use kafka_broker::Brokers;
use ldap::ResultCode;
use test_support::clients::{Run, run};
use test_support::cluster::{Cluster, add, add_unit, figure, read, unit, until};
use test_support::pando::program;
use test_support::{SUFFIX, Scratch};

const START_NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/compose/start-node.sh");

/// Runs the script of a node's container, with a command that only reports that it was reached.
fn start(cluster: &Cluster, node: u32, first: &str) -> Run {
    let programs = Path::new(program()).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    let variables = [
        format!("PATH={programs}:{path}"),
        format!("NODE={node}"),
        "NODES=3".to_owned(),
        "REPLICAS=1".to_owned(),
        format!("FIRST={first}"),
        format!("INVITATIONS={}", cluster.scratch.join("invitations").display()),
        format!("PANDO_NODE={}", cluster.node_file(node).display()),
        format!("PANDO_DATA={}", cluster.data(node).display()),
    ];
    let words = [START_NODE, "echo", "it serves"].map(str::to_owned);
    run("env", &[&variables[..], &words].concat(), "")
}

#[test]
fn containers_of_nodes_become_one_cluster() {
    let scratch = Scratch::new("cluster-compose");
    let brokers = Brokers::start(1, scratch.path()).unwrap();
    let cluster = Cluster { brokers, scratch };
    (1..=3).for_each(|node| cluster.write_node_file(node));
    let invitations = cluster.scratch.join("invitations");
    std::fs::create_dir(&invitations).unwrap();

    // A node that is started before the first node is ready fails, and must be started again.
    start(&cluster, 2, "127.0.0.1:1").expect_code(1).expect_error("there is no invitation for node 2 yet");
    start(&cluster, 1, "").expect_code(0).expect_output("it serves");
    start(&cluster, 2, "127.0.0.1:1").expect_code(1).expect_error("127.0.0.1:1");
    let first = cluster.start(1);
    add(&mut first.administrator(), SUFFIX, &[("objectClass", "domain"), ("dc", "example")]);
    let address = figure(&first, "Address");
    for node in [2, 3] {
        start(&cluster, node, &address).expect_code(0).expect_output(&format!("node {node} is made"));
        let invitation = invitations.join(format!("node{node}.invitation"));
        assert_eq!(std::fs::read(invitation).unwrap(), b"", "a used invitation is empty");
    }
    let second = cluster.start(2);
    let third = cluster.start(3);
    assert_eq!(add_unit(&mut second.administrator(), "people").code, ResultCode::SUCCESS);
    until("the others have it", || read(&mut third.administrator(), &unit("people")));

    // A second start creates nothing.
    assert!(first.stop().success());
    let before = std::fs::read_dir(&invitations).unwrap().count();
    for node in 1..=3 {
        let again = start(&cluster, node, &address).expect_code(0);
        assert_eq!(again.stdout, "it serves\n", "{again}");
    }
    assert_eq!(std::fs::read_dir(&invitations).unwrap().count(), before);
}
