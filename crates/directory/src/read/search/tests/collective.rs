//! Collective attributes (RFC 3671): entries have the values of the subentries that cover them.

use std::sync::Arc;

use ldap::ChangeOperation::{Add, Replace};
use ldap::{
    ChangeOperation, ChangesBuf, CompareRequest, FilterBuf, ModifyRequest, Request, ResultCode, Scope,
    SelectionBuf,
};

use super::sorted::sort;
use super::sync::Consumer;
use super::{Question, add, leaves, sample};
use crate::access::Requester;
use crate::model::collective::CollectiveSubentries;
use crate::model::limits::{COLLECTIVE_SUBENTRIES_MAX, COLLECTIVE_SUBENTRY_OCTETS_MAX};
use crate::model::name::{NormalName, parse_dn};
use crate::model::record::{Change, Delete, LastValue, Modify, ModifyDn};
use crate::read::compare::{CompareOutcome, compare};
use crate::read::controls::{AttributeOrigin, EntryCopyOptions, RareControls, RequestControls};
use crate::read::search::entry_copy::copy_of_entry;
use crate::read::search::{Budget, Step};
use crate::testing::{SUFFIX, TestDirectory, ok, received, refused};
use crate::tree::collective::changes_collective;

const ADA: &str = "uid=ada,ou=people,dc=example,dc=com";
const BOB: &str = "uid=bob,ou=people,dc=example,dc=com";
const PEOPLE: &str = "ou=people,dc=example,dc=com";

fn add_subentry(directory: &mut TestDirectory, dn: &str, subtree: &str, values: &[(&str, &[&str])]) {
    let classes = ["subentry", "collectiveAttributeSubentry"];
    let subtree = [subtree];
    let fixed = [("objectClass", &classes[..]), ("subtreeSpecification", &subtree)];
    add(directory, dn, &[&fixed, values].concat());
}

/// Returns the sample with a subentry that gives the people the localities Oslo and Bergen, and the telephone number 1.
fn shared() -> TestDirectory {
    let mut directory = sample();
    directory.define_index("l", "equality");
    directory.finish_indexes();
    let values: &[(&str, &[&str])] =
        &[("c-l", &["Oslo", "Bergen"]), ("c-TelephoneNumber", &["1"]), ("c-l;lang-no", &["Hovedstaden"])];
    add_subentry(&mut directory, "cn=place,ou=people,dc=example,dc=com", "{}", values);
    directory
}

fn texts(directory: &mut TestDirectory, dn: &str, name: &str) -> Vec<String> {
    let found = directory.search(dn, Scope::BaseObject, "(objectClass=*)", &[name]);
    found.entries[0].texts(name)
}

fn names(directory: &TestDirectory, dn: &str, attributes: &[&str], types_only: bool) -> Vec<String> {
    let question = Question { types_only, ..Question::new(dn, Scope::BaseObject, "(objectClass=*)") };
    let found = question.attributes(attributes).run(directory);
    let attributes = &found.entries[0].attributes;
    assert!(!types_only || attributes.values().all(Vec::is_empty));
    let names = attributes.keys().cloned();
    names.filter(|name| name.starts_with("c-") || name == "telephoneNumber").collect()
}

