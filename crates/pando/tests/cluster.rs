//! Nodes of a cluster, each the real binary, on a real broker.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Connection, Entry};
use kafka_broker::Brokers;
use ldap::{ChangeOperation, ResultCode, Scope};
use rustix::process::Signal;
use support::pando::{Start, command};
use support::{ADMIN_DN, DEADLINE, Pando, SUFFIX, Scratch};

/// A cluster's nodes and broker.
struct Cluster {
    brokers: Brokers,
    scratch: Scratch,
}

impl Cluster {
    /// A broker, and the first node, which has the suffix entry.
    fn new(name: &str) -> (Cluster, Pando) {
        let scratch = Scratch::new(name);
        let brokers = Brokers::start(1, scratch.path()).unwrap();
        let cluster = Cluster { brokers, scratch };
        cluster.write_node_file(1);
        let data = cluster.data(1);
        // What is there before becomes what the cluster begins with.
        let server =
            Start::bare(&cluster.scratch, "node-1").arguments(&["--suffix", SUFFIX, "--admin-dn", ADMIN_DN]);
        let server = server.ready();
        add(&mut server.administrator(), SUFFIX, &[("objectClass", "domain"), ("dc", "example")]);
        server.stop();
        let node_file = cluster.node_file(1);
        let node_file = node_file.to_str().unwrap();
        let made =
            command(&["cluster", "init", "--node", node_file, "--replicas", "1"], Some(&data)).expect_code(0);
        made.expect_output("node 1 of a new cluster is made");
        let first = cluster.start(1);
        (cluster, first)
    }

    fn data(&self, node: u32) -> PathBuf {
        self.scratch.join(&format!("node-{node}"))
    }

    fn node_file(&self, node: u32) -> PathBuf {
        self.scratch.join(&format!("node-{node}.toml"))
    }

    fn write_node_file(&self, node: u32) {
        let brokers = self.brokers.bootstrap();
        let text = format!(
            "admin_dn = \"{ADMIN_DN}\"\n[cluster]\nbrokers = \"{brokers}\"\nlisten = \"127.0.0.1:0\"\n\
             session_timeout_ms = 2000\n\
             change_timeout_ms = 5000\nappend_timeout_ms = 3000\nkafka = [\"heartbeat.interval.ms=300\"]\n"
        );
        self.scratch.write(&format!("node-{node}.toml"), text);
    }

    /// Invites the next node, and makes it of a copy of the first one's data.
    fn join(&self, node: u32) {
        self.write_node_file(node);
        let invitation = self.scratch.join(&format!("node-{node}.invitation"));
        let invitation = invitation.to_str().unwrap();
        let (first, own) = (self.node_file(1), self.node_file(node));
        let (first, own) = (first.to_str().unwrap(), own.to_str().unwrap());
        let invited = command(&["cluster", "invite", "--node", first, "-o", invitation], Some(&self.data(1)));
        invited.expect_code(0).expect_output(&format!("makes node {node}"));
        let from = self.scratch.join(&format!("copy-for-{node}"));
        let copied = command(&["cluster", "copy", from.to_str().unwrap()], Some(&self.data(1)));
        copied.expect_code(0).expect_output("has the data of the node at this moment");
        let join = [
            "cluster",
            "join",
            "--node",
            own,
            "--invitation",
            invitation,
            "--copy-of",
            from.to_str().unwrap(),
        ];
        command(&join, Some(&self.data(node))).expect_code(0).expect_output(&format!("node {node} is made"));
    }

    fn start(&self, node: u32) -> Pando {
        let node_file = self.node_file(node);
        let data = format!("node-{node}");
        Start::bare(&self.scratch, &data).arguments(&["--node", node_file.to_str().unwrap()]).ready()
    }

    /// Everything in a node's data: its entries as an export has them, and the records of its log.
    fn content(&self, node: u32) -> (String, Vec<(u64, Vec<u8>)>) {
        let export = command(&["export"], Some(&self.data(node))).expect_code(0).stdout;
        let store = store::Store::open_read_only(&self.data(node), directory::rows::MAPS).unwrap();
        let view = store.view().unwrap();
        let records = view.log_records(0).map(|record| record.map(|(at, bytes)| (at, bytes.to_vec())));
        (export, records.collect::<Result<_, _>>().unwrap())
    }

    /// Waits until all of these nodes have the same, and says how many records that are.
    fn expect_equal(&self, nodes: &[(u32, &Pando)]) -> usize {
        let last = nodes.iter().map(|(_, server)| position(server)).max().unwrap();
        for (_, server) in nodes {
            until("the node has every record", || (position(server) >= last).then_some(()));
        }
        let contents: Vec<_> = nodes.iter().map(|(node, _)| self.content(*node)).collect();
        for (content, (node, _)) in contents.iter().zip(nodes) {
            assert!(
                content.0 == contents[0].0,
                "node {node} exports something else than node {}",
                nodes[0].0
            );
            assert!(content.1 == contents[0].1, "node {node} has another log than node {}", nodes[0].0);
        }
        contents[0].1.len()
    }
}

