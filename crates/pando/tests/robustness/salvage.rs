//! `pando verify --salvage`: a directory whose redo log is damaged in the middle does not open, and the message names
//! this command. The command saves every change before the gap and none after it, and lists the lost changes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use test_support::clients::Run;
use test_support::pando::{self, Start};
use test_support::writers::plant_suffix;
use test_support::{ADMIN_DN, Pando, SUFFIX, Scratch};

/// Number of entries, each in a separate group.
const ENTRIES: u64 = 48;
/// Size of an entry's value in octets. A few entries fill the first segment; each further segment is twice as large.
const VALUE_LEN: usize = 40_000;
const BLOCK: u64 = 4096;
/// Size of a group's header in bytes, before its payload.
const HEAD: u64 = 36;
/// Maximum number of attempts to kill the server after the changes and before a checkpoint.
const TRIES_MAX: usize = 20;

/// A data directory whose last changes are only in several segments of the redo log.
struct Pending {
    scratch: Scratch,
    data: PathBuf,
    frames: Vec<Frame>,
    /// Position of the last change.
    position: u64,
}

/// A group and its place in a segment.
#[derive(Clone)]
struct Frame {
    segment: PathBuf,
    sequence: u64,
    offset: u64,
}

impl Pending {
    /// Adds entries, and kills the server before they are checkpointed.
    fn make(name: &str) -> Pending {
        for _ in 0..TRIES_MAX {
            let scratch = Scratch::new(name);
            let pando = Pando::start(&scratch);
            plant_suffix(&mut pando.administrator());
            assert!(pando.stop().success());
            let pando = Pando::start(&scratch);
            let mut admin = pando.administrator();
            let value = "x".repeat(VALUE_LEN);
            for number in 0..ENTRIES {
                let attributes =
                    [("objectClass", "device"), ("cn", &number.to_string()), ("description", &value)];
                assert!(admin.add(&dn(number), &attributes).unwrap().is_success());
            }
            pando.kill();
            let data = Pando::data(&scratch);
            let frames = frames(&data);
            let whole = salvage(&data, &scratch.join("whole.ldif")).expect_code(0);
            let first = frames.first().map(|frame| frame.sequence);
            let applied = first.map(|first| format!("groups {first} to {} of", first + ENTRIES - 1));
            let segments: Vec<_> = segments_of(&frames);
            if applied.is_some_and(|applied| whole.stdout.contains(&applied)) && segments.len() >= 3 {
                let text = whole.stdout.split("after the change at position ").nth(1).unwrap();
                let position = text.split(',').next().unwrap().parse().unwrap();
                assert!(whole.stdout.ends_with("nothing is lost\n"), "{whole}");
                return Pending { scratch, data, frames, position };
            }
        }
        panic!("a checkpoint came first each of {TRIES_MAX} times");
    }

