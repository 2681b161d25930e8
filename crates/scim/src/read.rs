//! Converts entries to resources.

use client::Entry;
use serde_json::{Map, Value, json};

use crate::attribute::{Attribute, Binding, DISABLED, Kind};
use crate::model::{
    CREATE_TIMESTAMP, ENTRY_CSN, ENTRY_UUID, MODIFY_TIMESTAMP, Model, OBJECT_CLASS, ResourceName,
    ResourceType, UNSET,
};
use crate::selection::Selection;
use crate::session::FoundEntry;
use crate::time;

/// The LDAP attributes that a search for a resource requests: the attributes to return, and the attributes that contain
/// DNs of other resources.
#[derive(Debug)]
pub(crate) struct RequestedAttributes {
    pub(crate) attributes: Vec<String>,
    pub(crate) links: Vec<String>,
}

impl RequestedAttributes {
    /// Returns the LDAP attributes that store the selected SCIM attributes.
    pub(crate) fn of(resource: &ResourceType, selection: &Selection) -> RequestedAttributes {
        let core = resource.core().map(|attribute| (attribute, false));
        let extended = resource.extended().iter().map(|attribute| (attribute, true));
        let is_wanted = |(attribute, is_extension): &(&Attribute, bool)| {
            selection.wants(resource, attribute, *is_extension)
        };
        RequestedAttributes::holding(
            resource,
            core.chain(extended).filter(is_wanted).map(|(attribute, _)| attribute),
        )
    }

    /// Returns the attributes that clients can set, without the members of a group. Before a change, the service reads
    /// these attributes.
    pub(crate) fn of_change(resource: &ResourceType) -> RequestedAttributes {
        let is_read = |attribute: &&Attribute| {
            !matches!(attribute.binding, Binding::Members(_) | Binding::Groups(_) | Binding::Password(_))
        };
        RequestedAttributes::holding(resource, resource.all().filter(is_read))
    }

    /// Returns only the attribute with the members of a group.
    pub(crate) fn of_members(resource: &ResourceType) -> RequestedAttributes {
        let is_members = |attribute: &&Attribute| matches!(attribute.binding, Binding::Members(_));
        RequestedAttributes::holding(resource, resource.all().filter(is_members))
    }

    /// Returns the attributes from which the id, the version and the times of a resource are derived.
    pub(crate) fn of_entry() -> RequestedAttributes {
        let always = [ENTRY_UUID, ENTRY_CSN, CREATE_TIMESTAMP, MODIFY_TIMESTAMP, OBJECT_CLASS];
        RequestedAttributes { attributes: always.map(str::to_owned).to_vec(), links: Vec::new() }
    }

    fn holding<'a>(
        resource: &ResourceType,
        wanted: impl Iterator<Item = &'a Attribute>,
    ) -> RequestedAttributes {
        let mut requested = RequestedAttributes::of_entry();
        for attribute in wanted {
            attribute.each_description(&mut |name| requested.attributes.push(name.to_owned()));
            if let Binding::Link(name) | Binding::Members(name) | Binding::Groups(name) = &attribute.binding {
                requested.links.push(name.clone());
            }
        }
        // `name_of` needs further attributes to detect whether a name is a default.
        if resource.name == ResourceName::User {
            requested.attributes.push(UNSET.to_owned());
            let name = |attribute: &&Attribute| ["userName", "displayName", "name"].contains(&attribute.name);
            resource.core().filter(name).for_each(|attribute| {
                attribute.each_description(&mut |name| requested.attributes.push(name.to_owned()));
            });
        }
        requested.attributes.sort();
        requested.attributes.dedup();
        requested
    }
}

/// Returns the id of an entry's resource. Every entry has such an id.
pub(crate) fn id_of(found: &FoundEntry) -> String {
    found.entry.text(ENTRY_UUID).unwrap_or_default()
}

/// Returns the version of an entry (RFC 7644 section 3.14). The version is a weak entity tag, because an entry has
/// several representations. Returns `None` if the requester cannot read the version.
pub(crate) fn version_of(found: &FoundEntry) -> Option<String> {
    found.entry.text(ENTRY_CSN).map(|csn| format!("W/\"{csn}\""))
}

