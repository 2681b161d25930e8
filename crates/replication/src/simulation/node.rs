//! A node: a disk, and, while it runs, a process that drives a [`Member`] as a server does.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use super::client::Response;
use super::directory::{self, Action, ClientAction, Decision, Effect, Values};
use super::log::LogEnd;
use super::rotation::Keys;
use super::{Defect, Violation};
use crate::digest::{Comparison, Parts, RollingDigest};
use crate::follower::{Alarm, Follower, Mark, OperationStatus, Rotated, Verdict};
use crate::forward::{
    self, Answer, BindMethod, ForwardedRequester, Gate, LdapResult, Link, Prepared, Reply, Request, Work,
};
use crate::key::{KeyRing, Tag};
use crate::member::{Fit, GroupBuilder, GroupOutcome, Member, Role};
use crate::operation::{NodeId, OperationId};
use crate::round::{PlannedSlice, Slice};
use crate::rows::RowChange;
use crate::shared_log::{LogEvent, SharedLog};

/// Maximum size of a message. It is small, so that batches are split.
const MESSAGE_BYTES_MAX: usize = 320;
const CLAIM_TIMEOUT: u64 = 60_000;
const RESEND_TIMEOUT: u64 = 80_000;
const RESEND_DELAY: u64 = 10_000;
const REFUSED: u32 = 53;
/// Maximum number of rows in a slice. It is small, so that a round has several slices.
const SLICE_ROWS_MAX: usize = 2;

/// State that survives a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) values: Values,
    pub(super) rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Rows and records written for one verdict.
#[derive(Clone, Debug, Default)]
struct Commit {
    done_at: u64,
    effects: Vec<Effect>,
    rows: Vec<RowChange>,
}

impl Disk {
    pub(super) fn put_rows(&mut self, rows: Vec<RowChange>) {
        for RowChange { key, value } in rows {
            match value {
                Some(value) => drop(self.rows.insert(key, value)),
                None => drop(self.rows.remove(&key)),
            }
        }
    }
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: u32,
    pub(super) disk: Disk,
    /// Keys of the node. They survive a loss of its data.
    pub(super) keys: KeyRing,
    pub(super) process: Option<Process>,
    pub(super) paused_until: u64,
}

/// Message that leaves a process.
#[derive(Debug)]
pub(super) enum Sent {
    /// To the log: append a message.
    Append { ticket: u64, message: Vec<u8> },
    /// To the log: read messages from this offset on.
    Fetch { fetch: u64, from: u64 },
    /// To the node that seems to be the writer.
    Requests { to: u32, link: Link, frame: Vec<u8> },
    /// To the node that sent the requests, on the same connection.
    Answers { to: u32, link: Link, frame: Vec<u8> },
    /// To a node that has the key of this number.
    KeyRequest { to: u32, number: u32 },
    /// To the node that requested it: the keys of this node.
    KeyResponse { to: u32, keys: KeyRing },
    /// A response to a client.
    Response { client: u32, number: u32, response: Response },
}

/// Request for which a client waits.
#[derive(Debug)]
struct Pending {
    request: ClientAction,
    token: u64,
    is_sent: bool,
    /// Response, once it has arrived. The client receives it when the state of this node contains the response's
    /// position.
    reply: Option<Response>,
}

#[derive(Debug)]
struct ProposedBatch {
    ticket: u64,
    replies: Vec<(u32, Link, Answer)>,
    requests: Vec<(u32, Request)>,
}

/// A running node.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) incarnation: u64,
    pub(super) member: Member,
    pub(super) log: LogEnd,
    pub(super) values: Values,
    commits: VecDeque<Commit>,
    pub(super) is_elected: bool,
    claimed_at: u64,
    proposed: Option<ProposedBatch>,
    /// Proposed groups by their tickets: when an append succeeds, the node judges the group before it reads the group
    /// back.
    appended: BTreeMap<u64, Vec<u8>>,
    inbox: VecDeque<(u32, Request)>,
    gate: Gate,
    pending: BTreeMap<OperationId, Pending>,
    reads: Vec<(ClientAction, u64)>,
    sequence: u64,
    link: Link,
    link_epoch: u64,
    resend_at: u64,
    ticket: u64,
    defect: Option<Defect>,
    pub(super) keys: Keys,
    /// Whether the log may lose messages.
    pub(super) may_stop: bool,
    comparison: Comparison,
    /// Whether the process reports a dispute only after all nodes have reported their digests.
    pub(super) waits_for_all: bool,
    late_rows: Vec<RowChange>,
    pub(super) counted: Counted,
}

