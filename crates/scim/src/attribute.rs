//! Attributes of SCIM (RFC 7643 section 2.2), each with the attribute of LDAP that holds it.

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
    /// Set and never returned.
    WriteOnly,
    /// Part of a value that is added and deleted whole.
    Immutable,
}

/// Place of an attribute in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// RFC 7643 defines the attribute, and no attribute of LDAP is mapped to it: it is not advertised and not stored.
    Unmapped,
    /// The subattributes have places of their own, or the attribute is part of a value.
    Inner,
    /// The first value of an LDAP attribute.
    Text(String),
    /// An account is active unless this attribute has the value [`DISABLED`].
    Active(String),
    /// The password, which is never read.
    Password(String),
    /// Objects with `value` and `type`, each type in an LDAP attribute of its own.
    Typed(Vec<Slot>),
    /// One object of type `work`, its parts in LDAP attributes of their own.
    Address,
    /// Objects with `value`, all values of an LDAP attribute.
    Values(String),
    /// One object that names another resource.
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
    /// An attribute of one text.
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

    /// An attribute that consists of others.
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

    /// Returns true if the attribute, or a part of it, has a place in entries.
    pub(crate) fn is_mapped(&self) -> bool {
        self.binding != Binding::Unmapped
    }

    /// The part of this name, in any case.
    pub(crate) fn part(&self, name: &str) -> Option<&Attribute> {
        self.parts.iter().find(|part| part.name.eq_ignore_ascii_case(name))
    }

    /// Calls `each` with every LDAP attribute that holds a part of this one.
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
