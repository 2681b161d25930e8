//! Tombstones of deleted entries: creation, restoration and removal by records.
//!
//! A tombstone is created from the rows that its delete removes. Replay may repeat a delete on later rows. If the
//! tombstone still exists, it stays unchanged, because only the first application of the delete saw the whole entry.
//! If the tombstone no longer exists, it is created again from the remaining rows. When replay reaches the record that
//! removed the tombstone, the tombstone is removed again.

use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};

use store::{Batch, Direction, Read};
use uuid::Uuid;

use crate::catalog::Catalog;
use crate::links;
use crate::model::entry::{Content, EntryRow};
use crate::model::name::name_in;
use crate::model::outcome::OperationError;
use crate::model::record::{Add, Record, Value};
use crate::model::rows::{AttrId, DELETED, ENTRIES, EntryId, LINKED, LINKS, id_key, link_key};
use crate::model::tombstone::{KIND_ENTRY, NamedBy, Tombstone, TombstonePlace};
use crate::tree::stored_values::{for_each_value, inline_values, table_values};
use crate::tree::value_ends;
use crate::tree::{Found, TreeState, damaged_row, find, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Name of the attribute with the entry's UUID (RFC 4530).
const ENTRY_UUID: &str = "entryUUID";

/// Approximate size of a tombstone without its values, in octets.
const FIXED_SIZE: usize = 512;

/// Maximum number of octets that each entry with a link to the deleted entry adds to a tombstone.
const SOURCE_SIZE: usize = 10;

/// A delete that creates tombstones.
#[derive(Clone, Copy)]
pub(super) struct TombstoneDelete<'r> {
    /// Position of the delete.
    pub(super) position: u64,
    /// Record of the delete.
    pub(super) record: &'r Record,
    /// Link attributes whose values vanish with the entries that they name.
    pub(super) vanishing: &'r [AttrId],
}

/// Returns the approximate size in octets of the tombstone that an entry would have.
pub(super) fn size(state: TreeState<'_>, id: EntryId) -> Result<usize> {
    let Some(row) = state.read.get(ENTRIES, &id_key(id))?.and_then(EntryRow::decode) else { return Ok(0) };
    let mut bytes = FIXED_SIZE;
    for attribute in row.attributes() {
        for_each_value(state, id, &attribute, &mut |value| {
            bytes += value.len();
            ControlFlow::Continue(())
        })?;
    }
    for def in state.catalog.attributes().iter().filter(|def| def.is_link) {
        let sources = state.read.ids(LINKED, &link_key(id, def.id))?.estimate();
        bytes =
            bytes.saturating_add(usize::try_from(sources).unwrap_or(usize::MAX).saturating_mul(SOURCE_SIZE));
    }
    Ok(bytes)
}

/// Creates the tombstone of an entry that is about to be deleted.
pub(super) fn keep(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    delete: TombstoneDelete<'_>,
    (id, dn): (EntryId, &str),
) -> Result<()> {
    let place = TombstonePlace { position: delete.position, id };
    if batch.get(DELETED, &place.key())?.is_some() {
        return Ok(());
    }
    let Some(tombstone) = build(batch, catalog, delete, (id, dn))? else { return Ok(()) };
    batch.put(DELETED, &place.key(), &tombstone.encode())?;
    batch.put(DELETED, &place.uuid_key(&tombstone.uuid), &id_key(id))?;
    Ok(())
}

/// Builds the tombstone of an entry. Returns `None` if, during replay, the entry no longer exists or was restored after
/// the delete.
fn build(
    read: &Read,
    catalog: &Catalog,
    delete: TombstoneDelete<'_>,
    (id, dn): (EntryId, &str),
) -> Result<Option<Tombstone>> {
    let (Some(bytes), Some(place)) = (read.get(ENTRIES, &id_key(id))?, node(read, id)?) else {
        return Ok(None);
    };
    let row = EntryRow::decode(bytes).ok_or_else(|| damaged_row("entries", id))?;
    if row.position > delete.position {
        return Ok(None);
    }
    let mut values = Vec::new();
    for attribute in row.attributes() {
        let mut all: Vec<Value> = Vec::new();
        match attribute.content {
            Content::Inline(inline) => {
                all.extend(inline_values(read, id, attribute.id, inline)?.into_iter().map(Value::Bytes));
            }
            Content::Links => all.extend(ids(read, LINKS, id, attribute.id)?.into_iter().map(Value::Link)),
            Content::Table => {}
        }
        if !matches!(attribute.content, Content::Inline(_)) {
            for value in table_values(read, id, attribute.id) {
                all.push(Value::Bytes(value?.1.to_vec()));
            }
        }
        values.push((attribute.id, all));
    }
    let mut named_by = Vec::new();
    for def in catalog.attributes().iter().filter(|def| def.is_link) {
        let sources = ids(read, LINKED, id, def.id)?;
        if !sources.is_empty() {
            let vanished = delete.vanishing.contains(&def.id);
            let ends = value_ends::of_target(read, id, def.id)?;
            named_by.push(NamedBy { attribute: def.id, vanished, sources, ends });
        }
    }
    Ok(Some(Tombstone {
        uuid: uuid_of(catalog, &values),
        micros: delete.record.csn.micros,
        requester: delete.record.requester.clone(),
        dn: dn.to_owned(),
        parent: place.parent,
        rdn: place.rdn_text().ok_or_else(|| damaged_row("nodes", id))?.to_owned(),
        class_set: place.class_set,
        flags: place.flags,
        values,
        ends: value_ends::changes_of(read, id)?,
        named_by,
    }))
}