/// Asks until there is an answer.
#[track_caller]
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < DEADLINE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[track_caller]
fn add(connection: &mut Connection, dn: &str, attributes: &[(&str, &str)]) {
    let outcome = try_add(connection, dn, attributes);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{dn}: {outcome:?}");
}

fn try_add(connection: &mut Connection, dn: &str, attributes: &[(&str, &str)]) -> client::Outcome {
    connection.add(dn, attributes).unwrap()
}

fn unit(name: &str) -> String {
    format!("ou={name},{SUFFIX}")
}

fn add_unit(connection: &mut Connection, name: &str) -> client::Outcome {
    try_add(connection, &unit(name), &[("objectClass", "organizationalUnit")])
}

fn read(connection: &mut Connection, dn: &str) -> Option<Entry> {
    connection.search(dn, Scope::BaseObject, "(objectClass=*)", &["*", "+"]).unwrap().entries.pop()
}

fn figure(server: &Pando, name: &str) -> String {
    let dn = format!("cn={name},cn=Cluster,cn=monitor");
    let entry = read(&mut server.administrator(), &dn).unwrap_or_else(|| panic!("no {dn}"));
    ["monitoredInfo", "monitorCounter"].iter().flat_map(|attribute| entry.texts(attribute)).collect()
}

fn position(server: &Pando) -> u64 {
    figure(server, "Position").parse().unwrap()
}

#[test]
fn a_change_on_one_node_is_read_on_all() {
    let (cluster, first) = Cluster::new("cluster-two");
    let mut one = first.administrator();
    assert_eq!(add_unit(&mut one, "before").code, ResultCode::SUCCESS);

    // A copy of a node that is served.
    cluster.join(2);
    let second = cluster.start(2);
    let mut two = second.administrator();
    assert!(read(&mut two, &unit("before")).is_some(), "it came with the copy");
    assert_eq!(add_unit(&mut one, "on-one").code, ResultCode::SUCCESS);
    assert!(read(&mut one, &unit("on-one")).is_some(), "whoever changed it sees it");
    let found = until("a change on one is read on two", || read(&mut two, &unit("on-one")));
    assert_eq!(Some(found), read(&mut one, &unit("on-one")), "with all its operational attributes");

    // The other way: forwarded, and seen at once by whoever asked for it.
    assert_eq!(figure(&second, "Writer"), "1");
    assert_eq!(add_unit(&mut two, "on-two").code, ResultCode::SUCCESS);
    assert!(read(&mut two, &unit("on-two")).is_some(), "whoever changed it sees it");
    assert!(read(&mut one, &unit("on-two")).is_some(), "the writer has it first");
    let again = add_unit(&mut two, "on-two");
    assert_eq!(again.code, ResultCode::ENTRY_ALREADY_EXISTS, "{again:?}");
    let lacking = add_unit(&mut two, "a,ou=b");
    assert_eq!((lacking.code, &*lacking.matched_dn), (ResultCode::NO_SUCH_OBJECT, SUFFIX), "{lacking:?}");

    // Passwords are hashed where the client asks, and good everywhere.
    let person = format!("uid=anna,{}", unit("on-two"));
    let attributes: &[(&str, &str)] =
        &[("objectClass", "inetOrgPerson"), ("cn", "Anna"), ("sn", "A"), ("userPassword", "secret")];
    add(&mut two, &person, attributes);
    for server in [&first, &second] {
        let bound = until("the person is there", || {
            let outcome = server.connect().bind(&person, "secret").unwrap();
            (outcome.code != ResultCode::INVALID_CREDENTIALS).then_some(outcome)
        });
        assert!(bound.is_success(), "{bound:?}");
    }
    // A user may change the own password on any node, and nothing else.
    let mut user = second.connect();
    assert!(user.bind(&person, "secret").unwrap().is_success());
    let refused = user.modify(&person, &[(ChangeOperation::Replace, "sn", &["B"])]).unwrap();
    assert_eq!(refused.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS, "{refused:?}");
    let changed = user.modify(&person, &[(ChangeOperation::Replace, "userPassword", &["other"])]).unwrap();
    assert!(changed.is_success(), "{changed:?}");
    assert!(second.connect().bind(&person, "other").unwrap().is_success());

    assert!(cluster.expect_equal(&[(1, &first), (2, &second)]) > 4);
    assert_eq!((figure(&first, "Alarms"), figure(&second, "Alarms")), ("0".to_owned(), "0".to_owned()));
    let status = command(&["cluster", "status"], Some(&cluster.data(2))).expect_code(0);
    status.expect_output("following");

    // Whoever does not follow the log changes nothing.
    assert!(second.stop().success());
    let refused = Start::bare(&cluster.scratch, "node-2").refused().1;
    assert!(refused.contains("is a node of a cluster"), "{refused}");
    let refused = command(&["index", "add", "description"], Some(&cluster.data(2)));
    assert!(refused.code != Some(0) && refused.stderr.contains("is a node of a cluster"), "{refused}");

    // It goes on where it was.
    assert_eq!(add_unit(&mut one, "meanwhile").code, ResultCode::SUCCESS);
    let second = cluster.start(2);
    until("what it missed", || read(&mut second.administrator(), &unit("meanwhile")));
    cluster.expect_equal(&[(1, &first), (2, &second)]);

    // The other node writes when the first is killed, and nothing that was answered is lost.
    for round in 0..3 {
        assert_eq!(add_unit(&mut one, &format!("last-{round}")).code, ResultCode::SUCCESS);
    }
    first.kill();
    let mut two = second.administrator();
    let begun = Instant::now();
    until("another node writes", || {
        let outcome = add_unit(&mut two, "after");
        assert!(
            matches!(
                outcome.code,
                ResultCode::SUCCESS | ResultCode::UNAVAILABLE | ResultCode::ENTRY_ALREADY_EXISTS
            ),
            "{outcome:?}"
        );
        (outcome.code != ResultCode::UNAVAILABLE).then_some(())
    });
    println!("failover: {:?}", begun.elapsed());
    assert_eq!(figure(&second, "Writer"), "2");
    for round in 0..3 {
        assert!(
            read(&mut two, &unit(&format!("last-{round}"))).is_some(),
            "acknowledged by the one that was killed"
        );
    }
    let first = cluster.start(1);
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    assert!(read(&mut first.administrator(), &unit("after")).is_some());
    assert_eq!(add_unit(&mut first.administrator(), "forwarded-back").code, ResultCode::SUCCESS);
    assert_eq!(figure(&second, "Writer"), "2", "the writer stays");
    cluster.expect_equal(&[(1, &first), (2, &second)]);
}

