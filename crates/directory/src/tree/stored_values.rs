//! Stored values of attributes. Links are in the map `links`. Other small values are in the entry row, and a large
//! value is in a row of `values`. If an attribute has many values that are not links, each such value has its own row
//! of `values`.

use std::ops::{Bound, ControlFlow};

use store::{Direction, Read};

use crate::model::entry::{AttributeRow, Content, InlineValue, InlineValues, StoredEntry};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, LINKS, VALUES, link_key, value_key};
use crate::tree::{TreeState, damaged_row, dn_of, entry_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Returns a large value, given its hash from the entry row.
pub fn large_value<'r>(read: &'r Read, id: EntryId, attribute: AttrId, hash: &[u8]) -> Result<&'r [u8]> {
    read.get(VALUES, &value_key(id, attribute, hash))?.ok_or_else(|| damaged_row("values", id))
}

/// Returns the rows of `values` of one attribute, in the order of their keys. Each row is a pair: the normal value,
/// shortened with a hash if it is long, and the value.
pub fn table_values(
    read: &Read,
    id: EntryId,
    attribute: AttrId,
) -> impl Iterator<Item = Result<(&[u8], &[u8])>> {
    let prefix = link_key(id, attribute);
    let range = (Bound::Included(&prefix[..]), Bound::Unbounded);
    read.scan(VALUES, range, Direction::Forward).map_while(move |row| match row {
        Ok((key, value)) => Some(Ok((key.strip_prefix(&prefix)?, value))),
        Err(error) => Some(Err(error.into())),
    })
}

/// Returns copies of all values of an attribute that is not a link.
pub(crate) fn all(read: &Read, id: EntryId, entry: &StoredEntry, attribute: AttrId) -> Result<Vec<Vec<u8>>> {
    of_content(read, id, attribute, entry.find(attribute))
}

/// Returns copies of all values of an attribute that is not a link, given its content in the entry row.
pub(crate) fn of_content(
    read: &Read,
    id: EntryId,
    attribute: AttrId,
    content: Option<Content<'_>>,
) -> Result<Vec<Vec<u8>>> {
    match content {
        None => Ok(Vec::new()),
        Some(Content::Inline(values)) => inline_values(read, id, attribute, values),
        Some(Content::Table | Content::Links) => {
            table_values(read, id, attribute).map(|row| row.map(|(_, value)| value.to_vec())).collect()
        }
    }
}

/// Returns copies of the values of an entry row, including large values.
pub(crate) fn inline_values(
    read: &Read,
    id: EntryId,
    attribute: AttrId,
    values: InlineValues<'_>,
) -> Result<Vec<Vec<u8>>> {
    values.iter().map(|value| whole_value(read, id, attribute, &value).map(<[u8]>::to_vec)).collect()
}

/// Returns a value of an entry row. A large value is read from `values`.
#[inline]
pub(crate) fn whole_value<'v>(
    read: &'v Read,
    id: EntryId,
    attribute: AttrId,
    value: &'v InlineValue<'_>,
) -> Result<&'v [u8]> {
    match value {
        InlineValue::Here(bytes) => Ok(bytes),
        InlineValue::Text(text) => Ok(text.as_bytes()),
        InlineValue::Reference(hash) => large_value(read, id, attribute, hash),
    }
}

/// Returns true if `is_it` returns true for any value of an attribute that is not a link. Stops at the first such
/// value.
pub(crate) fn any(
    read: &Read,
    id: EntryId,
    entry: &StoredEntry,
    attribute: AttrId,
    is_it: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool> {
    match entry.find(attribute) {
        None => {}
        Some(Content::Inline(values)) => {
            for value in values.iter() {
                if is_it(whole_value(read, id, attribute, &value)?) {
                    return Ok(true);
                }
            }
        }
        Some(Content::Table | Content::Links) => {
            for row in table_values(read, id, attribute) {
                if is_it(row?.1) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Returns an entry's values of a type without options. Returns no values if the schema lacks the type.
pub(crate) fn values_of_type(state: TreeState<'_>, id: EntryId, name: &str) -> Result<Vec<Vec<u8>>> {
    let catalog = state.catalog;
    let mut values = Vec::new();
    let Some(attribute_type) = catalog.schema.attribute_type(name) else { return Ok(values) };
    let Some(attribute) = catalog.attribute_id(attribute_type.id, "") else { return Ok(values) };
    let entry = entry_row(state.read, id)?;
    if let Some(row) = entry.find(attribute) {
        for_each_value(state, id, &row, &mut |value| {
            values.push(value.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(values)
}

/// Calls `each` with each value of a stored attribute until `each` breaks. Links are passed as the current DNs of their
/// targets, in ascending order of the targets' ids. Names that are stored as text follow.
pub(crate) fn for_each_value(
    state: TreeState<'_>,
    id: EntryId,
    row: &AttributeRow<'_>,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    match row.content {
        Content::Inline(values) => {
            for value in values.iter() {
                if each(whole_value(state.read, id, row.id, &value)?).is_break() {
                    return Ok(());
                }
            }
            return Ok(());
        }
        Content::Links => {
            if for_each_link(state, (id, row.id), 0, each)?.is_break() {
                return Ok(());
            }
        }
        Content::Table => {}
    }
    for value in table_values(state.read, id, row.id) {
        if each(value?.1).is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// Like [`for_each_value`], but skips the first `skipped` values. Skipping links costs almost nothing.
pub(crate) fn for_each_value_from(
    state: TreeState<'_>,
    id: EntryId,
    row: &AttributeRow<'_>,
    mut skipped: u64,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    if matches!(row.content, Content::Links) {
        if for_each_link(state, (id, row.id), skipped, each)?.is_break() {
            return Ok(());
        }
        skipped = skipped.saturating_sub(state.read.ids(LINKS, &link_key(id, row.id))?.estimate());
    }
    let mut each = |value: &[u8]| match skipped {
        0 => each(value),
        _ => {
            skipped -= 1;
            ControlFlow::Continue(())
        }
    };
    if !matches!(row.content, Content::Links) {
        return for_each_value(state, id, row, &mut each);
    }
    for value in table_values(state.read, id, row.id) {
        if each(value?.1).is_break() {
            break;
        }
    }
    Ok(())
}

/// Calls `each` with the DN of each target of a link attribute until `each` breaks. Skips the first `skipped` targets.
fn for_each_link(
    state: TreeState<'_>,
    (id, attribute): (EntryId, AttrId),
    mut skipped: u64,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let mut targets = state.read.ids(LINKS, &link_key(id, attribute))?;
    let mut block = Vec::new();
    while targets.next_block(&mut block, LINK_BLOCK)? > 0 {
        let left_out = block.len().min(usize::try_from(skipped).unwrap_or(usize::MAX));
        skipped -= left_out as u64;
        for target in block.drain(..).skip(left_out) {
            let dn = dn_of(state.read, EntryId(target))?.ok_or_else(|| damaged_row("links", id))?;
            if each(dn.as_bytes()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Number of targets read at a time.
const LINK_BLOCK: usize = 512;
