//! The model of users and groups: their attributes (RFC 7643 section 4), and the LDAP attributes that store them.

mod group;
mod names;
mod user;

use crate::attribute::{Attribute, Binding};
use crate::path::AttributePath;
use crate::settings::ScimSettings;
use names::Names;

/// LDAP attributes of every entry. The id, the version and the times of a resource are derived from them.
pub(crate) const ENTRY_UUID: &str = "entryUUID";
pub(crate) const ENTRY_CSN: &str = "entryCSN";
pub(crate) const CREATE_TIMESTAMP: &str = "createTimestamp";
pub(crate) const MODIFY_TIMESTAMP: &str = "modifyTimestamp";
pub(crate) const OBJECT_CLASS: &str = "objectClass";

/// LDAP attribute that stores `externalId` if the settings define no other.
pub(crate) const EXTERNAL_ID: &str = "pandoExternalId";

/// LDAP attribute that contains names of SCIM attributes for which a client has removed the value. For these SCIM
/// attributes, the default value does not apply. The names are `active`, and the names of multi-valued attributes of
/// which no value is primary.
pub(crate) const UNSET: &str = "pandoScimUnset";

/// Auxiliary object class that permits the two attributes above.
pub(crate) const SCIM_CLASS: &str = "pandoScimResource";

/// URNs of the schemas of users, groups and the enterprise extension.
pub(crate) const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
pub(crate) const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
pub(crate) const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

/// The kinds of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceName {
    User,
    Group,
}

impl ResourceName {
    pub(crate) fn text(self) -> &'static str {
        match self {
            ResourceName::User => "User",
            ResourceName::Group => "Group",
        }
    }

    /// Returns the part of the URL that denotes this kind of resource.
    pub(crate) fn endpoint(self) -> &'static str {
        match self {
            ResourceName::User => "Users",
            ResourceName::Group => "Groups",
        }
    }
}

/// An extension of a schema (RFC 7643 section 3.3).
#[derive(Clone, Debug)]
pub(crate) struct Extension {
    pub(crate) schema: &'static str,
    pub(crate) description: &'static str,
    pub(crate) attributes: Vec<Attribute>,
}

/// A resource type, and the entries that are its resources.
#[derive(Clone, Debug)]
pub(crate) struct ResourceType {
    pub(crate) name: ResourceName,
    pub(crate) schema: &'static str,
    pub(crate) description: &'static str,
    /// The attribute `externalId`. The schema document does not contain it (RFC 7643 section 3.1).
    pub(crate) external_id: Attribute,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) extension: Option<Extension>,
    pub(crate) base: String,
    /// Attribute in the RDN of a new entry.
    pub(crate) rdn: String,
    /// Object classes of a new entry.
    pub(crate) classes: Vec<String>,
    /// Object classes by which entries of this type are found. An entry must have at least one of these classes.
    pub(crate) found: Vec<String>,
}

/// The model of all resources. It is created from the settings.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) users: ResourceType,
    pub(crate) groups: ResourceType,
}

impl Model {
    /// Creates the model.
    ///
    /// # Errors
    /// A setting is wrong. The error contains the key of the setting and the reason.
    pub(crate) fn of(settings: &ScimSettings) -> Result<Model, String> {
        for (key, dn) in [("users", &settings.users), ("groups", &settings.groups)] {
            ldap::Dn::parse(dn).map_err(|error| format!("scim.{key}: {dn:?} is not a DN: {error}"))?;
        }
        for (key, list) in
            [("user_classes", &settings.user_classes), ("group_classes", &settings.group_classes)]
        {
            if list.is_empty() {
                return Err(format!("scim.{key}: at least one object class is needed"));
            }
        }
        let all_names = [&settings.user_rdn, &settings.group_rdn].into_iter();
        let all_names = all_names.chain(&settings.user_classes).chain(&settings.group_classes);
        for name in all_names.chain(&settings.other_group_classes) {
            names::check(name).map_err(|why| format!("scim: {why}"))?;
        }
        let mut names = Names::new("scim.user_attributes", &settings.user_attributes);
        let users = user::resource_type(settings, &mut names);
        names.finish()?;
        let mut names = Names::new("scim.group_attributes", &settings.group_attributes);
        let groups = group::resource_type(settings, &mut names);
        names.finish()?;
        users.check_distinct()?;
        groups.check_distinct()?;
        Ok(Model { users, groups })
    }

