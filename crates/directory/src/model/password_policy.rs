//! Password policies (draft-behera-ldap-password-policy section 5.2), and the table of all policies in a directory.
//!
//! A policy is an entry with the object class pwdPolicy. Its attributes are the rules, and a rule without an attribute
//! is off. The catalog keeps all policies in memory, as [`PolicyTable`], because every bind needs its policy.

use std::sync::Arc;

use super::limits::{
    APP_PASSWORDS_MAX, PASSWORD_FAILURES_MAX, PASSWORD_HISTORY_MAX, TOTP_WINDOW_MAX, TOTP_WINDOW_USUAL,
};
use super::rows::EntryId;
use super::sasl_mechanisms::{CRAM_MD5, DIGEST_MD5};
use super::storage_scheme::StorageScheme;

/// A password policy. Times are in seconds. The number 0 turns a rule off, unless the field states another meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PasswordPolicy {
    /// Minimum age of a password before its user may change it.
    pub min_age: u32,
    /// Age after which the password expires.
    pub max_age: u32,
    /// Number of former passwords that the user may not use again.
    pub in_history: u32,
    /// Check of new passwords. 0: no check. 1: a clear password is checked, and a hashed password is accepted. 2: as
    /// 1, but a hashed password is refused, because it cannot be checked.
    pub check_quality: u32,
    /// Minimum number of characters of a password.
    pub min_length: u32,
    /// Maximum number of characters of a password.
    pub max_length: u32,
    /// Minimum number of character classes: lowercase letters, uppercase letters, digits, others.
    pub min_classes: u32,
    /// Time before the password expires during which binds warn the user.
    pub expire_warning: u32,
    /// Number of grace binds: binds with an expired password.
    pub grace_limit: u32,
    /// Time after expiry during which grace binds are allowed.
    pub grace_expiry: u32,
    /// Duration of a lock after too many failures. With 0, the lock lasts until an administrator unlocks the account.
    pub lockout_duration: u32,
    /// Number of failures that lock the account.
    pub max_failure: u32,
    /// Time after which a failed attempt no longer counts.
    pub failure_interval: u32,
    /// Minimum number of failures that are recorded. More failures are recorded if the lock or the delay depends on
    /// them.
    pub max_recorded_failure: u32,
    /// Delay of the response to the first failure. The delay doubles with each further failure.
    pub min_delay: u32,
    /// Maximum delay of the response to a failure.
    pub max_delay: u32,
    /// Time without a bind after which the account is locked.
    pub max_idle: u32,
    /// Time after a recorded bind during which later binds are not recorded.
    pub last_success_precision: u32,
    /// Iterations of new SCRAM keys; 0 for the default.
    pub scram_iterations: u32,
    /// Whether failures lock the account.
    pub lockout: bool,
    /// Whether a user must change a password that another requester set.
    pub must_change: bool,
    /// Whether users may not change their own passwords.
    pub forbids_user_change: bool,
    /// Whether the old password must be sent with the new password.
    pub safe_modify: bool,
    /// Whether passwords on the server's lists of weak passwords are refused.
    pub check_lists: bool,
    /// Whether the time of the last successful bind is recorded.
    pub last_success: bool,
    /// Whether a bind reports that the account is locked. The report also reveals that the account exists.
    pub reports_lock: bool,
    /// Whether users with a secret for time-based codes append a code to the password.
    pub totp: bool,
    /// Number of time steps before and after the current time step whose codes are accepted; `None` for the default.
    pub totp_window: Option<u32>,
    /// Number of application passwords that a user may have.
    pub app_passwords: u32,
    /// Whether users may manage their own secrets for codes and their own application passwords.
    pub self_service: bool,
    /// Whether a user who forgot the password may set a new password with a link that the server mails to the user.
    pub reset_by_mail: bool,
    /// Storage scheme of new passwords; `None` for the scheme in the settings.
    pub scheme: Option<StorageScheme>,
    /// Mechanisms for which keys are derived from new passwords: SCRAM mechanisms, CRAM-MD5 and DIGEST-MD5.
    pub scram_mechanisms: Vec<String>,
}

/// Attributes of OpenLDAP's policies that Pando ignores, because they concern a library that checks passwords.
pub(crate) const WITHOUT_EFFECT: [&str; 3] = ["pwdCheckModule", "pwdCheckModuleArg", "pwdUseCheckModule"];

