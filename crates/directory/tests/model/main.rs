//! Random operations, compared with a simple in-memory directory. Result codes, entries, and results of random filters
//! must be the same, with and without indexes and across restarts. The rows must be consistent.
//!
//! A failure prints its seed; `PANDO_TEST_SEED=n cargo test -p directory --test model` replays that run alone.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../src/testing.rs"]
#[allow(dead_code)]
mod testing;

mod automatic;
mod dynamic_entries;
mod dynamic_groups;
mod filters;
mod limits;
mod places;
mod plain;
mod structure;
mod unique;

use std::collections::BTreeMap;

use directory::controls::RequestControls;
use directory::{Outcome, Requester, Stamp, WriteBatch};
use fastrand::Rng;
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, DeleteRequest, ModifyDnRequest, ModifyRequest,
    Request, ResultCode, Scope, UndeleteRequest,
};
use plain::{Operation, Plain};
use testing::{Entry, TestDirectory, for_seeds};

const SEEDS: u64 = 12;
const OPERATIONS: usize = 400;
const BATCH_MAX: usize = 5;

/// Reference time for times in the tests, in seconds since 1970. The test clock begins at this time.
const BEGINNING: u64 = 1_700_000_000;

#[test]
fn answers_to_random_operations_agree_with_a_model() {
    for_seeds(SEEDS, run);
}

fn run(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut directory = TestDirectory::with_suffix_entry();
    let has_integrity = rng.bool();
    if !has_integrity {
        directory.change_settings(|settings| settings.general.integrity_attributes.clear());
    }
    let keeps_deleted = rng.u32(0..4) != 0;
    if keeps_deleted {
        directory.change_settings(|settings| settings.general.keep_deleted_seconds = 1_000_000);
    }
    let mut plain = Plain::new(has_integrity, keeps_deleted);
    let mut done = 0;
    while done < OPERATIONS {
        let count = rng.usize(1..=BATCH_MAX);
        done += count;
        execute(&mut directory, &mut plain, count, &mut rng);
        change_indexes(&mut directory, &mut rng);
        if rng.u32(0..25) == 0 {
            change_settings(&mut directory, &mut rng);
        }
        if rng.u32(0..12) == 0 {
            compare(&mut directory, &plain);
            filters::compare(&mut directory, &plain, &mut rng);
        }
        if rng.u32(0..60) == 0 {
            directory = directory.reopen();
        }
    }
    compare(&mut directory, &plain);
    directory.finish_indexes();
    compare(&mut directory, &plain);
    filters::compare(&mut directory, &plain, &mut rng);
}

/// Attributes whose indexes are defined and removed, with the kinds that they can have.
const INDEXED: [(&str, &[&str]); 6] = [
    ("cn", &["equality", "ordering", "presence", "substring", "approximate"]),
    ("sn", &["equality", "presence", "substring", "approximate"]),
    ("description", &["equality", "substring", "presence"]),
    ("ou", &["equality", "substring"]),
    ("mail", &["equality", "presence", "substring"]),
    ("uidNumber", &["equality", "ordering", "presence"]),
];

/// At random, redefines an index and processes a part of the index work, so that searches run at every stage of the
/// work.
fn change_indexes(directory: &mut TestDirectory, rng: &mut Rng) {
    if rng.u32(0..20) == 0 {
        let (attribute, kinds) = INDEXED[rng.usize(0..INDEXED.len())];
        let chosen: Vec<&str> = kinds.iter().copied().filter(|_| rng.bool()).collect();
        let kinds = if chosen.is_empty() { "none".to_owned() } else { chosen.join(",") };
        directory.define_index(attribute, &kinds);
    }
    if rng.u32(0..4) == 0 {
        directory.run_index_slice(rng.usize(1..6));
    }
}

