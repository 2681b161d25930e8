//! Records of binds and of password compares (draft-behera-ldap-password-policy section 8.1). The writer builds such a
//! record like the record of any change, from the entry's present state.
//!
//! As in OpenLDAP, an update does not change modifyTimestamp, modifiersName and entryCSN, because the user changed
//! nothing.

use ldap::ResultCode;
use schema::{AttributeDescription, generalized_micros};

use crate::access::Requester;
use crate::accounts::{
    self, FAILURE_TIME, GRACE_USE_TIME, LAST_SUCCESS, LOCKED_TIME, SCRAM_KEYS, TOTP_LAST_STEP, description,
    distinct_time, time_text,
};
use crate::catalog::{Allocations, Catalog, USER_PASSWORD};
use crate::model::csn::Csn;
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Modify, Record};
use crate::model::rows::EntryId;
use crate::model::stamp::Stamp;
use crate::password::policy::{Account, Lock};
use crate::read::controls::RequestControls;
use crate::tree::{TreeState, damaged_row};
use crate::write::deciding::Deciding;
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

/// Events of one entry's password that are not recorded yet. Times are microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    /// Distinct times of failed attempts, in the order in which they occurred.
    pub failures: Vec<i64>,
    /// Time of the last success, if the policy requires its recording.
    pub success: Option<i64>,
    /// Whether a success clears the failures recorded before it.
    pub clears_failures: bool,
    /// Time of a grace login with an expired password.
    pub grace: Option<i64>,
    /// Uses of application passwords. Each use consists of the attribute options that name the application, and the
    /// time of the use.
    pub app_uses: Vec<(String, i64)>,
    /// Time step of a time-based code that was used.
    pub totp_step: Option<i64>,
    /// Stored form of the password that a successful bind verified, and the keys for SCRAM, CRAM-MD5 and DIGEST-MD5
    /// that were derived from the same password.
    pub keys: Option<(Vec<u8>, Vec<String>)>,
    /// Stored form of a password that a successful bind verified, and a stronger form that replaces it.
    pub rehashed: Option<(Vec<u8>, Vec<u8>)>,
}

/// Requester of changes that the server makes on its own.
static SERVER: Requester = Requester::Anonymous;

/// Returns the record of an update. Returns `None` if there is nothing to record, if the entry no longer exists, or if
/// no policy governs the entry.
///
/// # Errors
/// invalidCredentials if another bind has used the last grace login or the time-based code; or the store failed.
pub(crate) fn decide(
    state: TreeState<'_>,
    id: EntryId,
    update: &AccountUpdate,
    stamp: &Stamp,
    csn: Csn,
) -> Result<Option<Record>> {
    // The entry may have been deleted since the bind.
    if state.node(id)?.is_none() {
        return Ok(None);
    }
    let Some(account) = accounts::governed_account(state, id)? else { return Ok(None) };
    let (context, controls) = (SERVER.context(), RequestControls::default());
    let deciding = Deciding { state, context: &context, controls: &controls, stamp, csn };
    let mut entry = WorkingEntry::of(state, id)?;
    let catalog = state.catalog;
    if update.clears_failures || !update.failures.is_empty() {
        record_failures(&mut entry, catalog, &account, update)?;
    }
    if let Some(grace) = update.grace {
        let known = description(catalog, GRACE_USE_TIME)?;
        let mut uses = entry.values(&known)?;
        if u32::try_from(uses.len()).unwrap_or(u32::MAX) >= account.policy.grace_limit {
            return Err(OperationError::refused(ResultCode::INVALID_CREDENTIALS, ""));
        }
        let is_used = |time| uses.iter().any(|used| generalized_micros(used) == Some(time));
        uses.push(time_text(distinct_time(grace, is_used), true).into_bytes());
        entry.set_all_by_server(&known, uses)?;
    }
    if let Some(step) = update.totp_step {
        let last = account.totp.as_ref().and_then(|totp| totp.last_step);
        if last.is_some_and(|last| step <= last) {
            return Err(OperationError::refused(ResultCode::INVALID_CREDENTIALS, ""));
        }
        entry.set_by_server(&description(catalog, TOTP_LAST_STEP)?, step.to_string().into_bytes())?;
    }
    for (options, time) in &update.app_uses {
        let of_app = |name| description(catalog, name).map(|known| with_options(known, options));
        if !entry.values(&of_app(USER_PASSWORD)?)?.is_empty() {
            entry.set_by_server(&of_app(LAST_SUCCESS)?, time_text(*time, false).into_bytes())?;
        }
    }
    if let Some(success) = update.success {
        entry.set_by_server(&description(catalog, LAST_SUCCESS)?, time_text(success, false).into_bytes())?;
    }
    if let Some((verified, keys)) = &update.keys {
        let passwords = entry.values(&description(catalog, USER_PASSWORD)?)?;
        // Keys of a former password would permit binds with that password.
        if passwords.iter().any(|stored| stored == verified) {
            let known = description(catalog, SCRAM_KEYS)?;
            let mut all = entry.values(&known)?;
            let scheme = |key: &[u8]| key.split(|octet| *octet == b'$').next().map(<[u8]>::to_vec);
            all.retain(|old| keys.iter().all(|new| scheme(new.as_bytes()) != scheme(old)));
            all.extend(keys.iter().map(|key| key.clone().into_bytes()));
            entry.set_all_by_server(&known, all)?;
        }
    }
    if let Some((old, new)) = &update.rehashed {
        let known = description(catalog, USER_PASSWORD)?;
        let mut passwords = entry.values(&known)?;
        if let Some(stored) = passwords.iter_mut().find(|stored| *stored == old) {
            stored.clone_from(new);
            entry.set_all_by_server(&known, passwords)?;
        }
    }
    if !entry.is_changed() {
        return Ok(None);
    }
    let node = state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
    let (class_set, flags) = (node.class_set, node.flags);
    let dn = state.dn(id)?.ok_or_else(|| damaged_row("nodes", id))?;
    let mut allocations = Allocations::new(catalog);
    let changes = entry.changes(&mut allocations);
    let modify = Modify { id, dn, class_set, flags, changes };
    Ok(Some(deciding.record(allocations, Change::Modify(modify))))
}

