//! Tests of reading the rows that nodes of a cluster compare, in slices.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use std::ops::ControlFlow;

use directory::digest::{RowSlice, each_row, plan, row_cost};
use ldap::ResultCode;
use testing::TestDirectory;

const SUFFIX: &str = "dc=example,dc=com";

/// Part, key and value.
type Row = (String, Vec<u8>, Vec<u8>);

/// Returns a directory with two subtrees and a group of forty members.
fn directory() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    let units = [format!("ou=people,{SUFFIX}"), format!("ou=groups,{SUFFIX}")];
    for unit in &units {
        let added = directory.add(unit, &[("objectClass", &["organizationalUnit"])]);
        assert_eq!(added.code, ResultCode::SUCCESS);
    }
    let people: Vec<String> = (0..40).map(|number| format!("cn=p{number},{}", units[0])).collect();
    for person in &people {
        let added = directory.add(person, &[("objectClass", &["person"]), ("sn", &["s"])]);
        assert_eq!(added.code, ResultCode::SUCCESS);
    }
    let members: Vec<&str> = people.iter().map(String::as_str).collect();
    let group = format!("cn=g,{}", units[1]);
    let added = directory.add(&group, &[("objectClass", &["groupOfNames"]), ("member", &members)]);
    assert_eq!(added.code, ResultCode::SUCCESS);
    directory
}

/// Returns the rows of a slice, without the rows that belong to every slice.
fn rows(directory: &TestDirectory, from: &[u8], to: &[u8]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut is_every = false;
    let each = &mut |part: &str, key: &[u8], value: &[u8]| {
        match part {
            "settings" => is_every = true,
            _ => rows.push((part.to_owned(), key.to_vec(), value.to_vec())),
        }
        ControlFlow::Continue(())
    };
    assert!(each_row(&directory.snapshot, RowSlice { from, to }, each).unwrap().is_continue());
    assert!(is_every, "settings and schema are compared at every mark");
    rows
}

fn end_of(directory: &TestDirectory, from: &[u8], bytes_max: u64) -> (Vec<u8>, u64) {
    plan(&directory.snapshot, from, bytes_max, &mut |_| ControlFlow::Continue(())).unwrap().unwrap()
}

#[test]
fn slices_contain_each_row_once_within_their_limit() {
    let directory = directory();
    let all = rows(&directory, b"", b"");
    assert!(all.iter().any(|(part, ..)| part.starts_with("ou=people,")));
    assert!(all.iter().any(|(part, ..)| part.starts_with("ou=groups,")));
    for (bytes_max, slices_min) in [(1, all.len()), (300, 20), (2_000, 4), (u64::MAX, 1)] {
        let (mut from, mut found, mut slices, mut is_within_group) = (Vec::new(), Vec::new(), 0, false);
        loop {
            let (to, bytes) = end_of(&directory, &from, bytes_max);
            let slice = rows(&directory, &from, &to);
            assert_eq!(bytes, slice.iter().map(|(_, key, value)| row_cost(key, value)).sum::<u64>());
            assert!(bytes <= bytes_max || slice.len() == 1, "{bytes} of {bytes_max}");
            found.extend(slice);
            slices += 1;
            is_within_group |=
                to.first() == Some(&b'l') && found.last().is_some_and(|row| row.1[..] == to[..13]);
            if to.is_empty() {
                break;
            }
            assert!(from < to);
            from = to;
        }
        assert_eq!(found, all, "{bytes_max}");
        assert!(slices >= slices_min, "{slices} slices of {bytes_max}");
        assert_eq!(is_within_group, bytes_max <= 2_000, "a slice ends between two members of a group");
    }
}

/// If a node stops, the thread that reads the rows must end at the next row.
#[test]
fn reading_ends_when_the_caller_stops() {
    let directory = directory();
    let stopped = plan(&directory.snapshot, b"", u64::MAX, &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!(stopped, None);
    let mut count = 0;
    let each = &mut |_: &str, _: &[u8], _: &[u8]| {
        count += 1;
        ControlFlow::Break(())
    };
    let whole = RowSlice { from: b"", to: b"" };
    assert!(each_row(&directory.snapshot, whole, each).unwrap().is_break());
    assert_eq!(count, 1);
}

/// Rows are deleted and added after a slice was planned and before it is read. Every row is still in exactly one slice.
#[test]
fn slices_stay_contiguous_despite_changes() {
    let mut directory = directory();
    let mut ends = vec![Vec::new()];
    while ends.len() == 1 || ends.last().is_some_and(|end| !end.is_empty()) {
        ends.push(end_of(&directory, ends.last().unwrap(), 600).0);
    }
    for number in 10..30 {
        let deleted = directory.delete(&format!("cn=p{number},ou=people,{SUFFIX}"));
        assert_eq!(deleted.code, ResultCode::SUCCESS);
    }
    let added = directory.add(&format!("ou=new,{SUFFIX}"), &[("objectClass", &["organizationalUnit"])]);
    assert_eq!(added.code, ResultCode::SUCCESS);
    let found: Vec<Row> = ends.windows(2).flat_map(|ends| rows(&directory, &ends[0], &ends[1])).collect();
    assert_eq!(found, rows(&directory, b"", b""));
}
