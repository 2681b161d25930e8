//! Interrupted commands. A command is killed at one of its file calls, or runs out of disk space at one of the bytes
//! that it writes.
//!
//! The points of interruption are chosen from the calls and bytes of a complete run, so they are spread over all of it
//! and do not depend on the load of the machine.

use super::Scratch;
use super::clients::Run;
use super::pando::{command, program};
use powercut::{Counted, PowerCut};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

/// Number of SIGKILL.
const KILL: i32 = 9;

/// Content of a data directory, as users see it.
#[derive(Clone, PartialEq, Eq)]
pub enum Data {
    /// The directory does not exist, or has no entry.
    None,
    /// All entries, as an export without comments, and the settings.
    Entries(String),
}

impl std::fmt::Debug for Data {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Data::None => formatter.write_str("no data"),
            Data::Entries(text) => write!(formatter, "{} entries", text.matches("\ndn: ").count()),
        }
    }
}

impl Data {
    /// Reads the content of a directory, and checks that it is sound if `is_sound` is set.
    #[track_caller]
    pub fn of(data: &Path, is_sound: bool) -> Data {
        if !data.join("data.mdb").exists() {
            return Data::None;
        }
        let exported = command(&["export", "--operational"], Some(data));
        if exported.code == Some(4) && exported.stderr.contains("contains no Pando database") {
            return Data::None;
        }
        let text = exported.expect_code(0).stdout;
        if is_sound {
            command(&["verify"], Some(data)).expect_code(0);
        }
        if !text.contains("\ndn: ") {
            return Data::None;
        }
        let settings = command(&["export", "--settings-only"], Some(data)).expect_code(0).stdout;
        let lines = text.lines().filter(|line| !line.starts_with('#')).chain(settings.lines());
        Data::Entries(lines.flat_map(|line| [line, "\n"]).collect())
    }
}

/// A command on a data directory, with the state of the directory before it.
pub struct Interruption<'a> {
    scratch: &'a Scratch,
    /// The data directory before the command, if there is one.
    template: Option<PathBuf>,
    /// All arguments except `--data DIR`.
    arguments: Vec<String>,
    /// Whether the data directory before the command is sound.
    is_sound: bool,
    /// Whether the command works in several steps. Only the first step changes visible data.
    pub has_steps: bool,
    /// Calls and bytes of a complete run.
    pub whole: Counted,
    /// Content before the command.
    pub before: Data,
    /// Content after a complete run.
    pub after: Data,
}

/// Result of a run that should be interrupted.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The command completed without an interruption.
    Done,
    /// The command was interrupted, and the content is unchanged.
    Before,
    /// The command was interrupted, but the content is the same as after a complete run.
    After,
}

