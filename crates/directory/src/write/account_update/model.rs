//! Random attempts, changes and times, compared with a simple model of draft-behera-ldap-password-policy sections 5 to
//! 8 that stores every time exactly.
//!
//! Locks by failures, pwdStartTime and pwdEndTime must take effect at the exact microsecond. pwdChangedTime and
//! pwdLastSuccess are stored in whole seconds. Conditions that depend on these two times may become true up to one
//! second late, but never early.
//!
//! A failure prints its seed; `PANDO_TEST_SEED=n` runs only seed n.

use std::collections::BTreeMap;

use fastrand::Rng;
use ldap::{ChangeOperation, ChangesBuf, ModifyRequest, PolicyError, PolicyWarning, Request, ResultCode};

use super::AccountUpdate;
use super::tests::{ADA, POLICY, sample};
use crate::access::Requester;
use crate::accounts::{self, Account};
use crate::model::rows::EntryId;
use crate::password::policy::Lock;
use crate::read::controls::RequestControls;
use crate::testing::TestDirectory;

const SECOND: i64 = 1_000_000;
const SEEDS: u64 = 60;
const STEPS: usize = 60;
/// First time of the test: 2023-11-14T22:13:20Z.
const BEGIN: i64 = 1_700_000_000 * SECOND;

#[test]
fn accounts_behave_as_the_draft_specifies() {
    let seeds = match std::env::var("PANDO_TEST_SEED") {
        Ok(seed) => vec![seed.parse().expect("PANDO_TEST_SEED is a number")],
        Err(_) => (0..SEEDS).collect(),
    };
    let (mut directory, id) = sample(&[]);
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| run(seed, &mut directory, id));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("replay with PANDO_TEST_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Truth of a condition that depends on a time stored in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Yes,
    No,
    /// Both truth values are acceptable, because less than a second has passed since the time.
    Either,
}

impl Truth {
    /// Returns the truth of a condition that becomes true at `end`.
    fn after(end: Option<i64>, now: i64) -> Truth {
        match end {
            Some(end) if now >= end + SECOND => Truth::Yes,
            Some(end) if now >= end => Truth::Either,
            _ => Truth::No,
        }
    }

    fn allows(self, found: bool) -> bool {
        self == Truth::Either || (self == Truth::Yes) == found
    }
}

impl From<bool> for Truth {
    fn from(is: bool) -> Truth {
        if is { Truth::Yes } else { Truth::No }
    }
}

/// Rules of a policy, and the state of an account as the draft defines it.
#[derive(Default)]
struct Model {
    rules: BTreeMap<&'static str, i64>,
    changed: Option<i64>,
    failures: Vec<i64>,
    /// Time at which failures locked the account.
    locked: Option<i64>,
    is_disabled: bool,
    is_reset: bool,
    grace_uses: i64,
    start: Option<i64>,
    end: Option<i64>,
    last_success: Option<i64>,
}

impl Model {
    fn random(rng: &mut Rng) -> Model {
        let mut rules = BTreeMap::new();
        let mut rule = |name, most: i64| {
            if rng.bool() {
                rules.insert(name, rng.i64(0..=most));
            }
        };
        rule("pwdMinAge", 4);
        rule("pwdMaxAge", 12);
        rule("pwdExpireWarning", 6);
        rule("pwdGraceAuthNLimit", 3);
        rule("pwdGraceExpire", 5);
        rule("pwdLockoutDuration", 4);
        rule("pwdMaxFailure", 4);
        rule("pwdFailureCountInterval", 5);
        rule("pwdMaxRecordedFailure", 6);
        rule("pwdMaxIdle", 9);
        rule("pwdLockout", 1);
        rule("pwdLockout", 1);
        rule("pwdMustChange", 1);
        rule("pandoPwdLastSuccess", 1);
        let delay = rng.i64(0..=3);
        rules.insert("pwdMinDelay", delay);
        rules.insert("pwdMaxDelay", if delay == 0 { 0 } else { delay + rng.i64(0..=20) });
        let (least, most) = (rules.get("pwdMinAge").copied(), rules.get("pwdMaxAge").copied());
        if most.is_some_and(|most| most > 0 && most < least.unwrap_or(0)) {
            rules.remove("pwdMinAge");
        }
        if rules.get("pwdExpireWarning") >= most.as_ref() {
            rules.remove("pwdExpireWarning");
        }
        Model { rules, ..Model::default() }
    }

