//! Writing: deciding a batch, appending its records as one group, and keeping the batch open until its outcome is
//! known.

use std::collections::HashSet;

use directory::{OperationError, Outcome, RecordRoom, WriteBatch, Writer};
use kafka_log::{Event, Message};
use ldap::ResultCode;
use replication::forward::Reply;
use replication::limits::{
    DELETE_TRACES_LEVEL, EMPTY_DNS_LEVEL, LINKS_LEVEL, TOMBSTONES_LEVEL, TREES_LEVEL, VALUE_ENDS_LEVEL,
};
use replication::message::record_size;
use replication::{Fit, GroupBuilder, GroupOutcome, OperationId, OperationStatus, RowChange, Step, Verdict};
use store::StoreError;

use super::follow::GatheredCommit;
use super::{Node, TICK};
use crate::event::NodeEvent;
use crate::host::{Answer, MessageContext};
use crate::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX};
use crate::operation::{Change, Operation, Progress, Waiter, applied, unavailable};

/// Outcome of an open batch.
enum BatchOutcome {
    /// The log has accepted the group. The batch is committed with these rows.
    Accepted(Vec<RowChange>),
    /// The log will never accept the group. The value contains the result of the message that excludes the group.
    Dropped(GatheredCommit),
    /// The group is certainly not in the log. The text is the reason.
    Refused(String),
    /// The outcome is unknown, because the node has stopped.
    Unknown,
}

impl Node {
    /// Decides a batch of waiting changes, and completes it.
    pub(super) fn lead(&mut self, writer: &mut Writer) {
        let mut batch = match writer.begin() {
            Ok(batch) => batch,
            Err(error) => return self.refuse_batch(error),
        };
        if let Some(full) = batch.disk_full() {
            // Other nodes may have room, so one of them must become the writer. The waiting changes are then sent to
            // that node.
            tracing::error!(error = %full, "this node cannot write for the cluster any longer");
            let full = OperationError::from(full.clone());
            drop(batch);
            return self.start_over(&full);
        }
        self.limit_to_level(&mut batch);
        let group = GroupBuilder::new(self.parts.group_bytes_max);
        let mut group = group.with_records_max(self.parts.group_records_max);
        let mut decided = Vec::new();
        if let Err(error) = self.decide(&mut batch, &mut group, &mut decided) {
            drop(batch);
            tracing::error!(%error, "a batch is dropped");
            return decided.into_iter().for_each(|(operation, _)| self.answer(operation, failed(&error)));
        }
        if group.record_count() == 0 {
            // The batch has no records to append. The answers were decided on a state that is accepted and visible, so
            // they can be sent.
            drop(batch);
            return decided.into_iter().for_each(|(operation, answer)| self.answer(operation, answer));
        }
        let seals = self.parts.seals;
        let proposed = self.member.as_mut().map(|member| member.propose(group, seals));
        let (Some(Ok(message)), true) = (proposed, self.parts.log.is_open()) else {
            drop(batch);
            return self.decide_again(decided);
        };
        let ticket = self.append(&message);
        self.note_appended(ticket, &message);
        self.group = Some((ticket, message));
        let fate = self.hold(&mut decided);
        self.group = None;
        let log_rows = std::mem::take(&mut self.log_rows);
        match fate {
            BatchOutcome::Accepted(rows) => {
                let rows: Vec<_> =
                    log_rows.iter().chain(&rows).map(|row| (&*row.key, row.value.as_deref())).collect();
                match batch.put_log_rows(&rows).and_then(|()| batch.commit()) {
                    Ok(()) => self.committed_group(decided),
                    Err(error) => {
                        // The log has accepted the group, so the changes are part of the directory. The node starts
                        // over and reads the group again.
                        tracing::error!(%error, "a batch that the log has is not committed; it is tried again");
                        self.mark_doubtful(&mut decided);
                        self.decide_again(decided);
                        self.start_over(&error);
                    }
                }
            }
            BatchOutcome::Dropped(mut gathered) => {
                gathered.rows.splice(0..0, log_rows);
                drop(batch);
                self.parts.figures.lock().groups_dropped += 1;
                self.decide_again(decided);
                self.commit(writer, &gathered);
            }
            BatchOutcome::Refused(reason) => {
                drop(batch);
                self.note_failed_change(&reason);
                let text = format!("the cluster's log takes no changes now: {reason}");
                decided
                    .into_iter()
                    .for_each(|(operation, _)| self.answer(operation, unavailable(text.clone())));
                self.commit(writer, &GatheredCommit::of_rows(log_rows));
            }
            BatchOutcome::Unknown => {
                drop(batch);
                self.mark_doubtful(&mut decided);
                self.decide_again(decided);
            }
        }
    }

