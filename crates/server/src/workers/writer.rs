//! The one thread that changes the directory.
//!
//! All changes that wait when the thread becomes free form one batch, up to a maximum size. The thread executes them in
//! order, and each change sees the effects of earlier changes. Then one commit with one sync makes all of them durable.
//! One message per event loop contains the answers. Therefore each change costs less disk time if more clients send
//! changes at the same time.
//!
//! A session reserves room in the queue before it reads a change from its connection. While the queue is full, the
//! connection is not read. Therefore a client that pipelines a million adds is slowed down and not refused.
//!
//! After a panic or a failure of the store, changes are refused with that reason until a restart. Reads are still
//! served. If the disk is full or resources are exhausted, only the changes of the present batch fail.

mod extended;
mod following;
mod forwarded;
mod queue;
pub(crate) mod replaced;
mod transaction;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use directory::account_update::AccountUpdate;
use directory::controls::{ControlContext, RequestControls};
use directory::origin::Origin;
use directory::rows::EntryId;
use directory::{ClientLink, OperationError, Outcome, RequestContext, Requester, ServerFault, Stamp, Writer};
use ldap::{ControlsBuf, DecodeLimits, Message, Request, ResultCode};
use store::StoreError;
use zeroize::Zeroizing;

use crate::limits::{BATCH_BYTES_MAX, BATCH_WRITES_MAX};
use crate::net::mailbox::{Address, LoopMessage, PreparedPasswords, Written};
use crate::stamp::{Random, no_random_numbers, now_micros};
use crate::telemetry::health::Health;
use crate::telemetry::traces::{ChangeStages, WriteTimes};
use crate::workers::attempts::Attempts;
use crate::workers::index_upkeep::Upkeep;
pub(crate) use following::{FollowedChanges, GroupEnd, change_bytes};
pub(crate) use forwarded::{forwarded_passwords, prepared_passwords};
pub(crate) use queue::{Fetched, Reservation, WriteQueue};
pub(crate) use transaction::{TransactionChange, execute_transaction};

/// Room in the queue for a request to record an attempt, in octets.
pub(crate) const UPDATE_BYTES: usize = 256;

/// A change for the writer. It does not implement `Debug`, because it may contain passwords.
pub(crate) struct WriteRequest {
    /// Address of the operation that waits for the answer.
    pub(crate) address: Address,
    pub(crate) requester: Arc<Requester>,
    /// Facts about the client's connection, if access rules depend on them.
    pub(crate) link: Option<ClientLink>,
    pub(crate) change: WriterWork,
    /// Clear passwords in the change, with their stored values.
    pub(crate) passwords: PreparedPasswords,
    pub(crate) reservation: Reservation,
    /// Origin of the request, if records contain it.
    pub(crate) origin: Option<Box<Origin>>,
    /// Whether the record of the change must include the replaced values.
    pub(crate) keeps_old_values: bool,
    /// Whether a replica has forwarded the change. Its requester may have been deleted or locked meanwhile.
    pub(crate) is_forwarded: bool,
}

/// Work for the writer. It does not implement `Debug`, because it may contain passwords.
pub(crate) enum WriterWork {
    /// Make the change in this encoded message. The writer decodes the message again, which is fast. Therefore no
    /// request type needs an owned form.
    Message(Zeroizing<Vec<u8>>),
    /// Make all of these changes, or none of them.
    Transaction(Vec<TransactionChange>),
    /// Record the account's attempts in [`Attempts`]. Also record the time `grace` of a grace login, and the time step
    /// `totp_step` of a time-based code.
    Account { id: EntryId, grace: Option<i64>, totp_step: Option<i64> },
    /// Apply changes of the server that this server follows.
    Follow(Arc<FollowedChanges>),
    /// Record attempts on an account that a replica has forwarded.
    ForwardedAccount(EntryId, Box<AccountUpdate>),
    /// Stop writing, because another server begins the epoch with this name.
    Fence([u8; 16]),
    /// Make this replica the writer. If `without_supplier` is set, the former writer is not asked to stop writing.
    Promote { without_supplier: bool },
}