/// Counters of events in a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) dropped: u64,
    pub(super) doubted: u64,
    pub(super) settled: u64,
    pub(super) applied_before: u64,
    pub(super) too_old: u64,
    pub(super) ignored: u64,
    pub(super) cut: u64,
    pub(super) other_copies: u64,
    pub(super) missing: u64,
    /// Number of comparisons of digests.
    pub(super) compared: u64,
    /// `slices` is the number of barriers for slices. `rounds` is the number of rounds with more than one slice.
    pub(super) slices: u64,
    pub(super) rounds: u64,
    /// `old_keys` is the number of messages under a key that is not in force. `rotations` is the number of keys that
    /// were put in force.
    pub(super) old_keys: u64,
    pub(super) rotations: u64,
    /// Number of rotations to a key that the node lacked.
    pub(super) lacked: u64,
    pub(super) sealed: u64,
    /// Number of times that the node noticed a loss of messages in the log.
    pub(super) went_back: u64,
}

/// Returns the name of the part to which a row belongs, by the lowest bit of its key.
pub(super) fn part_of(key: u32) -> String {
    (key % 2).to_string()
}

fn digests(values: &Values, slice: &Slice) -> Parts {
    let mut parts = Parts::new();
    for (key, value) in values.iter().filter(|(key, _)| slice.has(&key.to_be_bytes())) {
        let part: &mut RollingDigest = parts.entry(part_of(*key)).or_default();
        part.add(&key.to_be_bytes(), &value.to_be_bytes());
    }
    parts
}

/// Plans the slice that begins at the point `from`.
fn plan(values: &Values, from: &[u8]) -> PlannedSlice {
    let rows = values.keys().map(|key| key.to_be_bytes()).filter(|row| *from <= row[..]);
    let to = rows.clone().nth(SLICE_ROWS_MAX).map(Vec::from).unwrap_or_default();
    let bytes = rows.take(SLICE_ROWS_MAX).count() as u64;
    PlannedSlice { slice: Slice { from: from.to_vec(), to }, bytes }
}

impl Process {
    pub(super) fn start(
        id: u32,
        disk: &Disk,
        incarnation: u64,
        keys: &KeyRing,
        defect: Option<Defect>,
    ) -> Process {
        let mut follower = Follower::load(keys.clone(), &disk.rows).expect("the rows of a node");
        follower.defect = defect;
        let from = follower.next_offset();
        Process {
            incarnation,
            member: Member::new(follower, NodeId(id), incarnation),
            log: LogEnd { from, ..LogEnd::default() },
            values: disk.values.clone(),
            commits: VecDeque::new(),
            is_elected: false,
            claimed_at: 0,
            proposed: None,
            appended: BTreeMap::new(),
            inbox: VecDeque::new(),
            gate: Gate::default(),
            pending: BTreeMap::new(),
            reads: Vec::new(),
            sequence: 0,
            link: Link { incarnation, number: 0 },
            link_epoch: 0,
            resend_at: 0,
            ticket: 0,
            defect,
            keys: Keys::default(),
            may_stop: false,
            comparison: Comparison::default(),
            waits_for_all: false,
            late_rows: Vec::new(),
            counted: Counted::default(),
        }
    }

    fn position(&self) -> u64 {
        self.member.follower().position()
    }

    /// Receives a request of a client.
    pub(super) fn submit(&mut self, request: ClientAction, token: u64, operation: Option<OperationId>) {
        if let Action::Read(_) = request.action {
            self.reads.push((request, token));
            return;
        }
        let id = self.member.node();
        let own = OperationId { node: id, incarnation: self.incarnation, sequence: self.sequence + 1 };
        if operation.is_none() || self.has(Defect::RetryWithoutId) {
            self.sequence += 1;
        }
        let operation = operation.filter(|_| !self.has(Defect::RetryWithoutId)).unwrap_or(own);
        let pending = Pending { request, token, is_sent: false, reply: None };
        self.pending.insert(operation, pending);
    }