    /// Copies the directory, so that the copy can be damaged.
    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.scratch.join(name);
        fs::create_dir(&copy).unwrap();
        for name in contents(&self.data).keys() {
            fs::copy(self.data.join(name), copy.join(name)).unwrap();
        }
        copy
    }

    /// Returns the entry that a group adds.
    fn entry_of(&self, sequence: u64) -> u64 {
        ENTRIES - 1 - (self.frames.last().unwrap().sequence - sequence)
    }

    /// Returns the position of a group's change.
    fn position_of(&self, sequence: u64) -> u64 {
        self.position - (self.frames.last().unwrap().sequence - sequence)
    }

    /// Returns the groups in the middle segment.
    fn middle_segment(&self) -> Vec<Frame> {
        let segments = segments_of(&self.frames);
        let middle = &segments[segments.len() / 2];
        self.frames.iter().filter(|frame| frame.segment == *middle).cloned().collect()
    }

    /// Salvages a damaged copy in which the groups from `first` to `last` are lost, and checks the result.
    #[track_caller]
    fn check(&self, copy: &Path, first: u64, last: u64) {
        let start = Start::bare(&self.scratch, copy.file_name().unwrap().to_str().unwrap());
        let (status, said) = start.arguments(&["--admin-dn", ADMIN_DN]).refused();
        assert_eq!(status.code(), Some(4), "{said}");
        let hint = format!("`pando verify --data {} --salvage FILE.ldif`", copy.display());
        assert!(said.contains(&hint), "{said}");
        pando::command(&["verify"], Some(copy)).expect_code(1).expect_error(&hint);

        let before = contents(copy);
        let ldif = copy.with_extension("ldif");
        let settings = copy.with_extension("toml");
        let more = ["--salvage-settings", settings.to_str().unwrap()];
        let run = salvage_with(copy, &ldif, &more).expect_code(1);
        assert_eq!(contents(copy), before, "the data directory has changed");
        assert_eq!(fs::metadata(&ldif).unwrap().mode() & 0o777, 0o600);

        let (saved, lost_to) = (self.position_of(first) - 1, self.position_of(last));
        let groups =
            if first == last { format!("group {first}") } else { format!("groups {first} to {last}") };
        let run = run
            .expect_output(&format!("lost: {groups} of the redo log cannot be read\n"))
            .expect_output(&format!("as they were after the change at position {saved}, 2"))
            .expect_output(&format!("lost: the changes at positions {} to {lost_to} cannot", saved + 1))
            .expect_output(&format!("after the gap that can be read: position {}, 2", lost_to + 1));
        // The report has one line for each change after the gap, in order, without values.
        let told: Vec<&str> =
            run.stdout.lines().filter(|line| line.starts_with("not applied: position")).collect();
        let behind: Vec<u64> = (last + 1..=self.frames.last().unwrap().sequence).collect();
        assert_eq!(told.len(), behind.len(), "{run}");
        for (line, sequence) in told.iter().zip(&behind) {
            let begins = format!("not applied: position {}, 2", self.position_of(*sequence));
            let ends = format!("Z: add \"{}\"", dn(self.entry_of(*sequence)));
            assert!(line.starts_with(&begins) && line.ends_with(&ends), "{line}");
        }
        assert!(!run.stdout.contains("xxx"), "{run}");
        self.check_saved(&ldif, &settings, self.entry_of(first));
    }

    /// Imports the saved data into a new directory, which must have all entries before the gap with their values, and
    /// no others.
    #[track_caller]
    fn check_saved(&self, ldif: &Path, settings: &Path, entries: u64) {
        let fresh = ldif.with_extension("fresh");
        let import = ["import", "--settings", settings.to_str().unwrap(), ldif.to_str().unwrap()];
        pando::command(&import, Some(&fresh)).expect_code(0);
        let exported = pando::command(&["export"], Some(&fresh)).expect_code(0).stdout.replace("\n ", "");
        let dns: Vec<&str> = exported.lines().filter_map(|line| line.strip_prefix("dn: ")).collect();
        let expected: Vec<String> = [SUFFIX.to_owned()].into_iter().chain((0..entries).map(dn)).collect();
        assert_eq!(dns, expected);
        let value = format!("description: {}", "x".repeat(VALUE_LEN));
        assert_eq!(exported.lines().filter(|line| **line == *value).count() as u64, entries);
        pando::command(&["verify"], Some(&fresh)).expect_code(0);
    }
}

fn dn(number: u64) -> String {
    format!("cn={number},{SUFFIX}")
}

fn salvage(data: &Path, ldif: &Path) -> Run {
    salvage_with(data, ldif, &[])
}

fn salvage_with(data: &Path, ldif: &Path, more: &[&str]) -> Run {
    pando::command(&[&["verify", "--salvage", ldif.to_str().unwrap()], more].concat(), Some(data))
}

/// Returns the regular files of a directory.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

/// Returns the groups of a redo log in order. The format of their headers is in `store/src/redo/frame.rs`.
fn frames(data: &Path) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (name, bytes) in contents(data) {
        let Some(digits) = name.strip_prefix("redo-") else { continue };
        let number: u64 = digits.parse().unwrap();
        for (index, block) in bytes.chunks_exact(BLOCK as usize).enumerate() {
            let field = |at: usize| u64::from_be_bytes(block[at..at + 8].try_into().unwrap());
            if block.starts_with(b"grp\x01") && field(4) == number {
                let offset = index as u64 * BLOCK;
                frames.push(Frame { segment: PathBuf::from(&name), sequence: field(12), offset });
            }
        }
    }
    frames
}

fn segments_of(frames: &[Frame]) -> Vec<PathBuf> {
    let mut segments: Vec<PathBuf> = frames.iter().map(|frame| frame.segment.clone()).collect();
    segments.dedup();
    segments
}

/// Inverts the bits of a byte.
fn flip(file: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
}

