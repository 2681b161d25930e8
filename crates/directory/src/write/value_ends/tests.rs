//! Tests of the end times of values: setting, changing, reading and keeping them, and the removal of values after
//! their end times.

use ldap::ChangeOperation::{Add, Delete, Replace};
use ldap::{ResultCode, Scope};

use crate::RecordRoom;
use crate::model::csn::generalized_time;
use crate::model::limits::VALUE_ENDS_MAX;
use crate::model::own_changes::ENDED_VALUES;
use crate::testing::{SUFFIX, TestDirectory, ok, refused};

const GROUP: &str = "cn=staff,dc=example,dc=com";
const ANN: &str = "cn=ann,dc=example,dc=com";
const BOB: &str = "cn=bob,dc=example,dc=com";

fn directory() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for dn in [ANN, BOB] {
        ok(directory.add(dn, &[("objectClass", &["person"]), ("sn", &["x"])]));
    }
    ok(directory.add(GROUP, &[("objectClass", &["groupOfNames"]), ("member", &[SUFFIX])]));
    directory
}

/// Returns the description of members until a time, in seconds after the beginning of the test.
fn until(seconds: u64) -> String {
    format!("member;x-until-{}", time(seconds))
}

fn time(seconds: u64) -> String {
    generalized_time(1_700_000_000 + seconds)
}

fn ends(directory: &mut TestDirectory) -> Vec<String> {
    let mut ends = directory.read(GROUP).unwrap().texts("valueEnd");
    ends.sort();
    ends
}

fn members(directory: &mut TestDirectory) -> Vec<String> {
    directory.read(GROUP).unwrap().texts("member")
}

