//! Tests that `apply` is idempotent: replaying all records after any earlier position leaves the same rows.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use std::ops::Bound;
use std::sync::Arc;

use directory::apply::apply;
use directory::backup::{BackupSource, Moment, Replay, Until, read_back, restore_rows};
use directory::catalog::Catalog;
use directory::controls::RequestControls;
use directory::index::maintenance::{SliceBudget, run_slice};
use directory::record::Record;
use directory::replicated::LogRow;
use directory::rows::MAPS;
use directory::{
    Directory, DirectorySettings, NodeSettings, OpenOptions, RecordRoom, Requester, Stamp, WriteBatch,
};
use ldap::{AddRequest, AttributesBuf, ChangeOperation, Request, ResultCode};
use schema::Schema;
use store::{Direction, MapId, MapKind, Read, Store};
use testing::{TemporaryFolder, TestDirectory};

/// Returns all rows of all maps, in a form that is readable in a failure message.
fn rows(read: &Read) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    for (index, map) in MAPS.iter().enumerate() {
        if map.kind == MapKind::Plain {
            for row in read.scan(MapId::new(index), all, Direction::Forward) {
                let (key, value) = row.unwrap();
                // These rows do not come from the log. The rows are written once, or are counted locally.
                if !matches!(key, b"format" | b"generation" | b"index version") {
                    rows.push((map.name, key.to_vec(), value.to_vec()));
                }
            }
        } else {
            for row in read.scan_keys(MapId::new(index), all, Direction::Forward) {
                let (key, _) = row.unwrap();
                let mut ids = Vec::new();
                read.ids(MapId::new(index), key).unwrap().next_block(&mut ids, usize::MAX).unwrap();
                rows.extend(ids.iter().map(|id| (map.name, key.to_vec(), id.to_be_bytes().to_vec())));
            }
        }
    }
    rows
}

fn records(read: &Read) -> Vec<(u64, Record)> {
    let decode = |bytes: &[u8]| Record::decode(bytes).unwrap();
    read.log_records(1).map(|row| row.map(|(position, bytes)| (position, decode(bytes))).unwrap()).collect()
}

