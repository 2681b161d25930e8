//! Caches of a snapshot never change an answer: a snapshot that was updated after each change answers as a new snapshot
//! does.

use fastrand::Rng;
use ldap::{ChangeOperation, ResultCode, Scope};

use super::{Question, add};
use crate::testing::{SUFFIX, TestDirectory};

const GROUP: &str = "cn=group,dc=example,dc=com";

const UNITS: u32 = 6;
const PEOPLE: u32 = 4;

fn unit(random: &mut Rng) -> String {
    format!("ou={},{SUFFIX}", random.u32(..UNITS))
}

fn person(random: &mut Rng) -> String {
    format!("cn={},{}", random.u32(..PEOPLE), unit(random))
}

/// Makes a change, which may be refused: most of the random names do not exist, or exist already.
fn change(directory: &mut TestDirectory, random: &mut Rng) {
    let (unit, person) = (unit(random), person(random));
    match random.u32(..12) {
        0 => directory.add(&unit, &[("objectClass", &["organizationalUnit"])]),
        1..=3 => directory.add(&person, &[("objectClass", &["person"]), ("sn", &["x"])]),
        4 => directory.delete(&person),
        5 => directory.delete(&unit),
        6 => directory.modify_dn(&person, &format!("cn={}", random.u32(..PEOPLE)), true, Some(&unit)),
        7 => directory.modify_dn(&unit, &format!("ou={}", random.u32(..UNITS)), true, None),
        8 => directory.modify(&person, &[(ChangeOperation::Replace, "description", &["y"])]),
        9 => directory.modify(GROUP, &[(ChangeOperation::Delete, "member", &[&person])]),
        _ => directory.modify(GROUP, &[(ChangeOperation::Add, "member", &[&person])]),
    };
}

#[test]
fn a_snapshot_with_cached_rows_returns_the_same_as_a_new_one() {
    let mut directory = TestDirectory::with_suffix_entry();
    add(&mut directory, GROUP, &[("objectClass", &["groupOfNames"]), ("member", &[SUFFIX])]);
    directory.snapshot.cache_rows(1 << 20);
    let mut random = Rng::with_seed(7);
    let mut found_count = 0;
    for _ in 0..300 {
        change(&mut directory, &mut random);
        let mut questions = Vec::new();
        for _ in 0..3 {
            questions.push((person(&mut random), Scope::BaseObject, "(objectClass=*)".to_owned()));
            questions.push((unit(&mut random), Scope::WholeSubtree, "(sn=x)".to_owned()));
            questions.push((
                SUFFIX.to_owned(),
                Scope::WholeSubtree,
                format!("(member={})", person(&mut random)),
            ));
            questions.push((unit(&mut random), Scope::SingleLevel, "(cn=*)".to_owned()));
            questions.push((
                person(&mut random),
                Scope::BaseObject,
                format!("(entryDN={})", person(&mut random)),
            ));
        }
        let run = |directory: &TestDirectory| {
            let found = questions.iter().map(|(base, scope, filter)| {
                Question::new(base, *scope, filter).attributes(&["*", "memberOf"]).run(directory)
            });
            found.collect::<Vec<_>>()
        };
        let remembered = run(&directory);
        let mut other = directory.directory.snapshot().unwrap();
        std::mem::swap(&mut directory.snapshot, &mut other);
        assert_eq!(remembered, run(&directory));
        std::mem::swap(&mut directory.snapshot, &mut other);
        found_count += remembered.iter().filter(|found| !found.entries.is_empty()).count();
    }
    assert!(found_count > 150, "{found_count}");
}

/// A search whose filter has a DN with a cached spelling continues after the entry was renamed: the DN is resolved
/// again, and no entry has it.
#[test]
fn a_cached_name_is_resolved_again_in_a_new_snapshot() {
    use ldap::{FilterBuf, MessageId, SearchRequest, SelectionBuf};

    use crate::read::controls::RequestControls;
    use crate::read::search::{Budget, Search, Step};
    use crate::testing::received;

    let member = "cn=a,dc=example,dc=com";
    let mut directory = TestDirectory::with_suffix_entry();
    add(&mut directory, member, &[("objectClass", &["person"]), ("sn", &["x"])]);
    for number in 0..5 {
        let group = format!("cn=group {number},{SUFFIX}");
        add(&mut directory, &group, &[("objectClass", &["groupOfNames"]), ("member", &[member])]);
    }
    directory.snapshot.cache_rows(1 << 20);
    let filter = FilterBuf::parse(&format!("(member={member})")).unwrap();
    let selection = SelectionBuf::from_iter(["1.1"]);
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let start = |directory: &TestDirectory| {
        let controls = RequestControls::default();
        Search::start(&directory.snapshot, &directory.requester.context(), MessageId(1), &request, &controls)
            .unwrap()
    };
    let one = Budget { entries_examined_max: 1, out_bytes_max: 1_000 };
    let mut all = Vec::new();
    let mut first = start(&directory);
    while first.run(&directory.snapshot, &mut all, &one) == Step::More {}
    assert_eq!(received(&all).entries.len(), 5);
    let mut out = Vec::new();
    let mut search = start(&directory);
    for _ in 0..2 {
        assert_eq!(search.run(&directory.snapshot, &mut out, &one), Step::More);
    }
    assert_eq!(directory.modify_dn(member, "cn=b", true, None).code, ResultCode::SUCCESS);
    while search.run(&directory.snapshot, &mut out, &one) == Step::More {}
    assert_eq!(received(&out).entries.len(), 2);
}
