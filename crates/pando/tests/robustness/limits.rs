//! Limits for selected clients, by identity, group, network and listener, and their precedence.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use client::Connection;
use ldap::{Controls, FilterBuf, Request, ResultCode, Scope, SearchRequest, SelectionBuf};
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};
use test_support::cluster::until;
use test_support::pando::Start;
use test_support::tree::{add, person_dn, plant};
use test_support::{Pando, SUFFIX, Scratch};

const LIMITS: &str = r#"
[[listener]]
url = "ldap://127.0.0.2:0"

[[limit]]
for = ["listener ldap://127.0.0.2:0"]
message_size = 200

[[limit]]
for = ["uid=bert,ou=people,dc=example,dc=com"]
size = 2

[[limit]]
for = ["members of cn=apps,dc=example,dc=com"]
size = 0
examined = 1

[[limit]]
for = ["anonymous", "network 192.0.2.0/24"]
size = 1

[[limit]]
for = ["users"]
size = 3
"#;

fn start(scratch: &Scratch) -> Pando {
    start_with(scratch, LIMITS)
}

fn start_with(scratch: &Scratch, limits: &str) -> Pando {
    let node = scratch.write("node.toml", limits);
    let start = Start::new(scratch).arguments(&["--node", node.to_str().unwrap(), "--anonymous-read"]);
    let pando = start.ready();
    let mut administrator = pando.administrator();
    plant(&mut administrator);
    for uid in ["carl", "dora"] {
        let password = format!("{uid}-secret");
        let attributes = [
            ("objectClass", "inetOrgPerson"),
            ("cn", uid),
            ("sn", uid),
            ("userPassword", password.as_str()),
            ("carLicense", "has no index"),
        ];
        add(&mut administrator, &person_dn(uid), &attributes);
    }
    // Carl belongs to the group because he belongs to another group in it. Bert is a direct member, and
    // also has an individual limit.
    let group = |name: &str, members: &[&str]| {
        let dn = format!("cn={name},{SUFFIX}");
        let mut attributes = vec![("objectClass", "groupOfNames"), ("cn", name)];
        attributes.extend(members.iter().map(|member| ("member", *member)));
        add(&mut pando.administrator(), &dn, &attributes);
    };
    group("inner", &[&person_dn("carl")]);
    group("apps", &[&format!("cn=inner,{SUFFIX}"), &person_dn("bert")]);
    pando
}

fn bound(pando: &Pando, uid: &str) -> Connection {
    let mut connection = pando.connect();
    let password = format!("{uid}-secret");
    assert!(connection.bind(&person_dn(uid), &password).unwrap().is_success(), "{uid}");
    connection
}

/// Returns the number of entries found, and the result code.
fn found(connection: &mut Connection) -> (usize, ResultCode) {
    let found = connection.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    (found.entries.len(), found.outcome.code)
}

#[test]
fn the_first_matching_table_that_contains_a_limit_sets_it() {
    let scratch = Scratch::new("limits");
    let pando = start(&scratch);
    let mut administrator = pando.administrator();
    let (all, code) = found(&mut administrator);
    assert!(all > 6 && code == ResultCode::SUCCESS, "the administrator has no limits: {all} {code}");
    let size = ResultCode::SIZE_LIMIT_EXCEEDED;
    let mut anonymous = pando.connect();
    assert_eq!(found(&mut anonymous), (1, size));
    assert_eq!(found(&mut bound(&pando, "bert")), (2, size), "the user's own limit precedes the group's");
    assert_eq!(found(&mut bound(&pando, "carl")), (all, ResultCode::SUCCESS), "a member of a nested group");
    assert_eq!(found(&mut bound(&pando, "dora")), (3, size), "only the table for users matches");
    let mut dora = bound(&pando, "dora");
    // A limit depends on the present identity of the connection.
    assert!(dora.bind("", "").unwrap().is_success());
    assert_eq!(found(&mut dora), (1, size));
    assert!(dora.bind(&person_dn("carl"), "carl-secret").unwrap().is_success());
    assert_eq!(found(&mut dora).0, all);
    // Without an index, a member of the group may examine one entry. Other clients have a different limit.
    let unindexed = |connection: &mut Connection| {
        let filter = "(carLicense=nothing)";
        connection.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).unwrap().outcome.code
    };
    assert_eq!(unindexed(&mut bound(&pando, "dora")), ResultCode::SUCCESS);
    assert_ne!(unindexed(&mut bound(&pando, "carl")), ResultCode::SUCCESS);
}

