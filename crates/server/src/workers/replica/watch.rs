//! The thread of a promoted server whose settings still name its former supplier. It asks the former supplier for its
//! lineage at intervals.
//!
//! The request contains the lineage with the promotion. Therefore a former writer that returns stops making changes. If
//! the answer contains a later promotion, this server stops making changes. That happens if the supplier did not know
//! that promotion yet when this server started.

use std::io;
use std::sync::Arc;

use directory::{Directory, Requester};

use super::ReplicaParts;
use super::fetch::{Control, FetchError, Fetcher, lineages};
use crate::config::ReplicaSettings;
use crate::limits::{REPLICA_RETRY_MAX, REPLICA_RETRY_MIN};
use crate::workers::writer::{WriteQueue, WriterWork};

/// State of the thread.
pub(super) struct Watch {
    settings: ReplicaSettings,
    directory: Arc<Directory>,
    queue: Arc<WriteQueue>,
}

impl Watch {
    pub(super) fn of(parts: &ReplicaParts, queue: &Arc<WriteQueue>) -> Watch {
        let (settings, directory) = (parts.settings.clone(), Arc::clone(&parts.directory));
        Watch { settings, directory, queue: Arc::clone(queue) }
    }

    /// Starts the thread, which ends when the returned value is dropped.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(super) fn start(self) -> io::Result<Fetcher> {
        Fetcher::spawn(move |control| self.run(control))
    }

    fn run(&self, control: &Control) {
        let mut pause = REPLICA_RETRY_MIN;
        loop {
            pause = match lineages(control, &self.settings, &self.directory) {
                Ok((theirs, own)) => {
                    if let Some(later) = theirs.later_epoch(&own)
                        && self.fence(later.id)
                    {
                        return;
                    }
                    REPLICA_RETRY_MAX
                }
                Err(FetchError::Stopping) => return,
                // An error is usual, because the former supplier is probably lost.
                Err(error) => {
                    let supplier = &self.settings.supplier;
                    tracing::debug!(%supplier, "the former supplier does not say who writes: {error}");
                    (pause * 2).min(REPLICA_RETRY_MAX)
                }
            };
            control.pause(pause);
        }
    }

    /// Makes this server stop writing. Returns false if the queue is full.
    fn fence(&self, epoch: [u8; 16]) -> bool {
        let supplier = &self.settings.supplier;
        let anonymous = Arc::new(Requester::Anonymous);
        let Some(request) = self.queue.own_request(WriterWork::Fence(epoch), &anonymous) else {
            return false;
        };
        tracing::error!(%supplier, "a server was promoted after this one, as the former supplier says");
        self.queue.submit(&mut vec![request]);
        true
    }
}