impl WriterWork {
    fn bytes(&self) -> usize {
        match self {
            WriterWork::Message(message) => message.len(),
            WriterWork::Transaction(changes) => changes.iter().map(|change| change.message.len()).sum(),
            WriterWork::Account { .. } | WriterWork::Fence(_) | WriterWork::Promote { .. } => {
                size_of::<WriterWork>()
            }
            WriterWork::Follow(changes) => changes.bytes(),
            WriterWork::ForwardedAccount(..) => size_of::<WriterWork>() + size_of::<AccountUpdate>(),
        }
    }
}

/// The result of a change. `value` is the response value of an extended operation, or encoded response controls of
/// another change.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) value: Option<Vec<u8>>,
    /// Position of the change's record. `None` if the change made no record, or if there is no audit trail.
    pub(crate) position: Option<u64>,
    /// Positions of the records of a transaction's changes, if there is an audit trail.
    pub(crate) positions: Vec<Option<u64>>,
    /// Stages of the change for traces, if another thread or server made it.
    pub(crate) stages: Option<ChangeStages>,
}

impl Answer {
    fn new(outcome: Outcome, value: Option<Vec<u8>>) -> Answer {
        Answer { outcome, value, position: None, positions: Vec::new(), stages: None }
    }

    /// Returns the message with this answer for the operation at `address`. `stages` are the stages of the change, if
    /// they were measured here.
    fn to(self, address: Address, stages: Option<Arc<ChangeStages>>) -> Written {
        let Answer { outcome, value, position, positions, stages: own } = self;
        let stages = stages.or_else(|| own.map(Arc::new));
        Written { address, outcome, value: value.map(Arc::new), position, positions, stages }
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Answer {
        Answer::new(outcome, None)
    }
}

/// Runs the writer until the queue is closed and empty.
pub(crate) fn run(mut writer: Writer, queue: &WriteQueue, health: &Health) {
    queue.decides(true);
    let mut random = Random::default();
    let mut backlog = Vec::new();
    let mut stopped = false;
    let mut upkeep = Upkeep::default();
    let mut disk = DiskWatch { is_full: false, health };
    loop {
        let patience = if stopped { None } else { upkeep.patience(&writer) };
        match queue.fetch(&mut backlog, patience) {
            Fetched::Closed => {
                if !stopped {
                    write_attempts(&mut writer, queue.attempts(), &mut random);
                }
                return;
            }
            Fetched::Nothing => {
                stopped = !keep_up(&mut writer, &mut upkeep, queue, health);
                continue;
            }
            Fetched::Changes => {}
        }
        let mut times = queue.is_timed().then(WriteTimes::begin);
        let count = batch_len(&backlog);
        let batch = backlog.get_mut(..count).unwrap_or_default();
        let outcomes = if stopped {
            all_failed(count)
        } else {
            catch_unwind(AssertUnwindSafe(|| {
                write(&mut writer, batch, queue.attempts(), (&mut random, &mut times), &mut disk)
            }))
            .unwrap_or_else(|_| {
                health.stop_changes(DEFECT);
                stopped = true;
                all_failed(count)
            })
        };
        if let Some(times) = &mut times {
            times.committed = Instant::now();
        }
        queue.committed();
        settle_attempts(batch, &outcomes, queue.attempts());
        release_room(batch);
        let is_replaced = replaced::has_fence(batch) && replaced::is_replaced(&writer);
        answer(batch, outcomes, times, queue);
        backlog.drain(..count);
        if is_replaced {
            return replaced::run(writer, queue, health, backlog);
        }
        if !stopped && upkeep.is_due(&writer) {
            stopped = !keep_up(&mut writer, &mut upkeep, queue, health);
        }
    }
}

/// Removes the attempts that this batch has recorded. The other attempts of the batch wait again.
fn settle_attempts(batch: &[WriteRequest], outcomes: &[Answer], attempts: &Attempts) {
    for (request, answer) in batch.iter().zip(outcomes) {
        if let WriterWork::Account { id, .. } = request.change {
            // A refused grace login has this code, although the attempts were committed.
            let code = answer.outcome.code;
            attempts.settle(id, code == ResultCode::SUCCESS || code == ResultCode::INVALID_CREDENTIALS);
        }
    }
}

/// Records all unrecorded attempts when the server stops.
fn write_attempts(writer: &mut Writer, attempts: &Attempts, random: &mut Random) {
    let ids = attempts.all();
    let Ok(mut batch) = writer.begin().inspect_err(|error| {
        tracing::error!(%error, accounts = ids.len(), "the last binds are not recorded");
    }) else {
        return;
    };
    for id in ids {
        let outcome = record_account(&mut batch, attempts, id, (None, None), random);
        if outcome.code != ResultCode::SUCCESS {
            tracing::error!(entry = id.0, "the last binds are not recorded: {}", outcome.diagnostic);
        }
    }
    if let Err(error) = batch.commit() {
        tracing::error!(%error, "the last binds are not recorded");
    }
}

fn record_account(
    batch: &mut directory::WriteBatch<'_>,
    attempts: &Attempts,
    id: EntryId,
    (grace, totp_step): (Option<i64>, Option<i64>),
    random: &mut Random,
) -> Outcome {
    let update = AccountUpdate { grace, totp_step, ..attempts.take(id) };
    update_account(batch, id, &update, random)
}

/// Records an update of an account's attempts in the directory.
pub(crate) fn update_account(
    batch: &mut directory::WriteBatch<'_>,
    id: EntryId,
    update: &AccountUpdate,
    random: &mut Random,
) -> Outcome {
    let uuid = match random.uuid() {
        Ok(uuid) => uuid,
        Err(error) => return no_random_numbers(error),
    };
    batch.update_account(id, update, &Stamp { now_micros: now_micros(), uuid, ..Stamp::default() })
}

const DEFECT: &str = "a defect was met while changing the directory";

/// Runs a slice of index work. Returns false if it panicked.
fn keep_up(writer: &mut Writer, upkeep: &mut Upkeep, queue: &WriteQueue, health: &Health) -> bool {
    let is_sound = catch_unwind(AssertUnwindSafe(|| upkeep.run(writer))).is_ok();
    if !is_sound {
        health.stop_changes(DEFECT);
    }
    // Event loops must renew their snapshots, because this slice may have completed an index.
    queue.committed();
    is_sound
}

/// Returns the number of changes in `backlog` that form the next batch.
fn batch_len(backlog: &[WriteRequest]) -> usize {
    let mut bytes = 0;
    let fitting = backlog.iter().take(BATCH_WRITES_MAX).take_while(|request| {
        let fits = bytes < BATCH_BYTES_MAX;
        bytes += request.change.bytes();
        fits
    });
    fitting.count()
}

/// Releases the queue room of the whole batch in one step, so that each waiting event loop gets only one message.
fn release_room(batch: &mut [WriteRequest]) {
    if let Some((first, others)) = batch.split_first_mut() {
        others.iter_mut().for_each(|other| first.reservation.absorb(&mut other.reservation));
        first.reservation.release();
    }
}

/// Makes the changes of a batch and commits them together. Returns their answers in order.
fn write(
    writer: &mut Writer,
    requests: &[WriteRequest],
    attempts: &Attempts,
    (random, times): (&mut Random, &mut Option<WriteTimes>),
    disk: &mut DiskWatch<'_>,
) -> Vec<Answer> {
    let mut batch = match writer.begin() {
        Ok(batch) => batch,
        Err(error) => return vec![Outcome::from(error).into(); requests.len()],
    };
    let full = batch.disk_full().cloned();
    let mut outcomes = Vec::with_capacity(requests.len());
    for request in requests {
        let before = request.origin.is_some().then(|| batch.position().ok()).flatten();
        let mut answer = execute(&mut batch, request, attempts, random);
        if before.is_some() {
            answer.position = batch.position().ok().filter(|&after| before != Some(after));
        }
        outcomes.push(answer);
    }
    if let Some(times) = times {
        times.decided = Instant::now();
    }
    match batch.commit() {
        Ok(()) => {
            disk.note(full.as_ref());
            outcomes
        }
        Err(OperationError::Store(error @ StoreError::DiskFull { .. })) => {
            disk.note(Some(&error));
            vec![Outcome::from(OperationError::from(error)).into(); requests.len()]
        }
        Err(error) => {
            // Exhausted resources are a temporary problem. The problem is logged when the answer is sent.
            if !matches!(error, OperationError::Store(StoreError::Exhausted { .. })) {
                tracing::error!(%error, changes = requests.len(), "a commit failed");
            }
            vec![Outcome::from(error).into(); requests.len()]
        }
    }
}

/// State of the disk. Logs once when the disk becomes full, and once when it has room again.
struct DiskWatch<'w> {
    is_full: bool,
    health: &'w Health,
}

