//! Copies of a scripted source, which sends messages that slapd sends only in rare situations.

use std::time::Duration;

use ldap::{SyncIdSet, SyncInfo, SyncState, SyncUuid};

use super::{figure, follower};
use test_support::cluster::until;
use test_support::sync_source::{SyncSearch, SyncSource};
use test_support::{Pando, SUFFIX, Scratch};

type Attributes<'a> = &'a [(&'a str, &'a [&'a str])];

const ADD: SyncState = SyncState::Add;
const MODIFY: SyncState = SyncState::Modify;
const DELETE: SyncState = SyncState::Delete;

const TOP: Attributes<'_> =
    &[("objectClass", &["dcObject", "organization"]), ("dc", &["example"]), ("o", &["x"])];
const UNIT: Attributes<'_> = &[("objectClass", &["organizationalUnit"])];
const PERSON: Attributes<'_> = &[("objectClass", &["inetOrgPerson"]), ("cn", &["x"]), ("sn", &["y"])];

fn uuid(number: u8) -> SyncUuid {
    [number; 16]
}

/// Returns a DN below the suffix.
fn dn(name: &str) -> String {
    format!("{name},{SUFFIX}")
}

/// Returns a cookie in the form of slapd.
fn cookie(second: u8) -> String {
    format!("rid=000,csn=202611270900{second:02}.000001Z#000000#000#000000")
}

fn refreshed(deletes: bool, cookie: &str) -> SyncInfo<'_> {
    SyncInfo::Refreshed { deletes, cookie: Some(cookie.as_bytes()), is_done: true }
}

/// Sends the suffix entry and the end of a refresh.
fn send_top(search: &mut SyncSearch) {
    search.entry((ADD, uuid(1)), None, SUFFIX, TOP).info(&refreshed(true, &cookie(1))).send();
}

/// Waits until the copy has the entry.
fn until_there(copy: &Pando, name: &str) {
    until("an entry", || copy.administrator().entry(&dn(name), &["1.1"]).unwrap());
}

fn is_there(copy: &Pando, name: &str) -> bool {
    copy.administrator().entry(&dn(name), &["1.1"]).unwrap().is_some()
}

#[test]
fn an_entry_that_is_added_and_deleted_at_once_is_removed() {
    // Regression test, found with slapd: the copy connected while people were added, renamed and deleted. Entries with
    // a manager were compared again after a rename, and a deleted entry came back.
    let (scratch, source) = (Scratch::new("follow-at-once"), SyncSource::start());
    let copy = follower(&scratch, source.address());
    let mut search = source.search();
    send_top(&mut search);
    let manager = dn("uid=old");
    let managers = [manager.as_str()];
    let with_manager = [PERSON, &[("manager", &managers[..])]].concat();
    search
        .entry((ADD, uuid(2)), Some(&cookie(2)), &manager, &[PERSON, &[("uid", &["old"][..])]].concat())
        .entry((ADD, uuid(3)), Some(&cookie(3)), &dn("uid=gone"), &with_manager)
        .entry(
            (MODIFY, uuid(2)),
            Some(&cookie(4)),
            &dn("uid=new"),
            &[PERSON, &[("uid", &["new"][..])]].concat(),
        )
        .entry((DELETE, uuid(3)), Some(&cookie(5)), &dn("uid=gone"), &[])
        .entry((ADD, uuid(4)), Some(&cookie(6)), &dn("uid=last"), PERSON)
        .send();
    until_there(&copy, "uid=last");
    assert!(!is_there(&copy, "uid=gone") && is_there(&copy, "uid=new"));
    assert_eq!(figure(&copy, "Rejected"), "0");
}

/// Regression test: a source whose first answers took longer than 250 ms was never followed.
#[test]
fn a_distant_source_is_followed() {
    let scratch = Scratch::new("follow-distant");
    let source = SyncSource::start_distant(Duration::from_millis(400));
    let copy = follower(&scratch, source.address());
    let mut search = source.search();
    send_top(&mut search);
    search.entry((ADD, uuid(2)), Some(&cookie(2)), &dn("uid=there"), PERSON).send();
    until_there(&copy, "uid=there");
}

#[test]
fn a_deleted_entry_does_not_wait_for_its_superior() {
    let (scratch, source) = (Scratch::new("follow-deleted-waits"), SyncSource::start());
    let copy = follower(&scratch, source.address());
    let mut search = source.search();
    let gone = SyncInfo::IdSet(SyncIdSet { refresh_deletes: true, uuids: vec![uuid(2)] });
    search
        .entry((ADD, uuid(1)), None, SUFFIX, TOP)
        .entry((ADD, uuid(2)), None, &dn("uid=gone,ou=later"), PERSON)
        .entry((ADD, uuid(3)), None, &dn("uid=stays,ou=later"), PERSON)
        .info(&gone)
        .entry((ADD, uuid(4)), None, &dn("ou=later"), UNIT)
        .info(&refreshed(true, &cookie(1)))
        .send();
    until("the end of the refresh", || (figure(&copy, "State") == "following").then_some(()));
    assert!(is_there(&copy, "uid=stays,ou=later") && !is_there(&copy, "uid=gone,ou=later"));
    assert_eq!(figure(&copy, "Rejected"), "0");
}

#[test]
fn an_entry_waits_for_a_superior_that_has_a_later_cookie() {
    // Regression test: each cookie discarded the entries that waited for their superior, and the next connection
    // compared everything.
    let (scratch, source) = (Scratch::new("follow-later-superior"), SyncSource::start());
    let copy = follower(&scratch, source.address());
    let mut search = source.search();
    send_top(&mut search);
    search.entry((ADD, uuid(2)), Some(&cookie(2)), &dn("uid=early,ou=later"), PERSON).send();
    until("an entry that waits", || (figure(&copy, "Rejected") == "1").then_some(()));
    until("its cookie", || figure(&copy, "Cookie").contains("20261127090002").then_some(()));
    assert!(!is_there(&copy, "uid=early,ou=later"));
    // The connection is cut here. Because an entry is missing, the copy sends the previous cookie instead of the last
    // one.
    drop(search);
    let mut search = source.search();
    assert_eq!(search.cookie, Some(cookie(1).into_bytes()));
    search.info(&refreshed(true, &cookie(1))).send();
    until("the refresh", || figure(&copy, "Cookie").contains("20261127090001").then_some(()));
    search.entry((ADD, uuid(2)), Some(&cookie(2)), &dn("uid=early,ou=later"), PERSON).send();
    until("its cookie", || figure(&copy, "Cookie").contains("20261127090002").then_some(()));
    search.entry((ADD, uuid(3)), Some(&cookie(3)), &dn("ou=later"), UNIT).send();
    until_there(&copy, "uid=early,ou=later");
    until("nothing that waits", || (figure(&copy, "Rejected") == "0").then_some(()));
    // If the superior of an entry never arrives, the copy gives up the entry and reports that.
    search.entry((ADD, uuid(4)), Some(&cookie(4)), &dn("uid=alone,ou=never"), PERSON).send();
    for second in 5..30 {
        search
            .entry((ADD, uuid(second)), Some(&cookie(second)), &dn(&format!("uid=p{second}")), PERSON)
            .send();
        until_there(&copy, &format!("uid=p{second}"));
    }
    assert_eq!(figure(&copy, "Rejected"), "1");
    assert!(copy.log().contains("its superior is not in the copy"), "{}", copy.log());
    drop(search);
    assert_eq!(source.search().cookie, None);
}

#[test]
fn a_refresh_without_cookie_is_the_whole_content() {
    // slapd ends a refresh without cookie with refreshDeletes, although it does not know which entries the copy has.
    let (scratch, source) = (Scratch::new("follow-no-cookie"), SyncSource::start());
    let copy = follower(&scratch, source.address());
    let mut search = source.search();
    assert_eq!(search.cookie, None);
    let unknown: Attributes<'_> = &[("objectClass", &["shoeOwner"]), ("cn", &["x"])];
    search
        .entry((ADD, uuid(1)), None, SUFFIX, TOP)
        .entry((ADD, uuid(2)), None, &dn("uid=deleted"), PERSON)
        .entry((ADD, uuid(3)), None, &dn("cn=unknown"), unknown)
        .info(&refreshed(true, &cookie(1)))
        .send();
    until("a rejected entry", || (figure(&copy, "Rejected") == "1").then_some(()));
    until_there(&copy, "uid=deleted");
    drop(search);
    // An entry was not copied, so the next search compares the whole content.
    let mut search = source.search();
    assert_eq!(search.cookie, None);
    search
        .entry((ADD, uuid(1)), None, SUFFIX, TOP)
        .entry((ADD, uuid(4)), None, &dn("uid=added"), PERSON)
        .info(&refreshed(true, &cookie(2)))
        .send();
    until_there(&copy, "uid=added");
    until("a delete", || (!is_there(&copy, "uid=deleted")).then_some(()));
    assert_eq!(figure(&copy, "Rejected"), "0");
}

#[test]
fn changes_that_the_refresh_contained_are_not_repeated() {
    let (scratch, source) = (Scratch::new("follow-older"), SyncSource::start());
    let copy = follower(&scratch, source.address());
    let mut search = source.search();
    let other = ";20261127080000.000001Z#000000#001#000000";
    search
        .entry((ADD, uuid(1)), None, SUFFIX, TOP)
        .entry((ADD, uuid(2)), None, &dn("uid=new"), PERSON)
        .info(&refreshed(true, &format!("{}{other}", cookie(5))))
        .entry((MODIFY, uuid(2)), Some(&cookie(4)), &dn("uid=old"), PERSON)
        .entry((ADD, uuid(3)), Some("rid=000"), &dn("uid=without-csn"), PERSON)
        .entry((ADD, uuid(4)), Some(&cookie(6)), &dn("uid=last"), PERSON)
        .send();
    until_there(&copy, "uid=last");
    assert!(is_there(&copy, "uid=new") && !is_there(&copy, "uid=old") && is_there(&copy, "uid=without-csn"));
    drop(search);
    let search = source.search();
    assert_eq!(search.cookie, Some(format!("{}{other}", cookie(6)).into_bytes()));
}

#[test]
fn a_change_older_than_the_refresh_is_skipped() {
    // Regression test, found with slapd: during the refresh, an entry was added below a unit, and the unit was then
    // renamed. The refresh sent both in their final state. The messages after the refresh named a superior that no
    // longer existed.
    let (scratch, source) = (Scratch::new("follow-overtaken"), SyncSource::start());
    let copy = follower(&scratch, source.address());
    let mut search = source.search();
    let csn = "20261127090003.000001Z#000000#000#000000";
    let csns = [csn];
    let person = [PERSON, &[("entryCSN", &csns[..])]].concat();
    search
        .entry((ADD, uuid(1)), None, SUFFIX, TOP)
        .entry((ADD, uuid(2)), None, &dn("ou=new"), UNIT)
        .entry((ADD, uuid(3)), None, &dn("uid=x,ou=new"), &person)
        .info(&refreshed(true, &cookie(1)))
        .entry((ADD, uuid(3)), Some(&cookie(3)), &dn("uid=x,ou=old"), &person)
        .entry((ADD, uuid(4)), Some(&cookie(6)), &dn("uid=last"), PERSON)
        .send();
    until_there(&copy, "uid=last");
    assert!(is_there(&copy, "uid=x,ou=new"));
    assert_eq!(figure(&copy, "Rejected"), "0");
    assert!(!copy.log().contains("is not copied"), "{}", copy.log());
}
