//! Cost of single operations of the store: reads of a million rows and their index, renewing a view, commits of groups
//! of several sizes.
//!
//! `cargo bench -p store --bench store`, on 2 cores of a Xeon under KVM, ext4, 2026-11-20, while compilers kept both
//! cores busy (load 5.7). The figures are processor time of the measuring thread, which other work increases by
//! evicting caches. The rates of commits are by the clock, and at least halve with every other process that syncs. Read
//! the costs as upper bounds, and compare them with each other.
//!
//! | operation | ns |
//! |---|---|
//! | get an entry by id, of a million entries of 700 bytes | 1,122 |
//! | ids of a unique key | 1,173 |
//! | ids of a unique key, then the entry | 2,465 |
//! | ids of a missing key | 539 |
//! | seek to a random id of a million | 938 |
//! | a million ids by blocks of 4,096 | 825,695 |
//! | scan of 100 entries | 14,972 |
//! | renew, nothing has changed | 2.0 |
//! | park and renew, nothing has changed | 28.2 |
//! | park, renew, and get: the map's root looked up anew | 299 |
//! | get among a thousand entries | 245 |
//! | durable change of two rows and a record, 1 a commit | 124,136 (258/s) |
//! | the same, 16 a commit | 18,545 (5,661/s) |
//! | the same, 128 a commit | 11,750 (18,904/s) |
//! | the same, 1,024 a commit | 11,466 (24,379/s) |
//!
//! On another machine, with a higher load, on 2026-11-22, `ids of a unique key, then the entry` takes 3,580 ns. If both
//! rows are cached it takes 934 ns, and 1,131 ns while checkpoints run.
//!
//! The last four rows were measured on 2026-11-22 with the redo log (load 7.5). The same commits written through to the
//! data file took 297,404 ns (144/s), 50,062 (1,370/s), 38,238 (3,699/s) and 29,902 (8,320/s).

#![allow(clippy::unwrap_used, reason = "a bench that fails reports nothing")]

use std::hint::black_box;
use std::ops::Bound;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use store::{Direction, MapId, MapKind, MapSpec, Options, Store, View, Writer};

const MAPS: &[MapSpec] =
    &[MapSpec { name: "entries", kind: MapKind::Plain }, MapSpec { name: "equal", kind: MapKind::IdSet }];
const ENTRIES: MapId = MapId::new(0);
const EQUAL: MapId = MapId::new(1);

const ENTRY_COUNT: u64 = 1_000_000;
const ENTRY_LEN: usize = 700;
const GROUP_ENTRY_COUNT: u64 = 20_000;
/// Number of ids in a set under one key.
const LARGE_SET: u64 = 1_000_000;
const SEED: u64 = 1;
/// Memory limit of the row cache: room for twice as many rows as the store has.
const KNOWN_BYTES: usize = 128 << 20;
const READS: u32 = 1_000_000;
const COMMIT_SECONDS: u64 = 2;

fn index_key(id: u64) -> Vec<u8> {
    format!("uid=user.{id}").into_bytes()
}

fn load(writer: &mut Writer) {
    let mut random = Rng::with_seed(SEED);
    let mut entry = [0; ENTRY_LEN];
    for group in 0..ENTRY_COUNT / GROUP_ENTRY_COUNT {
        let mut batch = writer.begin().unwrap();
        for id in group * GROUP_ENTRY_COUNT..(group + 1) * GROUP_ENTRY_COUNT {
            random.fill(&mut entry);
            batch.put(ENTRIES, &id.to_be_bytes(), &entry).unwrap();
            batch.insert_id(EQUAL, &index_key(id), id).unwrap();
        }
        batch.commit().unwrap();
    }
    let mut batch = writer.begin().unwrap();
    for id in 0..LARGE_SET {
        batch.insert_id(EQUAL, b"objectClass=person", id).unwrap();
    }
    batch.commit().unwrap();
}

/// Returns the nanoseconds that this thread has spent on a processor. They exclude other work on the machine.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Runs `operation` `count` times and prints the mean.
fn measure(name: &str, count: u32, mut operation: impl FnMut(&mut Rng)) {
    let mut random = Rng::with_seed(SEED);
    (0..count / 10).for_each(|_| operation(&mut random));
    let start = cpu_ns();
    (0..count).for_each(|_| operation(&mut random));
    println!("{name:<58} {:>10.1} ns", (cpu_ns() - start) as f64 / f64::from(count));
}

