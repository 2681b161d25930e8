//! Changes of the schema through the subschema subentry. As with 389 Directory Server and OpenDJ, clients add and
//! delete values of attributeTypes, objectClasses and so on (RFC 4512 section 4.2).
//!
//! An added definition becomes a line of the schema text `online`. A deleted definition is removed from the schema
//! text that contains it. To delete a definition, the client sends the definition's OID, the definition's name, or any
//! definition with the same OID. The resulting settings are checked like other settings, so a definition in use cannot
//! be deleted.
//!
//! Schema entries of OpenLDAP's `cn=config` can be added unchanged. Each such entry becomes a schema text.

use ldap::{AddRequest, Change, ChangeOperation, ModifyRequest, ResultCode};
use schema::{DefinitionRef, DefinitionSet, Schema};

use super::DirectorySettings;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;

type Result<T> = std::result::Result<T, OperationError>;

/// Name of the schema text for definitions that clients add to the subschema subentry.
const ONLINE: &str = "online";

/// Attributes whose values clients can add and delete. Matching rules cannot change, because the program implements
/// them.
const CHANGEABLE: [&str; 6] =
    ["attributeTypes", "objectClasses", "ldapSyntaxes", "dITContentRules", "nameForms", "dITStructureRules"];

/// Applies a request to the settings.
///
/// # Errors
/// The request is not a valid change of definitions.
pub(super) fn modify(
    settings: &mut DirectorySettings,
    schema: &Schema,
    request: &ModifyRequest<'_>,
) -> Result<()> {
    let texts = &mut settings.schema;
    let mut changes = Changes { known: DefinitionSet::of(texts.values()), ..Changes::default() };
    request.changes.iter().try_for_each(|change| carry_out(&mut changes, schema, &change))?;
    if !changes.removed.is_empty() {
        changes.removed.remove_from(texts.values_mut());
    }
    let text = texts.entry(ONLINE.to_owned()).or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    changes.added.iter().for_each(|(attribute, definition)| *text += &definition.line(attribute));
    if text.trim().is_empty() {
        texts.remove(ONLINE);
    }
    Ok(())
}

/// Changes that a request makes. They are applied in one pass over the schema texts.
#[derive(Default)]
struct Changes {
    /// Definitions in the schema texts after the changes so far.
    known: DefinitionSet,
    removed: DefinitionSet,
    /// New definitions, each with the attribute of the subschema subentry that contains it.
    added: Vec<(&'static str, DefinitionRef)>,
}

fn carry_out(changes: &mut Changes, schema: &Schema, change: &Change<'_>) -> Result<()> {
    let description = change.attribute.description;
    let unwilling = |what: String| Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, what));
    let attribute_type = schema.attribute_type(description);
    let attribute = CHANGEABLE.into_iter().find(|known| {
        attribute_type.is_some_and(|found| found.names.iter().any(|name| name.eq_ignore_ascii_case(known)))
    });
    let (Some(attribute), Some(attribute_type)) = (attribute, attribute_type) else {
        return unwilling(format!(
            "of the subschema subentry, only {} can be changed, not {}",
            CHANGEABLE.join(", "),
            Quoted(description)
        ));
    };
    let is_add = match change.operation {
        ChangeOperation::Add => true,
        ChangeOperation::Delete if !change.attribute.values.is_empty() => false,
        _ => return unwilling(format!("of {attribute}, add and delete single values: the rest is shipped")),
    };
    for (number, value) in change.attribute.values.iter().enumerate() {
        let invalid = |why: String| {
            let what = format!("{attribute}: value {}: {why}", number + 1);
            OperationError::refused(ResultCode::INVALID_ATTRIBUTE_SYNTAX, what)
        };
        let text = String::from_utf8_lossy(value);
        if !is_add && let Some(named) = changes.known.named(attribute, &text) {
            remove(changes, attribute, &named)?;
            continue;
        }
        schema.validate_value(attribute_type, value).map_err(|error| invalid(error.to_string()))?;
        if text.contains(['\n', '\r']) {
            return Err(invalid("a definition is one line".to_owned()));
        }
        let definition = match DefinitionRef::parse(attribute, &text) {
            Some(Ok(definition)) => definition,
            Some(Err(error)) => return Err(invalid(error.to_string())),
            None => return Err(invalid("it is no definition".to_owned())),
        };
        match is_add {
            true => add(changes, attribute, definition)?,
            false => remove(changes, attribute, &definition)?,
        }
    }
    Ok(())
}

