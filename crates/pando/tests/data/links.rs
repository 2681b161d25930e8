//! Values that become links while the server runs, over LDAP.

use std::fmt::Write as _;

use client::Connection;
use ldap::{ChangeOperation, ResultCode, Scope};
use test_support::cluster::until;
use test_support::pando::command;
use test_support::{Pando, SUFFIX, Scratch};

/// Number of entries with a value. One record cannot convert all of them.
const COUNT: usize = 6_000;

fn definition(extension: &str) -> String {
    format!(
        "( 1.3.6.1.4.1.32473.1 NAME 'boss' EQUALITY distinguishedNameMatch SYNTAX \
         1.3.6.1.4.1.1466.115.121.1.12 {extension})"
    )
}

fn name(number: usize) -> String {
    format!("cn=e{number},{SUFFIX}")
}

/// Fills a directory. The boss of the first ten entries is entry 0, and the boss of the others is an entry that does
/// not exist.
fn fill(scratch: &Scratch) {
    let mut text = format!("dn: {SUFFIX}\nobjectClass: domain\ndc: example\n");
    for number in 0..COUNT {
        let boss = if number < 10 { name(0) } else { format!("cn=none,{SUFFIX}") };
        let classes = "objectClass: device\nobjectClass: extensibleObject";
        write!(text, "\ndn: {}\n{classes}\ncn: e{number}\nboss: {boss}\n", name(number)).unwrap();
    }
    let ldif = scratch.write("entries.ldif", text);
    let settings = format!(
        "suffixes = [\"{SUFFIX}\"]\n[schema]\nown = \"\"\"\nattributetype {}\n\"\"\"\n",
        definition("")
    );
    let settings = scratch.write("settings.toml", settings);
    let arguments = ["import", "--settings", settings.to_str().unwrap(), ldif.to_str().unwrap()];
    command(&arguments, Some(&Pando::data(scratch))).expect_code(0);
}

fn led(admin: &mut Connection, boss: &str) -> Vec<String> {
    let found = admin.search(SUFFIX, Scope::WholeSubtree, &format!("(boss={boss})"), &["1.1"]).unwrap();
    let mut names: Vec<String> = found.entries.into_iter().map(|entry| entry.dn).collect();
    names.sort();
    names
}

fn of_monitor(admin: &mut Connection, figure: &str) -> Option<String> {
    let dn = format!("cn={figure},cn=Links,cn=monitor");
    let entry = admin.entry(&dn, &["monitoredInfo", "monitorCounter"]).unwrap()?;
    entry.text("monitoredInfo").or_else(|| entry.text("monitorCounter"))
}

#[test]
fn values_become_links_across_a_kill() {
    let scratch = Scratch::new("links");
    fill(&scratch);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    let before = led(&mut admin, &name(0));
    assert_eq!(before.len(), 10);
    let (old, new) = (definition(""), definition("X-LINK 'TRUE' "));
    let changes: &[(ChangeOperation, &str, &[&str])] = &[
        (ChangeOperation::Delete, "attributeTypes", &[&old]),
        (ChangeOperation::Add, "attributeTypes", &[&new]),
    ];
    let outcome = admin.modify("cn=subschema", changes).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    assert_eq!(led(&mut admin, &name(0)), before);
    until("a record has converted some values", || {
        of_monitor(&mut admin, "Progress")
            .is_some_and(|text| text.starts_with("5000 values have become links, 4990 of them"))
            .then_some(())
            .or_else(|| (of_monitor(&mut admin, "Pending")? == "0").then_some(()))
    });
    until("the log has the progress", || pando.log().contains("X-LINK: ").then_some(()));
    pando.kill();
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    assert_eq!(led(&mut admin, &name(0)), before);
    until("no plain values are left", || (of_monitor(&mut admin, "Pending")? == "0").then_some(()));
    assert_eq!(led(&mut admin, &name(0)), before);
    let outcome = admin.modify_dn(&name(0), "cn=first", None).unwrap();
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{outcome:?}");
    let first = format!("cn=first,{SUFFIX}");
    assert_eq!(led(&mut admin, &first).len(), 10);
    let chain = format!("(boss:1.2.840.113556.1.4.1941:={first})");
    assert_eq!(admin.search(SUFFIX, Scope::WholeSubtree, &chain, &["1.1"]).unwrap().entries.len(), 10);
    // Adds the entry that the others name as their boss.
    let none = format!("cn=none,{SUFFIX}");
    test_support::tree::add(&mut admin, &none, &[("objectClass", "device")]);
    test_support::tree::replace(&mut admin, &none, "description", &["here"]);
    assert_eq!(led(&mut admin, &none).len(), COUNT - 10);
    let published = admin.entry("cn=subschema", &["attributeTypes"]).unwrap().unwrap();
    assert!(published.texts("attributeTypes").iter().any(|text| text.contains("X-LINK 'TRUE'")));
    // Entries have values, so the extension cannot be removed from the definition.
    let changes: &[(ChangeOperation, &str, &[&str])] = &[
        (ChangeOperation::Delete, "attributeTypes", &[&new]),
        (ChangeOperation::Add, "attributeTypes", &[&old]),
    ];
    let refused = admin.modify("cn=subschema", changes).unwrap();
    assert!(refused.diagnostic.contains("boss is used by 6,000 entries"), "{refused:?}");
    assert!(pando.stop().success());
    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
    // An export and an import keep the links.
    let exported = command(&["export"], Some(&Pando::data(&scratch))).expect_code(0).stdout;
    assert!(exported.contains(&format!("boss: {first}")), "{exported}");
}
