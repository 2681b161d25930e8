//! Password Policy State extended operation (1.3.6.1.4.1.26027.1.6.1, compatible with OpenDJ). Administrators query and
//! set the state of passwords with this operation.
//!
//! Each operation of a request concerns an attribute of the password's state. Under access rules, a query requires the
//! right to read that attribute, and setting the state requires the right to write the attribute. Without rules, only
//! the administrator may query and set the state.

use std::ops::ControlFlow;
use std::sync::Arc;

use ldap::{ResultCode, StateOperation, StateRequest, encode_password_state};

use super::{
    CHANGED_TIME, END_TIME, FAILURE_TIME, GRACE_USE_TIME, HISTORY, LAST_SUCCESS, LOCKED_TIME,
    POLICY_SUBENTRY, RESET, START_TIME, TOTP_SECRET, account_or_default, attribute_row, description,
    time_in_history, time_text,
};
use crate::access::{EffectiveRights, EntryRights, Requester, denied};
use crate::catalog::USER_PASSWORD;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::password::policy::{Account, Lock, seconds_between};
use crate::tree::stored_values::for_each_value;
use crate::tree::target::locate_name;
use crate::tree::{TreeState, entry_row};

type Result<T> = std::result::Result<T, OperationError>;

/// An account that the requester may browse.
pub(crate) struct ManagedAccount {
    /// The entry.
    pub(crate) id: EntryId,
    /// DN of the entry.
    pub(crate) dn: String,
    /// Rights to the entry; `None` if everything is allowed.
    rights: Option<Arc<EntryRights>>,
}

impl ManagedAccount {
    /// Finds the account with this name.
    ///
    /// # Errors
    /// The account does not exist, or the requester may not browse it.
    pub(crate) fn find(state: TreeState<'_>, requester: &Requester, user: &str) -> Result<ManagedAccount> {
        let effective = EffectiveRights::of(state, &requester.context())?;
        effective.check_manage_accounts()?;
        let dn = parse_dn(user)?;
        let located = locate_name(state, &dn, &NormalName::of(&dn, &state.catalog.schema), false);
        let target = effective.permitted(state, user, located)?;
        let rights = effective.at_visible(state, target.id, user)?;
        Ok(ManagedAccount { id: target.id, dn: target.dn, rights })
    }

    fn may(&self, state: TreeState<'_>, attribute: &str, changes: bool) -> Result<bool> {
        let Some(rights) = &self.rights else { return Ok(true) };
        let type_id = description(state.catalog, attribute)?.type_id;
        Ok(if changes { rights.may_write(type_id) } else { rights.may_read(type_id) })
    }

    /// Refuses operations that are unknown or not allowed, and queries with values.
    ///
    /// # Errors unwillingToPerform, insufficientAccessRights or protocolError.
    pub(crate) fn check(&self, state: TreeState<'_>, request: &StateRequest<'_>) -> Result<()> {
        for StateOperation { kind, values } in &request.operations {
            let Some((attribute, reported)) = subject(*kind) else {
                let text = format!("no state is recorded for operation {kind} of the password policy state");
                return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
            };
            let changes = *kind != reported;
            if !changes && !values.is_empty() {
                let text = format!("operation {kind} of the password policy state takes no value");
                return Err(OperationError::refused(ResultCode::PROTOCOL_ERROR, text));
            }
            if !self.may(state, attribute, changes)? {
                let may = if changes { "change" } else { "read" };
                return Err(denied(format!("no access rule lets you {may} {attribute} of this entry")));
            }
        }
        Ok(())
    }