/// Creates a log with three kinds of events: names pass to other entries; links become text, and text becomes links;
/// large values and tables of values change.
fn with_eventful_log() -> TestDirectory {
    let mut d = TestDirectory::with_suffix_entry();
    let base = "dc=example,dc=com";
    let ok =
        |outcome: directory::Outcome| assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    for unit in ["x", "y"] {
        ok(d.add(&format!("ou={unit},{base}"), &[("objectClass", &["organizationalUnit"])]));
    }
    let large = "l".repeat(3_000);
    let numbers: Vec<String> = (0..100).map(|number| format!("{number:05}")).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let person: &[(&str, &[&str])] =
        &[("objectClass", &["inetOrgPerson"]), ("sn", &["S", "T"]), ("description", &[&large])];
    let group: &[(&str, &[&str])] = &[
        ("objectClass", &["groupOfNames"]),
        ("member", &["cn=a,ou=x,dc=example,dc=com", "cn=b,ou=y,dc=example,dc=com"]),
    ];
    ok(d.add(&format!("cn=g,{base}"), group));
    ok(d.add(&format!("cn=a,ou=x,{base}"), person));
    ok(d.add(&format!("cn=h,{base}"), group));
    let names: &[&str] = &["cn=a,ou=x,dc=example,dc=com", "cn=else,ou=x,dc=example,dc=com", "cn=nobody"];
    for group in ["g", "h"] {
        let until = "member;x-until-20970101000000Z";
        ok(d.modify(&format!("cn={group},{base}"), &[(ChangeOperation::Add, until, names)]));
    }
    ok(d.modify(&format!("cn=a,ou=x,{base}"), &[(ChangeOperation::Add, "telephoneNumber", &numbers)]));
    ok(d.modify_dn(&format!("ou=x,{base}"), "ou=z", true, Some(&format!("ou=y,{base}"))));
    ok(d.modify_dn(&format!("cn=a,ou=z,ou=y,{base}"), "cn=b", false, Some(&format!("ou=y,{base}"))));
    ok(d.modify_dn(&format!("ou=z,ou=y,{base}"), "ou=x", true, Some(base)));
    ok(d.modify_dn(&format!("ou=y,{base}"), "ou=y", true, Some(&format!("ou=x,{base}"))));
    ok(d.modify(
        &format!("cn=b,ou=y,ou=x,{base}"),
        &[(ChangeOperation::Delete, "telephoneNumber", &numbers[..80])],
    ));
    let other: &[&str] = &["cn=other,ou=x,dc=example,dc=com"];
    let linked: &[&str] = &["cn=b,ou=y,ou=x,dc=example,dc=com"];
    ok(d.modify(
        &format!("cn=g,{base}"),
        &[(ChangeOperation::Add, "member", other), (ChangeOperation::Delete, "member", linked)],
    ));
    ok(d.delete(&format!("cn=b,ou=y,ou=x,{base}")));
    ok(d.modify_dn(&format!("ou=y,ou=x,{base}"), "ou=y", true, Some(base)));
    ok(d.modify(
        &format!("cn=g,{base}"),
        &[(ChangeOperation::Replace, "member", &["cn=b,ou=y,dc=example,dc=com"])],
    ));
    ok(d.add(&format!("cn=b,ou=y,{base}"), person));
    ok(d.modify(
        &format!("cn=b,ou=y,{base}"),
        &[(ChangeOperation::Replace, "description", &["short", &large])],
    ));
    ok(d.modify_dn(&format!("cn=b,ou=y,{base}"), "cn=B+sn=S", true, None));
    ok(d.add(&format!("cn=b,ou=y,{base}"), person));
    change_settings_of_every_kind(&mut d);
    d.define_index("description", "substring,presence");
    d.define_index("sn", "equality,approximate");
    ok(d.delete(&format!("cn=h,{base}")));
    ok(d.add(&format!("cn=h,{base}"), group));
    d.define_index("givenName", "none");
    d.define_index("telephoneNumber", "equality,substring");
    d.define_index("cn", "substring");
    ok(d.add(&format!("cn=i,{base}"), person));
    d.define_index("sn", "none");
    d.define_index("cn", "equality,ordering");
    convert_values_to_links(&mut d);
    delete_and_add_trees(&mut d);
    undelete_entries(&mut d);
    let until = "member;x-until-20231115000000Z";
    let soon: &[(&str, &[&str])] =
        &[("objectClass", &["groupOfNames"]), (until, &[base, "cn=soon"]), ("seeAlso", &[base])];
    ok(d.add(&format!("cn=ending,{base}"), soon));
    // Each record of this log has a different time, so only one tombstone is due.
    d.change_settings(|settings| settings.general.keep_deleted_seconds = 1_000_000);
    assert!(d.make_due_changes(100_000));
    d.finish_indexes();
    assert_eq!(directory::check::check(&d.snapshot).unwrap(), Vec::<String>::new());
    d
}

/// Returns the members of a group to which the test gives an end time (expiration time).
fn group_members(group: &str) -> &'static [&'static str] {
    match group {
        "cn=in,ou=k" => &["cn=one,ou=l,ou=k,dc=example,dc=com"],
        _ => &["cn=one,ou=l,ou=k,dc=example,dc=com", "cn=two,ou=k,dc=example,dc=com"],
    }
}

