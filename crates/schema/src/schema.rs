//! The resolved schema and its look-ups.

use crate::names::NameTable;
use crate::structure::{ContentRule, NameForm, Structure, StructureRule};
use crate::{
    AttributeType, ClassId, MatchingRule, ObjectClassDef, SchemaError, Syntax, SyntaxId, TypeId, oid,
};

/// Name and OID of the value of collectiveExclusions that excludes all collective attributes (RFC 3671 section 2.3).
const EXCLUDE_ALL: (&str, &str) = ("excludeAllCollectiveAttributes", "2.5.18.0");

/// A complete, consistent set of definitions. Immutable; share it by `Arc`.
#[derive(Debug, Clone)]
pub struct Schema {
    attribute_types: Vec<AttributeType>,
    type_names: NameTable,
    /// For each type, the ids of the type itself and of its subtypes, ascending.
    subtypes: Vec<Vec<TypeId>>,
    object_classes: Vec<ObjectClassDef>,
    class_names: NameTable,
    syntaxes: Vec<Syntax>,
    pub(crate) structure: Structure,
    pub(crate) unusable_links: Vec<SchemaError>,
}

impl Schema {
    #[expect(clippy::indexing_slicing, reason = "an id is a position in the list of types")]
    pub(crate) fn assemble(
        attribute_types: Vec<AttributeType>,
        type_names: NameTable,
        object_classes: Vec<ObjectClassDef>,
        class_names: NameTable,
        syntaxes: Vec<Syntax>,
    ) -> Schema {
        let mut subtypes: Vec<Vec<TypeId>> = vec![Vec::new(); attribute_types.len()];
        for attribute_type in &attribute_types {
            let mut ancestor = Some(attribute_type.id);
            while let Some(id) = ancestor {
                subtypes[id.0 as usize].push(attribute_type.id);
                ancestor = attribute_types[id.0 as usize].sup;
            }
        }
        Schema {
            attribute_types,
            type_names,
            subtypes,
            object_classes,
            class_names,
            syntaxes,
            structure: Structure::default(),
            unusable_links: Vec::new(),
        }
    }

    /// Returns the attribute type with this name or numeric OID, in any case. `oid.1.2.3` is accepted for `1.2.3`. Does
    /// not allocate.
    #[inline]
    pub fn attribute_type(&self, name_or_oid: &str) -> Option<&AttributeType> {
        let index = self.type_names.find(oid::without_oid_prefix(name_or_oid))?;
        self.attribute_types.get(index)
    }

    /// Returns the attribute type with this id.
    ///
    /// # Panics
    /// The id comes from another schema and is out of range.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "documented: an id of this schema is a position in its list")]
    pub fn type_by_id(&self, id: TypeId) -> &AttributeType {
        &self.attribute_types[id.0 as usize]
    }

    /// Returns all attribute types, in the order of their ids.
    pub fn attribute_types(&self) -> &[AttributeType] {
        &self.attribute_types
    }

    /// Returns the `X-LINK` extensions that cannot be followed. They do not make the schema invalid.
    pub fn unusable_links(&self) -> &[SchemaError] {
        &self.unusable_links
    }

    /// Returns a copy of the schema. In the copy, the types for which `is_none` returns true are not links.
    pub fn without_links(&self, is_none: impl Fn(&AttributeType) -> bool) -> Schema {
        let mut schema = self.clone();
        for attribute_type in &mut schema.attribute_types {
            attribute_type.link &= !is_none(attribute_type);
        }
        schema
    }

    /// Returns the type and all types derived from it, directly and indirectly, ascending.
    ///
    /// # Panics
    /// The id comes from another schema and is out of range.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "documented: an id of this schema is a position in its list")]
    pub fn subtypes(&self, id: TypeId) -> &[TypeId] {
        &self.subtypes[id.0 as usize]
    }

    /// Returns true if `id` is `ancestor` or derived from it.
    #[inline]
    pub fn is_subtype(&self, id: TypeId, ancestor: TypeId) -> bool {
        id == ancestor || self.subtypes(ancestor).binary_search(&id).is_ok()
    }

    /// Returns the object class with this name or numeric OID, in any case. Does not allocate.
    #[inline]
    pub fn object_class(&self, name_or_oid: &str) -> Option<&ObjectClassDef> {
        let index = self.class_names.find(oid::without_oid_prefix(name_or_oid))?;
        self.object_classes.get(index)
    }

