//! The account usability control reports whether the password of a result can be used to bind.
//!
//! The control reveals as much as pwdAccountLockedTime and similar attributes, so only requesters who may read these
//! attributes receive it. A search returns the control only if the request contains it.

use super::selection::Selection;
use crate::accounts::{LOCKED_TIME, account_or_default, description};
use crate::catalog::USER_PASSWORD;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::tree::TreeState;

/// Returns the value of the control if the entry has a password and the requester may read the account state. `now` is
/// in microseconds since 1970.
pub(super) fn value(
    state: TreeState<'_>,
    selection: &Selection,
    id: EntryId,
    now: i64,
) -> Result<Option<Vec<u8>>, OperationError> {
    let is_hidden = !selection.permits(description(state.catalog, LOCKED_TIME)?.type_id);
    if is_hidden || !crate::accounts::has_attribute(state, id, USER_PASSWORD)? {
        return Ok(None);
    }
    Ok(Some(account_or_default(state, id)?.usability(now).encode()))
}