    pub(crate) fn both(&self) -> [&ResourceType; 2] {
        [&self.users, &self.groups]
    }
}

/// The attribute that a path refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved<'a> {
    pub(crate) attribute: &'a Attribute,
    pub(crate) part: Option<&'a Attribute>,
    /// Whether the attribute belongs to the extension.
    pub(crate) is_extension: bool,
}

impl ResourceType {
    /// Checks that no two SCIM attributes use the same LDAP attribute. A change of one of them would otherwise change
    /// the other.
    ///
    /// # Errors
    /// Two SCIM attributes use the same LDAP attribute.
    fn check_distinct(&self) -> Result<(), String> {
        let mut seen: Vec<String> = Vec::new();
        let mut twice = None;
        for attribute in self.all() {
            attribute.each_description(&mut |name| {
                let name = name.to_ascii_lowercase();
                if seen.contains(&name) {
                    twice = Some(name.clone());
                }
                seen.push(name);
            });
        }
        let kind = self.name.text();
        twice.map_or(Ok(()), |name| Err(format!("scim: two attributes of a {kind} are mapped to {name}")))
    }

    /// Returns the LDAP filter that matches all entries of this type.
    pub(crate) fn class_filter(&self) -> String {
        let classes: String = self.found.iter().map(|class| format!("({OBJECT_CLASS}={class})")).collect();
        if self.found.len() == 1 { classes } else { format!("(|{classes})") }
    }

    /// Returns the attributes of the core schema and `externalId`.
    pub(crate) fn core(&self) -> impl Iterator<Item = &Attribute> {
        std::iter::once(&self.external_id).chain(&self.attributes)
    }

    /// Returns the attributes of the extension; none if the type has no extension.
    pub(crate) fn extended(&self) -> &[Attribute] {
        self.extension.as_ref().map_or(&[], |extension| &extension.attributes)
    }

    /// Returns all attributes.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Attribute> {
        self.core().chain(self.extended())
    }

    /// Returns true if a path refers to an attribute of this type. Also returns true for `id`, `meta` and `schemas`,
    /// which every resource has (RFC 7643 section 3.1).
    pub(crate) fn has(&self, path: &AttributePath) -> bool {
        self.resolve(path).is_some()
            || path.is("id")
            || path.is("schemas")
            || path.name.eq_ignore_ascii_case("meta")
    }

    /// Returns the attribute that a path refers to. Returns `None` if there is no such attribute.
    pub(crate) fn resolve(&self, path: &AttributePath) -> Option<Resolved<'_>> {
        let is_extension = match &path.schema {
            None => false,
            Some(schema) if schema.eq_ignore_ascii_case(self.schema) => false,
            Some(schema) => {
                let own = self.extension.as_ref()?;
                schema.eq_ignore_ascii_case(own.schema).then_some(true)?
            }
        };
        let named = |attribute: &&Attribute| attribute.name.eq_ignore_ascii_case(&path.name);
        let attribute =
            if is_extension { self.extended().iter().find(named)? } else { self.core().find(named)? };
        let part = match &path.part {
            Some(part) => Some(attribute.part(part)?),
            None => None,
        };
        Some(Resolved { attribute, part, is_extension })
    }
}

/// Returns an attribute whose value is one text. `key` consists of the attribute's key in the settings, and the LDAP
/// attribute that stores it by default.
fn text_attribute(
    names: &mut Names<'_>,
    (key, default): (&'static str, &str),
    name: &'static str,
    description: &'static str,
) -> Attribute {
    Attribute::text(name, description, text_in(names.of(key, default)))
}

/// Returns the attribute `externalId`. Every resource has it.
fn external_id(names: &mut Names<'_>) -> Attribute {
    text_attribute(names, ("externalId", EXTERNAL_ID), "externalId", "Id that the client gives").exact()
}

/// Returns the binding of an attribute whose value is one text. `name` is the LDAP attribute; `None` if there is none.
fn text_in(name: Option<String>) -> Binding {
    name.map_or(Binding::Unmapped, Binding::Text)
}