/// Deletes entries, restores them with other names, as whole trees and as parts of trees, more than once. In between,
/// changes the groups of the deleted entries and removes some tombstones.
fn undelete_entries(d: &mut TestDirectory) {
    let base = testing::SUFFIX;
    let ok =
        |outcome: directory::Outcome| assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    let keep = |d: &mut TestDirectory, seconds| {
        d.change_settings(|settings| settings.general.keep_deleted_seconds = seconds);
    };
    keep(d, 60);
    for place in ["ou=k", "ou=l,ou=k", "ou=m"] {
        ok(d.add(&format!("{place},{base}"), &[("objectClass", &["organizationalUnit"])]));
    }
    let group: &[(&str, &[&str])] = &[
        ("objectClass", &["groupOfNames"]),
        ("member", &["cn=one,ou=l,ou=k,dc=example,dc=com", "cn=two,ou=k,dc=example,dc=com"]),
        ("seeAlso", &["cn=one,ou=l,ou=k,dc=example,dc=com"]),
    ];
    ok(d.add(&format!("cn=in,ou=k,{base}"), group));
    ok(d.add(&format!("cn=out,ou=m,{base}"), group));
    for group in ["cn=in,ou=k", "cn=out,ou=m"] {
        let changes: &[(ChangeOperation, &str, &[&str])] = &[
            (ChangeOperation::Add, "member;x-until-20970101000000Z", group_members(group)),
            (
                ChangeOperation::Add,
                "seeAlso;x-until-20970101000000Z",
                &["cn=one,ou=l,ou=k,dc=example,dc=com"],
            ),
        ];
        ok(d.modify(&format!("{group},{base}"), changes));
    }
    let large = "l".repeat(3_000);
    let person: &[(&str, &[&str])] = &[
        ("objectClass", &["inetOrgPerson"]),
        ("sn", &["S", "T"]),
        ("description", &[&large]),
        ("manager", &["cn=two,ou=k,dc=example,dc=com"]),
    ];
    ok(d.add(&format!("cn=one,ou=l,ou=k,{base}"), person));
    ok(d.add(&format!("cn=two,ou=k,{base}"), person));
    ok(d.delete(&format!("cn=two,ou=k,{base}")));
    ok(d.modify_dn(&format!("ou=k,{base}"), "ou=n", true, None));
    d.undelete(&format!("cn=two,ou=k,{base}"), None).unwrap();
    ok(d.delete_tree(&format!("ou=n,{base}")));
    d.undelete(&format!("cn=one,ou=l,ou=n,{base}"), Some(&format!("ou=m,{base}"))).unwrap();
    ok(d.modify(
        &format!("cn=out,ou=m,{base}"),
        &[(ChangeOperation::Replace, "member", &["cn=other,dc=example,dc=com"])],
    ));
    ok(d.delete(&format!("cn=one,ou=m,{base}")));
    d.undelete(&format!("ou=n,{base}"), None).unwrap();
    d.undelete(&format!("cn=one,ou=m,{base}"), Some(&format!("ou=l,ou=n,{base}"))).unwrap();
    ok(d.delete(&format!("cn=two,ou=n,{base}")));
    ok(d.delete(&format!("cn=one,ou=l,ou=n,{base}")));
    keep(d, 0);
    assert!(d.make_due_changes(0));
    keep(d, 60);
    ok(d.delete_tree(&format!("ou=n,{base}")));
    ok(d.add(&format!("ou=n,{base}"), &[("objectClass", &["organizationalUnit"])]));
    d.undelete(&format!("ou=l,ou=n,{base}"), Some(&format!("ou=m,{base}"))).unwrap();
    ok(d.delete(&format!("ou=n,{base}")));
    d.undelete(&format!("ou=n,{base}"), None).unwrap();
    keep(d, 0);
    ok(d.delete(&format!("ou=n,{base}")));
}

