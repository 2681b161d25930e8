//! SCIM attributes (RFC 7643 section 2.2) and the LDAP attributes that store them.

/// Data type of a SCIM attribute (RFC 7643 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Boolean,
    Reference,
    Complex,
}

/// The changes of a SCIM attribute that are permitted (RFC 7643 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutability {
    ReadWrite,
    ReadOnly,
    /// Clients can set the value but never read it.
    WriteOnly,
    /// The attribute is part of a value that can only be added and deleted as a whole.
    Immutable,
}

/// Storage of a SCIM attribute in LDAP attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// RFC 7643 defines the attribute, but the settings map it to no LDAP attribute. The service neither advertises nor
    /// stores the attribute.
    Unmapped,
    /// The SCIM attribute has no LDAP attribute of its own: either its parts have bindings, or it is a part of an
    /// attribute whose binding stores it.
    Inner,
    /// The first value of this LDAP attribute.
    Text(String),
    /// The status of an account. The account is not active if this LDAP attribute has the value [`DISABLED`].
    Active(String),
    /// The password in this LDAP attribute. It is never returned.
    Password(String),
    /// A list of objects with `value` and `type`. Each type has its own LDAP attribute.
    Typed(Vec<Slot>),
    /// A list with one object of the type `work`. Each part of the object has its own LDAP attribute.
    Address,
    /// A list of objects with `value`, one for each value of this LDAP attribute.
    Values(String),
    /// One object. It refers to another resource, whose DN is in this LDAP attribute.
    Link(String),
    /// The members of a group. Their DNs are in this LDAP attribute.
    Members(String),
    /// The groups of a user, which clients cannot change. Their DNs are in this LDAP attribute.
    Groups(String),
}

/// One type of values, for example `work`, and the LDAP attribute for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) canonical: &'static str,
    pub(crate) description: String,
}

/// Value of `pwdAccountLockedTime` with which an account is locked until an administrator unlocks it
/// (draft-behera-ldap-password-policy section 5.3.3).
pub(crate) const DISABLED: &str = "000001010000Z";

/// A SCIM attribute, or a part of one (a subattribute).
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
    /// Returns an attribute whose value is one text.
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

    /// Returns an attribute whose value consists of parts.
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

    /// Returns true if an LDAP attribute stores the attribute or one of its parts.
    pub(crate) fn is_mapped(&self) -> bool {
        self.binding != Binding::Unmapped
    }

    /// Returns the part with this name. Upper and lower case are the same.
    pub(crate) fn part(&self, name: &str) -> Option<&Attribute> {
        self.parts.iter().find(|part| part.name.eq_ignore_ascii_case(name))
    }

    /// Calls `each` with the name of every LDAP attribute that stores this attribute or a part of it.
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
