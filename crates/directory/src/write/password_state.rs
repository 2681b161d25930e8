//! The Password Policy State extended operation (1.3.6.1.4.1.26027.1.6.1), by which administrators of passwords change
//! the recorded state of a password.
//!
//! A request contains several operations. The operations are applied in their order. If one operation is refused, no
//! operation has an effect. The operations change the entry like a modify, including modifiersName and entryCSN.

use ldap::state_operation as kind;
use ldap::{ResultCode, StateOperation, StateRequest};
use schema::generalized_micros;

use crate::accounts::managed::ManagedAccount;
use crate::accounts::{
    self, CHANGED_TIME, END_TIME, FAILURE_TIME, GRACE_USE_TIME, HISTORY, LAST_SUCCESS, LOCKED_TIME, RESET,
    START_TIME, TOTP_LAST_STEP, TOTP_SECRET, description, moment, time_text,
};
use crate::catalog::Allocations;
use crate::model::limits::PASSWORD_FAILURES_MAX;
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Modify, Record};
use crate::password::totp::secret_of;
use crate::tree::damaged_row;
use crate::write::deciding::Deciding;
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

/// Value of pwdAccountLockedTime for a permanent lock (draft-behera-ldap-password-policy section 5.3.3).
const PERMANENT_LOCK: &str = "000001010000Z";

/// Checks a request. Returns the record of its effect. Returns `None` if nothing changes.
pub(crate) fn decide(deciding: Deciding<'_>, request: &StateRequest<'_>) -> Result<Option<Record>> {
    let Deciding { state, context, .. } = deciding;
    let managed = ManagedAccount::find(state, context.requester, request.user)?;
    managed.check(state, request)?;
    if accounts::governed_account(state, managed.id)?.is_none()
        && !request.operations.iter().all(|operation| holds_without_policy(operation.kind))
    {
        let text = "no password policy governs this entry, so the operation would have no effect: name a \
         default policy in the setting password_policy";
        return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
    }
    let mut entry = WorkingEntry::of(state, managed.id)?;
    let now = deciding.now();
    // Queries are not executed here. Their answers report the state after all changes of the request.
    for operation in request.operations.iter().filter(|operation| kind::is_change(operation.kind)) {
        carry_out(deciding, &managed, &mut entry, operation, now)?;
    }
    if !entry.is_changed() {
        return Ok(None);
    }
    entry.stamp_change(&deciding)?;
    let node = state.node(managed.id)?.ok_or_else(|| damaged_row("nodes", managed.id))?;
    let (class_set, flags) = (node.class_set, node.flags);
    let mut allocations = Allocations::new(state.catalog);
    let changes = entry.changes(&mut allocations);
    let modify = Modify { id: managed.id, dn: managed.dn, class_set, flags, changes };
    Ok(Some(deciding.record(allocations, Change::Modify(modify))))
}

/// Returns true if an operation has an effect without a password policy: it restricts binds, or it clears or reads
/// state.
fn holds_without_policy(of_kind: u32) -> bool {
    !kind::is_change(of_kind)
        || matches!(
            of_kind,
            kind::SET_DISABLED
                | kind::CLEAR_DISABLED
                | kind::SET_START
                | kind::CLEAR_START
                | kind::SET_END
                | kind::CLEAR_END
                | kind::CLEAR_FAILURES
        )
}