    fn rule(&self, name: &str) -> i64 {
        self.rules.get(name).copied().unwrap_or(0)
    }

    /// Returns a rule's duration in microseconds; `None` if the rule is off.
    fn time(&self, name: &str) -> Option<i64> {
        Some(self.rule(name) * SECOND).filter(|time| *time > 0)
    }

    /// Returns true if failures have locked the account (section 7.1). Without pwdLockoutDuration, a lock does not end.
    fn is_failure_locked(&self, now: i64) -> bool {
        let end = |since| self.time("pwdLockoutDuration").map(|time| since + time);
        self.locked.is_some_and(|since| end(since).is_none_or(|end| now < end))
    }

    /// Returns whether the account is locked (section 7.1).
    fn is_locked(&self, now: i64) -> Truth {
        let is_out_of_time =
            self.start.is_some_and(|start| now < start) || self.end.is_some_and(|end| now >= end);
        if self.is_disabled || is_out_of_time || self.is_failure_locked(now) {
            return Truth::Yes;
        }
        let last = self.last_success.or(self.changed);
        Truth::after(last.zip(self.time("pwdMaxIdle")).map(|(last, idle)| last + idle), now)
    }

    fn expires(&self) -> Option<i64> {
        self.changed.zip(self.time("pwdMaxAge")).map(|(changed, age)| changed + age)
    }

    /// Returns whether the password is old enough for its user to change it (section 7.8).
    fn is_old_enough(&self, now: i64) -> Truth {
        let is_free = self.rule("pwdMinAge") == 0 || (self.rule("pwdMustChange") == 1 && self.is_reset);
        match self.changed.zip(self.time("pwdMinAge")).filter(|_| !is_free) {
            Some((changed, age)) => Truth::after(Some(changed + age), now),
            None => Truth::Yes,
        }
    }

    /// Adds a failure (section 8.1.3). The first failure after a lock clears the earlier failures. Returns the delay of
    /// the response.
    fn fail(&mut self, now: i64) -> i64 {
        if self.locked.take().is_some() {
            self.failures.clear();
        }
        let interval = self.time("pwdFailureCountInterval");
        self.failures.retain(|failure| interval.is_none_or(|interval| now < failure + interval));
        self.failures.push(now);
        let most = self.rule("pwdMaxFailure");
        let is_over = self.rule("pwdLockout") == 1 && most > 0 && self.failures.len() as i64 >= most;
        if is_over {
            self.locked = Some(now);
            // The failures that caused the lock stay until the next failure. Failures later than `now`, which exist if
            // the clock was set back, are cleared immediately.
            self.failures.retain(|failure| *failure <= now);
        }
        self.delay()
    }

    /// Returns the delay of a response to a failure (section 7.7).
    fn delay(&self) -> i64 {
        let doublings = self.failures.len().saturating_sub(1).min(20);
        (self.rule("pwdMinDelay") << doublings).min(self.rule("pwdMaxDelay"))
    }
}

/// The account as a session sees it: the recorded state, and events that the writer has not received yet.
struct Session<'d> {
    directory: &'d mut TestDirectory,
    id: EntryId,
    waiting: AccountUpdate,
}