/// Changes several directory-wide settings together. No changed setting affects the entries of the test, and all
/// settings survive a restart.
fn change_settings(directory: &mut TestDirectory, rng: &mut Rng) {
    let definition = |number: u32, rule: &str| {
        let syntax = "1.3.6.1.4.1.1466.115.121.1.15";
        format!(
            "attributetype ( 1.3.6.1.4.1.32473.{number} NAME 'x{number}' EQUALITY {rule} SYNTAX {syntax} )\n"
        )
    };
    directory.change_settings(|settings| {
        settings.general.size_limit = rng.u32(..);
        settings.general.anonymous_read = rng.bool();
        let orders = [
            "names: sn, cn",
            "units: ou in 'dc=example,dc=com' matching '(objectClass=organizationalUnit)'",
            "described: description matching '(&(description=*)(!(sn=a)))'",
        ];
        let orders = orders.into_iter().filter(|_| rng.bool()).map(str::to_owned);
        settings.general.sort_orders = orders.collect();
        let suffix = format!("o={}", rng.u32(0..4));
        match settings.suffixes.iter().position(|dn| *dn == suffix) {
            Some(place) => drop(settings.suffixes.remove(place)),
            None => settings.suffixes.push(suffix),
        }
        // Adds, changes and removes types that no entry has. This changes the numbers of all later types.
        let rule = if rng.bool() { "caseIgnoreMatch" } else { "caseExactMatch" };
        let texts = (0..4).filter(|_| rng.bool()).map(|number| definition(number, rule)).collect::<String>();
        match texts.is_empty() {
            true => drop(settings.schema.remove("own")),
            false => drop(settings.schema.insert("own".to_owned(), texts)),
        }
    });
}

/// Executes random operations in one batch; each operation sees the effects of earlier operations. A transaction ends
/// with the first operation that fails, and then none of its changes are made.
fn execute(directory: &mut TestDirectory, plain: &mut Plain, count: usize, rng: &mut Rng) {
    let stamps: Vec<_> = (0..count).map(|_| directory.stamp()).collect();
    let mut batch = directory.writer.begin().unwrap();
    if rng.u32(0..3) == 0 {
        let before = plain.clone();
        let made = batch.transaction(|batch| {
            let mut codes = stamps.iter().map(|stamp| {
                let operation = plain.random(rng);
                execute_one(batch, plain, &operation, stamp)
            });
            codes.find(|code| *code != ResultCode::SUCCESS).map_or(Ok(()), Err)
        });
        if made.is_err() {
            *plain = before;
        }
    } else {
        for stamp in &stamps {
            let operation = plain.random(rng);
            execute_one(&mut batch, plain, &operation, stamp);
        }
    }
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
}

/// Executes an operation in both directories, and compares the result codes.
fn execute_one(
    batch: &mut WriteBatch<'_>,
    plain: &mut Plain,
    operation: &Operation,
    stamp: &Stamp,
) -> ResultCode {
    let requester = Requester::Administrator { dn: "cn=admin".to_owned() };
    if let Some(outcome) = execute_other(batch, &requester, operation, stamp) {
        let expected = plain.execute(operation);
        assert!(
            expected.contains(&outcome.code),
            "{operation:?}\n  {expected:?} expected, {outcome:?} found"
        );
        return outcome.code;
    }
    let mut controls = RequestControls::default();
    if let Operation::Delete { with_tree: true, .. } = operation {
        controls = testing::tree_delete();
    }
    let mut execute = |controls: &RequestControls| {
        with_request(operation, |request| batch.execute(&requester.context(), request, controls, stamp))
    };
    // The operation first runs with the no-op control and must change nothing.
    let asked = execute(&testing::no_operation(&controls));
    let outcome = execute(&controls);
    match outcome.code {
        ResultCode::SUCCESS => assert_eq!(asked.code, ResultCode::NO_OPERATION, "{operation:?}"),
        _ => assert_eq!(asked, outcome, "{operation:?}"),
    }
    let expected = plain.execute(operation);
    assert!(expected.contains(&outcome.code), "{operation:?}\n  {expected:?} expected, {outcome:?} found");
    outcome.code
}

