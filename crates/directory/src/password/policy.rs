//! Rules of a password policy (draft-behera-ldap-password-policy sections 7 and 8): results of binds, requirements on
//! new passwords, and the state to record. This module reads neither the store nor a clock.
//!
//! Times are microseconds since 1970. As in OpenLDAP, failures are recorded to the microsecond, and most other times in
//! whole seconds. A recorded time in whole seconds is read as the last microsecond of its second
//! ([`moment`](crate::accounts::moment)), so that no rule takes effect early. Administrators set pwdStartTime and
//! pwdEndTime, so these times mean the beginning of a second.

use std::sync::Arc;

use ldap::{AccountUsability, PolicyError, PolicyResponse, PolicyWarning, Unusable};

pub use crate::model::password_policy::PasswordPolicy;
use crate::model::rows::EntryId;
use crate::model::sasl_keys::SaslKeyRules;
use crate::password::app_password::AppPassword;
use crate::password::totp::Totp;

/// Microseconds per second.
const SECOND: i64 = 1_000_000;

/// Recorded state of an entry's password under a policy (draft section 5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The entry.
    pub id: EntryId,
    /// Policy of the entry.
    pub policy: Arc<PasswordPolicy>,
    /// Value of pwdChangedTime. A value in whole seconds counts as the last microsecond of its second.
    pub changed: Option<i64>,
    /// Value of pwdAccountLockedTime.
    pub locked: Option<Lock>,
    /// Values of pwdFailureTime.
    pub failures: Vec<i64>,
    /// Number of values of pwdGraceUseTime.
    pub grace_uses: u32,
    /// Value of pwdReset.
    pub is_reset: bool,
    /// Value of pwdStartTime.
    pub start: Option<i64>,
    /// Value of pwdEndTime.
    pub end: Option<i64>,
    /// Value of pwdLastSuccess. A value in whole seconds counts as the last microsecond of its second.
    pub last_success: Option<i64>,
    /// State of time-based codes, if the policy requires them.
    pub totp: Option<Box<Totp>>,
    /// Application passwords.
    pub apps: Vec<AppPassword>,
    /// Keys that the policy requires and the entry lacks. The names for DIGEST-MD5 are listed even if the entry has
    /// keys for these names.
    pub missing_keys: SaslKeyRules,
}

/// Value of pwdAccountLockedTime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Locked since this time. If the failure that locked the account is recorded, this is the time of the failure.
    Since(i64),
    /// Locked until an administrator unlocks the account (`000001010000Z`).
    Permanent,
}

/// State that must be recorded after a bind or compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Whether to clear the failures, and a lock that has passed.
    pub clears_failures: bool,
    /// Whether to record the time as the time of the last success.
    pub success: bool,
    /// Whether to record a grace login. The response then waits until the record is durable.
    pub grace: bool,
}

/// Result of applying the policy to a verified password.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the bind succeeds.
    pub succeeds: bool,
    /// Password policy response control.
    pub response: PolicyResponse,
    /// Whether the user must first change the password.
    pub must_change: bool,
    /// State to record.
    pub recorded: AttemptRecord,
}

fn seconds(number: u32) -> i64 {
    i64::from(number) * SECOND
}

/// Returns the number of whole seconds between two times; 0 if `to` is before `from`.
pub(crate) fn seconds_between(from: i64, to: i64) -> u32 {
    u32::try_from(to.saturating_sub(from).max(0) / SECOND).unwrap_or(u32::MAX)
}

impl Account {
    /// Returns true if the account accepts no password at this time (draft section 7.1).
    pub fn is_locked(&self, now: i64) -> bool {
        self.is_unavailable(now) || self.is_failure_locked(now) || self.is_idle_locked(now)
    }

    /// Returns true if the account accepts no credentials of any kind at this time: an administrator has locked the
    /// account, or the time is before its start or after its end. Locks by wrong passwords or by idleness do not
    /// count, because other persons can cause such locks.
    pub fn is_unavailable(&self, now: i64) -> bool {
        self.is_disabled() || self.is_before_start(now) || self.is_past_end(now)
    }

    /// Returns true if an administrator has locked the account permanently.
    pub fn is_disabled(&self) -> bool {
        self.locked == Some(Lock::Permanent)
    }

