//! Operational attributes that are never stored: made from rows when asked for, usable in filters and compares.
//!
//! memberOf and isMemberOf are `linked` read backwards; the counts come from counters, whatever the size of the tree.

use std::ops::ControlFlow;

use schema::{AttributeType, Schema, TypeId};

use crate::catalog::{Catalog, META_CONTEXT_CSN, meta_key};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, LINKED, META, NodeRow, children_counter, link_key};
use crate::tree::{State, dn_of};

/// DN of the subschema subentry (RFC 4512 section 4.2), of which there is one for the whole server.
pub const SUBSCHEMA_DN: &str = "cn=subschema";

/// An attribute that is made rather than stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualAttribute {
    /// The entry's DN (RFC 5020).
    EntryDn,
    /// The most derived structural object class (RFC 4512 section 3.4.5).
    StructuralObjectClass,
    /// Where the schema is (RFC 4512 section 4.2).
    SubschemaSubentry,
    /// Whether there are entries below (X.501).
    HasSubordinates,
    /// How many entries are one level below.
    NumSubordinates,
    /// Groups that have the entry as member or uniqueMember, in the spelling of OpenLDAP and 389 DS.
    MemberOf,
    /// The same, in the spelling of OpenDJ and its family.
    IsMemberOf,
    /// CSN of the last change in a naming context, on its suffix entry.
    ContextCsn,
}

/// All of them, with the OID of the attribute type.
const ALL: [(VirtualAttribute, &str); 8] = [
    (VirtualAttribute::EntryDn, "1.3.6.1.1.20"),
    (VirtualAttribute::StructuralObjectClass, "2.5.21.9"),
    (VirtualAttribute::SubschemaSubentry, "2.5.18.10"),
    (VirtualAttribute::HasSubordinates, "2.5.18.9"),
    (VirtualAttribute::NumSubordinates, "1.3.1.1.4.1.453.16.2.103"),
    (VirtualAttribute::MemberOf, "1.2.840.113556.1.2.102"),
    (VirtualAttribute::IsMemberOf, "1.3.6.1.4.1.42.2.27.9.1.792"),
    (VirtualAttribute::ContextCsn, "1.3.6.1.4.1.4203.666.1.25"),
];

/// member and uniqueMember: what memberOf reads backwards.
const MEMBER_TYPES: [&str; 2] = ["2.5.4.31", "2.5.4.50"];

impl VirtualAttribute {
    /// The virtual attribute of this type, if it is one.
    pub fn of(attribute_type: &AttributeType) -> Option<VirtualAttribute> {
        let oid = attribute_type.oid.as_str();
        ALL.iter().find(|(_, known)| *known == oid).map(|(attribute, _)| *attribute)
    }

    /// All that the schema defines, with their types.
    pub fn all(schema: &Schema) -> impl Iterator<Item = (VirtualAttribute, TypeId)> {
        ALL.iter().filter_map(|(attribute, oid)| Some((*attribute, schema.attribute_type(oid)?.id)))
    }

    /// Whether it names groups.
    pub fn is_membership(self) -> bool {
        matches!(self, VirtualAttribute::MemberOf | VirtualAttribute::IsMemberOf)
    }

    /// Whether an entry has it.
    pub(crate) fn is_present(
        self,
        state: State<'_>,
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
            VirtualAttribute::ContextCsn => Ok(context_csn(state, node)?.is_some()),
            _ => Ok(true),
        }
    }

    /// Gives the values of an entry one by one, until told to stop. Groups come in ascending entry id.
    pub(crate) fn for_each_value(
        self,
        state: State<'_>,
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
            VirtualAttribute::MemberOf | VirtualAttribute::IsMemberOf => for_each_group(state, id, each)?,
        }
        Ok(())
    }
}

/// The numbers of member and uniqueMember, with any options.
pub(crate) fn member_attributes(catalog: &Catalog) -> impl Iterator<Item = AttrId> {
    MEMBER_TYPES
        .iter()
        .filter_map(|oid| catalog.schema.attribute_type(oid))
        .flat_map(|attribute_type| catalog.attributes_of_type(attribute_type.id))
        .copied()
}

fn for_each_group(
    state: State<'_>,
    id: EntryId,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), OperationError> {
    let mut groups = Vec::new();
    for attribute in member_attributes(state.catalog) {
        state.read.ids(LINKED, &link_key(id, attribute))?.next_block(&mut groups, usize::MAX)?;
    }
    // A group can have the entry as member and as uniqueMember.
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        if let Some(dn) = dn_of(state.read, EntryId(group))?
            && each(dn.as_bytes()).is_break()
        {
            return Ok(());
        }
    }
    Ok(())
}

fn context_csn<'a>(state: State<'a>, node: &NodeRow<'_>) -> Result<Option<&'a [u8]>, OperationError> {
    if node.parent != EntryId::ROOT {
        return Ok(None);
    }
    // The RDN of a suffix entry is the suffix's DN, both rendered by the same function.
    let suffix = match state.catalog.suffixes.as_slice() {
        [suffix] => Some(suffix),
        suffixes => suffixes.iter().find(|suffix| suffix.dn.as_bytes().eq_ignore_ascii_case(node.rdn)),
    };
    let Some(suffix) = suffix else { return Ok(None) };
    Ok(state.read.get(META, &meta_key(META_CONTEXT_CSN, suffix.number))?)
}
