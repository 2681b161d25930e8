//! Attribute descriptions in requests that change entries.

use ldap::ResultCode;
use schema::{AttributeDescription, AttributeType, DescriptionError, Schema};

use super::VirtualAttribute;
use super::secret::USER_PASSWORD;
use crate::model::account_attribute::AccountAttribute;
use crate::model::outcome::OperationError;
use crate::model::password_kind::names_application;
use crate::model::password_policy::PasswordPolicy;

/// OIDs of types that may not have options: objectClass, aliasedObjectName, subtreeSpecification. These types determine
/// the structure of the tree.
const WITHOUT_OPTIONS: [&str; 3] = ["2.5.4.0", "2.5.4.1", "2.5.18.6"];

/// Name of the attribute that contains former passwords.
const PASSWORD_HISTORY: &str = "pwdHistory";

/// Parses the description of an attribute that a request adds or changes.
///
/// # Errors
/// undefinedAttributeType for a type that is not defined, a malformed description, `;binary` on a type without a binary
/// form (RFC 4522 section 3), and a language range (RFC 3866 section 2.1), which may only be used to request values.
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
            "{text:?}: a language range names no attribute; it can only be used to request values"
        )));
    }
    description.binary = false;
    Ok(description)
}

/// Checks that clients may set an attribute. `made_by` is the virtual attribute that the type denotes, if any.
///
/// # Errors
/// constraintViolation for attributes that only the server sets (RFC 4512 section 4.1.2), and for virtual attributes.
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

/// Checks the options of an attribute that a request adds or changes. Some attributes, such as objectClass, may not
/// have options, because the server would ignore their values with options. Some attributes of passwords may have only
/// the option for an application.
///
/// # Errors
/// constraintViolation.
pub(crate) fn check_options(
    schema: &Schema,
    description: &AttributeDescription,
) -> Result<(), OperationError> {
    if description.options.is_empty() {
        return Ok(());
    }
    let oid = schema.type_by_id(description.type_id).oid.as_str();
    let problem = match WITHOUT_OPTIONS.contains(&oid) {
        true => Some(without_effect(schema, description)),
        false => password_options_problem(schema, description),
    };
    match problem {
        None => Ok(()),
        Some(problem) => Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, problem)),
    }
}

fn without_effect(schema: &Schema, description: &AttributeDescription) -> String {
    format!("{} would be without effect: it takes no options", description.returned_name(schema))
}

/// Returns a message if the options of a password or policy attribute are not permitted. Passwords, their expiry and
/// their last use may have the option `x-app-NAME` for an application (decision 0084). Other attributes of passwords
/// and policies have no options.
pub(crate) fn password_options_problem(
    schema: &Schema,
    description: &AttributeDescription,
) -> Option<String> {
    if description.options.is_empty() {
        return None;
    }
    let is = |name: &str| schema.attribute_type(name).is_some_and(|known| known.id == description.type_id);
    let given = description.returned_name(schema);
    if is(USER_PASSWORD) || is(AccountAttribute::EndTime.name()) || is(AccountAttribute::LastSuccess.name()) {
        let name = schema.type_by_id(description.type_id).name();
        return (!names_application(&description.options)).then(|| {
            format!(
                "{given} would allow no bind: {name} takes at most one option, x-app-NAME, for an application"
            )
        });
    }
    let is_of_account = AccountAttribute::ALL.iter().any(|attribute| is(attribute.name()));
    let is_of_policy = || PasswordPolicy::attributes().any(is);
    (is_of_account || is(PASSWORD_HISTORY) || is_of_policy()).then(|| without_effect(schema, description))
}