/// Deletes trees with links into, out of and across them, and adds entries with the same names. One entry is moved out
/// of its tree before the tree is deleted.
fn delete_and_add_trees(d: &mut TestDirectory) {
    let base = testing::SUFFIX;
    let unit = [("objectClass", &["organizationalUnit"][..])];
    let person = |manager: &'static [&'static str]| {
        [("objectClass", &["inetOrgPerson"][..]), ("sn", &["S"]), ("manager", manager)]
    };
    for round in 0..2 {
        for place in ["ou=t", "ou=u,ou=t", "ou=v,ou=u,ou=t"] {
            assert_eq!(d.add(&format!("{place},{base}"), &unit).code, ResultCode::SUCCESS);
        }
        let first = person(&["cn=out,dc=example,dc=com", "cn=two,ou=u,ou=t,dc=example,dc=com"]);
        assert_eq!(d.add(&format!("cn=one,ou=v,ou=u,ou=t,{base}"), &first).code, ResultCode::SUCCESS);
        let second = person(&["cn=one,ou=v,ou=u,ou=t,dc=example,dc=com"]);
        assert_eq!(d.add(&format!("cn=two,ou=u,ou=t,{base}"), &second).code, ResultCode::SUCCESS);
        let moved = d.modify_dn(&format!("cn=two,ou=u,ou=t,{base}"), "cn=out", true, Some(base));
        assert_eq!(moved.code, ResultCode::SUCCESS);
        assert_eq!(d.delete_tree(&format!("ou=t,{base}")).code, ResultCode::SUCCESS);
        assert!(d.read(&format!("ou=u,ou=t,{base}")).is_none());
        if round == 0 {
            assert_eq!(d.delete_tree(&format!("cn=out,{base}")).code, ResultCode::SUCCESS);
        }
    }
}

