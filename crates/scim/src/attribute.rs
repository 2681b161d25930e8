//! SCIM attributes (RFC 7643 section 2.2), each with the LDAP attribute that stores it.

/// Data type of an attribute (RFC 7643 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Boolean,
    Reference,
    Complex,
}

/// Permitted changes of an attribute (RFC 7643 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutability {
    ReadWrite,
    ReadOnly,
    /// The value can be set but is never returned.
    WriteOnly,
    /// Part of a value that can only be added and deleted as a whole.
    Immutable,
}

/// LDAP attribute in which a SCIM attribute is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// RFC 7643 defines the attribute, but it is mapped to no LDAP attribute, so it is neither advertised nor stored.
    Unmapped,
    /// The subattributes have bindings, or the attribute is part of a value.
    Inner,
    /// The first value of an LDAP attribute.
    Text(String),
    /// An account status. The account is active unless this attribute has the value [`DISABLED`].
    Active(String),
    /// The password, which is never returned.
    Password(String),
    /// Objects with `value` and `type`. Each type has its own LDAP attribute.
    Typed(Vec<Slot>),
    /// One object of type `work`, whose parts are in separate LDAP attributes.
    Address,
    /// Objects with `value`, one for each value of an LDAP attribute.
    Values(String),
    /// One object that refers to another resource.
    Link(String),
    /// The members of a group.
    Members(String),
    /// The groups of a user, which are read-only.
    Groups(String),
}

/// Values of one type, such as `work`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) canonical: &'static str,
    pub(crate) description: String,
}

/// Value of `pwdAccountLockedTime` that locks an account until an administrator unlocks it
/// (draft-behera-ldap-password-policy section 5.3.3).
pub(crate) const DISABLED: &str = "000001010000Z";

/// An attribute or subattribute.
#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_multi_valued: bool,
    pub(crate) is_required: bool,
    pub(crate) is_case_exact: bool,
    pub(crate) is_unique: bool,
    pub(crate) mutability: Mutability,
    pub(crate) canonical: Vec<&'static str>,
    pub(crate) references: &'static [&'static str],
    pub(crate) parts: Vec<Attribute>,
    pub(crate) binding: Binding,
}

impl Attribute {
    /// Returns an attribute with one text value.
    pub(crate) fn text(name: &'static str, description: &'static str, binding: Binding) -> Attribute {
        Attribute {
            name,
            description,
            kind: Kind::Text,
            is_multi_valued: false,
            is_required: false,
            is_case_exact: false,
            is_unique: false,
            mutability: Mutability::ReadWrite,
            canonical: Vec::new(),
            references: &[],
            parts: Vec::new(),
            binding,
        }
    }

    /// Returns an attribute that consists of parts.
    pub(crate) fn complex(
        name: &'static str,
        description: &'static str,
        binding: Binding,
        parts: Vec<Attribute>,
    ) -> Attribute {
        Attribute { kind: Kind::Complex, parts, ..Attribute::text(name, description, binding) }
    }

    pub(crate) fn kind(self, kind: Kind) -> Attribute {
        Attribute { kind, ..self }
    }

    pub(crate) fn many(self) -> Attribute {
        Attribute { is_multi_valued: true, ..self }
    }

    pub(crate) fn required(self) -> Attribute {
        Attribute { is_required: true, ..self }
    }

    pub(crate) fn exact(self) -> Attribute {
        Attribute { is_case_exact: true, ..self }
    }

    pub(crate) fn unique(self) -> Attribute {
        Attribute { is_unique: true, ..self }
    }

    pub(crate) fn set_by(self, mutability: Mutability) -> Attribute {
        Attribute { mutability, ..self }
    }

    pub(crate) fn one_of(self, canonical: Vec<&'static str>) -> Attribute {
        Attribute { canonical, ..self }
    }

    pub(crate) fn refers_to(self, references: &'static [&'static str]) -> Attribute {
        Attribute { kind: Kind::Reference, references, is_case_exact: true, ..self }
    }

    /// Returns true if the attribute or one of its parts is stored in entries.
    pub(crate) fn is_mapped(&self) -> bool {
        self.binding != Binding::Unmapped
    }

    /// Returns the part with this name, in any case.
    pub(crate) fn part(&self, name: &str) -> Option<&Attribute> {
        self.parts.iter().find(|part| part.name.eq_ignore_ascii_case(name))
    }

    /// Calls `each` with every LDAP attribute that stores a part of this attribute.
    pub(crate) fn each_description<'a>(&'a self, each: &mut dyn FnMut(&'a str)) {
        match &self.binding {
            Binding::Unmapped | Binding::Password(_) => {}
            Binding::Inner | Binding::Address => {
                self.parts.iter().for_each(|part| part.each_description(each));
            }
            Binding::Typed(slots) => slots.iter().for_each(|slot| each(&slot.description)),
            Binding::Text(name)
            | Binding::Active(name)
            | Binding::Values(name)
            | Binding::Link(name)
            | Binding::Members(name)
            | Binding::Groups(name) => each(name),
        }
    }
}
