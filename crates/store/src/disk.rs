//! The disk under the data directory: the lock file, the free space, the size of the map.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::io::Errno;

use crate::OpenError;
use crate::layout::LOCK_FILE;

/// Addresses are cheap, but the processor has only 128 TiB of them, and several stores may be open in one process.
const MAP_BYTES_MAX: u64 = 16 << 40;
const MAP_BYTES_MIN: u64 = 1 << 30;

/// The room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    /// What an unprivileged process may still take.
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Space {
    /// The room on the file system of `directory`, or the system's error number.
    pub(crate) fn of(directory: &File) -> Result<Space, i32> {
        let facts = rustix::fs::fstatvfs(directory).map_err(Errno::raw_os_error)?;
        Ok(Space {
            free_bytes: facts.f_bavail.saturating_mul(facts.f_frsize),
            total_bytes: facts.f_blocks.saturating_mul(facts.f_frsize),
        })
    }
}

/// The address space to map for a data file on a file system of `disk_bytes`: all of it, since the file cannot become larger than that.
pub(crate) fn map_bytes(disk_bytes: u64) -> u64 {
    disk_bytes.clamp(MAP_BYTES_MIN, MAP_BYTES_MAX).next_multiple_of(MAP_BYTES_MIN)
}

/// Half of `map_bytes`, if that is still worth trying.
pub(crate) fn smaller_map(map_bytes: u64) -> Option<u64> {
    (map_bytes / 2 >= MAP_BYTES_MIN).then_some(map_bytes / 2)
}

/// Whether a system error says that there is no room on the disk or in the quota.
pub(crate) fn is_full(code: i32) -> bool {
    [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| errno.raw_os_error() == code)
}

pub(crate) fn is_io_error(code: i32) -> bool {
    code == Errno::IO.raw_os_error()
}

pub(crate) fn is_out_of_memory(code: i32) -> bool {
    code == Errno::NOMEM.raw_os_error()
}

/// Locks the lock file of `directory` and writes our process id into it. Dropping the file unlocks it, and so does the end of the process,
/// however it comes.
pub(crate) fn lock(directory: &Path) -> Result<File, OpenError> {
    let path = directory.join(LOCK_FILE);
    let failed = |action| {
        let path = path.clone();
        move |source| OpenError::File { action, path, source }
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed("open"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(OpenError::InUse { directory: directory.to_owned(), pid: owner(&mut file) });
        }
        Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
    }
    let write_owner = |file: &mut File| {
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())
    };
    write_owner(&mut file).map_err(failed("write"))?;
    Ok(file)
}

/// The process id in the lock file. `None` also while the owner is about to write it.
fn owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &File) -> io::Result<()> {
    directory.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_covers_the_disk() {
        const GIB: u64 = 1 << 30;
        for (disk_bytes, expected) in
            [(0, GIB), (GIB, GIB), (GIB + 1, 2 * GIB), (270_000_000_000, 252 * GIB), (u64::MAX, 16 << 40)]
        {
            assert_eq!(map_bytes(disk_bytes), expected, "{disk_bytes}");
        }
    }

    #[test]
    fn a_map_that_does_not_fit_is_halved_down_to_a_gibibyte() {
        assert_eq!(smaller_map(16 << 40), Some(8 << 40));
        assert_eq!(smaller_map(2 << 30), Some(1 << 30));
        assert_eq!(smaller_map(1 << 30), None);
    }
}
