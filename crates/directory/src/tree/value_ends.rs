//! Ends (expiration times) of values, in the forms that results, exports and tombstones need. See
//! [`crate::model::value_end`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use store::Read;

use crate::catalog::Catalog;
use crate::model::csn::generalized_time;
use crate::model::outcome::OperationError;
use crate::model::record::{Value, ValueChange, ValueChangeKind};
use crate::model::rows::{AttrId, DUE, ENDS, EntryId, VALUES, link_key, value_key};
use crate::model::value_end::{EndKey, EndingValue, read_until, split_target_key, target_prefix};
use crate::tree::{TreeState, damaged_row, dn_of};

type Result<T> = std::result::Result<T, OperationError>;

/// Returns the time at which a value ends (expires); 0 if the value has no end.
pub(crate) fn of_value(
    read: &Read,
    (source, attribute): (EntryId, AttrId),
    value: EndingValue<'_>,
) -> Result<u64> {
    if read.row_count(ENDS)? == 0 {
        return Ok(0);
    }
    match read.get(ENDS, &value.key(source, attribute))? {
        Some(row) => read_until(row).ok_or_else(|| damaged_row("ends", source)),
        None => Ok(0),
    }
}

/// Returns the number of an entry's values with an end, up to `max`.
pub(crate) fn count(read: &Read, source: EntryId, max: usize) -> Result<usize> {
    let mut count = 0;
    for row in read.scan_below(ENDS, &source.0.to_be_bytes()).take(max) {
        row?;
        count += 1;
    }
    Ok(count)
}

/// Calls `each` for each of the entry's values with an end. The arguments are the attribute, the value and the end. If
/// `attribute` is given, only the values of this attribute are considered.
pub(crate) fn for_each(
    read: &Read,
    source: EntryId,
    attribute: Option<AttrId>,
    each: &mut dyn FnMut(AttrId, Value, u64) -> Result<ControlFlow<()>>,
) -> Result<()> {
    if read.row_count(ENDS)? == 0 {
        return Ok(());
    }
    let of_entry = source.0.to_be_bytes();
    let of_attribute = attribute.map(|attribute| link_key(source, attribute));
    let prefix = of_attribute.as_ref().map_or(&of_entry[..], |prefix| &prefix[..]);
    for row in read.scan_below(ENDS, prefix) {
        let (key, until) = row?;
        let damaged = || damaged_row("ends", source);
        let (key, until) = (EndKey::of(key).ok_or_else(damaged)?, read_until(until).ok_or_else(damaged)?);
        if each(key.attribute, value_of(read, key)?, until)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns the value to which a key of `ends` belongs.
pub(crate) fn value_of(read: &Read, key: EndKey<'_>) -> Result<Value> {
    match key.value {
        EndingValue::Link(target) => Ok(Value::Link(target)),
        // The keys of `ends` and of `values` shorten a long value in the same way.
        EndingValue::Text(normal) => {
            let text = read.get(VALUES, &value_key(key.source, key.attribute, normal))?;
            Ok(Value::Bytes(text.ok_or_else(|| damaged_row("ends", key.source))?.to_vec()))
        }
    }
}

/// Returns changes that set the present ends of an entry's values again.
pub(crate) fn changes_of(read: &Read, source: EntryId) -> Result<Vec<ValueChange>> {
    let mut by_end: BTreeMap<(AttrId, u64), Vec<Value>> = BTreeMap::new();
    for_each(read, source, None, &mut |attribute, value, until| {
        by_end.entry((attribute, until)).or_default().push(value);
        Ok(ControlFlow::Continue(()))
    })?;
    let change = |((attribute, until), values)| {
        let kind = ValueChangeKind::Until(until);
        ValueChange { attribute, kind, values }
    };
    Ok(by_end.into_iter().map(change).collect())
}

/// Returns the entries whose links to `target` in one attribute have an end, with these ends.
pub(crate) fn of_target(read: &Read, target: EntryId, attribute: AttrId) -> Result<Vec<(EntryId, u64)>> {
    let mut found = Vec::new();
    for_each_of_target(read, target, &mut |of, source, until| {
        if of == attribute {
            found.push((source, until));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Calls `each` for each link to an entry that has an end. The arguments are the attribute, the source and the end of
/// the link.
pub(crate) fn for_each_of_target(
    read: &Read,
    target: EntryId,
    each: &mut dyn FnMut(AttrId, EntryId, u64) -> Result<ControlFlow<()>>,
) -> Result<()> {
    if read.row_count(DUE)? == 0 {
        return Ok(());
    }
    for row in read.scan_below(DUE, &target_prefix(target)) {
        let (key, until) = row?;
        let damaged = || damaged_row("due", target);
        let (attribute, source) = split_target_key(key).ok_or_else(damaged)?;
        if each(attribute, source, read_until(until).ok_or_else(damaged)?)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns an end in the form for results: time, attribute and value, separated by spaces.
pub(crate) fn text(catalog: &Catalog, attribute: AttrId, until: u64, value: &[u8]) -> Vec<u8> {
    let time = generalized_time(until);
    [time.as_bytes(), b" ", catalog.attribute(attribute).name.as_bytes(), b" ", value].concat()
}

/// Returns a value in the form for results.
pub(crate) fn value_text(state: TreeState<'_>, attribute: AttrId, value: &Value) -> Result<Vec<u8>> {
    match value {
        Value::Bytes(text) => {
            let def = state.catalog.attribute(attribute);
            Ok(def.value_text(&state.catalog.schema, text).into_owned())
        }
        Value::Link(target) => {
            let dn = dn_of(state.read, *target)?.ok_or_else(|| damaged_row("links", *target))?;
            Ok(dn.into_bytes())
        }
    }
}
