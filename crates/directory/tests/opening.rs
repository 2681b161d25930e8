//! What opening a data directory checks, and CSNs across restarts and clocks that step back.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use std::sync::Arc;

use directory::csn::Csn;
use directory::{OpenError, Settings};
use ldap::{ChangeOperation, ResultCode, Scope};
use schema::{Schema, SchemaBuilder};
use testing::{SUFFIX, TemporaryFolder, TestDirectory};

/// The shipped schema and one type more.
fn schema_with(definition: &str) -> Arc<Schema> {
    let mut builder = SchemaBuilder::shipped();
    builder.add_text("extra.schema", definition).unwrap();
    builder.build().unwrap()
}

const COLOUR: &str = "attributetype ( 1.3.6.1.4.1.99999.7.1 NAME 'colour' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
const EXACT: &str = "attributetype ( 1.3.6.1.4.1.99999.7.1 NAME 'colour' EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";

fn open(
    folder: &Arc<TemporaryFolder>,
    schema: Arc<Schema>,
    suffixes: &[&str],
) -> Result<TestDirectory, OpenError> {
    TestDirectory::open(folder.clone(), Settings::default(), schema, suffixes, 0)
}

/// A folder with one entry that has a colour.
fn coloured() -> Arc<TemporaryFolder> {
    let folder = Arc::new(TemporaryFolder::new());
    let mut directory = open(&folder, schema_with(COLOUR), &[SUFFIX]).unwrap();
    let attributes: &[(&str, &[&str])] =
        &[("objectClass", &["domain", "extensibleObject"]), ("colour", &["Red"])];
    let outcome = directory.add(SUFFIX, attributes);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    folder
}

fn refusal(opened: Result<TestDirectory, OpenError>) -> String {
    opened.map(drop).unwrap_err().to_string()
}

#[test]
fn a_definition_may_not_change_its_rules_while_values_exist() {
    let folder = coloured();
    let message = refusal(open(&folder, schema_with(EXACT), &[SUFFIX]));
    assert!(message.contains("attribute type colour has values stored under"), "{message}");
    // The old definition still opens it.
    open(&folder, schema_with(COLOUR), &[SUFFIX]).unwrap();
}

#[test]
fn a_definition_may_change_its_rules_once_no_entry_has_the_attribute() {
    let folder = coloured();
    let mut directory = open(&folder, schema_with(COLOUR), &[SUFFIX]).unwrap();
    assert_eq!(
        directory.modify(SUFFIX, &[(ChangeOperation::Delete, "colour", &[])]).code,
        ResultCode::SUCCESS
    );
    drop(directory);
    let mut directory = open(&folder, schema_with(EXACT), &[SUFFIX]).unwrap();
    assert_eq!(
        directory.modify(SUFFIX, &[(ChangeOperation::Add, "colour", &["Red"])]).code,
        ResultCode::SUCCESS
    );
    drop(directory);
    let mut directory = open(&folder, schema_with(EXACT), &[SUFFIX]).unwrap();
    assert_eq!(directory.search(SUFFIX, Scope::BaseObject, "(colour=red)", &["1.1"]).entries.len(), 0);
    drop(directory);
    refusal(open(&folder, schema_with(COLOUR), &[SUFFIX]));
}

#[test]
fn a_definition_in_use_may_not_go() {
    let message = refusal(open(&coloured(), Schema::shipped(), &[SUFFIX]));
    assert!(message.contains("1.3.6.1.4.1.99999.7.1 is used by entries but not defined"), "{message}");
}

#[test]
fn each_impossible_suffix_has_its_message() {
    for (suffixes, part) in [
        (&["dc=a", "ou=b,dc=a"][..], "it lies above or below the suffix dc=a"),
        (&[""], "the empty DN is the root DSE"),
        (&["nonsense"], "suffix \"nonsense\""),
        (&["unknownType=x"], "is not defined"),
    ] {
        let message = refusal(open(&Arc::new(TemporaryFolder::new()), Schema::shipped(), suffixes));
        assert!(message.contains(part), "{suffixes:?}: {message}");
    }
}

