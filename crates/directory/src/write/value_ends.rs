//! End times of values of link attributes, such as temporary memberships (decision 0182).
//!
//! A client sets the end time of values with an option. For example, an add of `member;x-until-20270101000000Z` makes
//! the added values members until that time, whether or not they were members before. `x-until-never` removes an end
//! time. The option is never stored: the end time has a row of its own, and the value is an ordinary value. The end
//! time stays until the value is removed. A replace that keeps a value also keeps the value's end time.
//!
//! When the writer's clock has passed an end time, the writer removes the value with an ordinary record. The value ends
//! at this record's position in the log.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use ldap::ResultCode;
use schema::AttributeDescription;
use store::Direction;

use crate::access::Requester;
use crate::catalog::Allocations;
use crate::links;
use crate::model::csn::Csn;
use crate::model::limits::{VALUE_ENDS_MAX, VALUES_ENDED_MAX};
use crate::model::outcome::OperationError;
use crate::model::own_changes::ENDED_VALUES;
use crate::model::record::{Change, Modify, Record, Value, ValueChange, ValueChangeKind};
use crate::model::rows::{AttrId, DUE, EntryId};
use crate::model::stamp::Stamp;
use crate::model::value_end::{EndKey, EndingValue, KIND_TIME, OPTION, of_option, split_time_key};
use crate::model::value_list::{KeyedValue, ValueList};
use crate::read::controls::RequestControls;
use crate::tree::target::entry_dn;
use crate::tree::value_ends::{count, for_each, of_value, value_of};
use crate::tree::{TreeState, damaged_row};
use crate::write::deciding::Deciding;
use crate::write::given_values::{link_id_key, link_text_key, normal_value, read_link_key};
use crate::write::working_entry::WorkingEntry;

pub use crate::model::value_end::name_with_end;

type Result<T> = std::result::Result<T, OperationError>;

/// Splits the option for an end time from a description. Returns the end time in seconds since 1970, or 0 for none.
/// Returns `None` without the option.
///
/// # Errors
/// constraintViolation if the end time is malformed or has passed, or if the values are not links.
#[inline]
pub(crate) fn without_end(
    deciding: Deciding<'_>,
    description: AttributeDescription,
) -> Result<(AttributeDescription, Option<u64>)> {
    match description.options.is_empty() {
        true => Ok((description, None)),
        false => without_end_option(deciding, description),
    }
}

#[cold]
#[inline(never)]
fn without_end_option(
    deciding: Deciding<'_>,
    description: AttributeDescription,
) -> Result<(AttributeDescription, Option<u64>)> {
    let catalog = deciding.state.catalog;
    let refuse = |what: &str| {
        let name = description.returned_name(&catalog.schema);
        Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, format!("{name}: {what}")))
    };
    let mut options = description.options.split(';');
    let Some(end) = options.find_map(of_option) else { return Ok((description, None)) };
    if options.any(|option| of_option(option).is_some()) {
        return refuse("a value has one end");
    }
    if !catalog.type_facts(description.type_id).is_link {
        return refuse("only values that name entries, such as member, can have an end");
    }
    let Ok(until) = end else {
        return refuse("the end is a time in UTC such as 20270101000000Z, or \"never\"");
    };
    if until > 0 && until.saturating_mul(1_000_000) <= deciding.stamp.now_micros {
        return refuse("the end has passed");
    }
    let others = description.options.split(';').filter(|option| !option.starts_with(OPTION));
    let options = others.collect::<Vec<_>>().join(";").into();
    Ok((AttributeDescription { options, ..description }, Some(until)))
}

/// End times that a change sets. A request can name a million values, so the end times are found by the keys of the
/// values.
#[derive(Debug, Default)]
pub(crate) struct ValueEnds {
    given: HashMap<AttributeDescription, EndsByKey>,
    /// Attributes from which the change removed all values before it set end times.
    cleared: HashSet<AttributeDescription>,
}

/// Values of one attribute by their keys, each with its end time. The map is ordered, so that a record contains the
/// values in a fixed order.
type EndsByKey = BTreeMap<Vec<u8>, (Value, u64)>;

impl ValueEnds {
    /// Returns true if the change sets no end times.
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn count(&self) -> usize {
        self.given.values().map(BTreeMap::len).sum()
    }

    /// Sets the end time of values of a new entry.
    ///
    /// # Errors
    /// adminLimitExceeded if too many values have an end time.
    pub(crate) fn give_new(
        &mut self,
        description: &AttributeDescription,
        values: &ValueList,
        until: u64,
    ) -> Result<()> {
        if until > 0 {
            let given = self.given.entry(description.clone()).or_default();
            given.extend(values.iter().map(|value| (value.key.clone(), (value.value.clone(), until))));
        }
        check_count(self.count())
    }