    /// Returns the response value: the queried state, including the effect of the request's changes.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn answer(
        &self,
        state: TreeState<'_>,
        request: &StateRequest<'_>,
        now: i64,
    ) -> Result<Vec<u8>> {
        let account = account_or_default(state, self.id)?;
        let mut kinds = Vec::new();
        for (kind, attribute) in REPORTED {
            let is_requested = match request.operations.as_slice() {
                [] => true,
                asked => asked
                    .iter()
                    .any(|asked| subject(asked.kind).is_some_and(|(_, reported)| reported == kind)),
            };
            if is_requested && self.may(state, attribute, false)? {
                kinds.push(kind);
            }
        }
        let mut operations = Vec::with_capacity(kinds.len());
        for kind in kinds {
            operations.push(StateOperation { kind, values: self.values(state, &account, kind, now)? });
        }
        Ok(encode_password_state(&self.dn, &operations))
    }

    /// Returns the values that a state operation of this kind reports.
    fn values(&self, state: TreeState<'_>, account: &Account, kind: u32, now: i64) -> Result<Vec<String>> {
        let policy = &account.policy;
        let time =
            |time: Option<i64>| time.map(|time| time_text(time, false)).into_iter().collect::<Vec<_>>();
        let until = |time: Option<i64>| {
            time.map(|time| seconds_between(now, time).to_string()).into_iter().collect::<Vec<_>>()
        };
        let yes = |is: bool| vec![is.to_string()];
        let warns_from = account.expires_at().filter(|_| policy.expire_warning > 0);
        let warns_from = warns_from.map(|end| end - i64::from(policy.expire_warning) * 1_000_000);
        let locks = policy.lockout && policy.max_failure > 0;
        let failures = account.failure_count(now);
        Ok(match kind {
            0 => self.policy_dn(state, account)?.into_iter().collect(),
            1 => yes(account.is_disabled()),
            4 => time(account.end),
            7 => until(account.end),
            8 => time(account.changed),
            14 => until(account.expires_at()),
            15 => until(warns_from),
            16 => account.failures.iter().map(|time| time_text(*time, true)).collect(),
            20 if account.is_failure_locked(now) => until(account.unlocks_at()),
            21 if locks => {
                let max = usize::try_from(policy.max_failure).unwrap_or(usize::MAX);
                vec![max.saturating_sub(failures).to_string()]
            }
            22 => time(account.last_success),
            25 => until(account.idle_at()),
            26 => yes(account.is_reset),
            30 => self.times(state, GRACE_USE_TIME, schema::generalized_micros)?,
            34 => vec![account.grace_left(now).to_string()],
            39 => self.times(state, HISTORY, time_in_history)?,
            45 => time(account.start),
            48 => until(account.start),
            53 => warnings(account, now),
            54 => errors(account, now),
            55 => yes(!account.is_locked(now) && account.verified(now).succeeds),
            56 => yes(account.is_before_start(now)),
            57 => yes(account.is_past_end(now)),
            58 => time(account.expires_at()),
            59 => yes(account.is_failure_locked(now)),
            61 => match account.locked {
                Some(Lock::Since(since)) if account.is_failure_locked(now) => time(Some(since)),
                _ => Vec::new(),
            },
            62 if policy.max_idle > 0 => yes(account.is_idle_locked(now)),
            63 => time(account.idle_at()),
            66 => vec![self.times(state, HISTORY, time_in_history)?.len().to_string()],
            67 => yes(account.is_expired(now)),
            70 => yes(attribute_row(state.catalog, &entry_row(state.read, self.id)?, TOTP_SECRET).is_some()),
            81 => {
                yes(attribute_row(state.catalog, &entry_row(state.read, self.id)?, USER_PASSWORD).is_some())
            }
            _ => Vec::new(),
        })
    }

    /// Returns the DN of the account's policy.
    fn policy_dn(&self, state: TreeState<'_>, account: &Account) -> Result<Option<String>> {
        let mut entries = state.catalog.policies.entries.iter();
        match entries.find(|entry| Arc::ptr_eq(&entry.policy, &account.policy)) {
            Some(entry) => state.dn(entry.id),
            None => Ok(None),
        }
    }

    /// Returns the times in the values of an attribute.
    fn times(
        &self,
        state: TreeState<'_>,
        attribute: &str,
        time: fn(&[u8]) -> Option<i64>,
    ) -> Result<Vec<String>> {
        let mut found = Vec::new();
        if let Some(attribute) = attribute_row(state.catalog, &entry_row(state.read, self.id)?, attribute) {
            for_each_value(state, self.id, &attribute, &mut |value| {
                found.extend(time(value).map(|time| time_text(time, true)));
                ControlFlow::Continue(())
            })?;
        }
        Ok(found)
    }
}