/// Converts entries to resources.
pub(crate) struct Writer<'a> {
    pub(crate) model: &'a Model,
    /// URL of the service without a slash at the end.
    pub(crate) url: &'a str,
}

impl Writer<'_> {
    /// Returns the resource of an entry, with only the selected attributes.
    pub(crate) fn resource(
        &self,
        resource: &ResourceType,
        found: &FoundEntry,
        selection: &Selection,
    ) -> Value {
        let mut object = self.attributes(resource, found);
        let mut schemas = vec![resource.schema];
        schemas
            .extend(resource.extension.iter().map(|one| one.schema).filter(|one| object.contains_key(*one)));
        let id = id_of(found);
        let time = |name| found.entry.text(name).as_deref().and_then(time::from_ldap);
        let location = self.location(resource, &id);
        let mut meta = json!({ "resourceType": resource.name.text(), "location": location });
        for (name, value) in [
            ("created", time(CREATE_TIMESTAMP)),
            ("lastModified", time(MODIFY_TIMESTAMP)),
            ("version", version_of(found)),
        ] {
            if let Some(value) = value {
                meta[name] = value.into();
            }
        }
        object.insert("schemas".to_owned(), json!(schemas));
        object.insert("id".to_owned(), id.into());
        object.insert("meta".to_owned(), meta);
        selection.prune(resource, &mut object);
        object.into()
    }

    /// Returns the URL of the resource with this id.
    pub(crate) fn location(&self, resource: &ResourceType, id: &str) -> String {
        format!("{}/{}/{id}", self.url, resource.name.endpoint())
    }

    /// Returns the attributes of the entry's resource in the form that the SCIM schemas define.
    pub(crate) fn attributes(&self, resource: &ResourceType, found: &FoundEntry) -> Map<String, Value> {
        let mut object = Map::new();
        for attribute in resource.core() {
            if let Some(value) = self.value(resource, attribute, found) {
                object.insert(attribute.name.to_owned(), value);
            }
        }
        if let Some(extension) = &resource.extension {
            let value = |attribute: &Attribute| {
                Some((attribute.name.to_owned(), self.value(resource, attribute, found)?))
            };
            let extended: Map<String, Value> = extension.attributes.iter().filter_map(value).collect();
            if !extended.is_empty() {
                object.insert(extension.schema.to_owned(), extended.into());
            }
        }
        object
    }

    fn value(&self, resource: &ResourceType, attribute: &Attribute, found: &FoundEntry) -> Option<Value> {
        let entry = &found.entry;
        match &attribute.binding {
            Binding::Unmapped | Binding::Password(_) => None,
            Binding::Text(name) if attribute.kind == Kind::Reference => {
                first(entry, name).map(|uri| without_label(&uri).into())
            }
            Binding::Text(name) => first(entry, name).map(Value::String),
            Binding::Active(_) if is_unset(entry, attribute) => None,
            Binding::Active(name) => Some(entry.texts(name).iter().all(|value| value != DISABLED).into()),
            Binding::Inner if attribute.name == "name" => name_of(resource, attribute, entry),
            Binding::Inner => parts_of(attribute, entry).map(Value::Object),
            Binding::Address => {
                let mut address = parts_of(attribute, entry)?;
                address.insert("type".to_owned(), "work".into());
                Some(json!([address]))
            }
            Binding::Values(name) => {
                let values = entry.texts(name).into_iter().map(|value| json!({ "value": value })).collect();
                non_empty(values)
            }
            Binding::Typed(slots) => {
                let has_primary = slots.len() == 1;
                let mut values = Vec::new();
                for slot in slots {
                    for text in entry.texts(&slot.description) {
                        let mut value = json!({ "value": text, "type": slot.canonical });
                        if has_primary && is_unset(entry, attribute) {
                            value["primary"] = false.into();
                        } else if has_primary && values.is_empty() {
                            value["primary"] = true.into();
                        }
                        values.push(value);
                    }
                }
                non_empty(values)
            }
            Binding::Link(name) => {
                let link = found.links.iter().find(|link| link.attribute.eq_ignore_ascii_case(name))?;
                let location = self.location(&self.model.users, &link.id);
                Some(json!({ "value": link.id, "$ref": location }))
            }
            Binding::Members(name) => non_empty(self.links(found, name, true)),
            Binding::Groups(name) => non_empty(self.links(found, name, false)),
        }
    }

    /// Returns references to the resources whose DNs are in the LDAP attribute `name`. If `is_member` is true, each
    /// reference also contains the kind of its resource.
    fn links(&self, found: &FoundEntry, name: &str, is_member: bool) -> Vec<Value> {
        let links = found.links.iter().filter(|link| link.attribute.eq_ignore_ascii_case(name));
        let value = |link: &crate::session::Link| {
            let is_group = |class: &String| {
                self.model.groups.found.iter().any(|known| known.eq_ignore_ascii_case(class))
            };
            let kind = if !is_member || link.classes.iter().any(is_group) {
                &self.model.groups
            } else {
                &self.model.users
            };
            let mut value = json!({ "value": link.id, "$ref": self.location(kind, &link.id) });
            if is_member {
                value["type"] = kind.name.text().into();
            }
            value
        };
        links.map(value).collect()
    }
}

