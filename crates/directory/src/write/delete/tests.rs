//! What delete takes away, and each refusal.

use ldap::{DeleteRequest, Request, ResultCode as Code};

use crate::access::Requester;
use crate::model::outcome::Outcome;
use crate::model::settings::GeneralSettings;
use crate::read::controls::RequestControls;
use crate::testing::{SUFFIX, TestDirectory};

fn ok(outcome: Outcome) {
    assert_eq!(outcome, Outcome::success());
}

fn check(outcome: &Outcome, code: Code, matched_dn: &str, text: &str) {
    assert_eq!((outcome.code, outcome.matched_dn.as_str()), (code, matched_dn), "{}", outcome.diagnostic);
    assert!(outcome.diagnostic.contains(text), "{:?} does not say {text:?}", outcome.diagnostic);
}

#[test]
fn only_leaves_go_and_a_suffix_entry_can_come_back() {
    let mut directory = TestDirectory::with_suffix_entry();
    ok(directory.add("ou=a,dc=example,dc=com", &[("objectClass", &["organizationalUnit"])]));
    check(&directory.delete(SUFFIX), Code::NOT_ALLOWED_ON_NON_LEAF, "", "has 1 entry directly below it");
    ok(directory.delete("OU=A,dc=example,dc=com"));
    check(&directory.delete("ou=a,dc=example,dc=com"), Code::NO_SUCH_OBJECT, SUFFIX, "does not exist");
    ok(directory.delete(SUFFIX));
    check(&directory.delete(SUFFIX), Code::NO_SUCH_OBJECT, "", "has no entry yet");
    ok(directory.add(SUFFIX, &[("objectClass", &["domain"])]));
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn what_is_not_an_entry_here_is_refused() {
    let mut directory = TestDirectory::with_suffix_entry();
    let referral = [("objectClass", &["referral", "extensibleObject"][..]), ("ref", &["ldap://other/"])];
    ok(directory.add("cn=there,dc=example,dc=com", &referral));
    check(&directory.delete("cn"), Code::INVALID_DN_SYNTAX, "", "not a distinguished name");
    check(&directory.delete("dc=org"), Code::NO_SUCH_OBJECT, "", "no suffix of this server");
    check(&directory.delete(""), Code::UNWILLING_TO_PERFORM, "", "the root DSE");
    check(&directory.delete("cn=subschema"), Code::UNWILLING_TO_PERFORM, "", "subschema");
    let there = "cn=there,dc=example,dc=com";
    check(&directory.delete(there), Code::REFERRAL, there, "");
    let manage = RequestControls { manage_dsa_it: true, ..RequestControls::default() };
    let stamp = directory.stamp();
    ok(directory.execute_with(&Request::Delete(DeleteRequest { entry: there }), &manage, &stamp));
    directory.requester = Requester::Anonymous;
    check(&directory.delete(SUFFIX), Code::STRONGER_AUTH_REQUIRED, "", "bind first");
}

#[test]
fn an_alias_is_deleted_itself() {
    let mut directory = TestDirectory::with_suffix_entry();
    let alias = [("objectClass", &["alias", "extensibleObject"][..]), ("aliasedObjectName", &[SUFFIX])];
    ok(directory.add("cn=alias,dc=example,dc=com", &alias));
    ok(directory.delete("cn=alias,dc=example,dc=com"));
    assert!(directory.read(SUFFIX).is_some());
}

#[test]
fn links_to_the_entry_become_text_or_vanish() {
    let integrity_attributes = vec!["manager".to_owned()];
    let settings = GeneralSettings { integrity_attributes, ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    ok(directory.add(SUFFIX, &[("objectClass", &["domain"])]));
    let (boss, clerk) = ("cn=boss,dc=example,dc=com", "cn=clerk,dc=example,dc=com");
    let person = [("objectClass", &["inetOrgPerson"][..]), ("sn", &["x"])];
    ok(directory.add(boss, &person));
    let links =
        [("manager", &["CN=Boss,dc=example,dc=com"][..]), ("seeAlso", &["cn=BOSS,dc=example,dc=com"])];
    ok(directory.add(clerk, &[person, links].concat()));
    ok(directory.delete(boss));
    let entry = directory.read(clerk).unwrap();
    assert_eq!(entry.texts("seeAlso"), [boss]);
    assert_eq!(entry.texts("manager"), Vec::<String>::new());
}
