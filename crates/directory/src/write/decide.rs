//! `decide`: from a request to a record, or a refusal.
//!
//! Access, names, schema, constraints and passwords are all looked at here, once, on the writer. What comes out is an
//! effect that [`crate::write::apply`] cannot refuse. Nothing is written, so a refused request leaves no trace, and an
//! operation inside a batch sees those before it because `state` does.
//!
//! Every operation checks in the same order, so that answers do not depend on accidents: syntax of names, the right to
//! try at all (whoever has none learns nothing about entries), descriptions and values against the schema, the target,
//! the right to change it, the entry's final state.

use ldap::{Request, ResultCode};

use crate::access::Requester;
use crate::model::csn::Csn;
use crate::model::outcome::OperationError;
use crate::model::record::Record;
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::tree::TreeState;
use crate::write::deciding::Deciding;
use crate::write::{add, delete, modify, modify_dn};

type Result<T> = std::result::Result<T, OperationError>;

/// Decides an add, delete, modify or modify DN request. `None` means success without anything to change.
///
/// # Errors
/// Why the request is refused; nothing has changed then.
pub fn decide(
    state: TreeState<'_>,
    requester: &Requester,
    request: &Request<'_>,
    controls: &RequestControls,
    stamp: &Stamp,
    csn: Csn,
) -> Result<Option<Record>> {
    let deciding = Deciding { state, requester, controls, stamp, csn };
    match request {
        Request::Add(request) => add::decide(deciding, request).map(Some),
        Request::Delete(request) => delete::decide(deciding, request).map(Some),
        Request::Modify(request) => modify::decide(deciding, request),
        Request::ModifyDn(request) => modify_dn::decide(deciding, request),
        Request::Bind(_)
        | Request::Unbind
        | Request::Search(_)
        | Request::Compare(_)
        | Request::Abandon(_)
        | Request::Extended(_) => {
            Err(OperationError::refused(ResultCode::OPERATIONS_ERROR, "this request changes nothing"))
        }
    }
}