    /// Receives requests that another node forwarded.
    pub(super) fn requests(&mut self, from: u32, link: Link, frame: &[u8]) {
        self.gate.see(NodeId(from), link);
        let requests = forward::decode_requests(frame).expect("a frame");
        self.inbox.extend(requests.into_iter().map(|request| (from, request)));
    }

    /// Receives answers of another node.
    pub(super) fn answers(&mut self, now: u64, link: Link, frame: &[u8]) {
        if link != self.link && !self.has(Defect::AnyCopyDecided) {
            return;
        }
        for answer in forward::decode_answers(frame).expect("a frame") {
            let Some(pending) = self.pending.get_mut(&answer.operation) else { continue };
            let response = match answer.reply {
                Reply::Decided { position, result } => {
                    let value = result.value.map(|value| Effect::decode(&value).new).unwrap_or_default();
                    match (result.code, result.policy) {
                        (REFUSED, _) => Response::Refused { position },
                        (_, None) => Response::Done { position, value },
                        (_, Some(_)) => Response::Shown { position, value },
                    }
                }
                Reply::Applied { position } => Response::Applied { position },
                Reply::TooOld => Response::Unavailable,
                // The request is sent again later: an immediate retry would get the same answer.
                Reply::NotWriter => {
                    self.resend_at = self.resend_at.min(now + RESEND_DELAY);
                    continue;
                }
            };
            pending.reply.get_or_insert(response);
        }
    }

    /// Performs all steps that are possible now.
    pub(super) fn turn(
        &mut self,
        now: u64,
        disk: &mut Disk,
        disk_delay: u64,
        sent: &mut Vec<Sent>,
    ) -> Result<(), Violation> {
        while let Some(event) = self.log.next_event() {
            match event {
                LogEvent::Message { offset, bytes } => {
                    self.message(now + disk_delay, offset, &bytes, sent)?
                }
                LogEvent::Appended { ticket, offset } => {
                    // The log may have the message twice, and then the append is acknowledged twice.
                    let Some(bytes) = self.appended.get(&ticket).cloned() else { continue };
                    let tag = Tag::of_message(&bytes).expect("a message");
                    if let Err(alarm) = self.member.acknowledged(tag, offset) {
                        self.counted.went_back += 1;
                        self.stop(alarm, offset)?;
                        continue;
                    }
                    // No other message precedes the group, so the node judges it immediately.
                    if offset == self.member.follower().next_offset() {
                        self.message(now + disk_delay, offset, &bytes, sent)?;
                    }
                }
                LogEvent::Failed { ticket, error } => {
                    if self.keys.rotation == Some(ticket) {
                        self.member.rotation_failed(error);
                    }
                    if self.proposed.as_ref().is_some_and(|proposed| proposed.ticket == ticket) {
                        self.counted.doubted += 1;
                        if self.member.group_failed(error).is_some() {
                            self.drop_proposed();
                        }
                    }
                }
            }
        }
        self.finish_commits(now, disk);
        self.claim(now);
        self.rotate(now, sent);
        self.decide(sent);
        self.send_pending(now, sent);
        self.answer_clients(sent);
        sent.extend(self.log.appends.drain(..).map(|(ticket, message)| Sent::Append { ticket, message }));
        let is_lost = self.log.fetching_since.is_some_and(|since| now > since + RESEND_TIMEOUT);
        if self.log.fetching_since.is_none() || is_lost {
            self.log.fetching_since = Some(now);
            self.log.fetch += 1;
            sent.push(Sent::Fetch { fetch: self.log.fetch, from: self.log.from });
        }
        Ok(())
    }

