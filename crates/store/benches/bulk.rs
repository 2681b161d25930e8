//! Cost of building a data file in bulk: appending, sorting, compacting.
//!
//! `cargo bench -p store --bench bulk`, on 2 cores of a Xeon under KVM, ext4, 2026-11-20, while compilers kept both
//! cores busy (load 9). Both ns and MB/s refer to the processor time of the measuring thread. The elapsed time was
//! about twice as long.
//!
//! | operation, a million entries | ns a row | MB/s |
//! |---|---|---|
//! | append an entry of 700 bytes | 424 | 1,669 |
//! | append an id of a unique key (60 ns of it for making the key) | 224 | 125 |
//! | append an id of a key with a hundred | 56 | 143 |
//! | append an id of a key with a million | 88 | 91 |
//! | finish, an entry (0.4 s by the clock for 883 MB) | 48 | 16,031 |
//! | compact, an entry with three ids | 1,208 | 731 |
//! | make an index row of 30 bytes | 66 | 457 |
//! | make, sort and write an index row, 64 MiB of memory | 218 | 139 |
//! | read a row from merged runs | 79 | 381 |
//! | make and take an index row into memory | 100 | 301 |
//! | sort it there, five million rows | 120 | 252 |
//! | read it | 67 | 451 |
//!
//! Sorting without making the rows is 152 ns a row: 199 MB/s. An entry with 12 index rows takes 6 us in all: half a
//! core at 80,000 entries/s.

#![allow(clippy::unwrap_used, reason = "a bench that fails reports nothing")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use fastrand::Rng;
use store::{BulkStore, MapId, MapKind, MapSpec, Options, Sorter, Store, compact};

const MAPS: &[MapSpec] =
    &[MapSpec { name: "entries", kind: MapKind::Plain }, MapSpec { name: "equal", kind: MapKind::IdSet }];
const ENTRIES: MapId = MapId::new(0);
const EQUAL: MapId = MapId::new(1);

const ENTRY_COUNT: u64 = 1_000_000;
const ENTRY_LEN: usize = 700;
/// Number of distinct names, each shared by a hundred entries. Each entry also has one unique value, and all entries
/// have the same class.
const NAME_COUNT: u64 = ENTRY_COUNT / 100;
const SORT_MEMORY_BYTES: usize = 64 << 20;
const SEED: u64 = 1;

/// Returns the nanoseconds that this thread has spent on a processor. They exclude other work on the machine.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Runs `operation`, which handles rows of `bytes` bytes in total, and prints its cost per row and its speed.
fn measure<T>(name: &str, row_count: u64, bytes: u64, operation: impl FnOnce() -> T) -> T {
    let (start, start_cpu) = (Instant::now(), cpu_ns());
    let result = operation();
    let cpu = (cpu_ns() - start_cpu) as f64;
    let clock = start.elapsed().as_nanos() as f64;
    let (row, speed) = (cpu / row_count as f64, bytes as f64 * 1_000.0 / cpu);
    println!(
        "{name:<52} {row:>8.0} ns {speed:>7.0} MB/s {:>7.0} MB/s by the clock",
        bytes as f64 * 1_000.0 / clock
    );
    result
}

fn create(directory: &Path) -> BulkStore {
    BulkStore::create(directory, MAPS, &Options::default()).unwrap()
}

fn append_entries(bulk: &mut BulkStore) {
    let mut random = Rng::with_seed(SEED);
    let mut entry = [0; ENTRY_LEN];
    random.fill(&mut entry);
    measure("append an entry of 700 bytes", ENTRY_COUNT, ENTRY_COUNT * (ENTRY_LEN as u64 + 8), || {
        for id in 0..ENTRY_COUNT {
            entry[..8].copy_from_slice(&random.u64(..).to_le_bytes());
            bulk.append(ENTRIES, &id.to_be_bytes(), &entry).unwrap();
        }
    });
}

