//! Passwords in add and modify requests: the clear passwords, and their stored forms.
//!
//! A clear userPassword never reaches a record. Hashing is deliberately slow and must not run on the writer. The server
//! therefore calls [`clear_passwords`] first, hashes the result on its pool, and passes pairs of a clear password and
//! its stored form in the [`Stamp`]. A value that is already hashed is stored unchanged (see
//! [`crate::password::is_hashed`]).
//!
//! A modify can delete a value of userPassword by its stored form or by the clear password. Clients use the clear
//! password when they delete the old value and add the new one. The server finds the stored form of a deleted password
//! before the writer executes the request, too ([`deleted_passwords`]). If another change removes this form first, the
//! modify is refused.

use std::sync::Arc;

use ldap::{AddRequest, ChangeOperation, PartialAttribute, Request, ResultCode};
use schema::{Schema, TypeId};

use crate::access::{EffectiveRights, RequestContext, Requester};
use crate::accounts::{self, Account, POLICY_SUBENTRY};
use crate::catalog::{USER_PASSWORD, is_user_password};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::password_kind::PasswordKind;
use crate::model::password_policy::PasswordPolicy;
use crate::model::rows::EntryId;
use crate::model::sasl_keys::{DigestNames, SaslKeyRules};
use crate::model::stamp::Stamp;
use crate::password::{StorageScheme, is_hashed, is_too_costly};
use crate::read::bind::stored_passwords;
use crate::read::identity;
use crate::snapshot::Snapshot;
use crate::tree::{Found, TreeState};
use crate::write::deciding::Deciding;

/// Returns the clear passwords of an add or modify request, in their order. These passwords must be hashed before the
/// writer executes the request.
pub fn clear_passwords<'a>(request: &Request<'a>, snapshot: &Snapshot) -> Vec<&'a [u8]> {
    let state = snapshot.state();
    clear_values(request, &state.catalog.schema)
}

/// Returns true if an add or modify request contains a value of userPassword, clear or hashed, or if a compare request
/// names userPassword.
pub fn has_password(request: &Request<'_>, snapshot: &Snapshot) -> bool {
    let schema = &snapshot.state().catalog.schema;
    let is_password = |description: &str| {
        let parsed = schema.parse_description(description);
        parsed.is_ok_and(|description| is_user_password(schema, description.type_id))
    };
    let has = |attribute: PartialAttribute<'_>| {
        attribute.values.iter().next().is_some() && is_password(attribute.description)
    };
    match request {
        Request::Add(add) => add.attributes.iter().any(has),
        Request::Modify(modify) => modify.changes.iter().any(|change| has(change.attribute)),
        Request::Compare(compare) => is_password(compare.description),
        _ => false,
    }
}

/// Returns true if a modify request sets the own password of its entry. After a reset, a user must set a new password
/// before any other request.
pub fn sets_password(request: &Request<'_>, snapshot: &Snapshot) -> bool {
    let schema = &snapshot.state().catalog.schema;
    let is_own = |description: &str| {
        schema.parse_description(description).is_ok_and(|description| {
            is_user_password(schema, description.type_id) && description.options.is_empty()
        })
    };
    let Request::Modify(modify) = request else { return false };
    modify.changes.iter().any(|change| {
        matches!(change.operation, ChangeOperation::Add | ChangeOperation::Replace)
            && !change.attribute.values.is_empty()
            && is_own(change.attribute.description)
    })
}

/// Rules for the new passwords of a request. The rules are applied before the writer executes the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPasswordRules {
    /// Storage scheme.
    pub scheme: StorageScheme,
    /// Stored forms of the entry's present and former passwords. No new password may match one of these forms.
    pub former: Vec<Vec<u8>>,
    /// Whether to check that the new passwords are not on the server's lists of weak passwords.
    pub checks_lists: bool,
    /// SASL keys to derive from the passwords.
    pub keys: SaslKeyRules,
}

