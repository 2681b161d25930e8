//! Object classes with their superclass chains resolved.

use crate::TypeId;

/// An object class's place in one [`Schema`](crate::Schema). Not stable between schemas: store the OID, not this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u32);

/// Kind of an object class (RFC 4512 section 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClassKind {
    /// Only a base for others.
    Abstract,
    /// Says what an entry is; an entry has one chain of them.
    Structural,
    /// Adds attributes to an entry.
    Auxiliary,
}

impl ClassKind {
    /// For messages.
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
    /// Place in the schema.
    pub id: ClassId,
    /// Numeric OID as text.
    pub oid: String,
    /// Short names in the schema's spelling, the canonical one first. May be empty.
    pub names: Vec<String>,
    /// `DESC`, for people only.
    pub description: Option<String>,
    /// Marked obsolete.
    pub obsolete: bool,
    /// Abstract, structural or auxiliary.
    pub kind: ClassKind,
    /// Direct superclasses; `top` if none is written. Only `top` itself has none.
    pub superclasses: Vec<ClassId>,
    /// Attributes required by this definition alone.
    pub must: Vec<TypeId>,
    /// Attributes allowed by this definition alone.
    pub may: Vec<TypeId>,
    /// This class and all its superclasses, direct and indirect, each once, this one first.
    pub closure: Vec<ClassId>,
    /// Required attributes including inherited ones, ascending, each once.
    pub all_must: Vec<TypeId>,
    /// Allowed attributes including inherited ones (without those in `all_must`), ascending, each once.
    pub all_may: Vec<TypeId>,
    /// Auxiliary, but an entry without a structural class may have it in the place of one (`X-PANDO-STANDALONE
    /// 'TRUE'`). This is how an entry that is only a posixGroup (RFC 2307) and one that is a groupOfNames and a
    /// posixGroup (draft-howard-rfc2307bis) are both accepted; see `files/nis.schema`.
    pub standalone: bool,
    /// The definition in RFC 4512 notation, as the subschema entry publishes it.
    pub definition: String,
    /// BER content of the OID; empty if it is none.
    pub(crate) oid_key: Box<[u8]>,
}

impl ObjectClassDef {
    /// The canonical name: the first short name, or the OID when there is none.
    pub fn name(&self) -> &str {
        self.names.first().unwrap_or(&self.oid)
    }

    /// Whether this class is `class` or a subclass of it.
    pub fn is_subclass_of(&self, class: ClassId) -> bool {
        self.closure.contains(&class)
    }
}
