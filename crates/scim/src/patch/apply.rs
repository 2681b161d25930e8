//! Applies PATCH operations to a resource.

use serde_json::{Map, Value};

use super::{Action, PatchOperation};
use crate::attribute::{Attribute, Binding, Mutability};
use crate::check::{check_attributes, check_value};
use crate::error::{Result, ScimError};
use crate::filter::{Filter, Operator, PatchPath, matches, parse_patch_path};
use crate::limits::PATCH_WORK_MAX;
use crate::model::{Resolved, ResourceType};

/// The work that the operations of a request may still cause, in octets of compared or copied values. Without this
/// limit, operations could do any amount of work in memory before the directory checks the change.
struct WorkBudget(usize);

impl WorkBudget {
    /// Subtracts the work of examining `octets` octets of values `times` times.
    ///
    /// # Errors
    /// tooMany if the limit is exceeded.
    fn spend(&mut self, octets: usize, times: usize) -> Result<()> {
        let left = octets.checked_mul(times).and_then(|work| self.0.checked_sub(work));
        let text = "the operations compare too many values: send fewer operations in a request";
        self.0 = left.ok_or_else(|| ScimError::too_many(text))?;
        Ok(())
    }
}

/// Returns the number of octets of a value that a comparison may read, plus a fixed number for each value.
fn octets(value: &Value) -> usize {
    const EACH: usize = 16;
    EACH + match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(octets).sum(),
        Value::Object(parts) => parts.values().map(octets).sum(),
        _ => 0,
    }
}

/// Applies the operations to a checked resource, one after another.
///
/// # Errors
/// invalidPath, noTarget, mutability, and the errors of [`crate::check::check_value`].
pub(crate) fn apply(
    resource: &ResourceType,
    object: &mut Map<String, Value>,
    operations: Vec<PatchOperation>,
) -> Result<()> {
    let mut work = WorkBudget(PATCH_WORK_MAX);
    for PatchOperation { action, path, value } in operations {
        match path {
            Some(path) => at_path(resource, object, action, (&path, value), &mut work)?,
            None => at_root(resource, object, action, value, &mut work)?,
        }
    }
    let active = resource.core().find(|attribute| matches!(attribute.binding, Binding::Active(_)));
    if let Some(active) = active {
        // Null records that the operations removed the value, because a missing value means "no change" when the
        // resource is stored.
        object.entry(active.name).or_insert(Value::Null);
    }
    for attribute in resource.all().filter(|attribute| attribute.is_required) {
        if !object.contains_key(attribute.name) {
            let text = format!("{} is required and cannot be removed", attribute.name);
            return Err(ScimError { scim_type: Some("invalidValue"), ..ScimError::new(400, text) });
        }
    }
    Ok(())
}

/// Applies an operation without a path. Its value is an object with attributes. The keys may be paths: Microsoft Entra
/// ID sends such objects.
fn at_root(
    resource: &ResourceType,
    object: &mut Map<String, Value>,
    action: Action,
    value: Value,
    work: &mut WorkBudget,
) -> Result<()> {
    let Value::Object(attributes) = value else {
        return Err(ScimError::value("without a path, the value is an object of attributes"));
    };
    for (name, value) in attributes {
        let path = parse_patch_path(&name)?;
        if is_extension(resource, &path) {
            whole_extension(resource, object, action, value)?;
            continue;
        }
        let is_ignored = ["id", "meta", "schemas"].iter().any(|known| path.path.is(known))
            || resource
                .resolve(&path.path)
                .is_some_and(|found| found.attribute.mutability == Mutability::ReadOnly);
        if !is_ignored {
            at_path(resource, object, action, (&path, value), work)?;
        }
    }
    Ok(())
}

fn is_extension(resource: &ResourceType, path: &PatchPath) -> bool {
    let extension = resource.extension.as_ref();
    extension.is_some_and(|extension| path.path.to_string().eq_ignore_ascii_case(extension.schema))
}

/// Applies an operation whose path is the URN of the extension.
fn whole_extension(
    resource: &ResourceType,
    object: &mut Map<String, Value>,
    action: Action,
    value: Value,
) -> Result<()> {
    let Some(extension) = &resource.extension else { return Ok(()) };
    let checked = check_attributes(resource, Map::from_iter([(extension.schema.to_owned(), value)]))?;
    if action != Action::Add {
        object.remove(extension.schema);
    }
    for (schema, added) in checked {
        match (object.get_mut(&schema), added) {
            (Some(Value::Object(present)), Value::Object(added)) => present.extend(added),
            (_, added) => {
                object.insert(schema, added);
            }
        }
    }
    Ok(())
}

