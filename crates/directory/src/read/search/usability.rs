//! Whether one can bind with the password of a result: the account usability control.
//!
//! It tells what pwdAccountLockedTime and its like tell, so it is for whoever may read that. It is asked for by hand.

use super::selection::Selection;
use crate::accounts::{LOCKED_TIME, account_or_default, description};
use crate::catalog::USER_PASSWORD;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::tree::TreeState;

/// The value of the control, where the entry has a password and the asker may know of its state. `now` is microseconds
/// since 1970.
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
