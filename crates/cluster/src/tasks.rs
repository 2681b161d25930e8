//! Threads that each make one request to Kafka for the node.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Running threads.
#[derive(Default)]
pub(crate) struct Tasks {
    is_ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Tasks {
    /// Runs `work` on a new thread. The argument of `work` becomes true when the node ends. `work` must check this
    /// flag, and check it again after each unpark.
    pub(crate) fn run(
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

impl Drop for Tasks {
    /// Waits for all threads. If the process ended while a thread has a client of Kafka, OpenSSL would be unloaded
    /// while the client uses it, and the process would crash.
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A panic of the thread has no effect on the node.
            let _ = thread.join();
        }
    }
}
