//! A copy of an entry before or after a change, for the pre-read and post-read controls (RFC 4527).
//!
//! The copy is the result that a search for the entry would return to the requester. The writer builds the copy on the
//! same state on which it decides the change. Thus no other change occurs between the copy and the change.

use ber::{Reader, Tag};
use ldap::{MessageId, ResultCode};

use super::result::ResultWriter;
use super::selection::Selection;
use crate::access::{EffectiveRights, RequestContext};
use crate::filter::{Candidate, MemberUse};
use crate::model::limits::COPY_BYTES_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::read::controls::EntryCopyOptions;
use crate::snapshot::name_cache::NameCache;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the SearchResultEntry of an entry of the tree; `None` if it is hidden.
///
/// # Errors
/// adminLimitExceeded if the copy has more than [`COPY_BYTES_MAX`] octets.
pub(crate) fn copy_of_entry(
    state: TreeState<'_>,
    context: &RequestContext<'_>,
    id: EntryId,
    requested: &EntryCopyOptions,
) -> Result<Option<Vec<u8>>> {
    let rights = EffectiveRights::of(state, context)?;
    let mut selection = Selection::of(requested.selection.as_selection(), state.catalog, rights.shown());
    selection.rights = rights.at_entry(state, id)?;
    if selection.rights.as_ref().is_some_and(|at| !at.may_browse()) {
        return Ok(None);
    }
    let mut writer = ResultWriter::new(MessageId(0), false, selection, rights.groups(MemberUse::Read));
    let row = node(state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
    let mut message = Vec::new();
    let is_whole =
        writer.put_entry(&mut message, state, &mut NameCache::default(), &Candidate::new(id, row))?;
    match entry_in(&message).filter(|entry| is_whole && entry.len() <= COPY_BYTES_MAX) {
        Some(entry) => Ok(Some(entry.to_vec())),
        None => Err(OperationError::refused(
            ResultCode::ADMIN_LIMIT_EXCEEDED,
            format!(
                "the copy of the entry (RFC 4527) would have more than {COPY_BYTES_MAX} octets: ask for fewer \
                 attributes"
            ),
        )),
    }
}

/// Returns the SearchResultEntry in the message of a result.
fn entry_in(message: &[u8]) -> Option<&[u8]> {
    let mut fields = Reader::new(message).sequence(Tag::SEQUENCE).ok()?;
    fields.integer().ok()?;
    fields.any_whole().ok().map(|(_, entry)| entry)
}