impl DiskWatch<'_> {
    fn note(&mut self, full: Option<&StoreError>) {
        if full.is_some() != self.is_full {
            self.health.disk_full(full);
        }
        if full.is_some() || self.is_full {
            self.health.note_full(full);
        }
        self.is_full = full.is_some();
    }
}

fn execute(
    batch: &mut directory::WriteBatch<'_>,
    request: &WriteRequest,
    attempts: &Attempts,
    random: &mut Random,
) -> Answer {
    if request.is_forwarded
        && let Err(error) = batch.check_requester(&request.requester, now_micros())
    {
        return Outcome::from(error).into();
    }
    match &request.change {
        WriterWork::Message(message) => {
            let given = ChangeContext {
                passwords: request.passwords.clone(),
                link: request.link,
                origin: request.origin.as_deref(),
                keeps_old_values: request.keeps_old_values,
            };
            execute_message(batch, &request.requester, message, given, random)
        }
        WriterWork::Transaction(changes) => {
            let (link, keeps_old_values) = (request.link, request.keeps_old_values);
            let changes = changes.iter().map(|TransactionChange { message, passwords, origin }| {
                (message.as_slice(), passwords.clone(), origin.as_deref())
            });
            execute_transaction(batch, &request.requester, changes, (link, keeps_old_values), random)
        }
        WriterWork::Account { id, grace, totp_step } => {
            record_account(batch, attempts, *id, (*grace, *totp_step), random).into()
        }
        WriterWork::Follow(changes) => changes.execute(batch, random).into(),
        WriterWork::ForwardedAccount(id, update) => update_account(batch, *id, update, random).into(),
        WriterWork::Fence(epoch) => replaced::fence(batch, *epoch).into(),
        WriterWork::Promote { .. } => replaced::no_replica().into(),
    }
}

