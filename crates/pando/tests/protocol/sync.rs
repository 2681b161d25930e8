//! Content synchronization (RFC 4533) with common consumers.

use std::collections::BTreeMap;

use bench::peers::Amendments;
use client::Connection;
use ldap::{
    ChangeOperation, Control, ControlsBuf, MessageId, Response, ResultCode, Scope, SyncInfo, SyncRequest,
    oids,
};
use test_support::access_requests::put_in_force;
use test_support::clients::{python_script, run};
use test_support::cluster::until;
use test_support::slapd::Slapd;
use test_support::tree::{add, add_person, person_dn, plant, replace};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

#[test]
fn python_ldaps_consumer_polls() {
    let scratch = Scratch::new("sync-python");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    python_script("with_syncrepl.py", pando.address(), &[]).expect_code(0).expect_output("are equal");
}

#[test]
fn ldapsearch_polls() {
    let scratch = Scratch::new("sync-ldapsearch");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let poll = |mode: &str| {
        // Comments in the output of ldapsearch show the controls.
        let url = format!("ldap://{}", pando.address());
        let requester = ["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-o", "ldif-wrap=no"];
        let search = ["-E", mode, "-b", SUFFIX, "(objectClass=person)", "uid"];
        run("ldapsearch", &[&requester[..], &search[..]].concat(), "")
    };
    let first = poll("!sync=ro").expect_code(0).expect_output("SyncState control, UUID").stdout;
    assert_eq!(first.matches("\nuid: ").count(), 2, "{first}");
    let cookie = first.lines().find_map(|line| line.strip_prefix("# cookie: ")).unwrap().to_owned();
    replace(&mut admin, &person_dn("bert"), "title", &["new"]);
    let second = poll(&format!("!sync=ro/{cookie}")).expect_code(0).stdout;
    assert!(second.contains("uid: bert") && !second.contains("uid: anna"), "{second}");
}

type Entries = BTreeMap<String, BTreeMap<String, Vec<Vec<u8>>>>;

/// Returns the entries that a consumer of the whole tree must have. Their names are compared as text.
fn content(connection: &mut Connection) -> Entries {
    let wanted =
        ["*", "entryUUID", "entryCSN", "createTimestamp", "creatorsName", "modifyTimestamp", "modifiersName"];
    let found = connection.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &wanted).unwrap();
    let entry = |entry: client::Entry| {
        let sorted = |mut values: Vec<Vec<u8>>| {
            values.sort();
            values
        };
        let attributes = entry.attributes.into_iter().map(|of| (of.description, sorted(of.values)));
        (entry.dn, attributes.collect())
    };
    found.entries.into_iter().map(entry).collect()
}

/// Access rules by which a replica of OpenLDAP may read everything except one attribute.
const REPLICA_RULES: [&str; 2] = [
    "copy: allow read of *, + to user 'uid=replica,ou=people,dc=example,dc=com'",
    "not all: deny read of title to user 'uid=replica,ou=people,dc=example,dc=com'",
];