fn reads(view: &View) {
    measure("get an entry by id", READS, |random| {
        let id = random.u64(0..ENTRY_COUNT);
        black_box(view.get(ENTRIES, &id.to_be_bytes()).unwrap().unwrap()[0]);
    });
    let mut block = Vec::new();
    measure("ids of a unique key", READS, |random| {
        let key = index_key(random.u64(0..ENTRY_COUNT));
        block.clear();
        view.ids(EQUAL, &key).unwrap().next_block(&mut block, 16).unwrap();
        black_box(&block);
    });
    measure("ids of a unique key, then the entry", READS, |random| {
        let key = index_key(random.u64(0..ENTRY_COUNT));
        block.clear();
        view.ids(EQUAL, &key).unwrap().next_block(&mut block, 16).unwrap();
        black_box(view.get(ENTRIES, &block[0].to_be_bytes()).unwrap());
    });
    measure("ids of a missing key", READS, |random| {
        let key = index_key(ENTRY_COUNT + random.u64(0..ENTRY_COUNT));
        black_box(view.ids(EQUAL, &key).unwrap().estimate());
    });
    measure("seek to a random id of a million", READS, |random| {
        let mut cursor = view.ids(EQUAL, b"objectClass=person").unwrap();
        black_box(cursor.seek(random.u64(0..LARGE_SET)).unwrap());
    });
    measure("a million ids by blocks of 4,096", 200, |_| {
        let mut cursor = view.ids(EQUAL, b"objectClass=person").unwrap();
        loop {
            block.clear();
            if cursor.next_block(&mut block, 4_096).unwrap() < 4_096 {
                break;
            }
            black_box(&block);
        }
    });
    measure("scan of 100 entries", READS / 100, |random| {
        let low = random.u64(0..ENTRY_COUNT - 100).to_be_bytes();
        let range = (Bound::Included(&low[..]), Bound::Unbounded);
        for row in view.scan(ENTRIES, range, Direction::Forward).take(100) {
            black_box(row.unwrap());
        }
    });
}

/// Measures the reads of rows whose locations are in the row cache.
fn known_reads(view: &mut View) {
    view.cache_rows(KNOWN_BYTES);
    // Read each row twice, because the table evicts rows when it grows.
    for id in (0..ENTRY_COUNT).chain(0..ENTRY_COUNT) {
        black_box(view.get(ENTRIES, &id.to_be_bytes()).unwrap().unwrap()[0]);
        black_box(view.ids(EQUAL, &index_key(id)).unwrap().estimate());
    }
    measure("get an entry by id, known", READS, |random| {
        let id = random.u64(0..ENTRY_COUNT);
        black_box(view.get(ENTRIES, &id.to_be_bytes()).unwrap().unwrap()[0]);
    });
    let mut block = Vec::new();
    measure("ids of a unique key, known", READS, |random| {
        let key = index_key(random.u64(0..ENTRY_COUNT));
        block.clear();
        view.ids(EQUAL, &key).unwrap().next_block(&mut block, 16).unwrap();
        black_box(&block);
    });
    view.cache_rows(KNOWN_BYTES / 16);
    measure("get an entry by id, a table for a sixteenth", READS, |random| {
        let id = random.u64(0..ENTRY_COUNT);
        black_box(view.get(ENTRIES, &id.to_be_bytes()).unwrap().unwrap()[0]);
    });
}

/// Measures cached reads while entries change: before every 20,000 look-ups, a checkpoint writes 2,000 changed entries.
fn cached_reads_during_checkpoints(store: &Store, view: &mut View, writer: &mut Writer) {
    const CHANGES: u32 = 2_000;
    const LOOK_UPS: u32 = 20_000;
    const CHECKPOINTS: u32 = 20;
    view.cache_rows(KNOWN_BYTES);
    for id in (0..ENTRY_COUNT).chain(0..ENTRY_COUNT) {
        black_box(view.get(ENTRIES, &id.to_be_bytes()).unwrap().unwrap()[0]);
        black_box(view.ids(EQUAL, &index_key(id)).unwrap().estimate());
    }
    let mut random = Rng::with_seed(SEED);
    let mut block = Vec::new();
    let mut cpu = 0;
    for _ in 0..CHECKPOINTS {
        let mut batch = writer.begin().unwrap();
        for _ in 0..CHANGES {
            batch.put(ENTRIES, &random.u64(0..ENTRY_COUNT).to_be_bytes(), &[7; ENTRY_LEN]).unwrap();
        }
        batch.commit().unwrap();
        store.checkpoint().unwrap();
        let start = cpu_ns();
        view.renew().unwrap();
        for _ in 0..LOOK_UPS {
            let key = index_key(random.u64(0..ENTRY_COUNT));
            block.clear();
            view.ids(EQUAL, &key).unwrap().next_block(&mut block, 16).unwrap();
            black_box(view.get(ENTRIES, &block[0].to_be_bytes()).unwrap());
        }
        cpu += cpu_ns() - start;
    }
    let name = "ids of a unique key, then the entry, during checkpoints";
    println!("{name:<58} {:>10.1} ns", cpu as f64 / f64::from(CHECKPOINTS * LOOK_UPS));
}

