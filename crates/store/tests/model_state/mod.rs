//! A model of a store, made of plain collections, random batches for both, and the comparison of the two.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

use fastrand::Rng;
use store::{Batch, Direction, Position, Read, Result};

use crate::scratch::{ROWS, SETS};

type Bytes = Vec<u8>;

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Put(Bytes, Bytes),
    DeleteRow(Bytes),
    Insert(Bytes, u64),
    Remove(Bytes, u64),
    DeleteSet(Bytes),
    Bump(Bytes, i64),
    Append(Bytes),
    Trim(Position, usize),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) rows: BTreeMap<Bytes, Bytes>,
    pub(crate) sets: BTreeMap<Bytes, BTreeSet<u64>>,
    pub(crate) counts: BTreeMap<Bytes, i64>,
    pub(crate) log: BTreeMap<Position, Bytes>,
}

/// Returns one of about a hundred keys of very different lengths. The number is so small that keys occur repeatedly.
pub(crate) fn key(random: &mut Rng) -> Bytes {
    let number = random.u16(0..150);
    let length = match number % 10 {
        0 => 511,
        1 => 1,
        few => few as usize * 3,
    };
    let mut key = number.to_be_bytes().repeat(length.div_ceil(2));
    key.truncate(length);
    key
}

fn value(random: &mut Rng) -> Bytes {
    let length = match random.u32(0..100) {
        0 => random.usize(0..60_000),
        1..10 => random.usize(1_800..4_200),
        _ => random.usize(0..80),
    };
    vec![random.u8(..); length]
}

pub(crate) fn operation(random: &mut Rng) -> Operation {
    let key = key(random);
    match random.u32(0..100) {
        0..30 => Operation::Put(key, value(random)),
        30..40 => Operation::DeleteRow(key),
        40..70 => Operation::Insert(key, random.u64(0..5_000)),
        70..80 => Operation::Remove(key, random.u64(0..5_000)),
        80 => Operation::DeleteSet(key),
        81..90 => Operation::Bump(key, random.i64(-2..=2)),
        90..99 => Operation::Append(value(random)),
        _ => Operation::Trim(random.u64(0..2_000), random.usize(0..20)),
    }
}

impl Model {
    pub(crate) fn position(&self) -> Position {
        self.log.keys().next_back().copied().unwrap_or(0)
    }

    /// Applies the operation and returns its result as a number: a boolean, a count or a position.
    pub(crate) fn apply(&mut self, operation: &Operation) -> i64 {
        match operation {
            Operation::Put(key, value) => {
                self.rows.insert(key.clone(), value.clone());
                0
            }
            Operation::DeleteRow(key) => i64::from(self.rows.remove(key).is_some()),
            Operation::Insert(key, id) => i64::from(self.sets.entry(key.clone()).or_default().insert(*id)),
            Operation::Remove(key, id) => {
                let removed = self.sets.get_mut(key).is_some_and(|ids| ids.remove(id));
                self.sets.retain(|_, ids| !ids.is_empty());
                i64::from(removed)
            }
            Operation::DeleteSet(key) => i64::from(self.sets.remove(key).is_some()),
            Operation::Bump(key, delta) => {
                let count = self.counts.get(key).unwrap_or(&0) + delta;
                self.counts.insert(key.clone(), count);
                count
            }
            Operation::Append(record) => {
                let position = self.position() + 1;
                self.log.insert(position, record.clone());
                position as i64
            }
            Operation::Trim(before, rows_max) => {
                let before = *before.min(&self.position());
                let trimmed: Vec<_> = self.log.range(..before).take(*rows_max).map(|(at, _)| *at).collect();
                trimmed.iter().for_each(|position| drop(self.log.remove(position)));
                trimmed.len() as i64
            }
        }
    }
}

/// Applies the same operation to a store.
pub(crate) fn apply(batch: &mut Batch<'_>, operation: &Operation) -> Result<i64> {
    Ok(match operation {
        Operation::Put(key, value) => batch.put(ROWS, key, value).map(|()| 0)?,
        Operation::DeleteRow(key) => i64::from(batch.delete(ROWS, key)?),
        Operation::Insert(key, id) if id % 2 == 1 && !batch.contains_id(SETS, key, *id)? => {
            batch.insert_new_id(SETS, key, *id).map(|()| 1)?
        }
        Operation::Insert(key, id) => i64::from(batch.insert_id(SETS, key, *id)?),
        Operation::Remove(key, id) => i64::from(batch.remove_id(SETS, key, *id)?),
        Operation::DeleteSet(key) => i64::from(batch.delete(SETS, key)?),
        Operation::Bump(key, delta) => batch.bump(key, *delta)?,
        Operation::Append(record) => batch.append_record(record)? as i64,
        Operation::Trim(before, rows_max) => batch.trim_log(*before, *rows_max)? as i64,
    })
}

