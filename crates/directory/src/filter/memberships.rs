//! Groups and links of other entries that a requester may see: the right that a test of them requires.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::catalog::VirtualAttribute;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, NodeRow};
use crate::tree::TreeState;
use crate::tree::operational::for_each_group;

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

    /// Calls `each` with the DN of each visible group that contains the entry, and of the visible groups of these if
    /// nested ones are included.
    pub(crate) fn for_each(
        &self,
        state: TreeState<'_>,
        of: (EntryId, bool),
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), OperationError> {
        for_each_group(state, of, &mut |group, member| self.shows(state, group, member), each)
    }
}

/// Calls `each` with the values of a virtual attribute of an entry that the requester may see, until it breaks. Without
/// `groups`, no access rule hides any.
pub(crate) fn for_each_visible(
    state: TreeState<'_>,
    attribute: VirtualAttribute,
    groups: Option<&GroupsOf>,
    (id, node): (EntryId, &NodeRow<'_>),
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), OperationError> {
    match groups {
        Some(groups) if attribute.is_membership() => {
            groups.for_each(state, (id, attribute.is_nested(state)), each)
        }
        _ => attribute.for_each_value(state, id, node, each),
    }
}