    /// Returns the object class with this id.
    ///
    /// # Panics
    /// The id comes from another schema and is out of range.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "documented: an id of this schema is a position in its list")]
    pub fn class_by_id(&self, id: ClassId) -> &ObjectClassDef {
        &self.object_classes[id.0 as usize]
    }

    /// Returns all object classes, in the order of their ids.
    pub fn object_classes(&self) -> &[ObjectClassDef] {
        &self.object_classes
    }

    /// Returns the given classes and all their superclasses, ascending, without duplicates.
    pub fn class_closure(&self, classes: &[ClassId]) -> Vec<ClassId> {
        let mut closure: Vec<ClassId> =
            classes.iter().flat_map(|&class| &self.class_by_id(class).closure).copied().collect();
        closure.sort_unstable();
        closure.dedup();
        closure
    }

    /// Returns the class and all classes derived from it, ascending. The filter `(objectClass=class)` matches the
    /// entries of all these classes.
    pub fn subclasses(&self, class: ClassId) -> impl Iterator<Item = ClassId> {
        self.object_classes.iter().filter(move |other| other.is_subclass_of(class)).map(|other| other.id)
    }

    /// Returns the syntax with this id.
    ///
    /// # Panics
    /// The id comes from another schema and is out of range.
    #[expect(clippy::indexing_slicing, reason = "documented: an id of this schema is a position in its list")]
    pub fn syntax_by_id(&self, id: SyntaxId) -> &Syntax {
        &self.syntaxes[usize::from(id.0)]
    }

    /// Returns all syntaxes, in the order of their ids.
    pub fn syntaxes(&self) -> &[Syntax] {
        &self.syntaxes
    }

    /// Returns the DIT content rules, in the order given.
    pub fn content_rules(&self) -> &[ContentRule] {
        &self.structure.content_rules
    }

    /// Returns the name forms, in the order given.
    pub fn name_forms(&self) -> &[NameForm] {
        &self.structure.name_forms
    }

    /// Returns the DIT structure rules, in the order given.
    pub fn structure_rules(&self) -> &[StructureRule] {
        &self.structure.structure_rules
    }

    /// Returns true if the schema has any name form. Without name forms, it has no structure rules either.
    #[inline]
    pub fn has_name_forms(&self) -> bool {
        !self.structure.name_forms.is_empty()
    }

    /// Returns the active content rule of a structural class. Rules of its superclasses do not apply.
    #[inline]
    pub fn content_rule_of(&self, class: ClassId) -> Option<&ContentRule> {
        self.content_rules().iter().find(|rule| rule.class == class && !rule.obsolete)
    }

    /// Returns the active name forms of a structural class.
    pub fn name_forms_of(&self, class: ClassId) -> impl Iterator<Item = &NameForm> {
        self.name_forms().iter().filter(move |form| form.class == class && !form.obsolete)
    }

    /// Returns the active structure rules of a structural class, each with its name form. Omits a rule whose name form
    /// is not active.
    pub fn structure_rules_of(&self, class: ClassId) -> impl Iterator<Item = (&StructureRule, &NameForm)> {
        let active = self.structure_rules().iter().filter(|rule| !rule.obsolete);
        let with_forms = active.filter_map(|rule| Some((rule, self.name_forms().get(rule.form)?)));
        with_forms.filter(move |(_, form)| form.class == class && !form.obsolete)
    }

    /// Appends the key of an identifier: a numeric OID, or the name of a class, attribute type or rule. Looks up a
    /// class first, because most calls are for values of objectClass. Returns false if the identifier is unknown and is
    /// no OID.
    pub(crate) fn encode_identifier(&self, name: &str, out: &mut Vec<u8>) -> bool {
        let known = self.object_class(name).map(|class| &*class.oid_key);
        let known = known.or_else(|| self.attribute_type(name).and_then(AttributeType::oid_key));
        match known {
            Some(key) if !key.is_empty() => {
                out.extend_from_slice(key);
                true
            }
            _ if name.eq_ignore_ascii_case(EXCLUDE_ALL.0) => oid::encode_oid(EXCLUDE_ALL.1, out),
            _ => oid::encode_oid(MatchingRule::find(name).map_or(name, |rule| rule.oid()), out),
        }
    }
}
