//! Changes of a session. They reach the writer in the order received. The hash pool first hashes their clear passwords.

use std::sync::Arc;

use directory::password::limits::PASSWORD_SIZE_MAX;
use directory::passwords::{PasswordOwner, has_password, password_owner};
use directory::{BindMethod, Outcome, Requester, ServerFault};
use ldap::{Message, Request, ResultCode};

use super::passwords::{hash_pool_busy, too_many_guesses};
use super::proof::OldPasswords;
use super::responder::Responder;
use super::{Outstanding, Session, Work, attempts};
use crate::limits::CLEAR_PASSWORDS_MAX;
use crate::net::mailbox::{Address, HashResult, PreparedPasswords, Written};
use crate::session::context::Context;
use crate::stamp::no_random_numbers;
use crate::workers::changed_passwords::{ChangedPasswords, Preparation};
use crate::workers::guesses::account_number;
use crate::workers::hash_pool::{HashClaim, HashWork, Submitter};
use crate::workers::writer::{Reservation, WriteRequest, WriterWork};

/// Next step of a change after its passwords are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Submit the change to the writer.
    Write,
    /// Store the change in the transaction with this number.
    Hold(u32),
    /// Submit the transaction that this request commits.
    Commit,
}

/// A change that waits for the hash pool, or for an earlier change that waits for the pool.
pub(super) struct DeferredChange {
    pub(super) request: WriteRequest,
    pub(super) step: Step,
    ready: bool,
    /// Old passwords that must be verified before the change is made.
    old: Option<OldPasswords>,
}

impl DeferredChange {
    /// Returns the commit of a transaction as a change that needs no hash itself. It waits for the hashes of the
    /// transaction's changes, which precede it.
    pub(super) fn commit(request: WriteRequest) -> DeferredChange {
        DeferredChange { request, step: Step::Commit, ready: true, old: None }
    }

    fn ticket(&self) -> u64 {
        self.request.address.ticket
    }
}

impl Session {
    /// Handles a change that has a reservation in the writer's queue.
    pub(super) fn change(
        &mut self,
        to: Responder<'_>,
        message: &Message<'_>,
        (frame, reservation): (&[u8], Reservation),
        work: Work,
    ) {
        let held = reservation.bytes();
        let mut request = WriteRequest {
            address: self.address(to.context),
            requester: Arc::clone(&self.requester),
            link: self.client_link(to.context),
            change: WriterWork::Message(frame.to_vec().into()),
            passwords: PreparedPasswords::default(),
            reservation,
            origin: self.origin(to.context, message),
            keeps_old_values: to.context.audit.keeps_old_values(),
            is_forwarded: false,
        };
        let (mut claim, mut old) = (None, None);
        let submitter = self.submitter(to.context, account_number(&self.requester, self.requester.dn()));
        let prepared = self.changed_passwords(to.context, message).and_then(|passwords| {
            old = self.old_passwords(to.context, message, &passwords)?;
            prepare_passwords(to.context, (request.address, submitter), passwords)
        });
        match prepared {
            Ok(Prepared::Now(passwords)) => {
                let tried = old
                    .take()
                    .and_then(|old| self.try_old_passwords(to.context, old, passwords.matched.len()));
                if let Some(wrong) = tried {
                    return self.refuse_old_password(to, work, wrong);
                }
                request.passwords = passwords;
            }
            Ok(Prepared::Later(on_pool)) => claim = Some(on_pool),
            Err(outcome) => return self.answer(to, &outcome),
        }
        let (ready, step) = (claim.is_none(), self.step_of(message));
        self.keep(to.head, work, held, claim);
        if ready && self.deferred.is_empty() {
            self.take_step(to.context, step, request, to.out);
        } else {
            self.deferred.push_back(DeferredChange { request, step, ready, old });
        }
    }

    /// Returns the clear passwords that the change adds or deletes. Returns none for an anonymous requester, whose
    /// change is refused anyway.
    fn changed_passwords(
        &self,
        context: &Context,
        message: &Message<'_>,
    ) -> Result<ChangedPasswords, Outcome> {
        let scheme = context.shared.directory.settings().general.password_scheme;
        let (new, old, former, checks_lists, keys) = Default::default();
        let mut passwords = ChangedPasswords { scheme, new, old, former, checks_lists, keys };
        let has_values = matches!(message.request, Request::Add(_) | Request::Modify(_));
        if has_values && *self.requester != Requester::Anonymous {
            let (request, snapshot) = (&message.request, &context.snapshot);
            let by = &self.request_context(context);
            let new = directory::passwords::clear_passwords(request, snapshot);
            passwords.new = new.into_iter().map(<[u8]>::to_vec).collect();
            if !passwords.new.is_empty() {
                let rules = directory::passwords::new_password_rules(request, snapshot, by)?;
                (passwords.scheme, passwords.former) = (rules.scheme, rules.former);
                (passwords.keys, passwords.checks_lists) = (rules.keys, rules.checks_lists);
            }
            let old = directory::passwords::deleted_passwords(request, snapshot, by)?;
            passwords.old = old.into_iter().map(|old| (old.clear.to_vec(), old.stored)).collect();
            if passwords.old.is_empty() {
                self.check_not_of_application(context, message)?;
            }
        }
        Ok(passwords)
    }