/// Checks that a replica of OpenLDAP has the entries that Pando shows to the replica's identity. The replica polls or
/// listens, and is the administrator or a user under access rules.
fn slapd_follows(name: &str, kind: &str, is_bound: bool) {
    let scratch = Scratch::new(name);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (mut binddn, mut credentials) = (ADMIN_DN.to_owned(), ADMIN_PASSWORD);
    if is_bound {
        add_person(&mut admin, "replica");
        (binddn, credentials) = (person_dn("replica"), "of the replica");
        replace(&mut admin, &binddn, "userPassword", &[credentials]);
        put_in_force(&pando, &REPLICA_RULES.map(str::to_owned));
    }
    let mut shown = pando.connect();
    assert!(shown.bind(&binddn, credentials).unwrap().is_success());
    let rules = format!(
        "access to * by * write\nindex entryUUID eq\nsyncrepl rid=1 provider=ldap://{} {kind} retry=\"1 +\" \
         searchbase=\"{SUFFIX}\" scope=sub schemachecking=on bindmethod=simple binddn=\"{binddn}\" \
         credentials=\"{credentials}\"\n",
        pando.address()
    );
    let slapd =
        Slapd::amended(&scratch, &["uid"], Amendments { rules: Some(rules), ..Amendments::default() });
    let mut consumer = Connection::open(slapd.address()).unwrap();
    assert!(consumer.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    let mut follow = |what: &str| {
        let expected = content(&mut shown);
        until(what, || (content(&mut consumer) == expected).then_some(()));
    };
    follow("the first copy");
    for number in 0..20 {
        add_person(&mut admin, &format!("sync{number}"));
    }
    follow("what was added");
    replace(&mut admin, &person_dn("anna"), "title", &["one", "two"]);
    assert!(admin.delete(&person_dn("sync3")).unwrap().is_success());
    assert!(admin.modify_dn(&person_dn("sync4"), "uid=renamed", None).unwrap().is_success());
    follow("a change of each kind");
    let group = format!("cn=copied,{SUFFIX}");
    let (first, second) = (person_dn("anna"), person_dn("sync5"));
    add(&mut admin, &group, &[("objectClass", "groupOfNames"), ("member", &first), ("member", &second)]);
    follow("a group");
    // Pando sends the group with the new name of its member. OpenLDAP ignores an entry whose entryCSN it knows, so
    // OpenLDAP gets the new name only after the next change of the group.
    assert!(admin.modify_dn(&second, "uid=member", None).unwrap().is_success());
    let change = (ChangeOperation::Delete, "member", &[first.as_str()][..]);
    assert!(admin.modify(&group, &[change]).unwrap().is_success());
    assert!(admin.delete(&person_dn("renamed")).unwrap().is_success());
    follow("a member less");
    // When an entry with subordinates is renamed, each subordinate is sent with its new name.
    assert!(admin.modify_dn(&format!("ou=groups,{SUFFIX}"), "ou=teams", None).unwrap().is_success());
    follow("a unit with entries in it that is renamed");
}

#[test]
fn slapd_polls() {
    slapd_follows("sync-slapd-polls", "type=refreshOnly interval=00:00:00:01", false);
}

#[test]
fn slapd_receives_changes() {
    slapd_follows("sync-slapd-hears", "type=refreshAndPersist", false);
}

#[test]
fn slapd_under_access_rules_polls() {
    slapd_follows("sync-slapd-polls-bound", "type=refreshOnly interval=00:00:00:01", true);
}

#[test]
fn slapd_under_access_rules_receives_changes() {
    slapd_follows("sync-slapd-hears-bound", "type=refreshAndPersist", true);
}

/// Starts a refreshAndPersist search, and reads to the end of the refresh phase.
fn listen(connection: &mut Connection) -> MessageId {
    let filter = ldap::FilterBuf::parse("(objectClass=*)").unwrap();
    let all = ldap::AttributeSelection::default();
    let request = ldap::SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), all);
    let value = SyncRequest { persists: true, cookie: None, reload_hint: false }.encode();
    let controls: ControlsBuf =
        [Control { oid: oids::SYNC_REQUEST, critical: true, value: Some(&value) }].into_iter().collect();
    let id = connection.send(ldap::Request::Search(request), controls.as_controls()).unwrap();
    loop {
        if let Response::Intermediate { value: Some(value), .. } =
            connection.receive(id).unwrap().message().response
            && matches!(SyncInfo::decode(value), Some(SyncInfo::Refreshed { is_done: true, .. }))
        {
            return id;
        }
    }
}

/// A refreshAndPersist search ends by Cancel, Abandon, a bind, the end of the server, and a client that does not read.
#[test]
fn cancel_abandon_bind_and_shutdown_end_refresh_and_persist_searches() {
    let scratch = Scratch::new("sync-ends");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let ended = |connection: &mut Connection, id| loop {
        if let Response::SearchDone(result) = connection.receive(id).unwrap().message().response {
            break result.code;
        }
    };
    let mut first = pando.administrator();
    let id = listen(&mut first);
    add_person(&mut admin, "one");
    assert!(matches!(first.receive(id).unwrap().message().response, Response::SearchEntry(_)));
    let value = ldap::encode_cancel(id);
    let cancel = ldap::ExtendedRequest { name: oids::CANCEL, value: Some(&value) };
    first.request(ldap::Request::Extended(cancel), ldap::Controls::NONE).unwrap();
    assert_eq!(ended(&mut first, id), ResultCode::CANCELED);
    // A bind ends the search and is answered. Later changes are not sent.
    let id = listen(&mut first);
    assert!(first.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    add_person(&mut admin, "two");
    assert!(first.entry(&person_dn("two"), &["uid"]).unwrap().is_some());
    let abandoned = listen(&mut first);
    first.send(ldap::Request::Abandon(abandoned), ldap::Controls::NONE).unwrap();
    add_person(&mut admin, "three");
    assert!(first.entry(&person_dn("three"), &["uid"]).unwrap().is_some());
    assert_ne!(id, abandoned);
    // Many searches on one connection receive each change once.
    let ids: Vec<_> = (0..20).map(|_| listen(&mut first)).collect();
    add_person(&mut admin, "four");
    for id in &ids {
        assert!(matches!(first.receive(*id).unwrap().message().response, Response::SearchEntry(_)));
    }
    // A renamed entry and its subordinates are sent with their new names.
    assert!(admin.modify_dn(&format!("ou=groups,{SUFFIX}"), "ou=teams", None).unwrap().is_success());
    for id in &ids {
        let mut moved = Vec::new();
        while moved.len() < 2 {
            if let Response::SearchEntry(entry) = first.receive(*id).unwrap().message().response {
                moved.push(entry.object_name.to_owned());
            }
        }
        assert_eq!(moved, [format!("ou=teams,{SUFFIX}"), format!("cn=staff,ou=teams,{SUFFIX}")]);
    }
    let mut last = pando.administrator();
    let id = listen(&mut last);
    let begun = std::time::Instant::now();
    assert!(pando.stop().success());
    assert_eq!(ended(&mut last, id), ResultCode::UNAVAILABLE);
    assert!(begun.elapsed() < test_support::DEADLINE);
}
