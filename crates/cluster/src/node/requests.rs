//! Changes of clients: changes of this node's clients, changes that other nodes forward to this node, and changes that
//! this node forwards to the writer.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use ldap::ResultCode;
use replication::forward::{Answer as ForwardAnswer, Reply};
use replication::limits::TRANSACTIONS_LEVEL;
use replication::{OperationStatus, Role};

use super::Node;
use super::lead::FORGOTTEN;
use crate::event::Frame;
use crate::host::{Answer, ChangeTimes, DecidedForOther, LocalChange, LocalWork};
use crate::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX, FRAMES_MAX, RETRY};
use crate::operation::{Change, Operation, Progress, Waiter, answer_of, applied, reply, unavailable};

/// Diagnostic message for a transaction while a node of the cluster does not support transactions.
const OLD_NODES: &str = "a node of the cluster runs a version without transactions; update all nodes first";

/// Frame of changes that were sent to the writer and are not answered yet.
pub(crate) struct Sent {
    number: u64,
    operations: Vec<Operation>,
}

/// Change that the writer has decided. Its client is answered once this node's state contains `position`.
pub(crate) struct Decided {
    position: u64,
    operation: Operation,
    answer: Answer,
}

/// Requests of another node that wait for their answers.
pub(crate) struct RemoteFrame {
    answers: Vec<Option<ForwardAnswer>>,
    missing: usize,
    reply: SyncSender<Vec<ForwardAnswer>>,
}

impl Node {
    pub(super) fn take_local(&mut self, change: LocalChange) {
        let LocalChange { requester, link, work, passwords, origin, keeps_old_values, reply } = change;
        let audited = (origin, keeps_old_values);
        let change = match work {
            LocalWork::Message(message) => Change::Message(message),
            LocalWork::Transaction(_) if !self.knows_transactions() => return reply(unavailable(OLD_NODES)),
            LocalWork::Transaction(changes) => Change::Transaction(changes),
            LocalWork::Account(id, update) => Change::Account(id, update),
        };
        let origin = Waiter::Local(reply);
        let (id, since) = (self.ids.next(), self.now());
        self.waiting.push_back(Operation {
            id,
            requester,
            change,
            passwords,
            link,
            audited,
            origin,
            since,
            is_doubtful: false,
            progress: None,
        });
    }

    /// Returns true if every node supports forwarded transactions.
    fn knows_transactions(&self) -> bool {
        let level = self.member.as_ref().map_or(0, |member| member.follower().level());
        level >= TRANSACTIONS_LEVEL
    }

    /// Records that this node has no more clients. Password events that are not recorded yet are queued as changes.
    pub(super) fn close(&mut self) {
        let now = self.now();
        self.is_closing = Some(now);
        let requester = Arc::new(directory::Requester::Anonymous);
        for (account, update) in self.parts.host.unrecorded_accounts() {
            self.waiting.push_back(Operation {
                id: self.ids.next(),
                requester: Arc::clone(&requester),
                change: Change::Account(account, update),
                passwords: Default::default(),
                link: None,
                audited: (None, false),
                origin: Waiter::Nobody,
                since: now,
                is_doubtful: false,
                progress: None,
            });
        }
    }

    /// Receives requests of a node that believes this node to be the writer.
    pub(super) fn take_frame(&mut self, frame: Frame) {
        let Frame { requests, reply } = frame;
        for request in &requests {
            self.gate.see(request.operation.node, request.link);
        }
        let position = self.member.as_ref().map_or(0, |member| member.follower().position());
        let is_writer = self.member.as_ref().is_some_and(|member| {
            matches!(member.role(), Role::Leading { .. } | Role::Claiming { .. }) && self.stopped.is_none()
        });
        self.numbers += 1;
        let number = self.numbers;
        let missing = requests.len();
        let answers = requests.iter().map(|_| None).collect();
        self.frames.insert(number, RemoteFrame { answers, missing, reply });
        let (now, now_micros) = (self.now(), self.parts.runtime.now_micros());
        let takes = is_writer && self.frames.len() <= FRAMES_MAX;
        for (place, request) in requests.into_iter().enumerate() {
            let is_early = request.position > position;
            let operation = Operation::of_request(request, number, place, (now, now_micros));
            if takes && !is_early {
                self.waiting.push_back(operation);
            } else {
                self.reply(operation, Reply::NotWriter);
            }
        }
        if missing == 0
            && let Some(frame) = self.frames.remove(&number)
        {
            let _ = frame.reply.send(Vec::new());
        }
    }

