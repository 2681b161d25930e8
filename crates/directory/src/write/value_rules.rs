//! Rules of the settings about the values of entries, checked on the record that an operation decided.
//!
//! The checks are the last ones: access, schema and place have been decided, so a refusal reveals nothing to a
//! requester that may not make the change. They run on the writer, and see the earlier operations of the batch. So two
//! changes never pass a rule together that one of them would fail, on one server as in a cluster.

mod changed;
mod limits;
#[cfg(test)]
mod tests;
mod unique;

use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record};
use crate::write::deciding::Deciding;
use changed::Changed;

/// Checks the record of an operation against the rules.
///
/// # Errors
/// constraintViolation for a value that breaks a rule; others if a rule cannot be evaluated.
#[inline]
pub(crate) fn check(deciding: Deciding<'_>, record: &Record) -> Result<(), OperationError> {
    let catalog = deciding.state.catalog;
    if catalog.uniqueness.is_empty() && catalog.value_limits.is_empty() {
        return Ok(());
    }
    check_rules(deciding, record)
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