fn renewals(view: &mut View, writer: &mut Writer) {
    measure("renew, nothing has changed", READS * 100, |_| view.renew().unwrap());
    measure("park and renew, nothing has changed", READS, |_| {
        view.park();
        view.renew().unwrap();
    });
    measure("park, renew, and get: the map's root looked up anew", READS, |random| {
        view.park();
        view.renew().unwrap();
        black_box(view.get(ENTRIES, &random.u64(0..1_000).to_be_bytes()).unwrap());
    });
    measure("get among a thousand entries", READS, |random| {
        black_box(view.get(ENTRIES, &random.u64(0..1_000).to_be_bytes()).unwrap());
    });
    let mut batch = writer.begin().unwrap();
    batch.append_record(b"one more").unwrap();
    batch.commit().unwrap();
    view.renew().unwrap();
}

/// Measures the change that a modify makes: the entry is rewritten, one index row moves, and a record of 200 bytes is
/// logged.
fn commits(store: &Store, writer: &mut Writer, group: u32) {
    let mut random = Rng::with_seed(u64::from(group));
    let mut entry = [0; ENTRY_LEN];
    store.checkpoint().unwrap();
    let (start, start_cpu, start_all) = (Instant::now(), cpu_ns(), process_figures());
    let mut changes = 0;
    while start.elapsed() < Duration::from_secs(COMMIT_SECONDS) {
        let mut batch = writer.begin().unwrap();
        for _ in 0..group {
            let id = random.u64(0..ENTRY_COUNT);
            random.fill(&mut entry);
            batch.put(ENTRIES, &id.to_be_bytes(), &entry).unwrap();
            batch.remove_id(EQUAL, &index_key(id), id).unwrap();
            batch.insert_id(EQUAL, &index_key(id), id).unwrap();
            batch.append_record(&entry[..200]).unwrap();
            changes += 1;
        }
        batch.commit().unwrap();
    }
    let rate = f64::from(changes) / start.elapsed().as_secs_f64();
    let name = format!("durable change of two rows and a record, {group} a commit");
    println!("{name:<58} {:>10.1} ns {rate:>8.0}/s", (cpu_ns() - start_cpu) as f64 / f64::from(changes));
    store.checkpoint().unwrap();
    let all = process_figures();
    let [cpu, bytes] = [0, 1].map(|place| (all[place] - start_all[place]) as f64 / f64::from(changes));
    println!(
        "{:<58} {:>10.1} ns {:>8.1} KiB written",
        "  with its part of the checkpoints",
        cpu * 1e7,
        bytes / 1024.0
    );
}

/// Returns the processor time of the whole process, in hundredths of a second, and the bytes that it has written.
fn process_figures() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    [fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap(), written.parse().unwrap()]
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() {
    let scratch = Scratch(std::env::temp_dir().join(format!("store-bench-{}", std::process::id())));
    let (store, mut writer) = Store::open(&scratch.0, MAPS, &Options::default()).unwrap();
    let start = Instant::now();
    load(&mut writer);
    let seconds = start.elapsed().as_secs_f64();
    let used_mb = store.facts().unwrap().used_bytes >> 20;
    println!("loaded {ENTRY_COUNT} entries and {LARGE_SET} ids in {seconds:.1} s, {used_mb} MiB");
    store.checkpoint().unwrap();
    let mut view = store.view().unwrap();
    reads(&view);
    renewals(&mut view, &mut writer);
    known_reads(&mut view);
    cached_reads_during_checkpoints(&store, &mut view, &mut writer);
    drop(view);
    for group in [1, 16, 128, 1024] {
        commits(&store, &mut writer, group);
    }
}
