//! The read form of the Password Policy State extended operation: it reports the account state to administrators.
//! [`write::password_state`](crate::write::password_state) handles changes.

use ldap::StateRequest;

use crate::access::Requester;
use crate::accounts::managed::ManagedAccount;
use crate::model::outcome::Outcome;
use crate::snapshot::Snapshot;

/// Returns the value of the response. `now` is in microseconds since 1970.
///
/// # Errors
/// The outcome to send.
pub fn password_state(
    snapshot: &Snapshot,
    requester: &Requester,
    request: &StateRequest<'_>,
    now: i64,
) -> Result<Vec<u8>, Outcome> {
    let state = snapshot.state();
    let answer = || {
        let account = ManagedAccount::find(state, requester, request.user)?;
        account.check(state, request)?;
        account.answer(state, request, now)
    };
    answer().map_err(Outcome::from)
}
