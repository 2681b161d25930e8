//! Tests of plans: chosen terms, numbers of candidates, missing indexes, refusals.

use ldap::{AttributesBuf, FilterBuf, MessageId, ResultCode, Scope, SearchRequest, SelectionBuf};

use super::Question;
use crate::model::settings::GeneralSettings;
use crate::read::controls::{EXPLAIN, RequestControls};
use crate::read::search::{Budget, CandidateSource, Explanation, Search, Step};
use crate::testing::{SUFFIX, TestDirectory};

const COUNT: u32 = 3_000;

/// Returns a directory with people below the suffix entry. Each person has one of three places and one of four titles,
/// assigned in turn, and a number.
fn crowd(settings: GeneralSettings) -> TestDirectory {
    let mut directory = TestDirectory::with_settings(settings);
    directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    directory.add_all(0..COUNT, |number| {
        let mut attributes = AttributesBuf::new();
        attributes.push("objectClass", ["inetOrgPerson", "posixAccount"]);
        attributes.push("cn", [format!("Person {number:04}")]);
        attributes.push("sn", [format!("Family{}", number % 50)]);
        attributes.push("l", [["Berlin", "Paris", "Rome"][number as usize % 3]]);
        attributes.push("title", [["Engineer", "Doctor", "Baker", "Smith"][number as usize % 4]]);
        attributes.push("uidNumber", [number.to_string()]);
        attributes.push("gidNumber", ["1"]);
        attributes.push("homeDirectory", ["/"]);
        if number % 100 == 0 {
            attributes.push("description", [format!("Holds the key of room {number}")]);
        }
        (format!("uid={number},{SUFFIX}"), attributes)
    });
    directory
}

fn start(
    directory: &TestDirectory,
    filter: &str,
    controls: &RequestControls,
) -> Result<Search, crate::model::outcome::Outcome> {
    let filter = FilterBuf::parse(filter).unwrap();
    let mut selection = SelectionBuf::new();
    selection.push("1.1");
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    Search::start(&directory.snapshot, &directory.requester.context(), MessageId(7), &request, controls)
}

/// Runs a search to the end, and checks that its results equal those of a scan. Returns the explanation.
fn explain(directory: &TestDirectory, filter: &str) -> Explanation {
    Question::everywhere(filter).run(directory);
    let mut search = start(directory, filter, &RequestControls::default()).unwrap();
    let budget = Budget { entries_examined_max: 100, out_bytes_max: 1 << 20 };
    while search.run(&directory.snapshot, &mut Vec::new(), &budget) == Step::More {}
    search.explanation(&directory.snapshot).unwrap().unwrap()
}

#[test]
fn the_plan_depends_on_the_defined_indexes() {
    let mut directory = crowd(GeneralSettings::default());
    for (attribute, kinds) in [
        ("l", "equality"),
        ("title", "equality"),
        ("cn", "equality,ordering,substring"),
        ("sn", "approximate"),
        ("description", "presence,substring"),
    ] {
        directory.define_index(attribute, kinds);
    }
    directory.finish_indexes();
    use CandidateSource::{Indexes, Scan};
    // Columns: filter, source, maximum number of entries examined, number of entries found.
    for (filter, source, examined_max, found) in [
        ("(cn=person 0007)", Indexes, 1, 1),
        ("(cn=*son 123*)", Indexes, 20, 10),
        ("(cn=*0007)", Indexes, 16, 1),
        ("(cn=person 012*)", Indexes, 10, 10),
        ("(cn=p*12*9)", Indexes, 300, 13),
        ("(cn=*zzz*)", Indexes, 0, 0),
        ("(description=*)", Indexes, 30, 30),
        ("(description=*key of room 2*)", Indexes, 30, 11),
        ("(description=*ey*)", Indexes, 30, 30),
        ("(sn~=family7)", Indexes, 60, 60),
        ("(cn~=pirson 0007)", Scan, COUNT + 1, 1),
        ("(&(l=paris)(title=baker))", Indexes, 250, 250),
        ("(&(objectClass=person)(title=baker)(l=berlin))", Indexes, 250, 250),
        ("(&(uidNumber>=100)(uidNumber<=119))", Indexes, 20, 20),
        ("(&(l=paris)(cn=person 0007))", Indexes, 1, 1),
        ("(|(cn=person 0007)(cn=*0008))", Indexes, 20, 2),
        ("(&(title=baker)(!(l=paris)))", Indexes, 750, 500),
        ("(|(cn=person 0007)(employeeNumber=7))", Indexes, 1, 1),
        // A poll for changed entries uses indexes that every new directory has.
        ("(|(createTimestamp>=20990101000000Z)(modifyTimestamp>=20990101000000Z))", Indexes, 0, 0),
        ("(!(l=paris))", Scan, COUNT + 1, 2_001),
        ("(objectClass=person)", Scan, COUNT + 1, COUNT),
        ("(homeDirectory=/x)", Scan, COUNT + 1, 0),
    ] {
        let explanation = explain(&directory, filter);
        assert_eq!(explanation.source, source, "{filter}: {explanation}");
        assert!(explanation.examined_count <= u64::from(examined_max), "{filter}: {explanation}");
        assert_eq!(explanation.returned_count, u64::from(found), "{filter}: {explanation}");
    }
}

