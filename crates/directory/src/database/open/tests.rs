//! Directories of other row formats: a directory of format 2 is read, raised, and changed row by row; a directory of a
//! later format is refused.

use std::ops::{Bound, ControlFlow};

use ldap::{ChangeOperation, Scope};
use store::{Batch, Direction};

use super::*;
use crate::maintenance::check::check;
use crate::maintenance::digest::{RowSlice, each_row};
use crate::model::entry::plain;
use crate::model::rows::{ENTRIES, EntryId, id_key};
use crate::testing::{Entry, SUFFIX, TestDirectory, ok};

const FORMAT_2: u32 = 2;
const PEOPLE: u32 = 20;

/// First octets of rows of entries without and with packed values.
const PLAIN: u8 = 2;
const PACKED: u8 = 3;

fn dn(number: u32) -> String {
    format!("cn=p{number},{SUFFIX}")
}

fn people() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for number in 0..PEOPLE {
        let classes = &["top", "person", "organizationalPerson", "inetOrgPerson"][..];
        let numbers = [format!("n{number}"), "20261127231048Z".to_owned()];
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        ok(directory.add(
            &dn(number),
            &[("objectClass", classes), ("sn", &["s"]), ("employeeType", &numbers), ("title", &["TRUE"])],
        ));
    }
    directory
}

fn change(directory: &mut TestDirectory, make: impl FnOnce(&mut Batch<'_>)) {
    let mut batch = directory.writer.begin_repair().unwrap();
    make(&mut batch);
    batch.commit().unwrap();
    directory.snapshot.renew().unwrap();
}

fn put_format(batch: &mut Batch<'_>, version: u32) {
    let mut row = versions();
    row[..4].copy_from_slice(&version.to_be_bytes());
    batch.put(META, META_FORMAT, &row).unwrap();
}

/// Converts the rows to format 2.
fn make_format_2(directory: &mut TestDirectory) {
    change(directory, |batch| {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let rows = batch.scan(ENTRIES, all, Direction::Forward).map(|row| {
            let (key, value) = row.unwrap();
            (key.to_vec(), plain(value).into_owned())
        });
        for (key, value) in rows.collect::<Vec<_>>() {
            batch.put(ENTRIES, &key, &value).unwrap();
        }
        put_format(batch, FORMAT_2);
    });
}

fn first_octet(directory: &TestDirectory, id: u64) -> u8 {
    directory.snapshot.state().read.get(ENTRIES, &id_key(EntryId(id))).unwrap().unwrap()[0]
}

fn format_of(directory: &TestDirectory) -> Vec<u8> {
    directory.snapshot.state().read.get(META, META_FORMAT).unwrap().unwrap().to_vec()
}

/// Returns the rows that nodes of a cluster compare.
fn compared(directory: &TestDirectory) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let each = &mut |_: &str, key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    assert!(each_row(&directory.snapshot, RowSlice { from: &[], to: &[] }, each).unwrap().is_continue());
    rows
}

fn entries(directory: &mut TestDirectory, filter: &str) -> Vec<Entry> {
    directory.search(SUFFIX, Scope::WholeSubtree, filter, &["*", "+"]).entries
}

const FILTERS: [&str; 6] = [
    "(objectClass=inetOrgPerson)",
    "(&(title=TRUE)(employeeType=20261127231048Z))",
    "(createTimestamp>=20000101000000Z)",
    "(entryCSN=*)",
    "(entryUUID=0*)",
    "(creatorsName=*)",
];

#[test]
fn rows_of_format_2_stay_readable_and_are_packed_on_change() {
    let mut directory = people();
    assert_eq!(format_of(&directory), versions());
    let found: Vec<_> = FILTERS.iter().map(|filter| entries(&mut directory, filter)).collect();
    let rows = compared(&directory);
    assert!((1..=21).all(|id| first_octet(&directory, id) == PACKED));

    make_format_2(&mut directory);
    assert_eq!(compared(&directory), rows);
    let mut directory = directory.reopen();
    assert_eq!(format_of(&directory), versions());
    assert!((1..=21).all(|id| first_octet(&directory, id) == PLAIN));
    for use_indexes in [true, false] {
        directory.use_indexes = use_indexes;
        for (filter, found) in FILTERS.iter().zip(&found) {
            assert_eq!(&entries(&mut directory, filter), found, "{filter}");
        }
    }
    assert_eq!(check(&directory.snapshot).unwrap(), Vec::<String>::new());

    // A twin that never had format 2 has the same rows after the same changes.
    let mut twin = people();
    for directory in [&mut directory, &mut twin] {
        directory.use_indexes = true;
        ok(directory.modify(&dn(3), &[(ChangeOperation::Add, "description", &["d"])]));
        ok(directory.modify(&dn(4), &[(ChangeOperation::Delete, "employeeType", &["20261127231048Z"])]));
        ok(directory.delete(&dn(5)));
    }
    assert_eq!(compared(&directory), compared(&twin));
    assert_eq!((2..=21).filter(|id| *id != 7 && first_octet(&directory, *id) == PACKED).count(), 2);
    for id in [5, 6] {
        let row = |directory: &TestDirectory| {
            directory.snapshot.state().read.get(ENTRIES, &id_key(EntryId(id))).unwrap().unwrap().to_vec()
        };
        assert_eq!(row(&directory), row(&twin));
    }
    assert_eq!(check(&directory.snapshot).unwrap(), Vec::<String>::new());
}

#[test]
fn a_later_row_format_is_refused() {
    let mut directory = people();
    change(&mut directory, |batch| put_format(batch, ROW_FORMAT_VERSION + 1));
    let folder = directory.folder();
    drop(directory);
    let refused = TestDirectory::open(folder, Settings::default(), &[SUFFIX], 0).err().unwrap();
    let OpenError::Version { what, found, supported } = refused else { panic!("{refused}") };
    assert_eq!((what, found, supported), ("row format", ROW_FORMAT_VERSION + 1, ROW_FORMAT_VERSION));
}