#[test]
fn each_impossible_setting_has_its_message() {
    let settings = Settings::default();
    for (settings, part) in [
        (Settings { admin_dn: "x".to_owned(), ..settings.clone() }, "setting admin_dn"),
        (Settings { admin_dn: String::new(), ..settings.clone() }, "the empty DN stands for anonymous"),
        (
            Settings { integrity_attributes: vec!["nope".to_owned()], ..settings.clone() },
            "\"nope\" is not defined",
        ),
        (
            Settings { integrity_attributes: vec!["cn".to_owned()], ..settings.clone() },
            "not links to entries",
        ),
    ] {
        let opened =
            TestDirectory::open(Arc::new(TemporaryFolder::new()), settings, Schema::shipped(), &[SUFFIX], 0);
        let message = refusal(opened);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_second_owner_is_refused() {
    let directory = TestDirectory::new();
    let settings = Settings::default();
    // Opened by its path, as another process would.
    let options = directory::OpenOptions {
        schema: Schema::shipped(),
        suffixes: Vec::new(),
        settings,
        monitor: testing::no_monitor(),
        vendor_version: String::new(),
        store: store::Options::default(),
        stamp: directory::Stamp::default(),
    };
    let Err(error) = directory::Directory::open(directory.path(), options) else { panic!("opened twice") };
    assert!(error.to_string().contains("is in use by"), "{error}");
}

#[test]
fn csns_increase_in_log_order_across_restarts_and_clock_steps_back() {
    let mut directory = TestDirectory::with_suffix_entry();
    let mut last = csn(&mut directory);
    for round in 0..6 {
        // Each restart begins with the clock at its start again.
        let folder = directory.folder();
        drop(directory);
        directory =
            TestDirectory::open(folder, Settings::default(), Schema::shipped(), &[SUFFIX], 0).unwrap();
        let text = format!("round {round}");
        let outcome = directory.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &[&text])]);
        assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
        let now = csn(&mut directory);
        assert!(now > last, "{now} after {last}");
        last = now;
        assert_eq!(directory.read(SUFFIX).unwrap().texts("contextCSN"), [now.to_string()]);
    }
}

fn csn(directory: &mut TestDirectory) -> Csn {
    let text = directory.read(SUFFIX).unwrap().texts("entryCSN").pop().unwrap();
    Csn::parse(&text).unwrap()
}

#[test]
fn several_suffixes_are_searched_from_the_empty_dn_and_have_their_own_context_csn() {
    let folder = Arc::new(TemporaryFolder::new());
    let mut directory = open(&folder, Schema::shipped(), &["dc=a", "o=b c,c=DE"]).unwrap();
    directory.add("dc=a", &[("objectClass", &["domain"])]);
    let first = directory.read("dc=a").unwrap().texts("contextCSN");
    let outcome = directory.add("o=B  C, c=de", &[("objectClass", &["organization"])]);
    assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    let found = directory.search("", Scope::WholeSubtree, "(objectClass=*)", &["1.1"]);
    assert_eq!(found.dns().len(), 2, "{found:?}");
    assert_eq!(directory.read("dc=a").unwrap().texts("contextCSN"), first);
    assert_ne!(directory.read("o=b c,c=DE").unwrap().texts("contextCSN"), first);
    assert_eq!(directory::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn the_log_keeps_what_the_setting_says() {
    let settings = Settings { log_records_kept: 20, ..Settings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    directory.add(SUFFIX, &[("objectClass", &["domain"])]);
    for round in 0..50 {
        directory.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &[&round.to_string()])]);
    }
    let read = directory.snapshot.state().read;
    let (first, last) = (read.first_position().unwrap().unwrap(), read.position().unwrap());
    assert_eq!(last - first + 1, 20);
}