    fn message(
        &mut self,
        done_at: u64,
        offset: u64,
        bytes: &[u8],
        sent: &mut Vec<Sent>,
    ) -> Result<(), Violation> {
        let was_doubtful = self.proposed.is_some() && !matches!(self.member.role(), Role::Leading { .. });
        let step = self.member.step(offset, bytes);
        match step.outcome {
            Some(GroupOutcome::Accepted) => self.counted.settled += u64::from(was_doubtful),
            Some(_) => self.drop_proposed(),
            None => {}
        }
        let commit = match step.verdict {
            Verdict::Apply(accepted) => {
                let effects: Vec<Effect> =
                    accepted.records.iter().map(|record| Effect::decode(record.bytes)).collect();
                for (effect, position) in effects.iter().zip(accepted.first_position..) {
                    if self.values.get(&effect.key).copied() != effect.old {
                        return Err(Violation(format!(
                            "{} has {:?} where the record at {position}, offset {offset}, was decided on \
                             {effect:?}",
                            self.member.node(),
                            self.values.get(&effect.key)
                        )));
                    }
                    directory::put(&mut self.values, effect);
                }
                Commit { done_at, effects, rows: accepted.rows }
            }
            Verdict::NewEpoch(new) => Commit { done_at, effects: Vec::new(), rows: new.rows },
            Verdict::Member(update) => Commit { done_at, effects: Vec::new(), rows: update.rows },
            Verdict::Key(update) => {
                self.counted.rotations += u64::from(matches!(update.what, Rotated::InForce(_)));
                self.keys.settle(&update.what);
                Commit { done_at, effects: Vec::new(), rows: update.rows }
            }
            Verdict::NeedsKey(number) => {
                self.counted.lacked += u64::from(self.keys.needed.is_none());
                self.keys.needed = Some(number);
                return Ok(());
            }
            Verdict::Alarm(Alarm::OtherKey(_)) => return self.other_key(offset, bytes),
            Verdict::Mark(mark) => {
                self.sum_up(&mark, sent);
                Commit { done_at, effects: Vec::new(), rows: mark.rows }
            }
            Verdict::Digests { node, mark, parts } => return self.compare(node, mark, parts),
            Verdict::Ignored(_) => {
                self.counted.ignored += 1;
                return Ok(());
            }
            Verdict::Seen => return Ok(()),
            Verdict::Missing { expected } => {
                self.counted.missing += 1;
                self.log.read_from(expected);
                return Ok(());
            }
            Verdict::Alarm(alarm) => return self.stop(alarm, offset),
            other => return Err(Violation(format!("{}: {other:?} at {offset}", self.member.node()))),
        };
        self.commits.push_back(commit);
        if step.outcome == Some(GroupOutcome::Accepted)
            && let Some(proposed) = self.proposed.take()
        {
            reply(proposed.replies, sent);
        }
        Ok(())
    }

    /// Returns the barrier for the next slice at the time `now`.
    pub(super) fn mark(&self, now: u64) -> Option<Vec<u8>> {
        let follower = self.member.follower();
        let planned = plan(&self.values, &follower.round().next);
        follower.mark_of(self.member.node(), planned, now / 1_000_000)
    }

    fn sum_up(&mut self, mark: &Mark, sent: &mut Vec<Sent>) {
        self.counted.slices += 1;
        self.counted.rounds += u64::from(mark.slice.to.is_empty() && !mark.slice.from.is_empty());
        self.comparison.begin(mark.offset);
        let is_wrong = self.has(Defect::SliceIgnored) && self.member.node() == NodeId(0);
        let whole = Slice::default();
        let parts = digests(&self.values, if is_wrong { &whole } else { &mark.slice });
        let message = self.member.follower().digests_of(self.member.node(), mark.offset, &parts);
        sent.push(Sent::Append { ticket: u64::MAX, message });
    }

    /// Compares digests. If the log loses no messages, nodes never differ.
    fn compare(&mut self, node: NodeId, mark: u64, parts: Parts) -> Result<(), Violation> {
        self.comparison.report(node, mark, parts);
        let registered = self.member.follower().registered();
        let found = self.comparison.found(mark, &registered, !self.waits_for_all);
        let found = found.filter(|found| !found.is_empty());
        self.counted.compared += 1;
        match found.filter(|_| !self.may_stop) {
            Some(found) => Err(Violation(format!("{} finds {found:?} at {mark}", self.member.node()))),
            None => Ok(()),
        }
    }

