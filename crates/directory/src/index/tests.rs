//! Tests of indexes that are defined and removed while the directory changes. Searches do not use incomplete indexes,
//! and unfinished work on indexes continues after a restart.

use ldap::{ChangeOperation, ResultCode, Scope};

use crate::maintenance::check::check;
use crate::maintenance::index_build::build_indexes;
use crate::model::index_definition::{IndexKinds, IndexPart, Phase};
use crate::read::search::CandidateSource;
use crate::testing::{SUFFIX, TestDirectory};

const COUNT: u32 = 40;

fn people() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for number in 0..COUNT {
        let (cn, words) = (format!("Person {number}"), format!("Likes the number {number}"));
        let dn = format!("cn={cn},{SUFFIX}");
        let attributes: &[(&str, &[&str])] = &[
            ("objectClass", &["inetOrgPerson"]),
            ("sn", &["Person"]),
            ("description", &[&words, "Sentence"]),
            ("description;lang-en", &["Sentence", "another one"]),
        ];
        assert_eq!(directory.add(&dn, attributes).code, ResultCode::SUCCESS);
    }
    directory
}

fn assert_sound(directory: &TestDirectory) {
    assert_eq!(check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

fn phase(directory: &TestDirectory, attribute: &str, part: IndexPart) -> Phase {
    let catalog = directory.snapshot.state().catalog;
    let type_id = catalog.schema.attribute_type(attribute).unwrap().id;
    catalog.attribute(catalog.attribute_id(type_id, "").unwrap()).index.phase(part)
}

fn count(directory: &mut TestDirectory, filter: &str) -> usize {
    directory.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).entries.len()
}

/// Returns the source of the candidates of a substring search.
fn source(directory: &TestDirectory) -> CandidateSource {
    let filter = ldap::FilterBuf::parse("(description=*number 17*)").unwrap();
    let selection = ldap::SelectionBuf::new();
    let request =
        ldap::SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let controls = crate::read::controls::RequestControls::default();
    let (snapshot, requester) = (&directory.snapshot, &directory.requester);
    let search = crate::read::search::Search::start(
        snapshot,
        &requester.context(),
        ldap::MessageId(1),
        &request,
        &controls,
    );
    search.unwrap().explanation(snapshot).unwrap().unwrap().source
}

#[test]
fn an_index_is_used_only_after_its_build_is_complete() {
    let mut directory = people();
    directory.define_index("description", "substring,equality,presence");
    let mut slices = 0;
    loop {
        assert_eq!(source(&directory), CandidateSource::Scan);
        assert_eq!(phase(&directory, "description", IndexPart::Grams), Phase::Building);
        assert_eq!(count(&mut directory, "(description=*number 17*)"), 1);
        assert_sound(&directory);
        slices += 1;
        if !directory.run_index_slice(3) {
            break;
        }
    }
    assert!(slices > 10);
    assert_eq!(source(&directory), CandidateSource::Indexes);
    assert_eq!(count(&mut directory, "(description=*number 17*)"), 1);
    assert_sound(&directory);
}

#[test]
fn index_builds_continue_after_a_restart_at_any_point() {
    let mut directory = people();
    let defined = |directory: &TestDirectory| directory.directory.indexes();
    for kinds in ["substring,approximate", "equality", "none"] {
        directory.define_index("description", kinds);
        let mut reopened = 0;
        while directory.writer.maintenance_pending() {
            let before = directory.directory.index_progress().unwrap();
            directory = directory.reopen();
            assert_eq!(directory.directory.index_progress().unwrap(), before);
            assert_sound(&directory);
            directory.run_index_slice(7);
            reopened += 1;
        }
        assert!(reopened > 2, "{kinds}");
        let found = defined(&directory).into_iter().find(|(name, _)| name == "description");
        assert_eq!(found.map_or("none".to_owned(), |(_, kinds)| kinds.to_string()), kinds);
        assert_sound(&directory);
    }
    let read = directory.snapshot.state().read;
    assert_eq!(read.row_count(crate::model::rows::PIECES).unwrap(), 0);
}

#[test]
fn changes_during_the_build_are_indexed() {
    let mut directory = people();
    directory.define_index("description", "substring,presence");
    directory.run_index_slice(10);
    // In each round, replaces values of one entry, removes the values of the next entry, and deletes the entry after
    // that. The rows of the entries in the first round are already built; the rows of the entries in the second round
    // are not.
    for number in [2, 30] {
        let dn = format!("cn=Person {number},{SUFFIX}");
        let value = "Sentence about birds";
        directory.modify(&dn, &[(ChangeOperation::Replace, "description", &[value])]);
        assert_sound(&directory);
        let other = format!("cn=Person {},{SUFFIX}", number + 1);
        directory.modify(&other, &[(ChangeOperation::Delete, "description", &["Sentence"])]);
        directory.modify(&other, &[(ChangeOperation::Delete, "description;lang-en", &[])]);
        assert_sound(&directory);
        assert_eq!(directory.delete(&format!("cn=Person {},{SUFFIX}", number + 2)).code, ResultCode::SUCCESS);
        assert_sound(&directory);
    }
    directory.finish_indexes();
    assert_sound(&directory);
    assert_eq!(count(&mut directory, "(description=*about birds)"), 2);
    assert_eq!(count(&mut directory, "(description=*likes*)"), COUNT as usize - 4);
    assert_eq!(count(&mut directory, "(description=*)"), COUNT as usize + 1 - 1 - 2);
}

#[test]
fn an_index_defined_again_waits_until_its_old_rows_are_removed() {
    let mut directory = people();
    directory.define_index("description", "substring");
    directory.finish_indexes();
    directory.define_index("description", "none");
    assert_eq!(source(&directory), CandidateSource::Scan);
    directory.run_index_slice(2);
    let dn = format!("cn=Person 17,{SUFFIX}");
    directory.modify(&dn, &[(ChangeOperation::Replace, "description", &["nothing"])]);
    directory.define_index("description", "substring");
    assert_eq!(phase(&directory, "description", IndexPart::Grams), Phase::Clearing);
    assert_sound(&directory);
    directory.finish_indexes();
    assert_sound(&directory);
    assert_eq!(source(&directory), CandidateSource::Indexes);
    assert_eq!(count(&mut directory, "(description=*number 17*)"), 0);
}

#[test]
fn an_older_view_does_not_use_an_index_completed_later() {
    let mut directory = people();
    directory.define_index("description", "substring");
    let old = directory.directory.snapshot().unwrap();
    directory.finish_indexes();
    let new = directory.directory.snapshot().unwrap();
    let answers = |snapshot: &crate::snapshot::Snapshot| {
        let catalog = snapshot.state().catalog;
        catalog.attributes().iter().any(|def| def.index.answers(IndexPart::Grams))
    };
    assert!(!answers(&old) && answers(&new));
    drop(old);
}

#[test]
fn refuses_impossible_indexes_with_the_reason() {
    let mut directory = TestDirectory::with_suffix_entry();
    for (attribute, kinds, part) in [
        ("nosuch", "equality", "not defined"),
        ("member", "equality", "links to entries"),
        ("objectClass", "equality", "always indexed"),
        ("memberOf", "presence", "computed on demand"),
        ("jpegPhoto", "equality", "no equality rule"),
        ("uidNumber", "substring", "no substring rule"),
        ("mail", "approximate", "not directory strings"),
    ] {
        let stamp = directory.stamp();
        let kinds: IndexKinds = kinds.parse().unwrap();
        let error = directory.writer.define_index(attribute, kinds, &stamp).unwrap_err();
        assert!(error.to_string().contains(part), "{attribute}: {error}");
    }
    // Defining an index again without a change writes no log record.
    let position = directory.snapshot.position().unwrap();
    directory.define_index("uid", "equality,ordering");
    directory.define_index("title", "none");
    assert_eq!(directory.snapshot.position().unwrap(), position);
}

#[test]
fn building_all_rows_at_once_equals_building_slices() {
    // With little memory, most rows are written to a file.
    for memory_bytes in [20_000, 1 << 20] {
        let mut directory = people();
        directory.define_index("description", "substring,equality,presence");
        // Rows of some entries already exist. So do rows of an index that is being removed.
        assert!(directory.run_index_slice(3));
        directory.define_index("sn", "none");
        assert_eq!(phase(&directory, "sn", IndexPart::Values), Phase::Clearing);
        let folder = directory.folder();
        build_indexes(&mut directory.writer, folder.path(), memory_bytes, |_| ()).unwrap();
        directory.snapshot.renew().unwrap();
        assert_eq!(phase(&directory, "description", IndexPart::Grams), Phase::Complete);
        assert_eq!(phase(&directory, "sn", IndexPart::Values), Phase::Absent);
        assert_eq!(source(&directory), CandidateSource::Indexes);
        assert_eq!(count(&mut directory, "(description=*number 17*)"), 1);
        assert_sound(&directory);
        let directory = directory.reopen();
        assert_eq!(phase(&directory, "description", IndexPart::Grams), Phase::Complete);
        assert_sound(&directory);
    }
}