/// Executes an operation that is not a request with controls.
fn execute_other(
    batch: &mut WriteBatch<'_>,
    requester: &Requester,
    operation: &Operation,
    stamp: &Stamp,
) -> Option<Outcome> {
    match operation {
        Operation::Undelete { dn, superior } => {
            let uuid = testing::deleted_uuid(batch.state(), dn);
            let request = UndeleteRequest { uuid, superior: superior.as_deref() };
            let outcome = batch.undelete(&requester.context(), &request, stamp);
            Some(outcome.map_or_else(|outcome| outcome, |_| Outcome::success()))
        }
        Operation::Purge { deletes } => {
            let now_micros = stamp.now_micros + (deletes + 1) * 2_000_000_000_000;
            let stamp = Stamp { now_micros, ..stamp.clone() };
            batch.make_due_changes(&stamp).unwrap();
            Some(Outcome::success())
        }
        Operation::Pass { seconds } => {
            let stamp = Stamp { now_micros: (BEGINNING + seconds) * 1_000_000, ..stamp.clone() };
            batch.make_due_changes(&stamp).unwrap();
            Some(Outcome::success())
        }
        _ => None,
    }
}

fn with_request<T>(operation: &Operation, run: impl FnOnce(&Request<'_>) -> T) -> T {
    match operation {
        Operation::Add { dn, attributes } => {
            let mut buffer = AttributesBuf::new();
            attributes.iter().for_each(|(name, values)| buffer.push(name, values));
            run(&Request::Add(AddRequest { entry: dn, attributes: buffer.as_attributes() }))
        }
        Operation::Delete { dn, .. } => run(&Request::Delete(DeleteRequest { entry: dn })),
        Operation::Modify { dn, changes } => {
            let mut buffer = ChangesBuf::new();
            changes.iter().for_each(|(kind, name, values)| buffer.push(*kind, name, values));
            run(&Request::Modify(ModifyRequest { object: dn, changes: buffer.as_changes() }))
        }
        Operation::ModifyDn { dn, new_rdn, delete_old_rdn, new_superior } => {
            run(&Request::ModifyDn(ModifyDnRequest {
                entry: dn,
                new_rdn,
                delete_old_rdn: *delete_old_rdn,
                new_superior: new_superior.as_deref(),
            }))
        }
        Operation::Until { dn, attribute, values, seconds } => {
            let end = match seconds {
                0 => "never".to_owned(),
                _ => directory::csn::generalized_time(BEGINNING + seconds),
            };
            let mut buffer = ChangesBuf::new();
            buffer.push(ChangeOperation::Add, &format!("{attribute};x-until-{end}"), values);
            run(&Request::Modify(ModifyRequest { object: dn, changes: buffer.as_changes() }))
        }
        Operation::Undelete { .. } | Operation::Purge { .. } | Operation::Pass { .. } => {
            unreachable!("they are no such requests")
        }
    }
}

/// Checks that both directories have the same content, and that the rows are sound.
fn compare(directory: &mut TestDirectory, plain: &Plain) {
    let found = directory.search(
        "",
        Scope::WholeSubtree,
        "(objectClass=*)",
        &["*", "memberOf", "isMemberOf", "numSubordinates", "valueEnd", "membershipEnd"],
    );
    assert_eq!(found.code, ResultCode::SUCCESS, "{}", found.diagnostic);
    let found: BTreeMap<String, _> = found.entries.iter().map(comparable).collect();
    let expected = plain.comparable();
    for (dn, entry) in &expected {
        assert_eq!(found.get(dn), Some(entry), "{dn}");
    }
    assert_eq!(
        found.len(),
        expected.len(),
        "{:?}",
        found.keys().filter(|dn| !expected.contains_key(*dn)).collect::<Vec<_>>()
    );
    assert_eq!(directory::check::check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

/// Content of an entry for comparison: names and values in lower case, values as sets.
type Comparable = BTreeMap<String, Vec<String>>;

fn comparable(entry: &Entry) -> (String, Comparable) {
    let attributes = entry.attributes.keys().map(|name| {
        let mut values: Vec<String> = entry.texts(name).iter().map(|value| value.to_lowercase()).collect();
        values.sort();
        (name.to_lowercase(), values)
    });
    (entry.dn.to_lowercase(), attributes.collect())
}
