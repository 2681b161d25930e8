//! Locks that belong to an open file and not to a process.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;

/// Locks the first byte of a file, shared or `exclusively`. An exclusive lock requires a file open for writing. Returns
/// false if the lock of another open file conflicts. The lock ends when the last descriptor of this open file is
/// closed. The lock is independent of the `flock` locks that [`File::try_lock`] uses.
///
/// # Errors
/// The file system has no such locks.
#[cfg(target_os = "linux")]
pub fn try_lock_first_byte(file: &File, exclusively: bool) -> io::Result<bool> {
    let kind = if exclusively { libc::F_WRLCK } else { libc::F_RDLCK };
    // SAFETY: all fields are integers, for which zero is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_len = 1;
    // SAFETY: the descriptor is open, because `file` is, and the call reads the structure while it lives.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            error if error.raw_os_error() == Some(libc::EACCES) => Ok(false),
            error => Err(error),
        },
    }
}

/// Does nothing: this system has no locks of open file descriptions.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn try_lock_first_byte(_: &File, _: bool) -> io::Result<bool> {
    Ok(true)
}
