//! Data directories of earlier versions, kept in `formats/`. This version opens, verifies, exports, serves and changes
//! them.
//!
//! `store-N.tar.zst` has store format N. Its server was killed after some changes, so these changes are only in the
//! redo log. A version that changes a format adds a directory that the previous version has written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ldap::ldif::{LdifBody, LdifReader};
use ldap::{ChangeOperation, ResultCode, Scope};
use test_support::interrupted::{Interruption, Stopped};
use test_support::pando::{Start, command};
use test_support::{Pando, Scratch};

const SUFFIX: &str = "dc=example,dc=com";

/// Number of kills and of power cuts while the formats of a directory are raised.
const ROUNDS: u64 = 2;

/// Values with their attribute descriptions, by DN.
type Entries = BTreeMap<String, BTreeSet<(String, Vec<u8>)>>;

fn entries_of(ldif: &str) -> Entries {
    let mut reader = LdifReader::new(ldif.as_bytes());
    let mut entries = Entries::new();
    while let Some(record) = reader.next_record().unwrap() {
        let LdifBody::Entry(values) = record.body else { panic!("a change at line {}", record.line) };
        // Leave out hashes, which have a random salt.
        let values = values.iter().filter(|value| value.description != "userPassword");
        let values = values.map(|value| (value.description.to_owned(), value.value.to_vec())).collect();
        entries.insert(record.dn.to_owned(), values);
    }
    entries
}

/// Unpacks the directory of an earlier version as the data directory of the test.
fn unpack(name: &str, scratch: &Scratch) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats").join(name);
    let bytes = zstd::decode_all(&*fs::read(file).unwrap()).unwrap();
    tar::Archive::new(&*bytes).unpack(Pando::data(scratch)).unwrap();
}

fn export(scratch: &Scratch) -> Entries {
    let file = scratch.join("export.ldif");
    let _ = fs::remove_file(&file);
    command(&["export", "-o", file.to_str().unwrap()], Some(&Pando::data(scratch))).expect_code(0);
    entries_of(&fs::read_to_string(file).unwrap())
}

fn check(name: &str) {
    let scratch = Scratch::new(&format!("formats-{name}"));
    unpack(name, &scratch);
    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
    let expected = entries_of(include_str!("formats/expected.ldif"));
    assert_eq!(export(&scratch), expected);

    let pando = Start::bare(&scratch, "data").arguments(&["--admin-dn", test_support::ADMIN_DN]).ready();
    let mut user = pando.connect();
    let anna = format!("uid=anna,ou=people,{SUFFIX}");
    assert_eq!(user.bind(&anna, "anna-secret").unwrap().code, ResultCode::SUCCESS);
    let mut admin = pando.administrator();
    let found = admin.search(SUFFIX, Scope::WholeSubtree, "(sn=clara)", &["memberOf"]).unwrap().entries;
    assert_eq!(found[0].texts("memberOf"), [format!("cn=all,ou=groups,{SUFFIX}")]);
    let kept = admin.entry(&anna, &["entryUUID"]).unwrap().unwrap();
    assert_eq!(kept.texts("entryUUID"), ["5e2a1f6e-0000-4000-8000-000000000001"]);
    let change: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "sn", &["Maier"])];
    assert!(admin.modify(&anna, change).unwrap().is_success());
    assert!(admin.delete(&format!("uid=benedikt,ou=groups,{SUFFIX}")).unwrap().is_success());
    pando.stop();

    command(&["verify"], Some(&Pando::data(&scratch))).expect_code(0);
    let mut expected = expected;
    expected.remove(&format!("uid=benedikt,ou=groups,{SUFFIX}"));
    let person = expected.get_mut(&anna).unwrap();
    person.remove(&("sn".to_owned(), b"Huber".to_vec()));
    person.insert(("sn".to_owned(), b"Maier".to_vec()));
    assert_eq!(export(&scratch), expected);
}

#[test]
fn data_of_store_format_3_is_served() {
    check("store-3.tar.zst");
}

#[test]
fn data_of_store_format_2_is_served() {
    check("store-2.tar.zst");
}

/// A command that raises the formats of its data directory is killed, or the power fails. The data still opens, and the
/// same command then succeeds.
#[test]
fn an_interrupted_format_upgrade_can_be_repeated() {
    for name in ["store-2.tar.zst", "store-3.tar.zst"] {
        let scratch = Scratch::new(&format!("raised-{name}"));
        unpack(name, &scratch);
        let settings = scratch.write("settings.toml", "[limits]\nsize_limit = 77\n");
        let arguments = ["apply", settings.to_str().unwrap()];
        let mut apply = Interruption::of(&scratch, Some(&Pando::data(&scratch)), true, &arguments);
        apply.has_steps = true;
        let mut random = fastrand::Rng::with_seed(test_support::seed());
        let calls = apply.whole.calls;
        for _ in 0..test_support::rounds(ROUNDS) {
            assert_ne!(apply.kill_at(random.u64(1..calls)), Stopped::Done);
            apply.cut_at(random.u64(1..calls), random.u64(..));
        }
    }
}
