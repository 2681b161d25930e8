//! Converts resources to entries: to the attributes of a new entry, or to the changes of an existing entry.

use client::Entry;
use ldap::{AttributesBuf, ChangeOperation, ChangesBuf};
use serde_json::{Map, Value};

use crate::attribute::{Attribute, Binding, DISABLED, Kind, Slot};
use crate::error::{Result, ScimError};
use crate::model::{EXTERNAL_ID, OBJECT_CLASS, ResourceName, ResourceType, SCIM_CLASS, UNSET};
use crate::read::{first, without_label};
use crate::session::{FoundEntry, NewName};

/// The content that an attribute of an entry must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetContent {
    /// The first value. The other values do not change.
    First(String),
    /// The URI in the first value. A space and a label may follow the URI (labeledURI, RFC 2079).
    Uri(String),
    /// All values.
    All(Vec<String>),
    /// A new password.
    Password(String),
    /// True for a lock without an end, and false for no lock.
    Disabled(bool),
    /// No lock, because the client has removed the status of the account.
    NoStatus,
    /// The DN of the resource with this id.
    Link(String),
    /// No value.
    Nothing,
}

/// LDAP attributes, and the content that they must have.
pub(crate) type TargetAttributes = Vec<(String, TargetContent)>;

/// Returns the content that an entry must have so that it stores a checked resource. Omits the members of a group. An
/// attribute that the resource does not contain must be empty in the entry. However, if the password or the lock is
/// missing in the resource, the entry keeps its password or lock.
///
/// # Errors
/// invalidValue if an entry cannot have all of the values.
pub(crate) fn wishes(resource: &ResourceType, object: &Map<String, Value>) -> Result<TargetAttributes> {
    let mut all = Vec::new();
    for attribute in resource.core() {
        wish(attribute, object.get(attribute.name), &mut all);
    }
    let extended = resource.extension.as_ref().and_then(|extension| object.get(extension.schema));
    for attribute in resource.extended() {
        wish(attribute, extended.and_then(|extended| extended.get(attribute.name)), &mut all);
    }
    if resource.name == ResourceName::User {
        give_names(resource, object, &mut all);
        let unset = resource.core().filter(|attribute| is_unset(attribute, object.get(attribute.name)));
        all.push((
            UNSET.to_owned(),
            TargetContent::All(unset.map(|attribute| attribute.name.to_owned()).collect()),
        ));
    }
    Ok(all)
}

/// Returns true if the client wants no value although there is a default. A client expresses this by null in a PATCH,
/// or by a list in which some values are marked as not primary and no value is marked as primary.
fn is_unset(attribute: &Attribute, value: Option<&Value>) -> bool {
    match (&attribute.binding, value) {
        (Binding::Active(_), Some(value)) => value.is_null(),
        (Binding::Typed(_), Some(Value::Array(values))) => {
            let is = |primary: bool| values.iter().any(|value| value["primary"] == primary);
            is(false) && !is(true)
        }
        _ => false,
    }
}