/// Returns the rules for the new passwords of an add or modify request. If the request will be refused anyway, returns
/// the rules of the settings.
///
/// # Errors
/// The store failed.
pub fn new_password_rules(
    request: &Request<'_>,
    snapshot: &Snapshot,
    context: &RequestContext<'_>,
) -> Result<NewPasswordRules, Outcome> {
    let state = snapshot.state();
    let scheme = state.settings.general.password_scheme;
    let mut rules =
        NewPasswordRules { scheme, former: Vec::new(), checks_lists: false, keys: SaslKeyRules::default() };
    let policy = match request {
        Request::Modify(modify) => match changed_entry(state, modify.object, context)? {
            Some(id) => accounts::governed_account(state, id)?.map(|account| {
                let mechanisms = account.policy.scram_mechanisms.clone();
                (account.policy, Some(id), SaslKeyRules { mechanisms, ..account.missing_keys })
            }),
            None => None,
        },
        Request::Add(add) => match policy_of_new(state, add)? {
            Some(policy) => {
                let keys = accounts::key_rules(state, &policy, |names| {
                    collect_names_of_new(state, add, names);
                    Ok(())
                })?;
                Some((policy, None, keys))
            }
            None => None,
        },
        _ => None,
    };
    let Some((policy, id, keys)) = policy else { return Ok(rules) };
    rules.scheme = policy.scheme.unwrap_or(scheme);
    rules.checks_lists = policy.check_lists;
    rules.keys = keys;
    if let Some(id) = id.filter(|_| policy.in_history > 0) {
        rules.former = accounts::former_passwords(state, id)?;
        rules.former.extend(stored_passwords(state, id)?);
    }
    Ok(rules)
}

/// Collects the names by which binds will find the user of an added entry.
fn collect_names_of_new(state: TreeState<'_>, add: &AddRequest<'_>, names: &mut DigestNames) {
    let schema = &*state.catalog.schema;
    for identity in &state.settings.general.identity_attributes {
        let Some(known) = schema.attribute_type(identity) else { continue };
        let is_it = |given: &PartialAttribute<'_>| {
            let description = schema.parse_description(given.description);
            description.is_ok_and(|given| given.type_id == known.id && given.options.is_empty())
        };
        for given in add.attributes.iter().filter(is_it) {
            if given.values.iter().any(|value| names.look_at(value).is_break()) {
                return;
            }
        }
    }
}

/// Returns the policy that will apply to an added entry.
fn policy_of_new(
    state: TreeState<'_>,
    add: &AddRequest<'_>,
) -> Result<Option<Arc<PasswordPolicy>>, OperationError> {
    // The request may use any name of the policy attribute.
    let known = accounts::description(state.catalog, POLICY_SUBENTRY)?;
    let is_it = |given: &PartialAttribute<'_>| {
        state.catalog.schema.parse_description(given.description).is_ok_and(|given| given == known)
    };
    let named = add.attributes.iter().find(is_it);
    let named = named.and_then(|given| given.values.iter().next());
    let parent = parse_dn(add.entry).ok().map(|dn| NormalName::of(&dn, &state.catalog.schema));
    let parent = match parent.filter(|name| name.failure.is_none()).map(|name| state.find(&name)) {
        Some(Ok(Found::Missing { nearest: Some((id, _, _)) })) => id,
        Some(Err(error)) => return Err(error),
        _ => EntryId::ROOT,
    };
    accounts::policy_of_new(state, parent, named)
}

