//! The assertion control (RFC 4528): a request is carried out only if a filter matches its entry. The filter is
//! evaluated as part of the operation. The writer evaluates the filter of a change on the state on which it decides the
//! change. A search or compare evaluates its filter on its own snapshot. Filter items that the requester may not search
//! are Undefined.

use ldap::ResultCode;

use crate::access::{AllowedValues, EffectiveRights};
use crate::catalog::Catalog;
use crate::filter::{Candidate, InMemory, Matcher, MemberUse, Truth};
use crate::model::access_rule::SEARCH;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::read::controls::RequestControls;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Refuses a request whose assertion does not match an entry of the tree. The requester must be allowed to see the
/// entry.
///
/// # Errors
/// assertionFailed.
#[inline(always)]
pub(crate) fn check_assertion(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    controls: &RequestControls,
    id: EntryId,
) -> Result<()> {
    if controls.seldom.is_none() { Ok(()) } else { check_of_entry(state, rights, controls, id) }
}

#[cold]
#[inline(never)]
fn check_of_entry(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    controls: &RequestControls,
    id: EntryId,
) -> Result<()> {
    let Some(filter) = controls.assertion() else { return Ok(()) };
    let mut term = rights.compiler(state.catalog).compile(filter.as_filter());
    term.find_targets_in(state)?;
    if let Some(at) = rights.at_entry(state, id)? {
        term = AllowedValues { rights: &at, right: SEARCH }.left_of(&term, state.catalog);
    }
    let row = node(state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
    let truth = rights.matcher(MemberUse::Search).truth(&term, state, &Candidate::new(id, row))?;
    if truth == Truth::True { Ok(()) } else { Err(failed()) }
}

/// Refuses a request whose assertion does not match an entry that is not in the tree: an entry to be added, or a
/// virtual entry.
///
/// # Errors
/// assertionFailed.
pub(crate) fn check_assertion_in_memory(
    catalog: &Catalog,
    rights: &EffectiveRights,
    controls: &RequestControls,
    entry: &InMemory<'_>,
) -> Result<()> {
    let Some(filter) = controls.assertion() else { return Ok(()) };
    let term = rights.compiler(catalog).compile(filter.as_filter());
    let truth = Matcher::new(rights.shown()).truth_in_memory(&term, catalog, entry);
    if truth == Truth::True { Ok(()) } else { Err(failed()) }
}

/// Refuses a request that has an assertion but no entry that could match it.
///
/// # Errors
/// assertionFailed.
pub(crate) fn check_no_assertion(controls: &RequestControls) -> Result<()> {
    if controls.assertion().is_none() { Ok(()) } else { Err(failed()) }
}

fn failed() -> OperationError {
    OperationError::refused(
        ResultCode::ASSERTION_FAILED,
        "the assertion that comes with the request (RFC 4528) is not true of the entry",
    )
}
