//! Limit on a server's memory, page cache included, by Linux control groups. This module uses the file system of
//! control groups directly, so no service manager is needed.
//!
//! Control groups of version 2 are used if their memory controller is available, otherwise those of version 1. Creating
//! a group requires root, or a delegated part of the hierarchy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Mount point of the kernel's control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// Reason why memory cannot be limited.
#[derive(Debug, thiserror::Error)]
#[error(
    "memory cannot be limited here: {what}: {error}; it takes root, and control groups that may be written"
)]
pub struct LimitError {
    what: String,
    error: io::Error,
}

/// A control group with a memory limit. Dropping the value removes the group, if all processes of the group have ended.
#[derive(Debug)]
pub struct MemoryLimit {
    folder: PathBuf,
}

impl MemoryLimit {
    /// Creates a group that may use up to `bytes` bytes of memory, and no swap.
    ///
    /// # Errors
    /// This machine does not permit it.
    pub fn new(bytes: u64) -> Result<MemoryLimit, LimitError> {
        MemoryLimit::below(Path::new(ROOT), bytes)
    }

    fn below(root: &Path, bytes: u64) -> Result<MemoryLimit, LimitError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pando-bench-{}-{number}", std::process::id());
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        if controllers.split_whitespace().any(|controller| controller == "memory") {
            // This may fail because the controller is already delegated. If it is not delegated, the group has no file
            // for the limit, and setting the limit fails.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
            let limit = MemoryLimit::make(root.join(name))?;
            limit.write("memory.max", bytes)?;
            // This may fail: a kernel without swap has no such file.
            let _ = limit.write("memory.swap.max", 0);
            return Ok(limit);
        }
        let limit = MemoryLimit::make(root.join("memory").join(name))?;
        limit.write("memory.limit_in_bytes", bytes)?;
        let _ = limit.write("memory.memsw.limit_in_bytes", bytes);
        Ok(limit)
    }

    fn make(folder: PathBuf) -> Result<MemoryLimit, LimitError> {
        fs::create_dir(&folder)
            .map_err(|error| LimitError { what: format!("make {}", folder.display()), error })?;
        Ok(MemoryLimit { folder })
    }

    fn write(&self, file: &str, number: u64) -> Result<(), LimitError> {
        let path = self.folder.join(file);
        let opened = fs::OpenOptions::new().write(true).open(&path);
        opened
            .and_then(|mut file| io::Write::write_all(&mut file, number.to_string().as_bytes()))
            .map_err(|error| LimitError { what: format!("write {}", path.display()), error })
    }

    /// Moves a process with all its threads into the group. Memory that it has already used remains charged to its
    /// former group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn take(&self, process: u32) -> Result<(), LimitError> {
        self.write("cgroup.procs", u64::from(process))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // A group with a running process cannot be removed. If it remains, its name shows which program created it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Drops the files of a folder and its subfolders from the page cache. Otherwise these pages would not count toward the
/// limit of a new group.
///
/// # Errors
/// A file cannot be read.
pub fn forget_pages(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            forget_pages(&entry.path())?;
        } else if kind.is_file() {
            let file = fs::File::open(entry.path())?;
            // Only clean pages can be dropped.
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses an ordinary folder in place of the kernel's file system.
    #[test]
    fn an_error_reports_missing_control_groups() {
        let root = std::env::temp_dir().join(format!("pando-cgroup-{}", std::process::id()));
        let error = MemoryLimit::below(&root, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("memory cannot be limited here") && error.contains("root"), "{error}");
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("cgroup.controllers"), "cpu memory pids").unwrap();
        // In an ordinary folder, no kernel creates the files of a group.
        let error = MemoryLimit::below(&root, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("memory.max"), "{error}");
        let groups =
            fs::read_dir(&root).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(groups, 0, "nothing is left");
    }

    #[test]
    fn forgetting_cached_pages_keeps_the_files() {
        let folder = std::env::temp_dir().join(format!("pando-pages-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/file"), vec![1; 10_000]).unwrap();
        forget_pages(&folder).unwrap();
        assert_eq!(fs::read(folder.join("inner/file")).unwrap().len(), 10_000, "not the data");
        fs::remove_dir_all(&folder).unwrap();
    }
}
