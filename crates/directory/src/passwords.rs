//! Passwords in add and modify requests: which are clear, and what is stored of them.
//!
//! A clear userPassword never reaches a record. Hashing is slow on purpose and does not belong on the writer, so the
//! server asks [`clear_passwords`] beforehand, hashes on its pool, and hands the pairs over in the [`Stamp`]. A value that
//! is hashed already is stored as it came (see [`crate::password::is_hashed`]).
//!
//! Deleting a value of userPassword by modify takes the stored form, which only the administrator can know; users
//! replace the whole attribute.

use ldap::{ChangeOperation, PartialAttribute, Request, ResultCode};
use schema::Schema;

use crate::access::is_user_password;
use crate::password::{StorageScheme, is_hashed};
use crate::tree::State;
use crate::{OperationError, Snapshot, Stamp};

/// The values of an add or modify request that have to be hashed before it is carried out, in the order given.
pub fn clear_passwords<'a>(request: &Request<'a>, snapshot: &Snapshot) -> Vec<&'a [u8]> {
    let state = snapshot.state();
    clear_values(request, &state.catalog.schema, state.settings.password_scheme)
}

fn clear_values<'a>(request: &Request<'a>, schema: &Schema, scheme: StorageScheme) -> Vec<&'a [u8]> {
    let of = |attribute: PartialAttribute<'a>| {
        let is_password = schema
            .parse_description(attribute.description)
            .is_ok_and(|description| is_user_password(schema, description.type_id));
        attribute.values.iter().filter(move |value| is_password && !is_hashed(value))
    };
    if scheme == StorageScheme::Clear {
        return Vec::new();
    }
    match request {
        Request::Add(add) => add.attributes.iter().flat_map(of).collect(),
        Request::Modify(modify) => {
            let stores = |operation| matches!(operation, ChangeOperation::Add | ChangeOperation::Replace);
            let storing = modify.changes.iter().filter(|change| stores(change.operation));
            storing.flat_map(|change| of(change.attribute)).collect()
        }
        _ => Vec::new(),
    }
}

/// What is stored for a value of userPassword.
///
/// # Errors
/// unavailable when the value was to be hashed beforehand and was not: the setting changed in between.
pub(crate) fn stored_form(state: State<'_>, stamp: &Stamp, value: &[u8]) -> Result<Vec<u8>, OperationError> {
    if is_hashed(value) || state.settings.password_scheme == StorageScheme::Clear {
        return Ok(value.to_vec());
    }
    let hashed = stamp.hashed_passwords.iter().find(|(clear, _)| clear == value);
    hashed.map(|(_, stored)| stored.clone()).ok_or_else(|| {
        OperationError::refused(
            ResultCode::UNAVAILABLE,
            "the password was not hashed before it arrived here: the storage scheme has just changed, try again",
        )
    })
}

#[cfg(test)]
mod tests {
    use ldap::{AddRequest, AttributesBuf, ChangesBuf, ModifyRequest};

    use super::*;

    #[test]
    fn only_clear_values_that_are_stored_are_hashed() {
        let schema = Schema::shipped();
        let mut attributes = AttributesBuf::new();
        attributes.push("cn", ["secret0"]);
        attributes.push("USERPASSWORD;x-a", ["secret1", "{SSHA}AAAA", "{CLEARTEXT}secret2"]);
        let add = Request::Add(AddRequest { entry: "", attributes: attributes.as_attributes() });
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Delete, "userPassword", ["old"]);
        changes.push(ChangeOperation::Add, "2.5.4.35", ["new"]);
        changes.push(ChangeOperation::Replace, "userPassword", ["newer"]);
        let modify = Request::Modify(ModifyRequest { object: "", changes: changes.as_changes() });
        let check = |request: &Request<'_>, scheme, expected: &[&str]| {
            let found = clear_values(request, &schema, scheme);
            let expected: Vec<_> = expected.iter().map(|value| value.as_bytes()).collect();
            assert_eq!(found, expected);
        };
        check(&add, StorageScheme::Argon2id, &["secret1", "{CLEARTEXT}secret2"]);
        check(&modify, StorageScheme::Ssha, &["new", "newer"]);
        check(&add, StorageScheme::Clear, &[]);
    }
}