/// Returns an index key as a directory builds it: the attribute, then the normal form of the value.
fn index_key(attribute: u32, value: &str) -> Vec<u8> {
    [&attribute.to_be_bytes()[..], value.as_bytes()].concat()
}

fn append_sets(bulk: &mut BulkStore) {
    measure("append an id of a unique key", ENTRY_COUNT, ENTRY_COUNT * 28, || {
        for id in 0..ENTRY_COUNT {
            bulk.append_ids(EQUAL, &index_key(1, &format!("user.{id:010}")), &[id]).unwrap();
        }
    });
    let mut ids = Vec::new();
    measure("append an id of a key with a hundred", ENTRY_COUNT, ENTRY_COUNT * 8, || {
        for name in 0..NAME_COUNT {
            ids.clear();
            ids.extend((0..ENTRY_COUNT / NAME_COUNT).map(|number| number * NAME_COUNT + name));
            bulk.append_ids(EQUAL, &index_key(2, &format!("name.{name:010}")), &ids).unwrap();
        }
    });
    ids.clear();
    ids.extend(0..ENTRY_COUNT);
    measure("append an id of a key with a million", ENTRY_COUNT, ENTRY_COUNT * 8, || {
        bulk.append_ids(EQUAL, &index_key(3, "person"), &ids).unwrap();
    });
}

/// Calls `take` with the five index rows of each entry, in the order of the entries.
fn index_rows(mut take: impl FnMut(&[u8], u64)) {
    let mut random = Rng::with_seed(SEED);
    for id in 0..ENTRY_COUNT {
        let number = random.u64(0..1 << 40);
        take(&index_key(1, &format!("user.{number:012}")), id);
        take(&index_key(2, &format!("user.{number:012}@example.com")), id);
        take(&index_key(3, &format!("name.{:08}", number % NAME_COUNT)), id);
        take(&index_key(4, "inetorgperson"), id);
        take(&index_key(5, &format!("{number:x} {:x}", random.u32(..))), id);
    }
}

fn sort(directory: &Path) {
    let (mut bytes, mut row_count) = (0, 0);
    index_rows(|key, _| {
        bytes += key.len() as u64 + 8;
        row_count += 1;
    });
    let mut sorter = Sorter::new(directory, SORT_MEMORY_BYTES);
    measure("make an index row", row_count, bytes, || {
        index_rows(|key, id| {
            std::hint::black_box((key, id));
        })
    });
    measure("make, sort and write an index row, 64 MiB of memory", row_count, bytes, || {
        index_rows(|key, id| sorter.push(key, &id.to_be_bytes()).unwrap());
    });
    measure("read a row from merged runs", row_count, bytes, || {
        let mut sorted = sorter.finish().unwrap();
        while let Some(row) = sorted.next().unwrap() {
            std::hint::black_box(row);
        }
    });
    let mut sorter = Sorter::new(directory, 1 << 30);
    measure("make and take an index row into memory", row_count, bytes, || {
        index_rows(|key, id| sorter.push(key, &id.to_be_bytes()).unwrap());
    });
    let mut sorted = measure("sort it there", row_count, bytes, || sorter.finish().unwrap());
    measure("read it", row_count, bytes, || while sorted.next().unwrap().is_some() {});
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() {
    let scratch = Scratch(std::env::temp_dir().join(format!("store-bulk-bench-{}", std::process::id())));
    let mut bulk = create(&scratch.0);
    append_entries(&mut bulk);
    append_sets(&mut bulk);
    measure("finish, an entry", ENTRY_COUNT, ENTRY_COUNT * 770, || bulk.finish().unwrap());
    let size = std::fs::metadata(scratch.0.join("data.mdb")).unwrap().len();
    println!("the data file has {} MB", size / 1_000_000);
    let (store, writer) = Store::open(&scratch.0, MAPS, &Options::default()).unwrap();
    drop((store, writer));
    measure("compact, an entry", ENTRY_COUNT, size, || {
        compact(&scratch.0, MAPS, &Options::default()).unwrap()
    });
    sort(&scratch.0);
}