    /// Answers a change.
    pub(super) fn answer(&mut self, operation: Operation, answer: Answer) {
        let times = operation.times(self.now());
        match operation.origin {
            Waiter::Local(reply) => reply(Answer { times, ..answer }),
            Waiter::Remote { .. } => {
                self.report_decided(&operation, &answer, times);
                let position = self.member.as_ref().map_or(0, |member| member.follower().position());
                self.reply(operation, reply(position, answer));
            }
            Waiter::Nobody => {}
        }
    }

    /// Reports to the server that a change of another node's client was decided. Does nothing for an update of an
    /// account.
    fn report_decided(&mut self, operation: &Operation, answer: &Answer, times: Option<ChangeTimes>) {
        let message = match &operation.change {
            Change::Message(message) => Some(message.as_slice()),
            Change::Transaction(_) => None,
            Change::Account(..) => return,
        };
        let Some(ChangeTimes::Decided(times)) = times else { return };
        let (operation, code, since) = (operation.id, answer.outcome.code, operation.since);
        self.parts.host.decided_for_other(&DecidedForOther { operation, message, code, since, times });
    }

    pub(super) fn reply(&mut self, operation: Operation, reply: Reply) {
        let Waiter::Remote { frame: number, place, .. } = operation.origin else { return };
        let Some(frame) = self.frames.get_mut(&number) else { return };
        let Some(answer) = frame.answers.get_mut(place).filter(|answer| answer.is_none()) else { return };
        *answer = Some(ForwardAnswer { operation: operation.id, reply });
        frame.missing -= 1;
        if frame.missing == 0
            && let Some(frame) = self.frames.remove(&number)
        {
            // Ignore a failure: if the connection is closed, the other node sends its requests again.
            let _ = frame.reply.send(frame.answers.into_iter().flatten().collect());
        }
    }

    /// If a client waits, reports to it that the outcome of its change is unknown.
    pub(super) fn give_up(&mut self, operation: &mut Operation) {
        if let Waiter::Nobody = operation.origin {
            return;
        }
        let origin = std::mem::replace(&mut operation.origin, Waiter::Nobody);
        let late = Operation {
            id: operation.id,
            requester: Arc::clone(&operation.requester),
            change: match &operation.change {
                Change::Account(id, update) => Change::Account(*id, update.clone()),
                Change::Message(_) | Change::Transaction(_) => Change::Message(Vec::new()),
            },
            passwords: Default::default(),
            link: None,
            audited: (None, false),
            origin,
            since: operation.since,
            is_doubtful: true,
            progress: None,
        };
        self.refuse_late(late);
    }

    /// Refuses changes whose time limit has passed.
    pub(super) fn expire(&mut self) {
        let (now, patience) = (self.now(), self.parts.patience);
        let is_late = |operation: &Operation| now.duration_since(operation.since) > patience;
        while self.waiting.front().is_some_and(is_late) {
            if let Some(operation) = self.waiting.pop_front() {
                self.refuse_late(operation);
            }
        }
        // The writer has not answered these changes. The node keeps the changes without a client, because their results
        // still matter.
        if let Some(mut sent) = self.sent.take() {
            for operation in sent.operations.iter_mut().filter(|operation| is_late(operation)) {
                operation.is_doubtful = true;
                self.give_up(operation);
            }
            self.sent = Some(sent);
        }
        // The writer has decided these changes, but this node has not applied their positions in time.
        let late = self.decided.extract_if(.., |decided| is_late(&decided.operation)).collect::<Vec<_>>();
        for Decided { operation, answer, .. } in late {
            let text = "the cluster has decided the change, and this node does not show it yet: look, then repeat it";
            let answer = if answer.outcome.code == ResultCode::SUCCESS { unavailable(text) } else { answer };
            self.answer(operation, answer);
        }
    }

    fn refuse_late(&mut self, operation: Operation) {
        if let Waiter::Remote { .. } = operation.origin {
            // The node that the client is connected to enforces the time limit.
            return self.reply(operation, Reply::NotWriter);
        }
        let known = self.member.as_ref().map(|member| member.follower().operation(&operation.id));
        if let Some(OperationStatus::Applied { .. }) = known {
            return self.answer(operation, applied());
        }
        let unreachable = self.parts.figures.lock().unreachable.is_some();
        let why = if unreachable { "its log cannot be reached" } else { "no node of it takes changes now" };
        let text = match operation.is_doubtful {
            true => format!(
                "the cluster does not say whether the change is made: {why}; look before sending it again"
            ),
            false => format!("the cluster makes no changes now: {why}; reading goes on, try again later"),
        };
        self.answer(operation, unavailable(text));
    }