fn compared(directory: &TestDirectory, entry: &str, description: &str, value: &str) -> ResultCode {
    let request = CompareRequest { entry, description, value: value.as_bytes() };
    let controls = RequestControls::default();
    match compare(&directory.snapshot, &directory.requester.context(), &request, &controls) {
        CompareOutcome::Done(outcome) => outcome.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn results_have_the_values_of_the_subentry() {
    let mut directory = shared();
    assert_eq!(texts(&mut directory, ADA, "c-l"), ["Oslo", "Bergen"]);
    assert_eq!(texts(&mut directory, ADA, "c-l;lang-no"), ["Hovedstaden"]);
    let all = ["c-TelephoneNumber", "c-l", "c-l;lang-no"];
    for types_only in [false, true] {
        assert_eq!(names(&directory, ADA, &["*"], types_only), all);
        assert_eq!(names(&directory, PEOPLE, &["*"], types_only), all, "the administrative point itself");
        assert_eq!(names(&directory, ADA, &["l"], types_only), ["c-l", "c-l;lang-no"]);
        assert_eq!(names(&directory, ADA, &["c-l;lang-no"], types_only), ["c-l;lang-no"]);
        let telephones = ["c-TelephoneNumber", "telephoneNumber"];
        assert_eq!(names(&directory, BOB, &["telephoneNumber"], types_only), telephones);
        assert_eq!(names(&directory, ADA, &["+"], types_only), [""; 0]);
        assert_eq!(names(&directory, ADA, &["1.1"], types_only), [""; 0]);
        assert_eq!(names(&directory, SUFFIX, &["*"], types_only), [""; 0], "above the subentry");
    }
    // The subentry itself has only its stored attributes.
    assert_eq!(names(&directory, "cn=place,ou=people,dc=example,dc=com", &["*"], false), all);
    let directory = directory.reopen();
    assert_eq!(names(&directory, ADA, &["*"], false), all);
}

#[test]
fn filters_and_compares_test_collective_values() {
    let mut directory = shared();
    ok(directory.modify(ADA, &[(Add, "collectiveExclusions", &["c-TelephoneNumber"])]));
    let all = ["cn=Dora+sn=Lang", "ou=people", "uid=ada", "uid=bob", "uid=carl"];
    let without_ada = ["cn=Dora+sn=Lang", "ou=people", "uid=bob", "uid=carl"];
    for (filter, expected) in [
        ("(c-l=OSLO)", &all[..]),
        ("(l=oslo)", &all),
        ("(l=ber*en)", &all),
        ("(name=hovedstaden)", &all),
        ("(c-l;lang-no=hovedstaden)", &all),
        ("(c-l;lang-no=oslo)", &[]),
        ("(c-l~=oslow)", &all),
        ("(c-l:caseExactMatch:=Oslo)", &all),
        ("(c-l:caseExactMatch:=oslo)", &[]),
        ("(:caseExactMatch:=Bergen)", &all),
        ("(c-TelephoneNumber=1)", &without_ada),
        ("(telephoneNumber=1)", &without_ada),
        ("(&(c-l=oslo)(uid=bob))", &["uid=bob"]),
        ("(&(uid=b*)(|(c-l=nowhere)(l=bergen)))", &["uid=bob"]),
        ("(|(uid=ada)(c-l=nowhere))", &["uid=ada"]),
        ("(&(objectClass=inetOrgPerson)(!(c-TelephoneNumber=*)))", &["uid=ada"]),
        ("(&(objectClass=inetOrgPerson)(!(c-l=oslo)))", &[]),
        ("(&(objectClass=organizationalUnit)(c-l=*))", &["ou=people"]),
    ] {
        assert_eq!(leaves(&Question::everywhere(filter).run(&directory)), expected, "{filter}");
    }
    for (entry, description, value, code) in [
        (ADA, "c-l", "oslo", ResultCode::COMPARE_TRUE),
        (ADA, "l", "bergen", ResultCode::COMPARE_TRUE),
        (ADA, "c-l", "London", ResultCode::COMPARE_FALSE),
        (BOB, "c-TelephoneNumber", "1", ResultCode::COMPARE_TRUE),
        (ADA, "c-TelephoneNumber", "1", ResultCode::NO_SUCH_ATTRIBUTE),
        (SUFFIX, "c-l", "oslo", ResultCode::NO_SUCH_ATTRIBUTE),
        // Only results of searches have this attribute.
        (ADA, "collectiveAttributeSubentries", PEOPLE, ResultCode::NO_SUCH_ATTRIBUTE),
    ] {
        assert_eq!(compared(&directory, entry, description, value), code, "{entry} {description} {value}");
    }
}

#[test]
fn collective_exclusions_exclude_single_types_or_all() {
    let mut directory = shared();
    let exclude = |directory: &mut TestDirectory, values: &[&str]| {
        ok(directory.modify(ADA, &[(Replace, "collectiveExclusions", values)]));
        names(directory, ADA, &["*"], false)
    };
    assert_eq!(exclude(&mut directory, &["c-l"]), ["c-TelephoneNumber"]);
    assert_eq!(exclude(&mut directory, &["2.5.4.7.1"]), ["c-TelephoneNumber"]);
    assert_eq!(exclude(&mut directory, &["l"]), ["c-TelephoneNumber", "c-l", "c-l;lang-no"]);
    for all in ["excludeAllCollectiveAttributes", "EXCLUDEALLCOLLECTIVEATTRIBUTES", "2.5.18.0"] {
        assert_eq!(exclude(&mut directory, &["c-o", all]), [""; 0]);
        let filter = "(collectiveExclusions=excludeAllCollectiveAttributes)";
        assert_eq!(leaves(&Question::everywhere(filter).run(&directory)), ["uid=ada"], "{all}");
    }
    assert_eq!(exclude(&mut directory, &[]).len(), 3);
    assert_eq!(names(&directory, BOB, &["*"], false).len(), 4, "other entries exclude nothing");
}

#[test]
fn collective_values_change_only_through_the_subentry() {
    let mut directory = shared();
    let subentry = "cn=place,ou=people,dc=example,dc=com";
    ok(directory
        .modify(subentry, &[(ChangeOperation::Delete, "c-l", &["oslo"]), (Add, "c-o", &["Example"])]));
    assert_eq!(texts(&mut directory, ADA, "c-l"), ["Bergen"]);
    assert_eq!(texts(&mut directory, ADA, "c-o"), ["Example"]);
    for (operation, code) in
        [(Add, ResultCode::OBJECT_CLASS_VIOLATION), (ChangeOperation::Delete, ResultCode::NO_SUCH_ATTRIBUTE)]
    {
        let changes: &[(ChangeOperation, &str, &[&str])] = &[(operation, "c-l", &["Bergen"])];
        assert_eq!(directory.modify(ADA, changes).code, code);
    }
    let changes: &[(ChangeOperation, &str, &[&str])] =
        &[(Add, "objectClass", &["collectiveAttributeSubentry"]), (Add, "c-l", &["Rome"])];
    refused(directory.modify(ADA, changes), ResultCode::OBJECT_CLASS_VIOLATION, "c-l is collective");
    // The subentry moves, and loses its class.
    ok(directory.modify_dn(subentry, "cn=place", false, Some("ou=groups,dc=example,dc=com")));
    assert_eq!(names(&directory, ADA, &["*"], false), [""; 0]);
    let few = "cn=few,ou=groups,dc=example,dc=com";
    assert_eq!(texts(&mut directory, few, "c-l"), ["Bergen"]);
    let subentry = "cn=place,ou=groups,dc=example,dc=com";
    let none: &[(ChangeOperation, &str, &[&str])] = &[
        (Replace, "c-l", &[]),
        (Replace, "c-l;lang-no", &[]),
        (Replace, "c-o", &[]),
        (Replace, "c-TelephoneNumber", &[]),
        (ChangeOperation::Delete, "objectClass", &["collectiveAttributeSubentry"]),
    ];
    ok(directory.modify(subentry, none));
    assert_eq!(directory.directory.collective_subentries(), (0, Vec::new()));
    let again: &[(ChangeOperation, &str, &[&str])] =
        &[(Add, "objectClass", &["collectiveAttributeSubentry"]), (Add, "c-l", &["Rome"])];
    ok(directory.modify(subentry, again));
    assert_eq!(texts(&mut directory, few, "c-l"), ["Rome"]);
    ok(directory.delete_tree("ou=groups,dc=example,dc=com"));
    assert_eq!(directory.directory.collective_subentries(), (0, Vec::new()));
}

#[test]
fn a_subtree_is_limited_by_base_and_depth() {
    let mut directory = sample();
    add_subentry(&mut directory, "cn=top,dc=example,dc=com", "{}", &[("c-o", &["Example"])]);
    let base = "{ base \"OU=People\", minimum 1, maximum 1 }";
    add_subentry(&mut directory, "cn=people,dc=example,dc=com", base, &[("c-o", &["example", "People"])]);
    add_subentry(&mut directory, "cn=none,dc=example,dc=com", "{ base \"ou=none\" }", &[("c-o", &["None"])]);
    let all =
        |directory: &mut TestDirectory| [SUFFIX, PEOPLE, ADA].map(|dn| texts(directory, dn, "c-o").join(" "));
    assert_eq!(all(&mut directory), ["Example", "Example", "Example People"]);
    // An entry receives the name of the base in the specification, and loses it again.
    ok(directory.modify_dn("ou=groups,dc=example,dc=com", "ou=none", true, None));
    let few = "cn=few,ou=none,dc=example,dc=com";
    assert_eq!(texts(&mut directory, few, "c-o"), ["Example", "None"]);
    ok(directory.modify_dn("ou=none,dc=example,dc=com", "ou=groups", true, None));
    assert_eq!(texts(&mut directory, "cn=few,ou=groups,dc=example,dc=com", "c-o"), ["Example"]);

    // An inner area adds values to those of the outer area. A specific area has only its own values.
    add_subentry(&mut directory, "cn=inner,ou=people,dc=example,dc=com", "{}", &[("c-o", &["Inner"])]);
    ok(directory.modify(PEOPLE, &[(Add, "administrativeRole", &["collectiveAttributeInnerArea"])]));
    assert_eq!(all(&mut directory), ["Example", "Inner Example", "Inner Example People"]);
    for role in ["2.5.23.5", "collectiveAttributeSpecificArea", "autonomousArea"] {
        ok(directory.modify(PEOPLE, &[(Replace, "administrativeRole", &[role])]));
        assert_eq!(all(&mut directory), ["Example", "Inner", "Inner"], "{role}");
    }
}

#[test]
fn specific_exclusions_remove_parts_of_a_subtree() {
    let mut directory = sample();
    let subentry = "cn=cut,dc=example,dc=com";
    add_subentry(&mut directory, subentry, "{}", &[("c-o", &["Example"])]);
    let all =
        ["cn=Dora+sn=Lang", "cn=all", "cn=few", "cn=odd", "dc=example", "ou=groups", "ou=people", "uid=ada"];
    for (subtree, expected) in [
        ("{ specificExclusions { chopBefore:\"ou=people\" } }", &all[1..6]),
        ("{ specificExclusions { chopAfter:\"OU=People\", chopBefore:\"ou=none\" } }", &all[1..7]),
        ("{ specificExclusions { chopAfter:\"\" } }", &["dc=example"]),
        ("{ specificExclusions { chopBefore:\"\" } }", &[]),
        (
            "{ base \"ou=groups\", specificExclusions { chopBefore:\"cn=all\", chopAfter:\"cn=few\" } }",
            &["cn=few", "cn=odd", "ou=groups"],
        ),
        (
            "{ minimum 2, specificExclusions { chopBefore:\"ou=groups\" }, specificationFilter item:posixAccount }",
            &["uid=bob", "uid=carl"],
        ),
        ("{ specificationFilter item:2.5.6.9 }", &["cn=all", "cn=few", "cn=odd"]),
        (
            "{ specificationFilter and:{ item:person, not:item:posixAccount } }",
            &["cn=Dora+sn=Lang", "uid=ada"],
        ),
        (
            "{ specificationFilter or:{ item:domain, item:groupOfNames } }",
            &["cn=all", "cn=few", "cn=odd", "dc=example"],
        ),
        ("{ specificationFilter or:{} }", &[]),
    ] {
        ok(directory.modify(subentry, &[(Replace, "subtreeSpecification", &[subtree])]));
        let found = leaves(&Question::everywhere("(c-o=*)").run(&directory));
        assert_eq!(found, expected, "{subtree}");
    }
    for subtree in ["{ specificationFilter item:nonsense }", "{ base \"nonsense=x\" }", "{ x 1 }"] {
        refused(
            directory.modify(subentry, &[(Replace, "subtreeSpecification", &[subtree])]),
            ResultCode::CONSTRAINT_VIOLATION,
            "subtreeSpecification is malformed",
        );
    }
}

#[test]
fn matched_values_sorting_and_assertions_use_collective_values() {
    let mut directory = shared();
    let with = |seldom: RareControls| RequestControls {
        seldom: Some(Box::new(seldom)),
        ..RequestControls::default()
    };
    // The matched values control selects collective values too.
    let matched_values = vec![FilterBuf::parse("(c-l=b*)").unwrap()];
    let controls = with(RareControls { matched_values, ..RareControls::default() });
    let question = Question { controls, ..Question::new(ADA, Scope::BaseObject, "(uid=*)") };
    assert_eq!(question.attributes(&["*"]).run(&directory).entries[0].texts("c-l"), ["Bergen"]);
    // With the real attributes only control, results have no collective attributes, because entries do not store
    // them.
    let controls = || {
        let origin = Some(AttributeOrigin::Stored);
        with(RareControls { origin, ..RareControls::default() })
    };
    let question = Question { controls: controls(), ..Question::new(ADA, Scope::BaseObject, "(uid=*)") };
    assert_eq!(question.attributes(&["c-l"]).run(&directory).entries[0].texts("c-l"), [""; 0]);
    let question = Question { controls: controls(), ..Question::everywhere("(l=oslo)") };
    assert_eq!(leaves(&question.run(&directory)), [""; 0]);
    // Results are sorted by collective values too, although the sort order in the settings contains only stored values.
    directory.change_settings(|settings| {
        settings.general.sort_orders = vec!["by-place: l".to_owned()];
    });
    directory.finish_indexes();
    ok(directory.modify(ADA, &[(Add, "l", &["Aachen"]), (Add, "collectiveExclusions", &["c-l"])]));
    ok(directory.modify(BOB, &[(Add, "l", &["Zurich"])]));
    let sorted = |keys: &[&str]| {
        let question = Question { controls: sort(keys), ..Question::everywhere("(objectClass=person)") };
        let found = question.run(&directory);
        found.dns().iter().map(|dn| dn.split_once(',').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(sorted(&["l"]), ["uid=ada", "uid=bob", "uid=carl", "cn=Dora+sn=Lang"]);
    assert_eq!(sorted(&["-l"]), ["cn=Dora+sn=Lang", "uid=carl", "uid=bob", "uid=ada"]);
    // The assertion of a change tests collective values too.
    for (assertion, code) in
        [("(c-l=oslo)", ResultCode::SUCCESS), ("(c-l=rome)", ResultCode::ASSERTION_FAILED)]
    {
        let assertion = Some(FilterBuf::parse(assertion).unwrap());
        let controls = with(RareControls { assertion, ..RareControls::default() });
        let mut changes = ChangesBuf::new();
        changes.push(Replace, "description", ["x"]);
        let request = Request::Modify(ModifyRequest { object: BOB, changes: changes.as_changes() });
        let stamp = directory.stamp();
        assert_eq!(directory.execute_with(&request, &controls, &stamp).code, code);
    }
    // The copy of a changed entry contains collective values.
    let asked = EntryCopyOptions { is_critical: true, selection: SelectionBuf::from_iter(["l"]) };
    let requester = Requester::Administrator { dn: "cn=admin".to_owned() };
    let id = directory.snapshot.state().entry_of(&name(&directory, BOB)).unwrap().unwrap();
    let copy = copy_of_entry(directory.snapshot.state(), &requester.context(), id, &asked).unwrap().unwrap();
    assert!(copy.windows(6).any(|octets| octets == b"Bergen"));
}

#[test]
fn synchronized_content_has_only_stored_values() {
    let mut directory = shared();
    for (filter, count) in [("(uid=*)", 3), ("(l=oslo)", 0)] {
        let mut consumer = Consumer::new(SUFFIX, filter, &["*"]);
        consumer.poll(&mut directory, |_| {});
        assert_eq!(consumer.copy.len(), count, "{filter}");
        assert!(consumer.copy.values().all(|(_, attributes)| !attributes.contains_key("c-l")));
    }
}

fn name(directory: &TestDirectory, dn: &str) -> NormalName {
    NormalName::of(&parse_dn(dn).unwrap(), &directory.snapshot.state().catalog.schema)
}

#[test]
fn rights_at_the_entry_govern_its_collective_values() {
    let mut directory = shared();
    let hidden = "cn=hidden,ou=people,dc=example,dc=com";
    add_subentry(&mut directory, hidden, "{}", &[("c-o", &["Example", "secret"]), ("c-l", &["Rome"])]);
    directory.change_settings(|settings| {
        settings.general.access_rules = [
            "all: allow read to anyone",
            "cn: deny browse at 'cn=hidden,ou=people,dc=example,dc=com' to anyone",
            "ada: deny read of c-l at 'uid=ada,ou=people,dc=example,dc=com' to anyone",
            "phone: deny read of c-TelephoneNumber to anyone",
            "values: deny read of c-o values matching '(c-o=secret*)' to anyone",
            // A filter in a rule tests only stored attributes.
            "stored: deny browse matching '(&(cn=*)(uid=*)(|(l=oslo)(c-o=*)))' to anyone",
        ]
        .map(str::to_owned)
        .to_vec();
    });
    directory.requester = Requester::Anonymous;
    let bob = directory.search(BOB, Scope::BaseObject, "(uid=*)", &["*", "+"]).entries.remove(0);
    assert_eq!(bob.texts("c-l"), ["Oslo", "Bergen", "Rome"], "the subentry need not be visible");
    assert_eq!(bob.texts("c-o"), ["Example"]);
    assert_eq!(bob.texts("c-TelephoneNumber"), [""; 0]);
    let visible = "cn=place,ou=people,dc=example,dc=com";
    assert_eq!(bob.texts("collectiveAttributeSubentries"), [visible]);
    assert_eq!(texts(&mut directory, ADA, "c-l"), [""; 0]);
    let others = ["cn=Dora+sn=Lang", "ou=people", "uid=bob", "uid=carl"];
    let all = ["cn=Dora+sn=Lang", "ou=people", "uid=ada", "uid=bob", "uid=carl"];
    for (filter, expected) in [
        ("(c-l=rome)", &others[..]),
        ("(l=rome)", &others),
        ("(c-l=*)", &others),
        ("(c-o=example)", &all),
        ("(c-o=secret)", &[]),
        ("(o=s*)", &[]),
        ("(c-TelephoneNumber=1)", &[]),
        ("(telephoneNumber=1)", &[]),
        ("(!(c-TelephoneNumber=1))", &[]),
        ("(:caseIgnoreMatch:=secret)", &[]),
        ("(collectiveAttributeSubentries=*)", &[]),
    ] {
        assert_eq!(leaves(&Question::everywhere(filter).run(&directory)), expected, "{filter}");
    }
    for (entry, description, value, code) in [
        (BOB, "c-l", "rome", ResultCode::COMPARE_TRUE),
        (BOB, "c-o", "secret", ResultCode::COMPARE_FALSE),
        (BOB, "telephoneNumber", "1", ResultCode::COMPARE_FALSE),
        (ADA, "c-l", "rome", ResultCode::INSUFFICIENT_ACCESS_RIGHTS),
        (BOB, "c-TelephoneNumber", "1", ResultCode::INSUFFICIENT_ACCESS_RIGHTS),
    ] {
        assert_eq!(compared(&directory, entry, description, value), code, "{entry} {description} {value}");
    }
    directory.requester = Requester::Administrator { dn: "cn=admin".to_owned() };
    assert_eq!(texts(&mut directory, ADA, "collectiveAttributeSubentries"), [visible, hidden]);
    ok(directory.modify(ADA, &[(Add, "collectiveExclusions", &["c-o", "c-l"])]));
    assert_eq!(texts(&mut directory, ADA, "collectiveAttributeSubentries"), [visible]);
}

#[test]
fn the_size_of_a_subentry_is_limited() {
    let mut directory = sample();
    let long = "x".repeat(COLLECTIVE_SUBENTRY_OCTETS_MAX - "{}".len());
    let values = [
        ("objectClass", &["subentry", "collectiveAttributeSubentry"][..]),
        ("subtreeSpecification", &["{}"]),
        ("c-o", &[&long, "y"]),
    ];
    refused(directory.add("cn=long,dc=example,dc=com", &values), ResultCode::ADMIN_LIMIT_EXCEEDED, "65535");
    add_subentry(&mut directory, "cn=long,dc=example,dc=com", "{}", &[("c-o", &[&long])]);
    assert_eq!(texts(&mut directory, ADA, "c-o"), [long.as_str()]);
    refused(
        directory.modify("cn=long,dc=example,dc=com", &[(Add, "c-l", &["y"])]),
        ResultCode::ADMIN_LIMIT_EXCEEDED,
        "65535",
    );
    ok(directory.delete("cn=long,dc=example,dc=com"));
    for number in 0..=COLLECTIVE_SUBENTRIES_MAX {
        let (dn, value) = (format!("cn=s{number},dc=example,dc=com"), format!("value {number}"));
        add_subentry(&mut directory, &dn, "{}", &[("c-o", &[&value])]);
    }
    assert_eq!(texts(&mut directory, ADA, "c-o").len(), COLLECTIVE_SUBENTRIES_MAX);
    let (count, notices) = directory.directory.collective_subentries();
    assert_eq!(count, COLLECTIVE_SUBENTRIES_MAX);
    assert!(notices[0].starts_with("1 collective attribute subentries have no effect"), "{notices:?}");
    ok(directory.delete("cn=s3,dc=example,dc=com"));
    assert_eq!(directory.directory.collective_subentries(), (COLLECTIVE_SUBENTRIES_MAX, Vec::new()));
}

/// Regression test: when a subentry was added during a search, the search tested the remaining entries only by their
/// stored rows or by an index.
#[test]
fn a_search_in_progress_sees_the_values_of_a_new_subentry() {
    let all = ["cn=Dora+sn=Lang", "ou=people", "uid=ada", "uid=bob", "uid=carl"];
    let after_ada = ["cn=Dora+sn=Lang", "uid=ada", "uid=bob", "uid=carl"];
    for (filter, has_index, expected) in [
        ("(l=oslo)", false, &all[..]),
        ("(l=oslo)", true, &after_ada),
        // Another attribute of the filter comes from a subentry that exists before the search.
        ("(&(l=oslo)(o=example))", true, &after_ada),
        ("(&(l=oslo)(objectClass=*))", true, &after_ada),
    ] {
        let mut directory = sample();
        // The scope contains so many entries that the search uses the index.
        for number in 0..30 {
            let dn = format!("cn=other {number},ou=groups,dc=example,dc=com");
            add(&mut directory, &dn, &[("objectClass", &["person"]), ("sn", &["x"])]);
        }
        if has_index {
            directory.define_index("l", "equality");
            directory.finish_indexes();
        }
        for dn in [ADA, "uid=carl,ou=people,dc=example,dc=com"] {
            ok(directory.modify(dn, &[(Add, "l", &["Oslo"])]));
        }
        add_subentry(&mut directory, "cn=first,ou=people,dc=example,dc=com", "{}", &[("c-o", &["Example"])]);
        let mut search = Question::everywhere(filter).start(&directory);
        let (mut out, budget) = (Vec::new(), Budget { entries_examined_max: 1, out_bytes_max: 1 << 20 });
        assert_eq!(search.run(&directory.snapshot, &mut out, &budget), Step::More);
        add_subentry(&mut directory, "cn=second,ou=people,dc=example,dc=com", "{}", &[("c-l", &["Oslo"])]);
        while search.run(&directory.snapshot, &mut out, &budget) == Step::More {}
        assert_eq!(leaves(&received(&out)), expected, "{filter}, index: {has_index}");
    }
}

/// Regression test: if the directory had a subentry, every modify and every delete read all subentries again.
#[test]
fn only_a_change_of_a_subentry_reloads_the_subentries() {
    let directory = shared();
    let subentry = "cn=place,ou=people,dc=example,dc=com";
    let state = directory.snapshot.state();
    let id = |dn: &str| state.entry_of(&name(&directory, dn)).unwrap().unwrap();
    let modify = |dn: &str, with_class_of: &str| {
        let node = state.node(id(with_class_of)).unwrap().unwrap();
        let (class_set, flags) = (node.class_set, node.flags);
        Change::Modify(Modify { id: id(dn), dn: dn.to_owned(), class_set, flags, changes: Vec::new() })
    };
    let delete = |dn: &str| {
        let (vanishing, last) = (Vec::new(), LastValue::EmptyDn);
        Change::Delete(Delete { id: id(dn), dn: dn.to_owned(), vanishing, last, is_kept: false, trace: None })
    };
    let rename = |dn: &str| {
        let (parent, rdn) = (id(SUFFIX), "cn=x".to_owned());
        Change::ModifyDn(ModifyDn { id: id(dn), old_dn: dn.to_owned(), parent, rdn, changes: Vec::new() })
    };
    let renews = |change: &Change| changes_collective(state.read, state.catalog, change).unwrap();
    for (change, expected) in [
        (modify(ADA, ADA), false),
        (modify(PEOPLE, PEOPLE), false),
        (modify(subentry, subentry), true),
        (modify(subentry, ADA), true),
        (modify(ADA, subentry), true),
        (delete(ADA), false),
        (delete(subentry), true),
        (rename(ADA), false),
        (rename(PEOPLE), false),
        (rename(subentry), true),
    ] {
        assert_eq!(renews(&change), expected, "{change:?}");
    }
    // The description of a fault contains the DN of the subentry. So the description must be renewed when an entry
    // above the subentry is renamed.
    let mut known = CollectiveSubentries::default();
    known.add_fault("subentry".to_owned());
    let mut catalog = state.catalog.clone();
    catalog.collective = Some(Arc::new(known));
    assert!(changes_collective(state.read, &catalog, &rename(PEOPLE)).unwrap());
    assert!(!changes_collective(state.read, &catalog, &delete(ADA)).unwrap());
}
