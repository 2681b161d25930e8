//! Limits of values: their number, their size, and a pattern.
//!
//! As with uniqueness, an entry that begins to match the filter of a rule is checked with all of its values, and any
//! other entry with the values that it gains.

use ldap::ResultCode;

use super::changed::Changed;
use crate::catalog::value_limits::ValueLimit;
use crate::filter::Covering;
use crate::model::limits::PATTERN_VALUE_SIZE_MAX;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Checks a change against all limits.
///
/// # Errors
/// constraintViolation, with the type and the limit.
pub(super) fn check(state: TreeState<'_>, changed: &Changed<'_>) -> Result<()> {
    state.catalog.value_limits.iter().try_for_each(|rule| check_rule(state, rule, changed))
}

fn check_rule(state: TreeState<'_>, rule: &ValueLimit, changed: &Changed<'_>) -> Result<()> {
    let adds = rule.types.iter().any(|type_id| !changed.added(*type_id).is_empty());
    if !adds && !changed.touches(&rule.covered.tests) {
        return Ok(());
    }
    let covering = Covering::of(state, &rule.covered)?;
    let Some(begins) = changed.begins_to_match(&covering, &rule.covered)? else { return Ok(()) };
    let checks_all = begins || changed.is_new();
    for type_id in &rule.types {
        let name = state.catalog.schema.type_by_id(*type_id).name();
        let added = changed.added(*type_id);
        if added.is_empty() && !checks_all {
            continue;
        }
        let values = changed.values(*type_id)?;
        match checks_all {
            true => check_values(rule, name, &values)?,
            false => {
                check_count(rule, name, &values)?;
                added.into_iter().try_for_each(|value| check_value(rule, name, value))?;
            }
        }
    }
    Ok(())
}

/// Checks all values that an entry has of one of the rule's types; `name` is the type.
///
/// # Errors
/// constraintViolation, with the type and the limit.
pub(crate) fn check_values(rule: &ValueLimit, name: &str, values: &[Vec<u8>]) -> Result<()> {
    check_count(rule, name, values)?;
    values.iter().try_for_each(|value| check_value(rule, name, value))
}

fn check_count(rule: &ValueLimit, name: &str, values: &[Vec<u8>]) -> Result<()> {
    match rule.count_max.filter(|max| values.len() > *max) {
        Some(max) => Err(refusal(rule, name, &format!("at most {max} values"))),
        None => Ok(()),
    }
}

fn check_value(rule: &ValueLimit, name: &str, value: &[u8]) -> Result<()> {
    if let Some(max) = rule.size_max.filter(|max| value.len() > *max) {
        return Err(refusal(rule, name, &format!("values of at most {max} octets")));
    }
    let Some((pattern, text)) = &rule.pattern else { return Ok(()) };
    let is_short = value.len() <= PATTERN_VALUE_SIZE_MAX;
    match std::str::from_utf8(value).is_ok_and(|value| is_short && pattern.is_match(value)) {
        true => Ok(()),
        false => Err(refusal(rule, name, &format!("only values like {}", Quoted(text)))),
    }
}

fn refusal(rule: &ValueLimit, name: &str, allowed: &str) -> OperationError {
    let what = format!("{name}: the value limit {} allows {allowed}", Quoted(&rule.name));
    OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, what)
}
