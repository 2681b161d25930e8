//! Tests of the library: synced data is retained, other data may be lost, and errors occur at the chosen calls.
//!
//! The process under test is this binary again, with [`SCRIPT`] set.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use powercut::{Counted, Discarded, FailKind, PowerCut, counted, discard_unsynced};

const SCRIPT: &str = "POWERCUT_TEST_SCRIPT";
const O_DSYNC: i32 = 0o10000;
const EIO: i32 = 5;

/// Runs as the process under test. Otherwise does nothing.
#[test]
fn process_under_test() {
    let Some(file) = std::env::var_os(SCRIPT) else { return };
    let file = PathBuf::from(file);
    let mut plain =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&file).unwrap();
    let synced = OpenOptions::new().write(true).custom_flags(O_DSYNC).open(&file).unwrap();
    let say = |what: &str, outcome: std::io::Result<()>| {
        println!("{what} {}", outcome.map_or_else(|error| format!("{error:?}"), |()| "ok".to_owned()));
    };
    plain.write_all(&[b'a'; 8192]).unwrap(); // 1
    say("sync", plain.sync_data()); // 2
    plain.write_all_at(&[b'b'; 4096], 0).unwrap(); // 3
    synced.write_all_at(&[b'c'; 512], 512).unwrap(); // 4
    plain.write_all_at(&[b'd'; 7680], 4608).unwrap(); // 5, which leaves sector 8 as it was
    say("sync", plain.sync_all()); // 6
    plain.set_len(4096).unwrap(); // 7
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("powercut-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("data")).unwrap();
        Scratch(path.canonicalize().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.join("data/file")
    }

    fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    fn run(&self, plan: impl Fn(PowerCut) -> PowerCut) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["process_under_test", "--exact", "--nocapture"]).env(SCRIPT, self.file());
        plan(PowerCut::new(&self.0.join("data"), &self.journal())).apply(&mut command);
        command.output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns all contents that the file has after a cut at `call`, over many seeds. Each content is a text with the first
/// letter of each sector.
fn contents(call: u64) -> (Vec<String>, Discarded) {
    let scratch = Scratch::new(&format!("contents-{call}"));
    let output = scratch.run(|plan| plan.cut_at(call));
    assert_eq!(output.status.code(), Some(powercut::EXIT_STATUS), "{output:?}");
    let after_cut = fs::read(scratch.file()).unwrap();
    let mut found = Vec::new();
    let mut discarded = Discarded::default();
    for seed in 0..300 {
        fs::write(scratch.file(), &after_cut).unwrap();
        discarded = discard_unsynced(&scratch.journal(), seed).unwrap();
        found.push(sector_letters(&scratch.file()));
    }
    found.sort();
    found.dedup();
    (found, discarded)
}

fn sector_letters(file: &Path) -> String {
    fs::read(file)
        .unwrap()
        .chunks(512)
        .map(|sector| char::from(if sector[0] == 0 { b'.' } else { sector[0] }))
        .collect()
}

#[test]
fn synced_bytes_remain_and_unsynced_ones_may_be_lost() {
    // The sync at the cut has no effect, so each sector may have its old or its new content.
    let (found, discarded) = contents(2);
    assert_eq!(discarded.unsynced_sectors, 16);
    assert!(
        found.contains(&String::new()) && found.contains(&"a".repeat(16)) && found.len() > 20,
        "{found:?}"
    );

    let (found, discarded) = contents(3);
    assert_eq!(discarded.unsynced_sectors, 8);
    assert!(found.iter().all(|content| content.len() == 16 && content.ends_with("aaaaaaaa")), "{found:?}");
    assert!(found.contains(&"a".repeat(16)) && found.contains(&"bbbbbbbbaaaaaaaa".to_owned()), "{found:?}");
    assert!(
        found.iter().any(|content| content.starts_with("ab") || content.starts_with("ba")),
        "torn: {found:?}"
    );

    // From the next call on, the sector written through O_DSYNC is always retained.
    let (found, discarded) = contents(5);
    assert_eq!(discarded.unsynced_sectors, 7 + 15);
    assert!(found.iter().all(|content| content.as_bytes()[1] == b'c'), "{found:?}");
    assert!(
        found.iter().any(|content| content.len() < 24) && found.iter().any(|content| content.len() == 24)
    );

    // All data is synced, and the truncation either happened or did not.
    let (found, _) = contents(7);
    assert_eq!(found, ["bcbbbbbb", "bcbbbbbbaddddddddddddddd"]);
}

#[test]
fn only_the_chosen_call_fails() {
    let scratch = Scratch::new("fails");
    let output = scratch.run(|plan| plan.fail_at(FailKind::Sync, 3, EIO));
    let text = String::from_utf8(output.stdout).unwrap();
    let syncs: Vec<&str> = text.lines().filter(|line| line.contains("sync ")).collect();
    assert_eq!(syncs.len(), 2, "{text}");
    assert!(syncs[0].ends_with("sync ok") && syncs[1].contains("code: 5"), "{text}");
    // The O_DSYNC write is the second sync.
    let output = scratch.run(|plan| plan.fail_at(FailKind::Sync, 2, EIO));
    assert!(!output.status.success() && output.status.code() != Some(powercut::EXIT_STATUS));
}

#[test]
fn a_failed_sync_loses_its_sectors_to_later_syncs() {
    let scratch = Scratch::new("lost");
    // The first sync fails. Before the second sync, all sectors except sector 8 are written again.
    let output = scratch.run(|plan| plan.fail_at(FailKind::Sync, 1, EIO).cut_at(7));
    assert_eq!(output.status.code(), Some(powercut::EXIT_STATUS), "{output:?}");
    // If a seed reverts the truncation, the file shows the disk's content of sector 8.
    let restored = (0..50).any(|seed| {
        discard_unsynced(&scratch.journal(), seed).unwrap();
        sector_letters(&scratch.file()) == "bcbbbbbb.ddddddddddddddd"
    });
    assert!(restored);
}

#[test]
fn without_a_plan_no_call_fails() {
    let scratch = Scratch::new("none");
    let output = scratch.run(|plan| plan);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(sector_letters(&scratch.file()), "bcbbbbbb");
    assert!(!scratch.journal().exists());
}

#[test]
fn a_killed_process_loses_no_write() {
    let scratch = Scratch::new("killed");
    let output = scratch.run(|plan| plan.kill_at(5));
    assert_eq!(output.status.signal(), Some(9), "{output:?}");
    assert_eq!(sector_letters(&scratch.file()), "bcbbbbbbaddddddddddddddd");
    assert!(!scratch.journal().exists());
}

#[test]
fn files_grow_only_while_space_is_left() {
    let scratch = Scratch::new("room");
    let (room, count) = (scratch.0.join("room"), scratch.0.join("count"));
    fs::write(&room, "12287").unwrap();
    let output = scratch.run(|plan| plan.room(&room));
    assert!(String::from_utf8_lossy(&output.stderr).contains("StorageFull"), "{output:?}");
    assert_eq!(
        sector_letters(&scratch.file()),
        "bcbbbbbbaaaaaaaa",
        "a write that does not fit is not made at all"
    );
    fs::remove_file(scratch.file()).unwrap();
    fs::write(&room, "0").unwrap();
    assert!(!scratch.run(|plan| plan.room(&room)).status.success());
    assert!(!scratch.file().exists(), "the file is not created");
    fs::write(&room, "12288\n").unwrap();
    assert!(scratch.run(|plan| plan.room(&room).count(&count)).status.success());
    assert_eq!(counted(&count).unwrap(), Counted { calls: 7, grown_bytes: 4096 });
}
