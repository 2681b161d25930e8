//! Checks of new passwords against the policy of their entry, and the attributes that record a change of the password
//! (draft-behera-ldap-password-policy section 8.2).
//!
//! The rules for quality and history apply to every requester, including the administrator: a policy must also cover
//! passwords that a help desk or an identity manager sets. The rules for age, the old password and the right to change
//! apply only to the user.
//!
//! The hash pool compares the new password with the stored forms of former passwords before the writer executes the
//! request, because the comparison is slow. If another change has added a stored form since, the request is refused
//! with busy. A new password that was sent hashed is compared by its octets.

use ldap::{PolicyError, ResultCode};
use schema::AttributeDescription;

use crate::access::Requester;
use crate::accounts::{
    self, AUTH_PASSWORD, CHANGED_TIME, END_TIME, FAILURE_TIME, GRACE_USE_TIME, HISTORY, LAST_SUCCESS,
    LOCKED_TIME, POLICY_SUBENTRY, RESET, SCRAM_KEYS, description, history_value, stored_in_history,
    time_in_history, time_text,
};
use crate::catalog::{Catalog, ClassSet, USER_PASSWORD};
use crate::model::client_link::BindMethod;
use crate::model::outcome::OperationError;
use crate::model::password_kind::{PasswordKind, names_application};
use crate::model::password_policy::PasswordPolicy;
use crate::model::record::Value;
use crate::model::rows::EntryId;
use crate::model::value_list::{KeyedValue, ValueList};
use crate::password::app_password::is_fit;
use crate::password::{clear_of, is_hashed};
use crate::write::deciding::Deciding;
use crate::write::new_entry::NewEntry;
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

/// Effect of a request on the entry's own password.
#[derive(Clone, Copy)]
pub(crate) struct OwnPasswordChange<'p> {
    /// Passwords before the change.
    pub(crate) before: &'p [Vec<u8>],
    /// Whether the request proves knowledge of one of the passwords before the change.
    pub(crate) with_old: bool,
    /// Whether the request only adds passwords.
    pub(crate) only_adds: bool,
}

/// Checks a new password of an existing entry, and records the change of the password.
pub(crate) fn changed(
    deciding: &Deciding<'_>,
    entry: &mut WorkingEntry<'_>,
    id: EntryId,
    change: OwnPasswordChange<'_>,
) -> Result<()> {
    let Deciding { state, context, .. } = *deciding;
    let OwnPasswordChange { before, with_old, only_adds } = change;
    let catalog = state.catalog;
    let passwords = passwords(entry, catalog)?;
    let is_own = matches!(context.requester, Requester::User { id: own, .. } if *own == id);
    let by_mail = context.link.is_some_and(|link| link.method == Some(BindMethod::MailToken));
    if passwords != before {
        change_scram_keys(deciding, entry, &passwords)?;
    }
    if passwords != before || passwords.is_empty() {
        remove_other_passwords(entry, catalog, !is_own && !only_adds)?;
    }
    let now = deciding.now();
    let account = accounts::governed_account(state, id)?;
    if by_mail && !(is_own && account.as_ref().is_some_and(|account| account.may_be_reset_by_mail(now))) {
        return Err(PolicyError::ModificationNotAllowed.into());
    }
    let Some(account) = account else { return Ok(()) };
    let policy = &*account.policy;
    if is_own && let Some(error) = account.change_refused(now, !before.is_empty(), with_old || by_mail) {
        return Err(error.into());
    }
    let new: Vec<&Vec<u8>> = passwords.iter().filter(|value| !before.contains(value)).collect();
    if !new.is_empty() {
        check_new(deciding, policy, &passwords, &new)?;
    }
    let mut history = entry.values(&description(catalog, HISTORY)?)?;
    if policy.in_history > 0 && !new.is_empty() {
        check_history(deciding, &history, before, &new)?;
    }
    // Sort, so that the oldest value is dropped first even if the clock was set back.
    history.sort_by_key(|value| time_in_history(value));
    let last = history.last().and_then(|value| time_in_history(value));
    let removed_at = last.map_or(now, |last| now.max(last.saturating_add(1)));
    let removed = before.iter().filter(|value| !passwords.contains(value));
    history.extend(removed.map(|stored| history_value(removed_at, stored)));
    let history_len = usize::try_from(policy.in_history).unwrap_or(usize::MAX);
    let from = history.len().saturating_sub(history_len);
    entry.set_all_by_server(&description(catalog, HISTORY)?, history.into_iter().skip(from))?;
    entry.set_by_server(&description(catalog, CHANGED_TIME)?, time_text(now, false).into_bytes())?;
    let reset = description(catalog, RESET)?;
    // If the request itself sets the attribute, its values are kept.
    if !entry.has_touched(reset.type_id) {
        let is_reset = policy.must_change && !is_own && !passwords.is_empty();
        entry.set_all_by_server(&reset, is_reset.then(|| b"TRUE".to_vec()))?;
    }
    for name in [FAILURE_TIME, GRACE_USE_TIME, LAST_SUCCESS, LOCKED_TIME] {
        let known = description(catalog, name)?;
        // After a reset by mail, a lock by wrong passwords ends, because the user has proved access to the mail
        // address.
        let keeps_lock = is_own && !by_mail;
        if !(name == LOCKED_TIME && (keeps_lock || entry.has_touched(known.type_id))) {
            entry.clear(&known)?;
        }
    }
    Ok(())
}

