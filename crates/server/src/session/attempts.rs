//! Attempts to prove a password under a policy: a bind, a compare of a password, or a change that names the old
//! password.
//!
//! The account is read when the verification starts and again when it ends. Therefore a client that tries many
//! passwords concurrently has no more attempts than the policy allows failures. After that number of failures, all
//! further attempts are refused, even with the right password. Concurrent successful binds count no failures.
//!
//! If an attempt locks the account, uses a grace login or uses a time-based code, the answer waits until the record of
//! the attempt is durable.

use std::time::Duration;

use directory::account_update::AccountUpdate;
use directory::password::Verification;
use directory::password::app_password::matching_password;
use directory::password::policy::{Account, AttemptRecord, Judgement, Lock};
use directory::password::totp::CODE_SIZE;
use directory::{Outcome, Requester};
use ldap::ResultCode;

use super::proof::{Attempt, DecidedAttempt, LastProof, OldPasswords, PasswordUse, SecondFactor};
use super::responder::Responder;
use super::{Session, Work};
use crate::net::mailbox::{PreparedPasswords, VerifiedPassword};
use crate::session::context::Context;
use crate::stamp::password_time;
use crate::workers::attempts::{Attempts, UnrecordedAttempts};
use crate::workers::guesses::GuessKey;
use crate::workers::logins::Login;
use crate::workers::writer::{UPDATE_BYTES, WriteRequest, WriterWork};

/// Minimum time between two recorded uses of an application password, in microseconds.
const APP_USE_PRECISION: i64 = 3_600_000_000;

/// State of an account, including attempts that are not recorded yet.
struct AttemptState {
    account: Box<Account>,
    /// Time of the last success in the stored account, in microseconds.
    recorded_success: Option<i64>,
    /// Failures and lock in the stored account, if they differ from those in `account` because of unrecorded attempts.
    recorded: Option<(Vec<i64>, Option<Lock>)>,
    /// Whether some failures are not recorded yet.
    has_unrecorded: bool,
}

impl AttemptState {
    fn of(
        context: &Context,
        mut account: Box<Account>,
        unrecorded: &UnrecordedAttempts,
        now: i64,
    ) -> AttemptState {
        let UnrecordedAttempts { times, ends_recorded, success } = unrecorded;
        let recorded = (*ends_recorded || !times.is_empty()).then(|| {
            let recorded = (account.failures.clone(), account.locked);
            account.apply_attempts(*ends_recorded, times);
            recorded
        });
        let recorded_success = account.last_success;
        if account.records_success_at(now) {
            let recent_success = context.shared.logins.since(account.id, recorded_success);
            // The clock may have been set back since the recorded success.
            account.last_success = (*success).max(recent_success).or(recorded_success);
        }
        AttemptState { account, recorded_success, recorded, has_unrecorded: !times.is_empty() }
    }

    /// Returns the present state of an account. `known` is the account after the first `commits` commits. If there may
    /// be later commits, the account is read again. If the account no longer has a policy, `known` is used.
    ///
    /// An attempt that is being recorded meanwhile may be in the account, in the list of unrecorded attempts, or in
    /// both. Such an attempt is counted once.
    fn now(context: &mut Context, recorded: Box<Account>, commits: Option<u64>, now: i64) -> AttemptState {
        let unrecorded = context.shared.writes.attempts().unrecorded(recorded.id);
        // A read error is logged. The older snapshot is used then.
        let _ = context.catch_up();
        let is_current = commits == Some(context.commits_seen());
        let current = if is_current {
            None
        } else {
            directory::bind::account(&context.snapshot, recorded.id).ok().flatten()
        };
        AttemptState::of(context, current.map_or(recorded, Box::new), &unrecorded, now)
    }

    /// Returns the account without its unrecorded attempts.
    fn into_recorded(mut self) -> Box<Account> {
        self.account.last_success = self.recorded_success;
        if let Some((failures, locked)) = self.recorded {
            (self.account.failures, self.account.locked) = (failures, locked);
        }
        self.account
    }
}

