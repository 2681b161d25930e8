//! Checks of collective attribute subentries (RFC 3671 section 2.1), so that every accepted subentry has an effect.

use ldap::ResultCode;
use schema::AttributeDescription;

use crate::catalog::Catalog;
use crate::model::collective::Subtree;
use crate::model::limits::COLLECTIVE_SUBENTRY_OCTETS_MAX;
use crate::model::outcome::OperationError;
use crate::tree::collective::UNSUITABLE_SUBTREE;
use crate::write::schema_check::Present;

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the descriptions of the subentry's collective attributes, and of subtreeSpecification.
pub(crate) fn checked(catalog: &Catalog, present: &[Present<'_>]) -> Vec<AttributeDescription> {
    let present = present.iter().map(|present| present.description.as_ref());
    present.filter(|of| is_collective(catalog, of) || is_subtree(catalog, of)).cloned().collect()
}

/// Checks the values of the attributes that [`checked`] returned.
///
/// # Errors
/// constraintViolation for a subtree specification that cannot be applied, adminLimitExceeded for values that are too
/// long in total.
pub(crate) fn check(
    catalog: &Catalog,
    attributes: &[AttributeDescription],
    mut values: impl FnMut(&AttributeDescription) -> Result<Vec<Vec<u8>>>,
) -> Result<()> {
    let mut octets = 0;
    for description in attributes {
        let values = values(description)?;
        octets += values.iter().map(Vec::len).sum::<usize>();
        if is_subtree(catalog, description)
            && values.iter().any(|value| Subtree::of(&catalog.schema, value).is_none())
        {
            return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, UNSUITABLE_SUBTREE));
        }
    }
    if octets > COLLECTIVE_SUBENTRY_OCTETS_MAX {
        return Err(OperationError::refused(
            ResultCode::ADMIN_LIMIT_EXCEEDED,
            format!(
                "the collective attributes and the subtree of a subentry have at most \
                 {COLLECTIVE_SUBENTRY_OCTETS_MAX} octets"
            ),
        ));
    }
    Ok(())
}

fn is_collective(catalog: &Catalog, description: &AttributeDescription) -> bool {
    catalog.schema.type_by_id(description.type_id).collective
}

fn is_subtree(catalog: &Catalog, description: &AttributeDescription) -> bool {
    catalog.schema.type_by_id(description.type_id).name() == "subtreeSpecification"
}
