//! Damage to a data directory. Each file of the directory is damaged in several ways. This is done both after a kill
//! with changes pending in the redo log, and after a clean stop.
//!
//! The server must then do one of two things. It may refuse to start. It must then end with exit code 4, name the file,
//! and change nothing, so that all data is present once the file is restored. Or it may start with all acknowledged
//! changes, unless `docs/reference/store-format.md` describes the damage as undetectable. If the start does not find
//! damage in the rows of `data.mdb`, the check of all rows must find it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use client::Connection;
use ldap::Scope;

use crate::data;
use crate::plan::Plan;
use crate::report::{Finding, Report};
use test_support::pando::{Pando, Start, command};
use test_support::tree::add;
use test_support::writers::plant_suffix;
use test_support::{SUFFIX, Scratch};

/// Number of acknowledged changes, each in its own group.
const CHANGES: usize = 60;

/// Length of the text of each change. In total, the changes exceed the first segment of the redo log.
const FILLING: usize = 12_000;

/// Exit code for unusable data.
const DATA: i32 = 4;

/// Size of a block of the redo log, and of a page of the data file.
const BLOCK: usize = 4_096;

/// Maximum size of a group. A group contains the text of its change twice: in the record and in the entry's row. It
/// also contains small rows.
const GROUP_MAX: usize = 2 * FILLING + 2 * BLOCK;

/// Kinds of damage to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DamageKind {
    Removed,
    Emptied,
    Renamed,
    CutInHalf,
    CutByABlock,
    FirstOctetFlipped,
    MiddleOctetFlipped,
    LastOctetFlipped,
    TailZeroed,
    Foreign,
}

const DAMAGE_KINDS: [DamageKind; 10] = [
    DamageKind::Removed,
    DamageKind::Emptied,
    DamageKind::Renamed,
    DamageKind::CutInHalf,
    DamageKind::CutByABlock,
    DamageKind::FirstOctetFlipped,
    DamageKind::MiddleOctetFlipped,
    DamageKind::LastOctetFlipped,
    DamageKind::TailZeroed,
    DamageKind::Foreign,
];

/// Reaction of the server to a damaged directory.
#[derive(Debug)]
enum Outcome {
    /// The server started and has `found` of the changes.
    Opened { found: usize, is_sound: bool },
    /// The server ended with an exit code or by a signal. `log` is its output.
    Refused { code: Option<i32>, log: String },
}

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    let names = ["damage/killed", "damage/stopped", "damage/groups"];
    if !names.iter().any(|name| report.wants(name)) {
        return;
    }
    let killed = Template::make("killed", true);
    let stopped = Template::make("stopped", false);
    // Another directory of the same kind. Its files replace files of the directory under attack.
    let foreign = Template::make("foreign", true);
    report.attack(names[0], || every_file("killed with changes pending", &killed, &foreign));
    report.attack(names[1], || every_file("stopped", &stopped, &foreign));
    report.attack(names[2], || groups(plan, &killed));
}

/// A directory with [`CHANGES`] acknowledged changes.
struct Template {
    scratch: Scratch,
}

impl Template {
    fn make(name: &str, is_killed: bool) -> Template {
        let scratch = Scratch::new(&format!("assault-damage-{name}"));
        // These changes are checkpointed, so they are in the data file.
        let pando = Start::new(&scratch).ready();
        plant_suffix(&mut pando.administrator());
        assert!(pando.stop().success());
        let pando = Start::new(&scratch).ready();
        let mut admin = pando.administrator();
        for number in 0..CHANGES {
            let attributes =
                [("objectClass", "device"), ("serialNumber", name), ("description", &filling(number)[..])];
            add(&mut admin, &format!("cn={number},{SUFFIX}"), &attributes);
        }
        if is_killed {
            pando.kill();
        } else {
            assert!(pando.stop().success());
        }
        Template { scratch }
    }

    fn data(&self) -> PathBuf {
        Pando::data(&self.scratch)
    }

    /// Returns the names of the regular files in the directory, in order.
    fn files(&self) -> Vec<String> {
        contents(&self.data()).into_keys().collect()
    }
}