    /// Sets the end time of values of an existing entry. Replaces the end times that the values already have.
    ///
    /// # Errors
    /// attributeOrValueExists if a value already has this end time, unless `is_lenient`.
    pub(crate) fn give(
        &mut self,
        (state, id): (TreeState<'_>, EntryId),
        (text, description): (&str, &AttributeDescription),
        values: &ValueList,
        (until, is_lenient): (u64, bool),
    ) -> Result<()> {
        let given = self.given.entry(description.clone()).or_default();
        for (place, value) in values.iter().enumerate() {
            let stored = stored_end(state, id, description, &value.key)?;
            if until > 0 && stored == until && !is_lenient && !given.contains_key(&value.key) {
                return Err(OperationError::refused(
                    ResultCode::ATTRIBUTE_OR_VALUE_EXISTS,
                    format!("{text}: the entry already has value {} of the add, with this end", place + 1),
                ));
            }
            match given.get_mut(&value.key) {
                Some((_, end)) => *end = until,
                None => drop(given.insert(value.key.clone(), (value.value.clone(), until))),
            }
        }
        Ok(())
    }

    /// Checks that values to delete have this end time.
    ///
    /// # Errors
    /// noSuchAttribute.
    pub(crate) fn check(
        &mut self,
        (state, id): (TreeState<'_>, EntryId),
        (text, description): (&str, &AttributeDescription),
        values: &ValueList,
        until: u64,
    ) -> Result<()> {
        for (place, value) in values.iter().enumerate() {
            let given = self.find(description, &value.key);
            if given.map_or_else(|| stored_end(state, id, description, &value.key), Ok)? != until {
                return Err(OperationError::refused(
                    ResultCode::NO_SUCH_ATTRIBUTE,
                    format!(
                        "{text}: the entry does not have value {} of the delete with this end",
                        place + 1
                    ),
                ));
            }
        }
        Ok(())
    }

    fn find(&self, description: &AttributeDescription, key: &[u8]) -> Option<u64> {
        self.given.get(description)?.get(key).map(|(_, until)| *until)
    }

    /// Drops the end times of values that are removed.
    pub(crate) fn remove(&mut self, description: &AttributeDescription, values: &ValueList) {
        if let Some(given) = self.given.get_mut(description) {
            values.iter().for_each(|value| drop(given.remove(&value.key)));
        }
    }

    /// Drops the end times of all values of an attribute.
    pub(crate) fn remove_all(&mut self, description: &AttributeDescription) {
        self.given.remove(description);
        if !self.cleared.contains(description) {
            self.cleared.insert(description.clone());
        }
    }

    /// Completes the end times. Keeps only end times that differ from the stored end times, and only for values that
    /// the entry has after the change. Adds the end times of values that a replace keeps.
    ///
    /// # Errors
    /// adminLimitExceeded if too many values have an end time.
    pub(crate) fn settle(
        &mut self,
        state: TreeState<'_>,
        id: EntryId,
        entry: &mut WorkingEntry<'_>,
    ) -> Result<()> {
        for description in std::mem::take(&mut self.cleared) {
            let number = state.catalog.attribute_id(description.type_id, &description.options);
            let Some(number) = number else { continue };
            let mut kept = Vec::new();
            for_each(state.read, id, Some(number), &mut |_, value, until| {
                kept.push((keyed(state, number, value), until));
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
            let given = self.given.entry(description.clone()).or_default();
            for (KeyedValue { key, value }, until) in kept {
                if !given.contains_key(&key) && entry.contains(&description, &key)? {
                    given.insert(key, (value, until));
                }
            }
        }
        for (description, given) in self.given.iter_mut().filter(|(_, given)| !given.is_empty()) {
            // A replace of the attribute first removes the stored end times of its values.
            let keeps_stored = entry.keeps_rows(description)?;
            let mut settled = EndsByKey::new();
            for (key, (value, until)) in std::mem::take(given) {
                let stored = if keeps_stored { stored_end(state, id, description, &key)? } else { 0 };
                if stored != until && entry.contains(description, &key)? {
                    settled.insert(key, (value, until));
                }
            }
            *given = settled;
        }
        match self.given.values().flat_map(BTreeMap::values).any(|(_, until)| *until > 0) {
            true => check_count(self.count() + count(state.read, id, VALUE_ENDS_MAX)?),
            false => Ok(()),
        }
    }

    /// Returns the end times as value changes for a record.
    pub(crate) fn into_changes(self, allocations: &mut Allocations<'_>) -> Vec<ValueChange> {
        let mut changes: BTreeMap<(AttrId, u64), Vec<Value>> = BTreeMap::new();
        let mut all: Vec<_> = self.given.into_iter().filter(|(_, given)| !given.is_empty()).collect();
        all.sort_by(|(one, _), (other, _)| {
            (one.type_id.0, &one.options).cmp(&(other.type_id.0, &other.options))
        });
        for (description, given) in all {
            let attribute = allocations.attribute(&description);
            for (value, until) in given.into_values() {
                changes.entry((attribute, until)).or_default().push(value);
            }
        }
        let change = |((attribute, until), values)| ValueChange {
            attribute,
            kind: ValueChangeKind::Until(until),
            values,
        };
        changes.into_iter().map(change).collect()
    }
}

/// Checks that an entry may have this number of values with an end time.
///
/// # Errors
/// adminLimitExceeded.
pub(crate) fn check_count(count: usize) -> Result<()> {
    match count > VALUE_ENDS_MAX {
        false => Ok(()),
        true => Err(OperationError::refused(
            ResultCode::ADMIN_LIMIT_EXCEEDED,
            format!("at most {VALUE_ENDS_MAX} values of an entry can have an end"),
        )),
    }
}

/// Returns the stored end time of a value; 0 if it has none.
fn stored_end(
    state: TreeState<'_>,
    id: EntryId,
    description: &AttributeDescription,
    key: &[u8],
) -> Result<u64> {
    let number = state.catalog.attribute_id(description.type_id, &description.options);
    let Some(number) = number else { return Ok(0) };
    let value = match read_link_key(key) {
        Ok(target) => EndingValue::Link(target),
        Err(normal) => EndingValue::Text(normal),
    };
    of_value(state.read, (id, number), value)
}

/// Returns a stored value with its key.
fn keyed(state: TreeState<'_>, attribute: AttrId, value: Value) -> KeyedValue {
    let key = match &value {
        Value::Link(target) => link_id_key(*target),
        Value::Bytes(text) => {
            let schema = &state.catalog.schema;
            let known = schema.type_by_id(state.catalog.attribute(attribute).description.type_id);
            link_text_key(&normal_value(schema, known, text).unwrap_or_else(|_| text.clone()))
        }
    };
    KeyedValue { key, value }
}

/// Values of one attribute of one entry whose end times have passed.
#[derive(Debug)]
pub(crate) struct Ended {
    source: EntryId,
    attribute: AttrId,
    values: Vec<Value>,
}

/// Returns true if the end time of any value has passed.
///
/// # Errors
/// The store failed.
pub fn is_one_ended(state: TreeState<'_>, now_micros: u64) -> Result<bool> {
    Ok(ended(state, now_micros, 1)?.is_some())
}

/// Returns values of one attribute of one entry whose end times have passed, at most `values_max`. The value with the
/// earliest end time determines the attribute and the entry.
///
/// # Errors
/// The store failed.
pub(crate) fn ended(state: TreeState<'_>, now_micros: u64, values_max: usize) -> Result<Option<Ended>> {
    if state.read.row_count(DUE)? == 0 {
        return Ok(None);
    }
    let mut now = vec![KIND_TIME];
    now.extend_from_slice(&(now_micros / 1_000_000 + 1).to_be_bytes());
    let range = (Bound::Included(&[KIND_TIME][..]), Bound::Excluded(&now[..]));
    let mut found: Option<Ended> = None;
    for row in state.read.scan(DUE, range, Direction::Forward).take(VALUES_ENDED_MAX) {
        let (key, _) = row?;
        let of = split_time_key(key).and_then(|(until, key)| Some((until, EndKey::of(key)?)));
        let (until, of) = of.ok_or_else(|| damaged_row("due", EntryId::ROOT))?;
        if of_value(state.read, (of.source, of.attribute), of.value)? != until {
            // This row of `due` belongs to no value with an end time. `check` reports the row.
            continue;
        }
        let ended = found.get_or_insert_with(|| Ended {
            source: of.source,
            attribute: of.attribute,
            values: Vec::new(),
        });
        if (ended.source, ended.attribute) != (of.source, of.attribute) || ended.values.len() == values_max {
            break;
        }
        ended.values.push(value_of(state.read, of)?);
    }
    Ok(found)
}

/// Returns the record that removes values whose end times have passed. If a required attribute has no other values,
/// the attribute receives the empty DN instead, as when a deleted entry is the last member.
///
/// # Errors
/// The store failed.
pub(crate) fn end(state: TreeState<'_>, ended: Ended, stamp: &Stamp, csn: Csn) -> Result<Record> {
    let server = Requester::Administrator { dn: ENDED_VALUES.to_owned() };
    let (context, controls) = (server.context(), RequestControls::default());
    let deciding = Deciding { state, context: &context, controls: &controls, stamp, csn };
    let Ended { source, attribute, values } = ended;
    let node = state.node(source)?.ok_or_else(|| damaged_row("ends", source))?;
    let description = &state.catalog.attribute(attribute).description;
    let mut entry = WorkingEntry::of(state, source)?;
    for value in values {
        if !entry.remove(description, &keyed(state, attribute, value).key)? {
            return Err(damaged_row("ends", source));
        }
    }
    if entry.value_count(description)? == 0 && links::requires(state.catalog, node.class_set, attribute) {
        entry.add(description, keyed(state, attribute, Value::Bytes(Vec::new())))?;
    }
    entry.stamp_change(&deciding)?;
    let mut allocations = Allocations::new(state.catalog);
    let modify = Modify {
        id: source,
        dn: entry_dn(state, source)?,
        class_set: node.class_set,
        flags: node.flags,
        changes: entry.changes(&mut allocations),
    };
    Ok(deciding.record(allocations, Change::Modify(modify)))
}

#[cfg(test)]
mod tests;
