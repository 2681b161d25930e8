//! The thread that reads the data file into memory when a server starts.
//!
//! The thread has the lowest priority. It ends with the server or at the end of the data. See
//! [`directory::Directory::warm_up`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use directory::Directory;
use system::lower_priority;

use crate::limits::WARM_UP_NICENESS;
use crate::workers::service::Service;

/// Starts the thread. It reads the data only if the data has at most `bytes_max` octets.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(directory: &Arc<Directory>, bytes_max: u64) -> io::Result<Service> {
    let directory = Arc::clone(directory);
    let is_stopping = Arc::<AtomicBool>::default();
    let stop = Arc::clone(&is_stopping);
    let run = move || run(&directory, bytes_max, &is_stopping);
    Service::start("pando-warm-up", run, move || stop.store(true, Ordering::Relaxed))
}

/// Reads the data into memory until `is_stopping` is set. Does nothing if the data has more than `bytes_max` octets.
fn run(directory: &Arc<Directory>, bytes_max: u64, is_stopping: &AtomicBool) {
    lower_priority(WARM_UP_NICENESS, "reading data into memory has no low priority");
    let begun_at = Instant::now();
    match directory.warm_up(bytes_max, || !is_stopping.load(Ordering::Relaxed)) {
        Ok(0) => tracing::debug!(bytes_max, "data is not read into memory: there is more than that"),
        Ok(bytes) => tracing::debug!(bytes, elapsed = ?begun_at.elapsed(), "data was read into memory"),
        // No request depends on reading ahead. A request that needs the unreadable data fails and is logged separately.
        Err(error) => tracing::warn!(%error, "data was not read into memory"),
    }
}
