//! Ranges of values (`member;range=0-1499`), as clients of Active Directory request the values of large attributes
//! ([MS-ADTS] section 3.1.1.3.1.3.3).
//!
//! Each result names the range that it contains, with `*` as the end if it contains the last value. The client then
//! requests the range from the next value on. Links come in ascending entry id, so adding or removing a value between
//! two requests shifts only the values after it.

use std::ops::ControlFlow;

use ldap::response::put_value;
use schema::AttributeDescription;

use super::selection::Selection;
use crate::access::EffectiveRights;
use crate::catalog::Catalog;
use crate::filter::{Candidate, GroupsOf, MemberUse, for_each_visible};
use crate::model::access_rule::READ;
use crate::model::limits::{RANGE_OCTETS_MAX, RANGE_VALUES_MAX, VALUE_RANGES_MAX};
use crate::model::outcome::OperationError;
use crate::tree::TreeState;
use crate::tree::stored_values::for_each_value_from;

type Result<T> = std::result::Result<T, OperationError>;

/// Ranges of values that a search requests.
#[derive(Clone, Debug)]
pub(super) struct ValueRanges {
    all: Vec<ValueRange>,
    /// The requester's view of groups for memberOf; `None` if no access rules restrict the requester.
    groups: Option<GroupsOf>,
}

#[derive(Clone, Debug)]
struct ValueRange {
    description: AttributeDescription,
    /// Index of the first value, from 0.
    low: u64,
    /// Index of the last value to return; `None` for `*`.
    high: Option<u64>,
}

impl ValueRanges {
    /// Removes the requested ranges from `selection.unknown`: they were added there because the schema has no type with
    /// such a name. Returns the ranges; `None` if there are none.
    #[cold]
    pub(super) fn of(
        selection: &mut Selection,
        catalog: &Catalog,
        rights: &EffectiveRights,
    ) -> Option<Box<ValueRanges>> {
        let mut all = Vec::new();
        selection.unknown.retain(|name| match ValueRange::parse(name, catalog) {
            Some(range) if all.len() < VALUE_RANGES_MAX => {
                all.push(range);
                false
            }
            _ => true,
        });
        let mut ranges = ValueRanges { all, groups: None };
        ranges.permit(rights);
        (!ranges.all.is_empty()).then(|| Box::new(ranges))
    }

    /// Sets the current effective rights of the requester.
    pub(super) fn permit(&mut self, rights: &EffectiveRights) {
        self.groups = rights.groups(MemberUse::Read);
    }

    /// Returns the requested ranges that are not empty in an entry: their names and encoded values.
    pub(super) fn attributes<'s>(
        &self,
        selection: &Selection,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let mut attributes = Vec::new();
        for range in &self.all {
            let catalog = state.catalog;
            let (facts, name) = (catalog.type_facts(range.description.type_id), &range.description);
            let mut part = Part::of(range);
            match facts.virtual_attribute {
                Some(attribute) if name.options.is_empty() && selection.may_return(catalog, name.type_id) => {
                    let groups = self.groups.as_ref();
                    for_each_visible(
                        state,
                        attribute,
                        groups,
                        (candidate.id, &candidate.node),
                        &mut |value| part.take(value),
                    )?;
                }
                Some(_) => {}
                None => part.take_stored(name, selection, state, candidate)?,
            }
            if part.count > 0 {
                let name = name.returned_name(&catalog.schema);
                attributes.push((part.name(&name, range.low), part.values));
            }
        }
        Ok(attributes)
    }
}

impl ValueRange {
    /// Parses a requested name such as `member;range=0-1499`.
    fn parse(text: &str, catalog: &Catalog) -> Option<ValueRange> {
        let (mut bounds, mut name) = (None, String::new());
        for part in text.split(';') {
            match part.strip_prefix("range=") {
                Some(range) if bounds.is_none() => bounds = Some(range.split_once('-')?),
                Some(_) => return None,
                None if name.is_empty() => part.clone_into(&mut name),
                None => name = format!("{name};{part}"),
            }
        }
        let number = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u64>().ok()).flatten()
        };
        let (low, high) = bounds?;
        let low = number(low)?;
        let high = match high {
            "*" => None,
            high => Some(number(high).filter(|high| *high >= low)?),
        };
        let description = catalog.schema.parse_description(&name).ok()?;
        Some(ValueRange { description, low, high })
    }
}

/// Values of a range that are collected so far.
struct Part {
    /// Number of values still to be skipped.
    skipped: u64,
    /// Maximum number of values to collect.
    max: u64,
    count: u64,
    values: Vec<u8>,
    /// Whether there are values after the range.
    has_more: bool,
}

impl Part {
    fn of(range: &ValueRange) -> Part {
        let wanted = range.high.map_or(u64::MAX, |high| (high - range.low).saturating_add(1));
        let max = wanted.min(RANGE_VALUES_MAX);
        Part { skipped: range.low, max, count: 0, values: Vec::new(), has_more: false }
    }

    fn take(&mut self, value: &[u8]) -> ControlFlow<()> {
        if self.skipped > 0 {
            self.skipped -= 1;
            return ControlFlow::Continue(());
        }
        if self.count == self.max || (self.count > 0 && self.values.len() + value.len() > RANGE_OCTETS_MAX) {
            self.has_more = true;
            return ControlFlow::Break(());
        }
        put_value(&mut self.values, value);
        self.count += 1;
        ControlFlow::Continue(())
    }

    /// Collects the readable values of a stored attribute.
    fn take_stored<'s>(
        &mut self,
        name: &AttributeDescription,
        selection: &Selection,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<()> {
        let (schema, mut key) = (&state.catalog.schema, Vec::new());
        let numbers = state.catalog.matching_attributes(name);
        let is_it = |def: &crate::catalog::AttributeDef| def.description == *name;
        let Some(id) = numbers.iter().copied().find(|id| is_it(state.catalog.attribute(*id))) else {
            return Ok(());
        };
        let view = selection.over_values(name.type_id);
        if view.is_none() && !selection.may_return(state.catalog, name.type_id) {
            return Ok(());
        }
        let Some(row) = candidate.entry(state)?.attributes().find(|row| row.id == id) else { return Ok(()) };
        let def = state.catalog.attribute(id);
        // The bounds of a range count only readable values. If some values may be hidden, values before the range are
        // tested and skipped one by one.
        let from = if view.is_none() { std::mem::take(&mut self.skipped) } else { 0 };
        for_each_value_from(state, candidate.id, &row, from, &mut |value| {
            if view.is_some_and(|view| !view.allows(READ, name.type_id, schema, value, &mut key)) {
                return ControlFlow::Continue(());
            }
            self.take(&def.value_text(schema, value))
        })?;
        Ok(())
    }

    fn name(&self, attribute: &str, low: u64) -> String {
        match self.has_more {
            true => format!("{attribute};range={low}-{}", low + self.count - 1),
            false => format!("{attribute};range={low}-*"),
        }
    }
}
