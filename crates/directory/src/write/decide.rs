//! `decide`: converts a request to a record, or refuses it.
//!
//! Access, names, schema, constraints and passwords are all checked here, on the writer. [`crate::write::apply`] cannot
//! refuse the resulting record. `decide` writes nothing, so a refused request has no effect. An operation of a batch
//! sees the earlier operations, because `state` contains their changes.
//!
//! Every operation makes its checks in this order, so that results are consistent:
//!
//! - syntax of names;
//! - the requester's right to try the operation: without this right, the response reveals nothing about entries;
//! - attribute descriptions and values, against the schema;
//! - the target entry, and the requester's right to change it;
//! - the final state of the entry;
//! - name forms and structure rules;
//! - value rules of the settings.

use ldap::{Request, ResultCode};

use crate::access::RequestContext;
use crate::model::csn::Csn;
use crate::model::outcome::OperationError;
use crate::model::record::Record;
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::tree::TreeState;
use crate::write::deciding::Deciding;
use crate::write::{add, delete, modify, modify_dn, next_number, structure_rules, value_rules};

type Result<T> = std::result::Result<T, OperationError>;

/// Checks an add, delete, modify or modify DN request. Returns the record of its effect. Returns `None` if the request
/// succeeds without a change.
///
/// # Errors
/// The reason why the request is refused. Nothing has changed.
pub fn decide(
    state: TreeState<'_>,
    context: &RequestContext<'_>,
    request: &Request<'_>,
    controls: &RequestControls,
    stamp: &Stamp,
    csn: Csn,
) -> Result<Option<Record>> {
    let deciding = Deciding { state, context, controls, stamp, csn };
    if !state.catalog.next_numbers.is_empty()
        && let Some(numbered) = next_number::number(state, request, false)?
    {
        let decided = decide_numbered(deciding, &numbered.request());
        // The search for a free number examines many numbers, so this search is made only if the requester has the
        // right to the change.
        if !numbered.is_placeholder || decided.as_ref().is_err_and(OperationError::is_about_rights) {
            return decided;
        }
        if let Some(numbered) = next_number::number(state, request, true)? {
            return decide_numbered(deciding, &numbered.request());
        }
    }
    decide_numbered(deciding, request)
}

/// Checks a request whose `{next}` values were replaced by numbers. Returns the record of its effect.
fn decide_numbered(deciding: Deciding<'_>, request: &Request<'_>) -> Result<Option<Record>> {
    let record = match request {
        Request::Add(request) => add::decide(deciding, request).map(Some)?,
        Request::Delete(request) => return delete::decide(deciding, request).map(Some),
        Request::Modify(request) => modify::decide(deciding, request)?,
        Request::ModifyDn(request) => modify_dn::decide(deciding, request)?,
        Request::Bind(_)
        | Request::Unbind
        | Request::Search(_)
        | Request::Compare(_)
        | Request::Abandon(_)
        | Request::Extended(_) => {
            let what = "this request changes nothing";
            return Err(OperationError::refused(ResultCode::OPERATIONS_ERROR, what));
        }
    };
    if let Some(record) = &record {
        structure_rules::check(deciding, record)?;
        value_rules::check(deciding, record)?;
    }
    Ok(record)
}
