//! Damaged files of a data directory that has acknowledged changes in its redo log. The start and `pando verify` name
//! the file, and change nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ldap::ChangeOperation;
use test_support::pando::{self, Pando, Start};
use test_support::writers::plant_suffix;
use test_support::{SUFFIX, Scratch};

const CHANGES: usize = 20;

/// Returns the data directory of a killed server, with changes in its redo log, and the last segment of that log.
fn killed(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let pando = Start::new(scratch).ready();
    let mut admin = pando.administrator();
    plant_suffix(&mut admin);
    for number in 0..CHANGES {
        let text = number.to_string();
        let outcome = admin.modify(SUFFIX, &[(ChangeOperation::Replace, "description", &[&text])]).unwrap();
        assert!(outcome.is_success(), "{outcome:?}");
    }
    pando.kill();
    let data = Pando::data(scratch);
    let mut segments: Vec<_> =
        files(&data).into_iter().filter(|(name, _)| name.starts_with("redo-")).collect();
    let (name, _) = segments.pop().expect("the redo log has changes");
    let segment = data.join(name);
    (data, segment)
}

/// Returns the files of a directory with their contents, except the lock and files derived from it.
fn files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let is_data = !["lock", "data.mdb-lock", "pando.sock"].contains(&name.as_str());
        if is_data && entry.file_type().unwrap().is_file() {
            files.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    files.sort();
    files
}

/// Starts and verifies a damaged directory. Both must fail, name `file`, and leave the directory unchanged.
fn check_refused(scratch: &Scratch, data: &Path, file: &str, about: &str) {
    let before = files(data);
    let (status, said) = Start::new(scratch).refused();
    assert_eq!(status.code(), Some(4), "{about}: {said}");
    assert!(said.contains(file), "{about}: {said}");
    let verified = pando::command(&["verify"], Some(data)).expect_code(1);
    drop(verified);
    assert!(files(data) == before, "{about}: a refused directory is left as it is");
}

#[test]
fn a_damaged_redo_log_is_named_and_refused() {
    let scratch = Scratch::new("damage");
    let (data, segment) = killed(&scratch);
    let whole = fs::read(&segment).unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap().to_owned();
    let writable = || File::options().write(true).open(&segment).unwrap();

    fs::remove_file(&segment).unwrap();
    check_refused(&scratch, &data, &name, "removed");
    fs::write(&segment, b"").unwrap();
    check_refused(&scratch, &data, &name, "emptied");
    fs::write(&segment, &whole[..whole.len() / 2]).unwrap();
    check_refused(&scratch, &data, &name, "cut to half");
    let renamed = data.join("redo-0000000000000777");
    fs::write(&segment, &whole).unwrap();
    fs::rename(&segment, &renamed).unwrap();
    check_refused(&scratch, &data, &name, "renamed");
    fs::rename(&renamed, &segment).unwrap();
    // Damage the payload of a group in the middle of the log.
    let at = 5 * 4096 + 50;
    writable().write_all_at(&[whole[at] ^ 1], at as u64).unwrap();
    check_refused(&scratch, &data, &name, "a byte in the middle");
    fs::write(&segment, &whole).unwrap();
    let mark = data.join("redo.mark");
    let marked = fs::read(&mark).unwrap();
    fs::remove_file(&mark).unwrap();
    check_refused(&scratch, &data, "redo.mark", "without the mark");
    fs::write(&mark, &marked).unwrap();
    let (data_file, away) = (data.join("data.mdb"), scratch.join("data.mdb"));
    fs::rename(&data_file, &away).unwrap();
    check_refused(&scratch, &data, &name, "without the data file");
    fs::rename(&away, &data_file).unwrap();

    // With the original file, all data is there.
    let pando = Start::new(&scratch).ready();
    let mut admin = pando.administrator();
    let found = admin.entry(SUFFIX, &["description"]).unwrap().unwrap().text("description");
    assert_eq!(found, Some((CHANGES - 1).to_string()));
    assert!(pando.stop().success());
    pando::command(&["verify"], Some(&data)).expect_code(0);
}
