//! Checks and normalizes the resources that clients send. Names receive the spelling of the schema. Read-only
//! attributes and empty values are removed.
//!
//! Attributes that RFC 7643 defines and the settings do not map are ignored. The schema documents do not contain them.
//! Any other unknown name is refused, because it would have no effect.

use std::collections::HashSet;

use ldap::Excerpt;
use serde_json::{Map, Value};

use crate::attribute::{Attribute, Binding, Kind, Mutability};
use crate::error::{Result, ScimError};
use crate::model::ResourceType;

/// Attributes that every resource has. The server sets them.
const SET_BY_SERVER: [&str; 3] = ["schemas", "id", "meta"];

/// Checks the resource in the body of a POST or a PUT.
///
/// # Errors
/// invalidSyntax if a name is unknown or the resource's schema is missing. invalidValue if a value has the wrong type
/// or is missing.
pub(crate) fn check_resource(
    resource: &ResourceType,
    object: Map<String, Value>,
) -> Result<Map<String, Value>> {
    check_schemas(resource, &object)?;
    let checked = check_attributes(resource, object)?;
    for attribute in resource.all().filter(|attribute| attribute.is_required) {
        if !checked.contains_key(attribute.name) {
            return Err(ScimError::value(format!("{} is required", attribute.name)));
        }
    }
    Ok(checked)
}

/// Checks some attributes of a resource. None of them is required.
///
/// # Errors
/// The same as those of [`check_resource`].
pub(crate) fn check_attributes(
    resource: &ResourceType,
    object: Map<String, Value>,
) -> Result<Map<String, Value>> {
    let mut checked = Map::new();
    for (name, value) in object {
        if SET_BY_SERVER.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            continue;
        }
        if let Some(extension) = &resource.extension
            && extension.schema.eq_ignore_ascii_case(&name)
        {
            let parts = object_of(&name, value)?;
            let mut extended = Map::new();
            for (name, value) in parts.into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case("schemas")) {
                let found = extension.attributes.iter().find(|known| known.name.eq_ignore_ascii_case(&name));
                put(&mut extended, found.ok_or_else(|| unknown(&name))?, value)?;
            }
            if !extended.is_empty() {
                checked.insert(extension.schema.to_owned(), extended.into());
            }
            continue;
        }
        let found = resource.core().find(|known| known.name.eq_ignore_ascii_case(&name));
        put(&mut checked, found.ok_or_else(|| unknown(&name))?, value)?;
    }
    Ok(checked)
}

fn check_schemas(resource: &ResourceType, object: &Map<String, Value>) -> Result<()> {
    let schemas =
        object.iter().find(|(name, _)| name.eq_ignore_ascii_case("schemas")).map(|(_, value)| value);
    let Some(Value::Array(schemas)) = schemas else {
        return Err(ScimError::syntax("schemas is required: the URNs of the resource's schemas"));
    };
    // Other schemas are ignored, because Microsoft Entra ID adds one of its own to groups. Attributes of such a schema
    // are unknown, and therefore refused.
    let is_own =
        |schema: &Value| schema.as_str().is_some_and(|schema| schema.eq_ignore_ascii_case(resource.schema));
    if schemas.iter().any(is_own) {
        return Ok(());
    }
    Err(ScimError::syntax(format!("schemas: {} is missing", resource.schema)))
}

fn put(checked: &mut Map<String, Value>, attribute: &Attribute, value: Value) -> Result<()> {
    if !attribute.is_mapped() || attribute.mutability == Mutability::ReadOnly {
        return Ok(());
    }
    if let Some(value) = check_value(attribute, value)? {
        checked.insert(attribute.name.to_owned(), value);
    }
    Ok(())
}

