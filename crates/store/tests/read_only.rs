//! Tests of a store that one process reads while another process writes it, and of the operations that each process
//! must refuse because of the other.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod scratch;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use scratch::{MAPS, ROWS, SETS, Scratch};
use store::{
    BulkStore, MapKind, MapSpec, OpenError, Options, Read, ReadOnlyStore, Store, StoreError, Writer,
};

const CHILD_DIRECTORY: &str = "STORE_READ_ONLY_DIRECTORY";
const CHILD_ROLE: &str = "STORE_READ_ONLY_ROLE";
const ROW_COUNT: u32 = 10;

/// Writes a state that differs from every other state and from any mixture of two: every value is the number of the
/// batch.
fn write_next(writer: &mut Writer) -> u64 {
    let mut batch = writer.begin().unwrap();
    let number = batch.append_record(b"record").unwrap();
    for row in 0..ROW_COUNT {
        batch.put(ROWS, &row.to_be_bytes(), &number.to_be_bytes().repeat(400)).unwrap();
    }
    batch.delete(SETS, b"number").unwrap();
    batch.insert_id(SETS, b"number", number).unwrap();
    batch.bump(b"count", 1).unwrap();
    batch.commit().unwrap()
}

/// Returns the number of the batch whose state this is, after checking that the state is complete.
fn number(read: &Read) -> u64 {
    let number = read.position().unwrap();
    for row in 0..ROW_COUNT {
        let expected = number.to_be_bytes().repeat(400);
        assert_eq!(read.get(ROWS, &row.to_be_bytes()).unwrap(), Some(&expected[..]));
    }
    let mut ids = read.ids(SETS, b"number").unwrap();
    assert_eq!((ids.seek(0).unwrap(), ids.estimate()), (Some(number), 1));
    assert_eq!(read.count(b"count").unwrap(), number as i64);
    assert_eq!(read.log_records(1).collect::<store::Result<Vec<_>>>().unwrap().len() as u64, number);
    number
}

/// Runs as the other process: performs one step for each line that it reads, and prints a line after the step. Does
/// nothing in an ordinary test run.
#[test]
fn run_as_child_process() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else { return };
    let mut lines = std::io::stdin().lines().map(|line| line.unwrap());
    if std::env::var(CHILD_ROLE).unwrap() == "read" {
        let store = Store::open_read_only(Path::new(&directory), MAPS).unwrap();
        let view = store.view().unwrap();
        println!("\nnumber {}", number(&view));
        lines.next();
        return;
    }
    // The limit is so low that every second batch causes a checkpoint.
    let options = Options { pending_bytes_max: 400_000, ..Options::default() };
    let (_store, mut writer) = Store::open(Path::new(&directory), MAPS, &options).unwrap();
    for line in lines {
        let count: u64 = line.parse().unwrap();
        let last = (0..count).map(|_| write_next(&mut writer)).last();
        println!("\nnumber {}", last.unwrap());
    }
}