impl Session<'_> {
    fn recorded(&self) -> Account {
        accounts::account(self.directory.snapshot.state(), self.id).unwrap().unwrap()
    }

    fn account(&self) -> Account {
        let mut account = self.recorded();
        account.apply_attempts(self.waiting.clears_failures, &self.waiting.failures);
        account.last_success = self.waiting.success.or(account.last_success);
        account
    }

    /// Records the waiting events, which must not change the account's state.
    fn commit(&mut self, now: i64) {
        let before = self.account();
        let update = std::mem::take(&mut self.waiting);
        let stamp = crate::model::stamp::Stamp { now_micros: now as u64, ..self.directory.stamp() };
        let mut batch = self.directory.writer.begin().unwrap();
        assert_eq!(batch.update_account(self.id, &update, &stamp).code, ResultCode::SUCCESS);
        batch.commit().unwrap();
        self.directory.snapshot.renew().unwrap();
        let after = self.recorded();
        assert_eq!((after.failures, after.locked), (before.failures, before.locked));
    }

    fn modify(
        &mut self,
        requester: &Requester,
        now: i64,
        dn: &str,
        changes: &[(ChangeOperation, &str, &[&str])],
    ) -> Result<(), PolicyError> {
        self.commit(now);
        let mut buffer = ChangesBuf::new();
        for (operation, name, values) in changes {
            buffer.push(*operation, name, values.iter());
        }
        let request = Request::Modify(ModifyRequest { object: dn, changes: buffer.as_changes() });
        let stamp = crate::model::stamp::Stamp { now_micros: now as u64, ..self.directory.stamp() };
        let own = std::mem::replace(&mut self.directory.requester, requester.clone());
        let outcome = self.directory.execute_with(&request, &RequestControls::default(), &stamp);
        self.directory.requester = own;
        match outcome.policy {
            Some(error) => Err(error),
            None => {
                assert_eq!(outcome.code, ResultCode::SUCCESS, "{changes:?}: {}", outcome.diagnostic);
                Ok(())
            }
        }
    }
}

fn run(seed: u64, directory: &mut TestDirectory, id: EntryId) {
    let mut rng = Rng::with_seed(seed);
    let mut model = Model::random(&mut rng);
    let mut session = Session { directory, id, waiting: AccountUpdate::default() };
    let administrator = session.directory.requester.clone();
    let user = Requester::User { id, dn: ADA.to_owned() };
    let mut now = BEGIN + rng.i64(0..10 * SECOND);
    begin(&mut session, &administrator, &model, now);
    (model.changed, model.is_reset) = (Some(now), model.rule("pwdMustChange") == 1);
    let mut passwords = 0..;
    for _ in 0..STEPS {
        now = next_time(&mut rng, &model, now);
        match rng.u32(0..100) {
            0..45 => now = try_wrong_password(&mut session, &mut model, now),
            45..75 => try_right_password(&mut session, &mut model, now),
            75..85 => {
                let is_own = rng.bool();
                let new = format!("{{SSHA}}{seed}-{}", passwords.next().unwrap_or(0));
                let requester = if is_own { &user } else { &administrator };
                let changes: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &[&new])];
                let outcome = session.modify(requester, now, ADA, changes);
                let is_taken = outcome != Err(PolicyError::TooYoung);
                assert!(!is_own || model.is_old_enough(now).allows(is_taken), "{outcome:?}");
                if is_taken {
                    (model.changed, model.last_success, model.grace_uses) = (Some(now), None, 0);
                    model.failures.clear();
                    model.is_reset = model.rule("pwdMustChange") == 1 && !is_own;
                    if is_own {
                        // The lock stays. Its time is now known only in whole seconds, because the failure with the
                        // exact time was cleared.
                        model.locked = model.locked.map(|since| since / SECOND * SECOND + SECOND - 1);
                    } else {
                        (model.locked, model.is_disabled) = (None, false);
                    }
                }
            }
            85..90 => {
                model.is_disabled = !model.is_disabled;
                let values: &[&str] = if model.is_disabled { &["000001010000Z"] } else { &[] };
                let changes: &[(_, &str, &[&str])] =
                    &[(ChangeOperation::Replace, "pwdAccountLockedTime", values)];
                assert_eq!(session.modify(&administrator, now, ADA, changes), Ok(()));
                model.locked = None;
                if !model.is_disabled {
                    model.failures.clear();
                }
            }
            90..95 => {
                let (name, place) = match rng.bool() {
                    true => ("pwdStartTime", &mut model.start),
                    false => ("pwdEndTime", &mut model.end),
                };
                *place = place.is_none().then(|| now + rng.i64(-3 * SECOND..3 * SECOND));
                let text: Vec<String> = place.iter().map(|time| accounts::time_text(*time, true)).collect();
                let values: Vec<&str> = text.iter().map(String::as_str).collect();
                let changes: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, name, &values)];
                assert_eq!(session.modify(&administrator, now, ADA, changes), Ok(()));
            }
            _ => session.commit(now),
        }
        check_state(&session, &model, now);
    }
}