pub(crate) fn ids(read: &Read, key: &[u8]) -> Vec<u64> {
    let mut ids = Vec::new();
    read.ids(SETS, key).unwrap().next_block(&mut ids, usize::MAX).unwrap();
    ids
}

/// Compares everything in the store with everything in the model.
pub(crate) fn compare(read: &Read, model: &Model) {
    let all = (Unbounded, Unbounded);
    let mut rows: Vec<_> = read.scan(ROWS, all, Direction::Forward).map(|row| row.unwrap()).collect();
    assert!(rows.iter().copied().eq(model.rows.iter().map(|(key, value)| (&key[..], &value[..]))), "rows");
    rows.reverse();
    assert!(read.scan(ROWS, all, Direction::Backward).map(|row| row.unwrap()).eq(rows), "rows, backward");
    let keys: Vec<_> = read.scan_keys(SETS, all, Direction::Forward).map(|row| row.unwrap()).collect();
    let expected: Vec<_> = model.sets.iter().map(|(key, ids)| (&key[..], ids.len() as u64)).collect();
    assert_eq!(keys, expected, "keys of sets");
    for (key, expected) in &model.sets {
        assert!(ids(read, key).iter().eq(expected), "ids of {key:?}");
    }
    for (key, count) in &model.counts {
        assert_eq!(read.count(key).unwrap(), *count, "count of {key:?}");
    }
    let log: Vec<_> = read.log_records(0).map(|record| record.unwrap()).collect();
    assert!(
        log.iter().copied().eq(model.log.iter().map(|(position, record)| (*position, &record[..]))),
        "log"
    );
    assert_eq!(read.position().unwrap(), model.position());
    assert_eq!(read.first_position().unwrap(), model.log.keys().next().copied());
    assert_eq!(read.row_count(ROWS).unwrap(), model.rows.len() as u64);
    let id_count: usize = model.sets.values().map(BTreeSet::len).sum();
    assert_eq!(read.row_count(SETS).unwrap(), id_count as u64);
}

/// Compares the results of some random queries.
pub(crate) fn compare_some(read: &Read, model: &Model, random: &mut Rng) {
    let (one, other) = (key(random), key(random));
    assert_eq!(read.get(ROWS, &one).unwrap(), model.rows.get(&one).map(|value| &value[..]));
    assert_eq!(read.count(&one).unwrap(), model.counts.get(&one).copied().unwrap_or(0));

    let (low, high) = (one.clone().min(other.clone()), one.clone().max(other));
    if low < high {
        let range = (Included(&low[..]), Excluded(&high[..]));
        let expected = model.rows.range::<[u8], _>(range).map(|(key, value)| (&key[..], &value[..]));
        assert!(read.scan(ROWS, range, Direction::Forward).map(|row| row.unwrap()).eq(expected.clone()));
        assert!(read.scan(ROWS, range, Direction::Backward).map(|row| row.unwrap()).eq(expected.rev()));
        let range = (Excluded(&low[..]), Included(&high[..]));
        let expected = model.sets.range::<[u8], _>(range).map(|(key, ids)| (&key[..], ids.len() as u64));
        assert!(read.scan_keys(SETS, range, Direction::Forward).map(|row| row.unwrap()).eq(expected.clone()));
        assert!(read.scan_keys(SETS, range, Direction::Backward).map(|row| row.unwrap()).eq(expected.rev()));
    }

    let none = Default::default();
    let ids = model.sets.get(&one).unwrap_or(&none);
    let mut cursor = read.ids(SETS, &one).unwrap();
    assert_eq!(cursor.estimate(), ids.len() as u64);
    for _ in 0..5 {
        let (at_least, limit) = (random.u64(0..5_100), random.usize(0..1_500));
        assert_eq!(cursor.seek(at_least).unwrap(), ids.range(at_least..).next().copied());
        assert_eq!(read.contains_id(SETS, &one, at_least).unwrap(), ids.contains(&at_least));
        let mut block = Vec::new();
        cursor.next_block(&mut block, limit).unwrap();
        assert!(block.iter().eq(ids.range(at_least..).take(limit)));
    }
}