type NumberField = (&'static str, fn(&mut PasswordPolicy) -> &mut u32);
type SwitchField = (&'static str, fn(&mut PasswordPolicy) -> &mut bool);

const NUMBERS: [NumberField; 20] = [
    ("pwdMinAge", |of| &mut of.min_age),
    ("pwdMaxAge", |of| &mut of.max_age),
    ("pwdInHistory", |of| &mut of.in_history),
    ("pwdCheckQuality", |of| &mut of.check_quality),
    ("pwdMinLength", |of| &mut of.min_length),
    ("pwdMaxLength", |of| &mut of.max_length),
    ("pandoPwdMinClasses", |of| &mut of.min_classes),
    ("pwdExpireWarning", |of| &mut of.expire_warning),
    ("pwdGraceAuthNLimit", |of| &mut of.grace_limit),
    ("pwdGraceExpire", |of| &mut of.grace_expiry),
    ("pwdLockoutDuration", |of| &mut of.lockout_duration),
    ("pwdMaxFailure", |of| &mut of.max_failure),
    ("pwdFailureCountInterval", |of| &mut of.failure_interval),
    ("pwdMaxRecordedFailure", |of| &mut of.max_recorded_failure),
    ("pwdMinDelay", |of| &mut of.min_delay),
    ("pwdMaxDelay", |of| &mut of.max_delay),
    ("pwdMaxIdle", |of| &mut of.max_idle),
    ("pandoPwdLastSuccessPrecision", |of| &mut of.last_success_precision),
    ("pandoPwdAppPasswords", |of| &mut of.app_passwords),
    ("pandoPwdScramIterations", |of| &mut of.scram_iterations),
];

const SWITCHES: [SwitchField; 10] = [
    ("pwdLockout", |of| &mut of.lockout),
    ("pwdMustChange", |of| &mut of.must_change),
    (ALLOW_USER_CHANGE, |of| &mut of.forbids_user_change),
    ("pwdSafeModify", |of| &mut of.safe_modify),
    ("pandoPwdCheckLists", |of| &mut of.check_lists),
    ("pandoPwdLastSuccess", |of| &mut of.last_success),
    ("pandoPwdTellLock", |of| &mut of.reports_lock),
    ("pandoPwdTotp", |of| &mut of.totp),
    ("pandoPwdSelfService", |of| &mut of.self_service),
    ("pandoPwdResetByMail", |of| &mut of.reset_by_mail),
];

/// Name of the only boolean rule that is true by default.
const ALLOW_USER_CHANGE: &str = "pwdAllowUserChange";
pub(crate) const PASSWORD_ATTRIBUTE: &str = "pwdAttribute";
const SCHEME: &str = "pandoPwdScheme";
const TOTP_WINDOW: &str = "pandoPwdTotpWindow";
const SCRAM_MECHANISM: &str = "pandoPwdScramMechanism";

/// Mechanisms for which keys can be derived.
pub(crate) const SCRAM_MECHANISMS: [&str; 5] =
    ["SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", CRAM_MD5, DIGEST_MD5];

/// Iterations of SCRAM keys: default, minimum and maximum of a policy (RFC 7677 section 4).
pub(crate) const SCRAM_ITERATIONS: (u32, u32, u32) = (4_096, 4_096, 1_000_000);

impl PasswordPolicy {
    /// Returns the names of the attribute types that are rules of a policy.
    pub fn attributes() -> impl Iterator<Item = &'static str> {
        let numbers = NUMBERS.iter().map(|(name, _)| *name);
        let switches = SWITCHES.iter().map(|(name, _)| *name);
        numbers.chain(switches).chain([PASSWORD_ATTRIBUTE, SCHEME, SCRAM_MECHANISM, TOTP_WINDOW])
    }

    /// Sets one of the [`attributes`](PasswordPolicy::attributes) of the policy.
    ///
    /// # Errors
    /// A message that describes the fault.
    pub fn set(&mut self, attribute: &str, value: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(value).unwrap_or_default();
        if let Some((_, field)) = NUMBERS.iter().find(|(name, _)| *name == attribute) {
            let number = text.parse::<u32>().ok().filter(|number| i32::try_from(*number).is_ok());
            *field(self) =
                number.ok_or_else(|| format!("{attribute} takes a number from 0 to {}", i32::MAX))?;
        } else if let Some((_, field)) = SWITCHES.iter().find(|(name, _)| *name == attribute) {
            let is_on = text.eq_ignore_ascii_case("true");
            *field(self) = if attribute == ALLOW_USER_CHANGE { !is_on } else { is_on };
        } else if attribute == SCHEME {
            let scheme: StorageScheme = text.parse().map_err(|error| format!("{attribute}: {error}"))?;
            self.scheme = Some(scheme);
        } else if attribute == TOTP_WINDOW {
            let window = text.parse::<u32>().ok().filter(|window| *window <= TOTP_WINDOW_MAX);
            let wrong = || {
                format!(
                    "{attribute} takes a number from 0 to {TOTP_WINDOW_MAX}: each step accepts another code"
                )
            };
            self.totp_window = Some(window.ok_or_else(wrong)?);
        } else if attribute == SCRAM_MECHANISM {
            let known = SCRAM_MECHANISMS.iter().find(|known| known.eq_ignore_ascii_case(text));
            let known = known
                .ok_or_else(|| format!("{attribute}: keys are made for {}", SCRAM_MECHANISMS.join(", ")))?;
            self.scram_mechanisms.push((*known).to_owned());
        } else if attribute == PASSWORD_ATTRIBUTE
            && !["userPassword", "2.5.4.35"].iter().any(|name| name.eq_ignore_ascii_case(text))
        {
            return Err(format!("{attribute}: only userPassword can have a policy"));
        }
        Ok(())
    }

    /// Checks that the rules of the policy do not contradict each other (draft section 5.2).
    ///
    /// # Errors
    /// A message that describes the first contradiction.
    pub fn check(&self) -> Result<(), String> {
        match self.clone().mend().into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Corrects rules that cannot be applied. An import may have stored such rules. Returns a message for each fault
    /// found, including contradictions that are not corrected.
    pub fn mend(&mut self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |is: bool, text: &str| {
            if is {
                faults.push(text.to_owned());
            }
            is
        };
        fault(
            self.max_age != 0 && self.max_age < self.min_age,
            "pwdMaxAge is less than pwdMinAge: the password would expire before it may be changed",
        );
        fault(
            self.expire_warning != 0 && self.max_age != 0 && self.expire_warning >= self.max_age,
            "pwdExpireWarning must be less than pwdMaxAge",
        );
        fault(
            self.max_length != 0 && self.max_length < self.min_length,
            "pwdMaxLength is less than pwdMinLength",
        );
        if fault(
            (self.min_delay == 0) != (self.max_delay == 0) || self.max_delay < self.min_delay,
            "set both pwdMinDelay and pwdMaxDelay, with pwdMaxDelay at least as long",
        ) {
            self.max_delay = self.max_delay.max(self.min_delay);
        }
        let failures_max = u32::try_from(PASSWORD_FAILURES_MAX).unwrap_or(u32::MAX);
        let (_, least, most) = SCRAM_ITERATIONS;
        let iterations = self.scram_iterations;
        for (value, max, text) in [
            (&mut self.check_quality, 2, "pwdCheckQuality must be 0, 1 or 2".to_owned()),
            (
                &mut self.min_classes,
                4,
                "pandoPwdMinClasses is at most 4: small and capital letters, digits, others".to_owned(),
            ),
            (
                &mut self.in_history,
                PASSWORD_HISTORY_MAX,
                format!(
                    "pwdInHistory is at most {PASSWORD_HISTORY_MAX}: each is verified when a password changes"
                ),
            ),
            (
                &mut self.max_failure,
                failures_max,
                format!("pwdMaxFailure is at most {failures_max}: that many are recorded"),
            ),
            (
                &mut self.max_recorded_failure,
                failures_max,
                format!("pwdMaxRecordedFailure is at most {failures_max}"),
            ),
            (
                &mut self.app_passwords,
                APP_PASSWORDS_MAX,
                format!("pandoPwdAppPasswords is at most {APP_PASSWORDS_MAX}: each is tried at every bind"),
            ),
            (&mut self.scram_iterations, most, format!("pandoPwdScramIterations is from {least} to {most}")),
        ] {
            if fault(*value > max, &text) {
                *value = max;
            }
        }
        let is_less = iterations != 0 && iterations < least;
        if fault(is_less, &format!("pandoPwdScramIterations is from {least} to {most}")) {
            self.scram_iterations = least;
        }
        faults
    }

    /// Returns true if successful binds are recorded.
    pub fn records_success(&self) -> bool {
        self.last_success || self.max_idle > 0
    }

    /// Returns the number of time steps before and after the current time step whose codes are accepted.
    pub fn totp_window(&self) -> u32 {
        self.totp_window.unwrap_or(TOTP_WINDOW_USUAL)
    }

    /// Returns the iterations of new SCRAM keys.
    pub fn scram_iterations(&self) -> u32 {
        if self.scram_iterations == 0 { SCRAM_ITERATIONS.0 } else { self.scram_iterations }
    }

    /// Returns true if the policy names a storage scheme. A bind then replaces a weaker stored hash of the password.
    pub fn rehashes(&self) -> bool {
        self.scheme.is_some()
    }

    /// Returns the number of failures that are recorded.
    pub fn failure_count_max(&self) -> usize {
        let count = self.max_recorded_failure.max(self.max_failure).max(self.delayed_failures());
        usize::try_from(count).unwrap_or(usize::MAX).min(PASSWORD_FAILURES_MAX)
    }

    /// Returns the number of failures at which the delay reaches its maximum. The delay depends on how many failures
    /// are recorded.
    fn delayed_failures(&self) -> u32 {
        if self.min_delay == 0 {
            return 0;
        }
        self.max_delay.div_ceil(self.min_delay).max(1).next_power_of_two().trailing_zeros() + 1
    }
}

/// A policy and the entries that it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyEntry {
    /// The policy's entry.
    pub id: EntryId,
    /// Subtree in which the policy applies, if its entry is a subentry. `None` if the policy applies only to entries
    /// that name the policy.
    pub area: Option<PolicyArea>,
    /// Rules of the policy.
    pub policy: Arc<PasswordPolicy>,
}

/// The subtree of a policy subentry (RFC 3672 section 2.1). The subtree has only a base and depths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PolicyArea {
    /// Base of the subtree.
    pub base: EntryId,
    /// Depth below the base at which the subtree begins, in levels.
    pub minimum: usize,
    /// Depth below the base at which the subtree ends, in levels.
    pub maximum: Option<usize>,
}

