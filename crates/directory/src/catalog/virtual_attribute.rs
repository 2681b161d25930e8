//! Virtual attributes: operational attributes that are computed when requested. The module `tree` computes their
//! values.

use schema::{AttributeType, Schema, TypeId};

/// An attribute that is computed rather than stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualAttribute {
    /// The entry's DN (RFC 5020).
    EntryDn,
    /// The most derived structural object class (RFC 4512 section 3.4.5).
    StructuralObjectClass,
    /// Number of the DIT structure rule that governs the entry (RFC 4512 section 3.4.6).
    GoverningStructureRule,
    /// DN of the subschema subentry (RFC 4512 section 4.2).
    SubschemaSubentry,
    /// Whether the entry has subordinates (X.501).
    HasSubordinates,
    /// Number of entries one level below.
    NumSubordinates,
    /// Groups that have the entry as member or uniqueMember. OpenLDAP and 389 DS use the same name.
    MemberOf,
    /// Groups that have the entry as member or uniqueMember directly or through other groups, as in OpenDJ.
    IsMemberOf,
    /// CSN of the last change in a naming context, on its suffix entry.
    ContextCsn,
    /// Log position of the last change of the entry. 389 DS uses the same name.
    EntryUsn,
    /// Seconds until a dynamic entry expires (RFC 2589). Only search results contain this attribute, because its value
    /// depends on the clock.
    EntryTtl,
    /// End times of the values of the entry's link attributes.
    ValueEnd,
    /// End times of the links that name the entry, such as its memberships.
    MembershipEnd,
    /// Subentries that give the entry collective attributes (RFC 3671). Only search results contain this attribute,
    /// because its values depend on the requester.
    CollectiveAttributeSubentries,
}

/// All virtual attributes, each with the OID of its attribute type.
const ALL: [(VirtualAttribute, &str); 14] = [
    (VirtualAttribute::EntryDn, "1.3.6.1.1.20"),
    (VirtualAttribute::StructuralObjectClass, "2.5.21.9"),
    (VirtualAttribute::GoverningStructureRule, "2.5.21.10"),
    (VirtualAttribute::SubschemaSubentry, "2.5.18.10"),
    (VirtualAttribute::HasSubordinates, "2.5.18.9"),
    (VirtualAttribute::NumSubordinates, "1.3.1.1.4.1.453.16.2.103"),
    (VirtualAttribute::MemberOf, "1.2.840.113556.1.2.102"),
    (VirtualAttribute::IsMemberOf, "1.3.6.1.4.1.42.2.27.9.1.792"),
    (VirtualAttribute::ContextCsn, "1.3.6.1.4.1.4203.666.1.25"),
    (VirtualAttribute::EntryUsn, "2.16.840.1.113730.3.1.606"),
    (VirtualAttribute::EntryTtl, "1.3.6.1.4.1.1466.101.119.3"),
    (VirtualAttribute::ValueEnd, "1.3.6.1.4.1.99999.1.180"),
    (VirtualAttribute::MembershipEnd, "1.3.6.1.4.1.99999.1.181"),
    (VirtualAttribute::CollectiveAttributeSubentries, "2.5.18.12"),
];

impl VirtualAttribute {
    /// Returns the virtual attribute that this type denotes, if any.
    pub fn of(attribute_type: &AttributeType) -> Option<VirtualAttribute> {
        let oid = attribute_type.oid.as_str();
        ALL.iter().find(|(_, known)| *known == oid).map(|(attribute, _)| *attribute)
    }

    /// Returns all virtual attributes that the schema defines, each with its type.
    pub fn all(schema: &Schema) -> impl Iterator<Item = (VirtualAttribute, TypeId)> {
        ALL.iter().filter_map(|(attribute, oid)| Some((*attribute, schema.attribute_type(oid)?.id)))
    }

    /// Returns true if `+` selects the attribute. entryUSN must be requested by name, as in 389 DS, because it depends
    /// on all changes of the directory.
    pub(crate) fn is_of_all_operational(self) -> bool {
        self != VirtualAttribute::EntryUsn
    }

    /// Returns true if only search results contain the attribute. Filters and compares treat it as absent.
    pub(crate) fn is_only_returned(self) -> bool {
        matches!(self, VirtualAttribute::EntryTtl | VirtualAttribute::CollectiveAttributeSubentries)
    }

    /// Returns true if each value begins with the end time of a link. Filters compare this end time.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, VirtualAttribute::ValueEnd | VirtualAttribute::MembershipEnd)
    }

    /// Returns true if the values are the groups of an entry.
    pub fn is_membership(self) -> bool {
        matches!(self, VirtualAttribute::MemberOf | VirtualAttribute::IsMemberOf)
    }
}

/// Returns true if values of a type reveal the number of an entry's subordinates. The subordinates may include entries
/// that the requester may not see.
pub(crate) fn counts_entries(schema: &Schema, type_id: TypeId) -> bool {
    matches!(
        VirtualAttribute::of(schema.type_by_id(type_id)),
        Some(VirtualAttribute::HasSubordinates | VirtualAttribute::NumSubordinates)
    )
}
