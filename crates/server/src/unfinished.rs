//! Files and folders with a temporary name until they are complete. If the process is interrupted, they are removed.
//!
//! A command that SIGINT, SIGTERM or SIGHUP ends runs no destructors. So such files are in a registry, from which
//! [`remove_when_interrupted`] removes them before the process ends. They remain after SIGKILL or a power failure, and
//! their names show that they are temporary.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Unfinished files of the process. Global because signals concern the whole process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// An incomplete file. Dropping it before [`rename`](UnfinishedFile::rename) removes the file.
#[derive(Debug)]
pub struct UnfinishedFile {
    path: PathBuf,
}

impl UnfinishedFile {
    /// Registers a file. Must be called before the file is created, so that a signal in between leaves no file.
    pub fn new(path: PathBuf) -> UnfinishedFile {
        registry().insert(path.clone());
        UnfinishedFile { path }
    }

    /// Returns the temporary path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// The system refuses. The file is then removed.
    pub fn rename(self, target: &Path) -> io::Result<()> {
        // Under the lock, so that a signal finds the file under its temporary name or no longer in the registry.
        let mut registry = registry();
        std::fs::rename(&self.path, target)?;
        registry.remove(&self.path);
        Ok(())
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if registry().remove(&self.path) {
            // The file may not exist yet. If it remains, its name shows that it is temporary.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A folder with temporary data. Dropping it removes the folder and its content.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    /// Creates a folder that only its owner may enter.
    ///
    /// # Errors
    /// The path exists, or the system refuses.
    pub fn create(path: PathBuf) -> io::Result<TemporaryFolder> {
        // Under the lock, so that a signal finds no folder or a registered one.
        let mut registry = registry();
        DirBuilder::new().mode(0o700).create(&path)?;
        registry.insert(path.clone());
        Ok(TemporaryFolder { path })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if registry().remove(&self.path) {
            // If this fails, the folder remains for the administrator to see.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the signals that the process ignores as a bit mask, with signal 1 as the lowest bit; 0 if the system does
/// not report them.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Paths are inserted and removed in one step, so a panic elsewhere leaves the registry consistent.
fn registry() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes SIGINT, SIGTERM and SIGHUP remove the unfinished files and then end the process as usual. For commands that do
/// not handle these signals otherwise. A signal that was ignored at the start of the process, for example because of
/// `nohup` or a background shell job, is still ignored.
///
/// # Errors
/// The handlers or their thread cannot be set up.
pub fn remove_when_interrupted() -> io::Result<()> {
    let ignored = ignored_signals();
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(heeded)?;
    let wait = move || {
        for signal in signals.forever() {
            // The lock is held until the end: no other thread creates, renames or completes a file from now on.
            let registry = registry();
            for path in registry.iter() {
                // Another thread may still add a file to a folder, so a second attempt follows.
                let _ = std::fs::remove_file(path)
                    .or_else(|_| std::fs::remove_dir_all(path))
                    .or_else(|_| std::fs::remove_dir_all(path));
            }
            // The default action of these signals ends the process.
            let _ = emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("pando-signals".to_owned()).spawn(wait).map(drop)
}
