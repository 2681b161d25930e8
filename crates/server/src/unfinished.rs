//! Files and folders that keep a temporary name until they are complete, and are removed if their process is
//! interrupted.
//!
//! A command that is ended by SIGINT, SIGTERM or SIGHUP runs no destructors, so a registry of such files is kept and
//! [`remove_when_interrupted`] removes them before the process ends. SIGKILL and a power failure leave them: their name
//! shows what they are.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// The unfinished files of the process: a signal belongs to the process, not to one of its parts.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// An incomplete file. If it is dropped before [`rename`](UnfinishedFile::rename), the file is removed.
#[derive(Debug)]
pub struct UnfinishedFile {
    path: PathBuf,
}

impl UnfinishedFile {
    /// Registers a file. Call this before the file is created, so that a signal in between leaves none.
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
    /// The system refuses; the file is removed.
    pub fn rename(self, target: &Path) -> io::Result<()> {
        // Under the lock: a signal finds the file under its temporary name, or no longer in the registry.
        let mut registry = registry();
        std::fs::rename(&self.path, target)?;
        registry.remove(&self.path);
        Ok(())
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if registry().remove(&self.path) {
            // There may be no such file yet; if it stays, its name shows what it is.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A folder with temporary data, which is removed with all its content when this is dropped.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    /// Creates a folder that no other user may enter.
    ///
    /// # Errors
    /// The path exists, or the system refuses.
    pub fn create(path: PathBuf) -> io::Result<TemporaryFolder> {
        // Under the lock: a signal finds no folder, or one that is registered.
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
            // If this fails, the administrator sees the folder.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the signals that the process ignores, one bit each, signal 1 the lowest; none if the system does not report
/// them.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Paths are inserted and removed in one step, so a panic elsewhere leaves the registry consistent.
fn registry() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes SIGINT, SIGTERM and SIGHUP remove the unfinished files and then end the process as they do by default. For
/// commands without an orderly end of their own. A signal that the process was started to ignore, as by `nohup` or by a
/// shell in the background, is still ignored.
///
/// # Errors
/// The handlers or their thread cannot be set up.
pub fn remove_when_interrupted() -> io::Result<()> {
    let ignored = ignored_signals();
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(heeded)?;
    let wait = move || {
        for signal in signals.forever() {
            // The lock is kept: from here on no thread creates, renames or finishes a file.
            let registry = registry();
            for path in registry.iter() {
                // Another thread may still add a file to a folder, so a second attempt follows.
                let _ = std::fs::remove_file(path)
                    .or_else(|_| std::fs::remove_dir_all(path))
                    .or_else(|_| std::fs::remove_dir_all(path));
            }
            // The default of these signals is to end the process.
            let _ = emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("pando-signals".to_owned()).spawn(wait).map(drop)
}
