//! Tests of failures at each file call in turn: the power fails, the process is killed, or the disk fails or is full.
//! Meanwhile groups are appended, segments are created, reused and released, and the log is opened. The process under
//! test is this binary again, running [`run_as_child_process`].
//!
//! The content of a group follows from its sequence and the number of the attempt, so the test does not have to store
//! the expected content. The checkpointed sequence is in a separate file, as it would be in the data file. Calls on
//! that file never fail.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fastrand::Rng;
use powercut::{FailKind, PowerCut, discard_unsynced};

use super::super::{Change, Group, Owner, RedoLog};
use super::{Groups, LEN_MAX, LEN_MIN, Scratch, groups_of, owner, room};
use crate::disk::Room;
use crate::{Result, StoreError};

const CHILD_DIRECTORY: &str = "STORE_REDO_DIRECTORY";
const CHILD_ROLE: &str = "STORE_REDO_ROLE";
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// Number of groups that one run of a child appends. The groups fill several segments.
const GROUPS: u64 = 20;
/// Maximum number of attempts to write a group. Each attempt writes a smaller group than the previous attempt.
const ATTEMPTS: u64 = 5;

/// Returns the content of a group. After the disk was full, the next attempt gets a different and smaller group.
fn group(sequence: u64, attempt: u64) -> Group {
    let mut random = Rng::with_seed(sequence * 1_000 + attempt);
    let value_len = match random.u32(0..10) {
        _ if attempt > 0 => 10,
        _ if sequence.is_multiple_of(20) => LEN_MAX as usize,
        0 => random.usize(30_000..60_000),
        _ => random.usize(0..12_000),
    };
    let mut value = vec![0; value_len];
    random.fill(&mut value);
    let mut group = Group::new();
    group.push(Change::Put { map: 1, key: &sequence.to_be_bytes(), value: &value });
    group.push(Change::InsertId { map: 2, key: b"attempt", id: attempt });
    group
}

fn checkpointed_file(directory: &Path) -> PathBuf {
    directory.with_file_name("checkpointed")
}

fn checkpointed(directory: &Path) -> u64 {
    fs::read_to_string(checkpointed_file(directory)).map_or(0, |text| text.parse().unwrap())
}

fn open(directory: &Path) -> Result<(RedoLog, Groups)> {
    open_in(directory, room(directory))
}

fn open_in(directory: &Path, room: Room) -> Result<(RedoLog, Groups)> {
    let lengths = LEN_MIN..=LEN_MAX;
    // Once the data file was opened with a mark, it requires one.
    let marked_file = checkpointed_file(directory).with_extension("marked");
    let is_marked = marked_file.exists();
    let owner = Owner { is_marked, ..owner(checkpointed(directory)) };
    let (log, replay) = RedoLog::open_with(directory, room, &owner, lengths)?;
    if log.has_mark() {
        fs::write(marked_file, b"1").unwrap();
    }
    Ok((log, groups_of(replay)?))
}

/// Runs as the process under test. Otherwise does nothing.
#[test]
fn run_as_child_process() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else { return };
    let directory = Path::new(&directory);
    match std::env::var(CHILD_ROLE).unwrap().as_str() {
        "write" => write(&open(directory).unwrap().0, directory),
        "fail" => write_on_a_failing_disk(directory),
        "full" => write_on_a_full_disk(directory),
        // While less than the reserve is free, a failed write is treated as a short write, whatever its error is.
        "cut short" => {
            let opened = File::open(directory).unwrap();
            write_until_refused(directory, Room::new(opened, directory, u64::MAX));
        }
        role => panic!("no such role: {role}"),
    }
}

/// Returns the number of the attempt at a group.
fn attempt_of(sequence: u64, payload: &[u8]) -> Option<u64> {
    (0..ATTEMPTS).find(|attempt| group(sequence, *attempt).payload() == payload)
}