/// All password policies of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyTable {
    /// All policies with their entries.
    pub entries: Vec<PolicyEntry>,
    /// Entry of the default policy, which the settings name.
    pub default: Option<EntryId>,
    /// Reason why the default policy cannot be applied.
    pub default_fault: Option<String>,
    /// Descriptions of rules that cannot be applied as written, with the names of their policies; at most
    /// [`POLICY_NOTICES_MAX`](super::limits::POLICY_NOTICES_MAX).
    pub notices: Vec<String>,
}

impl PolicyTable {
    /// Returns the policy that the entry `id` defines.
    pub(crate) fn of(&self, id: EntryId) -> Option<&Arc<PasswordPolicy>> {
        self.entries.iter().find(|entry| entry.id == id).map(|entry| &entry.policy)
    }

    /// Returns all notices. The notice about the default policy comes first.
    pub(crate) fn all_notices(&self) -> Vec<String> {
        self.default_fault.iter().chain(&self.notices).cloned().collect()
    }

    /// Returns true if any policy is a subentry.
    pub(crate) fn has_areas(&self) -> bool {
        self.entries.iter().any(|entry| entry.area.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[(&str, &str)]) -> Result<PasswordPolicy, String> {
        let mut policy = PasswordPolicy::default();
        for (attribute, value) in values {
            assert!(PasswordPolicy::attributes().any(|known| known == *attribute));
            policy.set(attribute, value.as_bytes())?;
        }
        policy.check().map(|()| policy)
    }

    #[test]
    fn every_attribute_is_defined_and_sets_a_rule() {
        let schema = schema::Schema::shipped();
        for attribute in PasswordPolicy::attributes() {
            assert!(schema.attribute_type(attribute).is_some(), "{attribute}");
        }
        for (attribute, field) in NUMBERS {
            let mut policy = PasswordPolicy::default();
            policy.set(attribute, b"7").unwrap();
            assert_eq!(*field(&mut policy), 7, "{attribute}");
        }
        for (attribute, field) in SWITCHES {
            let mut policy = PasswordPolicy::default();
            policy.set(attribute, b"TRUE").unwrap();
            assert_eq!(*field(&mut policy), attribute != ALLOW_USER_CHANGE, "{attribute}");
        }
    }

    #[test]
    fn every_attribute_is_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/password-policies.md");
        let page = std::fs::read_to_string(page).unwrap();
        for attribute in PasswordPolicy::attributes().chain(WITHOUT_EFFECT) {
            assert!(page.contains(&format!("`{attribute}")), "{attribute}");
        }
    }

