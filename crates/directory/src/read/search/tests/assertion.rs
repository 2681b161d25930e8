//! Tests of the assertion control (RFC 4528): a request is carried out only if an assertion is true.

use ldap::ChangeOperation::{Add, Replace};
use ldap::{
    AddRequest, AttributesBuf, ChangesBuf, CompareRequest, DeleteRequest, FilterBuf, ModifyDnRequest,
    ModifyRequest, Request, ResultCode, Scope,
};

use super::{Question, sample};
use crate::read::compare::{CompareOutcome, compare};
use crate::read::controls::{RareControls, RequestControls};
use crate::testing::{SUFFIX, TestDirectory};

const ADA: &str = "uid=ada,ou=people,dc=example,dc=com";
const BOB: &str = "uid=bob,ou=people,dc=example,dc=com";

fn with_assertion(filter: &str) -> RequestControls {
    let assertion = Some(FilterBuf::parse(filter).unwrap());
    let seldom = Some(Box::new(RareControls { assertion, ..RareControls::default() }));
    RequestControls { seldom, ..RequestControls::default() }
}

fn run(directory: &mut TestDirectory, request: &Request<'_>, filter: &str) -> ResultCode {
    let stamp = directory.stamp();
    let outcome = directory.execute_with(request, &with_assertion(filter), &stamp);
    assert_eq!(outcome.code == ResultCode::ASSERTION_FAILED, outcome.diagnostic.contains("RFC 4528"));
    outcome.code
}

#[test]
fn a_change_applies_if_the_assertion_is_true_of_the_entry() {
    let mut directory = sample();
    let mut changes = ChangesBuf::new();
    changes.push(Replace, "employeeNumber", ["8"]);
    let modify = Request::Modify(ModifyRequest { object: ADA, changes: changes.as_changes() });
    for filter in [
        "(employeeNumber=9)",
        "(!(employeeNumber=7))",
        "(nonsense=1)",
        "(!(nonsense=1))",
        "(objectClass=device)",
        "(memberOf=cn=odd,ou=groups,dc=example,dc=com)",
        "(|)",
    ] {
        assert_eq!(run(&mut directory, &modify, filter), ResultCode::ASSERTION_FAILED, "{filter}");
        assert_eq!(directory.read(ADA).unwrap().texts("employeeNumber"), ["7"]);
    }
    // The change sets a value that makes its own assertion false, so the same change fails the second time.
    assert_eq!(run(&mut directory, &modify, "(&(employeeNumber=7)(sn=love*))"), ResultCode::SUCCESS);
    assert_eq!(run(&mut directory, &modify, "(employeeNumber=7)"), ResultCode::ASSERTION_FAILED);
    let in_group = "(memberOf=cn=few,ou=groups,dc=example,dc=com)";
    assert_eq!(run(&mut directory, &modify, in_group), ResultCode::SUCCESS);
    assert_eq!(directory.read(ADA).unwrap().texts("employeeNumber"), ["8"]);
    // A request that is refused without the assertion is refused in the same way with the assertion.
    let mut broken = ChangesBuf::new();
    broken.push(Add, "uidNumber", ["1"]);
    let broken = Request::Modify(ModifyRequest { object: ADA, changes: broken.as_changes() });
    assert_eq!(run(&mut directory, &broken, "(uid=ada)"), ResultCode::OBJECT_CLASS_VIOLATION);

    let rename = |new_rdn| {
        Request::ModifyDn(ModifyDnRequest { entry: BOB, new_rdn, delete_old_rdn: true, new_superior: None })
    };
    assert_eq!(run(&mut directory, &rename("uid=b"), "(uid=ada)"), ResultCode::ASSERTION_FAILED);
    assert_eq!(run(&mut directory, &rename("uid=b"), "(uidNumber>=1000)"), ResultCode::SUCCESS);
    let renamed = "uid=b,ou=people,dc=example,dc=com";
    let delete = Request::Delete(DeleteRequest { entry: renamed });
    assert_eq!(run(&mut directory, &delete, "(uid=bob)"), ResultCode::ASSERTION_FAILED);
    assert_eq!(run(&mut directory, &delete, "(uid=b)"), ResultCode::SUCCESS);
    assert_eq!(run(&mut directory, &delete, "(uid=b)"), ResultCode::NO_SUCH_OBJECT);
    // Settings are not entries of the tree, so no assertion is true of them.
    let mut rule = ChangesBuf::new();
    rule.push(Replace, "pandoAccessRule", ["all: allow read to anyone"]);
    let rule = Request::Modify(ModifyRequest { object: "cn=config", changes: rule.as_changes() });
    assert_eq!(run(&mut directory, &rule, "(objectClass=*)"), ResultCode::ASSERTION_FAILED);
    // For an add, the assertion is tested on the entry to be added, including the values of its RDN.
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["inetOrgPerson"]);
    attributes.push("cn", ["B"]);
    attributes.push("sn", ["Last"]);
    let add = Request::Add(AddRequest { entry: renamed, attributes: attributes.as_attributes() });
    assert_eq!(run(&mut directory, &add, "(sn=first)"), ResultCode::ASSERTION_FAILED);
    assert!(directory.read(renamed).is_none());
    let given = "(&(sn=last)(uid=b)(objectClass=person)(!(entryUUID=*)))";
    assert_eq!(run(&mut directory, &add, given), ResultCode::SUCCESS);
    assert_eq!(run(&mut directory, &add, given), ResultCode::ENTRY_ALREADY_EXISTS);
}

