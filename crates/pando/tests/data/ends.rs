//! Memberships that end at a given time: by the server's clock, over LDAP with common clients, and through export and
//! import.

use client::Connection;
use test_support::clients::{ldap_utility, python_script, unboundid_tool};
use test_support::cluster::until;
use test_support::interrupted::must;
use test_support::tree::{person_dn, plant};
use test_support::{Pando, SUFFIX, Scratch};

fn texts(admin: &mut Connection, dn: &str, attribute: &str) -> Vec<String> {
    let mut texts = admin.entry(dn, &[attribute]).unwrap().unwrap().texts(attribute);
    texts.sort();
    texts
}

/// Returns LDIF with a group that has one membership whose end has passed, and one whose end is far in the future.
fn data(group: &str) -> String {
    let person = |uid: &str| format!("dn: {}\nobjectClass: account\n\n", person_dn(uid));
    format!(
        "dn: {SUFFIX}\nobjectClass: domain\n\ndn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\n\n{}{}\
         dn: {group}\nobjectClass: groupOfNames\nmember;x-until-20200101000000Z: {}\n\
         member;x-until-20970101000000Z: {}\n\n",
        person("past"),
        person("later"),
        person_dn("past"),
        person_dn("later"),
    )
}

#[test]
fn memberships_end_and_keep_their_ends_through_export_and_import() {
    let scratch = Scratch::new("ends");
    let group = format!("cn=interns,{SUFFIX}");
    let text = scratch.write("group.ldif", data(&group));
    must(&["import", text.to_str().unwrap()], &Pando::data(&scratch));
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    until("the end of the membership", || {
        (texts(&mut admin, &group, "member") == [person_dn("later")]).then_some(())
    });
    assert!(texts(&mut admin, &person_dn("past"), "memberOf").is_empty());
    let ends = texts(&mut admin, &group, "valueEnd");
    assert_eq!(ends, [format!("20970101000000Z member {}", person_dn("later"))]);
    assert_eq!(texts(&mut admin, &group, "modifiersName"), ["cn=ended values,cn=config"]);
    drop(admin);
    pando.stop();

    let exported = must(&["export"], &Pando::data(&scratch)).stdout;
    let line = format!("member;x-until-20970101000000Z: {}", person_dn("later"));
    assert!(exported.lines().any(|known| known == line), "{exported}");
    let other = Scratch::new("ends-imported");
    let text = other.write("exported.ldif", exported.clone());
    must(&["import", text.to_str().unwrap()], &Pando::data(&other));
    must(&["verify"], &Pando::data(&other));
    let again = must(&["export"], &Pando::data(&other)).stdout;
    let entries = |text: &str| text.split_once("\n\n").map(|(_, entries)| entries.to_owned());
    assert_eq!(entries(&again), entries(&exported));
}

#[test]
fn clients_set_and_read_ends_of_memberships() {
    let scratch = Scratch::new("ends-clients");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let (server, group, anna) = (pando.address(), format!("cn=interns,{SUFFIX}"), person_dn("anna"));
    let add = format!(
        "dn: {group}\nchangetype: add\nobjectClass: groupOfNames\nmember: {SUFFIX}\n\
         member;x-until-20970101000000Z: {anna}\n\n"
    );
    ldap_utility("ldapmodify", server, &[], &add).expect_code(0);
    let found = ldap_utility("ldapsearch", server, &["-b", &group, "-s", "base", "member", "valueEnd"], "");
    found.expect_code(0).expect_output(&format!("valueEnd: 20970101000000Z member {anna}\n"));
    let change = scratch.write(
        "extend.ldif",
        format!(
            "dn: {group}\nchangetype: modify\nadd: member;x-until-20980101000000Z\n\
             member;x-until-20980101000000Z: {anna}\n-\n\n"
        ),
    );
    unboundid_tool("unboundidds.tools.LDAPModify", server, &["--ldifFile", change.to_str().unwrap()], "")
        .expect_code(0);
    assert_eq!(texts(&mut admin, &anna, "membershipEnd"), [format!("20980101000000Z member {group}")]);
    python_script("with_value_ends.py", server, &[&group, &anna])
        .expect_code(0)
        .expect_output("ends are as given");
    assert!(texts(&mut admin, &group, "valueEnd").is_empty());
    assert_eq!(texts(&mut admin, &group, "member").len(), 2);
}