/// Creates an attempt on an account. The attempt is refused if the account is locked in the present snapshot.
/// `end_attempt` checks for a lock again.
fn attempt(context: &Context, account: Box<Account>, second: SecondFactor) -> Box<Attempt> {
    let (unrecorded, now) = (context.shared.writes.attempts().unrecorded(account.id), password_time());
    let state = AttemptState::of(context, account, &unrecorded, now);
    let is_refused = state.account.is_locked(now);
    let (account, commits) = (state.into_recorded(), Some(context.commits_seen()));
    Box::new(Attempt { account, commits, is_refused, second, app: None })
}

/// If the account requires a time-based code (RFC 6238), splits `sent` into the password and the code after it, and
/// checks the code.
pub(super) fn without_code<'a>(account: Option<&Account>, sent: &'a [u8]) -> (&'a [u8], SecondFactor) {
    let Some(totp) = account.and_then(|account| account.totp.as_ref()) else {
        return (sent, SecondFactor::NotNeeded);
    };
    let (password, code) = sent.split_at_checked(sent.len().saturating_sub(CODE_SIZE)).unwrap_or((sent, b""));
    (password, totp.step_of(code, password_time()).map_or(SecondFactor::Wrong, SecondFactor::Step))
}

/// Begins an attempt on an account that was just read. If the account is locked, the verification becomes a dummy with
/// the same cost.
pub(super) fn begin(
    context: &Context,
    account: Option<Box<Account>>,
    verification: &mut Verification,
    second: SecondFactor,
) -> Option<Box<Attempt>> {
    let attempt = attempt(context, account?, second);
    if attempt.is_refused {
        verification.verify_nothing();
    }
    Some(attempt)
}

/// Begins an attempt for a change that includes old passwords.
pub(super) fn begin_change(context: &Context, account: Box<Account>) -> Box<Attempt> {
    attempt(context, account, SecondFactor::NotNeeded)
}

/// Begins an attempt with an application password, if `sent` is a valid application password.
pub(super) fn begin_app(context: &Context, account: &Account, sent: &[u8]) -> Option<Box<Attempt>> {
    if account.apps.is_empty() {
        return None;
    }
    let app = matching_password(&account.apps, sent, password_time())?;
    let app = Some((app.options.clone(), app.last_used));
    let attempt = attempt(context, Box::new(account.clone()), SecondFactor::NotNeeded);
    Some(Box::new(Attempt { app, ..*attempt }))
}

/// Begins an attempt with a SASL proof instead of a password. The proof does not cover a time-based code, so the
/// attempt fails if the account requires one.
pub(super) fn begin_proof(context: &Context, account: Box<Account>) -> Box<Attempt> {
    let second = if account.totp.is_some() { SecondFactor::Wrong } else { SecondFactor::NotNeeded };
    // The state was read when the exchange began, possibly many commits ago.
    Box::new(Attempt { commits: None, ..*attempt(context, account, second) })
}

impl Session {
    /// Decides whether a change may continue after the verification of its old passwords. Returns `None` if the change
    /// may continue. Otherwise returns the passwords for [`refuse_old_password`](Session::refuse_old_password). As in a
    /// bind, a wrong password counts as a failure, and a locked account accepts no password
    /// (draft-behera-ldap-password-policy section 8.1).
    pub(super) fn try_old_passwords(
        &self,
        context: &mut Context,
        old: OldPasswords,
        matched: usize,
    ) -> Option<OldPasswords> {
        let wrong = old.count.saturating_sub(matched);
        let Some(attempt) = old.attempt else {
            return (wrong > 0).then_some(OldPasswords { attempt: None, ..old });
        };
        let Attempt { account, commits, is_refused, .. } = *attempt;
        let now = password_time();
        let state = AttemptState::now(context, account, commits, now);
        let is_refused = is_refused || state.account.is_locked(now);
        if wrong == 0 && !is_refused {
            if let Some(key) = &old.guess {
                context.shared.guesses.succeeded(key, context.now);
            }
            return None;
        }
        if !is_refused {
            // Each wrong password counts as a failure. `end_attempt` counts the last wrong password.
            (1..wrong).for_each(|_| self.note_failure(context, &state.account, now));
        }
        let (account, commits) = (state.into_recorded(), Some(context.commits_seen()));
        let second = SecondFactor::NotNeeded;
        let attempt = Some(Box::new(Attempt { account, commits, is_refused, second, app: None }));
        Some(OldPasswords { attempt, ..old })
    }

