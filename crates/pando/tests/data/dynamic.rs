//! Dynamic entries (RFC 2589) over LDAP: their remaining time, refreshes, and expiry, also after a restart.

use client::Connection;
use ldap::{ChangeOperation, RefreshRequest, ResultCode, Scope, oids};
use test_support::cluster::until;
use test_support::tree::plant;
use test_support::{Pando, SUFFIX, Scratch};

fn replace(admin: &mut Connection, name: &str, values: &[&str]) {
    let change = (ChangeOperation::Replace, name, values);
    let outcome = admin.modify("cn=config", &[change]).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
}

fn remaining(admin: &mut Connection, dn: &str) -> Option<u64> {
    let entry = admin.entry(dn, &["entryTtl"]).unwrap()?;
    entry.text("entryTtl").map(|text| text.parse().unwrap())
}

#[test]
fn dynamic_entries_end_unless_they_are_refreshed() {
    let scratch = Scratch::new("dynamic");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let index = [("objectClass", "pandoIndex"), ("pandoIndexKind", "equality")];
    test_support::tree::add(&mut admin, "cn=entryExpireTimestamp,cn=indexes,cn=config", &index);
    replace(&mut admin, "pandoDynamicSubtree", &[SUFFIX]);
    let (dn, other) = (format!("cn=meeting,{SUFFIX}"), format!("cn=short,{SUFFIX}"));
    let device = [("objectClass", "device"), ("objectClass", "dynamicObject")];
    until("the index", || admin.add(&dn, &device).unwrap().is_success().then_some(()));
    let first = remaining(&mut admin, &dn).unwrap();
    assert!((86_000..=86_400).contains(&first), "{first}");
    let found = admin.search(&dn, Scope::BaseObject, "(objectClass=*)", &["*"]).unwrap();
    assert!(found.entries[0].text("entryTtl").is_none(), "it is operational");
    let refresh = |admin: &mut Connection, entry: &str, ttl_seconds| {
        let value = RefreshRequest { entry, ttl_seconds }.encode();
        admin.extended(oids::REFRESH, Some(&value)).unwrap()
    };
    let reply = refresh(&mut admin, &dn, 5_000);
    assert_eq!(reply.extended.value.as_deref(), Some(&b"\x30\x04\x81\x02\x13\x88"[..]), "{reply:?}");
    assert_eq!(reply.extended.name.as_deref(), Some(oids::REFRESH), "RFC 2589 section 4.2");
    assert!(remaining(&mut admin, &dn).unwrap() <= 5_000);
    let reply = refresh(&mut admin, SUFFIX, 5_000);
    assert_eq!(reply.outcome.code, ResultCode::OBJECT_CLASS_VIOLATION);
    assert_eq!(reply.extended.value.as_deref(), Some(&b"\x30\x03\x81\x01\x00"[..]), "{reply:?}");
    test_support::tree::add(&mut admin, &other, &device);
    assert!(refresh(&mut admin, &other, 1).outcome.is_success());
    drop(pando);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    until("the end of the entry", || admin.entry(&other, &["1.1"]).unwrap().is_none().then_some(()));
    assert!(remaining(&mut admin, &dn).is_some());
}
