//! Short threads that ask Kafka one thing for the node.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Those that run.
#[derive(Default)]
pub(super) struct Errands {
    is_ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Errands {
    /// Runs `work` on a thread of its own. It looks now and then whether the node ends, and when it is unparked.
    pub(super) fn run(
        &mut self,
        name: &str,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> io::Result<()> {
        self.threads.retain(|thread| !thread.is_finished());
        let is_ending = Arc::clone(&self.is_ending);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&is_ending))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Errands {
    /// Waits for all: where a process ends while a thread has a client of Kafka, OpenSSL is taken from under that, and
    /// the process dies.
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // It has nothing to tell.
            let _ = thread.join();
        }
    }
}
