//! The value `{next}`, which stands for the next free number of a range that a rule of the setting `next_numbers`
//! defines.
//!
//! The writer replaces the value before it checks the request. Two requests therefore never get the same number, and
//! the record contains the number itself. The next number is the number after the highest number in use. If the
//! highest number of the range is in use, the next number is the lowest free number.

use std::ops::Bound;

use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, ModifyRequest, Request, ResultCode, Values,
};
use schema::integer_of_key;
use store::Direction;

use crate::catalog::next_numbers::NextNumberRule;
use crate::catalog::normal_value;
use crate::model::limits::NEXT_NUMBERS_EXAMINED_MAX;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{AttrId, INDEX, index_key};
use crate::tree::TreeState;
use crate::write::value_rules::indexed;

type Result<T> = std::result::Result<T, OperationError>;

/// The value that is replaced by a number.
const NEXT: &[u8] = b"{next}";

/// A request whose `{next}` values were replaced by numbers.
pub(crate) struct Numbered<'r> {
    content: Content<'r>,
    /// Whether a number is only a placeholder, because finding the next free number takes a long search.
    pub(crate) is_placeholder: bool,
}

enum Content<'r> {
    Add(&'r str, AttributesBuf),
    Modify(&'r str, ChangesBuf),
}

impl Numbered<'_> {
    /// Returns the request.
    pub(crate) fn request(&self) -> Request<'_> {
        match &self.content {
            Content::Add(entry, attributes) => {
                Request::Add(AddRequest { entry, attributes: attributes.as_attributes() })
            }
            Content::Modify(object, changes) => {
                Request::Modify(ModifyRequest { object, changes: changes.as_changes() })
            }
        }
    }
}

/// Replaces the values `{next}` of attributes for which a rule defines numbers. Returns `None` if the request contains
/// no such value. If the highest number of the range is in use, a search must find a free number. If `may_search` is
/// false, the first number of the range is used as a placeholder.
///
/// # Errors
/// constraintViolation if no number is free; adminLimitExceeded if the search examined too many numbers; busy while an
/// index is being built.
pub(crate) fn number<'r>(
    state: TreeState<'_>,
    request: &Request<'r>,
    may_search: bool,
) -> Result<Option<Numbered<'r>>> {
    match request {
        Request::Add(request) => {
            let mut chosen = Chosen::new(state, request.entry, may_search);
            if !request.attributes.iter().any(|given| chosen.rule(given.description, given.values).is_some())
            {
                return Ok(None);
            }
            let mut attributes = AttributesBuf::new();
            for given in request.attributes.iter() {
                let values = chosen.values(given.description, given.values)?;
                attributes.push(given.description, values);
            }
            let content = Content::Add(request.entry, attributes);
            Ok(Some(Numbered { content, is_placeholder: chosen.is_placeholder }))
        }
        Request::Modify(request) => {
            let mut chosen = Chosen::new(state, request.object, may_search);
            let is_given = |operation| matches!(operation, ChangeOperation::Add | ChangeOperation::Replace);
            let uses_placeholder = |change: &ldap::Change<'_>| {
                let given = &change.attribute;
                is_given(change.operation) && chosen.rule(given.description, given.values).is_some()
            };
            if !request.changes.iter().any(|change| uses_placeholder(&change)) {
                return Ok(None);
            }
            let mut changes = ChangesBuf::new();
            for change in request.changes.iter() {
                let given = &change.attribute;
                match is_given(change.operation) {
                    true => {
                        let values = chosen.values(given.description, given.values)?;
                        changes.push(change.operation, given.description, values);
                    }
                    false => changes.push(change.operation, given.description, given.values.iter()),
                }
            }
            let content = Content::Modify(request.object, changes);
            Ok(Some(Numbered { content, is_placeholder: chosen.is_placeholder }))
        }
        _ => Ok(None),
    }
}

/// Numbers chosen for one request.
struct Chosen<'a> {
    state: TreeState<'a>,
    dn: &'a str,
    /// Numbers chosen so far, each with the place of its rule in the setting.
    numbers: Vec<(usize, i64)>,
    may_search: bool,
    is_placeholder: bool,
}

