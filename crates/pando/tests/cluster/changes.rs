//! Nodes of a cluster, each the real binary, on a real broker.

use std::time::Instant;

use ldap::{ChangeOperation, ResultCode, Scope};
use rustix::process::Signal;
use test_support::SUFFIX;
use test_support::cluster::{Cluster, add, add_unit, figure, read, unit, until};
use test_support::collector::{Collector, attribute, is_of};
use test_support::metrics;
use test_support::pando::{Start, command};

#[test]
fn a_change_on_one_node_is_read_on_all() {
    let (cluster, first) = Cluster::new("cluster-two");
    let mut one = first.administrator();
    assert_eq!(add_unit(&mut one, "before").code, ResultCode::SUCCESS);

    // Join node 2 with a copy of the running node.
    cluster.join(2);
    let second = cluster.start(2);
    let mut two = second.administrator();
    assert!(read(&mut two, &unit("before")).is_some(), "the copy contains the entry");
    assert_eq!(add_unit(&mut one, "on-one").code, ResultCode::SUCCESS);
    assert!(read(&mut one, &unit("on-one")).is_some(), "the client that made the change sees it");
    let found = until("a change on one is read on two", || read(&mut two, &unit("on-one")));
    assert_eq!(Some(found), read(&mut one, &unit("on-one")), "with all its operational attributes");

    // A change at node 2 is forwarded to the writer. The client that sent the change sees it immediately.
    assert_eq!(figure(&second, "Writer"), "1");
    assert_eq!(add_unit(&mut two, "on-two").code, ResultCode::SUCCESS);
    assert!(read(&mut two, &unit("on-two")).is_some(), "the client that made the change sees it");
    assert!(read(&mut one, &unit("on-two")).is_some(), "the writer has the entry first");
    let again = add_unit(&mut two, "on-two");
    assert_eq!(again.code, ResultCode::ENTRY_ALREADY_EXISTS, "{again:?}");
    let lacking = add_unit(&mut two, "a,ou=b");
    assert_eq!((lacking.code, &*lacking.matched_dn), (ResultCode::NO_SUCH_OBJECT, SUFFIX), "{lacking:?}");

    // Passwords are hashed on the client's node, and are accepted on every node.
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
    // On any node, a user may change its own password, and nothing else.
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

    // The data of a node cannot be changed without following the log.
    assert!(second.stop().success());
    let refused = Start::bare(&cluster.scratch, "node-2").refused().1;
    assert!(refused.contains("is a node of a cluster"), "{refused}");
    let refused = command(&["index", "add", "description"], Some(&cluster.data(2)));
    assert!(refused.code != Some(0) && refused.stderr.contains("is a node of a cluster"), "{refused}");

    // After a restart, the node continues from its position.
    assert_eq!(add_unit(&mut one, "meanwhile").code, ResultCode::SUCCESS);
    let second = cluster.start(2);
    until("what it missed", || read(&mut second.administrator(), &unit("meanwhile")));
    cluster.expect_equal(&[(1, &first), (2, &second)]);

    // When the writer is killed, the other node becomes the writer. No acknowledged change is lost.
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

/// The writer is suspended, and another node takes over. When the former writer resumes, it still considers itself the
/// writer, but its decisions are ignored, and the other node decides those changes again.
#[test]
fn a_resumed_writer_is_fenced_and_reads_work_without_the_log() {
    let (cluster, first) = Cluster::new("cluster-asleep");
    first.stop();
    let mut collector = Collector::start();
    let traces =
        format!("[traces]\nendpoint = \"http://{}/v1/traces\"\nsample_ratio = 1.0\n", collector.address);
    add_tables(&cluster, 1, &[metrics::NODE_FILE, &traces]);
    let first = cluster.start(1);
    cluster.join(2);
    add_tables(&cluster, 2, &[metrics::NODE_FILE, &traces]);
    let second = cluster.start(2);
    let (mut one, mut two) = (first.administrator(), second.administrator());
    assert_eq!(add_unit(&mut one, "before").code, ResultCode::SUCCESS);
    assert_eq!(add_unit(&mut two, "forwarded").code, ResultCode::SUCCESS);
    expect_one_trace(&mut collector);

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

    // While the log is unreachable, nodes answer reads and refuse all changes. When the log is reachable again, they
    // accept changes.
    [&first, &second].iter().for_each(|server| drop(metrics::wait_for_ready(server, 200)));
    cluster.brokers.halt(0, true).unwrap();
    let halted = Instant::now();
    for server in [&first, &second] {
        metrics::expect_not_ready(server, halted, "cannot reach the log of its cluster");
        let (status, text) = metrics::page(server, "/ready/read");
        assert!(status == 200 && text.contains("ready for reads only"), "{status} {text}");
    }
    for (server, connection) in [(&first, &mut one), (&second, &mut two)] {
        let refused = add_unit(connection, &format!("lost-{}", server.id()));
        assert_eq!(refused.code, ResultCode::UNAVAILABLE, "{refused:?}");
        assert!(refused.diagnostic.starts_with("the cluster "), "{refused:?}");
        assert!(read(connection, &unit("meanwhile")).is_some(), "reads are still answered");
    }
    cluster.brokers.halt(0, false).unwrap();
    for (name, connection) in [("back-1", &mut one), ("back-2", &mut two)] {
        until("the log is back", || match add_unit(connection, name).code {
            ResultCode::SUCCESS | ResultCode::ENTRY_ALREADY_EXISTS => Some(()),
            _ => None,
        });
    }
    [&first, &second].iter().for_each(|server| drop(metrics::wait_for_ready(server, 200)));
    cluster.expect_equal(&[(1, &first), (2, &second)]);
    assert_eq!((figure(&first, "Alarms"), figure(&second, "Alarms")), ("0".to_owned(), "0".to_owned()));
}

/// Adds tables to the node file of a node.
fn add_tables(cluster: &Cluster, node: u32, tables: &[&str]) {
    let file = cluster.node_file(node);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text + &tables.concat()).unwrap();
}