/// Removes values of userPassword with options. Values that permit no bind are always removed. A reset also removes
/// application passwords, because other persons may know these passwords. If the request itself sets an application
/// password, this password stays.
fn remove_other_passwords(entry: &mut WorkingEntry<'_>, catalog: &Catalog, is_reset: bool) -> Result<()> {
    let password = description(catalog, USER_PASSWORD)?;
    for other in entry.attributes_of_type(password.type_id) {
        match PasswordKind::of(&other.options) {
            PasswordKind::Unusable => entry.clear(&other)?,
            PasswordKind::Application if is_reset && !entry.has_touched_attribute(&other) => {
                entry.clear(&other)?;
                for name in [END_TIME, LAST_SUCCESS] {
                    let of_app = AttributeDescription {
                        options: other.options.clone(),
                        ..description(catalog, name)?
                    };
                    entry.clear(&of_app)?;
                }
            }
            PasswordKind::Own | PasswordKind::Application => {}
        }
    }
    Ok(())
}

/// Checks that new passwords differ from former passwords (draft section 8.2.6). A password that was sent hashed is
/// compared by its octets only. pwdCheckQuality determines whether the server accepts hashed passwords.
fn check_history(
    deciding: &Deciding<'_>,
    history: &[Vec<u8>],
    before: &[Vec<u8>],
    new: &[&Vec<u8>],
) -> Result<()> {
    let verified = &deciding.stamp.history;
    let former = history.iter().filter_map(|value| stored_in_history(value));
    let forms: Vec<&[u8]> = former.chain(before.iter().map(Vec::as_slice)).collect();
    if new.iter().any(|new| forms.contains(&new.as_slice())) {
        return Err(PolicyError::InHistory.into());
    }
    if new.iter().all(|stored| clear_text(deciding, stored).is_none()) {
        return Ok(());
    }
    if forms.iter().any(|form| !verified.forms.iter().any(|verified| verified == form)) {
        let text = "the password was changed by another request at the same time: try again";
        return Err(OperationError::refused(ResultCode::BUSY, text));
    }
    if forms.iter().any(|form| verified.matching.iter().any(|matching| matching == form)) {
        return Err(PolicyError::InHistory.into());
    }
    Ok(())
}

/// Returns the clear password of a stored form; `None` if the client sent the password hashed.
fn clear_text<'a>(deciding: &'a Deciding<'_>, stored: &'a [u8]) -> Option<&'a [u8]> {
    match deciding.stamp.hashed_passwords.iter().find(|(_, form)| form == stored) {
        Some((clear, _)) => Some(clear),
        None if is_hashed(stored) => None,
        None => Some(stored),
    }
}