/// Appends one group, and prints the number of the attempt that was acknowledged.
fn append(log: &RedoLog) -> Result<()> {
    let sequence = log.last_sequence() + 1;
    let mut attempt = 0;
    loop {
        match log.append(sequence, &mut group(sequence, attempt)) {
            Ok(()) => break,
            Err(StoreError::DiskFull { .. }) if attempt + 1 < ATTEMPTS => {
                println!("refused {sequence} {attempt}")
            }
            Err(error) => return Err(error),
        }
        attempt += 1;
    }
    println!("acknowledged {sequence} {attempt}");
    Ok(())
}

fn checkpoint(log: &RedoLog, directory: &Path, sequence: u64) -> Result<()> {
    // The file is written completely under another name and then renamed, so that the file is always complete.
    let new = checkpointed_file(directory).with_extension("new");
    fs::write(&new, sequence.to_string()).unwrap();
    fs::rename(&new, checkpointed_file(directory)).unwrap();
    log.trim(sequence)
}

fn write(log: &RedoLog, directory: &Path) {
    let mut random = Rng::with_seed(log.last_sequence());
    for number in 1..=GROUPS {
        append(log).unwrap();
        log.prepare_spare().unwrap();
        if number.is_multiple_of(6) {
            let last = log.last_sequence();
            checkpoint(log, directory, last - random.u64(0..last.min(4))).unwrap();
        }
    }
}

/// Writes until a sync fails, which must stop the log; then opens the log again and continues.
fn write_on_a_failing_disk(directory: &Path) {
    for _ in 0..2 {
        let Ok((log, groups)) = open(directory) else { continue };
        // Groups that are found when the log is opened count as acknowledged.
        if let Some((sequence, payload)) = groups.last() {
            println!("acknowledged {sequence} {}", attempt_of(*sequence, payload).unwrap());
        }
        for _ in 0..GROUPS {
            if let Err(error) = append(&log) {
                assert!(matches!(error, StoreError::WritesStopped { .. }), "{error:?}");
                let sequence = log.last_sequence() + 1;
                assert_eq!(log.append(sequence, &mut group(sequence, 0)), Err(error));
                println!("stopped");
                break;
            }
            // A failure to create or release segments leaves the log unchanged.
            let _ = log.prepare_spare();
            if log.last_sequence().is_multiple_of(6) {
                let _ = checkpoint(&log, directory, log.last_sequence() - 2);
            }
        }
    }
}