/// Expects the spans of a forwarded change at the client's node and at the writer in one trace.
#[track_caller]
fn expect_one_trace(collector: &mut Collector) {
    let here = ["wait to be forwarded", "forward to the writer", "wait for the records"];
    let asked = collector.span_with("add", &here);
    let decided = collector.span(|span| {
        span["traceId"] == asked["traceId"] && span["spanId"] != asked["spanId"] && is_of(span, "add")
    });
    assert_eq!(collector.stages(&decided), ["wait for the writer", "decide", "append to the log"]);
    assert_eq!(attribute(&decided, "ldap.result").as_deref(), Some("success"));
    let forwarding = collector.spans.iter().find(|span| span["spanId"] == decided["parentSpanId"]).unwrap();
    assert_eq!((&forwarding["name"], &forwarding["parentSpanId"]), (&here[1].into(), &asked["spanId"]));
    assert!(!serde_json::to_string(&collector.spans).unwrap().contains("example"), "{:?}", collector.spans);
}

/// While the log is unreachable, a node with a limit on the age of its data refuses reads. Exceptions are reads of the
/// administrator, and reads of the node's own state. The node answers again once it has received messages.
#[test]
fn reads_that_may_be_too_old_are_refused() {
    let (cluster, first) = Cluster::new("cluster-old");
    first.stop();
    let file = cluster.node_file(1);
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("[cluster]\n", "[cluster]\nread_age_seconds = 3\n");
    std::fs::write(&file, text).unwrap();
    add_tables(&cluster, 1, &[metrics::NODE_FILE]);
    let node = cluster.start(1);
    let mut administrator = node.administrator();
    let mut nobody = node.connect();
    let mut told = |is_old: bool| {
        let found = nobody.search(SUFFIX, Scope::BaseObject, "(objectClass=*)", &[]).unwrap().outcome;
        let compared = nobody.compare(SUFFIX, "dc", "example").unwrap();
        let old = [found.code, compared.code].map(|code| code == ResultCode::UNAVAILABLE);
        assert!(!old[0] || found.diagnostic.contains("ask another server"), "{found:?}");
        let (status, text) = metrics::page(&node, "/ready/read");
        assert_eq!(status == 503, text.contains("ask another server"), "{text}");
        (old == [is_old; 2] && (status == 503) == is_old).then_some(())
    };
    until("the node has heard of the log", || told(false));
    cluster.brokers.halt(0, true).unwrap();
    until("what it shows is too old", || told(true));
    let (_, text) = metrics::page(&node, "/metrics");
    metrics::expect_documented(&text);
    let states: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("pando_cluster_role{state=\"")).collect();
    assert!(
        matches!(states[..], [state] if state.starts_with(char::is_alphabetic) && !state.contains(": ")),
        "{text}"
    );
    assert!(read(&mut administrator, SUFFIX).is_some(), "not to the administrator");
    let root =
        node.connect().search("", Scope::BaseObject, "(objectClass=*)", &["pandoClusterRole"]).unwrap();
    assert!(root.outcome.is_success() && !root.entries.is_empty(), "data about the node itself is not stale");
    cluster.brokers.halt(0, false).unwrap();
    until("it has heard of the log again", || told(false));
}
