//! Tests of the monitor entries.

use std::sync::Arc;

use ldap::{ResultCode, Scope};

use super::{Question, leaves};
use crate::model::virtual_entries::{MonitorSource, VirtualEntry};
use crate::testing::{SUFFIX, TestDirectory};

struct Sample;

impl MonitorSource for Sample {
    fn entries(&self) -> Vec<VirtualEntry> {
        let entry = |dn: &str, cn: &str| VirtualEntry::new(dn).with("objectClass", ["top"]).with("cn", [cn]);
        vec![
            entry("cn=monitor", "monitor"),
            entry("cn=operations,cn=monitor", "operations"),
            entry("cn=search,cn=operations,cn=monitor", "search").with("operationCount", ["17"]),
            entry("cn=memory,cn=monitor", "memory"),
        ]
    }
}

fn directory() -> TestDirectory {
    TestDirectory::with_monitor(Arc::new(Sample))
}

#[test]
fn the_monitor_is_a_tree_of_its_own() {
    let directory = directory();
    let check = |base, scope, filter, expected: &[&str]| {
        let found = Question::new(base, scope, filter).run(&directory);
        assert_eq!(leaves(&found), expected, "{base} {scope:?} {filter}");
    };
    check("cn=Monitor", Scope::BaseObject, "(objectClass=*)", &["cn=monitor"]);
    check("cn=monitor", Scope::SingleLevel, "(objectClass=*)", &["cn=memory", "cn=operations"]);
    check("cn=monitor", Scope::Subordinate, "(cn=*e*)", &["cn=memory", "cn=operations", "cn=search"]);
    check("cn=operations,cn=monitor", Scope::WholeSubtree, "(&)", &["cn=operations", "cn=search"]);
    check("cn=monitor", Scope::WholeSubtree, "(entryDN=cn=memory,cn=monitor)", &["cn=memory"]);
    check("", Scope::WholeSubtree, "(cn=memory)", &[]);
    let found = Question::new("cn=nothing,cn=monitor", Scope::BaseObject, "(&)").run(&directory);
    assert_eq!((found.code, found.matched_dn.as_str()), (ResultCode::NO_SUCH_OBJECT, "cn=monitor"));
    let found =
        Question { size_limit: 2, ..Question::new("cn=monitor", Scope::WholeSubtree, "(&)") }.run(&directory);
    assert_eq!((found.code, found.entries.len()), (ResultCode::SIZE_LIMIT_EXCEEDED, 2));
}

#[test]
fn attributes_unknown_to_the_schema_are_returned() {
    let directory = directory();
    for attributes in [&["OPERATIONCOUNT"][..], &["*"], &[]] {
        let question = Question::new("cn=search,cn=operations,cn=monitor", Scope::BaseObject, "(&)");
        let found = question.attributes(attributes).run(&directory);
        assert_eq!(found.entries[0].texts("operationCount"), ["17"], "{attributes:?}");
    }
}

/// Regression test: every user could read what other clients were doing.
#[test]
fn only_the_administrator_and_configured_readers_read_the_monitor() {
    let mut directory = directory();
    assert_eq!(
        directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]).code,
        ResultCode::SUCCESS
    );
    let user = crate::access::Requester::User { id: crate::model::rows::EntryId(1), dn: SUFFIX.to_owned() };
    let administrator = directory.requester.clone();
    let run = |directory: &TestDirectory, base| Question::new(base, Scope::BaseObject, "(&)").run(directory);
    assert_eq!(run(&directory, "cn=monitor").entries.len(), 1);
    for requester in [user.clone(), crate::access::Requester::Anonymous] {
        directory.requester = requester;
        let found = run(&directory, "cn=monitor");
        assert_eq!((found.code, found.entries.len()), (ResultCode::INSUFFICIENT_ACCESS_RIGHTS, 0));
        let unknown = run(&directory, "cn=nothing,cn=monitor");
        assert_eq!(
            (unknown.code, unknown.matched_dn),
            (found.code, found.matched_dn),
            "names are not revealed"
        );
        let request = ldap::CompareRequest { entry: "cn=monitor", description: "cn", value: b"monitor" };
        let controls = crate::read::controls::RequestControls::default();
        match crate::read::compare::compare(
            &directory.snapshot,
            &directory.requester.context(),
            &request,
            &controls,
        ) {
            crate::read::compare::CompareOutcome::Done(outcome) => assert_eq!(outcome.code, found.code),
            other => panic!("{other:?}"),
        }
    }
    directory.requester = administrator;
    let names: &[(ldap::ChangeOperation, &str, &[&str])] =
        &[(ldap::ChangeOperation::Add, "pandoMonitorReader", &["DC=Example, dc=com"])];
    assert_eq!(directory.modify("cn=config", names).code, ResultCode::SUCCESS);
    directory.requester = user;
    assert_eq!(run(&directory, "cn=monitor").entries.len(), 1);
}
