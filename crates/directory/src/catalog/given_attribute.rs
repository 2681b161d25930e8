//! Attributes as a client names them where it wants to change them.

use ldap::ResultCode;
use schema::{AttributeDescription, AttributeType, DescriptionError, Schema};

use super::VirtualAttribute;
use crate::model::outcome::OperationError;

/// Reads the description of an attribute that is to be stored.
///
/// # Errors
/// undefinedAttributeType for a type that is not defined, a malformed description, `;binary` on a type without a binary
/// form (RFC 4522 section 3) and a language range (RFC 3866 section 2.1), which asks but never names.
pub fn read_description(schema: &Schema, text: &str) -> Result<AttributeDescription, OperationError> {
    let undefined =
        |diagnostic: String| OperationError::refused(ResultCode::UNDEFINED_ATTRIBUTE_TYPE, diagnostic);
    let mut description = schema.parse_description(text).map_err(|error| match error {
        DescriptionError::UnknownType(name) => {
            undefined(format!("attribute type {:?} is not defined in the schema", ldap::Excerpt(name)))
        }
        other => undefined(other.to_string()),
    })?;
    if description.has_language_range() {
        return Err(undefined(format!(
            "{text:?}: a language range names no attribute, only what to look for"
        )));
    }
    description.binary = false;
    Ok(description)
}

/// Checks that clients may set the attribute; `made_by` says what makes it, if it is not stored.
///
/// # Errors
/// constraintViolation for attributes that only the server sets (RFC 4512 section 4.1.2) or makes when they are asked
/// for.
pub fn check_modifiable(
    attribute_type: &AttributeType,
    made_by: Option<VirtualAttribute>,
) -> Result<(), OperationError> {
    if attribute_type.no_user_modification || made_by.is_some() {
        return Err(OperationError::refused(
            ResultCode::CONSTRAINT_VIOLATION,
            format!("{} is set by the server only", attribute_type.name()),
        ));
    }
    Ok(())
}