#[test]
fn approximate_items_match_with_and_without_an_index() {
    let mut directory = crowd(GeneralSettings::default());
    let name = format!("uid=1,{SUFFIX}");
    directory.modify(&name, &[(ldap::ChangeOperation::Replace, "sn", &["Meyer-Lansky"])]);
    let count = |directory: &TestDirectory, filter| explain(directory, filter).returned_count;
    for indexed in [false, true] {
        if indexed {
            directory.define_index("sn", "approximate");
            directory.finish_indexes();
        }
        for (filter, found) in [
            ("(sn~=Maier)", 1),
            ("(sn~=lansky mayr)", 1),
            ("(sn~=Lanski)", 1),
            ("(sn~=Meyer Smith)", 0),
            ("(sn~=family7)", 60),
            ("(sn~=-)", 0),
            // Numbers are not compared by sound, and neither are values of other syntaxes than Directory String.
            ("(uidNumber~=12)", 1),
        ] {
            assert_eq!(count(&directory, filter), found, "{filter}, index: {indexed}");
        }
    }
    assert!(explain(&directory, "(sn~=Maier)").examined_count <= 1);
}

#[test]
fn a_missing_index_is_named() {
    let mut directory = crowd(GeneralSettings::default());
    directory.define_index("title", "equality");
    for (filter, missing) in [
        ("(uid=7)", &[][..]),
        ("(homeDirectory=/x)", &["an equality index on homeDirectory"]),
        ("(&(l=x)(description=*y*z*))", &["an equality index on l"]),
        ("(l=*aris*)", &["a substring index on l"]),
        ("(l=par*)", &["an ordering index on l"]),
        ("(title=x)", &["an equality index on title (being built)"]),
        ("(description=*)", &["a presence index on description"]),
        ("(sn~=x)", &["an approximate index on sn"]),
        ("(!(l=x))", &[]),
        ("(l=*a*)", &[]),
    ] {
        assert_eq!(explain(&directory, filter).missing, missing, "{filter}");
    }
    let text = explain(&directory, "(&(objectClass=person)(uidNumber=7))").to_string();
    assert_eq!(
        text,
        "by indexes: 1 candidates of 3001 entries\n\
         \x20 all of\n\
         \x20   object class person: 3000\n\
         *   equality of uidNumber: 1\n\
         examined: 1, returned: 1\n"
    );
}

#[test]
fn the_administrator_receives_the_plan_with_the_results() {
    let mut directory = crowd(GeneralSettings::default());
    let controls = RequestControls { explain: true, ..RequestControls::default() };
    let mut search = start(&directory, "(uid=7)", &controls).unwrap();
    assert!(search.explains());
    let clock = std::cell::Cell::new(0);
    search.measure(40, Box::new(move || clock.replace(clock.get() + 5)));
    let mut out = Vec::new();
    let budget = Budget { entries_examined_max: 100, out_bytes_max: 1 << 20 };
    assert_eq!(search.run(&directory.snapshot, &mut out, &budget), Step::Done);
    let entry = ldap::frame_len(&out).unwrap().unwrap();
    let done = ldap::ResponseMessage::decode(&out[entry..], &ldap::DecodeLimits::default()).unwrap();
    let control = done.controls.iter().next().unwrap();
    let text = std::str::from_utf8(control.value.unwrap()).unwrap();
    assert_eq!((control.oid, control.critical), (EXPLAIN, false));
    assert!(text.contains("examined: 1, returned: 1") && text.contains("plan 40, gather 5"), "{text}");
    directory.requester =
        crate::access::Requester::User { id: crate::model::rows::EntryId(1), dn: SUFFIX.to_owned() };
    let refused = start(&directory, "(uid=7)", &controls).err().unwrap();
    assert_eq!(refused.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
}

#[test]
fn users_may_not_scan_if_an_index_could_answer() {
    let settings =
        GeneralSettings { unindexed_examined_max: 500, size_limit: 0, ..GeneralSettings::default() };
    let mut directory = crowd(settings);
    let run = |directory: &TestDirectory, filter: &str| {
        let mut search = start(directory, filter, &RequestControls::default())
            .map_err(|outcome| (outcome.code, outcome.diagnostic))?;
        let mut out = Vec::new();
        let budget = Budget { entries_examined_max: 100, out_bytes_max: 1 << 20 };
        while search.run(&directory.snapshot, &mut out, &budget) == Step::More {}
        let found = crate::testing::received(&out);
        if found.code == ResultCode::SUCCESS {
            Ok(found.entries.len())
        } else {
            Err((found.code, found.diagnostic))
        }
    };
    let unindexed = "(homeDirectory=/x)";
    assert_eq!(run(&directory, unindexed), Ok(0));
    directory.requester =
        crate::access::Requester::User { id: crate::model::rows::EntryId(1), dn: SUFFIX.to_owned() };
    for (filter, expected) in [
        ("(uid=7)", Ok(1)),
        ("(objectClass=*)", Ok(COUNT as usize + 1)),
        ("(objectClass=person)", Ok(COUNT as usize)),
        ("(!(uid=7))", Ok(COUNT as usize)),
        ("(&(objectClass=person)(!(homeDirectory=/)))", Err("narrower base")),
        ("(&(objectClass=person)(homeDirectory=/x))", Err("an equality index on homeDirectory")),
        (
            unindexed,
            Err("missing: an equality index on homeDirectory (indexes.homeDirectory = [\"equality\"])"),
        ),
        (
            "(sn=*a*bcd*)",
            Err("a substring index on sn (indexes.sn = [\"equality\", \"ordering\", \"substring\"])"),
        ),
    ] {
        match (run(&directory, filter), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{filter}"),
            (Err((code, text)), Err(expected)) => {
                assert_eq!(code, ResultCode::UNWILLING_TO_PERFORM);
                assert!(text.contains(expected), "{filter}: {text}");
            }
            (found, _) => panic!("{filter}: {found:?}"),
        }
    }
}
