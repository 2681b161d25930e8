//! Tests of the checks when a data directory is opened, and of CSNs across restarts and after the clock is set back.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use std::sync::Arc;

use directory::csn::Csn;
use directory::settings::GeneralSettings;
use directory::{NodeSettings, OpenError, Settings};
use ldap::{ChangeOperation, ResultCode, Scope};
use testing::{SUFFIX, TemporaryFolder, TestDirectory};

fn open(folder: &Arc<TemporaryFolder>, suffixes: &[&str]) -> Result<TestDirectory, OpenError> {
    TestDirectory::open(folder.clone(), Settings::default(), suffixes, 0)
}

fn refusal(opened: Result<TestDirectory, OpenError>) -> String {
    opened.map(drop).unwrap_err().to_string()
}

#[test]
fn each_impossible_suffix_has_its_message() {
    for (suffixes, part) in [
        (&["dc=a", "ou=b,dc=a"][..], "it lies above or below the suffix dc=a"),
        (&[""], "the empty DN is the root DSE"),
        (&["nonsense"], "suffix \"nonsense\""),
        (&["unknownType=x"], "is not defined"),
    ] {
        let message = refusal(open(&Arc::new(TemporaryFolder::new()), suffixes));
        assert!(message.contains(part), "{suffixes:?}: {message}");
    }
}

#[test]
fn each_impossible_setting_has_its_message() {
    let administrator = |dn: &str| Settings {
        node: NodeSettings { admin_dn: dn.to_owned(), ..NodeSettings::default() },
        ..Settings::default()
    };
    let integrity = |name: &str| Settings {
        general: GeneralSettings {
            integrity_attributes: vec![name.to_owned()],
            ..GeneralSettings::default()
        },
        ..Settings::default()
    };
    for (settings, part) in [
        (administrator("x"), "setting admin_dn"),
        (administrator(""), "the empty DN stands for anonymous"),
        (integrity("nope"), "\"nope\" is not defined"),
        (integrity("cn"), "not links to entries"),
    ] {
        let opened = TestDirectory::open(Arc::new(TemporaryFolder::new()), settings, &[SUFFIX], 0);
        let message = refusal(opened);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_second_owner_is_refused() {
    let directory = TestDirectory::new();
    // The directory is opened by its path, as another process would open it.
    let options = directory::OpenOptions {
        initial: directory::DirectorySettings::default(),
        suffixes: Vec::new(),
        node: directory::NodeSettings::default(),
        monitor: testing::no_monitor(),
        vendor_version: String::new(),
        store: store::Options::default(),
        stamp: directory::Stamp::default(),
        follows_log: false,
        becomes_replica: false,
    };
    let Err(error) = directory::Directory::open(directory.path(), options) else { panic!("opened twice") };
    assert!(error.to_string().contains("is in use by"), "{error}");
}

#[test]
fn csns_increase_in_log_order_across_restarts_and_clock_steps_back() {
    let mut directory = TestDirectory::with_suffix_entry();
    let mut last = csn(&mut directory);
    for round in 0..6 {
        // Each restart sets the test clock back to its first time.
        let folder = directory.folder();
        drop(directory);
        directory = TestDirectory::open(folder, Settings::default(), &[SUFFIX], 0).unwrap();
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
fn several_suffixes_are_searched_together_and_have_own_context_csns() {
    let folder = Arc::new(TemporaryFolder::new());
    let mut directory = open(&folder, &["dc=a", "o=b c,c=DE"]).unwrap();
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
fn the_log_keeps_the_configured_number_of_records() {
    let settings = GeneralSettings { log_records_kept: 20, ..GeneralSettings::default() };
    let mut directory = TestDirectory::with_settings(settings);
    directory.add(SUFFIX, &[("objectClass", &["domain"])]);
    for round in 0..50 {
        directory.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &[&round.to_string()])]);
    }
    let read = directory.snapshot.state().read;
    let (first, last) = (read.first_position().unwrap().unwrap(), read.position().unwrap());
    assert_eq!(last - first + 1, 20);
}