/// Kinds of operations that a query for the whole state reports, each with its attribute.
const REPORTED: [(u32, &str); 34] = [
    (0, POLICY_SUBENTRY),
    (1, LOCKED_TIME),
    (4, END_TIME),
    (7, END_TIME),
    (8, CHANGED_TIME),
    (14, CHANGED_TIME),
    (15, CHANGED_TIME),
    (16, FAILURE_TIME),
    (20, LOCKED_TIME),
    (21, FAILURE_TIME),
    (22, LAST_SUCCESS),
    (25, LAST_SUCCESS),
    (26, RESET),
    (30, GRACE_USE_TIME),
    (34, GRACE_USE_TIME),
    (39, HISTORY),
    (45, START_TIME),
    (48, START_TIME),
    (53, LOCKED_TIME),
    (54, LOCKED_TIME),
    (55, LOCKED_TIME),
    (56, START_TIME),
    (57, END_TIME),
    (58, CHANGED_TIME),
    (59, LOCKED_TIME),
    (61, LOCKED_TIME),
    (62, LAST_SUCCESS),
    (63, LAST_SUCCESS),
    (66, HISTORY),
    (67, CHANGED_TIME),
    (70, LOCKED_TIME),
    (81, CHANGED_TIME),
    // The directory does not record the state of these kinds, so they have no values: the time of a warning, and the
    // times by which changes are required.
    (11, CHANGED_TIME),
    (35, CHANGED_TIME),
];

/// Returns the attribute that an operation of this kind concerns, and the kind of operation that reports its state. If
/// the operation only queries, that kind is `kind` itself.
fn subject(kind: u32) -> Option<(&'static str, u32)> {
    let reported = match kind {
        2 | 3 => 1,
        5 | 6 => 4,
        9 | 10 => 8,
        17..=19 => 16,
        23 | 24 => 22,
        27 | 28 => 26,
        31..=33 => 30,
        40 => 39,
        46 | 47 => 45,
        60 => 59,
        // The secret itself is never returned. The response only reveals whether there is a secret. This fact is no
        // more sensitive than a lock.
        76..=79 => return Some((TOTP_SECRET, 70)),
        other => other,
    };
    REPORTED.iter().find(|(known, _)| *known == reported).map(|(_, attribute)| (*attribute, reported))
}

/// Returns the conditions that prevent or restrict a bind, in the format of UnboundID's SDK.
fn errors(account: &Account, now: i64) -> Vec<String> {
    let known = [
        (account.is_disabled(), 1, "account-disabled", "an administrator has locked the account"),
        (account.is_before_start(now), 2, "account-not-yet-active", "the account is not valid yet"),
        (account.is_past_end(now), 3, "account-expired", "the account is no longer valid"),
        (
            account.is_failure_locked(now) && account.unlocks_at().is_none(),
            4,
            "account-permanently-locked-due-to-bind-failures",
            "wrong passwords have locked the account",
        ),
        (
            account.is_failure_locked(now) && account.unlocks_at().is_some(),
            5,
            "account-temporarily-locked-due-to-bind-failures",
            "wrong passwords have locked the account for a time",
        ),
        (account.is_idle_locked(now), 6, "account-idle-locked", "the account has not been used for too long"),
        (
            account.is_expired(now) && account.grace_left(now) == 0,
            8,
            "password-expired",
            "the password has expired",
        ),
        (
            account.is_expired(now) && account.grace_left(now) > 0,
            10,
            "password-expired-with-grace-logins",
            "the password has expired; a few grace logins remain",
        ),
        (account.must_change(), 11, "must-change-password", "the password has to be changed"),
    ];
    condition_texts(&known)
}

/// Returns the conditions that may prevent a bind later.
fn warnings(account: &Account, now: i64) -> Vec<String> {
    let warns = account.verified(now).response.warning.is_some() && !account.is_expired(now);
    let known = [
        (
            account.end.is_some() && !account.is_past_end(now),
            1,
            "account-expiring",
            "the account will expire",
        ),
        (warns, 2, "password-expiring", "the password expires soon"),
        (account.failure_count(now) > 0, 3, "outstanding-bind-failures", "there were wrong passwords"),
    ];
    condition_texts(&known)
}

fn condition_texts(known: &[(bool, u32, &str, &str)]) -> Vec<String> {
    let holds = known.iter().filter(|(holds, ..)| *holds);
    holds.map(|(_, code, name, text)| format!("code={code}\tname={name}\tmessage={text}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_state_that_each_change_sets() {
        for kind in (0..200).filter(|kind| ldap::state_operation::is_change(*kind)) {
            let (_, reported) = subject(kind).unwrap();
            assert!(reported != kind && !ldap::state_operation::is_change(reported), "{kind}");
        }
        assert_eq!(subject(12), None, "the time of a warning is not recorded");
        assert_eq!(subject(200), None);
    }
}