    /// Prevents a batch from using features that some nodes of the cluster do not support.
    fn limit_to_level(&self, batch: &mut WriteBatch<'_>) {
        let level = self.member.as_ref().map_or(0, |member| member.follower().level());
        if level < TREES_LEVEL {
            batch.refuse_trees();
        }
        if level < EMPTY_DNS_LEVEL {
            batch.keep_deleted_dns();
        }
        if level < TOMBSTONES_LEVEL {
            batch.keep_none();
        }
        if level < DELETE_TRACES_LEVEL {
            batch.omit_delete_traces();
        }
        if level < VALUE_ENDS_LEVEL {
            batch.refuse_ends();
        }
        if level < LINKS_LEVEL {
            batch.refuse_links();
        }
    }

    fn refuse_batch(&mut self, error: OperationError) {
        if let OperationError::Store(StoreError::WritesStopped { .. }) = error {
            self.stop(&error.to_string());
        }
        let outcome = Outcome::from(error);
        while let Some(operation) = self.waiting.pop_front() {
            self.answer(operation, outcome.clone().into());
        }
    }

    /// Decides waiting changes as long as their records fit into one group.
    fn decide(
        &mut self,
        batch: &mut WriteBatch<'_>,
        group: &mut GroupBuilder,
        decided: &mut Vec<(Operation, Answer)>,
    ) -> Result<(), StoreError> {
        let mut ids: HashSet<OperationId> = HashSet::new();
        let mut again = Vec::new();
        let mut bytes = 0;
        while decided.len() < BATCH_WRITES_MAX && bytes < BATCH_BYTES_MAX {
            let Some(mut operation) = self.waiting.pop_front() else { break };
            let count = operation.change.record_count();
            if group.room(count).is_none() && group.record_count() > 0 {
                self.waiting.push_front(operation);
                break;
            }
            // A change may cause additional records, for example for memberships by rules, and each record needs room.
            // If a change does not fit into an empty group, it is too large for the log.
            let room = RecordRoom { bytes: group.room(0).unwrap_or(0), count: group.records_left() };
            if ids.contains(&operation.id) {
                // This is another copy of a change in the batch. The copy is handled after the batch.
                again.push(operation);
                continue;
            }
            if !self.is_admitted(&operation) {
                self.reply(operation, Reply::NotWriter);
                continue;
            }
            match self.known(operation.id) {
                OperationStatus::New => {}
                OperationStatus::Applied { .. } => {
                    self.answer(operation, applied());
                    continue;
                }
                OperationStatus::TooOld => {
                    self.answer(operation, unavailable(FORGOTTEN));
                    continue;
                }
            }
            bytes += operation.change.bytes();
            let before = batch.position()?;
            batch.limit_records(room, record_size(0));
            let started = self.now();
            let mut answer = self.execute(batch, &operation);
            operation.progress = Some(Progress { is_forwarded: false, started, ended: self.now() });
            if let Some(RecordRoom { bytes: size, count }) = batch.take_rejected_room() {
                let Some(refused) = too_large(group.fits_all(count, size)) else {
                    self.waiting.push_front(operation);
                    break;
                };
                decided.push((operation, refused.into()));
                continue;
            }
            answer.position = Some(batch.position()?).filter(|after| *after > before);
            for record in batch.records(before)? {
                group.push(&operation.id, &record);
                ids.insert(operation.id);
            }
            bytes += answer.value.as_ref().map_or(0, Vec::len);
            decided.push((operation, answer));
        }
        again.into_iter().rev().for_each(|operation| self.waiting.push_front(operation));
        Ok(())
    }

    /// Returns false if another node sent the request, and either has since sent a newer copy of the request, or the
    /// epoch is not the epoch for which the node sent it.
    fn is_admitted(&self, operation: &Operation) -> bool {
        let Waiter::Remote { copy, .. } = &operation.origin else { return true };
        let epoch = self.member.as_ref().and_then(|member| member.follower().epoch());
        epoch.is_some_and(|epoch| self.gate.admits(operation.id.node, copy, epoch.offset))
    }

    fn known(&self, id: OperationId) -> OperationStatus {
        self.member.as_ref().map_or(OperationStatus::New, |member| member.follower().operation(&id))
    }

    fn execute(&mut self, batch: &mut WriteBatch<'_>, operation: &Operation) -> Answer {
        if let Waiter::Remote { .. } = operation.origin
            && let Err(error) = batch.check_requester(&operation.requester, self.parts.runtime.now_micros())
        {
            return Outcome::from(error).into();
        }
        match &operation.change {
            Change::Message(message) => {
                let (origin, keeps_old_values) = (operation.audited.0.as_deref(), operation.audited.1);
                let (passwords, link) = (operation.passwords.clone(), operation.link);
                let context = MessageContext { passwords, link, origin, keeps_old_values };
                self.parts.host.execute(batch, &operation.requester, message, context)
            }
            Change::Transaction(changes) => {
                let keeps_old_values = operation.audited.1;
                let (requester, link) = (&operation.requester, operation.link);
                self.parts.host.execute_transaction(batch, requester, changes, link, keeps_old_values)
            }
            Change::Account(id, update) => self.parts.host.update_account(batch, *id, update).into(),
        }
    }