fn at_path(
    resource: &ResourceType,
    object: &mut Map<String, Value>,
    action: Action,
    (path, value): (&PatchPath, Value),
    work: &mut WorkBudget,
) -> Result<()> {
    if is_extension(resource, path) {
        return whole_extension(resource, object, action, value);
    }
    if ["id", "schemas"].iter().any(|known| path.path.is(known))
        || path.path.name.eq_ignore_ascii_case("meta")
    {
        return Err(ScimError::mutability(format!("{} is set by the server", path.path)));
    }
    let unknown =
        || ScimError::path(format!("{}: {} has no such attribute", path.path, resource.name.text()));
    let Resolved { attribute, part, is_extension } = resource.resolve(&path.path).ok_or_else(unknown)?;
    if attribute.mutability == Mutability::ReadOnly {
        return Err(ScimError::mutability(format!("{} is read-only", path.path)));
    }
    let part = match &path.part {
        Some(name) => Some(attribute.part(name).ok_or_else(unknown)?),
        None => part,
    };
    if !attribute.is_mapped() || part.is_some_and(|part| !part.is_mapped()) {
        // RFC 7643 defines the attribute, but no LDAP attribute stores it. It is ignored, as in a complete resource.
        return Ok(());
    }
    let target = match resource.extension.as_ref().filter(|_| is_extension) {
        Some(extension) => {
            let inner = object.entry(extension.schema).or_insert_with(|| Map::new().into());
            inner.as_object_mut().ok_or_else(unknown)?
        }
        None => &mut *object,
    };
    let (present, count) = match target.get(attribute.name) {
        Some(value) => (octets(value), value.as_array().map_or(1, Vec::len)),
        None => (0, 1),
    };
    work.spend(present, path.filter.as_ref().map_or(1, Filter::weight))?;
    // The work is a product, because a new part is copied to every value, and a new value is compared with every other
    // value.
    work.spend(octets(&value), count)?;
    match (&path.filter, part) {
        (Some(filter), part) => filtered(target, attribute, filter, part, action, value)?,
        (None, None) => whole(target, attribute, action, value)?,
        (None, Some(part)) => one_part(target, attribute, part, action, value)?,
    }
    object.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
    Ok(())
}

/// Applies an operation to a whole attribute.
fn whole(target: &mut Map<String, Value>, attribute: &Attribute, action: Action, value: Value) -> Result<()> {
    let is_stated = !value.is_null();
    let is_list = value.as_array().is_some_and(|values| !values.is_empty());
    let checked = check_value(attribute, value)?;
    let present = target.get_mut(attribute.name);
    match (action, present, checked) {
        // Microsoft Entra ID lists the values that it removes.
        (Action::Remove, Some(Value::Array(present)), Some(Value::Array(named))) if is_stated => {
            present.retain(|value| !named.iter().any(|named| named["value"] == value["value"]));
            if present.is_empty() {
                target.remove(attribute.name);
            }
        }
        (Action::Remove, _, None) if is_list => {}
        (Action::Remove, ..) | (Action::Replace, _, None) => {
            target.remove(attribute.name);
        }
        (Action::Add, _, None) => {}
        (Action::Add, Some(Value::Array(present)), Some(Value::Array(added))) => {
            let has_primary = added.iter().any(|value| value["primary"] == true);
            for value in added {
                present.retain(|other| other["value"] != value["value"] || other["type"] != value["type"]);
                present.push(value);
            }
            if has_primary {
                keep_last_primary(present);
            }
        }
        (Action::Add | Action::Replace, Some(Value::Object(present)), Some(Value::Object(added))) => {
            // If the attribute is complex, only those parts are replaced that the operation contains (RFC 7644 section
            // 3.5.2.3).
            present.extend(added);
        }
        (_, _, Some(checked)) => {
            target.insert(attribute.name.to_owned(), checked);
        }
    }
    Ok(())
}