fn add(changes: &mut Changes, attribute: &'static str, definition: DefinitionRef) -> Result<()> {
    if is_shipped(attribute, &definition) || !changes.known.insert(&definition) {
        let what = format!(
            "{attribute}: there is a definition of {}; delete it before this one is added, in the same request",
            definition.oid()
        );
        return Err(OperationError::refused(ResultCode::ATTRIBUTE_OR_VALUE_EXISTS, what));
    }
    changes.added.push((attribute, definition));
    Ok(())
}

fn remove(changes: &mut Changes, attribute: &str, definition: &DefinitionRef) -> Result<()> {
    if changes.known.remove(definition) {
        match changes.added.iter().position(|(_, added)| added.is_of(definition)) {
            Some(place) => drop(changes.added.remove(place)),
            None => drop(changes.removed.insert(definition)),
        }
        return Ok(());
    }
    let (code, what) = match is_shipped(attribute, definition) {
        true => (ResultCode::UNWILLING_TO_PERFORM, "what is shipped with the server cannot be deleted:"),
        false => (ResultCode::NO_SUCH_ATTRIBUTE, "there is no definition to delete of"),
    };
    Err(OperationError::refused(code, format!("{what} {attribute} {}", definition.oid())))
}

/// Object class of OpenLDAP's schema entries.
const OPENLDAP_CLASS: &[u8] = b"olcSchemaConfig";
/// Attribute of OpenLDAP's schema entries that contains macros. Macros precede the definitions that use them.
const OPENLDAP_MACROS: &str = "olcObjectIdentifier";
/// Attributes of OpenLDAP's schema entries that contain definitions.
const OPENLDAP_DEFINITIONS: [&str; 4] =
    ["olcAttributeTypes", "olcObjectClasses", "olcLdapSyntaxes", "olcDitContentRules"];

/// Returns the schema text that a schema entry of OpenLDAP contains. Returns `None` for another entry.
///
/// # Errors The entry has an attribute that is not part of a schema, or a value that is not one line of UTF-8.
pub(super) fn text_of_openldap(request: &AddRequest<'_>) -> Result<Option<String>> {
    let is = |description: &str, name: &str| description.eq_ignore_ascii_case(name);
    let is_class = |value: &[u8]| value.eq_ignore_ascii_case(OPENLDAP_CLASS);
    let mut classes = request.attributes.iter().filter(|attribute| is(attribute.description, "objectClass"));
    if !classes.any(|attribute| attribute.values.iter().any(is_class)) {
        return Ok(None);
    }
    let (mut macros, mut definitions) = (String::new(), String::new());
    for attribute in request.attributes.iter() {
        let description = attribute.description;
        if is(description, "objectClass") || is(description, "cn") {
            continue;
        }
        let mut known = OPENLDAP_DEFINITIONS.into_iter().chain([OPENLDAP_MACROS]);
        if !known.any(|known| is(description, known)) {
            let what = format!("{} is not an attribute of olcSchemaConfig", Quoted(description));
            return Err(OperationError::refused(ResultCode::OBJECT_CLASS_VIOLATION, what));
        }
        for (number, value) in attribute.values.iter().enumerate() {
            let line = std::str::from_utf8(value).ok().filter(|line| !line.contains(['\n', '\r']));
            let line = line.ok_or_else(|| {
                let what = format!("{description}: value {}: a definition is one line of UTF-8", number + 1);
                OperationError::refused(ResultCode::INVALID_ATTRIBUTE_SYNTAX, what)
            })?;
            let text = if is(description, OPENLDAP_MACROS) { &mut macros } else { &mut definitions };
            *text += &format!("{description}: {line}\n");
        }
    }
    Ok(Some(macros + &definitions))
}

/// Removes the ordering prefix from a value of OpenLDAP, such as `{4}` from `{4}inetorgperson`.
pub(super) fn without_order(name: &str) -> &str {
    let rest = name.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    rest.filter(|(number, _)| number.bytes().all(|digit| digit.is_ascii_digit()))
        .map_or(name, |(_, rest)| rest)
}

/// Returns true if the shipped schema defines the attribute type, class or syntax.
fn is_shipped(attribute: &str, definition: &DefinitionRef) -> bool {
    let (shipped, oid) = (Schema::shipped(), definition.oid());
    match attribute {
        "attributeTypes" => shipped.attribute_type(oid).is_some(),
        "objectClasses" => shipped.object_class(oid).is_some(),
        "ldapSyntaxes" => shipped.syntaxes().iter().any(|syntax| syntax.oid == oid),
        _ => false,
    }
}
