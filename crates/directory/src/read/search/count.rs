//! Searches that return the number of their results in place of the results (Search No-Op of OpenLDAP, Matching Entry
//! Count of UnboundID).
//!
//! The search writes each result as usual, but with only its name. This module counts the written results and drops
//! them. Thus access rules and limits apply to the count in the same way as to results.

use ldap::{Control, ControlsBuf, ResultCode, encode_entry_count, encode_search_no_op, oids};

use crate::model::outcome::OperationError;
use crate::read::controls::{CountKind, RequestControls};

/// BER tag of a SearchResultReference.
const REFERENCE: u8 = 0x73;

/// Numbers of results so far.
#[derive(Debug)]
pub(super) struct Count {
    kind: CountKind,
    entries: u64,
    references: u64,
}

impl Count {
    /// Returns an empty count if the controls request one; `None` if the search returns its results.
    ///
    /// # Errors
    /// unwillingToPerform if another control divides the results into parts or requests later changes.
    pub(super) fn of(controls: &RequestControls) -> Result<Option<Box<Count>>, OperationError> {
        let Some(kind) = controls.count() else { return Ok(None) };
        let has_parts = controls.page().is_some() || controls.window().is_some();
        if has_parts || controls.sync().is_some() || controls.persistent().is_some() {
            let text = "a search that counts has no pages, no list view, and no later changes";
            return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
        }
        Ok(Some(Box::new(Count { kind, entries: 0, references: 0 })))
    }

    /// Counts the results after `start`, and removes them.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, start: usize) {
        let mut rest = out.get(start..).unwrap_or_default();
        while let Ok(Some(size)) = ldap::frame_len(rest)
            && let Some((message, others)) = rest.split_at_checked(size)
        {
            match ldap::operation_of(message) {
                Some(tag) if tag.0 == REFERENCE => self.references += 1,
                _ => self.entries += 1,
            }
            rest = others;
        }
        out.truncate(start);
    }

    /// Adds the response control, unless the search failed for a reason other than the size limit or the time limit.
    /// A search with a hidden base or a missing base fails and receives no control, so the two responses are equal.
    pub(super) fn put(&self, code: ResultCode, controls: &mut ControlsBuf) {
        if ![ResultCode::SUCCESS, ResultCode::SIZE_LIMIT_EXCEEDED, ResultCode::TIME_LIMIT_EXCEEDED]
            .contains(&code)
        {
            return;
        }
        let (oid, value) = match self.kind {
            CountKind::SearchNoOp => {
                (oids::SEARCH_NO_OP, encode_search_no_op(code, self.entries, self.references))
            }
            // After an early end, the count is not the number of matching entries.
            CountKind::MatchingEntries if code != ResultCode::SUCCESS => return,
            CountKind::MatchingEntries => (oids::ENTRY_COUNT_RESPONSE, encode_entry_count(self.entries)),
        };
        controls.push(Control { oid, critical: false, value: Some(&value) });
    }
}