fn filling(number: usize) -> String {
    format!("{number}-").repeat(FILLING / 3)
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn is_redo(name: &str) -> bool {
    name.starts_with("redo-")
}

/// Returns true for files without information, whose loss or damage is harmless.
fn is_worthless(name: &str) -> bool {
    matches!(name, "lock" | "data.mdb-lock" | "pando.sock")
}

fn every_file(what: &str, template: &Template, foreign: &Template) -> Finding {
    let files = template.files();
    let mut complaints = Vec::new();
    let (mut opened, mut refused, mut later) = (0, 0, 0);
    for name in &files {
        for way in DAMAGE_KINDS {
            let trial = Scratch::new("assault-damaged");
            let folder = Pando::data(&trial);
            data::copy(&template.data(), &folder);
            if !damage(&folder, name, way, &foreign.data()) {
                continue;
            }
            let before = contents(&folder);
            let outcome = open(&trial);
            match &outcome {
                Outcome::Opened { is_sound: false, .. } => later += 1,
                Outcome::Opened { .. } => opened += 1,
                Outcome::Refused { .. } => refused += 1,
            }
            if let Some(complaint) = judge(&outcome, name, way, &files) {
                complaints.push(format!("{name} {way:?}: {complaint}"));
            } else if matches!(outcome, Outcome::Refused { .. })
                && let Some(complaint) =
                    mend(&trial, template, &before, name != "data.mdb" || way != DamageKind::TailZeroed)
            {
                complaints.push(format!("{name} {way:?}, then mended: {complaint}"));
            }
        }
    }
    let trials = opened + refused + later;
    let done = format!(
        "a directory of a server that was {what}, {} files damaged in up to {} ways: {trials} starts, {refused} \
         refused, {opened} opened, {later} opened and found by verify",
        files.len(),
        DAMAGE_KINDS.len()
    );
    verdict(done, trials, &complaints)
}

fn verdict(done: String, trials: usize, complaints: &[String]) -> Finding {
    let finding = Finding::of(done).bounded(
        complaints.is_empty() && trials > 0,
        format!("{} of {trials} starts not as they should be", complaints.len()),
        "0; refused with exit code 4 and the file's name, or all acknowledged changes there",
    );
    complaints.iter().fold(finding, |finding, complaint| finding.noted(complaint))
}

/// Damages a file. Returns false if the damage does not apply to it.
fn damage(folder: &Path, name: &str, way: DamageKind, foreign: &Path) -> bool {
    let path = folder.join(name);
    let mut bytes = fs::read(&path).unwrap();
    let length = bytes.len();
    if length == 0 && !matches!(way, DamageKind::Removed | DamageKind::Renamed) {
        return false;
    }
    match way {
        DamageKind::Removed => return fs::remove_file(&path).is_ok(),
        DamageKind::Renamed => return fs::rename(&path, folder.join(renamed(name))).is_ok(),
        DamageKind::Foreign => match foreign_file(foreign, name) {
            Some(file) => bytes = fs::read(file).unwrap(),
            None => return false,
        },
        DamageKind::Emptied => bytes.clear(),
        DamageKind::CutInHalf => bytes.truncate(length / 2 / BLOCK * BLOCK),
        DamageKind::CutByABlock => bytes.truncate(length.saturating_sub(BLOCK)),
        DamageKind::FirstOctetFlipped => bytes[0] ^= 0x10,
        DamageKind::MiddleOctetFlipped => {
            let at = middle(&bytes);
            bytes[at] ^= 0x10;
        }
        DamageKind::LastOctetFlipped => {
            let at = last_used(&bytes);
            bytes[at] ^= 0x10;
        }
        DamageKind::TailZeroed => {
            let end = last_used(&bytes) + 1;
            bytes[end - end / 4..].fill(0);
        }
    }
    fs::write(&path, bytes).unwrap();
    true
}

/// Returns the position of the last octet that is not zero. The octets after it may be unused.
fn last_used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0)
}

