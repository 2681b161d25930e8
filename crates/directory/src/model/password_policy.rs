//! What password policies say (draft-behera-ldap-password-policy section 5.2), and which there are.
//!
//! A policy is an entry with the object class pwdPolicy. Where it says nothing of a rule, the rule is off. The
//! catalogue keeps all policies in memory, as [`PolicyTable`]: every bind asks for one.

use std::sync::Arc;

use super::limits::{
    APP_PASSWORDS_MAX, PASSWORD_FAILURES_MAX, PASSWORD_HISTORY_MAX, TOTP_WINDOW_MAX, TOTP_WINDOW_USUAL,
};
use super::rows::EntryId;
use super::sasl_mechanisms::{CRAM_MD5, DIGEST_MD5};
use super::storage_scheme::StorageScheme;

/// A password policy. Times are in seconds; 0 is always "no such rule".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PasswordPolicy {
    /// Age below which a user may not change the password again.
    pub min_age: u32,
    /// Age at which the password expires.
    pub max_age: u32,
    /// Former passwords that may not be used again.
    pub in_history: u32,
    /// 0: no look at new passwords. 1: they are looked at where they come in clear. 2: others are refused.
    pub check_quality: u32,
    /// Fewest characters.
    pub min_length: u32,
    /// Most characters.
    pub max_length: u32,
    /// Fewest kinds of characters: small and capital letters, digits, others.
    pub min_classes: u32,
    /// Time before expiry from which the user is warned.
    pub expire_warning: u32,
    /// Binds that an expired password is good for.
    pub grace_limit: u32,
    /// Time after expiry within which it is good for them.
    pub grace_expiry: u32,
    /// Time for which too many failures lock the account; 0: until an administrator unlocks it.
    pub lockout_duration: u32,
    /// Failures that lock the account.
    pub max_failure: u32,
    /// Time after which a failure is forgotten.
    pub failure_interval: u32,
    /// Failures that are kept on record; 0: as many as lock.
    pub max_recorded_failure: u32,
    /// Delay of the answer to the first failure; it doubles with each.
    pub min_delay: u32,
    /// Longest delay.
    pub max_delay: u32,
    /// Time without a bind after which the account is locked.
    pub max_idle: u32,
    /// Time within which a later bind is not recorded as the last again.
    pub last_success_precision: u32,
    /// Iterations of the SCRAM keys that are made.
    pub scram_iterations: u32,
    /// Whether failures lock at all.
    pub lockout: bool,
    /// Whether users have to change a password that somebody else set.
    pub must_change: bool,
    /// Whether users may not change their own passwords.
    pub forbids_user_change: bool,
    /// Whether the old password has to come with the new one.
    pub safe_modify: bool,
    /// Whether passwords on the server's lists of bad ones are refused.
    pub check_lists: bool,
    /// Whether the last bind is recorded.
    pub last_success: bool,
    /// Whether a bind is told that the account is locked. Others learn from that that it exists.
    pub tells_lock: bool,
    /// Whether users with a secret for time-based codes append a code to their password.
    pub totp: bool,
    /// Steps before and after the present one whose codes are good; `None` is the usual.
    pub totp_window: Option<u32>,
    /// Passwords of applications that a user may have.
    pub app_passwords: u32,
    /// How new passwords are stored, where it is not as the settings say.
    pub scheme: Option<StorageScheme>,
    /// SCRAM mechanisms, CRAM-MD5 and DIGEST-MD5, for which keys are made.
    pub scram_mechanisms: Vec<String>,
}

/// Attributes of OpenLDAP's policies that have no effect here: they name a library that checks passwords.
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

const SWITCHES: [SwitchField; 8] = [
    ("pwdLockout", |of| &mut of.lockout),
    ("pwdMustChange", |of| &mut of.must_change),
    (ALLOW_USER_CHANGE, |of| &mut of.forbids_user_change),
    ("pwdSafeModify", |of| &mut of.safe_modify),
    ("pandoPwdCheckLists", |of| &mut of.check_lists),
    ("pandoPwdLastSuccess", |of| &mut of.last_success),
    ("pandoPwdTellLock", |of| &mut of.tells_lock),
    ("pandoPwdTotp", |of| &mut of.totp),
];