fn ids(read: &Read, map: store::MapId, id: EntryId, attribute: AttrId) -> Result<Vec<EntryId>> {
    let mut found = Vec::new();
    read.ids(map, &link_key(id, attribute))?.next_block(&mut found, usize::MAX)?;
    Ok(found.into_iter().map(EntryId).collect())
}

fn uuid_of(catalog: &Catalog, values: &[(AttrId, Vec<Value>)]) -> [u8; 16] {
    let type_id = catalog.schema.attribute_type(ENTRY_UUID).map(|known| known.id);
    let number = type_id.and_then(|type_id| catalog.attribute_id(type_id, ""));
    let own = values.iter().find(|(attribute, _)| Some(*attribute) == number);
    let text = own.and_then(|(_, values)| values.first()).and_then(Value::as_bytes);
    text.and_then(|text| Uuid::try_parse_ascii(text).ok()).unwrap_or_default().into_bytes()
}

/// Returns a tombstone.
pub(crate) fn read(read: &Read, place: TombstonePlace) -> Result<Option<Tombstone>> {
    let Some(bytes) = read.get(DELETED, &place.key())? else { return Ok(None) };
    Tombstone::decode(bytes).map(Some).ok_or_else(|| damaged_row("deleted", place.id))
}

/// Returns a tombstone and removes it.
pub(super) fn take(batch: &mut Batch<'_>, place: TombstonePlace) -> Result<Option<Tombstone>> {
    let Some(tombstone) = read(batch, place)? else { return Ok(None) };
    remove(batch, place, &tombstone.uuid)?;
    Ok(Some(tombstone))
}

/// Removes the rows of a tombstone.
fn remove(batch: &mut Batch<'_>, place: TombstonePlace, uuid: &[u8; 16]) -> Result<()> {
    batch.delete(DELETED, &place.uuid_key(uuid))?;
    batch.delete(DELETED, &place.key())?;
    Ok(())
}

/// Removes all tombstones up to `last`, inclusive.
pub(super) fn purge(batch: &mut Batch<'_>, last: TombstonePlace) -> Result<()> {
    let mut places = Vec::new();
    let key = last.key();
    let range = (Bound::Included(&[KIND_ENTRY][..]), Bound::Included(&key[..]));
    for row in batch.scan(DELETED, range, Direction::Forward) {
        let (key, value) = row?;
        let place = TombstonePlace::of_key(key).ok_or_else(|| damaged_row("deleted", EntryId::ROOT))?;
        let head = Tombstone::decode_head(value).ok_or_else(|| damaged_row("deleted", place.id))?;
        places.push((place, head.uuid));
    }
    places.into_iter().try_for_each(|(place, uuid)| remove(batch, place, &uuid))
}

/// Returns the add that restores an entry. Drops links to entries that no longer exist, except links to entries that
/// the same record restores (`together`). Text that now names an entry becomes a link. A required link attribute
/// without remaining values receives the empty DN.
pub(super) fn into_add(
    batch: &Batch<'_>,
    catalog: &Catalog,
    (id, tombstone): (EntryId, Tombstone),
    together: &HashSet<EntryId>,
) -> Result<Add> {
    let mut values = Vec::with_capacity(tombstone.values.len());
    for (attribute, mut all) in tombstone.values {
        // The attribute's values may have been converted to links since the delete.
        let attribute = catalog.current_number(attribute);
        let def = catalog.attribute(attribute);
        if def.is_link {
            let mut delete = Vec::with_capacity(all.len());
            for value in all {
                match value {
                    Value::Link(target) if !together.contains(&target) && node(batch, target)?.is_none() => {}
                    Value::Bytes(text) => delete.push(linked(batch, catalog, text)?),
                    link @ Value::Link(_) => delete.push(link),
                }
            }
            if delete.is_empty() && links::requires(catalog, tombstone.class_set, attribute) {
                delete.push(Value::Bytes(Vec::new()));
            }
            all = delete;
        }
        if !all.is_empty() {
            values.push((attribute, all));
        }
    }
    let Tombstone { parent, rdn, dn, class_set, flags, mut ends, .. } = tombstone;
    // The text of a value with an end time may now name an entry, too.
    for value in ends.iter_mut().flat_map(|change| &mut change.values) {
        if let Value::Bytes(text) = value {
            *value = linked(batch, catalog, std::mem::take(text))?;
        }
    }
    Ok(Add { id, parent, rdn, dn, class_set, flags, values, ends })
}

/// Returns a value of a link attribute: a link if the text names an entry now, otherwise the text.
pub(super) fn linked(batch: &Batch<'_>, catalog: &Catalog, text: Vec<u8>) -> Result<Value> {
    if let Some(name) = name_in(&catalog.schema, &text)
        && !text.is_empty()
        && let Found::Entry(target, _) = find(batch, catalog, &name)?
    {
        return Ok(Value::Link(target));
    }
    Ok(Value::Bytes(text))
}