/// Applies an operation to one part of every value of an attribute.
fn one_part(
    target: &mut Map<String, Value>,
    attribute: &Attribute,
    part: &Attribute,
    action: Action,
    value: Value,
) -> Result<()> {
    let checked = if action == Action::Remove { None } else { check_value(part, value)? };
    let set = |object: &mut Map<String, Value>| match &checked {
        Some(value) => drop(object.insert(part.name.to_owned(), value.clone())),
        None => remove_part(object, part),
    };
    let present = target.remove(attribute.name).unwrap_or_else(|| {
        let empty = Value::Object(Map::new());
        if attribute.is_multi_valued { Value::Array(vec![empty]) } else { empty }
    });
    let changed = match present {
        Value::Array(mut values) => {
            values.iter_mut().filter_map(Value::as_object_mut).for_each(set);
            Value::Array(values.into_iter().filter(|value| !is_hollow(value)).collect())
        }
        Value::Object(mut object) => {
            set(&mut object);
            Value::Object(object)
        }
        other => other,
    };
    put_checked(target, attribute, changed)
}

/// Applies an operation to the values that match a filter.
fn filtered(
    target: &mut Map<String, Value>,
    attribute: &Attribute,
    filter: &Filter,
    part: Option<&Attribute>,
    action: Action,
    value: Value,
) -> Result<()> {
    if !attribute.is_multi_valued {
        return Err(ScimError::path(format!("{}: it has one value, so there is no filter", attribute.name)));
    }
    let mut values = match target.remove(attribute.name) {
        Some(Value::Array(values)) => values,
        _ => Vec::new(),
    };
    // A part that receives no value is removed (RFC 7643 section 2.5).
    let is_removal = part.is_some_and(|part| matches!(check_value(part, value.clone()), Ok(None)));
    let passes = |value: &Value| value.as_object().is_some_and(|object| matches(filter, object));
    if !values.iter().any(passes) {
        if action != Action::Add {
            let text = format!("{}: no value passes the filter", attribute.name);
            return Err(ScimError::no_target(text));
        }
        let mut new = Map::new();
        equalities(filter, &mut new);
        values.push(new.into());
    }
    match (action, part) {
        (Action::Remove, None) => values.retain(|value| !passes(value)),
        (_, Some(part)) if action == Action::Remove || is_removal => {
            for object in values.iter_mut().filter(|value| passes(value)).filter_map(Value::as_object_mut) {
                remove_part(object, part);
            }
        }
        (_, part) => {
            let changes = match part {
                Some(part) => Map::from_iter([(part.name.to_owned(), value)]),
                None => match value {
                    Value::Object(parts) => parts,
                    _ => return Err(ScimError::value(format!("{}: an object expected", attribute.name))),
                },
            };
            let is_primary =
                changes.iter().any(|(name, value)| name.eq_ignore_ascii_case("primary") && *value == true);
            let (mut changed, unmatched): (Vec<_>, Vec<_>) = values.into_iter().partition(passes);
            for object in changed.iter_mut().filter_map(Value::as_object_mut) {
                for (name, value) in &changes {
                    let name = attribute.part(name).map_or(name.as_str(), |part| part.name);
                    object.insert(name.to_owned(), value.clone());
                }
            }
            values = unmatched;
            values.extend(changed);
            if is_primary {
                keep_last_primary(&mut values);
            }
        }
    }
    values.retain(|value| !is_hollow(value));
    put_checked(target, attribute, Value::Array(values))
}

/// Removes a part of a value. Without its part `value`, nothing remains of a value.
fn remove_part(object: &mut Map<String, Value>, part: &Attribute) {
    match part.name {
        "value" => object.clear(),
        name => drop(object.remove(name)),
    }
}

/// Sets those parts of a new value that a filter determines by comparisons with `eq`.
fn equalities(filter: &Filter, object: &mut Map<String, Value>) {
    match filter {
        Filter::And(filters) => filters.iter().for_each(|filter| equalities(filter, object)),
        Filter::Compare(path, Operator::Equal, value) => {
            object.insert(path.name.clone(), value.clone());
        }
        _ => {}
    }
}

fn put_checked(target: &mut Map<String, Value>, attribute: &Attribute, value: Value) -> Result<()> {
    match check_value(attribute, value)? {
        Some(value) => drop(target.insert(attribute.name.to_owned(), value)),
        None => drop(target.remove(attribute.name)),
    }
    Ok(())
}

/// Returns true if a value has no parts other than `type` and `primary`.
fn is_hollow(value: &Value) -> bool {
    value.as_object().is_none_or(|object| object.keys().all(|name| name == "type" || name == "primary"))
}