    /// Ends a change because its old password is wrong or the account is locked.
    pub(super) fn refuse_old_password(
        &mut self,
        to: Responder<'_>,
        work: Work,
        OldPasswords { attempt, guess, .. }: OldPasswords,
    ) {
        let text = "the old password is not the one that is there";
        let outcome = match work {
            Work::PasswordModify(password) => {
                password.finish(&Outcome::code(ResultCode::NO_SUCH_ATTRIBUTE)).0
            }
            _ => Outcome::new(ResultCode::NO_SUCH_ATTRIBUTE, text),
        };
        match attempt {
            Some(attempt) => {
                self.end_attempt(to, *attempt, false.into(), (PasswordUse::Change(outcome), guess));
            }
            None => self.conclude(to, DecidedAttempt { outcome, guess, ..DecidedAttempt::default() }),
        }
    }

    /// Ends an attempt and answers the request. If the attempt must be recorded first, the request is answered after
    /// the writer has recorded it.
    pub(super) fn end_attempt(
        &mut self,
        to: Responder<'_>,
        attempt: Attempt,
        VerifiedPassword { is_right, rehashed, keys }: VerifiedPassword,
        (password_use, guess): (PasswordUse, Option<GuessKey>),
    ) {
        let context = &mut *to.context;
        let (id, now) = (attempt.account.id, password_time());
        let (second, app) = (attempt.second, attempt.app);
        let is_own = app.is_none();
        // The state may have changed during the verification.
        let mut state = AttemptState::now(context, attempt.account, attempt.commits, now);
        let is_refused = attempt.is_refused || state.account.is_locked(now);
        let is_right = is_right && second != SecondFactor::Wrong;
        let judged = match (is_refused, is_right) {
            (true, _) => state.account.refused(),
            // An application password is subject neither to the maximum age of the user's own password nor to the duty
            // to change that password.
            (false, true) if app.is_some() => Judgement { succeeds: true, ..Judgement::default() },
            (false, true) => state.account.verified(now),
            (false, false) => Judgement::default(),
        };
        let fails = !is_refused && !is_right;
        let (mut locks, mut delay) = (false, 0);
        if fails {
            (state, locks, delay) = self.count_failure(context, state, now);
        }
        let AttemptRecord { clears_failures, success, grace } = judged.recorded;
        let totp_step = match second {
            SecondFactor::Step(step) if judged.succeeds => Some(step),
            _ => None,
        };
        let unrecorded = judged.succeeds && state.has_unrecorded;
        let success = success && {
            // If the success is the only change to the account, it is recorded later, together with other logins.
            let is_alone = !clears_failures && !unrecorded && rehashed.is_none() && keys.is_none();
            let login = Login { time: now, over: state.recorded_success };
            let precision = state.account.policy.last_success_precision;
            !is_alone || !context.shared.logins.keep(id, login, precision, context.now)
        };
        if clears_failures || success || unrecorded || rehashed.is_some() || keys.is_some() {
            let (rehashed, keys) = (rehashed.filter(|_| judged.succeeds), keys.filter(|_| judged.succeeds));
            self.note(
                context,
                id,
                |update| {
                    if clears_failures || unrecorded {
                        update.failures.clear();
                        update.clears_failures = true;
                    }
                    update.success = success.then_some(now).or(update.success);
                    update.rehashed = rehashed.or_else(|| update.rehashed.take());
                    update.keys = keys.or_else(|| update.keys.take());
                },
                &state.account,
            );
        }
        if let Some((options, last_used)) = app.filter(|_| judged.succeeds)
            && last_used.is_none_or(|last| now >= last.saturating_add(APP_USE_PRECISION))
        {
            let name = |update: &mut AccountUpdate| {
                update.app_uses.retain(|(known, _)| *known != options);
                update.app_uses.push((options, now));
            };
            self.note(context, id, name, &state.account);
        }
        let proved = judged.succeeds.then_some((id, is_own));
        let decided = DecidedAttempt { guess, delay, proved, ..decide(&judged, password_use) };
        let waits = grace || locks || totp_step.is_some();
        if waits && !self.record(context, id, (grace.then_some(now), totp_step)) {
            let text = "the directory takes no more changes now, and this bind needs one; try again later";
            let requester = decided.requester.map(|_| Requester::Anonymous);
            let outcome = Outcome::new(ResultCode::BUSY, text);
            return self.conclude(to, DecidedAttempt { outcome, requester, ..DecidedAttempt::default() });
        }
        match waits {
            true => self.keep(to.head, Work::Decided(Box::new(decided)), UPDATE_BYTES, None),
            false => self.conclude(to, decided),
        }
    }