/// Returns the address of the listener to which a limit in the settings applies.
fn second_listener(pando: &Pando) -> SocketAddr {
    let rest = pando.ready_line.split_once("ldap://127.0.0.2:").unwrap().1;
    SocketAddr::from(([127, 0, 0, 2], rest.split_whitespace().next().unwrap().parse().unwrap()))
}

#[test]
fn limits_can_apply_to_one_listener() {
    let scratch = Scratch::new("limits-listener");
    let pando = start(&scratch);
    let mut there = Connection::open(second_listener(&pando)).unwrap();
    let long = format!("(cn={})", "x".repeat(300));
    assert_eq!(found(&mut there), (1, ResultCode::SIZE_LIMIT_EXCEEDED), "by another table");
    let refused = there.search(SUFFIX, Scope::BaseObject, &long, &[]).unwrap_err().to_string();
    assert!(refused.contains("the limit here is 200"), "{refused}");
    let mut elsewhere = pando.connect();
    let found = elsewhere.search(SUFFIX, Scope::BaseObject, &long, &[]).unwrap();
    assert!(found.outcome.is_success());
}

const CONNECTIONS: &str = r#"
[[listener]]
url = "ldap://127.0.0.2:0"

[[limit]]
for = ["uid=bert,ou=people,dc=example,dc=com"]
connections = 2

[[limit]]
for = ["members of cn=apps,dc=example,dc=com"]
connections = 1

[[limit]]
for = ["listener ldap://127.0.0.2:0", "network 127.0.0.9/32"]
connections = 2
"#;

/// Returns how many times the log reports refused connections.
fn refusals(pando: &Pando) -> usize {
    pando.log().matches("is refused: the table [[limit]] for ").count()
}

