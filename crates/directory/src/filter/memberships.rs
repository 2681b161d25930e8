//! Groups and links of other entries that a requester may see: the right that a test of them requires.

use std::sync::Arc;

use super::Term;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId};
use crate::tree::TreeState;

/// View of groups for memberOf, with the right to members that it requires.
#[derive(Clone, Debug)]
pub(crate) struct GroupsOf {
    pub(crate) view: Arc<dyn Memberships>,
    pub(crate) by: MemberUse,
}

/// Use of a group's members.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberUse {
    Compare,
    Search,
    Read,
}

/// Visibility of memberships to a requester.
pub(crate) trait Memberships: std::fmt::Debug + Send + Sync {
    /// Returns true if the members in an attribute of a group are visible.
    ///
    /// # Errors
    /// The store failed.
    fn shows_member(
        &self,
        state: TreeState<'_>,
        place: (EntryId, AttrId),
        by: MemberUse,
    ) -> Result<bool, OperationError>;

    /// Returns the part of a filter that the requester may search by at an entry; `None` if the entry is hidden.
    ///
    /// # Errors
    /// The store failed.
    fn permitted(
        &self,
        state: TreeState<'_>,
        entry: EntryId,
        filter: &Term,
    ) -> Result<Option<Term>, OperationError>;
}

impl GroupsOf {
    pub(super) fn shows(
        &self,
        state: TreeState<'_>,
        group: EntryId,
        member: AttrId,
    ) -> Result<bool, OperationError> {
        self.view.shows_member(state, (group, member), self.by)
    }
}
