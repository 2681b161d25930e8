//! What is on record of a password, for those who look after it: the Password Policy State extended operation without
//! changes. Those are [`write::password_state`](crate::write::password_state)'s.

use ldap::StateRequest;

use crate::access::Requester;
use crate::accounts::managed::ManagedAccount;
use crate::model::outcome::Outcome;
use crate::snapshot::Snapshot;

/// The response's value. `now` is microseconds since 1970.
///
/// # Errors
/// The outcome to answer with.
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