/// Converts text values to links. A client changes some of the entries first, some deleted entries are restored, and
/// the writer converts the others. Meanwhile the entries that the values name are renamed and deleted.
fn convert_values_to_links(d: &mut TestDirectory) {
    let base = testing::SUFFIX;
    let ok =
        |outcome: directory::Outcome| assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    let schema = |d: &mut TestDirectory, extension: &str| {
        let text = format!(
            "attributetype ( 1.3.6.1.4.1.32473.5 NAME 'boss' EQUALITY distinguishedNameMatch SYNTAX \
             1.3.6.1.4.1.1466.115.121.1.12 {extension} )"
        );
        d.change_settings(|settings| drop(settings.schema.insert("boss".to_owned(), text)));
    };
    schema(d, "");
    d.change_settings(|settings| settings.general.keep_deleted_seconds = 60);
    let many: Vec<String> = (0..50).map(|number| format!("cn=m{number},{base}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let led = |bosses| [("objectClass", &["device", "extensibleObject"][..]), ("boss", bosses)];
    let few = &["cn=led1,dc=example,dc=com", "cn=else,dc=example,dc=com"][..];
    for number in 0..4 {
        ok(d.add(&format!("cn=led{number},{base}"), &led(few)));
    }
    ok(d.add(&format!("cn=m3,{base}"), &led(&many)));
    ok(d.add(&format!("cn=gone,{base}"), &led(few)));
    ok(d.delete(&format!("cn=gone,{base}")));
    ok(d.delete(&format!("cn=led3,{base}")));
    schema(d, "X-LINK 'TRUE'");
    let change: &[(ChangeOperation, &str, &[&str])] =
        &[(ChangeOperation::Add, "boss", &["cn=led2,dc=example,dc=com"])];
    ok(d.modify(&format!("cn=led0,{base}"), change));
    ok(d.modify_dn(&format!("cn=led1,{base}"), "cn=lead", true, None));
    ok(d.delete(&format!("cn=led0,{base}")));
    d.undelete(&format!("cn=gone,{base}"), None).unwrap();
    ok(d.add(&format!("cn=led1,{base}"), &led(few)));
    assert!(d.make_due_changes(0));
    d.undelete(&format!("cn=led3,{base}"), None).unwrap();
    ok(d.modify_dn(&format!("cn=led1,{base}"), "cn=other", true, None));
    ok(d.delete(&format!("cn=m3,{base}")));
    d.change_settings(|settings| settings.general.keep_deleted_seconds = 0);
    assert!(d.make_due_changes(0));
}

/// Changes settings of every kind: suffixes, a schema that entries use, a schema whose matching rules change, limits,
/// and several settings together.
fn change_settings_of_every_kind(d: &mut TestDirectory) {
    let colour = |rule: &str| {
        format!(
            "attributetype ( 1.3.6.1.4.1.32473.1 NAME 'colour' EQUALITY {rule} SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"
        )
    };
    let base = testing::SUFFIX;
    d.change_settings(|settings| {
        settings.suffixes = vec!["o=first".to_owned(), base.to_owned(), "o=x".to_owned()]
    });
    d.change_settings(|settings| drop(settings.schema.insert("own".to_owned(), colour("caseExactMatch"))));
    d.change_settings(|settings| {
        settings.general.size_limit = 5;
        settings.indexes.insert("colour".to_owned(), "equality".parse().unwrap());
        settings.suffixes.retain(|dn| dn != "o=first");
    });
    // No entry has the attribute yet, so its matching rules may change. Its number stays the same.
    d.change_settings(|settings| drop(settings.schema.insert("own".to_owned(), colour("caseIgnoreMatch"))));
    let coloured: &[(&str, &[&str])] =
        &[("objectClass", &["organization", "extensibleObject"]), ("colour", &["Red"])];
    assert_eq!(d.add("o=x", coloured).code, ResultCode::SUCCESS);
    d.change_settings(|settings| {
        settings.suffixes.push("o=late".to_owned());
        settings.general.integrity_attributes = vec!["owner".to_owned()];
        settings.indexes.remove("colour");
    });
    assert_eq!(d.delete("o=x").code, ResultCode::SUCCESS);
    d.change_settings(|settings| settings.suffixes.retain(|dn| dn != "o=x"));
}

/// A separate store that applies `records` once, in order.
struct Replica {
    writer: store::Writer,
    store: Store,
    catalog: Arc<Catalog>,
    _folder: TemporaryFolder,
}

impl Replica {
    fn of(records: &[(u64, Record)]) -> Replica {
        let folder = TemporaryFolder::new();
        let options =
            store::Options { reserve_bytes: 0, map_bytes: Some(1 << 28), ..store::Options::default() };
        let (store, writer) = Store::open(folder.path(), MAPS, &options).unwrap();
        let mut replica =
            Replica { writer, store, catalog: Arc::new(Catalog::new(Schema::shipped())), _folder: folder };
        replica.replay(records);
        replica
    }

    fn replay(&mut self, records: &[(u64, Record)]) {
        let mut batch = self.writer.begin().unwrap();
        for (position, record) in records {
            apply(&mut batch, &mut self.catalog, *position, record)
                .unwrap_or_else(|error| panic!("record {position}: {error}"));
        }
        batch.commit().unwrap();
    }

    fn rows(&mut self) -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
        let mut batch = self.writer.begin().unwrap();
        while run_slice(&mut batch, &mut self.catalog, &SliceBudget::default(), &mut || ()).unwrap() {}
        batch.commit().unwrap();
        rows(&self.store.view().unwrap())
    }
}

#[test]
fn a_second_store_that_applies_the_log_has_the_same_rows() {
    let directory = with_eventful_log();
    let state = directory.snapshot.state();
    assert_eq!(Replica::of(&records(state.read)).rows(), rows(state.read));
}

#[test]
fn records_replayed_after_any_earlier_position_change_nothing() {
    let directory = with_eventful_log();
    let records = records(directory.snapshot.state().read);
    let mut replica = Replica::of(&records);
    let expected = replica.rows();
    for from in 0..records.len() {
        replica.replay(&records[from..]);
        for (found, expected) in replica.rows().iter().zip(&expected) {
            assert_eq!(found, expected, "replayed from record {}", records[from].0);
        }
        assert_eq!(replica.rows().len(), expected.len(), "replayed from record {}", records[from].0);
    }
}

/// After each record, some records are applied again, as after a crash between writing the log and writing the rows.
/// This must leave the rows unchanged, so that the next records find the same rows as in a store that never stopped.
#[test]
fn a_store_stopped_anywhere_in_the_log_reaches_the_same_rows() {
    let directory = with_eventful_log();
    let records = records(directory.snapshot.state().read);
    let expected = Replica::of(&records).rows();
    let mut replica = Replica::of(&[]);
    for stop in 1..=records.len() {
        replica.replay(&records[stop - 1..stop]);
        let before = rows(&replica.store.view().unwrap());
        replica.replay(&records[stop / 2..stop]);
        let again = rows(&replica.store.view().unwrap());
        assert_eq!(again, before, "stopped after record {}", records[stop - 1].0);
    }
    assert_eq!(replica.rows(), expected);
}

#[test]
fn applying_groups_of_another_node_gives_the_same_rows() {
    let mut decided = with_eventful_log();
    let records: Vec<Vec<u8>> =
        decided.snapshot.state().read.log_records(1).map(|row| row.unwrap().1.to_vec()).collect();
    // Both directories begin with the same first record.
    let mut follower = TestDirectory::new();
    for (first, group) in (1..).step_by(3).zip(records.chunks(3)) {
        // Each group is applied twice, because a node reads the log again after a crash.
        for _ in 0..2 {
            let cursor = (first + group.len() as u64).to_be_bytes();
            let group = group.iter().map(Vec::as_slice);
            let log_rows: &[LogRow<'_>] = &[(b"cursor", Some(&cursor)), (b"gone", None)];
            follower.writer.apply_group(first, group, log_rows).unwrap();
        }
    }
    follower.snapshot.renew().unwrap();
    decided.finish_indexes();
    follower.finish_indexes();
    let mut found = rows(follower.snapshot.state().read);
    let of_log: Vec<_> = found.extract_if(.., |row| row.1.starts_with(b"replication ")).collect();
    assert_eq!(of_log.len(), 1, "{of_log:?}");
    assert_eq!(found, rows(decided.snapshot.state().read));
    assert_eq!(follower.directory.log_rows().unwrap(), [(b"cursor".to_vec(), of_log[0].2.clone())]);
}

fn rows_of(directory: &directory::Directory) -> Vec<u8> {
    let mut bytes = Vec::new();
    BackupSource::of(directory).unwrap().write_rows(&mut bytes).unwrap();
    bytes
}

fn records_of(directory: &directory::Directory, from: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    BackupSource::of(directory).unwrap().write_records(from, &mut bytes).unwrap();
    bytes
}

/// Restores a directory from rows and from the records up to `until`, and completes its indexes. Returns the directory
/// and the moment that the restore reached.
fn restore(rows: &[u8], records: &[u8], until: Until) -> (TestDirectory, Moment) {
    let folder = Arc::new(TemporaryFolder::new());
    restore_rows(&mut &rows[..], folder.path(), [7; 16]).unwrap();
    let mut replay = Replay::open(folder.path(), until, Stamp::default()).unwrap();
    let has_later = replay.apply(&mut &records[..]).unwrap();
    let moment = replay.finish().unwrap();
    assert_eq!(has_later, moment.position < read_back(&mut &records[..]).unwrap().position);
    let mut directory = TestDirectory::open(folder, directory::Settings::default(), &[], 0).unwrap();
    directory.finish_indexes();
    (directory, moment)
}

#[test]
fn a_backup_can_be_restored_at_every_moment() {
    let original = with_eventful_log();
    let log = records(original.snapshot.state().read);
    // Both directories begin with the same first record.
    let first = rows_of(&TestDirectory::new().directory);
    let changes = records_of(&original.directory, 2);
    let last = log.last().unwrap().0;
    assert_eq!(read_back(&mut &changes[..]).unwrap().records, last - 1);
    let mut replica = Replica::of(&[]);
    let (mut base, mut rest) = (first.clone(), changes.clone());
    for (index, (position, record)) in log.iter().enumerate() {
        replica.replay(&log[index..=index]);
        let expected = replica.rows();
        // Each change has a different time. A change that first converts values of its entry to links has two records
        // with one time.
        let micros = record.csn.micros;
        let is_last = log.iter().all(|(other, of)| other <= position || of.csn.micros != micros);
        let until = match position % 2 == 1 && is_last {
            false => Until { position: *position, ..Until::END },
            true => Until { micros, ..Until::END },
        };
        let expect = |rows_before: &[u8], records: &[u8]| {
            let (found, moment) = restore(rows_before, records, until);
            assert_eq!((moment.position, moment.micros), (*position, micros));
            assert_eq!(moment.generation, [7; 16], "a new one");
            assert_eq!(rows(found.snapshot.state().read), expected, "at position {position}");
            found
        };
        // Rows from the middle of the log can be restored too, not only the first rows.
        let found = expect(&base, &rest);
        (base, rest) = (rows_of(&found.directory), records_of(&original.directory, position + 1));
        if position.is_multiple_of(16) || *position == last {
            expect(&first, &changes);
            let (end, _) = restore(&base, &rest, Until::END);
            assert_eq!(rows(end.snapshot.state().read), rows(original.snapshot.state().read));
            assert_eq!(directory::check::check(&end.snapshot).unwrap(), Vec::<String>::new());
        }
    }
}

/// A restore never accepts a cut stream as complete. A changed stream causes neither a panic nor a large allocation.
#[test]
fn a_cut_or_changed_stream_is_refused() {
    let original = with_eventful_log();
    for whole in [rows_of(&original.directory), records_of(&original.directory, 2)] {
        let seen = read_back(&mut &whole[..]).unwrap();
        assert_eq!(seen.position, original.snapshot.position().unwrap());
        for length in (0..whole.len()).step_by(whole.len() / 500 + 1) {
            assert!(read_back(&mut &whole[..length]).is_err(), "cut at {length}");
        }
        assert!(read_back(&mut &[&whole[..], b"\0"].concat()[..]).is_err(), "more after the end");
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let mut bytes = whole.clone();
            let place = random.usize(..bytes.len());
            bytes[place] ^= 1 << random.u8(..8);
            // The checksum of the backup file detects changed bytes. This test only requires that a changed stream
            // causes no panic and no large use of memory.
            let folder = TemporaryFolder::new();
            if place.is_multiple_of(20) && restore_rows(&mut &bytes[..], folder.path(), [7; 16]).is_err() {
                assert!(!store::has_data_file(folder.path()).unwrap());
            }
            drop(read_back(&mut &bytes[..]));
        }
    }
    let lies = [&[2, 0, 1, 255, 255, 255, 255][..], b"k"].concat();
    assert!(read_back(&mut &lies[..]).is_err());
}

/// A backup does not contain the state that a node keeps about the shared log.
#[test]
fn a_backup_of_a_node_restores_a_standalone_directory() {
    let mut node = with_eventful_log();
    node.writer.apply_group(1, [], &[(b"cursor", Some(b"1"))]).unwrap();
    let no_records = records_of(&node.directory, node.snapshot.position().unwrap() + 1);
    let (mut found, _) = restore(&rows_of(&node.directory), &no_records, Until::END);
    assert_eq!(found.directory.log_rows().unwrap(), []);
    assert_eq!(found.delete("cn=h,dc=example,dc=com").code, ResultCode::SUCCESS, "it can be changed");
}

#[test]
fn an_out_of_order_or_damaged_group_leaves_no_trace() {
    let mut d = TestDirectory::with_suffix_entry();
    let before = rows(d.snapshot.state().read);
    let position = d.snapshot.position().unwrap();
    let record = d.snapshot.state().read.log_records(position).last().unwrap().unwrap().1.to_vec();
    for (first, group) in [(position + 2, vec![&record[..]]), (position + 1, vec![&record[..], b"no record"])]
    {
        let refused = d.writer.apply_group(first, group, &[(b"cursor", Some(b"c"))]).unwrap_err();
        assert!(refused.to_string().contains("of the log"), "{refused}");
        d.snapshot.renew().unwrap();
        assert_eq!(rows(d.snapshot.state().read), before);
    }
}

/// Adds an organizational unit in an open batch.
fn add_unit(batch: &mut WriteBatch<'_>, requester: &Requester, name: &str, stamp: &Stamp) -> ResultCode {
    let dn = format!("ou={name},{}", testing::SUFFIX);
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["organizationalUnit"].iter());
    let request = Request::Add(AddRequest { entry: &dn, attributes: attributes.as_attributes() });
    batch.execute(&requester.context(), &request, &RequestControls::default(), stamp).code
}