fn clear_values<'a>(request: &Request<'a>, schema: &Schema) -> Vec<&'a [u8]> {
    let of = |attribute| clear_in(attribute, schema);
    match request {
        Request::Add(add) => add.attributes.iter().flat_map(of).collect(),
        Request::Modify(modify) => {
            let stores = |operation| matches!(operation, ChangeOperation::Add | ChangeOperation::Replace);
            let storing = modify.changes.iter().filter(|change| stores(change.operation));
            storing.flat_map(|change| of(change.attribute)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the clear passwords among the values of an attribute.
fn clear_in<'a>(
    attribute: PartialAttribute<'a>,
    schema: &Schema,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let is_password = schema.parse_description(attribute.description).is_ok_and(|description| {
        // Values with unusable options are never stored, so they need not be hashed.
        let kind = PasswordKind::of(&description.options);
        is_user_password(schema, description.type_id) && kind != PasswordKind::Unusable
    });
    attribute.values.iter().filter(move |value| is_password && !is_hashed(value))
}

/// A clear password that a modify request deletes, with the stored passwords of the entry.
#[derive(Debug, PartialEq, Eq)]
pub struct DeletedPassword<'a> {
    /// The password in the request.
    pub clear: &'a [u8],
    /// The entry's passwords in their order. One of these passwords may match `clear` ([`crate::password::verify`]).
    pub stored: Vec<Vec<u8>>,
}

/// Returns the clear passwords that a modify request deletes by value. Omits a password that equals a stored value of
/// the entry octet for octet. Returns none if the request will be refused anyway.
///
/// # Errors
/// The store failed.
pub fn deleted_passwords<'a>(
    request: &Request<'a>,
    snapshot: &Snapshot,
    context: &RequestContext<'_>,
) -> Result<Vec<DeletedPassword<'a>>, Outcome> {
    let Request::Modify(modify) = request else { return Ok(Vec::new()) };
    let state = snapshot.state();
    let schema = &*state.catalog.schema;
    let deletes = modify.changes.iter().filter(|change| change.operation == ChangeOperation::Delete);
    let mut deleted = deletes.flat_map(|change| clear_in(change.attribute, schema)).peekable();
    if deleted.peek().is_none() {
        return Ok(Vec::new());
    }
    let Some(id) = changed_entry(state, modify.object, context)? else { return Ok(Vec::new()) };
    let stored = stored_passwords(state, id)?;
    let unknown = deleted.filter(|clear| !stored.iter().any(|stored| stored == clear));
    Ok(unknown.map(|clear| DeletedPassword { clear, stored: stored.clone() }).collect())
}

/// The user whose password a modify request changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordOwner {
    /// The user.
    pub requester: Requester,
    /// Recorded state of the password, if a policy or a restriction applies to it.
    pub account: Option<Box<Account>>,
}

/// Returns the user whose password a modify request changes. A request that contains the old password is an attempt to
/// prove the password (draft-behera-ldap-password-policy section 8.1). Returns `None` if no entry has the name, or if
/// the requester may not change the password.
///
/// # Errors
/// The store failed.
pub fn password_owner(
    request: &Request<'_>,
    snapshot: &Snapshot,
    context: &RequestContext<'_>,
) -> Result<Option<PasswordOwner>, Outcome> {
    let Request::Modify(modify) = request else { return Ok(None) };
    let state = snapshot.state();
    let Some(id) = changed_entry(state, modify.object, context)? else { return Ok(None) };
    let requester = Requester::User { id, dn: modify.object.to_owned() };
    Ok(Some(PasswordOwner { requester, account: accounts::account(state, id)?.map(Box::new) }))
}

/// Returns the entry with this name, if the requester may change its password.
fn changed_entry(
    state: TreeState<'_>,
    name: &str,
    context: &RequestContext<'_>,
) -> Result<Option<EntryId>, OperationError> {
    let schema = &*state.catalog.schema;
    let (Ok(dn), Some(password)) = (parse_dn(name), schema.attribute_type(USER_PASSWORD)) else {
        return Ok(None);
    };
    let Found::Entry(id, _) = state.find(&NormalName::of(&dn, schema))? else { return Ok(None) };
    Ok(may_change(state, id, password.id, context)?.is_some().then_some(id))
}

/// Returns `None` if the requester may not change the password of an entry. Otherwise returns whether the requester may
/// learn that the entry exists.
fn may_change(
    state: TreeState<'_>,
    id: EntryId,
    password: TypeId,
    context: &RequestContext<'_>,
) -> Result<Option<bool>, OperationError> {
    let rights = EffectiveRights::of(state, context)?;
    let Some(at) = rights.at_entry(state, id)? else {
        return Ok(rights.check_modify(state.catalog, id, [password]).is_ok().then_some(true));
    };
    let may = rights.check_bound().is_ok() && rights.may_change_password(&at, id, password);
    Ok(may.then(|| at.may_browse()))
}

