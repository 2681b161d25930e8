//! Operational attributes that are never stored but computed from rows on demand. Filters and compares can use them.
//!
//! memberOf and isMemberOf are derived from `linked`; isMemberOf includes nested groups. Numbers of subordinates are
//! read from counters, so reading them has a cost that does not depend on the size of the tree.

use std::ops::ControlFlow;

use ldap::ResultCode;
use schema::AttributeType;

use crate::catalog::{Catalog, META_CONTEXT_CSN, VirtualAttribute, meta_key};
use crate::model::entry::{AttributeRow, Content};
use crate::model::limits::REQUESTER_GROUPS_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, LINKED, META, NodeRow, children_counter, link_key};
use crate::model::virtual_entries::SUBSCHEMA_DN;
use crate::tree::structure::governing_rule;
use crate::tree::{TreeState, dn_of, entry_row};

/// OIDs of member and uniqueMember, from which memberOf is derived.
const MEMBER_TYPES: [&str; 2] = ["2.5.4.31", "2.5.4.50"];

impl VirtualAttribute {
    /// Returns true if the values are groups and include nested groups: groups that contain another group of the entry.
    pub(crate) fn is_nested(self, state: TreeState<'_>) -> bool {
        match self {
            VirtualAttribute::IsMemberOf => true,
            VirtualAttribute::MemberOf => state.settings.general.nested_member_of,
            _ => false,
        }
    }

