//! Files and folders that have a temporary name until they are complete. They are removed if the process is
//! interrupted.
//!
//! A command that is ended by SIGINT, SIGTERM or SIGHUP runs no destructors. Therefore the paths are kept in a
//! registry. [`remove_when_interrupted`] removes these files before the process ends. After SIGKILL or a power failure
//! they remain, and their names show that they are temporary.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Paths of the unfinished files and folders. The registry is global because signals apply to the whole process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file that is not complete yet. If this value is dropped without a call of [`rename`](UnfinishedFile::rename), the
/// file is removed.
#[derive(Debug)]
pub struct UnfinishedFile {
    path: PathBuf,
}

impl UnfinishedFile {
    /// Adds a path to the registry. Must be called before the file is created. If it were called afterwards, a signal
    /// between the two steps could leave the file.
    pub fn new(path: PathBuf) -> UnfinishedFile {
        registry().insert(path.clone());
        UnfinishedFile { path }
    }

    /// Creates a file for `target` with the temporary name `TARGET.NUMBER.partial`, which only its owner may access.
    /// The number is random. The process id does not suffice: in containers, a killed process and the next one often
    /// have the same.
    ///
    /// # Errors
    /// The system cannot create the file, or returns no random number.
    pub fn create(target: &Path) -> io::Result<(UnfinishedFile, File)> {
        let number = getrandom::u32().map_err(io::Error::other)?;
        let mut name = target.file_name().map(OsString::from).unwrap_or_default();
        name.push(format!(".{number:08x}.partial"));
        let unfinished = UnfinishedFile::new(target.with_file_name(name));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(unfinished.path())?;
        Ok((unfinished, file))
    }

    /// Returns the path with the temporary name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// The system cannot rename the file. In this case the file is removed.
    pub fn rename(self, target: &Path) -> io::Result<()> {
        // Both steps happen under the lock. Therefore a signal finds either the file under its temporary name, or no
        // path in the registry.
        let mut registry = registry();
        std::fs::rename(&self.path, target)?;
        registry.remove(&self.path);
        Ok(())
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if registry().remove(&self.path) {
            // Removing the file may fail because the file was not created yet. If an existing file remains, its name
            // shows that it is temporary.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A folder for temporary data. Dropping this struct removes the folder and its content.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    /// Creates a folder that only its owner may enter.
    ///
    /// # Errors
    /// The path already exists, or the system cannot create the folder.
    pub fn create(path: PathBuf) -> io::Result<TemporaryFolder> {
        // Both steps happen under the lock. Therefore a signal finds either no folder, or a folder in the registry.
        let mut registry = registry();
        DirBuilder::new().mode(0o700).create(&path)?;
        registry.insert(path.clone());
        Ok(TemporaryFolder { path })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if registry().remove(&self.path) {
            // If this fails, the folder remains, and the administrator can find it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the signals that the process ignores, as a bit mask. The lowest bit is signal 1. Returns 0 if the system
/// does not report the signals.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Locks the registry. A path is added or removed in one step. Therefore the registry is consistent even if a thread
/// panicked.
fn registry() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes SIGINT, SIGTERM and SIGHUP first remove the unfinished files and folders, and then end the process as usual.
/// Intended for commands that do not handle these signals themselves. Signals that the process ignores at its start
/// stay ignored. Commands such as `nohup` start processes with ignored signals.
///
/// # Errors
/// The signal handlers or their thread cannot be set up.
pub fn remove_when_interrupted() -> io::Result<()> {
    let ignored = ignored_signals();
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(heeded)?;
    let wait = move || {
        for signal in signals.forever() {
            // The lock is held until the process ends. Therefore no other thread creates, renames or completes a file
            // from here on.
            let registry = registry();
            for path in registry.iter() {
                // Another thread may still create a file in the folder during the first removal. Therefore the folder
                // is removed a second time.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: the name had only the process id, which in a container is often that of the process before.
    #[test]
    fn a_file_that_a_killed_process_left_does_not_matter() {
        let target = std::env::temp_dir().join(format!("pando-unfinished-{}", std::process::id()));
        let (first, _) = UnfinishedFile::create(&target).unwrap();
        let (second, _) = UnfinishedFile::create(&target).unwrap();
        assert_ne!(first.path(), second.path());
        second.rename(&target).unwrap();
        assert!(target.exists() && first.path().exists());
        std::fs::remove_file(&target).unwrap();
    }
}
