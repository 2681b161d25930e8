//! The assertion control (RFC 4528): a request is carried out only if a filter is true of its entry. The filter is
//! evaluated as part of the operation: for changes by the writer, on the state on which it decides; for searches and
//! compares on their snapshot. Items that the requester may not search are Undefined.

use std::sync::Arc;

use ldap::ResultCode;

use super::permitted::ValuesAllowed;
use crate::access::{Access, RequestContext, Standing};
use crate::filter::{Candidate, Compiler, GroupsOf, InMemory, Matcher, MemberUse, Truth};
use crate::model::access_rule::SEARCH;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::read::controls::RequestControls;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Refuses a request whose assertion is not true of an entry of the tree, which the requester is known to see.
///
/// # Errors
/// assertionFailed.
#[inline(always)]
pub(crate) fn check_assertion(
    state: TreeState<'_>,
    context: &RequestContext<'_>,
    controls: &RequestControls,
    id: EntryId,
) -> Result<()> {
    if controls.seldom.is_none() { Ok(()) } else { check_of_entry(state, context, controls, id) }
}

/// Refuses a search whose assertion is not true of its base, named `dn` in the request. A hidden base is treated as
/// missing even if an entry below it is visible: otherwise assertions would reveal its values.
///
/// # Errors
/// assertionFailed; noSuchObject in the words of [`Standing::hidden`].
#[inline(always)]
pub(super) fn check_assertion_of_base(
    state: TreeState<'_>,
    context: &RequestContext<'_>,
    controls: &RequestControls,
    (base, dn): (EntryId, &str),
) -> Result<()> {
    if controls.seldom.is_none() { Ok(()) } else { check_of_base(state, context, controls, (base, dn)) }
}

#[cold]
#[inline(never)]
fn check_of_base(
    state: TreeState<'_>,
    context: &RequestContext<'_>,
    controls: &RequestControls,
    (base, dn): (EntryId, &str),
) -> Result<()> {
    if controls.assertion().is_none() || base == EntryId::ROOT {
        return check_no_assertion(controls);
    }
    if let Some(standing) = Standing::of(state, context)?
        && !standing.at_entry(state, base)?.may_browse()
    {
        return Err(standing.hidden(state, dn, Some(base))?);
    }
    check_of_entry(state, context, controls, base)
}

#[cold]
#[inline(never)]
fn check_of_entry(
    state: TreeState<'_>,
    context: &RequestContext<'_>,
    controls: &RequestControls,
    id: EntryId,
) -> Result<()> {
    let Some(filter) = controls.assertion() else { return Ok(()) };
    let shown = Access::of(context.requester, state.settings).shown();
    let mut term = Compiler { catalog: state.catalog, shown, known: None }.compile(filter.as_filter());
    term.find_targets_in(state)?;
    let standing = Standing::of(state, context)?.map(Arc::new);
    if let Some(standing) = &standing {
        let rights = standing.at_entry(state, id)?;
        term = ValuesAllowed { rights: &rights, right: SEARCH }.left_of(&term, state.catalog);
    }
    let groups = standing.map(|standing| GroupsOf { view: standing as _, by: MemberUse::Search });
    let row = node(state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
    let truth = Matcher::under(shown, groups).truth(&term, state, &Candidate::new(id, row))?;
    if truth == Truth::True { Ok(()) } else { Err(failed()) }
}

/// Refuses a request whose assertion is not true of an entry outside the tree: one to be added, or a virtual one.
///
/// # Errors
/// assertionFailed.
pub(crate) fn check_assertion_in_memory(
    state: TreeState<'_>,
    access: Access,
    controls: &RequestControls,
    entry: &InMemory<'_>,
) -> Result<()> {
    let Some(filter) = controls.assertion() else { return Ok(()) };
    let compiler = Compiler { catalog: state.catalog, shown: access.shown(), known: None };
    let term = compiler.compile(filter.as_filter());
    let truth = Matcher::new(access.shown()).truth_in_memory(&term, state.catalog, entry);
    if truth == Truth::True { Ok(()) } else { Err(failed()) }
}

/// Refuses a request with an assertion, because it has no entry.
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