#[test]
fn searches_test_the_assertion_on_the_base_and_compares_on_the_entry() {
    let directory = sample();
    let people = "ou=people,dc=example,dc=com";
    let search = |base, filter: &str| {
        let controls = with_assertion(filter);
        Question { controls, ..Question::new(base, Scope::WholeSubtree, "(uid=ada)") }.run(&directory)
    };
    assert_eq!(search(people, "(ou=people)").dns(), [ADA]);
    for (base, filter) in [(people, "(uid=ada)"), (SUFFIX, "(ou=people)"), ("", "(objectClass=*)")] {
        let found = search(base, filter);
        assert_eq!((found.code, found.entries.len()), (ResultCode::ASSERTION_FAILED, 0), "{base} {filter}");
    }
    let root = |filter: &str| {
        let controls = with_assertion(filter);
        Question { controls, ..Question::new("", Scope::BaseObject, "(objectClass=*)") }.run(&directory)
    };
    assert_eq!(root("(namingContexts=*)").entries.len(), 1);
    assert_eq!(root("(uid=*)").code, ResultCode::ASSERTION_FAILED);
    let compared = |entry, filter: &str| {
        let request = CompareRequest { entry, description: "sn", value: b"lovelace" };
        match compare(&directory.snapshot, &directory.requester.context(), &request, &with_assertion(filter))
        {
            CompareOutcome::Done(outcome) => outcome.code,
            CompareOutcome::Verify { .. } => panic!("a verification"),
        }
    };
    assert_eq!(compared(ADA, "(uid=ada)"), ResultCode::COMPARE_TRUE);
    assert_eq!(compared(ADA, "(uid=bob)"), ResultCode::ASSERTION_FAILED);
}

#[test]
fn an_assertion_reveals_nothing_that_a_filter_does_not() {
    let mut directory = sample();
    directory.change_settings(|settings| {
        settings.general.access_rules = vec![
            "all: allow read of uid, sn to authenticated".to_owned(),
            "descriptions: allow write of description to authenticated".to_owned(),
            "groups: allow browse to authenticated".to_owned(),
        ];
    });
    let requester = crate::read::identity::identify(&directory.snapshot, &format!("dn:{BOB}"));
    directory.requester = requester.unwrap().unwrap().requester;
    let mut changes = ChangesBuf::new();
    changes.push(Add, "description", ["new"]);
    let modify = Request::Modify(ModifyRequest { object: ADA, changes: changes.as_changes() });
    for filter in [
        "(employeeNumber=7)",
        "(!(employeeNumber=9))",
        "(cn=ada*)",
        "(memberOf=cn=few,ou=groups,dc=example,dc=com)",
        "(!(memberOf=cn=none,ou=groups,dc=example,dc=com))",
        "(userPassword={SSHA}AAAA)",
    ] {
        assert_eq!(run(&mut directory, &modify, filter), ResultCode::ASSERTION_FAILED, "{filter}");
    }
    assert_eq!(run(&mut directory, &modify, "(&(uid=ada)(sn=lovelace))"), ResultCode::SUCCESS);
}