/// The one switch that is on where nothing is said.
const ALLOW_USER_CHANGE: &str = "pwdAllowUserChange";
pub(crate) const PASSWORD_ATTRIBUTE: &str = "pwdAttribute";
const SCHEME: &str = "pandoPwdScheme";
const TOTP_WINDOW: &str = "pandoPwdTotpWindow";
const SCRAM_MECHANISM: &str = "pandoPwdScramMechanism";

/// Mechanisms for which keys can be made.
pub(crate) const SCRAM_MECHANISMS: [&str; 5] =
    ["SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", CRAM_MD5, DIGEST_MD5];

/// Iterations of SCRAM keys where a policy says nothing, and the fewest and most that it may say (RFC 7677 section 4).
pub(crate) const SCRAM_ITERATIONS: (u32, u32, u32) = (4_096, 4_096, 1_000_000);

impl PasswordPolicy {
    /// The attribute types that a policy is made of.
    pub fn attributes() -> impl Iterator<Item = &'static str> {
        let numbers = NUMBERS.iter().map(|(name, _)| *name);
        let switches = SWITCHES.iter().map(|(name, _)| *name);
        numbers.chain(switches).chain([PASSWORD_ATTRIBUTE, SCHEME, SCRAM_MECHANISM, TOTP_WINDOW])
    }

    /// Takes a value of one of these [`attributes`](PasswordPolicy::attributes) over.
    ///
    /// # Errors
    /// What is wrong with it.
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
                format!("{attribute} takes a number from 0 to {TOTP_WINDOW_MAX}: each step is a code more")
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
            return Err(format!("{attribute}: there are policies for userPassword only"));
        }
        Ok(())
    }

    /// What rules of the policy have against each other (draft section 5.2).
    ///
    /// # Errors
    /// The first of them.
    pub fn check(&self) -> Result<(), String> {
        match self.clone().mend().into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Makes the policy hold as far as it can, whatever an import brings, and says what is wrong with it.
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
            "pwdExpireWarning has to be less than pwdMaxAge",
        );
        fault(
            self.max_length != 0 && self.max_length < self.min_length,
            "pwdMaxLength is less than pwdMinLength",
        );
        if fault(
            (self.min_delay == 0) != (self.max_delay == 0) || self.max_delay < self.min_delay,
            "pwdMinDelay and pwdMaxDelay come together, the longer one as pwdMaxDelay",
        ) {
            self.max_delay = self.max_delay.max(self.min_delay);
        }
        let failures_max = u32::try_from(PASSWORD_FAILURES_MAX).unwrap_or(u32::MAX);
        let (_, least, most) = SCRAM_ITERATIONS;
        let iterations = self.scram_iterations;
        for (value, max, text) in [
            (&mut self.check_quality, 2, "pwdCheckQuality is 0, 1 or 2".to_owned()),
            (
                &mut self.min_classes,
                4,
                "pandoPwdMinClasses is at most 4: small and capital letters, digits, others".to_owned(),
            ),
            (
                &mut self.in_history,
                PASSWORD_HISTORY_MAX,
                format!(
                    "pwdInHistory is at most {PASSWORD_HISTORY_MAX}: each is verified when the password changes"
                ),
            ),
            (
                &mut self.max_failure,
                failures_max,
                format!("pwdMaxFailure is at most {failures_max}: so many are kept on record"),
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

    /// Whether binds are recorded.
    pub fn records_success(&self) -> bool {
        self.last_success || self.max_idle > 0
    }

    /// Steps before and after the present one whose codes are good.
    pub fn totp_window(&self) -> u32 {
        self.totp_window.unwrap_or(TOTP_WINDOW_USUAL)
    }

    /// Iterations of the SCRAM keys that are made.
    pub fn scram_iterations(&self) -> u32 {
        if self.scram_iterations == 0 { SCRAM_ITERATIONS.0 } else { self.scram_iterations }
    }

    /// Whether stored passwords are made stronger.
    pub fn rehashes(&self) -> bool {
        self.scheme.is_some()
    }

    /// Failures that are kept on record.
    pub fn failures_kept(&self) -> usize {
        let kept = self.max_recorded_failure.max(self.max_failure).max(self.delayed_failures());
        usize::try_from(kept).unwrap_or(usize::MAX).min(PASSWORD_FAILURES_MAX)
    }

    /// Failures after which the delay of the answer is the longest: it is reckoned from those on record.
    fn delayed_failures(&self) -> u32 {
        if self.min_delay == 0 {
            return 0;
        }
        self.max_delay.div_ceil(self.min_delay).max(1).next_power_of_two().trailing_zeros() + 1
    }
}

/// A policy and where it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PolicyEntry {
    /// The entry that says it.
    pub id: EntryId,
    /// Where it holds as a subentry; `None` where only entries that name it go by it.
    pub area: Option<PolicyArea>,
    /// What it says.
    pub policy: Arc<PasswordPolicy>,
}