/// Data of a change in addition to its message. It does not implement `Debug`, because it may contain passwords.
pub(crate) struct ChangeContext<'r> {
    pub(crate) passwords: PreparedPasswords,
    pub(crate) link: Option<ClientLink>,
    pub(crate) origin: Option<&'r Origin>,
    pub(crate) keeps_old_values: bool,
}

/// Executes the change in an LDAP message.
pub(crate) fn execute_message(
    batch: &mut directory::WriteBatch<'_>,
    requester: &Requester,
    message: &[u8],
    given: ChangeContext<'_>,
    random: &mut Random,
) -> Answer {
    // The event loop has already decoded these octets with the limits in the settings.
    let limits = DecodeLimits { message_size_max: usize::MAX, ..DecodeLimits::AUTHENTICATED };
    let message = match Message::decode(message, &limits) {
        Ok(message) => message,
        Err(error) => return Outcome::new(ResultCode::PROTOCOL_ERROR, error.to_string()).into(),
    };
    execute_decoded(batch, requester, &message, given, random)
}

fn execute_decoded(
    batch: &mut directory::WriteBatch<'_>,
    requester: &Requester,
    message: &Message<'_>,
    given: ChangeContext<'_>,
    random: &mut Random,
) -> Answer {
    let controls = match RequestControls::read(&message.controls, ControlContext::of(&message.request)) {
        Ok(controls) => controls,
        Err(outcome) => return outcome.into(),
    };
    let uuid = match random.uuid() {
        Ok(uuid) => uuid,
        Err(error) => return no_random_numbers(error).into(),
    };
    let PreparedPasswords { hashed, matched, history, scram, listed } = given.passwords;
    let stamp = Stamp {
        now_micros: now_micros(),
        uuid,
        hashed_passwords: hashed,
        matched_passwords: matched,
        history,
        scram_keys: scram,
        listed_passwords: listed,
        keeps_old_values: given.keeps_old_values,
        origin: given.origin.cloned().unwrap_or_default(),
    };
    if let Request::Extended(extended) = &message.request
        && let Some(answer) = extended::execute(batch, (requester, given.link), extended, &stamp)
    {
        return answer;
    }
    let context = RequestContext::new(requester, given.link);
    let mut copies = ControlsBuf::new();
    let outcome = batch.execute_and_copy(&context, &message.request, &controls, &stamp, &mut copies);
    let copies = copies.as_controls();
    let value = (!copies.is_empty()).then(|| copies.as_bytes().to_vec());
    Answer::new(outcome, value)
}

