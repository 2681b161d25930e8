//! Listening sockets that wait for the first data of a client.

use std::io;
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::time::Duration;

/// Makes a listening TCP socket accept a connection only after its client has sent data (`TCP_DEFER_ACCEPT`, tcp(7)).
/// Until then the connection occupies an entry of the kernel's queue and no file descriptor. After about `time_max`
/// (whole seconds, rounded up by the kernel) the connection is accepted even if no data has arrived. A kernel whose
/// queue is full accepts connections at once.
///
/// # Errors
/// The socket is not a TCP socket.
#[cfg(target_os = "linux")]
pub fn defer_accept(listener: &impl AsFd, time_max: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(time_max.as_secs()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer is to a `c_int` that outlives the call, and the given length is its size.
    let result = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Does nothing: this system accepts every connection at once.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn defer_accept(_: &impl AsFd, _: Duration) -> io::Result<()> {
    Ok(())
}