#[test]
fn records_before_a_gap_are_saved_and_none_after_it() {
    let pending = Pending::make("salvage");
    let middle = pending.middle_segment();
    let (first, last) = (middle.first().unwrap(), middle.last().unwrap());

    let damaged = &middle[middle.len() / 2];
    let flipped = pending.copy("flipped");
    flip(&flipped.join(&damaged.segment), damaged.offset + HEAD + 100);
    pending.check(&flipped, damaged.sequence, damaged.sequence);

    let removed = pending.copy("removed");
    fs::remove_file(removed.join(&first.segment)).unwrap();
    pending.check(&removed, first.sequence, last.sequence);

    let cut = pending.copy("cut");
    let segment = File::options().write(true).open(cut.join(&damaged.segment)).unwrap();
    segment.set_len(damaged.offset + BLOCK).unwrap();
    pending.check(&cut, damaged.sequence, last.sequence);

    // If there are two gaps, the first one counts.
    let twice = pending.copy("twice");
    let later = pending.frames.iter().rev().nth(1).unwrap();
    flip(&twice.join(&first.segment), first.offset + HEAD);
    flip(&twice.join(&later.segment), later.offset + HEAD);
    let run = salvage(&twice, &twice.with_extension("ldif")).expect_code(1);
    let run = run.expect_output(&format!("lost: group {} of", first.sequence));
    let run = run.expect_output(&format!("lost: group {} of", later.sequence));
    let lost = format!("add \"{}\"", dn(pending.entry_of(later.sequence)));
    assert!(!run.stdout.contains(&lost), "{run}");

    // If the header of a segment is damaged, no information is lost, because the groups contain it too.
    let headless = pending.copy("headless");
    flip(&headless.join(&first.segment), 9);
    let run = salvage(&headless, &headless.with_extension("ldif")).expect_code(0);
    run.expect_output("the segment's header is damaged").expect_output("nothing is lost\n");
}

#[test]
fn without_a_data_file_the_changes_are_listed() {
    let pending = Pending::make("salvage-redo-only");
    for name in ["missing", "unreadable", "cut-off", "empty"] {
        let copy = pending.copy(name);
        let data_file = copy.join("data.mdb");
        match name {
            "missing" => fs::remove_file(&data_file).unwrap(),
            "unreadable" => fs::write(&data_file, [7; 3 * BLOCK as usize]).unwrap(),
            "cut-off" => {
                let bytes = fs::read(&data_file).unwrap();
                fs::write(&data_file, &bytes[..2 * BLOCK as usize]).unwrap();
            }
            _ => fs::write(&data_file, []).unwrap(),
        }
        let before = contents(&copy);
        let ldif = copy.with_extension("ldif");
        let run = salvage(&copy, &ldif).expect_code(1).expect_error("no entries are written");
        let run = run.expect_error("data.mdb");
        for number in 0..ENTRIES {
            assert!(run.stdout.contains(&format!("Z: add \"{}\"\n", dn(number))), "{run}");
        }
        assert!(!ldif.exists());
        assert_eq!(contents(&copy), before, "the data directory has changed");
    }
}

#[test]
fn salvage_refuses_a_served_directory_and_an_existing_file() {
    let scratch = Scratch::new("salvage-refused");
    let pando = Pando::start(&scratch);
    plant_suffix(&mut pando.administrator());
    let (data, ldif) = (Pando::data(&scratch), scratch.join("saved.ldif"));
    salvage(&data, &ldif).expect_code(3).expect_error(&format!("process {}", pando.id()));
    assert!(!ldif.exists());
    assert!(pando.stop().success());

    salvage(&data, &ldif).expect_code(0).expect_output("1 entries, ").expect_output("nothing is lost\n");
    let saved = fs::read(&ldif).unwrap();
    salvage(&data, &ldif).expect_code(2).expect_error("exists already");
    assert_eq!(fs::read(&ldif).unwrap(), saved);
    salvage(&data, &data.join("saved.ldif")).expect_code(2).expect_error("is in the data directory");
    salvage(&data, Path::new("-")).expect_code(2).expect_error("wants a name for a new file");
    let nothing = scratch.join("nothing");
    salvage(&nothing, &scratch.join("other.ldif")).expect_code(4).expect_error("contains no Pando database");
    assert!(!nothing.exists(), "salvage created the directory");
}