/// Returns the position of the first octet that is not zero, at or after the middle of the used part.
fn middle(bytes: &[u8]) -> usize {
    let half = last_used(bytes) / 2;
    half + bytes[half..].iter().position(|byte| *byte != 0).unwrap_or(0)
}

/// Returns a new name for a file. A segment of the redo log receives another number, and any other file the suffix
/// `.old`.
fn renamed(name: &str) -> String {
    match name.strip_prefix("redo-").and_then(|number| number.parse::<u64>().ok()) {
        Some(number) => format!("redo-{:016}", number + 1_000),
        None => format!("{name}.old"),
    }
}

fn foreign_file(foreign: &Path, name: &str) -> Option<PathBuf> {
    let same = foreign.join(name);
    if same.exists() {
        return Some(same);
    }
    let redo = contents(foreign).into_keys().find(|other| is_redo(other) && is_redo(name));
    redo.map(|other| foreign.join(other))
}

fn open(trial: &Scratch) -> Outcome {
    match Start::new(trial).ready_or_ended() {
        Ok(pando) => {
            let found = count(&mut pando.administrator());
            // A start that finds damage reports it before the server is ready. The command `verify` then checks all
            // rows.
            assert!(pando.stop().success(), "it stops");
            let is_sound = command(&["verify"], Some(&Pando::data(trial))).code == Some(0);
            Outcome::Opened { found: found.unwrap_or(0), is_sound: is_sound && found.is_some() }
        }
        Err((status, _)) => {
            let log = fs::read_to_string(trial.join("pando.log")).unwrap_or_default();
            Outcome::Refused { code: status.code(), log }
        }
    }
}

/// Returns the number of changes that can be read; `None` if the server reports an error.
fn count(admin: &mut Connection) -> Option<usize> {
    let mut found = 0;
    for number in 0..CHANGES {
        let dn = format!("cn={number},{SUFFIX}");
        let reply = admin.search(&dn, Scope::BaseObject, "(objectClass=*)", &["description"]).unwrap();
        match reply.outcome.code {
            ldap::ResultCode::SUCCESS | ldap::ResultCode::NO_SUCH_OBJECT => {
                let is_whole =
                    |entry: &client::Entry| entry.text("description").as_ref() == Some(&filling(number));
                found += usize::from(reply.entries.first().is_some_and(is_whole));
            }
            _ => return None,
        }
    }
    Some(found)
}

/// Returns a description of the fault if an outcome is not acceptable; otherwise `None`.
fn judge(outcome: &Outcome, name: &str, way: DamageKind, files: &[String]) -> Option<String> {
    match outcome {
        Outcome::Opened { found, is_sound } => {
            let lost = CHANGES - found;
            // Rows of the data file have checksums, but its pages do not. So a start cannot detect all damage, but the
            // check of all rows can.
            if name == "data.mdb" && !is_sound {
                return None;
            }
            let allowed = undetectable(name, way, files);
            let what = if *is_sound { "" } else { ", and verify finds something" };
            (lost > allowed || !is_sound).then(|| format!("opened with {found} of {CHANGES} changes{what}"))
        }
        Outcome::Refused { code, log } if *code != Some(DATA) => {
            Some(format!("ended with {code:?} and not with exit code {DATA}: {}", last_line(log)))
        }
        Outcome::Refused { log, .. } if !names(last_line(log), name, way, files) => {
            Some(format!("refused without its name: {}", last_line(log)))
        }
        Outcome::Refused { .. } if is_worthless(name) => {
            Some("refused because of a file without information".to_owned())
        }
        Outcome::Refused { .. } => None,
    }
}

/// Returns the number of changes that may be lost undetected (see docs/explanation/security.md). These are: the last
/// group, which a crash may have torn; the newest groups of the current segment if they are overwritten with zeroes,
/// because they then look like an unused part of the file; and the data file as a whole if no changes are pending in
/// the redo log.
fn undetectable(name: &str, way: DamageKind, files: &[String]) -> usize {
    let newest = files.iter().rfind(|file| is_redo(file));
    match way {
        DamageKind::Removed | DamageKind::Renamed | DamageKind::Foreign
            if name == "data.mdb" && newest.is_none() =>
        {
            CHANGES
        }
        _ if newest.is_none_or(|newest| newest != name) => 0,
        DamageKind::LastOctetFlipped => 1,
        DamageKind::TailZeroed => CHANGES,
        _ => 0,
    }
}

