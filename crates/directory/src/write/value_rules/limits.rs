//! Value limits: the number of values, their size, a pattern, and a source. A source is a set of entries whose values
//! are allowed.
//!
//! An entry that begins to match a rule's filter is checked with all of its values. Any other entry is checked with the
//! values that it gains. Uniqueness rules make the same distinction.

use ldap::{ResultCode, Scope};

use super::changed::{Changed, has_normal_value};
use super::indexed;
use crate::catalog::value_limits::{ValueLimit, ValueSource};
use crate::filter::Covering;
use crate::model::limits::{INDEX_KEY_MAX, PATTERN_VALUE_SIZE_MAX, VALUE_RULE_ENTRIES_MAX};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{EntryId, INDEX, with_index_key};
use crate::tree::TreeState;
use crate::write::given_values::normal_value;

/// Number of entries with the value that are read in one step.
const BLOCK: usize = 64;

type Result<T> = std::result::Result<T, OperationError>;

/// Checks a change against all value limits.
///
/// # Errors
/// constraintViolation, with the type and the limit; busy or adminLimitExceeded if a source cannot be examined.
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
            true => check_values(state, rule, name, &values)?,
            false => {
                check_count(rule, name, &values)?;
                added.into_iter().try_for_each(|value| check_value(state, rule, name, value))?;
            }
        }
    }
    Ok(())
}

/// Checks all values that an entry has of one type of the rule. `name` is the name of the type.
///
/// # Errors
/// constraintViolation, with the type and the limit; busy or adminLimitExceeded if a source cannot be examined.
pub(crate) fn check_values(
    state: TreeState<'_>,
    rule: &ValueLimit,
    name: &str,
    values: &[Vec<u8>],
) -> Result<()> {
    check_count(rule, name, values)?;
    values.iter().try_for_each(|value| check_value(state, rule, name, value))
}

fn check_count(rule: &ValueLimit, name: &str, values: &[Vec<u8>]) -> Result<()> {
    match rule.count_max.filter(|max| values.len() > *max) {
        Some(max) => Err(refusal(rule, name, &format!("at most {max} values"))),
        None => Ok(()),
    }
}

fn check_value(state: TreeState<'_>, rule: &ValueLimit, name: &str, value: &[u8]) -> Result<()> {
    if let Some(source) = &rule.source
        && !is_in(state, rule, source, value)?
    {
        let of = state.catalog.schema.type_by_id(source.type_id).name();
        return Err(refusal(rule, name, &format!("only values that {of} has in certain entries")));
    }
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

/// Returns true if an entry of `source` has the value.
fn is_in(state: TreeState<'_>, rule: &ValueLimit, source: &ValueSource, value: &[u8]) -> Result<bool> {
    let schema = &*state.catalog.schema;
    let Ok(normal) = normal_value(schema, schema.type_by_id(source.type_id), value) else { return Ok(false) };
    let Some(def) = indexed(state, source.type_id, "value_limits")? else { return Ok(false) };
    let covering = Covering::of(state, &source.found)?;
    let base = source.found.base.as_ref().map(|name| state.entry_of(name)).transpose()?.flatten();
    let mut ids = with_index_key(def.id, &normal, |key| state.read.ids(INDEX, key))?;
    let (mut block, mut examined) = (Vec::new(), 0);
    while ids.next_block(&mut block, BLOCK)? > 0 {
        for id in block.drain(..).map(EntryId) {
            let is_in_scope = match source.scope {
                Scope::BaseObject => Some(id) == base,
                Scope::SingleLevel => base.is_some() && state.node(id)?.map(|node| node.parent) == base,
                Scope::WholeSubtree => covering.has_in_base(state, id)?,
                Scope::Subordinate => Some(id) != base && covering.has_in_base(state, id)?,
            };
            if is_in_scope
                && covering.matches(state, id)?
                && (normal.len() <= INDEX_KEY_MAX || has_normal_value(state, id, source.type_id, &normal)?)
            {
                return Ok(true);
            }
            examined += 1;
        }
        if examined > VALUE_RULE_ENTRIES_MAX {
            let what = format!(
                "the value limit {} cannot be checked: more than {VALUE_RULE_ENTRIES_MAX} entries have the value and \
                 are not among those of the URL",
                Quoted(&rule.name)
            );
            return Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, what));
        }
    }
    Ok(false)
}

fn refusal(rule: &ValueLimit, name: &str, allowed: &str) -> OperationError {
    let what = format!("{name}: the value limit {} allows {allowed}", Quoted(&rule.name));
    OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, what)
}
