//! Tests of the rules for links, one test per rule.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use directory::settings::GeneralSettings;
use ldap::{ChangeOperation, ResultCode, Scope};
use testing::TestDirectory;

const GROUP: &str = "cn=group,dc=example,dc=com";

fn directory() -> TestDirectory {
    TestDirectory::with_suffix_entry()
}

fn add_person(directory: &mut TestDirectory, rdn: &str, parent: &str) {
    let dn = format!("{rdn},{parent}");
    let outcome = directory.add(&dn, &[("objectClass", &["person"]), ("sn", &["s"])]);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{dn}: {}", outcome.diagnostic);
}

fn add_unit(directory: &mut TestDirectory, name: &str) {
    let dn = format!("ou={name},dc=example,dc=com");
    assert_eq!(directory.add(&dn, &[("objectClass", &["organizationalUnit"])]).code, ResultCode::SUCCESS);
}

fn add_group(directory: &mut TestDirectory, members: &[&str]) {
    let outcome = directory.add(GROUP, &[("objectClass", &["groupOfNames"]), ("member", members)]);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
}

fn members(directory: &mut TestDirectory) -> Vec<String> {
    directory.read(GROUP).unwrap().texts("member")
}

fn assert_sound(directory: &TestDirectory) {
    assert_eq!(directory::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

/// Counts the groups found by `(member=dn)`.
fn groups_of(directory: &mut TestDirectory, dn: &str) -> usize {
    let filter = format!("(member={dn})");
    directory.search("dc=example,dc=com", Scope::WholeSubtree, &filter, &["1.1"]).entries.len()
}

#[test]
fn a_link_is_returned_as_its_targets_current_name() {
    let mut directory = directory();
    add_person(&mut directory, "cn=a", "dc=example,dc=com");
    add_group(&mut directory, &["CN=A, DC=Example,DC=com"]);
    assert_eq!(members(&mut directory), ["cn=a,dc=example,dc=com"]);
    assert_eq!(directory.modify_dn("cn=a,dc=example,dc=com", "cn=b", true, None).code, ResultCode::SUCCESS);
    assert_eq!(members(&mut directory), ["cn=b,dc=example,dc=com"]);
    assert_eq!(groups_of(&mut directory, "cn=b,dc=example,dc=com"), 1);
    assert_eq!(groups_of(&mut directory, "cn=a,dc=example,dc=com"), 0);
    assert_sound(&directory);
}

#[test]
fn a_link_follows_the_move_of_a_superior() {
    let mut directory = directory();
    add_unit(&mut directory, "old");
    add_unit(&mut directory, "new");
    add_person(&mut directory, "cn=a", "ou=old,dc=example,dc=com");
    add_group(&mut directory, &["cn=a,ou=old,dc=example,dc=com"]);
    let outcome =
        directory.modify_dn("ou=old,dc=example,dc=com", "ou=moved", true, Some("ou=new,dc=example,dc=com"));
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    assert_eq!(members(&mut directory), ["cn=a,ou=moved,ou=new,dc=example,dc=com"]);
    assert_sound(&directory);
}

#[test]
fn the_optional_uid_of_unique_member_stays_as_text() {
    let mut directory = directory();
    add_person(&mut directory, "cn=a", "dc=example,dc=com");
    let value = "cn=A,dc=example,dc=com#'0101'B";
    let attributes: &[(&str, &[&str])] =
        &[("objectClass", &["groupOfUniqueNames"]), ("uniqueMember", &[value, "cn=a,dc=example,dc=com"])];
    let outcome = directory.add(GROUP, attributes);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    assert_eq!(directory.modify_dn("cn=a,dc=example,dc=com", "cn=b", true, None).code, ResultCode::SUCCESS);
    let values = directory.read(GROUP).unwrap().texts("uniqueMember");
    assert_eq!(values, ["cn=b,dc=example,dc=com", value]);
    assert_sound(&directory);
}

#[test]
fn a_name_without_an_entry_stays_text_and_becomes_a_link_by_add() {
    let mut directory = directory();
    let text = "CN=Later,  dc=example,dc=com";
    add_group(&mut directory, &[text]);
    assert_eq!(members(&mut directory), ["CN=Later,dc=example,dc=com"], "RFC 4514 has no spaces there");
    assert_eq!(groups_of(&mut directory, "cn=later,dc=example,dc=com"), 1);
    add_person(&mut directory, "cn=later", "dc=example,dc=com");
    assert_eq!(members(&mut directory), ["cn=later,dc=example,dc=com"]);
    assert_eq!(groups_of(&mut directory, "cn=later,dc=example,dc=com"), 1);
    let person = directory.read("cn=later,dc=example,dc=com").unwrap();
    assert_eq!(person.texts("memberOf"), [GROUP]);
    assert_sound(&directory);
}

#[test]
fn text_becomes_a_link_by_rename_and_by_subtree_move() {
    let mut directory = directory();
    add_unit(&mut directory, "x");
    add_person(&mut directory, "cn=a", "ou=x,dc=example,dc=com");
    add_group(&mut directory, &["cn=b,ou=x,dc=example,dc=com", "cn=b,ou=y,dc=example,dc=com"]);
    assert_eq!(
        directory.modify_dn("cn=a,ou=x,dc=example,dc=com", "cn=b", true, None).code,
        ResultCode::SUCCESS
    );
    assert_eq!(directory.read("cn=b,ou=x,dc=example,dc=com").unwrap().texts("memberOf"), [GROUP]);
    assert_eq!(directory.modify_dn("ou=x,dc=example,dc=com", "ou=y", true, None).code, ResultCode::SUCCESS);
    // Both values now name the same entry, so they have become one link.
    assert_eq!(members(&mut directory), ["cn=b,ou=y,dc=example,dc=com"]);
    assert_sound(&directory);
}

#[test]
fn without_integrity_deleting_the_target_turns_links_back_into_text() {
    let settings = GeneralSettings { integrity_attributes: Vec::new(), ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    directory.add(testing::SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    add_person(&mut directory, "cn=a", "dc=example,dc=com");
    add_group(&mut directory, &["cn=a,dc=example,dc=com"]);
    assert_eq!(directory.delete("cn=a,dc=example,dc=com").code, ResultCode::SUCCESS);
    assert_eq!(members(&mut directory), ["cn=a,dc=example,dc=com"]);
    assert_sound(&directory);
    add_person(&mut directory, "cn=a", "dc=example,dc=com");
    assert_eq!(directory.read("cn=a,dc=example,dc=com").unwrap().texts("memberOf"), [GROUP]);
    assert_sound(&directory);
}

#[test]
fn integrity_removes_links_or_leaves_the_empty_dn_as_last_value() {
    let settings =
        GeneralSettings { integrity_attributes: vec!["member".to_owned()], ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    directory.add(testing::SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    add_person(&mut directory, "cn=a", "dc=example,dc=com");
    add_person(&mut directory, "cn=b", "dc=example,dc=com");
    add_group(&mut directory, &["cn=a,dc=example,dc=com", "cn=b,dc=example,dc=com"]);
    let see_also: &[&str] = &["cn=a,dc=example,dc=com"];
    directory.modify("cn=b,dc=example,dc=com", &[(ChangeOperation::Add, "seeAlso", see_also)]);
    assert_eq!(directory.delete("cn=a,dc=example,dc=com").code, ResultCode::SUCCESS);
    assert_eq!(members(&mut directory), ["cn=b,dc=example,dc=com"]);
    // The setting for referential integrity covers only some attributes, and not seeAlso.
    assert_eq!(directory.read("cn=b,dc=example,dc=com").unwrap().texts("seeAlso"), see_also);
    assert_eq!(directory.delete("cn=b,dc=example,dc=com").code, ResultCode::SUCCESS);
    assert_eq!(members(&mut directory), [""]);
    assert_eq!(groups_of(&mut directory, "cn=b,dc=example,dc=com"), 0);
    assert_sound(&directory);
}

#[test]
fn equality_compare_and_delete_value_treat_both_forms_alike() {
    let mut directory = directory();
    add_person(&mut directory, "cn=a", "dc=example,dc=com");
    add_group(&mut directory, &["cn=a,dc=example,dc=com", "cn=missing,dc=example,dc=com"]);
    for spelling in ["CN=A,dc=example,dc=com", "cn=MISSING, dc=example, dc=com"] {
        assert_eq!(groups_of(&mut directory, spelling), 1, "{spelling}");
        let again = directory.modify(GROUP, &[(ChangeOperation::Add, "member", &[spelling])]);
        assert_eq!(again.code, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, "{spelling}");
    }
    let keep: &[&str] = &["cn=c,dc=example,dc=com"];
    directory.modify(GROUP, &[(ChangeOperation::Add, "member", keep)]);
    for spelling in ["CN=A,dc=example,dc=com", "cn=MISSING, dc=example, dc=com"] {
        let outcome = directory.modify(GROUP, &[(ChangeOperation::Delete, "member", &[spelling])]);
        assert_eq!(outcome.code, ResultCode::SUCCESS, "{spelling}: {}", outcome.diagnostic);
    }
    assert_eq!(members(&mut directory), keep);
    assert_sound(&directory);
}

#[test]
fn member_of_is_derived_from_links_and_usable_in_filters() {
    let mut directory = directory();
    add_person(&mut directory, "cn=a", "dc=example,dc=com");
    add_person(&mut directory, "cn=b", "dc=example,dc=com");
    add_group(&mut directory, &["cn=a,dc=example,dc=com"]);
    for name in ["memberOf", "isMemberOf"] {
        let filter = format!("({name}={GROUP})");
        let found = directory.search("dc=example,dc=com", Scope::WholeSubtree, &filter, &[name]);
        assert_eq!(found.dns(), ["cn=a,dc=example,dc=com"]);
        assert_eq!(found.entries[0].texts(name), [GROUP]);
    }
    // memberOf is computed and cannot be written.
    let outcome = directory.modify("cn=b,dc=example,dc=com", &[(ChangeOperation::Add, "memberOf", &[GROUP])]);
    assert_eq!(outcome.code, ResultCode::CONSTRAINT_VIOLATION);
}

#[test]
fn creators_name_and_modifiers_name_are_names_not_links() {
    let mut directory = directory();
    add_person(&mut directory, "cn=a", "dc=example,dc=com");
    let entry = directory.read("cn=a,dc=example,dc=com").unwrap();
    assert_eq!(entry.texts("creatorsName"), ["cn=admin"]);
    assert_eq!(entry.texts("modifiersName"), ["cn=admin"]);
}