/// A node that writes is halted, and another one takes over. When it wakes up it still believes that it writes: what it
/// decides then counts for nobody, and is decided anew by the other.
#[test]
fn a_writer_that_slept_undoes_nothing_and_without_the_log_reads_go_on() {
    let (cluster, first) = Cluster::new("cluster-asleep");
    cluster.join(2);
    let second = cluster.start(2);
    let (mut one, mut two) = (first.administrator(), second.administrator());
    assert_eq!(add_unit(&mut one, "before").code, ResultCode::SUCCESS);

    first.signal(Signal::STOP);
    let asleep = std::thread::spawn(move || add_unit(&mut one, "asked-in-its-sleep"));
    until("another node writes", || {
        (add_unit(&mut two, "meanwhile").code == ResultCode::SUCCESS).then_some(())
    });
    assert_eq!(figure(&second, "Writer"), "2");
    first.signal(Signal::CONT);
    let outcome = asleep.join().unwrap();
    let is_there = read(&mut two, &unit("asked-in-its-sleep")).is_some();
    assert!(matches!(outcome.code, ResultCode::SUCCESS | ResultCode::UNAVAILABLE), "{outcome:?}");
    assert_eq!(is_there, outcome.code == ResultCode::SUCCESS, "{outcome:?}");
    let mut one = first.administrator();
    until("the one that slept follows", || read(&mut one, &unit("meanwhile")));
    until("and passes changes on", || {
        (add_unit(&mut one, "awake").code == ResultCode::SUCCESS).then_some(())
    });
    cluster.expect_equal(&[(1, &first), (2, &second)]);

    // Without the log: reads go on, changes are refused, whoever asks; when it is back, so are they.
    cluster.brokers.halt(0, true).unwrap();
    for (server, connection) in [(&first, &mut one), (&second, &mut two)] {
        let refused = add_unit(connection, &format!("lost-{}", server.id()));
        assert_eq!(refused.code, ResultCode::UNAVAILABLE, "{refused:?}");
        assert!(refused.diagnostic.starts_with("the cluster "), "{refused:?}");
        assert!(read(connection, &unit("meanwhile")).is_some(), "reads go on");
    }
    cluster.brokers.halt(0, false).unwrap();
    for (name, connection) in [("back-1", &mut one), ("back-2", &mut two)] {
        until("the log is back", || match add_unit(connection, name).code {
            ResultCode::SUCCESS | ResultCode::ENTRY_ALREADY_EXISTS => Some(()),
            _ => None,
        });
    }
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    assert_eq!((figure(&first, "Alarms"), figure(&second, "Alarms")), ("0".to_owned(), "0".to_owned()));
}