/// Checks the value of an attribute. Returns `None` if the attribute has no value: the value is null or an empty list
/// (RFC 7643 section 2.5), an empty string, or an object whose part `value` is null or empty.
///
/// # Errors
/// invalidValue if the value has the wrong type. invalidSyntax if it contains an unknown part.
pub(crate) fn check_value(attribute: &Attribute, value: Value) -> Result<Option<Value>> {
    if !attribute.is_multi_valued {
        return match value {
            Value::Null => Ok(None),
            value => single(attribute, value),
        };
    }
    let values = match value {
        Value::Null => return Ok(None),
        Value::Array(values) => values,
        // Some clients send one value and no list.
        value => vec![value],
    };
    let (mut checked, mut seen) = (Vec::new(), HashSet::new());
    for value in values {
        let value = single(attribute, value)?;
        checked.extend(value.filter(|value| seen.insert(value.clone())));
    }
    let primaries = checked.iter().filter(|value: &&Value| value["primary"] == true).count();
    if primaries > 1 {
        return Err(ScimError::value(format!("{}: more than one value is primary", attribute.name)));
    }
    if attribute.binding == Binding::Address && checked.len() > 1 {
        return Err(ScimError::value("addresses: only one address is kept, that at work"));
    }
    Ok(if checked.is_empty() { None } else { Some(Value::Array(checked)) })
}

fn single(attribute: &Attribute, value: Value) -> Result<Option<Value>> {
    let wrong = |expected: &str| Err(ScimError::value(format!("{}: {expected} expected", attribute.name)));
    match (attribute.kind, value) {
        (Kind::Complex, value) => complex(attribute, value),
        // Microsoft Entra ID sends booleans as strings.
        (Kind::Boolean, Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true.into())),
        (Kind::Boolean, Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false.into())),
        (Kind::Boolean, value @ Value::Bool(_)) => Ok(Some(value)),
        (Kind::Boolean, _) => wrong("true or false"),
        (_, Value::String(text)) if text.is_empty() => Ok(None),
        (_, value @ Value::String(_)) => Ok(Some(value)),
        (..) => wrong("a string"),
    }
}

fn complex(attribute: &Attribute, value: Value) -> Result<Option<Value>> {
    let object = match value {
        // Some clients send only the value and no object. Example: the id of a manager.
        Value::String(text) if attribute.part("value").is_some() => {
            Map::from_iter([("value".to_owned(), text.into())])
        }
        value => object_of(attribute.name, value)?,
    };
    let (mut checked, mut states_value) = (Map::new(), false);
    for (name, value) in object {
        states_value |= name.eq_ignore_ascii_case("value");
        let part = attribute.part(&name).ok_or_else(|| unknown(&format!("{}.{name}", attribute.name)))?;
        put(&mut checked, part, value)?;
    }
    let lacks_value = attribute.part("value").is_some() && !checked.contains_key("value");
    // If a member without an id were no value, a faulty request could remove all members of a group.
    let is_faulty = lacks_value && states_value && matches!(attribute.binding, Binding::Members(_));
    if !is_faulty && (checked.is_empty() || lacks_value && states_value) {
        return Ok(None);
    }
    if lacks_value {
        return Err(ScimError::value(format!("{}: value is required", attribute.name)));
    }
    check_type(attribute, &mut checked)?;
    Ok(Some(checked.into()))
}

/// If the value has no type, sets the attribute's first type. Refuses types that no LDAP attribute stores.
fn check_type(attribute: &Attribute, object: &mut Map<String, Value>) -> Result<()> {
    if !matches!(attribute.binding, Binding::Typed(_) | Binding::Address) {
        return Ok(());
    }
    let canonical = attribute.part("type").map_or(&[][..], |part| &part.canonical);
    let stated = object.get("type").and_then(Value::as_str);
    let found = match stated {
        None => canonical.first(),
        Some(stated) => canonical.iter().find(|known| known.eq_ignore_ascii_case(stated)),
    };
    let refused = || {
        let stated = Excerpt(stated.unwrap_or_default());
        ScimError::value(format!("{}: type {stated:?} is none of {}", attribute.name, canonical.join(", ")))
    };
    let found = (*found.ok_or_else(refused)?).into();
    object.insert("type".to_owned(), found);
    Ok(())
}

fn object_of(name: &str, value: Value) -> Result<Map<String, Value>> {
    match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Map::new()),
        _ => Err(ScimError::value(format!("{}: an object expected", Excerpt(name)))),
    }
}

fn unknown(name: &str) -> ScimError {
    ScimError::syntax(format!("{:?} is no attribute of this resource", Excerpt(name)))
}
