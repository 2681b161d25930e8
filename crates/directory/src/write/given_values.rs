//! Attribute descriptions and values from clients: their validation, and the key that identifies each value.
//!
//! Two values of an attribute are equal if their keys are equal. For ordinary attributes the key is the normal form
//! under the equality rule, or the bytes if the type has no rule. The key of a link is the id of the entry that it
//! names, so all spellings of the DN are the same value. The key of a dangling link is the normal form of its DN.

use ldap::{ResultCode, Values};
use schema::{AttributeDescription, AttributeType, Schema};

use crate::catalog::is_user_password;
use crate::model::name::{NormalName, name_in};
use crate::model::outcome::OperationError;
use crate::model::record::Value;
use crate::model::rows::EntryId;
use crate::model::value_list::{KeyedValue, ValueList};
use crate::tree::{Found, TreeState};
use crate::write::deciding::Deciding;
use crate::write::passwords::stored_form;

/// An entry that is being added. The values of the entry can name the entry itself, although it does not exist yet.
pub(crate) struct AddedEntry<'n> {
    /// Future id of the entry.
    pub(crate) id: EntryId,
    /// Name of the entry.
    pub(crate) name: &'n NormalName,
}

const LINK_ID: u8 = 1;
const LINK_TEXT: u8 = 2;

/// Returns the key of a link to an entry.
pub(crate) fn link_id_key(target: EntryId) -> Vec<u8> {
    let mut key = vec![LINK_ID];
    key.extend_from_slice(&target.0.to_be_bytes());
    key
}

/// Returns the key of a dangling link with this normal name.
pub(crate) fn link_text_key(normal: &[u8]) -> Vec<u8> {
    let mut key = vec![LINK_TEXT];
    key.extend_from_slice(normal);
    key
}

/// Decodes the key of a link attribute's value. Returns the entry that the value names, or the normal name of a
/// dangling link as the error.
pub(crate) fn read_link_key(key: &[u8]) -> Result<EntryId, &[u8]> {
    match key {
        [LINK_ID, id @ ..] => Ok(EntryId(id.try_into().map_or(0, u64::from_be_bytes))),
        [_, normal @ ..] => Err(normal),
        [] => Err(&[]),
    }
}

/// Returns the only value of an attribute, if it is stored unchanged. Returns `None` for several values, links and
/// passwords. Checks the syntax of the value, and that the value has a key. Does not compute the key if the equality
/// rule shows that the value has a key.
///
/// # Errors
/// See [`read_value`].
pub(crate) fn only_value<'v>(
    state: TreeState<'_>,
    description: &AttributeDescription,
    values: Values<'v>,
) -> Result<Option<&'v [u8]>, OperationError> {
    let schema = &*state.catalog.schema;
    let mut values = values.iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Ok(None) };
    let is_other = state.catalog.type_facts(description.type_id).is_link
        || is_user_password(schema, description.type_id);
    if is_other {
        return Ok(None);
    }
    match schema.type_by_id(description.type_id).equality {
        Some(rule) if !rule.surely_has_key(value) => {
            check_value(schema, description, 1, value, &mut Vec::with_capacity(value.len() + 8))?;
        }
        _ => check_syntax(schema, description, 1, value)?,
    }
    Ok(Some(value))
}

/// Reads the values of one attribute for storing. Replaces clear passwords by their stored form.
///
/// # Errors
/// See [`read_value`] and [`stored_form`]; attributeOrValueExists if two values are equal.
pub(crate) fn read_values(
    deciding: Deciding<'_>,
    newcomer: Option<&AddedEntry<'_>>,
    description: &AttributeDescription,
    values: Values<'_>,
) -> Result<ValueList, OperationError> {
    let state = deciding.state;
    let schema = &state.catalog.schema;
    let twice = |place| given_twice(&description.returned_name(schema), place + 1);
    let mut given = ValueList::with_capacity(values.len());
    for (place, bytes) in values.iter().enumerate() {
        if !given.insert(read_value(&state, newcomer, description, place + 1, bytes)?) {
            return Err(twice(place));
        }
    }
    if !is_user_password(schema, description.type_id) {
        return Ok(given);
    }
    let mut stored = ValueList::with_capacity(given.len());
    for (place, bytes) in values.iter().enumerate() {
        let form = stored_form(&deciding, bytes)?;
        if !stored.insert(read_value(&state, newcomer, description, place + 1, &form)?) {
            return Err(twice(place));
        }
    }
    Ok(stored)
}

