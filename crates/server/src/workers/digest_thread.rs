//! A thread that reads rows for a comparison of this server with another.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use system::lower_priority;

use crate::limits::DIGEST_NICENESS;

/// The thread. Dropping this struct ends the thread. Otherwise the thread's snapshot would keep the directory open.
#[derive(Default)]
pub(crate) struct DigestThread {
    alive: Arc<()>,
    thread: Option<JoinHandle<()>>,
}

impl DigestThread {
    /// Returns true if the thread is reading.
    pub(crate) fn is_busy(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Starts `work` on a thread. `work` receives a weak reference. When this reference can no longer be upgraded,
    /// `work` must end soon. No earlier work may be in progress.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(&mut self, work: impl FnOnce(Weak<()>) + Send + 'static) -> io::Result<()> {
        let alive = Arc::downgrade(&self.alive);
        let run = move || {
            lower_priority(DIGEST_NICENESS, "comparing data with other servers has no low priority");
            work(alive);
        };
        self.thread = Some(std::thread::Builder::new().name("pando-digest".to_owned()).spawn(run)?);
        Ok(())
    }
}

impl Drop for DigestThread {
    fn drop(&mut self) {
        self.alive = Arc::default();
        if let Some(thread) = self.thread.take() {
            // The thread returns no result.
            let _ = thread.join();
        }
    }
}