    /// Waits for the outcome of the open batch. A client whose time limit passes in the meantime gets `unavailable`.
    fn hold(&mut self, decided: &mut [(Operation, Answer)]) -> BatchOutcome {
        let started = self.now();
        let mut is_logged = false;
        loop {
            if !is_logged && self.elapsed(started) > self.parts.patience {
                is_logged = true;
                self.mark_doubtful(decided);
                for (operation, _) in decided.iter_mut() {
                    self.give_up(operation);
                }
            }
            self.expire();
            self.claim_if_due();
            self.update_figures();
            let Some(event) = self.next_event(TICK) else { continue };
            let message = match event {
                NodeEvent::Log(reading, Event::Message(message)) if reading == self.reading => {
                    self.release(&message);
                    Some(message)
                }
                NodeEvent::Log(_, Event::Message(_)) => None,
                NodeEvent::Log(_, Event::Lost(reason)) => {
                    self.stop(&format!("the log cannot be read on from where this node stands: {reason}"));
                    return BatchOutcome::Unknown;
                }
                NodeEvent::Log(_, event) => match self.own_group(&event) {
                    Some(message) => Some(message),
                    None => {
                        let reason = match &event {
                            Event::Failed { reason, .. } => reason.clone(),
                            _ => String::new(),
                        };
                        match self.log_outcome(event) {
                            Some(GroupOutcome::Dropped) => return BatchOutcome::Refused(reason),
                            _ => None,
                        }
                    }
                },
                other => {
                    self.take_request(other);
                    None
                }
            };
            if let Some(message) = message
                && let Some(fate) = self.judge_proposed(&message)
            {
                return fate;
            }
            if self.stopped.is_some() {
                return BatchOutcome::Unknown;
            }
        }
    }

    /// Judges a message while a batch is open.
    fn judge_proposed(&mut self, message: &Message) -> Option<BatchOutcome> {
        let member = self.member.as_mut()?;
        let Step { verdict, outcome } = member.step(message.offset, &message.bytes);
        self.count(&verdict, message);
        match (outcome, verdict) {
            (Some(GroupOutcome::Accepted), Verdict::Apply(accepted)) => {
                Some(BatchOutcome::Accepted(accepted.rows))
            }
            (outcome, verdict) => {
                let mut gathered = GatheredCommit::default();
                self.gather_verdict(verdict, message, &mut gathered);
                if let Some((mark, slice)) = gathered.mark.take() {
                    // The data contains everything before the barrier. It does not contain the open batch.
                    self.sum_up(mark, slice);
                }
                match outcome {
                    Some(GroupOutcome::Dropped) => Some(BatchOutcome::Dropped(gathered)),
                    Some(GroupOutcome::Accepted | GroupOutcome::Unknown) => Some(BatchOutcome::Unknown),
                    None => {
                        self.log_rows.append(&mut gathered.rows);
                        None
                    }
                }
            }
        }
    }

    fn committed_group(&mut self, decided: Vec<(Operation, Answer)>) {
        self.parts.host.committed();
        let mut figures = self.parts.figures.lock();
        figures.groups_decided += 1;
        figures.failed_change = None;
        drop(figures);
        self.announced.is_new = true;
        self.answer_decided();
        decided.into_iter().for_each(|(operation, answer)| self.answer(operation, answer));
    }

    /// Puts changes back to the front of the queue, in their order.
    fn decide_again(&mut self, decided: Vec<(Operation, Answer)>) {
        decided.into_iter().rev().for_each(|(operation, _)| self.waiting.push_front(operation));
    }

    fn mark_doubtful(&self, decided: &mut [(Operation, Answer)]) {
        decided.iter_mut().for_each(|(operation, _)| operation.is_doubtful = true);
    }
}

/// Diagnostic message for a change whose operation id is so old that it is no longer known.
pub(super) const FORGOTTEN: &str =
    "whether the change was made is not remembered any longer: look before you repeat it";

/// Returns the refusal of a change whose records fit into no group.
fn too_large(fit: Fit) -> Option<Outcome> {
    let text = match fit {
        Fit::Yes | Fit::Next => return None,
        Fit::Never { size, max } => format!(
            "the change takes {size} bytes in the cluster's log, whose topic takes {max} (max.message.bytes)"
        ),
        Fit::TooMany { max } => format!(
            "the change makes more than {max} records, which is the most that a message of the cluster's log may \
             contain; divide it into smaller changes"
        ),
    };
    Some(Outcome::new(ResultCode::ADMIN_LIMIT_EXCEEDED, text))
}

/// Returns the answer to each change of a failed batch.
fn failed(error: &StoreError) -> Answer {
    Outcome::from(OperationError::from(error.clone())).into()
}