    /// An import can store invalid values. The policy then applies with corrected rules.
    #[test]
    fn corrects_invalid_rules_of_a_policy() {
        let mut policy = PasswordPolicy {
            check_quality: 7,
            min_classes: 9,
            in_history: 1_000,
            max_failure: 1_000,
            max_recorded_failure: 2_000,
            min_delay: 4,
            scram_iterations: 1,
            app_passwords: 1_000,
            max_age: 10,
            min_age: 20,
            expire_warning: 30,
            ..PasswordPolicy::default()
        };
        assert_eq!(policy.mend().len(), 10);
        assert_eq!((policy.check_quality, policy.min_classes, policy.in_history), (2, 4, 64));
        assert_eq!((policy.max_failure, policy.failure_count_max()), (100, 100));
        assert_eq!((policy.min_delay, policy.max_delay, policy.scram_iterations), (4, 4, 4_096));
        assert_eq!((policy.app_passwords, policy.max_age, policy.expire_warning), (64, 10, 30));
    }

    #[test]
    fn records_as_many_failures_as_the_longest_delay_needs() {
        let kept = |min_delay, max_delay, max_failure| {
            PasswordPolicy { min_delay, max_delay, max_failure, ..PasswordPolicy::default() }
                .failure_count_max()
        };
        assert_eq!([kept(0, 0, 0), kept(0, 0, 3)], [0, 3]);
        assert_eq!([kept(2, 2, 0), kept(2, 9, 0), kept(2, 9, 7), kept(1, 1 << 30, 0)], [1, 4, 7, 31]);
    }

