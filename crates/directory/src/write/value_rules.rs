//! Checks the record of an operation against the value rules of the settings.
//!
//! Value rules are checked last, after access, schema and place. A refusal therefore reveals nothing to a requester
//! that may not make the change. The checks run on the writer and see the earlier operations of the batch. If two
//! concurrent changes together would violate a rule, one of these changes is refused, also in a cluster.

mod changed;
pub(crate) mod limits;
#[cfg(test)]
mod tests;
mod unique;

use ldap::ResultCode;
use schema::TypeId;

use crate::catalog::{AttributeDef, Catalog};
use crate::model::index_definition::IndexPart;
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record};
use crate::tree::TreeState;
use crate::write::deciding::Deciding;
pub(super) use changed::Changed;
pub(crate) use unique::AddedValues;

/// Checks the record of an operation against the rules.
///
/// # Errors
/// constraintViolation for a value that violates a rule; another code if a rule cannot be evaluated.
#[inline]
pub(crate) fn check(deciding: Deciding<'_>, record: &Record) -> Result<(), OperationError> {
    match has_rules(deciding.state.catalog) {
        true => check_rules(deciding, record),
        false => Ok(()),
    }
}

/// Like [`check`], for one of several records that add entries in one change. Also checks these entries against each
/// other.
///
/// # Errors
/// See [`check`].
pub(crate) fn check_added(
    deciding: Deciding<'_>,
    record: &Record,
    added: &mut AddedValues,
) -> Result<(), OperationError> {
    check(deciding, record)?;
    added.check(deciding, &Changed::of(deciding.state, record)?)
}

/// Returns true if the settings contain value rules.
#[inline]
pub(super) fn has_rules(catalog: &Catalog) -> bool {
    !catalog.uniqueness.is_empty() || !catalog.value_limits.is_empty()
}

fn check_rules(deciding: Deciding<'_>, record: &Record) -> Result<(), OperationError> {
    match &record.change {
        Change::Add(_) | Change::Modify(_) | Change::ModifyDn(_) => {
            let changed = Changed::of(deciding.state, record)?;
            limits::check(deciding.state, &changed)?;
            unique::check(deciding, &changed)
        }
        _ => Ok(()),
    }
}

/// Returns the attribute of a type without options, if the index of the type is complete. A refusal names `setting`:
/// the setting whose rule needs the index. Returns `None` if no entry has ever had an attribute of the type.
///
/// # Errors
/// busy if the index is not complete.
pub(super) fn indexed<'s>(
    state: TreeState<'s>,
    type_id: TypeId,
    setting: &str,
) -> Result<Option<&'s AttributeDef>, OperationError> {
    let Some(id) = state.catalog.attribute_id(type_id, "") else { return Ok(None) };
    let def = state.catalog.attribute(id);
    if def.index.answers(IndexPart::Values) {
        return Ok(Some(def));
    }
    let what =
        format!("the index of {}, which a rule of the setting {setting} needs, is being built", def.name);
    Err(OperationError::refused(ResultCode::BUSY, what))
}