/// Removes the SCRAM keys of the old password, and stores the keys that were computed for the new password.
fn change_scram_keys(
    deciding: &Deciding<'_>,
    entry: &mut WorkingEntry<'_>,
    passwords: &[Vec<u8>],
) -> Result<()> {
    let catalog = deciding.state.catalog;
    let keys: Vec<Vec<u8>> = new_scram_keys(deciding, passwords).collect();
    entry.set_all_by_server(&description(catalog, SCRAM_KEYS)?, keys)?;
    let imported = description(catalog, AUTH_PASSWORD)?;
    // If the request itself sets the keys, they are kept.
    if !entry.has_touched(imported.type_id) {
        let values = entry.values(&imported)?;
        if values.iter().any(|value| accounts::is_scram(value)) {
            let others = values.into_iter().filter(|value| !accounts::is_scram(value));
            entry.set_all_by_server(&imported, others)?;
        }
    }
    Ok(())
}

/// Returns the SASL keys that were computed for the clear passwords of these stored forms.
fn new_scram_keys<'a>(
    deciding: &'a Deciding<'_>,
    passwords: &'a [Vec<u8>],
) -> impl Iterator<Item = Vec<u8>> + 'a {
    let stamp = deciding.stamp;
    let clear = passwords.iter().filter_map(|stored| {
        let hashed = stamp.hashed_passwords.iter().find(|(_, form)| form == stored);
        hashed.map(|(clear, _)| clear)
    });
    let keys = clear.filter_map(|clear| stamp.scram_keys.iter().find(|(of, _)| of == clear));
    keys.flat_map(|(_, keys)| keys.iter().map(|key| key.clone().into_bytes()))
}

/// Clears the failures of an account when a request removes its lock, as OpenLDAP does. Otherwise the failures would
/// lock the account again.
pub(crate) fn unlocked(entry: &mut WorkingEntry<'_>, catalog: &Catalog) -> Result<()> {
    let locked = description(catalog, LOCKED_TIME)?;
    if entry.has_touched(locked.type_id) && entry.value_count(&locked)? == 0 {
        entry.clear(&description(catalog, FAILURE_TIME)?)?;
    }
    Ok(())
}

/// Checks the passwords of an added entry against its policy, and sets the attributes that record its own password.
/// `parent` is the entry's superior.
pub(crate) fn added(deciding: &Deciding<'_>, entry: &mut NewEntry<'_>, parent: EntryId) -> Result<()> {
    let Deciding { state, .. } = *deciding;
    let catalog = state.catalog;
    let own = description(catalog, USER_PASSWORD)?;
    let passwords: Vec<Vec<u8>> = entry.values(&own).map(<[u8]>::to_vec).collect();
    let of_apps = entry.attributes_of_type(own.type_id).filter(|of| names_application(&of.options));
    let of_apps: Vec<Vec<u8>> = of_apps.flat_map(|of| entry.values(of)).map(<[u8]>::to_vec).collect();
    if passwords.is_empty() && of_apps.is_empty() {
        return Ok(());
    }
    let named = description(catalog, POLICY_SUBENTRY)?;
    let named = entry.values(&named).next().map(<[u8]>::to_vec);
    let policy = accounts::policy_of_new(state, parent, named.as_deref())?;
    if !of_apps.is_empty() {
        check_forms_of_apps(policy.as_ref().map_or(0, |policy| policy.app_passwords), &of_apps)?;
    }
    let Some(policy) = policy.filter(|_| !passwords.is_empty()) else { return Ok(()) };
    check_new(deciding, &policy, &passwords, &passwords.iter().collect::<Vec<_>>())?;
    let mut list = ValueList::default();
    for key in new_scram_keys(deciding, &passwords) {
        list.insert(KeyedValue { key: key.clone(), value: Value::Bytes(key) });
    }
    if list.len() > 0 {
        entry.add_all(description(catalog, SCRAM_KEYS)?, list);
    }
    let now = deciding.now();
    entry.set(description(catalog, CHANGED_TIME)?, time_text(now, false).into_bytes());
    let reset = description(catalog, RESET)?;
    if policy.must_change && !entry.has(&reset) {
        entry.set(reset, b"TRUE".to_vec());
    }
    Ok(())
}

