//! The commands of docs/how-to/cluster.md, on three nodes and three brokers that share the network of a host.

use kafka_broker::Brokers;
use test_support::Scratch;
use test_support::cluster::until;
use test_support::page::Blocks;
use test_support::root::was_run_as_root;

use crate::all_used;
use crate::data::people;
use crate::host::Host;

/// Shell functions that run commands on the machine of a node. Each node has separate folders. `nodeN pando ...` stands
/// for the page's `nodeN$ pando ...`.
const NODES: &str = r#"
export PATH=$HOME/bin:$PATH
node() {
    unshare --mount --propagation private bash -ec '
        folder=$HOME/node$0
        mount --bind $folder/etc /etc/pando
        mount --bind $folder/data /var/lib/pando
        cd $folder/home
        test "$2" != serve || echo $$ > $folder/pid
        exec "$@"' "$@"
}
node1() { node 1 "$@"; }
node2() { node 2 "$@"; }
node3() { node 3 "$@"; }
stop() {
    pid=$(cat node$1/pid)
    kill $pid
    while kill -0 $pid 2> /dev/null; do sleep 0.1; done
}
"#;

/// Script that copies a file to another node.
const SCP: &str = "#!/bin/sh\ncp \"$1\" \"$HOME/${2%:}/home/\"\n";

/// Returns the commands of a block with functions in place of the prompts.
fn commands(block: &str) -> Vec<String> {
    block.lines().map(|line| line.replacen("$ ", " ", 1)).collect()
}

fn run(host: &Host, command: &str) -> String {
    host.run(&format!("{NODES}{command}")).stdout
}

fn serve(host: &Host, command: &str) {
    assert!(command.contains(" pando serve "), "{command}");
    host.serve(&format!("{NODES}{command}"));
}

/// Waits until a node has an entry of `ou=people`.
fn expect_person(host: &Host, node: u32, uid: &str) {
    let search = format!("node {node} pando search --data /var/lib/pando '(uid={uid})' 1.1");
    until("the entry is on the node", || run(host, &search).contains(uid).then_some(()));
}

#[test]
pub(crate) fn cluster() {
    if was_run_as_root(module_path!(), "cluster") {
        return;
    }
    let (scratch, page) = (Scratch::new("docs-cluster"), Blocks::of("how-to/cluster.md"));
    let host = Host::new(&scratch, &[]);
    host.run("for last in 1 2 3; do ip address add 10.0.0.$last/32 dev lo; done; mkdir bin /var/lib/pando");
    host.run(
        "for node in node1 node2 node3; do mkdir -p $node/etc $node/home; mkdir -m 700 $node/data; done",
    );
    let brokers = host.in_network(|| Brokers::start(3, scratch.path())).unwrap();
    for node in ["1", "2", "3"] {
        let file = page
            .block("data =")
            .replace("kafka1:9092,kafka2:9092,kafka3:9092", &brokers.bootstrap())
            .replace("0.0.0.0:389", &format!("10.0.0.{node}:389"))
            .replace("10.0.0.1:6360", &format!("10.0.0.{node}:6360"));
        host.write(&format!("node{node}/etc/node.toml"), &file);
    }
    host.write("bin/scp", SCP);
    host.write("node1/home/people.ldif", &people("dc=example,dc=com"));
    run(
        &host,
        "chmod +x bin/scp; node1 pando import --data /var/lib/pando --suffix dc=example,dc=com people.ldif",
    );

    let set_up = commands(page.block("node1$ pando cluster init"));
    let [init, serve_first, further @ ..] = &set_up[..] else { panic!("{set_up:?}") };
    run(&host, init);
    serve(&host, serve_first);
    let [prepare @ .., serve_second] = further else { panic!("{further:?}") };
    for name in ["node2", "node3"] {
        let of_node = |command: &String| command.replace("node2", name);
        prepare.iter().map(of_node).for_each(|command| drop(run(&host, &command)));
        serve(&host, &of_node(serve_second));
    }
    let new = "printf 'dn: uid=cora,ou=people,dc=example,dc=com\\nobjectClass: account\\nuid: cora\\n'";
    run(&host, &format!("{new} | node3 pando change --data /var/lib/pando"));
    (1..=3).for_each(|node| expect_person(&host, node, "cora"));

    let renew = commands(page.block("node1$ pando cluster renew"));
    let [write, take] = &renew[..] else { panic!("{renew:?}") };
    run(&host, &format!("{write}\nnode1 scp node3.renewal node3:\n{take}"));

    run(&host, "stop 3");
    let reseed = commands(page.block("node3$ pando cluster reseed"));
    run(&host, &reseed[0]);
    serve(&host, "node3 pando serve --node /etc/pando/node.toml");
    expect_person(&host, 3, "cora");

    // Another node gets the authority's key from a copy of the first node's folder. The page shows node 2.
    let page_block = page.block("node2$ cp authority-key.pem").replace("node2$ ", "").replace("2001", "3001");
    host.write("node3/home/given.sh", &page_block);
    run(&host, "cp node1/data/cluster/authority-key.pem node3/home; node3 bash -e given.sh");
    run(&host, "node3 pando cluster invite --node /etc/pando/node.toml -o further.invitation");
    run(&host, "node3 grep -x 'node = 3001' further.invitation");

    // Each line is for another node: one that leaves, and one that is lost.
    let remove = commands(page.block("node2$ pando cluster leave"));
    let [leave, unregister] = &remove[..] else { panic!("{remove:?}") };
    run(&host, &format!("stop 2\n{leave}"));
    let unregister = unregister.strip_suffix(" 2").unwrap();
    run(&host, &format!("stop 3\n{unregister} 3"));

    let other = people("dc=example,dc=com").replace("uid=bert", "uid=dora").replace("uid: bert", "uid: dora");
    host.write("node1/home/people.ldif", &other);
    run(&host, "node1 pando import --data new-data --suffix dc=example,dc=com people.ldif\nstop 1");
    let generation = commands(page.block("node1$ pando cluster generation"));
    let [begin, serve_new] = &generation[..] else { panic!("{generation:?}") };
    run(&host, begin);
    serve(&host, serve_new);
    expect_person(&host, 1, "dora");
    all_used(&page, "how-to/cluster.md");
}