fn wish(attribute: &Attribute, value: Option<&Value>, all: &mut TargetAttributes) {
    let text = |value: Option<&Value>| match value.and_then(Value::as_str) {
        Some(text) => TargetContent::First(text.to_owned()),
        None => TargetContent::Nothing,
    };
    match &attribute.binding {
        Binding::Unmapped | Binding::Members(_) | Binding::Groups(_) => {}
        Binding::Text(name) => all.push(match (attribute.kind, text(value)) {
            (Kind::Reference, TargetContent::First(uri)) => (name.clone(), TargetContent::Uri(uri)),
            (_, wanted) => (name.clone(), wanted),
        }),
        Binding::Password(name) => {
            let password = value.and_then(Value::as_str).map(str::to_owned);
            all.extend(password.map(|password| (name.clone(), TargetContent::Password(password))));
        }
        Binding::Active(name) => {
            // If the value is missing, the lock does not change. If the value was removed, the default applies.
            let wanted = |value: &Value| match value {
                Value::Null => TargetContent::NoStatus,
                value => TargetContent::Disabled(*value == false),
            };
            all.extend(value.map(|value| (name.clone(), wanted(value))));
        }
        Binding::Inner => {
            attribute
                .parts
                .iter()
                .for_each(|part| wish(part, value.and_then(|value| value.get(part.name)), all));
        }
        Binding::Address => {
            let address = value.and_then(|value| value.get(0));
            for part in &attribute.parts {
                let Binding::Text(name) = &part.binding else { continue };
                let wanted = match (part.name, text(address.and_then(|address| address.get(part.name)))) {
                    ("formatted", TargetContent::First(text)) => TargetContent::First(postal_address(&text)),
                    (_, wanted) => wanted,
                };
                all.push((name.clone(), wanted));
            }
        }
        Binding::Values(name) => all.push((name.clone(), TargetContent::All(texts(value, |_| true)))),
        Binding::Typed(slots) => {
            for slot in slots {
                all.push((slot.description.clone(), TargetContent::All(of_slot(value, slot))));
            }
        }
        Binding::Link(name) => {
            let id = value.and_then(|value| value.get("value")).and_then(Value::as_str);
            all.push((
                name.clone(),
                id.map_or(TargetContent::Nothing, |id| TargetContent::Link(id.to_owned())),
            ));
        }
    }
}

fn texts(value: Option<&Value>, is_wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    let values = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let values = values.iter().filter(|value| is_wanted(value));
    values.filter_map(|value| value["value"].as_str()).map(str::to_owned).collect()
}

/// Returns the values of one type. The primary value is first.
fn of_slot(value: Option<&Value>, slot: &Slot) -> Vec<String> {
    let mut values = texts(value, |value| value["type"] == slot.canonical && value["primary"] == true);
    values.extend(texts(value, |value| value["type"] == slot.canonical && value["primary"] != true));
    values
}

/// Converts a text of several lines to a postal address (RFC 4517 section 3.3.28).
fn postal_address(text: &str) -> String {
    text.replace('\\', "\\5C").replace('$', "\\24").replace("\r\n", "$").replace('\n', "$")
}

/// Generates a name for a user who has none, because an entry must have `cn` and `sn`.
fn give_names(resource: &ResourceType, object: &Map<String, Value>, all: &mut TargetAttributes) {
    let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    let part = |name: &str| object.get("name")?.get(name)?.as_str().map(str::to_owned);
    let user_name = text("userName").unwrap_or_default();
    let family = part("familyName").unwrap_or_else(|| user_name.clone());
    let full = text("displayName").or_else(|| full_name(object)).unwrap_or(user_name);
    for (part, default, required) in [("formatted", full, "cn"), ("familyName", family, "sn")] {
        let name = resource.attributes.iter().find(|one| one.name == "name");
        let binding = name.and_then(|name| name.part(part)).map(|part| &part.binding);
        if binding != Some(&Binding::Text(required.to_owned())) {
            continue;
        }
        for (name, wanted) in all.iter_mut() {
            if name == required && *wanted == TargetContent::Nothing {
                *wanted = TargetContent::First(default.clone());
            }
        }
    }
}