#[test]
fn connections_are_limited_by_identity_and_group() {
    let scratch = Scratch::new("limits-connections");
    let pando = start_with(&scratch, CONNECTIONS);
    let bind = |connection: &mut Connection, uid: &str| {
        connection.bind(&person_dn(uid), &format!("{uid}-secret")).unwrap()
    };
    let (mut first, second) = (bound(&pando, "bert"), bound(&pando, "bert"));
    let mut third = pando.connect();
    for _ in 0..3 {
        let refused = bind(&mut third, "bert");
        assert_eq!(refused.code, ResultCode::ADMIN_LIMIT_EXCEEDED, "{refused:?}");
        assert!(refused.diagnostic.contains("as many connections are open"), "{refused:?}");
    }
    assert_eq!(refusals(&pando), 1, "logged once: {}", pando.log());
    assert!(pando.log().contains(r#"for "uid=bert,ou=people,dc=example,dc=com" allows 2 connections"#));
    let who = |connection: &mut Connection| {
        connection.extended("1.3.6.1.4.1.4203.1.11.3", None).unwrap().extended.value.unwrap_or_default()
    };
    assert_eq!(who(&mut third), b"", "it stays anonymous, and in use");
    // After another bind as the same user, a connection still counts once.
    assert!(bind(&mut first, "bert").is_success());
    // The group's limit of one connection is counted separately. If a bind would exceed a limit, the connection keeps
    // its identity.
    let mut carl = bound(&pando, "carl");
    assert_eq!(bind(&mut third, "carl").code, ResultCode::ADMIN_LIMIT_EXCEEDED);
    assert_eq!(bind(&mut first, "carl").code, ResultCode::ADMIN_LIMIT_EXCEEDED);
    assert_eq!(bind(&mut third, "bert").code, ResultCode::ADMIN_LIMIT_EXCEEDED);
    // Other users are not limited. If a connection of the group binds as another user, it no longer counts for the
    // group.
    let others: Vec<Connection> = (0..5).map(|_| bound(&pando, "dora")).collect();
    assert!(bind(&mut carl, "dora").is_success());
    assert!(bind(&mut third, "carl").is_success());
    drop(second);
    let mut fourth = pando.connect();
    until("a closed connection leaves its place", || bind(&mut fourth, "bert").is_success().then_some(()));
    drop(others);
}

/// Opens a connection from another loopback address.
fn connect_from(source: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn a_listener_and_a_network_share_one_connection_limit() {
    let scratch = Scratch::new("limits-connections-network");
    let pando = start_with(&scratch, CONNECTIONS);
    let there = second_listener(&pando);
    let nine = Ipv4Addr::new(127, 0, 0, 9);
    let mut first = Connection::open(there).unwrap();
    let mut second = Connection::over_tcp(connect_from(nine, pando.address())).unwrap();
    assert_eq!((found(&mut first).1, found(&mut second).1), (ResultCode::SUCCESS, ResultCode::SUCCESS));
    for stream in [connect_from(nine, pando.address()), connect_from(Ipv4Addr::LOCALHOST, there)] {
        let said = Connection::over_tcp(stream).unwrap().closed().unwrap().unwrap_or_default();
        assert!(said.contains("busy") && said.contains("as many connections are open"), "{said}");
    }
    assert_eq!(refusals(&pando), 1, "logged once: {}", pando.log());
    found(&mut pando.connect());
    // After a reload, one more connection is permitted. Open connections still count.
    scratch.write("node.toml", CONNECTIONS.replacen("/32\"]\nconnections = 2", "/32\"]\nconnections = 3", 1));
    pando.signal(Signal::HUP);
    let mut third = until("the new number is in force", || {
        let mut new = Connection::open(there).unwrap();
        new.search("", Scope::BaseObject, "(objectClass=*)", &["1.1"]).is_ok().then_some(new)
    });
    assert!(
        Connection::open(there).unwrap().closed().unwrap().is_some(),
        "no more than three connections are open"
    );
    assert_eq!(found(&mut third).1, ResultCode::SUCCESS);
}

/// Two clients request the same amount and read nothing. The limit on waiting octets is lower for one of them.
#[test]
fn the_unread_bytes_of_a_slow_reader_are_limited() {
    let limits = "[[limit]]\nfor = [\"uid=bert,ou=people,dc=example,dc=com\"]\nslow_reader_bytes = 1\n";
    let scratch = Scratch::new("limits-slow-reader");
    let pando = start_with(&scratch, limits);
    let mut administrator = pando.administrator();
    let big = format!("cn=big,{SUFFIX}");
    add(
        &mut administrator,
        &big,
        &[("objectClass", "device"), ("cn", "big"), ("description", &"x".repeat(20_000))],
    );
    let asks_and_reads_nothing = |uid: &str| {
        let mut slow = bound(&pando, uid);
        let (filter, selection) = (FilterBuf::parse("(objectClass=*)").unwrap(), SelectionBuf::new());
        let request =
            SearchRequest::new(&big, Scope::BaseObject, filter.as_filter(), selection.as_selection());
        // Request more than the buffers of the sockets hold.
        for _ in 0..1_000 {
            slow.send(Request::Search(request), Controls::NONE).unwrap();
        }
        slow
    };
    let mut held = || {
        let dn = "cn=Used Bytes,cn=Request Memory,cn=monitor";
        let entry = administrator.entry(dn, &["monitorCounter"]).unwrap().unwrap();
        entry.text("monitorCounter").unwrap().parse::<usize>().unwrap()
    };
    let bert = asks_and_reads_nothing("bert");
    until("answers wait for Bert", || (held() > 16 << 10).then_some(()));
    let most = (0..200).map(|_| held()).max().unwrap();
    assert!(most < 192 << 10, "a slice of answers at most, and his requests: {most}");
    drop(bert);
    let _dora = asks_and_reads_nothing("dora");
    until("as much waits for Dora as for all", || (held() > 256 << 10).then_some(()));
}
