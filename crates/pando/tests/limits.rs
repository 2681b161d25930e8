//! Limits for some of all clients: by identity, group, network and listener, and which wins.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::net::SocketAddr;

use client::Connection;
use ldap::{ResultCode, Scope};
use support::pando::Start;
use support::tree::{add, person_dn, plant};
use support::{Pando, SUFFIX, Scratch};

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
    let node = scratch.write("node.toml", LIMITS);
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
    // Carl is in the group by way of another one; so is Bert, who has a limit of his own.
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

/// How many entries come, and how it ends.
fn found(connection: &mut Connection) -> (usize, ResultCode) {
    let found = connection.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    (found.entries.len(), found.outcome.code)
}

#[test]
fn limits_are_those_of_the_first_table_that_fits_and_states_them() {
    let scratch = Scratch::new("limits");
    let pando = start(&scratch);
    let mut administrator = pando.administrator();
    let (all, code) = found(&mut administrator);
    assert!(all > 6 && code == ResultCode::SUCCESS, "no limit binds the administrator: {all} {code}");
    let size = ResultCode::SIZE_LIMIT_EXCEEDED;
    let mut anonymous = pando.connect();
    assert_eq!(found(&mut anonymous), (1, size));
    assert_eq!(found(&mut bound(&pando, "bert")), (2, size), "his own comes before the group's");
    assert_eq!(found(&mut bound(&pando, "carl")), (all, ResultCode::SUCCESS), "a member, by way of a group");
    assert_eq!(found(&mut bound(&pando, "dora")), (3, size), "a user like others");
    let mut dora = bound(&pando, "dora");
    // A limit goes with whom the connection is of.
    assert!(dora.bind("", "").unwrap().is_success());
    assert_eq!(found(&mut dora), (1, size));
    assert!(dora.bind(&person_dn("carl"), "carl-secret").unwrap().is_success());
    assert_eq!(found(&mut dora).0, all);
    // Without an index, a member of the group looks at one entry; the limit of others holds for others.
    let unindexed = |connection: &mut Connection| {
        let filter = "(carLicense=nothing)";
        connection.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).unwrap().outcome.code
    };
    assert_eq!(unindexed(&mut bound(&pando, "dora")), ResultCode::SUCCESS);
    assert_ne!(unindexed(&mut bound(&pando, "carl")), ResultCode::SUCCESS);
}

#[test]
fn a_listener_has_limits() {
    let scratch = Scratch::new("limits-listener");
    let pando = start(&scratch);
    let rest = pando.ready_line.split_once("ldap://127.0.0.2:").unwrap().1;
    let port: u16 = rest.split_whitespace().next().unwrap().parse().unwrap();
    let mut there = Connection::open(SocketAddr::from(([127, 0, 0, 2], port))).unwrap();
    let long = format!("(cn={})", "x".repeat(300));
    assert_eq!(found(&mut there), (1, ResultCode::SIZE_LIMIT_EXCEEDED), "by another table");
    let refused = there.search(SUFFIX, Scope::BaseObject, &long, &[]).unwrap_err().to_string();
    assert!(refused.contains("the limit here is 200"), "{refused}");
    let mut elsewhere = pando.connect();
    let found = elsewhere.search(SUFFIX, Scope::BaseObject, &long, &[]).unwrap();
    assert!(found.outcome.is_success());
}
