//! DIT content rules, name forms and structure rules (RFC 4512 sections 4.1.6 and 4.1.7), resolved.
//!
//! This crate parses, checks and publishes the rules; the directory enforces them. A name form applies to the entries
//! of its class even if no structure rule uses it, as in OpenDJ.

use crate::{ClassId, TypeId};

/// DIT content rule: the auxiliary classes and additional attributes that entries of one structural class may have (RFC
/// 4512 section 4.1.6).
#[derive(Debug, Clone)]
pub struct ContentRule {
    /// The structural class to which the rule applies.
    pub class: ClassId,
    /// Whether the rule is obsolete and not enforced.
    pub obsolete: bool,
    /// Allowed auxiliary classes.
    pub auxiliary: Vec<ClassId>,
    /// Required attributes, in addition to those of the classes.
    pub must: Vec<TypeId>,
    /// Allowed attributes, in addition to those of the classes.
    pub may: Vec<TypeId>,
    /// Attributes that are precluded although a class allows them.
    pub not: Vec<TypeId>,
    /// The definition in RFC 4512 notation.
    pub definition: String,
}

/// Name form: the naming attributes of entries of one structural class (RFC 4512 section 4.1.7.2).
#[derive(Debug, Clone)]
pub struct NameForm {
    /// Numeric OID as text.
    pub oid: String,
    /// Short names.
    pub names: Vec<String>,
    /// The structural class.
    pub class: ClassId,
    /// Whether the form is obsolete and not enforced.
    pub obsolete: bool,
    /// Attributes that must be in the RDN.
    pub must: Vec<TypeId>,
    /// Additional attributes that may be in the RDN.
    pub may: Vec<TypeId>,
    /// The definition in RFC 4512 notation.
    pub definition: String,
}

/// DIT structure rule: the superiors that entries of a name form may have (RFC 4512 section 4.1.7.1).
#[derive(Debug, Clone)]
pub struct StructureRule {
    /// The rule's number.
    pub id: u32,
    /// Index of the name form in [`Schema::name_forms`](crate::Schema::name_forms).
    pub form: usize,
    /// Whether the rule is obsolete and not enforced.
    pub obsolete: bool,
    /// Rules that may apply to the parent; empty at an administrative point.
    pub superiors: Vec<u32>,
    /// The definition in RFC 4512 notation.
    pub definition: String,
}

impl NameForm {
    /// Returns the first short name, or the OID if there is none.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.oid)
    }

    /// Returns true if an RDN of these types, without duplicates, follows the form.
    pub fn permits(&self, naming: &[TypeId]) -> bool {
        self.must.iter().all(|required| naming.contains(required))
            && naming.iter().all(|type_id| self.must.contains(type_id) || self.may.contains(type_id))
    }
}

impl StructureRule {
    /// Returns true if the rule is for administrative points, such as the entry of a naming context.
    pub fn is_of_points(&self) -> bool {
        self.superiors.is_empty()
    }
}

/// DIT content rules, name forms and DIT structure rules of a schema.
#[derive(Debug, Default, Clone)]
pub(crate) struct Structure {
    pub(crate) content_rules: Vec<ContentRule>,
    pub(crate) name_forms: Vec<NameForm>,
    pub(crate) structure_rules: Vec<StructureRule>,
}
