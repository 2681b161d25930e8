//! Sockets that the service manager opened before it started this process.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the sockets were taken already. Each descriptor must have only one owner.
static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the sockets that systemd passes to this process (`LISTEN_FDS` and `LISTEN_PID`, `sd_listen_fds(3)`). Child
/// processes do not inherit these sockets. Later calls return no sockets.
///
/// # Errors
/// The variables do not contain numbers, or a descriptor is not open.
pub fn inherited_sockets() -> io::Result<Vec<OwnedFd>> {
    if ARE_TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let descriptors = sd_notify::listen_fds()?;
    // SAFETY: `LISTEN_PID` is this process, so the service manager opened these descriptors for it. They are open:
    // `listen_fds` has set their close-on-exec flags. They have one owner: this function runs its body only once.
    Ok(descriptors.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }).collect())
}