/// Returns true if a refusal names the file. If the data file is damaged, the name of its folder is sufficient. If a
/// file belongs to another directory, the server cannot know which file is wrong.
fn names(line: &str, name: &str, way: DamageKind, files: &[String]) -> bool {
    line.contains(name)
        || (name == "data.mdb" && line.contains("/data:"))
        || (way == DamageKind::Foreign
            && (line.contains("redo.mark") || files.iter().any(|file| line.contains(file))))
}

fn last_line(log: &str) -> &str {
    log.lines().last().unwrap_or_default()
}

/// Restores the damaged file and starts the server. All changes must be present, because the refused start must have
/// lost nothing. If `is_strict` is true, the refused start must not have changed any octet. `is_strict` is false for
/// damage in the middle of the data file: such damage may be found only during the replay of the redo log, when the log
/// may already contain its last group twice.
fn mend(
    trial: &Scratch,
    template: &Template,
    damaged: &BTreeMap<String, Vec<u8>>,
    is_strict: bool,
) -> Option<String> {
    let folder = Pando::data(trial);
    let after = contents(&folder);
    for (name, bytes) in damaged {
        let is_same = if is_strict { after.get(name) == Some(bytes) } else { after.contains_key(name) };
        // An empty file has no content to lose.
        if !is_worthless(name) && !bytes.is_empty() && !is_same {
            return Some(format!("the refused start has changed {name}"));
        }
    }
    // The other files stay as the refused start left them.
    for (name, bytes) in contents(&template.data()) {
        if damaged.get(&name) != Some(&bytes) {
            fs::write(folder.join(name), bytes).unwrap();
        }
    }
    match open(trial) {
        Outcome::Opened { found: CHANGES, is_sound: true } => None,
        other => Some(format!("{other:?}")),
    }
}

/// Damages random octets of the redo log. At most the last change may be lost undetected, unless zeroes reach the end
/// of the newest segment.
fn groups(plan: &Plan, template: &Template) -> Finding {
    let mut random = plan.random("damage/groups");
    let files: Vec<String> = template.files().into_iter().filter(|name| is_redo(name)).collect();
    let newest = files.last().unwrap();
    let mut complaints = Vec::new();
    let trials = plan.count(20, 300);
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..trials {
        let trial = Scratch::new("assault-damaged");
        let folder = Pando::data(&trial);
        data::copy(&template.data(), &folder);
        let name = &files[random.usize(..files.len())];
        let path = folder.join(name);
        let mut bytes = fs::read(&path).unwrap();
        let used = last_used(&bytes) + 1;
        let at = random.usize(..used);
        // The damage covers about one group of octets, or a few groups. Octets after the damage then prove that the
        // groups existed.
        let end = (at + random.usize(1..2 * FILLING)).min(used);
        let is_zeroed = random.bool();
        bytes[at..end].iter_mut().for_each(|byte| *byte = if is_zeroed { 0 } else { random.u8(..) });
        fs::write(&path, bytes).unwrap();
        let outcome = open(&trial);
        let is_at_the_end = name == newest && end + GROUP_MAX >= used;
        let complaint = match &outcome {
            Outcome::Opened { found, is_sound: true } if is_at_the_end && CHANGES - found <= 1 => None,
            // Zeroes up to the end of the newest segment look like its unused part.
            Outcome::Opened { is_sound: true, .. } if is_at_the_end && is_zeroed && end == used => None,
            other => judge(other, name, DamageKind::MiddleOctetFlipped, &files),
        };
        match outcome {
            Outcome::Opened { .. } => opened += 1,
            Outcome::Refused { .. } => refused += 1,
        }
        complaints.extend(complaint.map(|complaint| format!("{name} {at} to {end} of {used}: {complaint}")));
    }
    let done =
        format!("random octets of the redo log damaged: {trials} starts, {refused} refused, {opened} opened");
    verdict(done, trials, &complaints)
}
