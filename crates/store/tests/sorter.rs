//! Tests that compare the sorter with the sort of the standard library. The sorter has so little memory that it writes
//! many runs.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use std::fs;

use fastrand::Rng;
use scratch::Scratch;
use store::{Options, Sorted, Sorter, StoreError};

type Row = (Vec<u8>, Vec<u8>);

fn random_rows(random: &mut Rng, count: usize) -> Vec<Row> {
    let common = vec![b'x'; random.usize(0..200)];
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..count {
        let text = |random: &mut Rng, most| (0..random.usize(0..=most)).map(|_| random.u8(..)).collect();
        let row: Row = match random.u32(0..20) {
            0 => (text(random, 3), vec![random.u8(..); random.usize(0..5_000)]),
            1 => (text(random, 700), Vec::new()),
            2 if !rows.is_empty() => rows[random.usize(..rows.len())].clone(),
            3 if !rows.is_empty() => (rows[random.usize(..rows.len())].0.clone(), text(random, 20)),
            4 => (Vec::new(), text(random, 10)),
            5..10 => (vec![random.u8(0..2); random.usize(0..20)], text(random, 1)),
            10..15 => ([&common[..], &text(random, 4)[..]].concat(), text(random, 8)),
            _ => (text(random, 30), text(random, 8)),
        };
        rows.push(row);
    }
    rows
}

fn all(mut sorted: Sorted) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some((key, value)) = sorted.next().unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    assert_eq!(sorted.next().unwrap(), None, "the end is final");
    rows
}

/// Sorts the rows with several sorters and compares the result.
fn check(random: &mut Rng, mut rows: Vec<Row>, memory_bytes: &[usize]) {
    let scratch = Scratch::new();
    let new = |bytes: &usize| Sorter::new(scratch.path(), *bytes);
    let mut sorters: Vec<Sorter> = memory_bytes.iter().map(new).collect();
    for (key, value) in &rows {
        let index = random.usize(..sorters.len());
        sorters[index].push(key, value).unwrap();
    }
    // The files are unlinked, so no file can be left over.
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    let sorted = all(Sorter::merge(sorters).unwrap());
    rows.sort();
    assert!(sorted == rows, "{} rows, memory {memory_bytes:?}", rows.len());
}

#[test]
fn rows_are_sorted_with_any_amount_of_memory() {
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let count = random.usize(0..3_000);
        let rows = random_rows(&mut random, count);
        for memory_bytes in [0, 1_000, 20_000, 300_000, 1 << 26] {
            check(&mut random, rows.clone(), &[memory_bytes]);
        }
    }
}

#[test]
fn several_sorters_are_merged() {
    let mut random = Rng::with_seed(1);
    for memory_bytes in
        [&[1_000, 1_000, 1_000][..], &[1 << 20, 1 << 20], &[500, 1 << 20, 5_000, 1 << 20], &[1 << 20; 9]]
    {
        for count in [0, 1, 5, 4_000] {
            let rows = random_rows(&mut random, count);
            check(&mut random, rows, memory_bytes);
        }
    }
    let mut sorted = Sorter::merge(Vec::new()).unwrap();
    assert_eq!(sorted.next().unwrap(), None);
}

#[test]
fn sorts_rows_longer_than_the_memory_and_the_buffers() {
    let mut random = Rng::with_seed(2);
    let lengths = [3 << 20, 70_000, 1, 1 << 20, (1 << 20) - 5, 65_536, 65_521, 0];
    let rows: Vec<Row> =
        lengths.iter().map(|&length| (vec![random.u8(..); length], vec![random.u8(..); length])).collect();
    for memory_bytes in [0, 100_000, 100 << 20] {
        check(&mut random, rows.clone(), &[memory_bytes]);
        check(&mut random, rows.clone(), &[memory_bytes; 2]);
    }
}

#[test]
fn threads_fill_sorters_of_their_own() {
    let scratch = Scratch::new();
    let directory = scratch.path();
    let filled = |seed: u64| {
        let mut random = Rng::with_seed(seed);
        let mut sorter = Sorter::new(directory, 50_000);
        let rows = random_rows(&mut random, 5_000);
        rows.iter().for_each(|(key, value)| sorter.push(key, value).unwrap());
        (sorter, rows)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|seed| scope.spawn(move || filled(seed))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (sorters, rows): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let mut expected: Vec<Row> = rows.into_iter().flatten().collect();
    expected.sort();
    assert!(all(Sorter::merge(sorters).unwrap()) == expected);
}

#[test]
fn reports_a_full_disk_and_a_missing_directory() {
    let scratch = Scratch::new();
    let options = Options { reserve_bytes: u64::MAX, ..Options::default() };
    let mut sorter = Sorter::with_options(scratch.path(), 1_000, &options);
    let error = (0..100u32).find_map(|number| sorter.push(&number.to_be_bytes(), &[1; 30]).err()).unwrap();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");

    let mut sorter = Sorter::new(&scratch.path().join("missing"), 1_000);
    let error = (0..100u32).find_map(|number| sorter.push(&number.to_be_bytes(), &[1; 30]).err()).unwrap();
    assert!(error.to_string().contains("data directory"), "{error}");
}

#[test]
fn skips_file_names_left_by_a_crash() {
    let scratch = Scratch::new();
    for number in 0..3 {
        fs::write(scratch.path().join(format!("data.sort-{number}")), "left").unwrap();
    }
    let mut sorter = Sorter::new(scratch.path(), 100);
    (0..50u32).rev().for_each(|number| sorter.push(&number.to_be_bytes(), b"").unwrap());
    assert_eq!(all(sorter.finish().unwrap()).len(), 50);
    assert_eq!(fs::read(scratch.path().join("data.sort-0")).unwrap(), b"left");
}