    /// Returns true if wrong passwords have locked the account.
    pub fn is_failure_locked(&self, now: i64) -> bool {
        match self.locked {
            None | Some(Lock::Permanent) => false,
            Some(Lock::Since(_)) => self.unlocks_at().is_none_or(|end| now < end),
        }
    }

    /// Returns the time at which a lock by wrong passwords ends by itself.
    pub fn unlocks_at(&self) -> Option<i64> {
        match self.locked {
            Some(Lock::Since(since)) if self.policy.lockout_duration > 0 => {
                Some(since.saturating_add(seconds(self.policy.lockout_duration)))
            }
            _ => None,
        }
    }

    /// Returns true if the account is locked because it has not been used for too long.
    pub fn is_idle_locked(&self, now: i64) -> bool {
        self.idle_at().is_some_and(|end| now >= end)
    }

    /// Returns the time at which the account is locked for lack of use, unless the user binds before then.
    pub fn idle_at(&self) -> Option<i64> {
        let last = self.last_success.or(self.changed).filter(|_| self.policy.max_idle > 0);
        last.map(|last| last.saturating_add(seconds(self.policy.max_idle)))
    }

    /// Returns true if pwdStartTime is in the future.
    pub fn is_before_start(&self, now: i64) -> bool {
        self.start.is_some_and(|start| now < start)
    }

    /// Returns true if pwdEndTime has passed.
    pub fn is_past_end(&self, now: i64) -> bool {
        self.end.is_some_and(|end| now >= end)
    }

    /// Returns the expiry time, which is the last microsecond at which a login is not a grace login.
    pub fn expires_at(&self) -> Option<i64> {
        let changed = self.changed.filter(|_| self.policy.max_age > 0);
        changed.map(|changed| changed.saturating_add(seconds(self.policy.max_age)))
    }

    /// Returns true if the password has expired.
    pub fn is_expired(&self, now: i64) -> bool {
        self.expires_at().is_some_and(|end| now > end)
    }

    /// Returns the number of remaining grace logins.
    pub fn grace_left(&self, now: i64) -> u32 {
        let policy = &self.policy;
        let last = self.expires_at().map(|end| end.saturating_add(seconds(policy.grace_expiry)));
        let in_time = policy.grace_expiry == 0 || last.is_none_or(|last| now <= last);
        if in_time { policy.grace_limit.saturating_sub(self.grace_uses) } else { 0 }
    }

    /// Returns true if the user must first change the password.
    pub fn must_change(&self) -> bool {
        self.policy.must_change && self.is_reset
    }

    /// Returns whether a bind with the right password would succeed at this time, with the reason if it would not.
    pub fn usability(&self, now: i64) -> AccountUsability {
        let why = Unusable {
            is_inactive: self.is_unavailable(now),
            is_reset: self.must_change(),
            is_expired: self.is_expired(now),
            grace_left: self.is_expired(now).then(|| self.grace_left(now)).filter(|left| *left > 0),
            locked: match (self.is_failure_locked(now), self.is_idle_locked(now)) {
                (false, false) => None,
                (true, false) => Some(self.unlocks_at().map(|end| seconds_between(now, end))),
                (_, true) => Some(None),
            },
        };
        if why == Unusable::default() {
            return AccountUsability::Usable(self.expires_at().map(|end| seconds_between(now, end)));
        }
        AccountUsability::Unusable(why)
    }

    /// Returns the number of failures that count toward a lock.
    pub fn failure_count(&self, now: i64) -> usize {
        self.counting_failures(now).count()
    }

    /// Returns the times of the failures that count toward a lock, because they are younger than the interval (draft
    /// section 7.6). After a lock has passed, failures up to its end do not count, regardless of the precision of the
    /// stored times.
    pub fn counting_failures(&self, now: i64) -> impl Iterator<Item = i64> {
        let interval = seconds(self.policy.failure_interval);
        let passed = self.unlocks_at().filter(|end| now >= *end).unwrap_or(i64::MIN);
        let counts =
            move |time: &i64| *time > passed && (interval == 0 || now < time.saturating_add(interval));
        self.failures.iter().copied().filter(counts)
    }

    /// Applies attempts that are not recorded yet. If `ends_recorded` is true, the first attempt is a success, which
    /// clears the recorded failures. `failures` contains the times of later failures, in order. Recording the attempts
    /// later has the same result.
    pub fn apply_attempts(&mut self, ends_recorded: bool, failures: &[i64]) {
        if ends_recorded {
            self.failures.clear();
            // A permanent lock stays, because an administrator may have set it meanwhile.
            self.locked = self.locked.filter(|lock| *lock == Lock::Permanent);
        }
        failures.iter().for_each(|time| self.apply_failure(*time));
    }

