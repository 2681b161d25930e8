//! Accounts whose password may be reset by mail: the server sends a link to the mail address of the account.
//!
//! The password policy of the account must permit the reset (`pandoPwdResetByMail`). The administrator's entry and
//! accounts that may read `cn=monitor` or the audit trail are excluded, because access to a mailbox is too weak a proof
//! of identity for these accounts. Accounts without a password in this directory are excluded too: another system
//! stores their password, or they authenticate by other means.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::access::Requester;
use crate::accounts;
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::EntryId;
use crate::model::usable::Uses;
use crate::model::virtual_entries::READ_AUDIT;
use crate::password::Verification;
use crate::read::bind::stored_passwords;
use crate::read::identity::{identify, identify_by};
use crate::snapshot::Snapshot;
use crate::tree::stored_values::values_of_type;
use crate::tree::{TreeState, damaged_row};

/// Attribute that contains mail addresses.
const MAIL: &str = "mail";

/// Recipient of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// Entry of the account.
    pub id: EntryId,
    /// DN of the account.
    pub dn: String,
    /// Mail address as stored in the entry.
    pub mail: String,
    /// Fingerprint of the account's passwords and mail addresses, valid only in this process. When a password or an
    /// address changes, the fingerprint no longer matches and the link becomes void.
    pub fingerprint: u64,
}

/// Returns the account with this user name or mail address, if its password may be reset by mail at `now`, in
/// microseconds since 1970. A user name is a value of an attribute in the setting `identity_attributes`. If `name` is
/// one of several addresses of the account, the recipient is that address. If `name` is a user name, the recipient is
/// the account's first address.
///
/// # Errors
/// The store failed.
pub fn recipient(snapshot: &Snapshot, name: &str, now: i64) -> Result<Option<Recipient>, Outcome> {
    let found = match identify(snapshot, &format!("u:{name}"))? {
        Some(found) => Some(found),
        None => identify_by(snapshot, MAIL, name)?,
    };
    let Some(Requester::User { id, .. }) = found.map(|found| found.requester) else { return Ok(None) };
    let Some((Requester::User { dn, .. }, fingerprint)) = resettable(snapshot, id, now)? else {
        return Ok(None);
    };
    let addresses = addresses(snapshot.state(), id).map_err(Outcome::from)?;
    let given = addresses.iter().find(|address| address.eq_ignore_ascii_case(name));
    let mail = given.or(addresses.first()).cloned();
    Ok(mail.map(|mail| Recipient { id, dn, mail, fingerprint }))
}

/// Returns the requester of an account whose password may be reset by mail at `now`, in microseconds since 1970, with
/// the fingerprint of its passwords and mail addresses. Returns `None` if the entry does not exist or its password may
/// not be reset by mail.
///
/// # Errors
/// The store failed.
pub fn resettable(snapshot: &Snapshot, id: EntryId, now: i64) -> Result<Option<(Requester, u64)>, Outcome> {
    try_resettable(snapshot, id, now).map_err(Outcome::from)
}

fn try_resettable(
    snapshot: &Snapshot,
    id: EntryId,
    now: i64,
) -> Result<Option<(Requester, u64)>, OperationError> {
    let state = snapshot.state();
    let is_person = state.node(id)?.is_some_and(|node| !node.flags.is_alias() && !node.flags.is_referral());
    if !is_person || snapshot.administrator_entry()? == Some(id) {
        return Ok(None);
    }
    if !accounts::account(state, id)?.is_some_and(|account| account.may_be_reset_by_mail(now)) {
        return Ok(None);
    }
    let passwords = stored_passwords(state, id)?;
    let mut fingerprint = DefaultHasher::new();
    (&passwords, addresses(state, id)?).hash(&mut fingerprint);
    let stored = Verification::new(passwords, state.settings.general.password_scheme);
    if stored.stored_bytes() == 0 || stored.delegation().is_some() {
        return Ok(None);
    }
    let requester = Requester::User { id, dn: state.dn(id)?.ok_or_else(|| damaged_row("nodes", id))? };
    let rights = snapshot.rights(&requester.context())?;
    let manages = rights.check_read_monitor(state).is_ok() || rights.may_use(Uses::of_oid(READ_AUDIT));
    Ok((!manages).then_some((requester, fingerprint.finish())))
}