    #[test]
    fn reports_rules_that_contradict_each_other() {
        let check = |values: &[(&str, &str)], part: &str| {
            let error = read(values).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(&[("pwdMinAge", "20"), ("pwdMaxAge", "10")], "less than pwdMinAge");
        check(&[("pwdExpireWarning", "10"), ("pwdMaxAge", "10")], "pwdExpireWarning");
        check(&[("pwdCheckQuality", "3")], "0, 1 or 2");
        check(&[("pwdMinLength", "9"), ("pwdMaxLength", "8")], "pwdMaxLength");
        check(&[("pwdMinDelay", "9")], "set both pwdMinDelay and pwdMaxDelay");
        check(&[("pwdMaxAge", "-1")], "from 0 to");
        check(&[("pwdMaxFailure", "101")], "at most 100");
        check(&[("pwdInHistory", "1000")], "at most");
        check(&[("pwdAttribute", "mail")], "only userPassword");
        check(&[("pandoPwdScheme", "rot13")], "unknown password storage scheme");
        check(&[("pandoPwdScramMechanism", "SCRAM-MD5")], "keys are made for");
        check(&[("pandoPwdScramIterations", "1")], "from 4096");
        check(&[("pandoPwdTotpWindow", "11")], "from 0 to 10");
        check(&[("pandoPwdTotpWindow", "-1")], "from 0 to 10");
        assert_eq!(read(&[]).unwrap().totp_window(), 1);
        assert_eq!(read(&[("pandoPwdTotpWindow", "0")]).unwrap().totp_window(), 0);
        let policy = read(&[
            ("pwdAttribute", "userPassword"),
            ("pwdMaxAge", "10"),
            ("pwdAllowUserChange", "FALSE"),
            ("pandoPwdScramMechanism", "scram-sha-256"),
        ]);
        let policy = policy.unwrap();
        assert!(policy.forbids_user_change && policy.max_age == 10);
        assert_eq!(policy.scram_mechanisms, ["SCRAM-SHA-256"]);
    }
}
