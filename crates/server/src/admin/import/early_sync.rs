//! Syncs of the new data file while it is written, so that the last sync has little to write.
//!
//! Without early syncs, the kernel would collect a gigabyte of dirty pages and write it while everything else waits.
//! Correctness does not depend on early syncs. The whole file is synced before it replaces the old file, and a failing
//! disk makes that sync fail, too.

use std::fs::File;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Thread that syncs a file on request.
pub(super) struct EarlySync {
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EarlySync {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
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

    /// Requests a sync without waiting for it. Does nothing if a sync is requested already.
    pub(super) fn request(&self) {
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
