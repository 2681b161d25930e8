//! Files of the data directory: lock file, free space, size of the map, and files that a crash left.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use crate::error::failed;
use crate::layout::{self, LOCK_FILE};
use crate::lmdb::Failure;
use crate::{OpenError, Result, StoreError};

/// Upper limit of the map's size. The processor provides 128 TiB of address space, and several stores in one process
/// may share it.
const MAP_BYTES_MAX: u64 = 16 << 40;
const MAP_BYTES_MIN: u64 = 1 << 30;

/// Free and total space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    /// Space available to an unprivileged process.
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Space {
    /// Returns the space on the file system of `directory`, or the system's error number.
    pub(crate) fn of(directory: &File) -> Result<Space, i32> {
        let facts = rustix::fs::fstatvfs(directory).map_err(Errno::raw_os_error)?;
        Ok(Space {
            free_bytes: facts.f_bavail.saturating_mul(facts.f_frsize),
            total_bytes: facts.f_blocks.saturating_mul(facts.f_frsize),
        })
    }
}

/// The file system of the data directory, and the reserve on it.
#[derive(Debug)]
pub(crate) struct Room {
    /// The data directory, open for querying its file system.
    directory: File,
    /// Path of the data directory, for messages.
    path: PathBuf,
    reserve_bytes: u64,
}

impl Room {
    pub(crate) fn new(directory: File, path: &Path, reserve_bytes: u64) -> Room {
        Room { directory, path: path.to_owned(), reserve_bytes }
    }

    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    pub(crate) fn space(&self) -> Result<Space> {
        Space::of(&self.directory).map_err(|code| Failure { operation: "fstatvfs", code }.into())
    }

    /// Returns `DiskFull` while less than the reserve is free.
    pub(crate) fn check_reserve(&self) -> Result<()> {
        let space = self.space()?;
        if space.free_bytes < self.reserve_bytes { Err(self.disk_full(space)) } else { Ok(()) }
    }

    /// Returns the error of a failed write.
    pub(crate) fn write_error(&self, failure: Failure) -> StoreError {
        match self.full(failure) {
            Some(error) => error,
            None => failure.into(),
        }
    }

    /// Returns `DiskFull` if a full disk is the cause of a failed write. A short write, which LMDB reports as EIO, also
    /// means a full disk if less than the reserve is free.
    pub(crate) fn full(&self, failure: Failure) -> Option<StoreError> {
        let space = self.space().ok()?;
        let cut_short = is_io_error(failure.code) && space.free_bytes < self.reserve_bytes;
        let full = failure.code == Failure::MAP_FULL || is_full(failure.code) || cut_short;
        full.then(|| self.disk_full(space))
    }

    /// Returns the error of a failed file operation.
    pub(crate) fn io_error(&self, operation: &'static str, error: &io::Error) -> StoreError {
        // An error without an errno means that the file was truncated by another program.
        let code = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
        self.write_error(Failure { operation, code })
    }

    /// Returns the error of a file that could not be opened or created.
    pub(crate) fn open_error(&self, operation: &'static str, error: &io::Error) -> StoreError {
        match error.raw_os_error() {
            Some(code) if Failure { operation, code }.is_exhausted() => {
                Failure { operation, code }.exhausted()
            }
            _ => self.io_error(operation, error),
        }
    }

    /// Makes the names in the data directory durable.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    pub(crate) fn try_clone(&self) -> io::Result<Room> {
        let directory = self.directory.try_clone()?;
        Ok(Room { directory, path: self.path.clone(), reserve_bytes: self.reserve_bytes })
    }

    fn disk_full(&self, space: Space) -> StoreError {
        let (directory, reserve_bytes) = (self.path.clone(), self.reserve_bytes);
        StoreError::DiskFull { directory, free_bytes: space.free_bytes, reserve_bytes }
    }
}

