//! Whether one can bind with the password of each result: the account usability control.
//!
//! It tells what pwdAccountLockedTime and its like tell, so it is for whoever may read that. It is asked for by hand,
//! and put behind a message that is written already. An entry that is too large to be put together in memory has none.

use ldap::{Control, ControlsBuf, oids, response};

use super::selection::Selection;
use crate::accounts::{LOCKED_TIME, account_or_default, description};
use crate::catalog::USER_PASSWORD;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::tree::TreeState;

/// Adds the control to the message of an entry, which begins at `start` and ends `out`, where the entry has a password
/// and the asker may know of its state. `now` is microseconds since 1970.
pub(super) fn put_control(
    out: &mut Vec<u8>,
    start: usize,
    state: TreeState<'_>,
    selection: &Selection,
    id: EntryId,
    now: i64,
) -> Result<(), OperationError> {
    let is_hidden = !selection.permits(description(state.catalog, LOCKED_TIME)?.type_id);
    if is_hidden || !crate::accounts::has_attribute(state, id, USER_PASSWORD)? {
        return Ok(());
    }
    let value = account_or_default(state, id)?.usability(now).encode();
    let control = Control { oid: oids::ACCOUNT_USABILITY, critical: false, value: Some(&value) };
    let controls: ControlsBuf = [control].into_iter().collect();
    response::add_controls(out, start, controls.as_controls());
    Ok(())
}