fn carry_out(
    deciding: Deciding<'_>,
    managed: &ManagedAccount,
    entry: &mut WorkingEntry<'_>,
    operation: &StateOperation<&[u8]>,
    now: i64,
) -> Result<()> {
    let catalog = deciding.state.catalog;
    let mut set =
        |name: &str, values: Vec<Vec<u8>>| entry.set_all_by_server(&description(catalog, name)?, values);
    let lock = |is: bool, since: &str| if is { vec![since.as_bytes().to_vec()] } else { Vec::new() };
    match operation.kind {
        kind::SET_DISABLED if truth(operation)? => set(LOCKED_TIME, lock(true, PERMANENT_LOCK)),
        kind::SET_DISABLED | kind::CLEAR_DISABLED => unlock(deciding, entry, true),
        kind::SET_END => set(END_TIME, one_time(operation, now)?),
        kind::CLEAR_END => set(END_TIME, Vec::new()),
        kind::SET_START => set(START_TIME, one_time(operation, now)?),
        kind::CLEAR_START => set(START_TIME, Vec::new()),
        kind::SET_CHANGED => set(CHANGED_TIME, one_time(operation, now)?),
        kind::CLEAR_CHANGED => set(CHANGED_TIME, Vec::new()),
        kind::SET_LAST_LOGIN => set(LAST_SUCCESS, one_time(operation, now)?),
        kind::CLEAR_LAST_LOGIN => set(LAST_SUCCESS, Vec::new()),
        kind::SET_RESET => set(RESET, lock(truth(operation)?, "TRUE")),
        kind::CLEAR_RESET => set(RESET, Vec::new()),
        kind::CLEAR_HISTORY => set(HISTORY, Vec::new()),
        kind::SET_GRACE_USES => set(GRACE_USE_TIME, times(operation, now, true)?),
        kind::CLEAR_GRACE_USES => set(GRACE_USE_TIME, Vec::new()),
        kind::ADD_GRACE_USE => {
            let known = description(catalog, GRACE_USE_TIME)?;
            let mut uses = entry.values(&known)?;
            uses.extend(times(operation, now, true)?);
            entry.set_all_by_server(&known, bounded(uses))
        }
        kind::SET_FAILURE_LOCKED if truth(operation)? => set(LOCKED_TIME, lock(true, &time_text(now, false))),
        kind::SET_FAILURE_LOCKED | kind::CLEAR_FAILURES => {
            set(FAILURE_TIME, Vec::new())?;
            unlock(deciding, entry, false)
        }
        kind::SET_FAILURES => {
            set(FAILURE_TIME, times(operation, now, true)?)?;
            lock_at_most(deciding, managed, entry)
        }
        kind::ADD_FAILURE => {
            let known = description(catalog, FAILURE_TIME)?;
            let mut failures = entry.values(&known)?;
            failures.extend(times(operation, now, true)?);
            entry.set_all_by_server(&known, bounded(failures))?;
            lock_at_most(deciding, managed, entry)
        }
        kind::ADD_TOTP | kind::SET_TOTP => {
            let secrets = operation.values.iter().map(|secret| secret.to_vec()).collect::<Vec<_>>();
            if secrets.len() > 1 || secrets.iter().any(|secret| secret_of(secret).is_none()) {
                return Err(refused(operation, "one secret of 128 bits or more in base32"));
            }
            set(TOTP_SECRET, secrets)?;
            entry.clear(&description(catalog, TOTP_LAST_STEP)?)
        }
        kind::CLEAR_TOTP => {
            set(TOTP_SECRET, Vec::new())?;
            entry.clear(&description(catalog, TOTP_LAST_STEP)?)
        }
        kind::REMOVE_TOTP => {
            let known = description(catalog, TOTP_SECRET)?;
            if entry.values(&known)?.iter().any(|secret| operation.values.contains(&secret.as_slice())) {
                entry.clear(&known)?;
                entry.clear(&description(catalog, TOTP_LAST_STEP)?)?;
            }
            Ok(())
        }
        other => {
            let text = format!("operation {other} of the password policy state changes nothing");
            Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text))
        }
    }
}

/// Removes a permanent lock if `for_good` is true, otherwise a lock caused by wrong passwords.
fn unlock(deciding: Deciding<'_>, entry: &mut WorkingEntry<'_>, for_good: bool) -> Result<()> {
    let known = description(deciding.state.catalog, LOCKED_TIME)?;
    if entry.values(&known)?.iter().all(|value| value.starts_with(b"0000") == for_good) {
        entry.clear(&known)?;
    }
    Ok(())
}

/// Locks an account if its failures have reached the limit, unless the account is already locked.
fn lock_at_most(
    deciding: Deciding<'_>,
    managed: &ManagedAccount,
    entry: &mut WorkingEntry<'_>,
) -> Result<()> {
    let Deciding { state, .. } = deciding;
    let Some(account) = accounts::governed_account(state, managed.id)? else { return Ok(()) };
    let values = entry.values(&description(state.catalog, FAILURE_TIME)?)?;
    let failures = values.iter().filter_map(|value| moment(value)).collect();
    let known = description(state.catalog, LOCKED_TIME)?;
    let is_locked = entry.value_count(&known)? > 0;
    let account = accounts::Account { failures, locked: account.locked.filter(|_| is_locked), ..account };
    if let Some(last) = account.failures.iter().max().copied()
        && !account.is_disabled()
        && !account.is_failure_locked(last)
        && account.locks_at(account.failure_count(last))
    {
        entry.set_all_by_server(&known, [time_text(last, false).into_bytes()])?;
    }
    Ok(())
}

/// Returns the latest of these times, up to the limit.
fn bounded(mut times: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    times.sort_unstable();
    times.dedup();
    let from = times.len().saturating_sub(PASSWORD_FAILURES_MAX);
    times.split_off(from)
}

fn refused(operation: &StateOperation<&[u8]>, takes: &str) -> OperationError {
    let text = format!("operation {} of the password policy state takes {takes}", operation.kind);
    OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text)
}

fn truth(operation: &StateOperation<&[u8]>) -> Result<bool> {
    match operation.values.as_slice() {
        [value] if value.eq_ignore_ascii_case(b"true") => Ok(true),
        [value] if value.eq_ignore_ascii_case(b"false") => Ok(false),
        _ => Err(refused(operation, "true or false")),
    }
}

/// Returns the only time in an operation, or the current time if the operation has no value.
fn one_time(operation: &StateOperation<&[u8]>, now: i64) -> Result<Vec<Vec<u8>>> {
    if operation.values.len() > 1 {
        return Err(refused(operation, "one time"));
    }
    times(operation, now, false)
}

/// Returns the times in an operation, to the microsecond if `is_exact` is true, otherwise to the second. Without a
/// value, returns the current time.
fn times(operation: &StateOperation<&[u8]>, now: i64, is_exact: bool) -> Result<Vec<Vec<u8>>> {
    if operation.values.is_empty() {
        return Ok(vec![time_text(now, is_exact).into_bytes()]);
    }
    let time = |value: &&[u8]| {
        let micros =
            generalized_micros(value).ok_or_else(|| refused(operation, "times such as 20260102030405Z"))?;
        Ok(time_text(micros, is_exact).into_bytes())
    };
    Ok(bounded(operation.values.iter().map(time).collect::<Result<_>>()?))
}