fn check(directory: &TestDirectory) {
    assert_eq!(crate::maintenance::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn a_logged_change_ends_a_membership() {
    let mut directory = directory();
    let (soon, later) = (until(1_000), until(2_000));
    ok(directory.modify(GROUP, &[(Add, &soon, &[ANN]), (Add, &later, &[BOB])]));
    let expected = [(1_000, ANN), (2_000, BOB)].map(|(s, dn)| format!("{} member {dn}", time(s)));
    assert_eq!(ends(&mut directory), expected);
    let own = directory.read(ANN).unwrap().texts("membershipEnd");
    assert_eq!(own, [format!("{} member {GROUP}", time(1_000))]);
    let with_options = directory.search(GROUP, Scope::BaseObject, "(member=*)", &["member"]);
    let names: Vec<_> = with_options.entries[0].attributes.keys().cloned().collect();
    assert_eq!(names, ["member"], "the option is not stored");
    assert!(!directory.make_due_changes(900));
    assert!(directory.make_due_changes(1_100));
    assert_eq!(members(&mut directory), [SUFFIX, BOB]);
    assert!(directory.read(ANN).unwrap().texts("memberOf").is_empty());
    assert_eq!(directory.read(GROUP).unwrap().texts("modifiersName"), [ENDED_VALUES]);
    check(&directory);
    let mut directory = directory.reopen();
    assert!(!directory.make_due_changes(1_900));
    assert!(directory.make_due_changes(2_100));
    assert!(!directory.make_due_changes(1_000_000));
    assert_eq!((members(&mut directory), ends(&mut directory)), (vec![SUFFIX.to_owned()], Vec::new()));
    check(&directory);
}

#[test]
fn an_end_is_changed_and_removed() {
    let mut directory = directory();
    let (soon, later) = (until(1_000), until(2_000));
    ok(directory.add(
        "cn=new,dc=example,dc=com",
        &[("objectClass", &["groupOfNames"]), ("member", &[BOB]), (&soon, &[ANN])],
    ));
    assert_eq!(directory.read(ANN).unwrap().texts("membershipEnd").len(), 1);
    ok(directory.modify(GROUP, &[(Add, &soon, &[ANN])]));
    let exists = directory.modify(GROUP, &[(Add, &soon, &[ANN])]);
    refused(exists, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, "with this end");
    let exists = directory.modify(GROUP, &[(Add, "member", &[ANN])]);
    refused(exists, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, "already has");
    ok(directory.modify(GROUP, &[(Add, &later, &[ANN])]));
    assert_eq!(ends(&mut directory), [format!("{} member {ANN}", time(2_000))]);
    let other = directory.modify(GROUP, &[(Delete, &soon, &[ANN])]);
    refused(other, ResultCode::NO_SUCH_ATTRIBUTE, "with this end");
    // A replace keeps the end times of values that stay. So does a modify that removes a value and adds the same value
    // again.
    ok(directory.modify(GROUP, &[(Replace, "member", &[ANN, BOB])]));
    ok(directory.modify(GROUP, &[(Delete, "member", &[ANN]), (Add, "member", &[ANN])]));
    assert_eq!(ends(&mut directory), [format!("{} member {ANN}", time(2_000))]);
    ok(directory.modify(GROUP, &[(Replace, "member", &[SUFFIX]), (Add, &soon, &[ANN, BOB])]));
    assert_eq!(ends(&mut directory).len(), 2);
    ok(directory.modify(GROUP, &[(Add, "member;x-until-never", &[ANN])]));
    ok(directory.modify(GROUP, &[(Delete, "member", &[BOB])]));
    ok(directory.modify(GROUP, &[(Add, "member", &[BOB])]));
    assert_eq!(ends(&mut directory), Vec::<String>::new());
    ok(directory.modify(GROUP, &[(Add, &soon, &[BOB])]));
    ok(directory.modify(GROUP, &[(Delete, &soon, &[BOB])]));
    assert_eq!(members(&mut directory), [SUFFIX, ANN]);
    ok(directory.modify(GROUP, &[(Add, &soon, &[BOB])]));
    ok(directory.modify(GROUP, &[(Replace, "member", &[SUFFIX])]));
    ok(directory.delete("cn=new,dc=example,dc=com"));
    check(&directory);
    assert!(!directory.make_due_changes(5_000));
}

#[test]
fn wrong_ends_are_refused() {
    let mut directory = directory();
    let violation = ResultCode::CONSTRAINT_VIOLATION;
    let soon = until(1_000);
    for (name, value, what) in [
        ("member;x-until-20010101000000Z", ANN, "has passed"),
        ("member;x-until-2027", ANN, "a time in UTC"),
        ("member;x-until-20270230000000Z", ANN, "a time in UTC"),
        ("member;x-until-never;x-until-20970101000000Z", ANN, "one end"),
        ("description;x-until-20970101000000Z", "x", "name entries"),
    ] {
        refused(directory.modify(GROUP, &[(Add, name, &[value])]), violation, what);
    }
    let unwilling = ResultCode::UNWILLING_TO_PERFORM;
    refused(directory.modify(GROUP, &[(Replace, &soon, &[ANN])]), unwilling, "one by one");
    refused(directory.modify(GROUP, &[(Delete, &soon, &[])]), unwilling, "one by one");
    let names: Vec<String> = (0..=VALUE_ENDS_MAX).map(|number| format!("cn=m{number},{SUFFIX}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let limit = ResultCode::ADMIN_LIMIT_EXCEEDED;
    refused(directory.modify(GROUP, &[(Add, &soon, &names)]), limit, "can have an end");
    ok(directory.modify(GROUP, &[(Add, &soon, &names[1..])]));
    refused(directory.modify(GROUP, &[(Add, &soon, &names[..1])]), limit, "can have an end");
    // Several records remove these values, because the number of values in a record is limited.
    assert!(directory.make_due_changes(1_100));
    assert_eq!(members(&mut directory), [SUFFIX]);
    check(&directory);
}

#[test]
fn the_empty_dn_replaces_the_last_expired_member() {
    let mut directory = directory();
    let soon = until(1_000);
    ok(directory.modify(GROUP, &[(Replace, "member", &[ANN])]));
    ok(directory.modify(GROUP, &[(Add, &soon, &[ANN])]));
    assert!(directory.make_due_changes(1_100));
    assert_eq!(members(&mut directory), [""]);
    check(&directory);
}

#[test]
fn an_end_is_kept_when_its_value_becomes_text_or_a_link() {
    let mut directory = directory();
    directory.change_settings(|settings| settings.general.integrity_attributes.clear());
    let soon = until(1_000);
    ok(directory.modify(GROUP, &[(Add, &soon, &[ANN, "cn=carl,dc=example,dc=com"])]));
    ok(directory.modify_dn(ANN, "cn=anna", true, None));
    ok(directory.delete("cn=anna,dc=example,dc=com"));
    ok(directory.add("cn=carl,dc=example,dc=com", &[("objectClass", &["person"]), ("sn", &["x"])]));
    let text = |dn: &str| format!("{} member {dn}", time(1_000));
    let expected = ["cn=anna,dc=example,dc=com", "cn=carl,dc=example,dc=com"].map(text);
    assert_eq!(ends(&mut directory), expected);
    ok(directory.add("cn=anna,dc=example,dc=com", &[("objectClass", &["person"]), ("sn", &["x"])]));
    assert_eq!(ends(&mut directory), expected);
    check(&directory);
    assert!(directory.make_due_changes(1_100));
    assert_eq!(members(&mut directory), [SUFFIX]);
    check(&directory);
}

#[test]
fn undelete_restores_the_ends_of_values() {
    for integrity in [true, false] {
        let mut directory = directory();
        directory.change_settings(|settings| {
            settings.general.keep_deleted_seconds = 3_600;
            settings.general.integrity_attributes =
                if integrity { vec!["member".to_owned()] } else { Vec::new() };
        });
        let soon = until(1_000);
        ok(directory.modify(GROUP, &[(Add, &soon, &[ANN, BOB])]));
        let before = ends(&mut directory);
        ok(directory.delete(ANN));
        directory.undelete(ANN, None).unwrap();
        assert_eq!(ends(&mut directory), before);
        ok(directory.delete(GROUP));
        ok(directory.delete(BOB));
        directory.undelete(GROUP, None).unwrap();
        assert_eq!(ends(&mut directory).len(), 1, "a link to a deleted entry is left out");
        directory.undelete(BOB, None).unwrap();
        check(&directory);
        let mut directory = directory.reopen();
        assert!(directory.make_due_changes(1_100));
        assert_eq!(members(&mut directory), [SUFFIX]);
        check(&directory);
    }
}

/// Returns the names of the entries that match a filter, without the suffix.
fn found(directory: &mut TestDirectory, filter: &str) -> Vec<String> {
    let found = directory.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]);
    let names = found.entries.iter().map(|entry| entry.dn.split(',').next().unwrap_or_default().to_owned());
    names.collect()
}

/// Makes the user with this DN the requester, under these access rules.
fn act_as(directory: &mut TestDirectory, dn: &str, rules: &[&str]) {
    directory.requester = crate::access::Requester::Administrator { dn: "cn=admin".to_owned() };
    let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
    directory.change_settings(|settings| settings.general.access_rules = rules);
    let found = crate::read::identity::identify(&directory.snapshot, &format!("dn:{dn}"));
    directory.requester = found.unwrap().unwrap().requester;
}

#[test]
fn filters_compare_the_times_of_ends() {
    let mut directory = directory();
    ok(directory.modify(GROUP, &[(Add, &until(1_000), &[ANN]), (Add, &until(2_000), &[BOB])]));
    let none: &[&str] = &[];
    let of = |attribute: &str, test: &str, seconds: u64| format!("({attribute}{test}{})", time(seconds));
    for (filter, expected) in [
        ("(valueEnd=*)".to_owned(), &["cn=staff"][..]),
        ("(membershipEnd=*)".to_owned(), &["cn=ann", "cn=bob"]),
        ("(&(!(membershipEnd=*))(sn=*))".to_owned(), none),
        (of("membershipEnd", "<=", 1_000), &["cn=ann"]),
        (of("membershipEnd", ">=", 1_001), &["cn=bob"]),
        (of("membershipEnd", "=", 2_000), &["cn=bob"]),
        (of("membershipEnd", "=", 2_001), none),
        (of("valueEnd", "=", 2_000), &["cn=staff"]),
        (of("valueEnd", "<=", 999), none),
        (of("valueEnd", ">=", 1_500), &["cn=staff"]),
        (format!("(valueEnd={} MEMBER {ANN})", time(1_000)), &["cn=staff"]),
        (format!("(valueEnd={} member {ANN})", time(2_000)), none),
        ("(valueEnd>=soon)".to_owned(), none),
        ("(!(valueEnd>=soon))".to_owned(), none),
    ] {
        assert_eq!(found(&mut directory, &filter), expected, "{filter}");
    }
    // Requesters that may read the group's members see the end times.
    let rules = [
        "all: allow read of *, valueEnd, membershipEnd to authenticated",
        "x: deny read of member to authenticated",
    ];
    act_as(&mut directory, ANN, &rules[..1]);
    assert_eq!(found(&mut directory, "(membershipEnd=*)"), ["cn=ann", "cn=bob"]);
    act_as(&mut directory, ANN, &rules);
    assert_eq!(found(&mut directory, "(|(membershipEnd=*)(valueEnd=*))"), none);
    act_as(&mut directory, ANN, &["all: allow read of * to authenticated"]);
    assert_eq!(found(&mut directory, "(|(membershipEnd=*)(!(membershipEnd=*)))"), none);
}

#[test]
fn the_right_to_join_does_not_cover_the_end_of_a_membership() {
    let mut directory = directory();
    let (soon, later) = (until(1_000), until(2_000));
    ok(directory.modify(GROUP, &[(Add, &soon, &[ANN])]));
    let join = [
        "read: allow read of *, valueEnd to authenticated",
        "own: allow join, leave of member to authenticated",
    ];
    act_as(&mut directory, ANN, &join);
    let denied = ResultCode::INSUFFICIENT_ACCESS_RIGHTS;
    let end = [format!("{} member {ANN}", time(1_000))];
    for changes in [
        &[(Add, &*later, &[ANN][..])][..],
        &[(Add, "member;x-until-never", &[ANN])],
        &[(Add, &soon, &[ANN])],
        &[(Delete, "member", &[ANN]), (Add, &later, &[ANN])],
        &[(Delete, &soon, &[ANN]), (Add, "member;x-until-never", &[ANN])],
        &[(Delete, "member", &[ANN]), (Add, "member", &[ANN])],
        &[(Add, "member;x-other", &[ANN])],
    ] {
        refused(directory.modify(GROUP, changes), denied, "does not cover the end");
        assert_eq!(ends(&mut directory), end);
    }
    // A requester with the right to join may set an end time, and may leave a membership that has no end time.
    act_as(&mut directory, BOB, &join);
    ok(directory.modify(GROUP, &[(Add, "member", &[BOB])]));
    ok(directory.modify(GROUP, &[(Delete, "member", &[BOB])]));
    ok(directory.modify(GROUP, &[(Add, &later, &[BOB])]));
    refused(directory.modify(GROUP, &[(Add, &until(3_000), &[BOB])]), denied, "does not cover the end");
    // A member may leave before the end time and then join again without an end time, just as the member may join after
    // the end time.
    ok(directory.modify(GROUP, &[(Delete, "member", &[BOB])]));
    assert_eq!(ends(&mut directory), end);
    assert!(!members(&mut directory).contains(&BOB.to_owned()));
    ok(directory.modify(GROUP, &[(Add, "member", &[BOB])]));
    assert_eq!(ends(&mut directory), end);
    act_as(&mut directory, ANN, &["own: allow leave of member to authenticated"]);
    ok(directory.modify(GROUP, &[(Delete, &soon, &[ANN])]));
    act_as(&mut directory, BOB, &["write: allow read, write of member, valueEnd to authenticated"]);
    ok(directory.modify(GROUP, &[(Add, &later, &[ANN, BOB])]));
    ok(directory.modify(GROUP, &[(Add, "member;x-until-never", &[BOB])]));
    assert_eq!(ends(&mut directory), [format!("{} member {ANN}", time(2_000))]);
    check(&directory);
}

/// Regression test: in a cluster, one request can write several records. If a later record did not fit into the record
/// group, the earlier records stayed in the writer's batch, and the request was executed again. Other nodes never
/// received the earlier records.
#[test]
fn ends_that_do_not_fit_into_a_batch_remain_due() {
    let mut directory = directory();
    let second = "cn=guests,dc=example,dc=com";
    ok(directory.add(second, &[("objectClass", &["groupOfNames"]), ("member", &[SUFFIX])]));
    for group in [GROUP, second] {
        ok(directory.modify(group, &[(Add, &until(1_000), &[ANN])]));
    }
    let mut stamp = directory.stamp();
    stamp.now_micros += 1_100_000_000;
    let mut batch = directory.writer.begin().unwrap();
    let before = batch.position().unwrap();
    batch.limit_records(RecordRoom::of_bytes(10), 0);
    assert_eq!(batch.make_due_changes(&stamp).unwrap_err().code, ResultCode::BUSY);
    let RecordRoom { bytes, count } = batch.take_rejected_room().unwrap();
    assert_eq!(count, 1);
    assert_eq!(batch.position().unwrap(), before);
    batch.limit_records(RecordRoom { bytes: 2 * bytes, count }, 0);
    assert_eq!(batch.make_due_changes(&stamp), Ok(true));
    assert_eq!(batch.take_rejected_room(), None, "no request is tried again");
    assert_eq!(batch.position().unwrap(), before + 1);
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
    assert!(directory.make_due_changes(1_100));
    assert!(!directory.make_due_changes(1_100));
    assert_eq!(members(&mut directory), [SUFFIX]);
    check(&directory);
}

/// Regression test: a request can name a million values. Each value was compared with all other values before the
/// number of values was checked, so one request kept the writer busy for hours.
#[test]
fn ends_of_many_values_are_found_by_their_keys() {
    let mut directory = directory();
    let names: Vec<String> = (0..10_000).map(|number| format!("cn=u{number},dc=example,dc=com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let at = until(1_000);
    let many = directory.modify(GROUP, &[(Add, &at, &names)]);
    refused(many, ResultCode::ADMIN_LIMIT_EXCEEDED, "can have an end");
    // A request that sets many end times and removes most of them again is within the limit.
    let kept = &names[..VALUE_ENDS_MAX - 1];
    let changes = [(Add, at.as_str(), &names[..]), (Delete, at.as_str(), &names[VALUE_ENDS_MAX - 1..])];
    ok(directory.modify(GROUP, &changes));
    let mut expected: Vec<_> = kept.iter().map(|dn| format!("{} member {dn}", time(1_000))).collect();
    expected.sort();
    assert_eq!(ends(&mut directory), expected);
    ok(directory.modify(GROUP, &[(Replace, "member", &[kept[0]])]));
    assert_eq!(ends(&mut directory), [format!("{} member {}", time(1_000), kept[0])]);
    check(&directory);
}