    /// Stops reading because of `alarm`. Stopping is correct only if the log lost messages.
    fn stop(&mut self, alarm: Alarm, offset: u64) -> Result<(), Violation> {
        self.drop_proposed();
        match self.may_stop && alarm.stops() {
            true => Ok(()),
            false => Err(Violation(format!("{}: {alarm:?} at {offset}", self.member.node()))),
        }
    }

    fn drop_proposed(&mut self) {
        if let Some(proposed) = self.proposed.take() {
            self.counted.dropped += 1;
            for request in proposed.requests.into_iter().rev() {
                self.inbox.push_front(request);
            }
        }
    }

    fn finish_commits(&mut self, now: u64, disk: &mut Disk) {
        while let Some(commit) = self.commits.pop_front_if(|commit| commit.done_at <= now) {
            commit.effects.iter().for_each(|effect| directory::put(&mut disk.values, effect));
            let rows = match self.has(Defect::RowsCommittedLate) {
                true => std::mem::replace(&mut self.late_rows, commit.rows),
                false => commit.rows,
            };
            disk.put_rows(rows);
        }
    }

    fn claim(&mut self, now: u64) {
        let wants = match self.member.role() {
            Role::Following | Role::Doubtful { .. } => true,
            Role::Claiming { .. } => now > self.claimed_at + CLAIM_TIMEOUT,
            Role::Leading { .. } => false,
        };
        if wants
            && self.is_elected
            && let Ok(message) = self.member.claim()
        {
            self.claimed_at = now;
            self.append(message);
        }
    }

    pub(super) fn elect(&mut self, is_elected: bool) {
        if self.is_elected && !is_elected {
            self.member.resign();
        }
        self.is_elected = is_elected;
    }

    pub(super) fn append(&mut self, message: Vec<u8>) -> u64 {
        self.ticket += 1;
        self.appended.insert(self.ticket, message.clone());
        self.log.append(self.ticket, message);
        self.ticket
    }

    /// Decides one batch of the waiting requests.
    fn decide(&mut self, sent: &mut Vec<Sent>) {
        let Role::Leading { epoch } = self.member.role() else {
            let others = std::mem::take(&mut self.inbox);
            reply(others.into_iter().map(|(from, request)| not_writer(from, &request)).collect(), sent);
            return;
        };
        if !self.member.may_decide() {
            return;
        }
        let (mut group, mut overlay) = (GroupBuilder::new(MESSAGE_BYTES_MAX), BTreeMap::new());
        let (mut replies, mut requests) = (Vec::new(), Vec::new());
        let mut position = self.position();
        while let Some((from, request)) = self.inbox.pop_front() {
            let is_other_copy =
                !self.gate.admits(NodeId(from), &request, epoch) && !self.has(Defect::AnyCopyDecided);
            let link = request.link;
            if is_other_copy || request.position > self.position() {
                self.counted.other_copies += u64::from(is_other_copy);
                replies.push(not_writer(from, &request));
                continue;
            }
            let operation = request.operation;
            let answer = |reply| (from, link, Answer { operation, reply });
            match self.member.follower().operation(&operation) {
                OperationStatus::New => {}
                OperationStatus::Applied { position } => {
                    self.counted.applied_before += 1;
                    replies.push(answer(Reply::Applied { position }));
                    continue;
                }
                OperationStatus::TooOld => {
                    self.counted.too_old += 1;
                    replies.push(answer(Reply::TooOld));
                    continue;
                }
            }
            if requests.iter().any(|(_, other): &(u32, Request)| other.operation == operation) {
                // Another copy of this request is already in the batch, so this copy waits for the next batch.
                self.inbox.push_front((from, request));
                break;
            }
            let Work::Change { message, .. } = &request.work else { continue };
            let action = ClientAction::decode(message);
            let key = action.action.key();
            let old = overlay.get(&key).copied().unwrap_or(self.values.get(&key).copied());
            let (code, policy, value) = match directory::decide(&action, old) {
                Decision::Change(effect) => {
                    let bytes = effect.encode();
                    if group.fits(bytes.len()) != Fit::Yes {
                        self.counted.cut += 1;
                        self.inbox.push_front((from, request));
                        break;
                    }
                    group.push(&operation, &bytes);
                    overlay.insert(key, effect.new);
                    position += 1;
                    (0, None, Some(bytes))
                }
                Decision::Refused => (REFUSED, None, None),
                // The present value is encoded like an effect. The policy error marks it as "no change".
                Decision::Nothing(shown) => {
                    let ClientAction { client, number, .. } = action;
                    let shown = Effect { client, number, key, old: shown, new: shown };
                    (0, Some(0), Some(shown.encode()))
                }
            };
            let result = LdapResult { code, policy, value, ..LdapResult::default() };
            replies.push(answer(Reply::Decided { position, result }));
            requests.push((from, request));
        }
        if group.record_count() == 0 || self.has(Defect::AnswerBeforeAccept) {
            reply(std::mem::take(&mut replies), sent);
        }
        if group.record_count() > 0
            && let Ok(message) = self.member.propose(group, self.keys.seals)
        {
            self.counted.sealed += u64::from(self.keys.seals);
            let ticket = self.append(message);
            self.proposed = Some(ProposedBatch { ticket, replies, requests });
        }
    }