/// Returns the error for a value that a request contains twice. `place` is counted from 1.
pub(crate) fn given_twice(attribute: &str, place: usize) -> OperationError {
    let diagnostic = format!("{attribute}: value {place} is given more than once");
    OperationError::refused(ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, diagnostic)
}

/// Checks a value against its syntax and computes its key. `place` is counted from 1 and used in the diagnostic text.
///
/// # Errors
/// invalidAttributeSyntax, with the value's number and the reason.
pub(crate) fn read_value(
    state: &TreeState<'_>,
    newcomer: Option<&AddedEntry<'_>>,
    description: &AttributeDescription,
    place: usize,
    bytes: &[u8],
) -> Result<KeyedValue, OperationError> {
    let schema = &*state.catalog.schema;
    let mut normal = Vec::with_capacity(bytes.len() + 8);
    check_value(schema, description, place, bytes, &mut normal)?;
    if !state.catalog.type_facts(description.type_id).is_link {
        return Ok(KeyedValue { key: normal, value: Value::Bytes(bytes.to_vec()) });
    }
    match named_entry(state, newcomer, bytes)? {
        Some(target) => Ok(KeyedValue { key: link_id_key(target), value: Value::Link(target) }),
        None => Ok(KeyedValue { key: link_text_key(&normal), value: Value::Bytes(bytes.to_vec()) }),
    }
}

/// Checks a value against its syntax and appends its normal form to `normal`. `place` is counted from 1 and used in the
/// diagnostic text.
///
/// # Errors
/// invalidAttributeSyntax, with the value's number and the reason.
pub(crate) fn check_value(
    schema: &Schema,
    description: &AttributeDescription,
    place: usize,
    bytes: &[u8],
    normal: &mut Vec<u8>,
) -> Result<(), OperationError> {
    check_syntax(schema, description, place, bytes)?;
    append_normal(schema, schema.type_by_id(description.type_id), bytes, normal)
        .map_err(|error| invalid(schema, description, place, &format!("not comparable: {error}")))
}

/// Like [`check_value`], without computing the normal form. The caller guarantees that the value has a normal form.
pub(crate) fn check_syntax(
    schema: &Schema,
    description: &AttributeDescription,
    place: usize,
    bytes: &[u8],
) -> Result<(), OperationError> {
    let attribute_type = schema.type_by_id(description.type_id);
    let checked = schema.validate_value(attribute_type, bytes);
    checked.map_err(|error| invalid(schema, description, place, &error.to_string()))
}

fn invalid(
    schema: &Schema,
    description: &AttributeDescription,
    place: usize,
    reason: &str,
) -> OperationError {
    let name = description.returned_name(schema);
    let diagnostic = format!("{name}: value {place} is {reason}");
    OperationError::refused(ResultCode::INVALID_ATTRIBUTE_SYNTAX, diagnostic)
}

/// Returns the normal form of a value that is not stored as a link.
pub(crate) fn normal_value(
    schema: &Schema,
    attribute_type: &AttributeType,
    bytes: &[u8],
) -> Result<Vec<u8>, schema::ValueError> {
    let mut key = Vec::with_capacity(bytes.len() + 8);
    append_normal(schema, attribute_type, bytes, &mut key)?;
    Ok(key)
}

fn append_normal(
    schema: &Schema,
    attribute_type: &AttributeType,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), schema::ValueError> {
    match attribute_type.equality {
        Some(rule) => rule.normalize(schema, bytes, out),
        None => {
            out.extend_from_slice(bytes);
            Ok(())
        }
    }
}

/// Returns the entry that a value of a link attribute names. This entry may be the entry that is being added.
fn named_entry(
    state: &TreeState<'_>,
    newcomer: Option<&AddedEntry<'_>>,
    bytes: &[u8],
) -> Result<Option<EntryId>, OperationError> {
    let Some(name) = name_in(&state.catalog.schema, bytes) else { return Ok(None) };
    if let Some(newcomer) = newcomer.filter(|newcomer| newcomer.name.key == name.key) {
        return Ok(Some(newcomer.id));
    }
    match state.find(&name)? {
        Found::Entry(id, _) => Ok(Some(id)),
        Found::Missing { .. } => Ok(None),
    }
}