fn all_failed(count: usize) -> Vec<Answer> {
    let text = "changes have stopped after an internal error; reading goes on, a restart is needed";
    let outcome = Outcome::new(ResultCode::UNWILLING_TO_PERFORM, text).by_fault(ServerFault::WritesStopped);
    vec![outcome.into(); count]
}

/// Sends each answer to the event loop of its operation, in one message per loop.
fn answer(batch: &[WriteRequest], outcomes: Vec<Answer>, times: Option<WriteTimes>, queue: &WriteQueue) {
    let mailboxes = &queue.mailboxes;
    let stages = times.map(|times| Arc::new(ChangeStages::from(times)));
    let mut answers: Vec<Vec<Written>> = mailboxes.iter().map(|_| Vec::new()).collect();
    for (request, answer) in batch.iter().zip(outcomes) {
        if let WriterWork::Follow(changes) = &request.change {
            changes.answer(answer.outcome);
            continue;
        }
        let address = request.address;
        if let WriterWork::Message(_) = &request.change {
            queue.note_due(address, &answer.outcome);
        }
        if let Some(of_loop) = answers.get_mut(usize::from(address.event_loop)) {
            of_loop.push(answer.to(address, stages.clone()));
        }
    }
    for (mailbox, of_loop) in mailboxes.iter().zip(answers) {
        if !of_loop.is_empty() {
            mailbox.post(LoopMessage::Written(of_loop));
        }
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token, Waker};

    use super::*;
    use crate::net::mailbox::Mailbox;

    pub(super) fn queue() -> (Poll, Arc<WriteQueue>) {
        let poll = Poll::new().unwrap();
        let mailbox = Mailbox::new(Waker::new(poll.registry(), Token(0)).unwrap());
        (poll, Arc::new(WriteQueue::new([mailbox].into())))
    }

    pub(super) fn request(queue: &Arc<WriteQueue>, bytes: usize) -> WriteRequest {
        WriteRequest {
            address: Address { event_loop: 0, slot: 0, connection: 1, ticket: 0 },
            requester: Arc::new(Requester::Anonymous),
            link: None,
            change: WriterWork::Message(vec![0; bytes].into()),
            passwords: PreparedPasswords::default(),
            reservation: queue.reserve(bytes).unwrap(),
            origin: None,
            keeps_old_values: false,
            is_forwarded: false,
        }
    }

    #[test]
    fn a_batch_releases_its_reservations_at_once() {
        let (_poll, queue) = queue();
        let mut batch: Vec<_> = (0..3).map(|_| request(&queue, 10)).collect();
        assert_eq!(queue.reserved_count(), 3);
        release_room(&mut batch);
        assert_eq!(queue.reserved_count(), 0);
        drop(batch);
        assert_eq!(queue.reserved_count(), 0, "nothing is released twice");
    }

    #[test]
    fn batches_are_bounded_by_count_and_bytes() {
        let (_poll, queue) = queue();
        let many: Vec<_> = (0..BATCH_WRITES_MAX + 5).map(|_| request(&queue, 1)).collect();
        assert_eq!(batch_len(&many), BATCH_WRITES_MAX);
        drop(many);
        let large = [BATCH_BYTES_MAX - 1, 10, 10].map(|bytes| request(&queue, bytes));
        assert_eq!(batch_len(&large), 2);
        assert_eq!(batch_len(&large[2..]), 1);
        assert_eq!(batch_len(&[]), 0);
    }
}
