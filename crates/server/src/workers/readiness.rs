//! The thread that checks every second whether the server can serve reads and changes.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use directory::Directory;

use crate::limits::READINESS_INTERVAL;
use crate::net::mailbox::{LoopMessage, Mailbox};
use crate::telemetry::health::Health;
use crate::telemetry::readiness::Readiness;
use crate::workers::service::Service;

/// State that the thread checks or updates.
pub(crate) struct Probed {
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) mailboxes: Arc<[Mailbox]>,
    pub(crate) health: Arc<Health>,
    pub(crate) directory: Arc<Directory>,
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(probed: Probed) -> io::Result<Service> {
    let (stop, stopped) = channel();
    Service::start("pando-readiness", move || run(&probed, &stopped), move || drop(stop))
}

/// Checks at intervals, until the sender of `stop` is dropped.
fn run(probed: &Probed, stop: &Receiver<()>) {
    let Probed { readiness, mailboxes, .. } = probed;
    loop {
        let now = Instant::now();
        for (number, mailbox) in mailboxes.iter().enumerate() {
            if readiness.begin_probe(number, now) {
                mailbox.post(LoopMessage::Probe(Arc::clone(readiness)));
            }
        }
        readiness.set_refusal(now, probed.refusal());
        if stop.recv_timeout(READINESS_INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

impl Probed {
    /// Returns the reason why the store refuses changes now. In contrast, [`Health::refusal`] is about failures of
    /// recent changes.
    fn refusal(&self) -> Option<String> {
        let facts = match self.directory.facts() {
            Ok(facts) => facts,
            Err(error) => return Some(format!("the store gives no figures: {error}")),
        };
        if facts.writes_stopped {
            return Some("no change is made until a restart".to_owned());
        }
        if facts.disk_free_bytes < facts.disk_reserve_bytes {
            let [free, reserve] = [facts.disk_free_bytes, facts.disk_reserve_bytes].map(|bytes| bytes >> 20);
            return Some(format!("the disk is full: {free} MiB are free, changes need {reserve} MiB"));
        }
        self.health.note_free_space();
        None
    }
}