    /// Applies a failure (draft section 8.1.3). Does nothing if a failure with this time is already recorded, or if the
    /// account was locked at this time.
    fn apply_failure(&mut self, time: i64) {
        if self.failures.contains(&time) || self.is_disabled() || self.is_failure_locked(time) {
            return;
        }
        self.failures = self.counting_failures(time).chain([time]).collect();
        self.locked = None;
        if self.locks_at(self.failures.len()) {
            self.locked = Some(Lock::Since(time));
            // Drop failures from before the clock was set back. Otherwise such failures would outlive the lock that
            // they caused.
            self.failures.retain(|failure| *failure <= time);
        }
        self.failures.sort_unstable();
        let from = self.failures.len().saturating_sub(self.policy.failure_count_max());
        self.failures.drain(..from);
    }

    /// Returns true if this many failures lock the account.
    pub fn locks_at(&self, failures: usize) -> bool {
        let max = usize::try_from(self.policy.max_failure).unwrap_or(usize::MAX);
        self.policy.lockout && max > 0 && failures >= max
    }

    /// Returns the result of an attempt while the account is locked.
    pub fn refused(&self) -> Judgement {
        let error = self.policy.reports_lock.then_some(PolicyError::AccountLocked);
        Judgement { response: PolicyResponse { warning: None, error }, ..Judgement::default() }
    }

    /// Returns true if a success at this time must be recorded as the last success. A recorded time in the future is
    /// replaced, because such a time shows that the clock was set back.
    pub fn records_success_at(&self, now: i64) -> bool {
        let precision = seconds(self.policy.last_success_precision);
        let is_fresh = |last: i64| {
            now < last.saturating_add(precision) && last <= now.saturating_add(precision.max(SECOND))
        };
        self.policy.records_success() && !self.last_success.is_some_and(is_fresh)
    }

    /// Returns the result for a right password, if the account is not locked (draft section 8.1.2).
    pub fn verified(&self, now: i64) -> Judgement {
        let policy = &self.policy;
        let recorded = AttemptRecord {
            clears_failures: !self.failures.is_empty() || self.locked.is_some(),
            success: self.records_success_at(now),
            grace: false,
        };
        let good = Judgement { succeeds: true, recorded, ..Judgement::default() };
        if self.must_change() {
            let response = PolicyResponse::error(PolicyError::ChangeAfterReset);
            return Judgement { response, must_change: true, ..good };
        }
        let Some(expiry) = self.expires_at() else { return good };
        if self.is_expired(now) {
            return match self.grace_left(now).checked_sub(1) {
                Some(rest) => {
                    let warning = Some(PolicyWarning::GraceLeft(rest));
                    let recorded = AttemptRecord { grace: true, ..recorded };
                    Judgement { response: PolicyResponse { warning, error: None }, recorded, ..good }
                }
                // The policy refuses the bind, so the success does not count, and the failures stay.
                None => Judgement {
                    response: PolicyResponse::error(PolicyError::PasswordExpired),
                    ..Judgement::default()
                },
            };
        }
        let left = expiry.saturating_sub(now);
        let warns = policy.expire_warning > 0 && left <= seconds(policy.expire_warning);
        let rest = u32::try_from(left / SECOND).unwrap_or(u32::MAX);
        let warning = warns.then_some(PolicyWarning::TimeBeforeExpiration(rest));
        Judgement { response: PolicyResponse { warning, error: None }, ..good }
    }

    /// Returns the reason why the user may not change the password at this time (draft section 8.2). `with_old` is true
    /// if the request contains the old password.
    pub fn change_refused(&self, now: i64, has_password: bool, with_old: bool) -> Option<PolicyError> {
        let policy = &self.policy;
        let is_young = || {
            let young =
                self.changed.is_some_and(|changed| now < changed.saturating_add(seconds(policy.min_age)));
            policy.min_age > 0 && young && !self.must_change()
        };
        if policy.safe_modify && has_password && !with_old {
            Some(PolicyError::MustSupplyOldPassword)
        } else if policy.forbids_user_change {
            Some(PolicyError::ModificationNotAllowed)
        } else if is_young() {
            Some(PolicyError::TooYoung)
        } else {
            None
        }
    }