fn addresses(state: TreeState<'_>, id: EntryId) -> Result<Vec<String>, OperationError> {
    let values = values_of_type(state, id, MAIL)?;
    Ok(values.into_iter().filter_map(|value| String::from_utf8(value).ok()).collect())
}

#[cfg(test)]
mod tests {
    use ldap::{ChangeOperation, ResultCode};

    use super::*;
    use crate::testing::{SUFFIX, TestDirectory, ok};

    const POLICY: &str = "cn=policy,dc=example,dc=com";

    /// Returns a directory whose default policy has these rules.
    fn directory(rules: &[(&str, &[&str])]) -> TestDirectory {
        let mut directory = TestDirectory::new();
        directory.add(SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
        let policy: &[(&str, &[&str])] =
            &[("objectClass", &["device", "pandoPwdPolicy"]), ("pwdAttribute", &["userPassword"])];
        assert_eq!(directory.add(POLICY, &[policy, rules].concat()).code, ResultCode::SUCCESS);
        directory.change_settings(|settings| settings.general.password_policy = POLICY.to_owned());
        directory
    }

    fn add(directory: &mut TestDirectory, uid: &str, more: &[(&str, &[&str])]) {
        let person: &[(&str, &[&str])] =
            &[("objectClass", &["inetOrgPerson"]), ("cn", &["x"]), ("sn", &["x"])];
        let added = directory.add(&format!("uid={uid},{SUFFIX}"), &[person, more].concat());
        assert_eq!(added.code, ResultCode::SUCCESS, "{uid}: {}", added.diagnostic);
    }

    #[test]
    fn finds_accounts_by_name_or_address_if_their_policy_permits_it() {
        let mut directory = directory(&[("pandoPwdResetByMail", &["TRUE"])]);
        let secret: (&str, &[&str]) = ("userPassword", &["{SSHA}one"]);
        add(&mut directory, "anna", &[secret, ("mail", &["anna@example.com", "a.huber@example.com"])]);
        add(&mut directory, "ben", &[secret]);
        add(&mut directory, "cleo", &[("mail", &["cleo@example.com"])]);
        add(&mut directory, "dora", &[("userPassword", &["{SASL}dora"]), ("mail", &["dora@example.com"])]);
        add(
            &mut directory,
            "emil",
            &[secret, ("mail", &["emil@example.com"]), ("pwdAccountLockedTime", &["000001010000Z"])],
        );
        let found = |directory: &TestDirectory, name: &str| {
            recipient(&directory.snapshot, name, 0).unwrap().map(|found| (found.dn, found.mail))
        };
        let anna = |mail: &str| Some((format!("uid=anna,{SUFFIX}"), mail.to_owned()));
        assert_eq!(found(&directory, "anna"), anna("anna@example.com"));
        assert_eq!(found(&directory, "A.Huber@Example.com"), anna("a.huber@example.com"));
        for name in ["ben", "cleo", "cleo@example.com", "dora", "emil", "no-such-user", "", "*", "cn=admin"] {
            assert_eq!(found(&directory, name), None, "{name}");
        }
        let fingerprint = |directory: &TestDirectory| {
            recipient(&directory.snapshot, "anna", 0).unwrap().unwrap().fingerprint
        };
        let before = fingerprint(&directory);
        assert_eq!(fingerprint(&directory), before);
        let dn = format!("uid=anna,{SUFFIX}");
        ok(directory.modify(&dn, &[(ChangeOperation::Replace, "sn", &["y"])]));
        assert_eq!(fingerprint(&directory), before);
        ok(directory.modify(&dn, &[(ChangeOperation::Replace, "mail", &["anna@example.com"])]));
        assert_ne!(fingerprint(&directory), before, "another set of addresses");
        directory.change_settings(|settings| {
            settings.general.monitor_readers = vec![format!("uid=anna,{SUFFIX}")];
        });
        assert_eq!(found(&directory, "anna"), None, "who may read the figures");
    }

    #[test]
    fn finds_no_account_without_the_permission() {
        for rules in [
            &[][..],
            &[("pandoPwdResetByMail", &["FALSE"][..])],
            &[("pandoPwdResetByMail", &["TRUE"]), ("pwdAllowUserChange", &["FALSE"])],
        ] {
            let mut directory = directory(rules);
            add(&mut directory, "anna", &[("userPassword", &["{SSHA}one"]), ("mail", &["anna@example.com"])]);
            assert_eq!(recipient(&directory.snapshot, "anna", 0).unwrap(), None, "{rules:?}");
        }
    }
}
