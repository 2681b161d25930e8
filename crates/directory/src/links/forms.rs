//! Updates stored normal forms after definitions are added to the schema.
//!
//! Text of link attributes, and values of large attributes, have rows that are keyed by normal forms. A new definition
//! changes the normal form of every value that contains the name or the OID of the defined type or class. The row of
//! the value then moves to the new key, so that requests find the value. If two values become equal, one of the two
//! values is removed. Text that now names an entry becomes a link.

use std::ops::Bound;

use store::{Batch, Direction};

use super::{attach_attribute, ends};
use crate::catalog::{Catalog, normal_value};
use crate::model::entry::{Content, EntryRow};
use crate::model::limits::STALE_ROWS_BYTES;
use crate::model::name::name_in;
use crate::model::outcome::OperationError;
use crate::model::rows::{
    AttrId, DANGLING, ENTRIES, EntryId, VALUES, dangling_key, split_link_key, value_counter, value_hash,
    value_key,
};
use crate::model::value_end::EndingValue;
use crate::tree::stored_values::{inline_values, of_content};
use crate::tree::{Found, damaged_row, find};

type Result<T> = std::result::Result<T, OperationError>;

/// A row of `values` whose key does not match its value under the new schema.
struct StaleRow {
    source: EntryId,
    attribute: AttrId,
    /// The old normal form, as in the key.
    old: Vec<u8>,
    text: Vec<u8>,
}

/// Moves the rows of values whose normal forms differ under a schema with more definitions than `before`. `position` is
/// the position of the record that changes the schema. Returns the indexed attributes whose index has rows with old
/// normal forms.
pub(crate) fn follow_schema(
    batch: &mut Batch<'_>,
    before: &Catalog,
    now: &Catalog,
    position: u64,
) -> Result<Vec<AttrId>> {
    if !has_new_names(before, now) {
        return Ok(Vec::new());
    }
    // Find stale indexes before texts become links, because the names of links have the new form.
    let indexes = stale_indexes(batch, before, now)?;
    let mut after = None;
    loop {
        let (stale, last) = stale_rows(batch, now, after.as_deref())?;
        stale.iter().try_for_each(|row| row.follow(batch, (before, now), position))?;
        after = match last {
            Some(last) => Some(last),
            None => return Ok(indexes),
        };
    }
}

/// Returns the stale rows after a key, up to about [`STALE_ROWS_BYTES`] of keys and text. Also returns the last key
/// examined if that limit was reached. A row that was already moved to its new key is not stale when it is read again.
fn stale_rows(
    batch: &Batch<'_>,
    now: &Catalog,
    after: Option<&[u8]>,
) -> Result<(Vec<StaleRow>, Option<Vec<u8>>)> {
    let (mut stale, mut bytes) = (Vec::new(), 0);
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    for row in batch.scan(VALUES, (from, Bound::Unbounded), Direction::Forward) {
        let (key, text) = row?;
        let (source, attribute) = split_link_key(key).ok_or_else(|| damaged_row("values", EntryId::ROOT))?;
        let old = key.get(12..).unwrap_or_default();
        let def = now.attribute(attribute);
        if !reads_definitions(now, attribute) || old == value_hash(text) {
            // A large value of a small attribute has a row whose key contains the hash of the value. A new definition
            // does not change such a key.
            continue;
        }
        if key != value_key(source, attribute, &normal_value(&now.schema, def, text)) {
            stale.push(StaleRow { source, attribute, old: old.to_vec(), text: text.to_vec() });
            bytes += key.len() + text.len();
            if bytes >= STALE_ROWS_BYTES {
                return Ok((stale, Some(key.to_vec())));
            }
        }
    }
    Ok((stale, None))
}

impl StaleRow {
    fn follow(
        &self,
        batch: &mut Batch<'_>,
        (before, now): (&Catalog, &Catalog),
        position: u64,
    ) -> Result<()> {
        let StaleRow { source, attribute, old, text } = self;
        let (source, attribute, def) = (*source, *attribute, now.attribute(*attribute));
        let new = normal_value(&now.schema, def, text);
        let until = ends::take(batch, (source, attribute), EndingValue::Text(old))?;
        batch.delete(VALUES, &value_key(source, attribute, old))?;
        let key = value_key(source, attribute, &new);
        if batch.get(VALUES, &key)?.is_some() {
            batch.bump(&value_counter(source, attribute), -1)?;
            ends::join(batch, (source, attribute), EndingValue::Text(&new), until)?;
        } else {
            batch.put(VALUES, &key, text)?;
            ends::set(batch, (source, attribute), EndingValue::Text(&new), until)?;
        }
        if def.is_link {
            if let Some(name) = name_in(&before.schema, text) {
                batch.remove_id(DANGLING, &dangling_key(attribute, &name.key), source.0)?;
            }
            if let Some(name) = name_in(&now.schema, text) {
                batch.insert_id(DANGLING, &dangling_key(attribute, &name.key), source.0)?;
                if let Found::Entry(target, _) = find(batch, now, &name)? {
                    attach_attribute(batch, now, position, attribute, target, &name.key)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns true if the schema has a new type or class, or a new name of a type or class.
fn has_new_names(before: &Catalog, now: &Catalog) -> bool {
    let types = now.schema.attribute_types().iter();
    let mut types = types.flat_map(|of| of.names.iter().chain([&of.oid]));
    let classes = now.schema.object_classes().iter();
    let mut classes = classes.flat_map(|of| of.names.iter().chain([&of.oid]));
    types.any(|name| before.schema.attribute_type(name).is_none())
        || classes.any(|name| before.schema.object_class(name).is_none())
}

fn reads_definitions(catalog: &Catalog, attribute: AttrId) -> bool {
    let def = catalog.attribute(attribute);
    def.retired.is_none() && def.equality.is_some_and(schema::MatchingRule::reads_definitions)
}

/// Returns the indexed attributes that have, in any entry, a value whose normal form has changed. Reads entries only if
/// an indexed attribute has a syntax whose values name definitions of the schema.
fn stale_indexes(batch: &Batch<'_>, before: &Catalog, now: &Catalog) -> Result<Vec<AttrId>> {
    let is_indexed = |id: AttrId| {
        let base = now.attribute(id).base;
        !now.attribute(base).index.is_nothing() && reads_definitions(now, id)
    };
    let mut found: Vec<AttrId> = Vec::new();
    if !now.attributes().iter().any(|def| is_indexed(def.id)) {
        return Ok(found);
    }
    for row in batch.scan(ENTRIES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
        let (key, row) = row?;
        let id = crate::index::slice::key_id(key)?;
        let row = EntryRow::decode(row).ok_or_else(|| damaged_row("entries", id))?;
        for attribute in row.attributes().filter(|attribute| is_indexed(attribute.id)) {
            let (base, old) = (now.attribute(attribute.id).base, before.attribute(attribute.id));
            if found.contains(&base) {
                continue;
            }
            let keeps_form = |value: &[u8]| {
                normal_value(&now.schema, old, value) == normal_value(&before.schema, old, value)
            };
            let values = match attribute.content {
                Content::Inline(values) => inline_values(batch, id, attribute.id, values)?,
                other => of_content(batch, id, attribute.id, Some(other))?,
            };
            if !values.iter().all(|value| keeps_form(value)) {
                found.push(base);
            }
        }
    }
    Ok(found)
}
