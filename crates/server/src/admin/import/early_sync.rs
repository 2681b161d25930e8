//! Writing the new data file out while it is made, so that little is left for the sync at its end.
//!
//! The system would let a gigabyte pile up and write it when everything else waits for it. Nothing relies on this: the
//! file is synced as a whole before it takes its place, and a failure of the disk that shows here shows there too.

use std::fs::File;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A thread that syncs a file when asked.
pub(super) struct EarlySync {
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EarlySync {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn of(file: File) -> std::io::Result<EarlySync> {
        let (requests, received) = sync_channel(1);
        let thread = std::thread::Builder::new().name("pando-sync".to_owned()).spawn(move || {
            for () in received {
                if let Err(error) = file.sync_data() {
                    tracing::debug!(%error, "an early sync of the new data failed");
                }
            }
        })?;
        Ok(EarlySync { requests: Some(requests), thread: Some(thread) })
    }

    /// Asks for a sync of what has been written, unless one is asked for already. Waits for nothing.
    pub(super) fn ask(&self) {
        if let Some(requests) = &self.requests {
            let _ = requests.try_send(());
        }
    }
}

impl Drop for EarlySync {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