/// Applies the model's policy to the account, and sets a new password.
fn begin(session: &mut Session<'_>, administrator: &Requester, model: &Model, now: i64) {
    let mut values: Vec<(&str, String)> = Vec::new();
    for name in crate::model::password_policy::PasswordPolicy::attributes() {
        let value = match (model.rules.get(name), name) {
            (Some(rule), "pwdLockout" | "pwdMustChange" | "pandoPwdLastSuccess") => {
                (*rule == 1).to_string().to_uppercase()
            }
            (Some(rule), _) => rule.to_string(),
            (None, "pwdAttribute") => "userPassword".to_owned(),
            (None, _) => String::new(),
        };
        values.push((name, value));
    }
    let texts: Vec<(&str, Vec<&str>)> = values
        .iter()
        .map(|(name, value)| (*name, if value.is_empty() { Vec::new() } else { vec![value.as_str()] }))
        .collect();
    let changes: Vec<(ChangeOperation, &str, &[&str])> =
        texts.iter().map(|(name, value)| (ChangeOperation::Replace, *name, &value[..])).collect();
    assert_eq!(session.modify(administrator, now, POLICY, &changes), Ok(()));
    let clean: &[(_, &str, &[&str])] = &[
        (ChangeOperation::Replace, "pwdStartTime", &[]),
        (ChangeOperation::Replace, "pwdEndTime", &[]),
        (ChangeOperation::Replace, "pwdAccountLockedTime", &[]),
        (ChangeOperation::Replace, "userPassword", &[&format!("{{SSHA}}new-{now}")]),
    ];
    assert_eq!(session.modify(administrator, now, ADA, clean), Ok(()));
}

/// Returns the time of the next step: later, equal, earlier, or a time at which the state changes.
fn next_time(rng: &mut Rng, model: &Model, now: i64) -> i64 {
    let ends = [
        model.locked.map(|since| since + model.rule("pwdLockoutDuration") * SECOND),
        model.failures.first().map(|first| first + model.rule("pwdFailureCountInterval") * SECOND),
        model.expires(),
        model.expires().map(|end| end + model.rule("pwdGraceExpire") * SECOND),
        model.changed.map(|changed| changed + model.rule("pwdMinAge") * SECOND),
        model.last_success.map(|last| last + model.rule("pwdMaxIdle") * SECOND),
        model.start,
        model.end,
        Some((now / SECOND + 1) * SECOND),
    ];
    match rng.u32(0..20) {
        0 => now,
        1 => now - rng.i64(0..6 * SECOND),
        2..8 => {
            let end = ends[rng.usize(0..ends.len())].filter(|end| *end >= now).unwrap_or(now);
            end + rng.i64(-1..=1)
        }
        8..16 => now + rng.i64(0..SECOND),
        _ => now + rng.i64(0..5 * SECOND),
    }
}

