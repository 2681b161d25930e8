//! Files that have their temporary name until they are whole, and are removed if their process is interrupted.
//!
//! A command that is ended by SIGINT, SIGTERM or SIGHUP runs no destructors, so a registry of such files is kept and
//! [`remove_when_interrupted`] removes them before the process ends. SIGKILL and a power failure leave them: their name
//! says what they are.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// The unfinished files of the process: a signal belongs to the process, not to one of its parts.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file in the making. Dropped before [`rename`](UnfinishedFile::rename), it is removed.
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

    /// Temporary path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// The system refuses to; the file is removed.
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
            // There may be no such file yet; should it stay, its name says what it is.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The signals that the process ignores, a bit each, signal 1 the lowest; none if the system does not say.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whole paths are inserted and removed, so a panic elsewhere leaves nothing half done.
fn registry() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has SIGINT, SIGTERM and SIGHUP remove the unfinished files and then end the process as they do by default. For
/// commands that have no orderly end of their own. A signal that the process was started to ignore, as by `nohup` or by
/// a shell in the background, is still ignored.
///
/// # Errors
/// The handlers or their thread cannot be set up.
pub fn remove_when_interrupted() -> io::Result<()> {
    let ignored = ignored_signals();
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(heeded)?;
    let wait = move || {
        for signal in signals.forever() {
            // The lock is kept: from here on nobody creates, renames or finishes a file.
            let registry = registry();
            for path in registry.iter() {
                let _ = std::fs::remove_file(path);
            }
            // The default of these signals is to end the process.
            let _ = emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().name("pando-signals".to_owned()).spawn(wait).map(drop)
}