    /// After a bind with an application password, refuses a change of the user's passwords that does not include the
    /// old password. Otherwise the thief of a device with an application password could set the user's own password.
    fn check_not_of_application(&self, context: &Context, message: &Message<'_>) -> Result<(), Outcome> {
        let Some(proof) = self.proved.as_deref().filter(|proof| !proof.is_own) else { return Ok(()) };
        if !has_password(&message.request, &context.snapshot) {
            return Ok(());
        }
        let owner = password_owner(&message.request, &context.snapshot, &self.request_context(context))?;
        match owner.map(|owner| owner.requester) {
            Some(Requester::User { id, .. }) if id == proof.id => {
                let text = "you are bound with the password of an application: to set another password, give your \
                            own old one, or bind with it";
                Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text))
            }
            _ => Ok(()),
        }
    }

    /// Returns the old passwords that a change includes, and begins their attempt. Refuses the change if the answers to
    /// too many wrong guesses are being delayed.
    fn old_passwords(
        &self,
        context: &Context,
        message: &Message<'_>,
        passwords: &ChangedPasswords,
    ) -> Result<Option<OldPasswords>, Outcome> {
        if passwords.old.is_empty() {
            return Ok(None);
        }
        let owner = password_owner(&message.request, &context.snapshot, &self.request_context(context))?;
        let Some(PasswordOwner { requester, account }) = owner else { return Ok(None) };
        let guess = self.guess_key(&requester, requester.dn());
        if guess.is_some_and(|key| context.shared.guesses.are_too_many(&key, context.now)) {
            return Err(too_many_guesses());
        }
        let attempt = account.map(|account| attempts::begin_change(context, account));
        Ok(Some(OldPasswords { attempt, guess, count: passwords.old.len() }))
    }

    /// Submits deferred changes to the writer, up to the first change that still waits.
    pub(super) fn submit_ready(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        while self.deferred.front().is_some_and(|change| change.ready) {
            let Some(change) = self.deferred.pop_front() else { return };
            self.take_step(context, change.step, change.request, out);
        }
    }

    #[inline]
    fn take_step(&mut self, context: &mut Context, step: Step, request: WriteRequest, out: &mut Vec<u8>) {
        match step {
            Step::Write => context.outbox.push(request),
            Step::Hold(transaction) => self.hold(context, transaction, request, out),
            Step::Commit => self.settle(context, request, out),
        }
    }

    /// Answers a change that the writer has finished. If the client has abandoned the change, only counts and logs its
    /// outcome.
    pub(crate) fn written(&mut self, context: &mut Context, answer: &Written, out: &mut Vec<u8>) {
        let Some(finished) = self.remove_outstanding(answer.address.ticket) else { return };
        if finished.abandoned && !finished.waits_for_writer() {
            // The client cannot use the outcome of an abandoned bind or compare.
            return self.complete_dropped(context, &finished);
        }
        let mut unsent = Vec::new();
        let out = if finished.abandoned { &mut unsent } else { out };
        let Outstanding { mut head, work, .. } = finished;
        head.note_newest_position(context);
        if let (Some(event), Some(stages)) = (&mut head.event, &answer.stages) {
            event.stages.extend(stages.stages);
            event.forwarded = stages.forwarded;
        }
        if matches!(work, Work::Change | Work::PasswordModify(_))
            && answer.outcome.code == ResultCode::SUCCESS
        {
            // While `must_change` is set, only a change of the user's password is permitted. So this change has set the
            // password.
            self.must_change = false;
            if self.bind_method == BindMethod::MailToken {
                // A mail token permits only the change of the password. The session is anonymous afterwards.
                self.set_requester(context, Arc::clone(&context.anonymous));
            }
        }
        let to = Responder { context, head, out };
        match work {
            Work::Decided(decided) => self.recorded(to, *decided, &answer.outcome),
            Work::Forwarded(operation) => self.forwarded_written(to, operation, answer),
            Work::Transaction(changes) => self.settled(to, changes, answer),
            Work::PasswordModify(password) => {
                let (outcome, value) = password.finish(&answer.outcome);
                self.answer_change(to, &outcome, (value.as_deref(), answer.position));
            }
            _ => {
                let value = answer.value.as_deref().map(Vec::as_slice);
                self.answer_change(to, &answer.outcome, (value, answer.position));
            }
        }
    }

    /// Returns true if the operation is a change that is not yet submitted to the writer.
    pub(super) fn is_deferred(&self, ticket: u64) -> bool {
        self.deferred.iter().any(|change| change.ticket() == ticket)
    }

    pub(super) fn remove_deferred(&mut self, ticket: u64) -> Option<DeferredChange> {
        let index = self.deferred.iter().position(|change| change.ticket() == ticket)?;
        self.deferred.remove(index)
    }

    /// Handles the result of the hash pool for the passwords of a change.
    pub(super) fn deferred_hashed(
        &mut self,
        context: &mut Context,
        ticket: u64,
        result: HashResult,
        out: &mut Vec<u8>,
    ) {
        match result {
            HashResult::Prepared(passwords) => self.prepared(context, ticket, passwords, out),
            // The full queue has evicted this job in favor of other jobs.
            HashResult::Busy => self.refuse_deferred(context, ticket, &hash_pool_busy(), out),
            HashResult::Failed(fault) => self.refuse_deferred(context, ticket, &not_hashed(fault), out),
            HashResult::Verified(..) | HashResult::Kerberos(_) | HashResult::Unreachable => {
                self.refuse_deferred(context, ticket, &not_hashed(ServerFault::Defect), out);
            }
        }
        self.submit_ready(context, out);
    }

    /// Marks a change as ready if its passwords are hashed and its old passwords are right. Otherwise refuses the
    /// change.
    fn prepared(
        &mut self,
        context: &mut Context,
        ticket: u64,
        passwords: PreparedPasswords,
        out: &mut Vec<u8>,
    ) {
        let Some(change) = self.deferred.iter_mut().find(|change| change.ticket() == ticket) else { return };
        let old = change.old.take();
        let matched = passwords.matched.len();
        change.request.passwords = passwords;
        change.ready = true;
        if let Some(wrong) = old.and_then(|old| self.try_old_passwords(context, old, matched)) {
            self.remove_deferred(ticket);
            if let Some((head, work)) = self.take(context, ticket) {
                self.refuse_old_password(Responder { context, head, out }, work, wrong);
            }
        }
    }

    /// Refuses the changes that wait for the hash pool, to save the cost of their hashes. The client has ended its
    /// input and has probably left. If it still reads, it receives the refusals.
    pub(crate) fn give_up_hashing(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        let waiting: Vec<u64> =
            self.deferred.iter().filter(|change| !change.ready).map(DeferredChange::ticket).collect();
        for ticket in waiting {
            let text =
                "the client closed its side of the connection before the password was hashed; send it again";
            self.refuse_deferred(context, ticket, &Outcome::new(ResultCode::BUSY, text), out);
        }
        self.submit_ready(context, out);
    }

    /// Refuses a change whose password was not hashed.
    fn refuse_deferred(&mut self, context: &mut Context, ticket: u64, why: &Outcome, out: &mut Vec<u8>) {
        if self.remove_deferred(ticket).is_none() {
            return;
        }
        // Taking the operation drops its claim on the hash pool.
        if let Some((head, _)) = self.take(context, ticket) {
            self.answer(Responder { context, head, out }, why);
        }
    }
}

