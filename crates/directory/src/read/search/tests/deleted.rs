//! Tests of the control "show deleted": which requesters receive deleted entries, and with which values.

use ldap::{ChangeOperation, DerefAliases, ResultCode, Scope};

use super::{Budget, Question, Step};
use crate::model::limits::TOMBSTONE_RESULT_MAX;
use crate::read::controls::{RareControls, RequestControls};
use crate::testing::{Found, SUFFIX, TestDirectory, deleted_uuid, ok};

const PEOPLE: &str = "ou=people,dc=example,dc=com";
const EVERYTHING: &[&str] = &["*", "+"];

fn show_deleted(is_critical: bool) -> RequestControls {
    let seldom = RareControls { shows_deleted: Some(is_critical), ..RareControls::default() };
    RequestControls { seldom: Some(Box::new(seldom)), ..RequestControls::default() }
}

fn search_with_deleted<'a>(base: &'a str, scope: Scope, filter: &'a str) -> Question<'a> {
    Question { controls: show_deleted(true), ..Question::new(base, scope, filter).attributes(EVERYTHING) }
}

/// Returns a directory that keeps deleted entries. It has ten people, and a group whose members are the first and the
/// last of these people. The first three people are deleted.
fn with_deleted_people() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 3_600);
    ok(directory.add(PEOPLE, &[("objectClass", &["organizationalUnit"])]));
    for number in 0..10 {
        let mail = format!("p{number}@example.com");
        let attributes = [("objectClass", &["inetOrgPerson"][..]), ("sn", &["x"]), ("mail", &[&mail])];
        ok(directory.add(&person(number), &attributes));
    }
    let (first, last) = (person(0), person(9));
    let team = [("objectClass", &["groupOfNames"][..]), ("member", &[&first, &last])];
    ok(directory.add(&format!("cn=team,{PEOPLE}"), &team));
    (0..3).for_each(|number| ok(directory.delete(&person(number))));
    directory
}

fn person(number: u32) -> String {
    format!("cn=p{number},{PEOPLE}")
}

/// Returns the DN that a deleted entry has in results.
fn deleted_name(directory: &TestDirectory, dn: &str, present: &str) -> String {
    let uuid = uuid::Uuid::from_bytes(deleted_uuid(directory.snapshot.state(), dn));
    format!("entryUUID={uuid},{present}")
}

fn sorted_dns(found: &Found) -> Vec<String> {
    let mut dns: Vec<String> = found.dns().into_iter().map(str::to_owned).collect();
    dns.sort();
    dns
}

#[test]
fn results_mix_live_and_deleted_entries() {
    let mut directory = with_deleted_people();
    let found = search_with_deleted(SUFFIX, Scope::WholeSubtree, "(objectClass=person)").run(&directory);
    assert_eq!(found.dns().len(), 10);
    let only = search_with_deleted(SUFFIX, Scope::WholeSubtree, "(isDeleted=TRUE)").run(&directory);
    let names: Vec<String> =
        (0..3).map(|number| deleted_name(&directory, &person(number), &person(number))).collect();
    assert_eq!(only.dns(), names);
    assert_eq!(only.entries[0].texts("lastKnownParent"), [PEOPLE]);
    assert_eq!(only.entries[0].texts("mail"), ["p0@example.com"]);
    assert_eq!(only.entries[0].texts("objectClass"), ["inetOrgPerson"]);
    let one = search_with_deleted(SUFFIX, Scope::WholeSubtree, "(&(isDeleted=TRUE)(mail=p1@example.com))")
        .run(&directory);
    assert_eq!(one.dns(), &names[1..2]);
    // All scopes are tested, also with the DN of a deleted entry as the base.
    for (base, scope, count) in [
        (SUFFIX, Scope::SingleLevel, 0),
        (PEOPLE, Scope::SingleLevel, 3),
        (PEOPLE, Scope::Subordinate, 3),
        (PEOPLE, Scope::BaseObject, 0),
        ("", Scope::WholeSubtree, 3),
        (&person(9), Scope::WholeSubtree, 0),
        (&names[2], Scope::BaseObject, 1),
        (&names[2], Scope::WholeSubtree, 1),
    ] {
        let found = search_with_deleted(base, scope, "(isDeleted=TRUE)").run(&directory);
        assert_eq!((found.code, found.dns().len()), (ResultCode::SUCCESS, count), "{base} {scope:?}");
    }
    // Without the control, no deleted entry is found.
    let plain = Question::everywhere("(|(isDeleted=*)(mail=p0@example.com))").run(&directory);
    assert!(plain.dns().is_empty());
    assert_eq!(Question::new(&names[0], Scope::BaseObject, "(cn=*)").run(&directory).code.0, 32);
    // The DN of a deleted entry follows a rename of the superior. After an entry is undeleted, the search no longer
    // finds a deleted entry for it.
    ok(directory.modify_dn(PEOPLE, "ou=staff", true, None));
    let moved =
        search_with_deleted(SUFFIX, Scope::WholeSubtree, "(&(isDeleted=TRUE)(cn=p0))").run(&directory);
    let now = deleted_name(&directory, &person(0), &format!("cn=p0,ou=staff,{SUFFIX}"));
    assert_eq!(moved.dns(), [now]);
    directory.undelete(&person(0), None).unwrap();
    let left = search_with_deleted(SUFFIX, Scope::WholeSubtree, "(isDeleted=TRUE)").run(&directory);
    assert_eq!(left.dns().len(), 2);
}