/// The subtree of a subentry (RFC 3672 section 2.1), as far as base and depths make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PolicyArea {
    /// Its root.
    pub base: EntryId,
    /// Levels below the root at which it begins.
    pub minimum: usize,
    /// Levels below the root at which it ends.
    pub maximum: Option<usize>,
}

/// All policies of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyTable {
    /// Every entry that is one.
    pub entries: Vec<PolicyEntry>,
    /// The one that the settings name for all others.
    pub default: Option<EntryId>,
    /// Why the one that the settings name does not hold.
    pub default_fault: Option<String>,
    /// What does not hold of policies as it is written, with their names; at most
    /// [`POLICY_NOTICES_MAX`](super::limits::POLICY_NOTICES_MAX).
    pub notices: Vec<String>,
}

impl PolicyTable {
    /// The policy that an entry says.
    pub(crate) fn of(&self, id: EntryId) -> Option<&Arc<PasswordPolicy>> {
        self.entries.iter().find(|entry| entry.id == id).map(|entry| &entry.policy)
    }

    /// Everything that does not hold as it is written, that of the settings first.
    pub(crate) fn all_notices(&self) -> Vec<String> {
        self.default_fault.iter().chain(&self.notices).cloned().collect()
    }

    /// Whether any policy is a subentry.
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
    fn every_attribute_is_defined_and_sets_something() {
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
    fn every_attribute_is_explained() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/password-policies.md");
        let page = std::fs::read_to_string(page).unwrap();
        for attribute in PasswordPolicy::attributes().chain(WITHOUT_EFFECT) {
            assert!(page.contains(&format!("`{attribute}")), "{attribute}");
        }
    }

    /// An import brings any: what holds of it then.
    #[test]
    fn a_policy_with_faults_holds_as_far_as_it_can() {
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
        assert_eq!((policy.max_failure, policy.failures_kept()), (100, 100));
        assert_eq!((policy.min_delay, policy.max_delay, policy.scram_iterations), (4, 4, 4_096));
        assert_eq!((policy.app_passwords, policy.max_age, policy.expire_warning), (64, 10, 30));
    }

    #[test]
    fn failures_are_kept_for_as_long_as_the_delay_grows() {
        let kept = |min_delay, max_delay, max_failure| {
            PasswordPolicy { min_delay, max_delay, max_failure, ..PasswordPolicy::default() }.failures_kept()
        };
        assert_eq!([kept(0, 0, 0), kept(0, 0, 3)], [0, 3]);
        assert_eq!([kept(2, 2, 0), kept(2, 9, 0), kept(2, 9, 7), kept(1, 1 << 30, 0)], [1, 4, 7, 31]);
    }

    #[test]
    fn rules_that_contradict_each_other_are_told() {
        let check = |values: &[(&str, &str)], part: &str| {
            let error = read(values).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(&[("pwdMinAge", "20"), ("pwdMaxAge", "10")], "less than pwdMinAge");
        check(&[("pwdExpireWarning", "10"), ("pwdMaxAge", "10")], "pwdExpireWarning");
        check(&[("pwdCheckQuality", "3")], "0, 1 or 2");
        check(&[("pwdMinLength", "9"), ("pwdMaxLength", "8")], "pwdMaxLength");
        check(&[("pwdMinDelay", "9")], "come together");
        check(&[("pwdMaxAge", "-1")], "from 0 to");
        check(&[("pwdMaxFailure", "101")], "at most 100");
        check(&[("pwdInHistory", "1000")], "at most");
        check(&[("pwdAttribute", "mail")], "userPassword only");
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
