//! Allocations: the definitions, in records and in `meta`, of the numbers by which rows refer to attributes and class
//! sets.

use schema::{AttributeDescription, AttributeType, MatchingRule, Schema};

use crate::model::codec::{Decoder, put_bytes, put_list, put_varint};
use crate::model::link_types::is_declared_link;
use crate::model::open_error::OpenError;
use crate::model::rows::{AttrId, ClassSetId};

/// Definition of an attribute number in a record and in `meta`. The definition names the type by OID, not by schema
/// number, and contains the rules that determine the normal forms of the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeAllocation {
    /// Number allocated to the attribute.
    pub id: AttrId,
    /// OID of the type.
    pub oid: String,
    /// Options in lower case, sorted and joined by `;`.
    pub options: String,
    /// Syntax and matching rules that determine normal forms, and `link` if the schema defines the type with `X-LINK`.
    /// Empty if the type was removed from the schema.
    pub rules: String,
}

impl AttributeAllocation {
    /// Returns the allocation of the number `id` to `description`.
    pub fn of(id: AttrId, description: &AttributeDescription, schema: &Schema) -> AttributeAllocation {
        let attribute_type = schema.type_by_id(description.type_id);
        AttributeAllocation {
            id,
            oid: attribute_type.oid.clone(),
            options: description.options.to_string(),
            rules: rules_of(attribute_type, schema),
        }
    }

    /// Returns true if the values are links because the schema defines the type with `X-LINK`. Returns false for a type
    /// that Pando itself defines as a link type.
    pub(crate) fn is_declared_link(&self) -> bool {
        self.rules.ends_with(LINK_MARK)
    }

    /// Returns the allocation of an attribute whose values stay plain text, even if the type has received `X-LINK`
    /// later.
    pub(crate) fn plain(mut self) -> AttributeAllocation {
        if let Some(rules) = self.rules.strip_suffix(LINK_MARK) {
            self.rules = rules.to_owned();
        }
        self
    }

    /// Returns true if the type was removed from the schema. No entry can then have the attribute.
    pub fn is_retired(&self) -> bool {
        self.rules.is_empty()
    }

    /// Checks that the type is missing from the schema because an administrator removed it.
    ///
    /// # Errors
    /// The type was not removed, so its definition is missing by mistake.
    pub(crate) fn checked_retired(&self) -> Result<(), OpenError> {
        match self.is_retired() {
            true => Ok(()),
            false => Err(OpenError::MissingDefinition { what: "attribute type", oid: self.oid.clone() }),
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id.0));
        put_bytes(out, self.oid.as_bytes());
        put_bytes(out, self.options.as_bytes());
        put_bytes(out, self.rules.as_bytes());
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Option<AttributeAllocation> {
        Some(AttributeAllocation {
            id: AttrId(decoder.number()?),
            oid: decoder.string()?,
            options: decoder.string()?,
            rules: decoder.string()?,
        })
    }
}

/// Definition of a class set number in a record and in `meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSetAllocation {
    /// Number allocated to the class set.
    pub id: ClassSetId,
    /// OIDs of the classes, ascending. The last OID is empty if a class was removed from the schema.
    pub oids: Vec<String>,
}

impl ClassSetAllocation {
    /// Returns true if one of the classes was removed from the schema. No entry can then have the class set.
    pub fn is_retired(&self) -> bool {
        self.oids.last().is_some_and(String::is_empty)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.id.0));
        put_list(out, &self.oids, |out, oid| put_bytes(out, oid.as_bytes()));
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Option<ClassSetAllocation> {
        Some(ClassSetAllocation { id: ClassSetId(decoder.number()?), oids: decoder.list(Decoder::string)? })
    }
}

/// End of `rules` if the schema defines the type with `X-LINK`.
const LINK_MARK: &str = " link";

/// Returns the syntax and matching rules of a type as one text. When the data is opened, this text is compared with
/// the stored text.
pub(crate) fn rules_of(attribute_type: &AttributeType, schema: &Schema) -> String {
    let rule = |rule: Option<MatchingRule>| rule.map_or("-", MatchingRule::oid);
    format!(
        "{} {} {}{}",
        schema.syntax_by_id(attribute_type.syntax).oid,
        rule(attribute_type.equality),
        rule(attribute_type.ordering),
        if is_declared_link(attribute_type) { LINK_MARK } else { "" }
    )
}