/// Writes as long as there is room, releases segments, and tries again.
fn write_on_a_full_disk(directory: &Path) {
    let (log, _) = open(directory).unwrap();
    for _ in 0..GROUPS {
        match append(&log) {
            Ok(()) => {}
            Err(StoreError::DiskFull { .. }) => break,
            Err(error) => panic!("{error:?}"),
        }
        match log.prepare_spare() {
            Ok(()) | Err(StoreError::DiskFull { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    println!("ended {}", log.last_sequence());
}

/// Writes until a group is refused, and ends without another call.
fn write_until_refused(directory: &Path, room: Room) {
    let (log, _) = open_in(directory, room).unwrap();
    for _ in 0..GROUPS {
        let sequence = log.last_sequence() + 1;
        match log.append(sequence, &mut group(sequence, 0)) {
            Ok(()) => println!("acknowledged {sequence} 0"),
            Err(StoreError::DiskFull { .. }) => {
                println!("refused {sequence} 0");
                std::process::exit(0);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

struct Trial {
    root: Scratch,
    data: PathBuf,
    /// The attempts that were acknowledged, by sequence.
    acknowledged: BTreeMap<u64, u64>,
    /// Attempts that were refused.
    refused: Vec<(u64, u64)>,
}

impl Trial {
    fn new() -> Trial {
        let root = Scratch::new();
        let data = root.0.join("data");
        fs::create_dir(&data).unwrap();
        Trial { root, data, acknowledged: BTreeMap::new(), refused: Vec::new() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.0.join(name)
    }

    fn run(&mut self, role: &str, plan: impl Fn(PowerCut) -> PowerCut) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["redo::tests::power_cut::run_as_child_process", "--exact", "--nocapture"]);
        command.env(CHILD_DIRECTORY, &self.data).env(CHILD_ROLE, role);
        plan(PowerCut::new(&self.data, &self.file("journal"))).apply(&mut command);
        let output = command.output().unwrap();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // The test harness may have written the beginning of the line.
            let numbers = |head| {
                let (_, numbers) = line.split_once(head)?;
                let (sequence, attempt) = numbers.split_once(' ')?;
                Some((sequence.parse::<u64>().unwrap(), attempt.parse::<u64>().unwrap()))
            };
            self.acknowledged.extend(numbers("acknowledged "));
            self.refused.extend(numbers("refused "));
        }
        output
    }

    /// If the power was cut, discards a random part of the unsynced data. Returns true if anything is lost.
    fn discard_lost_data(&self, output: &Output, seed: u64) -> bool {
        match output.status.code() {
            Some(powercut::EXIT_STATUS) => {
                discard_unsynced(&self.file("journal"), seed).unwrap().discarded_sectors > 0
            }
            // The process ended by itself, or was killed.
            Some(0) | None => false,
            Some(_) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Opens the log and checks it. The log must hold every acknowledged group and no refused group. The log may also
    /// hold the one group that follows the last acknowledged group.
    fn check(&mut self, context: &str) {
        let (log, groups) = open(&self.data).unwrap_or_else(|error| panic!("{context}: {error}"));
        let checkpointed = checkpointed(&self.data);
        let last = self.acknowledged.keys().next_back().copied().unwrap_or(checkpointed).max(checkpointed);
        let sequences: Vec<_> = groups.iter().map(|(sequence, _)| *sequence).collect();
        assert_eq!(sequences, (checkpointed + 1..=log.last_sequence()).collect::<Vec<_>>(), "{context}");
        assert!(
            [last, last + 1].contains(&log.last_sequence()),
            "{context}: {last}, {}",
            log.last_sequence()
        );
        for (sequence, payload) in groups {
            let attempt = attempt_of(sequence, &payload);
            let attempt = attempt.unwrap_or_else(|| panic!("{context}: group {sequence} is another"));
            assert!(!self.refused.contains(&(sequence, attempt)), "{context}: refused {sequence}, {attempt}");
            let acknowledged = *self.acknowledged.entry(sequence).or_insert(attempt);
            assert_eq!(attempt, acknowledged, "{context}: group {sequence}");
        }
        // The log accepts groups, even one as large as the lost group.
        for _ in 0..2 {
            append(&log).unwrap();
            self.acknowledged.insert(log.last_sequence(), 0);
        }
    }
}

/// Returns the number of file calls of one run of a child without failures, on a log that `lives_before` earlier runs
/// have written.
fn calls_in_life(role: &str, lives_before: u64) -> u64 {
    let mut trial = Trial::new();
    for _ in 0..lives_before {
        assert!(trial.run(role, |plan| plan).status.success());
    }
    let count = trial.file("count");
    assert!(trial.run(role, |plan| plan.count(&count)).status.success());
    powercut::counted(&count).unwrap().calls
}

#[test]
fn a_power_cut_at_any_call_loses_no_acknowledged_group() {
    let (first, second) = (calls_in_life("write", 0), calls_in_life("write", 1));
    println!("{first} calls in the first life, {second} in the second");
    let mut losses = 0;
    for call in 1..=first.max(second) {
        let mut trial = Trial::new();
        for life in 0..2 {
            // The second run of a child opens an existing log and reuses segments.
            let output = trial.run("write", |plan| plan.cut_at(call));
            losses += u64::from(trial.discard_lost_data(&output, call * 10 + life));
            trial.check(&format!("call {call}, life {life}"));
        }
    }
    assert!(losses > first / 2, "most cuts should lose something: {losses}");
}

#[test]
fn a_killed_process_loses_no_write() {
    let calls = calls_in_life("write", 0);
    for call in (1..=calls).step_by(3) {
        let mut trial = Trial::new();
        let output = trial.run("write", |plan| plan.kill_at(call));
        trial.discard_lost_data(&output, call);
        trial.check(&format!("call {call}"));
    }
}

#[test]
fn groups_acknowledged_after_a_failed_sync_and_restart_are_durable() {
    let mut random = Rng::with_seed(17);
    for sync in 1..60 {
        let mut trial = Trial::new();
        // The power fails some calls later, after the log has been opened again and written to.
        let call = 3 * sync + random.u64(1..40);
        let output = trial.run("fail", |plan| plan.fail_at(FailKind::Sync, sync, EIO).cut_at(call));
        trial.discard_lost_data(&output, sync);
        trial.check(&format!("sync {sync}, call {call}"));
    }
}

/// After a failed sync, the last group may not be durable until opening has written it again. If the mark already
/// required this group before the group was written again, a power cut between the two writes would leave an intact log
/// that is refused.
#[test]
fn a_log_opens_after_a_failed_sync_and_a_power_cut_while_reopening() {
    for sync in (4..30).step_by(5) {
        for call in 2 * sync..4 * sync + 24 {
            let mut trial = Trial::new();
            let output = trial.run("fail", |plan| plan.fail_at(FailKind::Sync, sync, EIO).cut_at(call));
            trial.discard_lost_data(&output, call);
            trial.check(&format!("sync {sync}, call {call}"));
        }
    }
}

#[test]
fn a_failed_write_stops_the_log_unless_the_disk_is_full() {
    for write in 1..40 {
        let mut trial = Trial::new();
        let call = 3 * write + 10;
        let output = trial.run("fail", |plan| plan.fail_at(FailKind::Write, write, EIO).cut_at(call));
        trial.discard_lost_data(&output, write);
        trial.check(&format!("write {write}, call {call}"));
    }
}

#[test]
fn a_group_refused_by_a_full_disk_is_never_replayed() {
    let mut refused = 0;
    for write in 1..50 {
        let mut trial = Trial::new();
        let call = 2 * write + write % 7;
        let plan = |plan: PowerCut| plan.fail_at(FailKind::Write, write, ENOSPC).cut_at(call);
        let output = trial.run("full", plan);
        trial.discard_lost_data(&output, write);
        refused += trial.refused.len();
        trial.check(&format!("write {write}, call {call}"));
    }
    assert!(refused > 10, "{refused} groups refused");
}

#[test]
fn a_refused_group_in_the_page_cache_is_never_replayed() {
    let mut refused = 0;
    for write in 1..25 {
        let mut trial = Trial::new();
        let output = trial.run("cut short", |plan| plan.fail_at(FailKind::Write, write, EIO));
        trial.discard_lost_data(&output, 0);
        refused += trial.refused.len();
        trial.check(&format!("write {write}"));
    }
    assert!(refused > 10, "{refused} groups refused");
}

#[test]
fn a_log_continues_when_there_is_space_for_its_next_segment() {
    for room_bytes in [0, 100, 20_000, LEN_MIN, LEN_MIN + 1, 3 * LEN_MIN + 5_000, 8 * LEN_MIN] {
        let mut trial = Trial::new();
        let limit = trial.file("room");
        fs::write(&limit, room_bytes.to_string()).unwrap();
        let output = trial.run("full", |plan| plan.room(&limit));
        trial.discard_lost_data(&output, 0);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // Even if the log is opened while the disk is full, all acknowledged groups are in the log.
        fs::write(&limit, "0").unwrap();
        let output = trial.run("full", |plan| plan.room(&limit));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        trial.check(&format!("room for {room_bytes} bytes"));
    }
}