impl<'a> Interruption<'a> {
    /// Runs the command once to its end.
    #[track_caller]
    pub fn of(
        scratch: &'a Scratch,
        template: Option<&Path>,
        is_sound: bool,
        arguments: &[&str],
    ) -> Interruption<'a> {
        let mut interruption = Interruption {
            scratch,
            template: template.map(Path::to_owned),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            is_sound,
            has_steps: false,
            whole: Counted { calls: 0, grown_bytes: 0 },
            before: template.map_or(Data::None, |template| Data::of(template, is_sound)),
            after: Data::None,
        };
        let count = scratch.join("count");
        let output = interruption.run(|plan| plan.count(&count));
        assert!(output.status.success(), "{}", said(&output));
        interruption.whole = powercut::counted(&count).unwrap();
        interruption.after = Data::of(&interruption.data(), true);
        println!(
            "{}: {:?}, from {:?} to {:?}",
            arguments[0], interruption.whole, interruption.before, interruption.after
        );
        interruption
    }

    /// Returns the directory that the command works on.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap().join("interrupted")
    }

    /// Runs the command on a fresh copy of the directory, with the faults that `plan` sets.
    pub fn run(&self, plan: impl Fn(PowerCut) -> PowerCut) -> Output {
        let data = self.data();
        let _ = fs::remove_dir_all(&data);
        fs::create_dir(&data).unwrap();
        for file in self.template.iter().flat_map(|template| fs::read_dir(template).unwrap()) {
            let file = file.unwrap();
            // Skip folders: commands do not read the folder with the server's certificate.
            if file.file_type().unwrap().is_dir() {
                continue;
            }
            fs::copy(file.path(), data.join(file.file_name())).unwrap();
        }
        let mut command = self.command(&data);
        plan(PowerCut::new(&data, &self.scratch.join("journal"))).apply(&mut command);
        command.output().unwrap()
    }

    fn command(&self, data: &Path) -> Command {
        let mut command = Command::new(program());
        command.args(&self.arguments).arg("--data").arg(data).stdin(Stdio::null());
        command
    }

    /// Kills the command after a call, and returns the result.
    #[track_caller]
    pub fn kill_at(&self, call: u64) -> Stopped {
        let output = self.run(|plan| plan.kill_at(call));
        let killed = output.status.signal() == Some(KILL);
        assert!(killed || output.status.success(), "call {call}: {}", said(&output));
        self.check_content(&format!("killed at call {call}"), !killed)
    }

    /// Cuts the power at a call, and returns the result. `seed` chooses which unsynced writes are lost.
    #[track_caller]
    pub fn cut_at(&self, call: u64, seed: u64) -> Stopped {
        let output = self.run(|plan| plan.cut_at(call));
        let cut = output.status.code() == Some(powercut::EXIT_STATUS);
        assert!(cut || output.status.success(), "call {call}: {}", said(&output));
        if cut {
            powercut::discard_unsynced(&self.scratch.join("journal"), seed).unwrap();
        }
        self.check_content(&format!("power cut at call {call}, seed {seed}"), !cut)
    }

    /// Makes the disk full after a number of bytes, and checks the result and the error message.
    #[track_caller]
    pub fn full_after(&self, bytes: i64) -> Stopped {
        let room = self.scratch.write("room", bytes.to_string());
        let output = self.run(|plan| plan.room(&room));
        if !output.status.success() {
            expect_full(output.status, &said(&output), &self.data());
        }
        let stopped = self.check_content(&format!("full after {bytes} bytes"), output.status.success());
        let changed = stopped == Stopped::After && !self.has_steps;
        assert!(!changed, "a command that failed has changed nothing: {}", said(&output));
        stopped
    }

    /// Checks that the content is the same as before the command or as after a complete run. Then runs the command
    /// again to its end, and checks that no other files remain.
    #[track_caller]
    fn check_content(&self, what: &str, is_done: bool) -> Stopped {
        let data = self.data();
        let now = Data::of(&data, self.is_sound || is_done);
        let stopped = match (is_done, now == self.before, now == self.after) {
            (true, _, true) => Stopped::Done,
            (false, true, _) => Stopped::Before,
            (false, _, true) => Stopped::After,
            _ => panic!("{what}: {now:?} instead of {:?} or {:?}", self.before, self.after),
        };
        println!("{what}: {stopped:?}");
        // A completed import into an empty directory cannot be repeated.
        if !(self.before == Data::None && now == self.after) {
            let output = self.command(&data).output().unwrap();
            assert!(output.status.success(), "{what}, then again: {}", said(&output));
        }
        assert!(Data::of(&data, true) == self.after, "{what}, then again");
        assert_eq!(names_in(&data), ["data.mdb", "data.mdb-lock", "lock"], "{what}: left over");
        stopped
    }
}

/// Returns the output of a process.
pub fn said(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Checks that a process failed because the disk is full, and that its message names the disk.
#[track_caller]
fn expect_full(status: ExitStatus, said: &str, data: &Path) {
    assert_eq!(status.code(), Some(1), "{said}");
    let line = said.lines().rfind(|line| line.starts_with("pando: ")).unwrap_or_default();
    let says_why = line.contains("is full: ") || line.contains("No space left on device");
    assert!(says_why, "it says what is wrong: {said}");
    assert!(line.contains(data.to_str().unwrap()), "it names the directory: {said}");
}

/// Returns the sorted names of the files in a directory.
fn names_in(data: &Path) -> Vec<String> {
    let entries = fs::read_dir(data).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs a command that must succeed.
#[track_caller]
pub fn must(arguments: &[&str], data: &Path) -> Run {
    command(arguments, Some(data)).expect_code(0)
}