/// Returns the address space to map for a data file on a file system of `disk_bytes`. The address space covers the
/// whole disk, but is at most [`MAP_BYTES_MAX`]. The file cannot become larger than the disk.
pub(crate) fn map_bytes(disk_bytes: u64) -> u64 {
    disk_bytes.clamp(MAP_BYTES_MIN, MAP_BYTES_MAX).next_multiple_of(MAP_BYTES_MIN)
}

/// Returns half of `map_bytes`, if that is not below the minimum size.
pub(crate) fn smaller_map(map_bytes: u64) -> Option<u64> {
    (map_bytes / 2 >= MAP_BYTES_MIN).then_some(map_bytes / 2)
}

/// Returns true if a system error means that the disk or the quota has no room.
fn is_full(code: i32) -> bool {
    [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| errno.raw_os_error() == code)
}

fn is_io_error(code: i32) -> bool {
    code == Errno::IO.raw_os_error()
}

pub(crate) fn is_out_of_memory(code: i32) -> bool {
    code == Errno::NOMEM.raw_os_error()
}

/// Creates a data directory if it is missing. Its parent must exist, so that a mistyped path is an error and not a new
/// empty directory. The directory's name is durable when this returns.
///
/// A process that is killed between creating a directory and syncing its parent leaves a name that a power failure may
/// still remove. So the name of a directory without a data file is always synced, even if another process created it.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    make_directory_with(path, &mut sync_name_of)
}