#[test]
fn values_that_name_entries_are_returned_by_name() {
    let mut directory = with_deleted_people();
    let team = format!("cn=team,{PEOPLE}");
    ok(directory.modify(&team, &[(ChangeOperation::Add, "member", &[&person(5)])]));
    ok(directory.delete_tree(PEOPLE));
    let found =
        search_with_deleted(SUFFIX, Scope::WholeSubtree, "(&(isDeleted=TRUE)(cn=team))").run(&directory);
    let mut members = found.entries[0].texts("member");
    members.sort();
    assert!(members.contains(&person(5)) && members.contains(&person(9)), "{members:?}");
    let by_member = format!("(member={})", person(9));
    assert_eq!(
        search_with_deleted(SUFFIX, Scope::WholeSubtree, &by_member).run(&directory).dns(),
        found.dns()
    );
    // Links are also resolved if only the filter or only the result needs them.
    let group = "(&(cn=team)(isDeleted=TRUE))";
    for (filter, attribute, count) in [(&by_member[..], "cn", 1), (group, "member", members.len())] {
        let one =
            search_with_deleted(SUFFIX, Scope::WholeSubtree, filter).attributes(&[attribute]).run(&directory);
        assert_eq!((one.dns(), one.entries[0].texts(attribute).len()), (found.dns(), count), "{filter}");
    }
    for filter in [format!("(!{by_member})"), format!("(&(cn=other){by_member})")] {
        let others = search_with_deleted(SUFFIX, Scope::WholeSubtree, &filter).run(&directory);
        assert!(!others.dns().contains(&found.dns()[0]), "{filter}");
    }
    // All entries that were below the deleted entry have its former DN as lastKnownParent.
    let below = search_with_deleted(SUFFIX, Scope::WholeSubtree, &format!("(lastKnownParent={PEOPLE})"))
        .run(&directory);
    assert_eq!(below.dns().len(), 11);
}

/// Regression test: the second search with the same spelling of a member's name found no deleted group, because a
/// filter with a cached name had no normal form.
#[test]
fn deleted_groups_are_found_by_each_kind_of_member() {
    let mut directory = with_deleted_people();
    let team = format!("cn=team,{PEOPLE}");
    // One member exists. Another member has no entry, so the group stores the name of that member as text.
    let text = format!("cn=nobody,{PEOPLE}");
    ok(directory.modify(&team, &[(ChangeOperation::Add, "member", &[&text])]));
    ok(directory.delete(&team));
    let spelled = format!("CN=P9, {PEOPLE}");
    for round in 0..3 {
        for (filter, count) in [
            (format!("(member={})", person(9)), 1),
            (format!("(member={spelled})"), 1),
            (format!("(member={text})"), 1),
            (format!("(member={})", person(8)), 0),
            (format!("(!(member={}))", person(9)), 0),
            (format!("(!(member={}))", person(8)), 1),
            (format!("(|(member={})(member={}))", person(8), person(9)), 1),
            (format!("(&(member={})(member=*))", person(9)), 1),
            ("(member=*)".to_owned(), 1),
        ] {
            let filter = format!("(&(isDeleted=TRUE)(cn=team){filter})");
            let found = search_with_deleted(SUFFIX, Scope::WholeSubtree, &filter).run(&directory);
            assert_eq!(found.dns().len(), count, "round {round}: {filter}");
        }
    }
}