/// Tries a wrong password. Returns the time of the attempt, which is distinct from the times of other failures.
fn try_wrong_password(session: &mut Session<'_>, model: &mut Model, now: i64) -> i64 {
    let account = session.account();
    let is_locked = account.is_locked(now);
    assert!(model.is_locked(now).allows(is_locked), "{account:?} at {now}");
    if is_locked {
        return now;
    }
    let now = accounts::distinct_time(now, |time| account.failures.contains(&time));
    let mut after = account;
    after.apply_attempts(false, &[now]);
    session.waiting.failures.push(now);
    let delay = model.fail(now);
    // The delay counts the failure that locks the account.
    let failures = after.failure_count(now);
    assert_eq!(i64::from(after.delay(failures)), delay, "{after:?}");
    assert_eq!(after.is_failure_locked(now), model.is_failure_locked(now), "{after:?}");
    now
}

fn try_right_password(session: &mut Session<'_>, model: &mut Model, now: i64) {
    let account = session.account();
    let is_locked = account.is_locked(now);
    assert!(model.is_locked(now).allows(is_locked), "{account:?} at {now}");
    if is_locked {
        return;
    }
    let judged = account.verified(now);
    let must_change = model.rule("pwdMustChange") == 1 && model.is_reset;
    assert_eq!(judged.must_change, must_change);
    let is_expired = account.is_expired(now);
    // The password is still valid in its last microsecond.
    assert!(Truth::after(model.expires().map(|end| end + 1), now).allows(is_expired), "{account:?} at {now}");
    if !must_change && is_expired {
        let grace_end = model.expires().zip(model.time("pwdGraceExpire")).map(|(end, time)| end + time + 1);
        let left = model.rule("pwdGraceAuthNLimit") - model.grace_uses;
        let has_grace = judged.succeeds;
        let is_late = Truth::after(grace_end, now);
        assert!(if left > 0 { is_late.allows(!has_grace) } else { !has_grace }, "{account:?} at {now}");
        assert_eq!(judged.recorded.grace, has_grace);
        if !has_grace {
            return assert_eq!(judged.response.error, Some(PolicyError::PasswordExpired));
        }
        let rest = u32::try_from(left - 1).unwrap();
        assert_eq!(judged.response.warning, Some(PolicyWarning::GraceLeft(rest)));
        model.grace_uses += 1;
        session.waiting.grace = Some(now);
    } else {
        assert!(judged.succeeds && !judged.recorded.grace);
    }
    if !must_change && !is_expired {
        let warns_from = model.expires().zip(model.time("pwdExpireWarning")).map(|(end, time)| end - time);
        let warning = judged.response.warning;
        assert!(Truth::after(warns_from, now).allows(warning.is_some()), "{account:?} at {now}");
        if let (Some(PolicyWarning::TimeBeforeExpiration(left)), Some(end)) = (warning, model.expires()) {
            let exact = end - now;
            assert!(
                (exact - SECOND..=exact + SECOND).contains(&(i64::from(left) * SECOND)),
                "{left} {exact}"
            );
        }
    }
    model.failures.clear();
    model.locked = None;
    session.waiting.failures.clear();
    session.waiting.clears_failures |= judged.recorded.clears_failures;
    let records = model.rule("pandoPwdLastSuccess") == 1 || model.time("pwdMaxIdle").is_some();
    if records && judged.recorded.success {
        session.waiting.success = Some(now);
    }
    if records {
        let known =
            model.last_success.filter(|last| !judged.recorded.success && *last / SECOND >= now / SECOND);
        model.last_success = known.or(Some(now));
    }
    if session.waiting.grace.is_some() {
        session.commit(now);
    }
}

/// Compares the recorded state with the state of the model.
fn check_state(session: &Session<'_>, model: &Model, now: i64) {
    let account = session.account();
    let locked = match model.is_disabled {
        true => Some(Lock::Permanent),
        false => model.locked.map(Lock::Since),
    };
    assert_eq!(account.locked, locked, "at {now}");
    assert_eq!(i64::from(account.grace_uses), model.grace_uses);
    assert_eq!(account.is_reset, model.is_reset);
    assert_eq!((account.start, account.end), (model.start, model.end));
    let exact = model.changed.unwrap();
    assert!((exact..exact + SECOND).contains(&account.changed.unwrap()));
}
