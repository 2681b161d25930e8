//! Object classes with their superclass chains resolved.

use crate::TypeId;

/// Index of an object class in one [`Schema`](crate::Schema). Not stable between schemas: store the OID instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u32);

/// Kind of an object class (RFC 4512 section 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClassKind {
    /// Serves only as a superclass of other classes.
    Abstract,
    /// Defines the kind of an entry; an entry has exactly one chain of structural classes.
    Structural,
    /// Adds attributes to an entry.
    Auxiliary,
}

impl ClassKind {
    /// Returns the name of the kind, for messages.
    pub fn name(self) -> &'static str {
        match self {
            ClassKind::Abstract => "abstract",
            ClassKind::Structural => "structural",
            ClassKind::Auxiliary => "auxiliary",
        }
    }
}

/// One object class definition (RFC 4512 section 4.1.1).
#[derive(Debug, Clone)]
pub struct ObjectClassDef {
    /// Index in the schema.
    pub id: ClassId,
    /// Numeric OID as text.
    pub oid: String,
    /// Short names in the schema's spelling, the canonical one first. May be empty.
    pub names: Vec<String>,
    /// `DESC`, a description for people.
    pub description: Option<String>,
    /// Whether the class is obsolete.
    pub obsolete: bool,
    /// Abstract, structural or auxiliary.
    pub kind: ClassKind,
    /// Direct superclasses; `top` if the definition has none. Only `top` itself has no superclass.
    pub superclasses: Vec<ClassId>,
    /// Attributes that this definition itself requires, without inherited attributes.
    pub must: Vec<TypeId>,
    /// Attributes that this definition itself allows, without inherited attributes.
    pub may: Vec<TypeId>,
    /// This class first, and all its direct and indirect superclasses, without duplicates.
    pub closure: Vec<ClassId>,
    /// Required attributes, including inherited ones, ascending, without duplicates.
    pub all_must: Vec<TypeId>,
    /// Allowed attributes, including inherited ones and without those in `all_must`, ascending, without duplicates.
    pub all_may: Vec<TypeId>,
    /// Whether the class is auxiliary but can also be the only class of an entry without a structural class
    /// (`X-PANDO-STANDALONE 'TRUE'`). For example, an entry may be only a posixGroup (RFC 2307), or a groupOfNames and
    /// a posixGroup (draft-howard-rfc2307bis); see `files/nis.schema`.
    pub standalone: bool,
    /// The definition in RFC 4512 notation, as the subschema entry publishes it.
    pub definition: String,
    /// BER content of the OID; empty if the OID has no such form.
    pub(crate) oid_key: Box<[u8]>,
}

impl ObjectClassDef {
    /// Returns the canonical name: the first short name, or the OID if there is none.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.oid)
    }

    /// Returns true if this class is `class` or a subclass of it.
    pub fn is_subclass_of(&self, class: ClassId) -> bool {
        self.closure.contains(&class)
    }
}