#[test]
fn large_deleted_entries_are_returned_without_values() {
    let mut directory = with_deleted_people();
    let long = "x".repeat(TOMBSTONE_RESULT_MAX);
    ok(directory.modify(&person(4), &[(ChangeOperation::Replace, "description", &[&long])]));
    ok(directory.delete(&person(4)));
    let found = search_with_deleted(SUFFIX, Scope::WholeSubtree, "(isDeleted=TRUE)").run(&directory);
    let shown: Vec<usize> = found.entries.iter().map(|entry| entry.texts("mail").len()).collect();
    assert_eq!(shown, [1, 1, 1, 0]);
    assert_eq!(found.entries[3].texts("entryUUID").len(), 1);
}

#[test]
fn pages_continue_from_live_to_deleted_entries() {
    let mut directory = with_deleted_people();
    for size in 1..12 {
        let question = search_with_deleted(SUFFIX, Scope::WholeSubtree, "(objectClass=person)");
        let pages = question.pages(&mut directory, size, false);
        assert!(pages.iter().all(|page| page.found.code == ResultCode::SUCCESS));
        let dns: Vec<&str> = pages.iter().flat_map(|page| page.found.dns()).collect();
        assert_eq!(dns, question.run(&directory).dns(), "pages of {size}");
        // The cookie is valid only for the search with the control.
        if let Some(cookie) = pages.first().map(|page| &page.cookie).filter(|cookie| !cookie.is_empty()) {
            let plain = Question { controls: RequestControls::default(), ..question };
            assert_eq!(
                plain.page(&directory, size, cookie, false).found.code,
                ResultCode::UNWILLING_TO_PERFORM
            );
        }
    }
}

#[test]
fn limits_count_deleted_entries_and_sorting_is_refused() {
    let mut directory = with_deleted_people();
    let limited = Question {
        size_limit: 8,
        ..search_with_deleted(SUFFIX, Scope::WholeSubtree, "(objectClass=person)")
    };
    let found = limited.run(&directory);
    assert_eq!((found.code, found.dns().len()), (ResultCode::SIZE_LIMIT_EXCEEDED, 8));
    let mut question = search_with_deleted(SUFFIX, Scope::WholeSubtree, "(objectClass=person)");
    question.controls.seldom.as_mut().unwrap().sort =
        Some(crate::read::controls::SortOptions { is_critical: false, keys: Vec::new() });
    assert_eq!(question.run(&directory).code, ResultCode::UNWILLING_TO_PERFORM);
    // If deleted entries are not kept, the control is not available.
    directory.change_settings(|settings| settings.general.keep_deleted_seconds = 0);
    let mut question = search_with_deleted(SUFFIX, Scope::WholeSubtree, "(objectClass=person)");
    assert_eq!(question.run(&directory).code, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION);
    question.controls = show_deleted(false);
    assert_eq!(sorted_dns(&question.run(&directory)).len(), 7);
}

#[test]
fn an_alias_as_base_leads_to_the_deleted_entries_below_its_target() {
    let mut directory = with_deleted_people();
    let alias = format!("cn=alias,{SUFFIX}");
    let attributes = [("objectClass", &["alias", "extensibleObject"][..]), ("aliasedObjectName", &[PEOPLE])];
    ok(directory.add(&alias, &attributes));
    for (deref_aliases, count) in [(DerefAliases::Always, 3), (DerefAliases::Never, 0)] {
        let question = Question {
            deref_aliases,
            ..search_with_deleted(&alias, Scope::WholeSubtree, "(isDeleted=TRUE)")
        };
        assert_eq!(question.run(&directory).dns().len(), count, "{deref_aliases:?}");
    }
}

#[test]
fn a_slice_ends_after_some_octets_of_deleted_entries() {
    let mut directory = with_deleted_people();
    let text = "x".repeat(TOMBSTONE_RESULT_MAX / 2);
    for number in 4..9 {
        ok(directory.modify(&person(number), &[(ChangeOperation::Replace, "description", &[&text])]));
        ok(directory.delete(&person(number)));
    }
    let budget = Budget { entries_examined_max: u32::MAX, out_bytes_max: usize::MAX };
    let slices = |filter: &str| {
        let question = search_with_deleted(SUFFIX, Scope::WholeSubtree, filter);
        let (mut search, mut out, mut count) = (question.start(&directory), Vec::new(), 1);
        while search.run(&directory.snapshot, &mut out, &budget) == Step::More {
            count += 1;
        }
        count
    };
    // The search takes one slice for the tree, and two slices for the 8 deleted entries, 5 of which have more than
    // 1,000 octets.
    assert_eq!(slices("(cn=other)"), 3);
    assert_eq!(slices("(isDeleted=TRUE)"), 3);
}