    /// Counts a failure. Returns the new state, whether the account is now locked, and the delay of the answer in
    /// seconds.
    fn count_failure(
        &self,
        context: &mut Context,
        state: AttemptState,
        now: i64,
    ) -> (AttemptState, bool, u32) {
        self.note_failure(context, &state.account, now);
        // The snapshot may include commits of other threads since the account was read.
        let commits = Some(context.commits_seen());
        let state = AttemptState::now(context, state.into_recorded(), commits, now);
        let failures = state.account.failure_count(now);
        let locks = state.account.is_failure_locked(now);
        if locks {
            let dn = context.snapshot.state().dn(state.account.id).ok().flatten().unwrap_or_default();
            tracing::warn!(
                conn = self.number(),
                "the account of {dn:?} is locked: {failures} wrong passwords, the last from {}",
                self.source
            );
        }
        let delay = state.account.delay(failures);
        (state, locks, delay)
    }

    /// Notes an update of an account, and asks the writer to record it.
    fn note(
        &self,
        context: &mut Context,
        id: directory::rows::EntryId,
        note: impl FnOnce(&mut AccountUpdate),
        account: &Account,
    ) {
        self.note_with(context, account, |attempts| attempts.note(id, note));
    }

    /// Notes a failure, and asks the writer to record it.
    fn note_failure(&self, context: &mut Context, account: &Account, now: i64) {
        self.note_with(context, account, |attempts| {
            attempts.note_failure(account.id, now, &account.failures)
        });
    }

    /// Calls `note`, which returns true if the writer must be asked to record the update. Does nothing if the policy of
    /// the account records nothing.
    fn note_with(&self, context: &mut Context, account: &Account, note: impl FnOnce(&Attempts) -> bool) {
        let id = account.id;
        if account.policy.failure_count_max() == 0
            && !account.policy.records_success()
            && !account.policy.rehashes()
            && account.policy.app_passwords == 0
            && account.policy.scram_mechanisms.is_empty()
        {
            return;
        }
        if note(context.shared.writes.attempts()) {
            match context.shared.writes.account_request(id, &context.anonymous) {
                Some(request) => context.outbox.push(request),
                None => context.shared.writes.attempts().not_queued(id),
            }
        }
    }

    /// Asks the writer to record an account. The writer's answer goes to the next operation that the session adds.
    /// Returns false if the writer's queue is full.
    fn record(
        &mut self,
        context: &mut Context,
        id: directory::rows::EntryId,
        (grace, totp_step): (Option<i64>, Option<i64>),
    ) -> bool {
        let Some(reservation) = context.shared.writes.reserve(UPDATE_BYTES) else { return false };
        context.outbox.push(WriteRequest {
            address: self.address(context),
            requester: std::sync::Arc::clone(&context.anonymous),
            link: None,
            change: WriterWork::Account { id, grace, totp_step },
            passwords: PreparedPasswords::default(),
            reservation,
            origin: None,
            keeps_old_values: false,
            is_forwarded: false,
        });
        true
    }