    /// Refuses all changes that are not answered yet if this node has stopped, or if the data of nodes is disputed.
    pub(super) fn refuse_if_stopped(&mut self) {
        let stopped =
            self.stopped.as_ref().map(|cause| format!("this node follows its cluster no longer: {cause}"));
        let Some(cause) = stopped.or_else(|| self.digests.dispute().cloned()) else { return };
        let sent = self.sent.take().map_or_else(Vec::new, |sent| sent.operations);
        let shown = std::mem::take(&mut self.decided).into_iter().map(|decided| decided.operation);
        let all: Vec<Operation> = sent.into_iter().chain(shown).chain(self.waiting.drain(..)).collect();
        for operation in all {
            if let Waiter::Remote { .. } = operation.origin {
                self.reply(operation, Reply::NotWriter);
                continue;
            }
            let doubt = if operation.is_doubtful { "; the change may have been made" } else { "" };
            self.answer(operation, unavailable(format!("{cause}{doubt}")));
        }
    }

    /// Sends waiting changes to the writer, if another node is the writer, no frame is in flight, and the time is not
    /// before `send_after`.
    pub(super) fn forward_if_due(&mut self) {
        let now = self.now();
        let Some(member) = &self.member else { return };
        let follower = member.follower();
        let others = follower.epoch().filter(|epoch| epoch.node != self.ids.node && !self.is_elected);
        let (Some(epoch), Some(address)) = (others, &self.writer_address) else { return };
        if self.sent.is_some() || self.waiting.is_empty() || now < self.send_after {
            return;
        }
        let position = follower.position();
        let (address, mut bytes) = (address.clone(), 0);
        let mut operations: Vec<Operation> = Vec::new();
        while operations.len() < BATCH_WRITES_MAX && bytes < BATCH_BYTES_MAX {
            match self.waiting.pop_front() {
                // Another node sent the change to this node, but this node is not the writer.
                Some(operation) if matches!(operation.origin, Waiter::Remote { .. }) => {
                    self.reply(operation, Reply::NotWriter);
                }
                Some(mut operation) => {
                    bytes += operation.change.bytes();
                    operation.progress = Some(Progress { is_forwarded: true, started: now, ended: now });
                    operations.push(operation);
                }
                None => break,
            }
        }
        if operations.is_empty() {
            return;
        }
        self.numbers += 1;
        let requests: Vec<_> =
            operations.iter().map(|operation| operation.request(epoch.offset, position)).collect();
        self.parts.peers.send(self.numbers, epoch.node, &address, requests);
        self.sent = Some(Sent { number: self.numbers, operations });
    }

    /// Receives the writer's answers to forwarded changes.
    pub(super) fn take_answers(&mut self, number: u64, answers: Result<Vec<ForwardAnswer>, String>) {
        let Some(sent) = self.sent.take_if(|sent| sent.number == number) else { return };
        let mut answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                tracing::warn!(
                    "changes could not be sent to the node that writes: {error}; they are sent again"
                );
                self.note_failed_change(&format!("the writer cannot be reached: {error}"));
                self.send_after = self.now() + RETRY;
                return self.send_again(sent.operations, true);
            }
        };
        let (mut again, now) = (Vec::new(), self.now());
        for mut operation in sent.operations {
            operation.progress.iter_mut().for_each(|progress| progress.ended = now);
            let found = answers.iter().position(|answer| answer.operation == operation.id);
            match found.map(|place| answers.swap_remove(place).reply) {
                Some(Reply::Decided { position, result }) => {
                    self.decided.push(Decided { position, operation, answer: answer_of(result) });
                }
                Some(Reply::Applied { position }) => {
                    self.decided.push(Decided { position, operation, answer: applied() });
                }
                Some(Reply::TooOld) => self.answer(operation, unavailable(FORGOTTEN)),
                Some(Reply::NotWriter) | None => again.push(operation),
            }
        }
        if !again.is_empty() {
            self.send_after = self.now() + RETRY;
            self.send_again(again, true);
        }
        let mut figures = self.parts.figures.lock();
        figures.forwarded += self.decided.len() as u64;
        figures.failed_change = None;
        drop(figures);
        self.answer_decided();
    }

    /// Records that the log or the writer did not accept a change.
    pub(super) fn note_failed_change(&self, reason: &str) {
        self.parts.figures.lock().failed_change = Some((self.now(), reason.to_owned()));
    }

    fn send_again(&mut self, operations: Vec<Operation>, is_doubtful: bool) {
        for mut operation in operations.into_iter().rev() {
            operation.is_doubtful |= is_doubtful;
            self.waiting.push_front(operation);
        }
    }

    /// Answers the decided changes whose positions this node's state contains now.
    pub(super) fn answer_decided(&mut self) {
        let position = self.member.as_ref().map_or(0, |member| member.follower().position());
        let (ready, later) =
            std::mem::take(&mut self.decided).into_iter().partition(|decided| decided.position <= position);
        self.decided = later;
        let ready: Vec<Decided> = ready;
        ready.into_iter().for_each(|decided| self.answer(decided.operation, decided.answer));
    }
}