struct OtherProcess {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl OtherProcess {
    fn start(scratch: &Scratch, role: &str) -> OtherProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["run_as_child_process", "--exact", "--nocapture"]);
        command.env(CHILD_DIRECTORY, scratch.path()).env(CHILD_ROLE, role);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        OtherProcess { process, input, output: BufReader::new(output) }
    }

    fn send(&mut self, count: u64) {
        writeln!(self.input, "{count}").unwrap();
    }

    fn answer(&mut self) -> u64 {
        let mut lines = (&mut self.output).lines().map(|line| line.unwrap());
        lines.find_map(|line| line.strip_prefix("number ").map(|number| number.parse().unwrap())).unwrap()
    }

    fn write(&mut self, count: u64) -> u64 {
        self.send(count);
        self.answer()
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn open(scratch: &Scratch) -> ReadOnlyStore {
    Store::open_read_only(scratch.path(), MAPS).unwrap()
}

fn open_error(scratch: &Scratch, maps: &'static [MapSpec]) -> OpenError {
    Store::open_read_only(scratch.path(), maps).err().unwrap()
}

fn bulk_error(scratch: &Scratch) -> OpenError {
    BulkStore::create(scratch.path(), MAPS, &Options::default()).err().unwrap()
}

#[test]
fn a_view_next_to_a_writer_does_not_change_until_renewed() {
    let scratch = Scratch::in_memory();
    let mut writer = OtherProcess::start(&scratch, "write");
    assert_eq!(writer.write(3), 3);
    let store = open(&scratch);
    let (mut moving, still) = (store.view().unwrap(), store.clone().view().unwrap());
    assert_eq!((number(&moving), number(&still)), (3, 3));
    assert_eq!(writer.write(1), 4);
    assert_eq!(number(&moving), 3);
    moving.renew().unwrap();
    assert_eq!(number(&moving), 4);
    // While the writer runs at full speed, every renewal shows one complete state, and the states never go back.
    writer.send(200);
    let mut last = 4;
    while last < 204 {
        moving.renew().unwrap();
        let now = number(&moving);
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
    assert_eq!(writer.answer(), 204);
    assert_eq!(number(&still), 3, "its pages were not reused");
    moving.park();
    assert_eq!(moving.position(), Err(StoreError::Parked));
    moving.renew().unwrap();
    assert_eq!(number(&moving), 204);
}

#[test]
fn a_reader_continues_when_the_writer_dies_and_another_starts() {
    let scratch = Scratch::in_memory();
    let mut writer = OtherProcess::start(&scratch, "write");
    writer.write(5);
    let store = open(&scratch);
    let mut view = store.view().unwrap();
    writer.send(100_000);
    drop(writer);
    // The view may contain batches that were not acknowledged, but only complete ones.
    view.renew().unwrap();
    let there = number(&view);
    assert!(there >= 5);
    let mut writer = OtherProcess::start(&scratch, "write");
    let next = writer.write(100);
    assert!(next >= there + 100);
    assert_eq!(number(&view), there);
    view.renew().unwrap();
    assert_eq!(number(&view), next);
}

#[test]
fn a_reader_keeps_the_data_from_being_replaced() {
    let scratch = Scratch::in_memory();
    assert_eq!(OtherProcess::start(&scratch, "write").write(2), 2);
    let mut reader = OtherProcess::start(&scratch, "read");
    assert_eq!(reader.answer(), 2);
    let error = bulk_error(&scratch);
    assert!(matches!(error, OpenError::InUse { pid: None, .. }), "{error:?}");
    assert!(error.to_string().ends_with("is in use by another process"), "{error}");
    drop(reader);
    let bulk = BulkStore::create(scratch.path(), MAPS, &Options::default()).unwrap();
    let error = open_error(&scratch, MAPS);
    assert!(
        matches!(error, OpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()),
        "{error:?}"
    );
    bulk.finish().unwrap();
    assert_eq!(open(&scratch).view().unwrap().position().unwrap(), 0);
}

#[test]
fn reuses_pages_pinned_by_a_dead_reader() {
    let scratch = Scratch::in_memory();
    let (store, mut writer) = scratch.open();
    write_next(&mut writer);
    let mut reader = OtherProcess::start(&scratch, "read");
    assert_eq!(reader.answer(), 1);
    drop(reader);
    for _ in 0..400 {
        write_next(&mut writer);
        store.checkpoint().unwrap();
    }
    // Each of 400 checkpoints rewrites a little more than 10 pages. Without reuse of pages, the file would have 20 MB.
    let used = store.facts().unwrap().used_bytes;
    assert!(used < 10 << 20, "{used}");
}

#[test]
fn a_process_opens_a_store_once() {
    let scratch = Scratch::in_memory();
    let ours = |error: OpenError| {
        assert!(matches!(error, OpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()));
    };
    let opened = scratch.open();
    ours(open_error(&scratch, MAPS));
    drop(opened);
    let read_only = open(&scratch);
    ours(open_error(&scratch, MAPS));
    ours(Store::open(scratch.path(), MAPS, &Options::default()).err().unwrap());
    let view = read_only.view().unwrap();
    drop(read_only);
    ours(open_error(&scratch, MAPS));
    drop(view);
    scratch.open();
    open(&scratch);
}

#[test]
fn creates_nothing_that_is_missing() {
    static MORE: [MapSpec; 2] = [MAPS[0], MapSpec { name: "more", kind: MapKind::Plain }];
    static CHANGED: [MapSpec; 1] = [MapSpec { name: "rows", kind: MapKind::IdSet }];
    let scratch = Scratch::in_memory();
    let error = open_error(&scratch, MAPS);
    assert!(matches!(error, OpenError::File { action: "open", .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    drop(scratch.open());
    let before = std::fs::read(scratch.path().join("data.mdb")).unwrap();
    for maps in [&MORE[..], &CHANGED] {
        let error = open_error(&scratch, maps);
        assert!(matches!(error, OpenError::Map { .. }), "{error:?}");
    }
    open(&scratch).view().unwrap();
    assert_eq!(std::fs::read(scratch.path().join("data.mdb")).unwrap(), before);
}