    /// Sends unanswered requests to the present writer, on a new connection if the old one may have failed.
    fn send_pending(&mut self, now: u64, sent: &mut Vec<Sent>) {
        let Some(epoch) = self.member.follower().epoch() else { return };
        let waits = self.pending.values().any(|pending| pending.reply.is_none());
        let is_late = waits && now > self.resend_at;
        if !waits {
            self.resend_at = now + RESEND_TIMEOUT;
        }
        if self.link_epoch != epoch.offset || is_late || self.link.number == 0 {
            self.link.number += 1;
            self.link_epoch = epoch.offset;
            self.resend_at = now + RESEND_TIMEOUT;
            self.pending.values_mut().for_each(|pending| pending.is_sent = false);
        }
        let link = self.link;
        let fresh =
            self.pending.iter_mut().filter(|(_, pending)| !pending.is_sent && pending.reply.is_none());
        let requests: Vec<Request> = fresh
            .map(|(operation, pending)| {
                pending.is_sent = true;
                Request {
                    operation: *operation,
                    epoch: epoch.offset,
                    link,
                    position: pending.token,
                    requester: ForwardedRequester::Anonymous,
                    method: BindMethod::None,
                    strength: 0,
                    network: None,
                    listener: None,
                    work: Work::Change { message: pending.request.encode(), passwords: Prepared::default() },
                }
            })
            .collect();
        if requests.is_empty() {
            return;
        }
        let frame = forward::encode_requests(&requests);
        sent.push(Sent::Requests { to: epoch.node.0, link, frame });
    }

    fn answer_clients(&mut self, sent: &mut Vec<Sent>) {
        let (position, ignores_token) = (self.position(), self.has(Defect::StaleRead));
        let answers_early = self.has(Defect::AnswerBeforeAccept);
        self.pending.retain(|_, pending| {
            let Some(response) = pending
                .reply
                .filter(|response| answers_early || response.position().is_none_or(|at| at <= position))
            else {
                return true;
            };
            let ClientAction { client, number, .. } = pending.request;
            sent.push(Sent::Response { client, number, response });
            false
        });
        let values = &self.values;
        self.reads.retain(|(request, token)| {
            let waits = *token > position && !ignores_token;
            if !waits {
                let value = values.get(&request.action.key()).copied();
                let response = Response::Shown { position, value };
                sent.push(Sent::Response { client: request.client, number: request.number, response });
            }
            waits
        });
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, role, epoch) = (self.member.node(), self.member.role(), self.member.follower().epoch());
        let (pending, inbox, link, is_elected) =
            (self.pending.len(), self.inbox.len(), self.link.number, self.is_elected);
        write!(
            f,
            "{id}: {role:?}, {epoch:?}, elected {is_elected}, {pending} pending, {inbox} waiting, link {link}, \
             position {}",
            self.position()
        )
    }
}

fn not_writer(from: u32, request: &Request) -> (u32, Link, Answer) {
    (from, request.link, Answer { operation: request.operation, reply: Reply::NotWriter })
}

fn reply(replies: Vec<(u32, Link, Answer)>, sent: &mut Vec<Sent>) {
    for (to, link, answer) in replies {
        sent.push(Sent::Answers { to, link, frame: forward::encode_answers(&[answer]) });
    }
}