    /// Returns true if the user may set a new password with a link sent by mail. A lock by wrong passwords does not
    /// prevent this, because other persons can cause such a lock. The change of the password ends this lock.
    pub fn may_be_reset_by_mail(&self, now: i64) -> bool {
        self.policy.reset_by_mail
            && !self.is_unavailable(now)
            && !self.is_idle_locked(now)
            && self.change_refused(now, true, true).is_none()
    }

    /// Returns the delay of the response to a failed attempt, in seconds. `failures` is the number of failures,
    /// including the present failure (draft section 7.7).
    pub fn delay(&self, failures: usize) -> u32 {
        let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(31);
        self.policy.min_delay.saturating_mul(1 << doublings).min(self.policy.max_delay)
    }
}

impl PasswordPolicy {
    /// Returns the error that a new password causes (draft section 8.2.5). `clear` is `None` if the client sent the
    /// password hashed.
    pub fn quality(&self, clear: Option<&[u8]>) -> Option<PolicyError> {
        if self.check_quality == 0 {
            return None;
        }
        let Some(clear) = clear else {
            return (self.check_quality == 2).then_some(PolicyError::InsufficientQuality);
        };
        // The length is in characters, or in octets if the password is not UTF-8.
        let length = std::str::from_utf8(clear).map_or(clear.len(), |text| text.chars().count());
        let is = |limit: u32, holds: fn(usize, usize) -> bool| {
            limit > 0 && holds(length, usize::try_from(limit).unwrap_or(usize::MAX))
        };
        if is(self.min_length, |length, limit| length < limit) {
            Some(PolicyError::TooShort)
        } else if is(self.max_length, |length, limit| length > limit) {
            Some(PolicyError::TooLong)
        } else if character_classes(clear) < self.min_classes {
            Some(PolicyError::InsufficientQuality)
        } else {
            None
        }
    }
}