fn not_hashed(fault: ServerFault) -> Outcome {
    Outcome::new(ResultCode::OTHER, "the password could not be hashed").by_fault(fault)
}

/// Passwords of a change that were prepared at once, or a claim on the hash pool.
enum Prepared {
    Now(PreparedPasswords),
    Later(HashClaim),
}

/// Prepares passwords at once if that is quick, otherwise on the hash pool.
fn prepare_passwords(
    context: &mut Context,
    (address, submitter): (Address, Submitter),
    passwords: ChangedPasswords,
) -> Result<Prepared, Outcome> {
    if passwords.is_empty() {
        return Ok(Prepared::Now(PreparedPasswords::default()));
    }
    if passwords.hash_count() > CLEAR_PASSWORDS_MAX {
        let text =
            format!("more than {CLEAR_PASSWORDS_MAX} clear passwords in one request: send several requests");
        return Err(Outcome::new(ResultCode::ADMIN_LIMIT_EXCEEDED, text));
    }
    if passwords.new.iter().any(|clear| clear.len() > PASSWORD_SIZE_MAX) {
        let text = format!("a password of more than {PASSWORD_SIZE_MAX} octets");
        return Err(Outcome::new(ResultCode::CONSTRAINT_VIOLATION, text));
    }
    if !passwords.is_slow() {
        return match passwords.prepare(&mut context.random) {
            Ok(prepared) => Ok(Prepared::Now(prepared)),
            Err(error) => Err(no_random_numbers(error)),
        };
    }
    let work = HashWork::Prepare(Box::new(Preparation::new(passwords)));
    context
        .shared
        .hash_pool
        .submit(address, work, None, submitter)
        .map(Prepared::Later)
        .ok_or_else(hash_pool_busy)
}
