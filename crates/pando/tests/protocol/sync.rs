//! Content synchronization (RFC 4533) with consumers that people use.

use crate::support;

use std::collections::BTreeMap;

use bench::peers::Amendments;
use client::Connection;
use ldap::{ChangeOperation, Scope};
use support::clients::{python_script, run};
use support::cluster::until;
use support::slapd::Slapd;
use support::tree::{add, add_person, person_dn, plant, replace};
use support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

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
        // With comments, in which controls are told.
        let url = format!("ldap://{}", pando.address());
        let asker = ["-x", "-H", &url, "-D", ADMIN_DN, "-w", ADMIN_PASSWORD, "-o", "ldif-wrap=no"];
        let search = ["-E", mode, "-b", SUFFIX, "(objectClass=person)", "uid"];
        run("ldapsearch", &[&asker[..], &search[..]].concat(), "")
    };
    let first = poll("!sync=ro").expect_code(0).expect_output("SyncState control, UUID").stdout;
    assert_eq!(first.matches("\nuid: ").count(), 2, "{first}");
    let cookie = first.lines().find_map(|line| line.strip_prefix("# cookie: ")).unwrap().to_owned();
    replace(&mut admin, &person_dn("bert"), "title", &["new"]);
    let second = poll(&format!("!sync=ro/{cookie}")).expect_code(0).stdout;
    assert!(second.contains("uid: bert") && !second.contains("uid: anna"), "{second}");
    poll("!sync=rp").expect_code(53).expect_output("refreshOnly");
}

type Entries = BTreeMap<String, BTreeMap<String, Vec<Vec<u8>>>>;

/// All that a consumer of the whole tree has to have. Names are compared as they are written.
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

/// OpenLDAP copies from Pando, goes on where it was when it was restarted, and has what Pando has.
#[test]
fn a_slapd_is_a_consumer() {
    let scratch = Scratch::new("sync-slapd");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let rules = format!(
        "access to * by * write\nindex entryUUID eq\nsyncrepl rid=1 provider=ldap://{} type=refreshOnly \
         interval=00:00:00:01 retry=\"1 +\" searchbase=\"{SUFFIX}\" scope=sub schemachecking=on bindmethod=simple \
         binddn=\"{ADMIN_DN}\" credentials=\"{ADMIN_PASSWORD}\"\n",
        pando.address()
    );
    let slapd =
        Slapd::amended(&scratch, &["uid"], Amendments { rules: Some(rules), ..Amendments::default() });
    let mut consumer = Connection::open(slapd.address()).unwrap();
    assert!(consumer.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    let mut follow = |admin: &mut Connection, what: &str| {
        let expected = content(admin);
        until(what, || (content(&mut consumer) == expected).then_some(()));
    };
    follow(&mut admin, "the first copy");
    for number in 0..20 {
        add_person(&mut admin, &format!("sync{number}"));
    }
    follow(&mut admin, "what was added");
    replace(&mut admin, &person_dn("anna"), "title", &["one", "two"]);
    assert!(admin.delete(&person_dn("sync3")).unwrap().is_success());
    assert!(admin.modify_dn(&person_dn("sync4"), "uid=renamed", None).unwrap().is_success());
    follow(&mut admin, "a change of each kind");
    let group = format!("cn=copied,{SUFFIX}");
    let (first, second) = (person_dn("anna"), person_dn("sync5"));
    add(&mut admin, &group, &[("objectClass", "groupOfNames"), ("member", &first), ("member", &second)]);
    follow(&mut admin, "a group");
    // The group is sent with the new name of its member, but to OpenLDAP an entry with an entryCSN that it has is one
    // that it has: it follows at the next change of the group itself.
    assert!(admin.modify_dn(&second, "uid=member", None).unwrap().is_success());
    let change = (ChangeOperation::Delete, "member", &[first.as_str()][..]);
    assert!(admin.modify(&group, &[change]).unwrap().is_success());
    assert!(admin.delete(&person_dn("renamed")).unwrap().is_success());
    follow(&mut admin, "a member less");
}