impl<'a> Chosen<'a> {
    fn new(state: TreeState<'a>, dn: &'a str, may_search: bool) -> Chosen<'a> {
        Chosen { state, dn, numbers: Vec::new(), may_search, is_placeholder: false }
    }

    /// Returns the rule that defines the numbers of an attribute, with the rule's place in the setting. Returns `None`
    /// if no rule applies, or if no value is `{next}`.
    fn rule(&self, description: &str, values: Values<'_>) -> Option<(usize, &'a NextNumberRule)> {
        if !values.iter().any(|value| value == NEXT) {
            return None;
        }
        let schema = &self.state.catalog.schema;
        let type_id = schema.parse_description(description).ok()?.type_id;
        let applies = |rule: &NextNumberRule| {
            rule.types.contains(&type_id)
                && rule.base.as_ref().is_none_or(|base| {
                    let name = parse_dn(self.dn).map(|dn| NormalName::of(&dn, schema));
                    name.is_ok_and(|name| name.failure.is_none() && name.key.starts_with(&base.key))
                })
        };
        self.state.catalog.next_numbers.iter().enumerate().find(|(_, rule)| applies(rule))
    }

    /// Returns the values of an attribute with `{next}` replaced by a number.
    fn values(&mut self, description: &str, values: Values<'_>) -> Result<Vec<Vec<u8>>> {
        let mut given: Vec<Vec<u8>> = values.iter().map(<[u8]>::to_vec).collect();
        if let Some((place, rule)) = self.rule(description, values) {
            let number = match self.numbers.iter().find(|(known, _)| *known == place) {
                Some((_, number)) => *number,
                None => {
                    let number = match after_highest(self.state, rule)? {
                        Some(number) => number,
                        None if self.may_search => lowest_free(self.state, rule)?,
                        None => {
                            self.is_placeholder = true;
                            rule.range.0
                        }
                    };
                    self.numbers.push((place, number));
                    number
                }
            };
            let placeholders = given.iter_mut().filter(|value| *value == NEXT);
            placeholders.for_each(|value| *value = number.to_string().into_bytes());
        }
        Ok(given)
    }
}

/// Returns the indexes of a rule's attribute types.
fn indexes(state: TreeState<'_>, rule: &NextNumberRule) -> Result<Vec<AttrId>> {
    let mut bases = Vec::new();
    for type_id in &rule.types {
        bases.extend(indexed(state, *type_id, "next_numbers")?.map(|def| def.id));
    }
    Ok(bases)
}

/// Returns the number after the highest number of the rule's range that the rule's attribute types use. Returns the
/// first number of the range if no number is in use, and `None` if the last number is in use.
fn after_highest(state: TreeState<'_>, rule: &NextNumberRule) -> Result<Option<i64>> {
    let (from, to) = rule.range;
    let mut highest = None;
    for base in &indexes(state, rule)? {
        let range = (index_row(state, *base, from), index_row(state, *base, to));
        let range = (Bound::Included(&range.0[..]), Bound::Included(&range.1[..]));
        if let Some(row) = state.read.scan_keys(INDEX, range, Direction::Backward).next() {
            highest = highest.max(number_of(row?.0));
        }
    }
    Ok(match highest {
        None => Some(from),
        Some(highest) if highest < to => Some(highest + 1),
        Some(_) => None,
    })
}

/// Returns the lowest number of a rule's range that is not in use by the rule's attribute types.
fn lowest_free(state: TreeState<'_>, rule: &NextNumberRule) -> Result<i64> {
    let (from, to) = rule.range;
    let bases = indexes(state, rule)?;
    let (mut number, mut examined) = (from, 0);
    loop {
        let before = number;
        for base in &bases {
            number = after_used(state, (*base, to), number, &mut examined)?;
        }
        if number > to {
            let what =
                format!("the rule {} of the setting next_numbers has no free number", Quoted(&rule.name));
            return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, what));
        }
        if number == before {
            return Ok(number);
        }
        if examined > NEXT_NUMBERS_EXAMINED_MAX {
            let what = format!(
                "the rule {} of the setting next_numbers has no free number among the first \
                 {NEXT_NUMBERS_EXAMINED_MAX}: raise the end of its range",
                Quoted(&rule.name)
            );
            return Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, what));
        }
    }
}

/// Returns the first number, starting at `number`, that an index does not contain. Returns `to + 1` if all numbers up
/// to `to` are in use. Stops after [`NEXT_NUMBERS_EXAMINED_MAX`] keys.
fn after_used(
    state: TreeState<'_>,
    (base, to): (AttrId, i64),
    mut number: i64,
    examined: &mut usize,
) -> Result<i64> {
    let range = (index_row(state, base, number), index_row(state, base, to));
    let range = (Bound::Included(&range.0[..]), Bound::Included(&range.1[..]));
    for row in state.read.scan_keys(INDEX, range, Direction::Forward) {
        if number_of(row?.0) != Some(number) || *examined > NEXT_NUMBERS_EXAMINED_MAX {
            break;
        }
        *examined += 1;
        match number.checked_add(1) {
            Some(following) if following <= to => number = following,
            _ => return Ok(to.saturating_add(1)),
        }
    }
    Ok(number)
}

/// Returns the index key of a number.
fn index_row(state: TreeState<'_>, base: AttrId, number: i64) -> Vec<u8> {
    let def = state.catalog.attribute(base);
    let text = number.to_string();
    index_key(base, &normal_value(&state.catalog.schema, def, text.as_bytes()))
}

/// Returns the number in an index key.
fn number_of(key: &[u8]) -> Option<i64> {
    integer_of_key(key.get(size_of::<AttrId>()..)?)
}

#[cfg(test)]
mod tests;