/// Returns true if a client has removed the value of an attribute for which there is a default.
fn is_unset(entry: &Entry, attribute: &Attribute) -> bool {
    entry.texts(UNSET).iter().any(|name| name == attribute.name)
}

fn non_empty(values: Vec<Value>) -> Option<Value> {
    if values.is_empty() { None } else { Some(Value::Array(values)) }
}

/// Returns the value of an attribute that may have only one value in SCIM. If the RDN contains a value, returns that
/// value; otherwise returns the first value.
pub(crate) fn first(entry: &Entry, name: &str) -> Option<String> {
    let values = entry.texts(name);
    if values.len() > 1 {
        let dn = ldap::Dn::parse(&entry.dn).ok();
        let rdn = dn.as_ref().and_then(|dn| dn.rdn());
        let named = rdn.and_then(|rdn| rdn.avas.iter().find(|ava| ava.attribute.eq_ignore_ascii_case(name)));
        if let Some(named) = named {
            return Some(String::from_utf8_lossy(&named.value).into_owned());
        }
    }
    values.into_iter().next()
}

/// Returns the URI in a value of labeledURI (RFC 2079). A space and a label may follow the URI.
pub(crate) fn without_label(labeled: &str) -> &str {
    labeled.split(' ').next().unwrap_or_default()
}

fn parts_of(attribute: &Attribute, entry: &Entry) -> Option<Map<String, Value>> {
    let part = |part: &Attribute| match &part.binding {
        // Dollar signs separate the lines of a postal address (RFC 4517 section 3.3.28).
        Binding::Text(name) if attribute.binding == Binding::Address && part.name == "formatted" => {
            Some((part.name.to_owned(), lines(&first(entry, name)?).into()))
        }
        Binding::Text(name) => Some((part.name.to_owned(), first(entry, name)?.into())),
        _ => None,
    };
    let parts: Map<String, Value> = attribute.parts.iter().filter_map(part).collect();
    if parts.is_empty() { None } else { Some(parts) }
}

fn lines(address: &str) -> String {
    address.replace('$', "\n").replace("\\24", "$").replace("\\5C", "\\").replace("\\5c", "\\")
}

/// Returns the name of a user. Omits the values that [`crate::write`] generates for a user without a name, because an
/// entry must have `cn` and `sn`.
fn name_of(resource: &ResourceType, attribute: &Attribute, entry: &Entry) -> Option<Value> {
    let mut name = parts_of(attribute, entry)?;
    let text = |wanted: &str| {
        let attribute = resource.attributes.iter().find(|one| one.name == wanted)?;
        let Binding::Text(name) = &attribute.binding else { return None };
        first(entry, name)
    };
    let user_name = text("userName");
    let given = name.contains_key("givenName");
    let default = |part: &str, generated: &Option<String>| {
        let found = name.get(part).and_then(Value::as_str);
        found.is_none_or(|found| generated.as_deref() == Some(found))
    };
    let has_default_family = !given && default("familyName", &user_name);
    let has_default_formatted =
        has_default_family && default("formatted", &text("displayName").or(user_name));
    for (part, is_default) in [("familyName", has_default_family), ("formatted", has_default_formatted)] {
        if is_default {
            name.remove(part);
        }
    }
    if name.is_empty() { None } else { Some(name.into()) }
}