/// Returns the number of character classes in a password: lowercase letters, uppercase letters, digits and others.
fn character_classes(clear: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(clear);
    let has = |is: fn(char) -> bool| u32::from(text.chars().any(is));
    has(char::is_lowercase)
        + has(char::is_uppercase)
        + has(|letter| letter.is_numeric())
        + has(|letter| !letter.is_lowercase() && !letter.is_uppercase() && !letter.is_numeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(policy: PasswordPolicy) -> Account {
        Account {
            id: EntryId(7),
            policy: Arc::new(policy),
            changed: None,
            locked: None,
            failures: Vec::new(),
            grace_uses: 0,
            is_reset: false,
            start: None,
            end: None,
            last_success: None,
            totp: None,
            apps: Vec::new(),
            missing_keys: SaslKeyRules::default(),
        }
    }

    #[test]
    fn locks_accounts_by_time_failures_and_idleness() {
        let policy = PasswordPolicy { lockout_duration: 60, max_idle: 100, ..PasswordPolicy::default() };
        let check = |change: fn(&mut Account), now: i64, locked: bool| {
            let mut account = account(policy.clone());
            change(&mut account);
            assert_eq!(account.is_locked(now * SECOND), locked, "{account:?} at {now}");
        };
        check(|_| {}, 1_000_000, false);
        check(|of| of.locked = Some(Lock::Permanent), 1_000_000, true);
        check(|of| of.locked = Some(Lock::Since(100 * SECOND)), 159, true);
        check(|of| of.locked = Some(Lock::Since(100 * SECOND)), 160, false);
        check(|of| of.start = Some(50 * SECOND), 49, true);
        check(|of| of.start = Some(50 * SECOND), 50, false);
        check(|of| of.end = Some(50 * SECOND), 49, false);
        check(|of| of.end = Some(50 * SECOND), 50, true);
        check(|of| of.last_success = Some(50 * SECOND), 149, false);
        check(|of| of.last_success = Some(50 * SECOND), 150, true);
        check(|of| of.changed = Some(50 * SECOND), 150, true);
        let for_ever = PasswordPolicy::default();
        let locked = Account { locked: Some(Lock::Since(0)), ..account(for_ever) };
        assert!(locked.is_locked(i64::MAX), "without a duration");
    }

    #[test]
    fn failures_expire_with_time_and_with_the_end_of_a_lock() {
        let policy = PasswordPolicy {
            lockout: true,
            max_failure: 3,
            failure_interval: 10,
            lockout_duration: 5,
            ..PasswordPolicy::default()
        };
        let failures = [1, 2, 3].map(|second| second * SECOND).to_vec();
        let mut account = Account { failures, ..account(policy) };
        assert_eq!(account.failure_count(3 * SECOND), 3);
        assert!(account.locks_at(3) && !account.locks_at(2));
        assert_eq!(account.failure_count(12 * SECOND), 1);
        account.locked = Some(Lock::Since(3 * SECOND));
        assert_eq!(account.failure_count(4 * SECOND), 3);
        assert_eq!(account.failure_count(8 * SECOND), 0);
        // All failures are within the second of a lock whose time is stored without its fraction.
        account.failures = vec![3 * SECOND + 1, 3 * SECOND + 2, 4 * SECOND - 1];
        assert_eq!(account.failure_count(8 * SECOND), 0);
    }

    #[test]
    fn unrecorded_attempts_count_like_recorded_ones() {
        let policy = PasswordPolicy {
            lockout: true,
            max_failure: 3,
            lockout_duration: 5,
            max_recorded_failure: 4,
            ..PasswordPolicy::default()
        };
        let base = Account { failures: vec![1, 2], ..account(policy) };
        let check = |ends_recorded, failures: &[i64], expected: (&[i64], Option<Lock>)| {
            let mut account = base.clone();
            account.apply_attempts(ends_recorded, failures);
            assert_eq!((&account.failures[..], account.locked), expected, "{ends_recorded} {failures:?}");
        };
        check(false, &[2], (&[1, 2], None));
        check(false, &[3], (&[1, 2, 3], Some(Lock::Since(3))));
        check(true, &[3, 4], (&[3, 4], None));
        check(false, &[0], (&[0], Some(Lock::Since(0))));
        check(false, &[3, 4], (&[1, 2, 3], Some(Lock::Since(3))));
        let over = 3 + 5 * SECOND;
        check(false, &[3, over], (&[over], None));
        let mut disabled = Account { locked: Some(Lock::Permanent), ..base.clone() };
        disabled.apply_attempts(true, &[3]);
        assert_eq!((disabled.failures.len(), disabled.locked), (0, Some(Lock::Permanent)));
    }

    #[test]
    fn passwords_expire_with_warning_and_grace() {
        let policy = PasswordPolicy {
            max_age: 100,
            expire_warning: 20,
            grace_limit: 2,
            grace_expiry: 50,
            ..PasswordPolicy::default()
        };
        let base = Account { changed: Some(0), ..account(policy) };
        let judge = |uses, second: i64| {
            let judged = Account { grace_uses: uses, ..base.clone() }.verified(second * SECOND);
            (judged.succeeds, judged.response.warning, judged.response.error, judged.recorded.grace)
        };
        let left = |seconds| Some(PolicyWarning::TimeBeforeExpiration(seconds));
        assert_eq!(judge(0, 79), (true, None, None, false));
        assert_eq!(judge(0, 80), (true, left(20), None, false));
        assert_eq!(judge(0, 100), (true, left(0), None, false));
        assert_eq!(judge(0, 101), (true, Some(PolicyWarning::GraceLeft(1)), None, true));
        assert_eq!(judge(1, 150), (true, Some(PolicyWarning::GraceLeft(0)), None, true));
        let expired = (false, None, Some(PolicyError::PasswordExpired), false);
        assert_eq!(judge(2, 101), expired);
        assert_eq!(judge(0, 151), expired, "after pwdGraceExpire");
        let never = Account { changed: None, ..base };
        assert!(never.verified(i64::MAX / 2).succeeds, "without pwdChangedTime");
    }

    #[test]
    fn reports_the_conditions_that_prevent_a_bind() {
        let policy = PasswordPolicy {
            max_age: 100,
            grace_limit: 2,
            max_idle: 1_000,
            lockout_duration: 60,
            must_change: true,
            ..PasswordPolicy::default()
        };
        let base = Account { changed: Some(0), last_success: Some(0), ..account(policy) };
        let check = |change: fn(&mut Account), second: i64, expected| {
            let mut account = base.clone();
            change(&mut account);
            let reported = account.usability(second * SECOND);
            assert_eq!(reported, expected, "{account:?} at {second}");
            // A bind succeeds if and only if the usability reports that it would succeed.
            let is_good = !account.is_locked(second * SECOND) && account.verified(second * SECOND).succeeds;
            let good = matches!(
                reported,
                AccountUsability::Usable(_)
                    | AccountUsability::Unusable(
                        Unusable { is_inactive: false, locked: None, is_expired: false, .. }
                            | Unusable { is_inactive: false, locked: None, grace_left: Some(_), .. }
                    )
            );
            assert_eq!(is_good, good, "{reported:?}");
        };
        let none = Unusable::default();
        check(|_| {}, 40, AccountUsability::Usable(Some(60)));
        check(|of| of.changed = None, 40, AccountUsability::Usable(None));
        let expired = Unusable { is_expired: true, grace_left: Some(2), ..none };
        check(|_| {}, 101, AccountUsability::Unusable(expired));
        let over = Unusable { is_expired: true, ..none };
        check(|of| of.grace_uses = 2, 101, AccountUsability::Unusable(over));
        let inactive = AccountUsability::Unusable(Unusable { is_inactive: true, ..none });
        check(|of| of.locked = Some(Lock::Permanent), 1, inactive);
        check(|of| of.start = Some(2 * SECOND), 1, inactive);
        check(|of| of.end = Some(SECOND), 1, inactive);
        let locked = |seconds| AccountUsability::Unusable(Unusable { locked: Some(seconds), ..none });
        check(|of| of.locked = Some(Lock::Since(SECOND)), 21, locked(Some(40)));
        check(|of| of.changed = None, 1_000, locked(None));
        let reset = AccountUsability::Unusable(Unusable { is_reset: true, ..none });
        check(|of| of.is_reset = true, 1, reset);
    }

    #[test]
    fn a_reset_password_must_be_changed() {
        let policy = PasswordPolicy { must_change: true, min_age: 100, ..PasswordPolicy::default() };
        let reset = Account { is_reset: true, changed: Some(0), ..account(policy) };
        let judged = reset.verified(SECOND);
        assert!(judged.succeeds && judged.must_change);
        assert_eq!(judged.response.error, Some(PolicyError::ChangeAfterReset));
        assert_eq!(reset.change_refused(SECOND, true, false), None, "however young");
        let changed = Account { is_reset: false, ..reset };
        assert!(!changed.verified(SECOND).must_change);
        assert_eq!(changed.change_refused(SECOND, true, false), Some(PolicyError::TooYoung));
        assert_eq!(changed.change_refused(100 * SECOND, true, false), None);
    }

    #[test]
    fn records_the_last_success_with_the_configured_precision() {
        let policy =
            PasswordPolicy { last_success: true, last_success_precision: 60, ..PasswordPolicy::default() };
        let mut account = account(policy);
        assert!(account.verified(0).recorded.success);
        account.last_success = Some(0);
        assert!(!account.verified(59 * SECOND).recorded.success);
        assert!(account.verified(60 * SECOND).recorded.success);
        account.last_success = Some(1_000 * SECOND);
        assert!(!account.verified(940 * SECOND).recorded.success, "by a clock that is slightly slow");
        assert!(account.verified(939 * SECOND).recorded.success, "after the clock was set back");
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let account = account(PasswordPolicy { min_delay: 2, max_delay: 9, ..PasswordPolicy::default() });
        let delays = [0, 1, 2, 3, 4, 1_000].map(|failures| account.delay(failures));
        assert_eq!(delays, [2, 2, 4, 8, 9, 9]);
    }

    #[test]
    fn quality_checks_length_and_character_classes() {
        let policy = PasswordPolicy {
            check_quality: 1,
            min_length: 4,
            max_length: 6,
            min_classes: 3,
            ..PasswordPolicy::default()
        };
        let check = |clear: Option<&str>, expected| {
            assert_eq!(policy.quality(clear.map(str::as_bytes)), expected, "{clear:?}");
        };
        check(Some("aB1"), Some(PolicyError::TooShort));
        check(Some("aB1aB1aB1"), Some(PolicyError::TooLong));
        check(Some("abcd1"), Some(PolicyError::InsufficientQuality));
        check(Some("aBc1"), None);
        check(Some("äÖ1."), None);
        check(None, None);
        let strict = PasswordPolicy { check_quality: 2, ..policy.clone() };
        assert_eq!(strict.quality(None), Some(PolicyError::InsufficientQuality));
        assert_eq!(PasswordPolicy { check_quality: 0, ..policy.clone() }.quality(Some(b"a")), None);
    }
}
