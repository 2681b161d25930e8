//! Visibility of groups, and of links from other entries, to a requester.

use std::sync::Arc;

use super::Term;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId};
use crate::tree::TreeState;

/// A requester's view of groups for memberOf, and the purpose for which the members of groups are used.
#[derive(Clone, Debug)]
pub(crate) struct GroupsOf {
    pub(crate) view: Arc<dyn Memberships>,
    pub(crate) by: MemberUse,
}

/// Purpose for which a group's members are used. The purpose determines the right that the requester needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberUse {
    Compare,
    Search,
    Read,
}

/// Visibility of memberships to a requester.
pub(crate) trait Memberships: std::fmt::Debug + Send + Sync {
    /// Returns true if the requester may use the members in an attribute of a group for the purpose `by`.
    ///
    /// # Errors
    /// The store failed.
    fn shows_member(
        &self,
        state: TreeState<'_>,
        place: (EntryId, AttrId),
        by: MemberUse,
    ) -> Result<bool, OperationError>;

    /// Returns the part of a filter that the requester may test at an entry; `None` if the entry is hidden.
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