/// Returns the DN of the user with this name (RFC 4513 section 5.2.1.8, `u:`), if the requester may change the user's
/// password. Returns `None` if no user or two users have the name, or if the requester may not change the password. The
/// response must not reveal which of these is the case.
///
/// # Errors
/// The store failed.
pub fn named_user(
    snapshot: &Snapshot,
    context: &RequestContext<'_>,
    name: &str,
) -> Result<Option<String>, Outcome> {
    let state = snapshot.state();
    let found = || {
        let Some(password) = state.catalog.schema.attribute_type(USER_PASSWORD) else { return Ok(None) };
        match identity::requester(state, &format!("u:{name}"))? {
            Some(Requester::User { id, dn }) => {
                let may = may_change(state, id, password.id, context)?;
                Ok::<_, OperationError>((may == Some(true)).then_some(dn))
            }
            _ => Ok(None),
        }
    };
    found().map_err(Outcome::from)
}

/// Returns the stored value that a modify request deletes by `value`: the stored form that a clear password matches,
/// otherwise `value` itself.
pub(crate) fn deleted_form<'v>(stamp: &'v Stamp, value: &'v [u8]) -> &'v [u8] {
    let matched = stamp.matched_passwords.iter().find(|(clear, _)| clear == value);
    matched.map_or(value, |(_, stored)| stored)
}

/// Returns the stored form of a value of userPassword.
///
/// # Errors
/// constraintViolation for a hashed value with a cost that only the administrator may impose; unavailable if a clear
/// value was not hashed before the writer received the request, because a setting has changed meanwhile.
pub(crate) fn stored_form(deciding: &Deciding<'_>, value: &[u8]) -> Result<Vec<u8>, OperationError> {
    let Deciding { state, stamp, context, .. } = *deciding;
    let scheme = state.settings.general.password_scheme;
    if is_hashed(value) {
        if is_too_costly(value, scheme) && !matches!(context.requester, Requester::Administrator { .. }) {
            let text = "the hashed password costs more to verify than one of password_scheme: send a cheaper one, or \
                        the password itself; only the administrator may store it unchanged";
            return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text));
        }
        return Ok(value.to_vec());
    }
    let hashed = stamp.hashed_passwords.iter().find(|(clear, _)| clear == value);
    let hashed = hashed.map(|(_, stored)| stored.clone());
    let in_clear = scheme == StorageScheme::Clear;
    hashed.or_else(|| in_clear.then(|| value.to_vec())).ok_or_else(|| {
        OperationError::refused(
            ResultCode::UNAVAILABLE,
            "the password was not hashed in advance, because the storage scheme has just changed: try again",
        )
    })
}

#[cfg(test)]
mod tests {
    use ldap::{AddRequest, AttributesBuf, ChangesBuf, ModifyRequest};

    use super::*;

    #[test]
    fn only_clear_values_that_are_stored_are_hashed() {
        let schema = Schema::shipped();
        let mut attributes = AttributesBuf::new();
        attributes.push("cn", ["secret0"]);
        attributes.push("USERPASSWORD;X-App-a", ["secret1", "{SSHA}AAAA", "{CLEARTEXT}secret2"]);
        attributes.push("userPassword;x-a", ["secret3"]);
        let add = Request::Add(AddRequest { entry: "", attributes: attributes.as_attributes() });
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Delete, "userPassword", ["old"]);
        changes.push(ChangeOperation::Add, "2.5.4.35", ["new"]);
        changes.push(ChangeOperation::Replace, "userPassword", ["newer"]);
        let modify = Request::Modify(ModifyRequest { object: "", changes: changes.as_changes() });
        let check = |request: &Request<'_>, expected: &[&str]| {
            let found = clear_values(request, &schema);
            let expected: Vec<_> = expected.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(found, expected);
        };
        check(&add, &["secret1", "{CLEARTEXT}secret2"]);
        check(&modify, &["new", "newer"]);
    }
}