/// Does the same as [`make_directory`]. `sync_name` is the function that makes the directory's name durable in its
/// parent.
fn make_directory_with(path: &Path, sync_name: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    // With mode 0711 other users cannot list the directory, but can open files whose modes allow it, such as the
    // certificate of the server's certificate authority. The directory's other files have mode 0600, because the store
    // holds password hashes.
    match DirBuilder::new().mode(0o711).create(path) {
        Ok(()) => sync_name(path),
        Err(_) if path.is_dir() => {
            let has_data = path.join(layout::DATA_FILE).try_exists()?;
            if has_data { Ok(()) } else { sync_name(path) }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.parent() {
            Some(above) if !above.as_os_str().is_empty() && !above.is_dir() => {
                let text = format!("there is no directory {}; make it, or correct the path", above.display());
                Err(io::Error::new(io::ErrorKind::NotFound, text))
            }
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Syncs the parent of `directory`, or the whole file system if the parent may not be opened.
fn sync_name_of(directory: &Path) -> io::Result<()> {
    // Joining `..` finds the parent of the directory itself even if the path ends in a symbolic link.
    match File::open(directory.join("..")) {
        Ok(above) => above.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            rustix::fs::syncfs(File::open(directory)?).map_err(io::Error::from)
        }
        Err(error) => Err(error),
    }
}

/// A locked data directory. The directory is unlocked when this value is dropped, and when the process ends for any
/// reason.
///
/// Three locks are needed, because files can be removed, renamed and linked while the server has them open:
///
/// - A lock on the directory itself, which can have no second name.
/// - A lock on the lock file, which contains the owner's process id. This is the only lock of earlier releases.
/// - A lock on the data file (see [`lock_data_file`]), which may have names in several directories.
pub(crate) struct DirectoryLock {
    /// `None` if the file system cannot lock directories.
    _directory: Option<File>,
    _file: File,
}

/// Locks `directory` and writes our process id into its lock file.
pub(crate) fn lock(directory: &Path) -> Result<DirectoryLock, OpenError> {
    let locked = lock_directory(directory)?;
    let path = directory.join(LOCK_FILE);
    let failed = |action| failed(action, &path);
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
    match write_owner(&file) {
        // The process id is for messages only, so a full disk does not prevent the lock.
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {}
        outcome => outcome.map_err(failed("write"))?,
    }
    Ok(DirectoryLock { _directory: locked, _file: file })
}

/// Locks the directory itself, independent of its files and its name. `None` if the file system cannot lock
/// directories.
pub(crate) fn lock_directory(directory: &Path) -> Result<Option<File>, OpenError> {
    let opened = File::open(directory).map_err(failed("open", directory))?;
    match opened.try_lock() {
        Ok(()) => Ok(Some(opened)),
        Err(TryLockError::WouldBlock) => Err(in_use(directory)),
        Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(None),
        Err(TryLockError::Error(source)) => Err(failed("lock", directory)(source)),
    }
}

/// Locks the data file in `directory`. A writer locks it `exclusively`. A reader that requires that no process writes
/// takes a shared lock. A reader that runs at the same time as a writer uses [`hold_data_file`] instead. The lock
/// follows the file when it is renamed.
pub(crate) fn lock_data_file(directory: &Path, exclusively: bool) -> Result<File, OpenError> {
    let path = directory.join(layout::DATA_FILE);
    let file = OpenOptions::new().read(true).write(exclusively).open(&path).map_err(failed("open", &path))?;
    match system::try_lock_first_byte(&file, exclusively) {
        Ok(true) => Ok(file),
        Ok(false) => Err(in_use(directory)),
        Err(error) if has_no_locks(&error) => Ok(file),
        Err(source) => Err(failed("lock", &path)(source)),
    }
}

/// Returns true if the error means that the file system does not support this kind of lock.
fn has_no_locks(error: &io::Error) -> bool {
    [Errno::BADF, Errno::INVAL, Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Returns the error for a directory that another process has locked, with the owner's process id if the lock file has
/// it.
fn in_use(directory: &Path) -> OpenError {
    let pid = File::open(directory.join(LOCK_FILE)).ok().and_then(|mut file| owner(&mut file));
    OpenError::InUse { directory: directory.to_owned(), pid }
}

/// Writes our process id over the previous owner's process id, and then truncates the file, so that no disk space is
/// needed.
fn write_owner(file: &File) -> io::Result<()> {
    let text = format!("{}\n", std::process::id());
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

/// Returns the process id in the lock file. `None` if the file contains none, or if the owner has not written it yet.
pub(crate) fn owner(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.strip_suffix('\n')?.parse().ok()
}

/// Opens and locks the data file of a directory. The data file cannot be replaced while the returned file is open. A
/// caller that replaces the data file sets `exclusive`, so that readers cannot open it. Writers do not use this lock,
/// because the lock file excludes other writers. Returns `None` if there is no data file.
pub(crate) fn hold_data_file(directory: &Path, exclusive: bool) -> Result<Option<File>, OpenError> {
    let path = directory.join(layout::DATA_FILE);
    let failed = |action| failed(action, &path);
    loop {
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            outcome => outcome.map_err(failed("open"))?,
        };
        match if exclusive { file.try_lock() } else { file.try_lock_shared() } {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = File::open(directory.join(LOCK_FILE)).ok().and_then(|mut file| owner(&mut file));
                return Err(OpenError::InUse {
                    directory: directory.to_owned(),
                    pid: pid.filter(|_| !exclusive),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        // The file may have been replaced between opening and locking. A locked file cannot be replaced.
        match fs::metadata(&path) {
            Ok(facts) if identity(&facts) == identity(&file.metadata().map_err(failed("read"))?) => {
                return Ok(Some(file));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("read")(error)),
            _ => {}
        }
    }
}

fn identity(facts: &fs::Metadata) -> (u64, u64) {
    (facts.dev(), facts.ino())
}

/// The data files that this process has open through the engine. LMDB locks its table of readers with POSIX locks. They
/// belong to the whole process, and the system releases them when the process closes any descriptor of that file. So if
/// a process opened a data file twice, closing one of the two descriptors would release the locks of both.
static CLAIMED: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// The right to open a data file in this process.
pub(crate) struct Claim((u64, u64));

impl Claim {
    /// Claims `data_file` for this process. Returns `None` if another claim on it in this process exists.
    pub(crate) fn on(data_file: &Path) -> io::Result<Option<Claim>> {
        let identity = identity(&fs::metadata(data_file)?);
        let inserted = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).insert(identity);
        // `then_some` would create a `Claim` even if `inserted` is false, and dropping it would release the other
        // owner's claim.
        Ok(inserted.then(|| Claim(identity)))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Removes the leftovers of a dead process from the directory: an unfinished data file and the files of sorters. The
/// caller must hold the lock.
pub(crate) fn remove_left_over(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if layout::is_left_over(&entry.file_name()) && entry.file_type()?.is_file() {
            remove_if_there(&entry.path())?;
        }
    }
    Ok(())
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Bytes read at a time: large enough to need few calls, small enough that reading can stop soon.
const READ_LEN: usize = 1 << 20;

/// Brings the first `len` bytes of a file into the page cache by reading them, as long as `go_on` returns true. Returns
/// the number of bytes read. This affects only the speed of later reads.
///
/// # Errors
/// The disk cannot be read.
pub(crate) fn read_in(file: &File, len: u64, go_on: impl Fn() -> bool) -> io::Result<u64> {
    let mut rest = file.take(len);
    let mut piece = vec![0; READ_LEN];
    while go_on() && rest.read(&mut piece)? > 0 {}
    Ok(len - rest.limit())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
mod tests {
    use super::*;

    #[test]
    fn creating_a_directory_syncs_its_name() {
        let root = std::env::temp_dir().join(format!("store-make-directory-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let data = root.join("data");
        let created = |path: &Path| {
            let mut synced = Vec::new();
            let outcome = make_directory_with(path, &mut |directory| {
                assert!(directory.is_dir());
                synced.push(directory.to_owned());
                sync_name_of(directory)
            });
            (outcome.map_err(|error| error.kind()), synced)
        };
        assert_eq!(created(&data), (Ok(()), vec![data.clone()]));
        // A process may have been killed before it created a data file, so the name may not be durable.
        assert_eq!(created(&data), (Ok(()), vec![data.clone()]));
        fs::write(data.join(layout::DATA_FILE), b"data").unwrap();
        assert_eq!(created(&data), (Ok(()), Vec::new()));
        assert_eq!(created(&data.join(layout::DATA_FILE)).0, Err(io::ErrorKind::AlreadyExists));
        let failed = make_directory_with(&root.join("c"), &mut |_| Err(io::ErrorKind::Other.into()));
        assert_eq!(failed.map_err(|error| error.kind()), Err(io::ErrorKind::Other));
        fs::remove_dir_all(&root).unwrap();
    }

    /// Regression test: for a directory in /proc, which allows no new directories, `make_directory` recursed until the
    /// stack overflowed.
    #[test]
    fn creates_a_directory_in_an_existing_one() {
        let missing = std::env::temp_dir().join(format!("store-mistyped-{}", std::process::id()));
        let error = make_directory(&missing.join("data")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains(&missing.display().to_string()), "{error}");
        assert!(!missing.exists());
        for impossible in ["/proc/x", "/proc/x/y", ""] {
            assert!(make_directory(Path::new(impossible)).is_err(), "{impossible}");
        }
    }

    #[test]
    fn the_lock_of_a_data_file_holds_under_all_its_names() {
        let root = std::env::temp_dir().join(format!("store-lock-{}", std::process::id()));
        let (one, other) = (root.join("one"), root.join("other"));
        [&root, &one, &other].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        fs::write(one.join(layout::DATA_FILE), b"data").unwrap();
        fs::hard_link(one.join(layout::DATA_FILE), other.join(layout::DATA_FILE)).unwrap();
        let is_in_use = |locked| matches!(locked, Err(OpenError::InUse { pid: None, .. }));
        let writer = lock_data_file(&one, true).unwrap();
        assert!(is_in_use(lock_data_file(&other, true)) && is_in_use(lock_data_file(&other, false)));
        drop(writer);
        let readers = (lock_data_file(&one, false).unwrap(), lock_data_file(&other, false).unwrap());
        assert!(is_in_use(lock_data_file(&other, true)));
        drop(readers);
        lock_data_file(&other, true).unwrap();
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_map_size_covers_the_disk_within_its_limits() {
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