/// Checks all application passwords of an entry, if the change adds application passwords
/// (`docs/how-to/password-policies.md`).
pub(crate) fn check_app_passwords(
    deciding: &Deciding<'_>,
    entry: &mut WorkingEntry<'_>,
    id: EntryId,
) -> Result<()> {
    let Deciding { state, context, .. } = *deciding;
    if matches!(context.requester, Requester::User { id: own, .. } if *own == id) {
        let text = "another user must set application passwords: they permit binds without the own password and \
         its code";
        return Err(crate::access::denied(text));
    }
    let allowed = accounts::governed_account(state, id)?.map_or(0, |account| account.policy.app_passwords);
    let mut stored = Vec::new();
    let type_id = description(state.catalog, USER_PASSWORD)?.type_id;
    let of_apps = entry.attributes_of_type(type_id).into_iter().filter(|of| names_application(&of.options));
    for of_app in of_apps {
        stored.append(&mut entry.values(&of_app)?);
    }
    check_forms_of_apps(allowed, &stored)
}

/// Checks the number and the stored forms of the application passwords of an entry.
fn check_forms_of_apps(allowed: u32, stored: &[Vec<u8>]) -> Result<()> {
    let refused = |text: &str| Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text));
    if allowed == 0 {
        return refused("no password policy allows application passwords here: pandoPwdAppPasswords");
    }
    if !stored.iter().all(|stored| is_fit(stored)) {
        return refused(
            "an application password must be stored as {SSHA512}, as `pando account app-add` does",
        );
    }
    if u32::try_from(stored.len()).unwrap_or(u32::MAX) > allowed {
        return refused("the password policy allows no more application passwords: pandoPwdAppPasswords");
    }
    Ok(())
}

/// Returns the entry's own passwords: the values of userPassword without options.
pub(crate) fn passwords(entry: &mut WorkingEntry<'_>, catalog: &Catalog) -> Result<Vec<Vec<u8>>> {
    entry.values(&description(catalog, USER_PASSWORD)?)
}

/// Checks the quality of new passwords, and that the entry has only one password (draft section 8).
fn check_new(
    deciding: &Deciding<'_>,
    policy: &PasswordPolicy,
    all: &[Vec<u8>],
    new: &[&Vec<u8>],
) -> Result<()> {
    if all.len() > 1 {
        let text = "a password policy allows one password: replace the one that is there";
        return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text));
    }
    for stored in new {
        let clear = clear_text(deciding, stored);
        // The quality check ignores the scheme prefix.
        if let Some(error) = policy.quality(clear.map(clear_of)) {
            return Err(error.into());
        }
        let is_listed = |clear: &[u8]| deciding.stamp.listed_passwords.iter().any(|listed| listed == clear);
        if policy.check_lists && clear.is_some_and(is_listed) {
            let (code, error) = (ResultCode::CONSTRAINT_VIOLATION, PolicyError::InsufficientQuality);
            let diagnostic = "the password is on a list of passwords that attackers try first".to_owned();
            return Err(OperationError::Refused { code, diagnostic, policy: Some(error) });
        }
    }
    Ok(())
}

/// Checks that the rules of a password policy entry are valid and do not contradict each other, and that the subtree of
/// a policy subentry has only a base and depths. Accepts all other entries.
pub(crate) fn check_policy_entry(
    catalog: &Catalog,
    class_set: &ClassSet,
    mut values: impl FnMut(&AttributeDescription) -> Result<Vec<Vec<u8>>>,
) -> Result<()> {
    if !accounts::is_policy(catalog, &class_set.closure) {
        return Ok(());
    }
    let wrong = |text: String| OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text);
    let mut policy = PasswordPolicy::default();
    for name in PasswordPolicy::attributes() {
        for value in values(&description(catalog, name)?)? {
            policy.set(name, &value).map_err(wrong)?;
        }
    }
    policy.check().map_err(wrong)?;
    let specification = values(&description(catalog, "subtreeSpecification")?)?;
    if class_set.flags.is_subentry()
        && let Some(value) = specification.first()
        && schema::SubtreeSpecification::parse(value).is_none_or(|subtree| !subtree.is_plain())
    {
        let text = "subtreeSpecification of a password policy can have only base, minimum and maximum";
        return Err(wrong(text.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
