//! PATCH (RFC 7644 section 3.5.2): operations on a resource that is already checked.
//!
//! Operations on the members of a group are not applied to the resource, because a group may have a million members.
//! They are converted to changes of single members.

mod apply;

use ldap::Excerpt;
use serde_json::{Map, Value};

pub(crate) use apply::apply;

use crate::attribute::{Attribute, Binding};
use crate::check::check_value;
use crate::error::{Result, ScimError};
use crate::filter::{Filter, Operator, PatchPath, parse_patch_path};
use crate::limits::PATCH_OPERATIONS_MAX;
use crate::model::ResourceType;

/// URN of the schema of a PATCH request.
const SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Add,
    Remove,
    Replace,
}

/// An operation of a PATCH request.
#[derive(Clone, Debug)]
pub(crate) struct PatchOperation {
    pub(crate) action: Action,
    pub(crate) path: Option<PatchPath>,
    pub(crate) value: Value,
}

/// A change of the members of a group. Members are denoted by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberChange {
    Add(Vec<String>),
    Remove(Vec<String>),
    /// Replaces all members of the group.
    Replace(Vec<String>),
}

/// Parses the body of a PATCH request.
///
/// # Errors
/// invalidSyntax, invalidPath or noTarget.
pub(crate) fn parse(body: Map<String, Value>) -> Result<Vec<PatchOperation>> {
    let mut operations = None;
    let mut has_schema = false;
    for (name, value) in body {
        match name.to_ascii_lowercase().as_str() {
            "schemas" => {
                has_schema = value.as_array().is_some_and(|schemas| schemas.iter().any(|one| one == SCHEMA))
            }
            "operations" => operations = Some(value),
            _ => return Err(ScimError::syntax(format!("{:?} is not part of a PATCH", Excerpt(&name)))),
        }
    }
    if !has_schema {
        return Err(ScimError::syntax(format!("schemas: {SCHEMA} is missing")));
    }
    let Some(Value::Array(operations)) = operations else {
        return Err(ScimError::syntax("Operations is required: a list"));
    };
    if operations.is_empty() || operations.len() > PATCH_OPERATIONS_MAX {
        return Err(ScimError::syntax(format!("Operations: 1 to {PATCH_OPERATIONS_MAX} expected")));
    }
    operations.into_iter().map(operation).collect()
}

fn operation(value: Value) -> Result<PatchOperation> {
    let Value::Object(parts) = value else {
        return Err(ScimError::syntax("Operations: an object expected"));
    };
    let (mut action, mut path, mut given) = (None, None, Value::Null);
    for (name, value) in parts {
        match (name.to_ascii_lowercase().as_str(), value) {
            ("op", Value::String(op)) => {
                action = match op.to_ascii_lowercase().as_str() {
                    "add" => Some(Action::Add),
                    "remove" => Some(Action::Remove),
                    "replace" => Some(Action::Replace),
                    _ => None,
                }
            }
            ("path", Value::String(text)) => path = Some(text),
            ("path", Value::Null) => {}
            ("value", value) => given = value,
            _ => return Err(ScimError::syntax(format!("{:?} is not part of an operation", Excerpt(&name)))),
        }
    }
    let action = action.ok_or_else(|| ScimError::syntax("op: add, remove or replace expected"))?;
    let path = path.as_deref().map(parse_patch_path).transpose()?;
    match (action, &path) {
        (Action::Remove, None) => Err(ScimError::no_target("remove needs a path")),
        (Action::Add, _) if given.is_null() => Err(ScimError::value("add needs a value")),
        _ => Ok(PatchOperation { action, path, value: given }),
    }
}

/// Removes the changes of members from the operations on a group. Returns these changes.
///
/// # Errors
/// invalidPath if a filter is not of the form `members[value eq "ID"]`.
pub(crate) fn take_member_changes(
    resource: &ResourceType,
    operations: &mut Vec<PatchOperation>,
) -> Result<Vec<MemberChange>> {
    let members = resource.attributes.iter().find(|one| matches!(one.binding, Binding::Members(_)));
    let Some(members) = members else { return Ok(Vec::new()) };
    let mut changes = Vec::new();
    for operation in operations.iter_mut() {
        match &operation.path {
            None => {
                let Value::Object(object) = &mut operation.value else { continue };
                let name = object.keys().find(|name| name.eq_ignore_ascii_case(members.name)).cloned();
                if let Some(value) = name.and_then(|name| object.remove(&name)) {
                    changes.extend(member_change(members, operation.action, None, value)?);
                }
            }
            Some(path) => {
                let named = resource.resolve(&path.path).filter(|found| found.attribute.name == members.name);
                let Some(named) = named else { continue };
                if named.part.is_some() || path.part.is_some() {
                    return Err(ScimError::mutability("members are added and removed whole, not changed"));
                }
                let (filter, value) = (path.filter.as_ref(), operation.value.take());
                changes.extend(member_change(members, operation.action, filter, value)?);
            }
        }
    }
    operations.retain(|operation| match &operation.path {
        Some(path) => resource.resolve(&path.path).is_none_or(|found| found.attribute.name != members.name),
        None => operation.value.as_object().is_none_or(|object| !object.is_empty()),
    });
    Ok(changes)
}

fn member_change(
    members: &Attribute,
    action: Action,
    filter: Option<&Filter>,
    value: Value,
) -> Result<Option<MemberChange>> {
    let Some(filter) = filter else {
        let is_stated = !value.is_null();
        let ids = member_ids(check_value(members, value)?);
        return Ok(Some(match action {
            Action::Add if ids.is_empty() => return Ok(None),
            Action::Add => MemberChange::Add(ids),
            Action::Remove if is_stated => MemberChange::Remove(ids),
            Action::Remove | Action::Replace => MemberChange::Replace(ids),
        }));
    };
    let mut ids = Vec::new();
    if action != Action::Remove || !value_ids(filter, &mut ids) {
        let text =
            "members: of filters only value eq \"ID\" is possible, with or between them, and only to remove";
        return Err(ScimError::path(text));
    }
    Ok(Some(MemberChange::Remove(ids)))
}

/// Adds the ids in a filter of the form `value eq "ID" or value eq "ID"` to `ids`. Returns false for any other filter.
fn value_ids(filter: &Filter, ids: &mut Vec<String>) -> bool {
    match filter {
        Filter::Or(filters) => filters.iter().all(|filter| value_ids(filter, ids)),
        Filter::Compare(path, Operator::Equal, Value::String(id)) if path.is("value") => {
            ids.push(id.clone());
            true
        }
        _ => false,
    }
}

/// Returns the ids in a list of members that is already checked.
pub(crate) fn member_ids(members: Option<Value>) -> Vec<String> {
    let Some(Value::Array(members)) = members else { return Vec::new() };
    members.iter().filter_map(|member| member["value"].as_str()).map(str::to_owned).collect()
}