#[test]
fn a_batch_stays_open_until_its_records_are_accepted() {
    let mut d = TestDirectory::with_suffix_entry();
    let position = d.snapshot.position().unwrap();
    let stamps = [d.stamp(), d.stamp(), d.stamp()];
    let before = rows(d.snapshot.state().read);
    for is_accepted in [false, true] {
        let mut batch = d.writer.begin().unwrap();
        batch.limit_records(RecordRoom::of_bytes(1_000), 0);
        assert_eq!(add_unit(&mut batch, &d.requester, "a", &stamps[0]), ResultCode::SUCCESS);
        assert_eq!(batch.take_rejected_room(), None);
        assert_eq!(add_unit(&mut batch, &d.requester, &"b".repeat(900), &stamps[1]), ResultCode::BUSY);
        assert!(batch.take_rejected_room().is_some_and(|room| room.bytes > 900), "its record has no room");
        assert_eq!(batch.take_rejected_room(), None, "reported once");
        assert_eq!(add_unit(&mut batch, &d.requester, "c", &stamps[2]), ResultCode::SUCCESS);
        assert_eq!(batch.position().unwrap(), position + 2, "a refused change left no record");
        let records = batch.records(position).unwrap();
        assert_eq!(records.len(), 2);
        assert!(records.iter().all(|record| Record::decode(record).is_some()));
        d.snapshot.renew().unwrap();
        assert_eq!(rows(d.snapshot.state().read), before, "an open batch is invisible");
        if is_accepted {
            batch.put_log_rows(&[(b"cursor", Some(b"1"))]).unwrap();
            batch.commit().unwrap();
        }
    }
    d.snapshot.renew().unwrap();
    assert_eq!(d.snapshot.position().unwrap(), position + 2);
    assert!(d.read(&format!("ou=c,{}", testing::SUFFIX)).is_some());
}