/// Updates the recorded failures, and sets or removes the lock that follows from them.
fn record_failures(
    entry: &mut WorkingEntry<'_>,
    catalog: &Catalog,
    account: &Account,
    update: &AccountUpdate,
) -> Result<()> {
    let mut after = account.clone();
    after.apply_attempts(update.clears_failures, &update.failures);
    if after.failures != account.failures || update.clears_failures {
        let kept = after.failures.iter().map(|time| time_text(*time, true).into_bytes());
        entry.set_all_by_server(&description(catalog, FAILURE_TIME)?, kept)?;
    }
    let known = description(catalog, LOCKED_TIME)?;
    match after.locked {
        _ if after.locked == account.locked => Ok(()),
        Some(Lock::Since(since)) => entry.set_by_server(&known, time_text(since, false).into_bytes()),
        Some(Lock::Permanent) => Ok(()),
        None => entry.clear(&known),
    }
}

fn with_options(known: AttributeDescription, options: &str) -> AttributeDescription {
    AttributeDescription { options: options.into(), ..known }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use ldap::ChangeOperation;

    use super::*;
    use crate::model::settings::GeneralSettings;
    use crate::testing::{SUFFIX, TestDirectory};

    pub(super) const POLICY: &str = "cn=policy,dc=example,dc=com";
    pub(super) const ADA: &str = "cn=ada,dc=example,dc=com";
    const KEYS: &str = "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA";

    pub(super) fn sample(policy: &[(&str, &[&str])]) -> (TestDirectory, EntryId) {
        let general = GeneralSettings { password_policy: POLICY.to_owned(), ..GeneralSettings::default() };
        let mut directory = TestDirectory::with_settings(general);
        directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
        let fixed: &[(&str, &[&str])] =
            &[("objectClass", &["device", "pandoPwdPolicy"]), ("pwdAttribute", &["userPassword"])];
        assert_eq!(directory.add(POLICY, &[fixed, policy].concat()).code, ResultCode::SUCCESS);
        let ada: &[(&str, &[&str])] =
            &[("objectClass", &["person"]), ("sn", &["x"]), ("userPassword", &["{SSHA}one"])];
        assert_eq!(directory.add(ADA, ada).code, ResultCode::SUCCESS);
        let name = crate::name::NormalName::of(
            &crate::name::parse_dn(ADA).unwrap(),
            &directory.snapshot.state().catalog.schema,
        );
        let id = directory.snapshot.state().entry_of(&name).unwrap().unwrap();
        (directory, id)
    }

    fn record(directory: &mut TestDirectory, id: EntryId, update: &AccountUpdate) -> ResultCode {
        let stamp = directory.stamp();
        let mut batch = directory.writer.begin().unwrap();
        let outcome = batch.update_account(id, update, &stamp);
        batch.commit().unwrap();
        directory.snapshot.renew().unwrap();
        outcome.code
    }

    /// Regression: the password may change between its verification and the recording of its keys.
    #[test]
    fn stores_keys_and_forms_only_of_the_present_password() {
        let (mut directory, id) = sample(&[]);
        let made = |of: &str| AccountUpdate {
            rehashed: Some((of.as_bytes().to_vec(), b"{SSHA512}stronger".to_vec())),
            keys: Some((of.as_bytes().to_vec(), vec![KEYS.to_owned()])),
            ..AccountUpdate::default()
        };
        let before = directory.read(ADA).unwrap();
        assert_eq!(record(&mut directory, id, &made("{SSHA}other")), ResultCode::SUCCESS);
        assert_eq!(directory.read(ADA).unwrap(), before);
        record(&mut directory, id, &made("{SSHA}one"));
        let after = directory.read(ADA).unwrap();
        assert_eq!(after.texts("userPassword"), ["{SSHA512}stronger"]);
        assert_eq!(after.texts("pandoScramKeys"), [KEYS]);
        for kept in ["modifyTimestamp", "entryCSN", "pwdChangedTime"] {
            assert_eq!(before.texts(kept), after.texts(kept), "{kept}");
        }
        // A new password also replaces the keys.
        let set: &[(_, &str, &[&str])] = &[(ChangeOperation::Replace, "userPassword", &["{SSHA}two"])];
        assert_eq!(directory.modify(ADA, set).code, ResultCode::SUCCESS);
        assert!(directory.read(ADA).unwrap().texts("pandoScramKeys").is_empty());
    }

    #[test]
    fn failures_lock_according_to_the_time_of_the_update() {
        let lockout: &[(&str, &[&str])] = &[
            ("pwdLockout", &["TRUE"]),
            ("pwdMaxFailure", &["3"]),
            ("pwdFailureCountInterval", &["100"]),
            ("pwdLockoutDuration", &["60"]),
        ];
        let (mut directory, id) = sample(lockout);
        let second = |second: i64| second * 1_000_000;
        let fail = |directory: &mut TestDirectory, seconds: &[i64]| {
            let failures = seconds.iter().map(|at| second(*at)).collect();
            record(directory, id, &AccountUpdate { failures, ..AccountUpdate::default() });
            directory.read(ADA).unwrap().texts("pwdAccountLockedTime")
        };
        // The first two failures no longer count at the time of the next two.
        assert!(fail(&mut directory, &[1_000, 1_001]).is_empty());
        assert!(fail(&mut directory, &[1_101, 1_102]).is_empty());
        assert_eq!(fail(&mut directory, &[1_103]), ["19700101001823Z"]);
        let account =
            |directory: &TestDirectory| accounts::account(directory.snapshot.state(), id).unwrap().unwrap();
        assert!(
            account(&directory).is_locked(second(1_162)) && !account(&directory).is_locked(second(1_163))
        );
        // A success clears the failures.
        let success = AccountUpdate { clears_failures: true, ..AccountUpdate::default() };
        record(&mut directory, id, &success);
        assert!(directory.read(ADA).unwrap().texts("pwdFailureTime").is_empty());
        assert!(!account(&directory).is_locked(second(1_104)));
    }

    /// Two binds use the last grace login, or the same code: only one succeeds.
    #[test]
    fn accepts_a_grace_login_and_a_code_only_once() {
        let (mut directory, id) = sample(&[("pwdGraceAuthNLimit", &["1"]), ("pandoPwdTotp", &["TRUE"])]);
        let secret: &[(_, &str, &[&str])] =
            &[(ChangeOperation::Replace, "pandoTotpSecret", &["GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"])];
        assert_eq!(directory.modify(ADA, secret).code, ResultCode::SUCCESS);
        let grace = |at| AccountUpdate { grace: Some(at), ..AccountUpdate::default() };
        let code = |step| AccountUpdate { totp_step: Some(step), ..AccountUpdate::default() };
        for (update, expected) in [
            (grace(1_000_000), ResultCode::SUCCESS),
            (grace(2_000_000), ResultCode::INVALID_CREDENTIALS),
            (code(7), ResultCode::SUCCESS),
            (code(7), ResultCode::INVALID_CREDENTIALS),
            (code(6), ResultCode::INVALID_CREDENTIALS),
            (code(8), ResultCode::SUCCESS),
        ] {
            assert_eq!(record(&mut directory, id, &update), expected, "{update:?}");
        }
    }
}
