//! Functions of the writer's queue for nodes of a cluster and for replicas. There, a thread other than the writer's
//! loop controls how and when a batch is committed.

use std::sync::PoisonError;
use std::time::Duration;

use directory::account_update::AccountUpdate;
use directory::rows::EntryId;

use super::super::{Answer, WriteRequest, all_failed};
use super::{Fetched, WriteQueue, lock};
use crate::net::mailbox::{Address, LoopMessage};

impl WriteQueue {
    /// Ends the wait of a replica's thread for changes, because the thread has other work.
    pub(crate) fn poke(&self) {
        lock(&self.waiting).poked = true;
        self.work_arrived.notify_one();
    }

    /// Waits for [`poke`](WriteQueue::poke), but for at most `patience`. A spurious wake-up may end the wait early.
    pub(crate) fn await_poke(&self, patience: Duration) -> Fetched {
        let mut waiting = lock(&self.waiting);
        if !std::mem::take(&mut waiting.poked) {
            let waited = self.work_arrived.wait_timeout(waiting, patience);
            waited.unwrap_or_else(PoisonError::into_inner).0.poked = false;
        }
        Fetched::Nothing
    }

    /// Waits for changes and takes them all. Returns false if the queue is closed and empty.
    pub(crate) fn take_changes(&self, requests: &mut Vec<WriteRequest>) -> bool {
        self.fetch(requests, None) == Fetched::Changes
    }

    /// Refuses changes until the queue is closed and empty, because no thread makes them any more.
    pub(crate) fn refuse_all(&self) {
        let mut requests = Vec::new();
        while self.take_changes(&mut requests) {
            for request in requests.drain(..) {
                let answer = all_failed(1).remove(0);
                self.answer(request.address, answer);
            }
        }
    }

    /// Answers a change.
    pub(crate) fn answer(&self, address: Address, answer: Answer) {
        if let Some(mailbox) = self.mailboxes.get(usize::from(address.event_loop)) {
            mailbox.post(LoopMessage::Written(vec![answer.to(address, None)]));
        }
    }

    /// Takes the unrecorded attempts on an account, in order to record them. Adds the time of a grace login and the
    /// time step of a time-based code.
    pub(crate) fn take_account_update(
        &self,
        id: EntryId,
        (grace, totp_step): (Option<i64>, Option<i64>),
    ) -> AccountUpdate {
        AccountUpdate { grace, totp_step, ..self.attempts.take(id) }
    }

    /// Ends an update that was taken. If it was not recorded, the update waits again.
    pub(crate) fn settle_account(&self, id: EntryId, is_recorded: bool) {
        self.attempts.settle(id, is_recorded);
    }

    /// Returns the accounts with unrecorded attempts.
    pub(crate) fn unrecorded_accounts(&self) -> Vec<EntryId> {
        self.attempts.all()
    }
}