    /// Answers an attempt after the writer has tried to record the account.
    pub(super) fn recorded(&mut self, to: Responder<'_>, decided: DecidedAttempt, written: &Outcome) {
        if written.code == ResultCode::SUCCESS || decided.has_failed() {
            return self.conclude(to, decided);
        }
        // Either another bind has used the last grace login, or the writer could not record the account.
        let is_bind = decided.requester.is_some();
        let requester = is_bind.then_some(Requester::Anonymous);
        let outcome = match is_bind || written.code != ResultCode::INVALID_CREDENTIALS {
            true => written.clone(),
            false => Outcome::code(ResultCode::COMPARE_FALSE),
        };
        self.conclude(to, DecidedAttempt { outcome, requester, ..decided });
    }

    /// Answers an attempt, after a delay if the policy or earlier failures from this source require a delay.
    pub(super) fn conclude(&mut self, mut to: Responder<'_>, decided: DecidedAttempt) {
        let has_failed = decided.has_failed();
        let (guesses, now) = (&to.context.shared.guesses, to.context.now);
        let by_policy = if has_failed { Duration::from_secs(decided.delay.into()) } else { Duration::ZERO };
        let delay = match (&decided.guess, has_failed) {
            (Some(key), true) => guesses.failed(*key, now, by_policy).unwrap_or(by_policy),
            (Some(key), false) => {
                guesses.succeeded(key, now);
                by_policy
            }
            (None, _) => by_policy,
        };
        if delay.is_zero() {
            return self.answer_attempt(to, decided);
        }
        let end = now + delay;
        to.head.event.iter_mut().for_each(|event| event.stages.push(("delay the answer", end)));
        to.context.shared.delays.post_at(end, self.address(to.context));
        self.keep(to.head, Work::Delayed(Box::new(decided)), 0, None);
    }

    /// Answers an attempt after its delay.
    pub(crate) fn delayed(&mut self, context: &mut Context, ticket: u64, out: &mut Vec<u8>) {
        if let Some((head, Work::Delayed(decided))) = self.take(context, ticket) {
            self.answer_attempt(Responder { context, head, out }, *decided);
        }
    }

    /// Answers an attempt. After a successful bind the session takes the requester of the bind.
    fn answer_attempt(&mut self, mut to: Responder<'_>, decided: DecidedAttempt) {
        to.head.warning = decided.warning;
        match decided.requester {
            Some(requester) => {
                let (keeps_identity, at) = (to.head.verifies_credentials, to.context.now);
                self.bound(to, &decided.outcome, requester);
                if keeps_identity {
                    return;
                }
                self.must_change = decided.must_change && *self.requester != Requester::Anonymous;
                self.proved = decided.proved.map(|(id, is_own)| Box::new(LastProof { id, is_own, at }));
            }
            None => self.answer(to, &decided.outcome),
        }
    }
}

/// Returns the outcome of an attempt.
fn decide(judged: &Judgement, password_use: PasswordUse) -> DecidedAttempt {
    let (outcome, requester) = match (password_use, judged.succeeds) {
        (PasswordUse::Bind(requester), true) => (Outcome::success(), Some(requester)),
        (PasswordUse::Bind(_), false) => {
            (Outcome::code(ResultCode::INVALID_CREDENTIALS), Some(Requester::Anonymous))
        }
        (PasswordUse::Compare, true) => (Outcome::code(ResultCode::COMPARE_TRUE), None),
        (PasswordUse::Compare, false) => (Outcome::code(ResultCode::COMPARE_FALSE), None),
        // A change with the right old password continues, so it gets no answer here.
        (PasswordUse::Change(refusal), _) => (refusal, None),
    };
    let outcome = Outcome { policy: judged.response.error, ..outcome };
    let warning = judged.response.warning;
    DecidedAttempt {
        outcome,
        requester,
        must_change: judged.must_change,
        warning,
        ..DecidedAttempt::default()
    }
}