    /// Returns true if an entry has the attribute. Only groups with the entry as a stored member are considered. For
    /// the ends (expiration times) of values, returns false, because these ends depend on the requester.
    pub(crate) fn is_present(
        self,
        state: TreeState<'_>,
        id: EntryId,
        node: &NodeRow<'_>,
    ) -> Result<bool, OperationError> {
        match self {
            VirtualAttribute::MemberOf | VirtualAttribute::IsMemberOf => {
                for attribute in member_attributes(state.catalog) {
                    if state.read.ids(LINKED, &link_key(id, attribute))?.estimate() > 0 {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            VirtualAttribute::StructuralObjectClass => {
                Ok(state.catalog.class_set(node.class_set).structural.is_some())
            }
            VirtualAttribute::GoverningStructureRule => Ok(governing_rule(state, id)?.is_some()),
            VirtualAttribute::ContextCsn => Ok(context_csn(state, node)?.is_some()),
            VirtualAttribute::ValueEnd | VirtualAttribute::MembershipEnd => Ok(false),
            _ if self.is_only_returned() => Ok(false),
            _ => Ok(true),
        }
    }

    /// Calls `each` with each value of an entry until `each` breaks. Groups are in the order of their entry ids. Only
    /// groups with the entry as a stored member are included.
    pub(crate) fn for_each_value(
        self,
        state: TreeState<'_>,
        id: EntryId,
        node: &NodeRow<'_>,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), OperationError> {
        match self {
            VirtualAttribute::EntryDn => {
                if let Some(dn) = dn_of(state.read, id)? {
                    let _ = each(dn.as_bytes());
                }
            }
            VirtualAttribute::StructuralObjectClass => {
                if let Some(class) = state.catalog.class_set(node.class_set).structural {
                    let _ = each(state.catalog.schema.class_by_id(class).name().as_bytes());
                }
            }
            VirtualAttribute::GoverningStructureRule => {
                if let Some(rule) = governing_rule(state, id)? {
                    let _ = each(rule.to_string().as_bytes());
                }
            }
            VirtualAttribute::SubschemaSubentry => {
                let _ = each(SUBSCHEMA_DN.as_bytes());
            }
            VirtualAttribute::HasSubordinates => {
                let has_any = state.read.count(&children_counter(id))? > 0;
                let _ = each(if has_any { b"TRUE" } else { b"FALSE" });
            }
            VirtualAttribute::NumSubordinates => {
                let _ = each(state.read.count(&children_counter(id))?.to_string().as_bytes());
            }
            VirtualAttribute::ContextCsn => {
                if let Some(csn) = context_csn(state, node)? {
                    let _ = each(csn);
                }
            }
            VirtualAttribute::EntryTtl
            | VirtualAttribute::ValueEnd
            | VirtualAttribute::MembershipEnd
            | VirtualAttribute::CollectiveAttributeSubentries => {}
            VirtualAttribute::EntryUsn => {
                let _ = each(entry_row(state.read, id)?.position.to_string().as_bytes());
            }
            VirtualAttribute::MemberOf | VirtualAttribute::IsMemberOf => {
                for_each_group(state, (id, self.is_nested(state)), &[], &mut |_, _| Ok(true), each)?;
            }
        }
        Ok(())
    }
}

/// Name of the attribute with the expiration time of a dynamic entry, as in OpenLDAP.
pub(crate) const EXPIRE_TIME: &str = "entryExpireTimestamp";

/// Returns the number of whole seconds until a dynamic entry expires; `None` if the entry does not expire.
pub(crate) fn seconds_left(
    state: TreeState<'_>,
    (id, node): (EntryId, &NodeRow<'_>),
    now_micros: i64,
) -> Result<Option<i64>, OperationError> {
    let (catalog, schema) = (state.catalog, &state.catalog.schema);
    let known = schema.attribute_type(EXPIRE_TIME).and_then(|known| catalog.attribute_id(known.id, ""));
    let Some(attribute) = known.filter(|_| catalog.class_set(node.class_set).is_dynamic) else {
        return Ok(None);
    };
    let entry = entry_row(state.read, id)?;
    let Some(AttributeRow { content: Content::Inline(values), .. }) = entry.find(attribute) else {
        return Ok(None);
    };
    let time = values.iter().find_map(|value| schema::generalized_micros(value.here()?));
    Ok(time.map(|time| ((time - now_micros) / 1_000_000).max(0)))
}

/// Returns true if values of a type are members of a group.
pub(crate) fn is_member_type(attribute_type: &AttributeType) -> bool {
    MEMBER_TYPES.contains(&attribute_type.oid.as_str())
}

/// Returns the numbers of member and uniqueMember, with any options.
pub(crate) fn member_attributes(catalog: &Catalog) -> impl Iterator<Item = AttrId> {
    MEMBER_TYPES
        .iter()
        .filter_map(|oid| catalog.schema.attribute_type(oid))
        .flat_map(|attribute_type| catalog.stored_attributes_of_type(attribute_type.id))
        .copied()
}

/// Callback that returns true if a group may be shown as a group of its member. The arguments are the group and the
/// attribute that contains the member.
pub(crate) type ShowsGroup<'f> = dyn FnMut(EntryId, AttrId) -> Result<bool, OperationError> + 'f;

/// Calls `each` with the DN of each group that contains the entry, and of each group in `described`, until `each`
/// breaks. The groups are in the order of their entry ids. Groups that `shows` rejects are skipped. If nested groups
/// are included, groups that contain the entry only through a skipped group are skipped too.
pub(crate) fn for_each_group(
    state: TreeState<'_>,
    (id, is_nested): (EntryId, bool),
    described: &[u64],
    shows: &mut ShowsGroup<'_>,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), OperationError> {
    let groups = match is_nested {
        false => {
            let mut groups = direct_groups(state, id, usize::MAX, shows)?;
            if !described.is_empty() {
                groups.extend_from_slice(described);
                groups.sort_unstable();
                groups.dedup();
            }
            groups
        }
        true => nested_groups(state, id, described, shows)?.ok_or_else(|| {
            let text =
                format!("the entry is in more than {REQUESTER_GROUPS_MAX} groups, nested ones included");
            OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, text)
        })?,
    };
    for group in groups {
        if let Some(dn) = dn_of(state.read, EntryId(group))?
            && each(dn.as_bytes()).is_break()
        {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the groups that have the entry as a direct member, ascending; at most `max` for each attribute.
fn direct_groups(
    state: TreeState<'_>,
    id: EntryId,
    max: usize,
    shows: &mut ShowsGroup<'_>,
) -> Result<Vec<u64>, OperationError> {
    let mut groups = Vec::new();
    for attribute in member_attributes(state.catalog) {
        let mut by_this = Vec::new();
        state.read.ids(LINKED, &link_key(id, attribute))?.next_block(&mut by_this, max)?;
        for group in by_this {
            if shows(EntryId(group), attribute)? {
                groups.push(group);
            }
        }
    }
    // A group may list the entry both in member and in uniqueMember.
    groups.sort_unstable();
    groups.dedup();
    Ok(groups)
}

/// Returns the groups of an entry, direct and nested, ascending; `None` if there are more than
/// [`REQUESTER_GROUPS_MAX`]. `described` contains further groups of which the entry is a direct member, ascending.
pub(crate) fn nested_groups(
    state: TreeState<'_>,
    id: EntryId,
    described: &[u64],
    shows: &mut ShowsGroup<'_>,
) -> Result<Option<Vec<u64>>, OperationError> {
    let (mut all, mut new) = (described.to_vec(), described.to_vec());
    new.push(id.0);
    while let Some(member) = new.pop() {
        for group in direct_groups(state, EntryId(member), REQUESTER_GROUPS_MAX + 1, shows)? {
            if let Err(place) = all.binary_search(&group) {
                all.insert(place, group);
                new.push(group);
            }
        }
        if all.len() > REQUESTER_GROUPS_MAX {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

fn context_csn<'a>(state: TreeState<'a>, node: &NodeRow<'_>) -> Result<Option<&'a [u8]>, OperationError> {
    if node.parent != EntryId::ROOT {
        return Ok(None);
    }
    // A suffix entry stores its whole DN as its RDN, in the same form as `catalog.suffixes`.
    let suffix = match state.catalog.suffixes.as_slice() {
        [suffix] => Some(suffix),
        suffixes => suffixes.iter().find(|suffix| suffix.dn.as_bytes().eq_ignore_ascii_case(node.rdn)),
    };
    let Some(suffix) = suffix else { return Ok(None) };
    Ok(state.read.get(META, &meta_key(META_CONTEXT_CSN, suffix.number))?)
}