#[test]
fn a_node_refuses_changes_that_are_not_in_its_log() {
    let mut d = TestDirectory::with_suffix_entry();
    d.writer.apply_group(1, [], &[(b"cursor", Some(b"1"))]).unwrap();
    let folder = d.folder();
    drop(d);
    let options = |suffixes: &[&str]| OpenOptions {
        initial: DirectorySettings::default(),
        suffixes: suffixes.iter().map(|suffix| suffix.to_string()).collect(),
        node: NodeSettings::default(),
        monitor: testing::no_monitor(),
        vendor_version: String::new(),
        store: store::Options { reserve_bytes: 0, map_bytes: Some(1 << 28), ..store::Options::default() },
        stamp: Stamp::default(),
        follows_log: false,
        becomes_replica: false,
    };
    let (directory, mut writer) = Directory::open(folder.path(), options(&[])).unwrap();
    let Err(refused) = writer.begin() else { panic!("a batch was begun on a node without its log") };
    assert!(refused.to_string().contains("is a node of a cluster"), "{refused}");
    drop((directory, writer));
    // Opening the directory is refused if it would have to write changes, such as a new suffix.
    let options = OpenOptions { follows_log: true, ..options(&["o=other"]) };
    let Err(refused) = Directory::open(folder.path(), options) else { panic!("it has another suffix") };
    assert!(refused.to_string().contains("another suffix"), "{refused}");
}