/// Keeps only the last primary value. If a client makes a value primary, the other values are no longer primary (RFC
/// 7644 section 3.5.2).
fn keep_last_primary(values: &mut [Value]) {
    let mut is_found = false;
    for object in values.iter_mut().rev().filter_map(Value::as_object_mut) {
        if object.get("primary").is_some_and(|value| *value == true) {
            if is_found {
                object.remove("primary");
            }
            is_found = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Model;
    use crate::patch::parse;
    use crate::settings::ScimSettings;

    fn applied(operations: &Value) -> Result<Map<String, Value>> {
        let model =
            Model::of(&ScimSettings::new("ou=people,dc=x".to_owned(), "ou=groups,dc=x".to_owned())).unwrap();
        let body = json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": operations,
        });
        let mut object = Map::from_iter([("userName".to_owned(), "anna".into())]);
        apply(&model.users, &mut object, parse(body.as_object().unwrap().clone())?).map(|()| object)
    }

    fn mails(count: usize) -> Value {
        (0..count).map(|number| json!({ "value": format!("{number}@x") })).collect()
    }

    /// The body of a request has at most 1 MiB, but the work of its operations can be far larger, because it is a
    /// product: each value of one operation is compared with each value of another operation, and a text is copied to
    /// every value.
    #[test]
    fn the_product_of_operations_is_limited() {
        let add = |count: usize| json!({ "op": "add", "path": "emails", "value": mails(count) });
        let text = "x".repeat(400_000);
        let repeated = |operation: Value, times: usize| {
            Value::from([vec![add(20_000)], vec![operation; times]].concat())
        };
        for operations in [
            json!([add(20_000), add(20_000)]),
            json!([add(20_000), { "op": "remove", "path": "emails", "value": mails(20_000) }]),
            json!([add(20_000), { "op": "replace", "path": "emails.value", "value": text }]),
            json!([add(20_000), { "op": "replace", "path": "emails[type eq \"work\"].value", "value": text }]),
            repeated(
                json!({ "op": "remove", "path": "emails[value eq \"7@x\" or value eq \"8\"].type" }),
                900,
            ),
        ] {
            let refused = applied(&operations).unwrap_err();
            assert_eq!(refused.scim_type, Some("tooMany"), "{refused:?}");
        }
        let changed = applied(&json!([add(1_000), add(900)])).unwrap();
        assert_eq!(changed["emails"].as_array().unwrap().len(), 1_000);
    }

    /// Null and the empty text mean "no value" (RFC 7643 section 2.5).
    #[test]
    fn a_part_without_a_value_is_removed() {
        const MANAGER: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager";
        let emails = json!([{ "value": "a@x", "type": "work" }, { "value": "b@x", "type": "work" }]);
        let add = json!({ "op": "add", "path": "emails", "value": emails });
        let path = |filter: &str, part: &str| format!("emails[{filter}]{part}");
        for value in [json!(null), json!("")] {
            let one = path("value eq \"a@x\"", ".value");
            let one = applied(&json!([add, { "op": "replace", "path": one, "value": value }])).unwrap();
            assert_eq!(one["emails"], json!([{ "value": "b@x", "type": "work" }]), "{value}");
            for path in [path("type eq \"work\"", ".value"), "emails.value".to_owned()] {
                let all = applied(&json!([add, { "op": "replace", "path": path, "value": value }])).unwrap();
                assert_eq!(all.get("emails"), None, "{path} {value}");
            }
            let whole = json!([{ "type": "work", "value": value }]);
            let none = json!([add, { "op": "replace", "path": "emails", "value": whole }]);
            let none = applied(&none).unwrap();
            assert_eq!(none.get("emails"), None, "{value}");
            let listed = json!([add, { "op": "remove", "path": "emails", "value": whole }]);
            assert_eq!(applied(&listed).unwrap()["emails"], emails, "{value}");
            let manager = json!({ "value": "1", "$ref": "https://x/1" });
            let none = applied(&json!([
                { "op": "add", "path": MANAGER, "value": manager },
                { "op": "replace", "path": format!("{MANAGER}.value"), "value": value },
            ]));
            assert_eq!(none.unwrap().keys().collect::<Vec<_>>(), ["active", "userName"], "{value}");
        }
        let refused = applied(&json!([{ "op": "add", "path": "emails", "value": [{ "type": "work" }] }]));
        assert_eq!(refused.unwrap_err().scim_type, Some("invalidValue"));
    }
}
