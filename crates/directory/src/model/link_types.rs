//! Attribute types whose values are links to entries.

use schema::AttributeType;

/// OIDs of the shipped attribute types with link values: member, uniqueMember, owner, manager, secretary, seeAlso,
/// roleOccupant. Values of creatorsName, modifiersName and aliasedObjectName are DNs, too, but stay text.
const LINK_TYPES: [&str; 7] = [
    "2.5.4.31",
    "2.5.4.50",
    "2.5.4.32",
    "0.9.2342.19200300.100.1.10",
    "0.9.2342.19200300.100.1.21",
    "2.5.4.34",
    "2.5.4.33",
];

/// Names of [`LINK_TYPES`], for messages.
pub(crate) const LINK_TYPES_TEXT: &str =
    "member, uniqueMember, owner, manager, secretary, seeAlso, roleOccupant, or a type with X-LINK";

/// Returns true if values of the type are links, because Pando or the schema makes it a link type.
pub fn is_link_type(attribute_type: &AttributeType) -> bool {
    attribute_type.link || LINK_TYPES.contains(&attribute_type.oid.as_str())
}

/// Returns true if values of the type are links because the definition of the type in the schema has `X-LINK`.
pub(crate) fn is_declared_link(attribute_type: &AttributeType) -> bool {
    attribute_type.link && !LINK_TYPES.contains(&attribute_type.oid.as_str())
}
