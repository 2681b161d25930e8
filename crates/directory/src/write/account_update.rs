//! What is recorded of binds and of compares of passwords (draft-behera-ldap-password-policy section 8.1), decided like
//! any change: a record, made from the entry as it is by then.
//!
//! It leaves modifyTimestamp, modifiersName and entryCSN alone, as in OpenLDAP: the user changed nothing.

use ldap::ResultCode;

use crate::access::Requester;
use crate::accounts::{
    self, FAILURE_TIME, GRACE_USE_TIME, LAST_SUCCESS, LOCKED_TIME, description, time_text,
};
use crate::catalog::{Allocations, USER_PASSWORD};
use crate::model::csn::Csn;
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Modify, Record};
use crate::model::rows::EntryId;
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::tree::{State, damaged_row};
use crate::write::deciding::Deciding;
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

/// What happened to the password of an entry since it was last recorded. Times are microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    /// Times of failed attempts, ascending.
    pub failures: Vec<i64>,
    /// Time of the last success, where that is to be recorded.
    pub success: Option<i64>,
    /// Whether a success ended the failures before it.
    pub clears_failures: bool,
    /// Time at which an expired password was used that a grace login is left for.
    pub grace: Option<i64>,
    /// The stored form that a good bind verified, and a stronger one of the same password.
    pub rehashed: Option<(Vec<u8>, Vec<u8>)>,
}

/// Decides what is recorded. `None`: nothing.
///
/// # Errors
/// invalidCredentials where the last grace login was used by another bind; the store failed.
pub(crate) fn decide(
    state: State<'_>,
    id: EntryId,
    update: &AccountUpdate,
    stamp: &Stamp,
    csn: Csn,
) -> Result<Option<Record>> {
    // The entry may be gone by now.
    if state.node(id)?.is_none() {
        return Ok(None);
    }
    let Some(account) = accounts::account(state, id)? else { return Ok(None) };
    let (requester, controls) = (Requester::Anonymous, RequestControls::default());
    let deciding = Deciding { state, requester: &requester, controls: &controls, stamp, csn };
    let mut entry = WorkingEntry::of(state, id)?;
    let catalog = state.catalog;
    let times = |times: Vec<i64>| times.into_iter().map(|time| time_text(time, true).into_bytes());
    if update.clears_failures {
        entry.clear(&description(catalog, FAILURE_TIME)?)?;
        entry.clear(&description(catalog, LOCKED_TIME)?)?;
    }
    if let Some(last) = update.failures.last().copied() {
        let mut failures: Vec<i64> =
            if update.clears_failures { Vec::new() } else { account.counting_failures(last).collect() };
        failures.extend_from_slice(&update.failures);
        failures.sort_unstable();
        failures.dedup();
        let is_locked = account.is_locked(last) && !update.clears_failures;
        if account.locks_at(failures.len()) && !is_locked {
            let since = time_text(last, false).into_bytes();
            entry.set_by_server(&description(catalog, LOCKED_TIME)?, since)?;
        }
        let from = failures.len().saturating_sub(account.policy.failures_kept());
        let kept = failures.split_off(from);
        entry.set_all_by_server(&description(catalog, FAILURE_TIME)?, times(kept))?;
    }
    if let Some(grace) = update.grace {
        let known = description(catalog, GRACE_USE_TIME)?;
        let mut uses = entry.values(&known)?;
        if u32::try_from(uses.len()).unwrap_or(u32::MAX) >= account.policy.grace_limit {
            return Err(OperationError::refused(ResultCode::INVALID_CREDENTIALS, ""));
        }
        uses.extend(times(vec![grace]));
        entry.set_all_by_server(&known, uses)?;
    }
    if let Some(success) = update.success {
        entry.set_by_server(&description(catalog, LAST_SUCCESS)?, time_text(success, false).into_bytes())?;
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