/// Returns the given name and the family name as one text. If only one of the two exists, returns that name. Returns
/// `None` if neither exists.
fn full_name(object: &Map<String, Value>) -> Option<String> {
    let part = |name: &str| object.get("name")?.get(name)?.as_str();
    match (part("givenName"), part("familyName")) {
        (Some(given), Some(family)) => Some(format!("{given} {family}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

/// Updates the formatted name if it consists of the other names and these names have changed.
pub(crate) fn follow_names(before: &Map<String, Value>, after: &mut Map<String, Value>) {
    let formatted =
        |object: &Map<String, Value>| Some(object.get("name")?.get("formatted")?.as_str()?.to_owned());
    let text = |object: &Map<String, Value>, name: &str| object.get(name)?.as_str().map(str::to_owned);
    let names = |object: &Map<String, Value>| {
        [full_name(object), text(object, "displayName"), text(object, "userName")]
    };
    let Some(formatted_name) =
        formatted(before).filter(|formatted_name| formatted(after).as_ref() == Some(formatted_name))
    else {
        return;
    };
    let pairs = names(before).into_iter().zip(names(after));
    let followed = pairs.filter(|(old, _)| old.as_ref() == Some(&formatted_name)).find_map(|(_, new)| new);
    if let (Some(followed), Some(name)) = (followed, after.get_mut("name")) {
        name["formatted"] = followed.into();
    }
}

/// Returns the ids of the resources that the content refers to.
pub(crate) fn linked_ids(wishes: &TargetAttributes) -> Vec<String> {
    let id = |(_, wanted): &(String, TargetContent)| match wanted {
        TargetContent::Link(id) => Some(id.clone()),
        _ => None,
    };
    wishes.iter().filter_map(id).collect()
}

/// Returns the DN and the attributes of a new entry. `dn_of` returns the DN of the resource with an id.
///
/// # Errors
/// invalidValue if the attribute of the RDN has no value, or an id belongs to no resource.
pub(crate) fn new_entry(
    resource: &ResourceType,
    wishes: TargetAttributes,
    members: Option<(&str, &[String])>,
    dn_of: &dyn Fn(&str) -> Result<String>,
) -> Result<(String, AttributesBuf)> {
    let is_name = |(name, _): &&(String, TargetContent)| name.eq_ignore_ascii_case(&resource.rdn);
    let rdn = match wishes.iter().find(is_name) {
        Some((_, TargetContent::First(value))) => value.clone(),
        _ => {
            return Err(ScimError::value(format!(
                "{}, the attribute of the name, has no value",
                resource.rdn
            )));
        }
    };
    let dn = format!("{}={},{}", resource.rdn, ldap::escaped_value(rdn.as_bytes()), resource.base);
    let mut list: Vec<(String, Vec<String>)> = Vec::new();
    let mut classes = resource.classes.clone();
    for (name, wanted) in wishes {
        let values = match wanted {
            TargetContent::First(value) | TargetContent::Uri(value) | TargetContent::Password(value) => {
                vec![value]
            }
            TargetContent::All(values) => values,
            TargetContent::Disabled(true) => vec![DISABLED.to_owned()],
            TargetContent::Disabled(false) | TargetContent::NoStatus | TargetContent::Nothing => continue,
            TargetContent::Link(id) => vec![dn_of(&id)?],
        };
        if values.is_empty() {
            continue;
        }
        if needs_class(&name) && !classes.iter().any(|class| class.eq_ignore_ascii_case(SCIM_CLASS)) {
            classes.push(SCIM_CLASS.to_owned());
        }
        match list.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some((_, known)) => {
                known.extend(values.into_iter().filter(|value| !known.contains(value)).collect::<Vec<_>>())
            }
            None => list.push((name, values)),
        }
    }
    let mut attributes = AttributesBuf::new();
    attributes.push(OBJECT_CLASS, &classes);
    list.iter().for_each(|(name, values)| attributes.push(name, values));
    if let Some((name, dns)) = members.filter(|(_, dns)| !dns.is_empty()) {
        attributes.push(name, dns);
    }
    Ok((dn, attributes))
}

/// The changes of an entry.
#[derive(Default)]
pub(crate) struct EntryChanges {
    pub(crate) changes: ChangesBuf,
    pub(crate) renamed: Option<NewName>,
    is_changed: bool,
}

impl EntryChanges {
    pub(crate) fn push(&mut self, operation: ChangeOperation, name: &str, values: &[String]) {
        self.is_changed = true;
        self.changes.push(operation, name, values);
    }

    /// Returns true if nothing changes.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_changed && self.renamed.is_none()
    }
}

/// Adds to `changes` the changes that give the entry this content. Content that the entry already has does not change.
///
/// # Errors
/// invalidValue if an id belongs to no resource.
pub(crate) fn changes_of(
    found: &FoundEntry,
    wishes: TargetAttributes,
    dn_of: &dyn Fn(&str) -> Result<String>,
    changes: &mut EntryChanges,
) -> Result<()> {
    let entry = &found.entry;
    for (name, wanted) in wishes {
        let present = entry.texts(&name);
        match wanted {
            TargetContent::First(value) => set_first(entry, &name, value, changes)?,
            TargetContent::Uri(value) => {
                let labeled = first(entry, &name);
                if labeled.as_deref().map(without_label) != Some(&value) {
                    set_first(entry, &name, value, changes)?;
                }
            }
            TargetContent::All(values) if values == present => {}
            TargetContent::All(values) => {
                give_class(entry, &name, changes);
                changes.push(ChangeOperation::Replace, &name, &values);
            }
            TargetContent::Password(value) => changes.push(ChangeOperation::Replace, &name, &[value]),
            TargetContent::Disabled(true) => {
                if present != [DISABLED] {
                    changes.push(ChangeOperation::Replace, &name, &[DISABLED.to_owned()]);
                }
            }
            TargetContent::Disabled(false) | TargetContent::NoStatus => {
                if present == [DISABLED] {
                    changes.push(ChangeOperation::Replace, &name, &[]);
                }
            }
            TargetContent::Link(id) => {
                let is_own = |link: &crate::session::Link| {
                    link.attribute.eq_ignore_ascii_case(&name) && link.id.eq_ignore_ascii_case(&id)
                };
                if !found.links.iter().any(is_own) {
                    changes.push(ChangeOperation::Replace, &name, &[dn_of(&id)?]);
                }
            }
            TargetContent::Nothing if present.is_empty() => {}
            TargetContent::Nothing if is_in_name(entry, &name) => {
                return Err(ScimError::mutability(format!(
                    "{name} is the name of the entry and cannot be removed"
                )));
            }
            TargetContent::Nothing => changes.push(ChangeOperation::Replace, &name, &[]),
        }
    }
    Ok(())
}

/// Returns true if the entry can have the attribute only with the auxiliary class.
fn needs_class(name: &str) -> bool {
    name == EXTERNAL_ID || name == UNSET
}

/// Adds the auxiliary class if the attribute needs it.
fn give_class(entry: &Entry, name: &str, changes: &mut EntryChanges) {
    let has_class = entry.texts(OBJECT_CLASS).iter().any(|class| class.eq_ignore_ascii_case(SCIM_CLASS));
    if needs_class(name) && !has_class {
        // The class may be added twice, because the request contains the Permissive Modify control of Active Directory.
        changes.push(ChangeOperation::Add, OBJECT_CLASS, &[SCIM_CLASS.to_owned()]);
    }
}

fn set_first(entry: &Entry, name: &str, value: String, changes: &mut EntryChanges) -> Result<()> {
    let present = first(entry, name);
    if present.as_ref() == Some(&value) {
        return Ok(());
    }
    if is_in_name(entry, name) {
        changes.renamed = Some(renamed(entry, name, &value)?);
        return Ok(());
    }
    give_class(entry, name, changes);
    if let Some(present) = present {
        changes.push(ChangeOperation::Delete, name, &[present]);
    }
    changes.push(ChangeOperation::Add, name, &[value]);
    Ok(())
}

/// Returns true if the RDN contains the attribute.
fn is_in_name(entry: &Entry, name: &str) -> bool {
    let dn = ldap::Dn::parse(&entry.dn).ok();
    let rdn = dn.as_ref().and_then(ldap::Dn::rdn);
    rdn.is_some_and(|rdn| rdn.avas.iter().any(|ava| ava.attribute.eq_ignore_ascii_case(name)))
}

/// Returns the new name of an entry if the attribute in its RDN has this new value.
fn renamed(entry: &Entry, name: &str, value: &str) -> Result<NewName> {
    let dn = ldap::Dn::parse(&entry.dn).map_err(|error| ScimError::new(500, error.to_string()))?;
    let avas = dn.rdn().map(|rdn| rdn.avas.len());
    if avas != Some(1) {
        return Err(ScimError::mutability(
            "the name of the entry has several parts, so it cannot be changed here",
        ));
    }
    let rdn = format!("{name}={}", ldap::escaped_value(value.as_bytes()));
    let parent = dn.text_from(1);
    let dn = if parent.is_empty() { rdn.clone() } else { format!("{rdn},{parent}") };
    Ok(NewName { rdn, dn })
}
