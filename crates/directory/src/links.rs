//! Links: values of member, manager and similar attributes, stored as entry ids in both directions.
//!
//! A value that names an entry is a row of `links` (source to target) and a row of `linked` (target to source).
//! Readers receive the target's current name, so a rename changes no link. Adding one member to ten million changes
//! two rows. A value that names no entry is text: a row of `values`, and a row of `dangling` with its normal name.
//! When an entry with that name is added, the row of `dangling` leads to the values that become links. When an entry
//! is deleted, links to this entry become text again, or are removed if the attribute is one of
//! `integrity_attributes`. If such a value is the last value of a required attribute, the empty DN replaces it. The
//! source entry then stays valid, and a later entry with the same name does not become the target.
//!
//! A value may have an end time, at which the writer removes it: see [`ends`]. A value keeps its end time when it
//! changes between link and text.
//!
//! A uniqueMember value with the optional UID (RFC 4517 section 3.3.21) stays text as given.

pub(crate) mod ends;
pub(crate) mod forms;

use schema::Schema;
use store::{Batch, Read};

use crate::catalog::{AttributeDef, Catalog, normal_value};
use crate::model::entry::{EncodedAttribute, StoredEntry};
use crate::model::limits::{KEY_HASH_SIZE, NAME_KEY_MAX};
use crate::model::name::{NormalName, name_in};
use crate::model::outcome::OperationError;
use crate::model::record::{Delete, LastValue, Value, ValueChangeKind};
use crate::model::rows::{
    AttrId, ClassSetId, DANGLING, EntryId, LINKED, LINKS, VALUES, dangling_key, link_key, value_counter,
    value_key,
};
use crate::model::tombstone::NamedBy;
use crate::model::value_end::EndingValue;
use crate::tree::entry_rows::{ChangedEntry, load, load_older, save};
use crate::tree::stored_values::table_values;
use crate::tree::{Found, child, damaged_row, dn_of, find, node};

type Result<T> = std::result::Result<T, OperationError>;

/// OID of extensibleObject, which allows every attribute (RFC 4512 section 4.3).
const EXTENSIBLE_OBJECT: &str = "1.3.6.1.4.1.1466.101.120.111";

/// Number of rows processed between two reads of a posting list that is being emptied.
const SLICE: usize = 1_024;

/// Returns the link attributes of the catalog.
fn link_attributes(catalog: &Catalog) -> impl Iterator<Item = AttrId> {
    catalog.attributes().iter().filter(|def| def.is_link).map(|def| def.id)
}

/// Changes the values of one link attribute.
pub(crate) fn change(
    batch: &mut Batch<'_>,
    changed: &mut ChangedEntry<'_>,
    attribute: AttrId,
    kind: ValueChangeKind,
    values: &[Value],
) -> Result<()> {
    let def = changed.catalog.attribute(attribute);
    let schema = &changed.catalog.schema;
    if let ValueChangeKind::Until(until) = kind {
        return ends::set_all(batch, changed.catalog, changed.id, (attribute, values), until);
    }
    if kind == ValueChangeKind::Replace {
        remove_all(batch, schema, changed.id, def)?;
    }
    for value in values {
        match (value, kind) {
            (Value::Link(target), ValueChangeKind::Remove) => {
                remove_link(batch, changed.id, attribute, *target)?
            }
            (Value::Link(target), _) => drop(add_link(batch, changed.id, attribute, *target)?),
            (Value::Bytes(text), ValueChangeKind::Remove) => {
                remove_text(batch, schema, changed.id, def, text)?
            }
            (Value::Bytes(text), _) => add_text(batch, schema, changed.id, def, text)?,
        }
    }
    update_link_mark(batch, changed.id, changed.entry, attribute)
}

/// Adds the attribute to the entry row if the entry has values of the attribute. Otherwise removes the attribute from
/// the row.
fn update_link_mark(
    batch: &Batch<'_>,
    id: EntryId,
    entry: &mut StoredEntry,
    attribute: AttrId,
) -> Result<()> {
    let has_values = batch.count(&value_counter(id, attribute))? > 0;
    if has_values != entry.find(attribute).is_some() {
        entry.set(attribute, has_values.then(|| EncodedAttribute::links(attribute)));
    }
    Ok(())
}

/// Adds a link. Returns false if it already existed.
fn add_link(batch: &mut Batch<'_>, source: EntryId, attribute: AttrId, target: EntryId) -> Result<bool> {
    let is_new = batch.insert_id(LINKS, &link_key(source, attribute), target.0)?;
    if is_new {
        batch.insert_id(LINKED, &link_key(target, attribute), source.0)?;
        batch.bump(&value_counter(source, attribute), 1)?;
    }
    Ok(is_new)
}

fn remove_link(batch: &mut Batch<'_>, source: EntryId, attribute: AttrId, target: EntryId) -> Result<()> {
    if batch.remove_id(LINKS, &link_key(source, attribute), target.0)? {
        batch.remove_id(LINKED, &link_key(target, attribute), source.0)?;
        batch.bump(&value_counter(source, attribute), -1)?;
        ends::take(batch, (source, attribute), EndingValue::Link(target))?;
    }
    Ok(())
}

fn add_text(
    batch: &mut Batch<'_>,
    schema: &Schema,
    source: EntryId,
    def: &AttributeDef,
    text: &[u8],
) -> Result<()> {
    let key = value_key(source, def.id, &normal_value(schema, def, text));
    if batch.get(VALUES, &key)?.is_some() {
        return Ok(());
    }
    batch.put(VALUES, &key, text)?;
    batch.bump(&value_counter(source, def.id), 1)?;
    if let Some(name) = name_in(schema, text) {
        batch.insert_id(DANGLING, &dangling_key(def.id, &name.key), source.0)?;
    }
    Ok(())
}

fn remove_text(
    batch: &mut Batch<'_>,
    schema: &Schema,
    source: EntryId,
    def: &AttributeDef,
    text: &[u8],
) -> Result<()> {
    remove_row(batch, schema, source, def, (&normal_value(schema, def, text), text))
}

/// Removes a text with the normal form under which it is stored. The text may have another normal form now, if a
/// definition that the text names was added later.
fn remove_row(
    batch: &mut Batch<'_>,
    schema: &Schema,
    source: EntryId,
    def: &AttributeDef,
    (normal, text): (&[u8], &[u8]),
) -> Result<()> {
    if !batch.delete(VALUES, &value_key(source, def.id, normal))? {
        return Ok(());
    }
    batch.bump(&value_counter(source, def.id), -1)?;
    ends::take(batch, (source, def.id), EndingValue::Text(normal))?;
    if let Some(name) = name_in(schema, text) {
        batch.remove_id(DANGLING, &dangling_key(def.id, &name.key), source.0)?;
    }
    Ok(())
}

fn remove_all(batch: &mut Batch<'_>, schema: &Schema, source: EntryId, def: &AttributeDef) -> Result<()> {
    loop {
        let targets = first_ids(batch, LINKS, &link_key(source, def.id))?;
        if targets.is_empty() {
            break;
        }
        for target in targets {
            remove_link(batch, source, def.id, EntryId(target))?;
        }
    }
    loop {
        let texts: Vec<(Vec<u8>, Vec<u8>)> = table_values(batch, source, def.id)
            .take(SLICE)
            .map(|row| row.map(|(normal, text)| (normal.to_vec(), text.to_vec())))
            .collect::<Result<_>>()?;
        if texts.is_empty() {
            return Ok(());
        }
        for (normal, text) in texts {
            remove_row(batch, schema, source, def, (&normal, &text))?;
        }
    }
}

fn first_ids(read: &Read, map: store::MapId, key: &[u8]) -> Result<Vec<u64>> {
    let mut ids = Vec::new();
    read.ids(map, key)?.next_block(&mut ids, SLICE)?;
    Ok(ids)
}

/// Converts text that names a new entry to links.
pub(crate) fn attach(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    position: u64,
    target: EntryId,
    normal_dn: &[u8],
) -> Result<()> {
    if normal_dn.is_empty() || !owns_its_name(batch, catalog, target)? {
        return Ok(());
    }
    for attribute in link_attributes(catalog) {
        attach_attribute(batch, catalog, position, attribute, target, normal_dn)?;
    }
    Ok(())
}

/// Returns true if looking up the entry's name finds the entry. During replay, the name of a restored entry may belong
/// to another entry.
fn owns_its_name(batch: &Batch<'_>, catalog: &Catalog, id: EntryId) -> Result<bool> {
    let Some(row) = node(batch, id)? else { return Ok(false) };
    let rdn = row.rdn_text().ok_or_else(|| damaged_row("nodes", id))?;
    let normal_rdn = crate::tree::entry_rows::normal_rdn(catalog, row.parent, rdn)?;
    Ok(child(batch, row.parent, &normal_rdn)?.is_some_and(|(owner, _)| owner == id))
}

fn attach_attribute(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    position: u64,
    attribute: AttrId,
    target: EntryId,
    normal_dn: &[u8],
) -> Result<()> {
    let key = dangling_key(attribute, normal_dn);
    let mut sources = Vec::new();
    batch.ids(DANGLING, &key)?.next_block(&mut sources, usize::MAX)?;
    if sources.is_empty() {
        return Ok(());
    }
    let def = catalog.attribute(attribute);
    // All texts with this name have the same normal value as the name itself.
    let Some(dn) = dn_of(batch, target)? else { return Ok(()) };
    let normal = normal_value(&catalog.schema, def, dn.as_bytes());
    for source in sources.into_iter().map(EntryId) {
        // `position + 1` also loads a source that the present record has just written.
        let Some(mut entry) = load_older(batch, source, position + 1)? else { continue };
        if batch.delete(VALUES, &value_key(source, attribute, &normal))? {
            batch.bump(&value_counter(source, attribute), -1)?;
        }
        batch.remove_id(DANGLING, &key, source.0)?;
        let until = ends::take(batch, (source, attribute), EndingValue::Text(&normal))?;
        match add_link(batch, source, attribute, target)? {
            true => ends::set(batch, (source, attribute), EndingValue::Link(target), until)?,
            false => ends::join(batch, (source, attribute), EndingValue::Link(target), until)?,
        }
        entry.position = position;
        update_link_mark(batch, source, &mut entry, attribute)?;
        save(batch, source, &entry)?;
    }
    Ok(())
}

/// Converts text that names entries at or below a new name to links.
pub(crate) fn attach_subtree(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    position: u64,
    normal_dn: &[u8],
) -> Result<()> {
    if normal_dn.is_empty() {
        return Ok(());
    }
    for attribute in link_attributes(catalog) {
        for name in dangling_below(batch, catalog, attribute, normal_dn)? {
            if let Found::Entry(target, _) = find(batch, catalog, &name)? {
                attach_attribute(batch, catalog, position, attribute, target, &name.key)?;
            }
        }
    }
    Ok(())
}

/// Returns the names at or below `normal_dn` in dangling values of the attribute.
fn dangling_below(
    batch: &Batch<'_>,
    catalog: &Catalog,
    attribute: AttrId,
    normal_dn: &[u8],
) -> Result<Vec<NormalName>> {
    // A shortened key contains at least the first `head` octets of the name.
    let head = normal_dn.len().min(NAME_KEY_MAX - KEY_HASH_SIZE);
    let prefix = dangling_key(attribute, normal_dn.get(..head).unwrap_or(normal_dn));
    let mut names = Vec::new();
    for row in batch.scan_keys_below(DANGLING, &prefix) {
        let (key, _) = row?;
        let Some(source) = batch.ids(DANGLING, key)?.seek(0)? else { continue };
        // The key may be shortened, so the name is taken from the text itself.
        for row in table_values(batch, EntryId(source), attribute) {
            let Some(name) = name_in(&catalog.schema, row?.1) else { continue };
            if name.key.starts_with(normal_dn) && dangling_key(attribute, &name.key) == key {
                names.push(name);
                break;
            }
        }
    }
    Ok(names)
}

/// Converts links to a deleted entry to text, or removes them.
pub(crate) fn detach(batch: &mut Batch<'_>, catalog: &Catalog, position: u64, delete: &Delete) -> Result<()> {
    for attribute in link_attributes(catalog) {
        let key = link_key(delete.id, attribute);
        loop {
            let sources = first_ids(batch, LINKED, &key)?;
            if sources.is_empty() {
                break;
            }
            for source in sources.into_iter().map(EntryId) {
                detach_one(batch, catalog, position, delete, attribute, source)?;
            }
        }
    }
    Ok(())
}

fn detach_one(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    position: u64,
    delete: &Delete,
    attribute: AttrId,
    source: EntryId,
) -> Result<()> {
    let until = ends::take(batch, (source, attribute), EndingValue::Link(delete.id))?;
    remove_link(batch, source, attribute, delete.id)?;
    let Some(mut entry) = load(batch, source)? else { return Ok(()) };
    let is_last = batch.count(&value_counter(source, attribute))? == 0;
    let text = match delete.vanishing.contains(&attribute) {
        false => Some(delete.dn.as_str()),
        true if !is_last || !is_required(batch, catalog, source, attribute)? => None,
        true => Some(match delete.last {
            LastValue::DeletedDn => delete.dn.as_str(),
            LastValue::EmptyDn => "",
        }),
    };
    if let Some(text) = text {
        let def = catalog.attribute(attribute);
        add_text(batch, &catalog.schema, source, def, text.as_bytes())?;
        if until > 0 && !text.is_empty() {
            let normal = normal_value(&catalog.schema, def, text.as_bytes());
            ends::set(batch, (source, attribute), EndingValue::Text(&normal), until)?;
        }
    }
    entry.position = entry.position.max(position);
    update_link_mark(batch, source, &mut entry, attribute)?;
    save(batch, source, &entry)
}

/// Restores the values that named a restored entry. Skips entries that have changed meanwhile: the value with the
/// former name is missing, the classes no longer allow the removed values, or another value has replaced the only
/// value.
pub(crate) fn restore(
    batch: &mut Batch<'_>,
    catalog: &Catalog,
    position: u64,
    (target, old_dn): (EntryId, &str),
    named_by: &NamedBy,
) -> Result<()> {
    let NamedBy { attribute, vanished, ref sources, ref ends } = *named_by;
    let def = catalog.attribute(attribute);
    let schema = &catalog.schema;
    for source in sources.iter().copied() {
        // `position + 1` also loads a source that the present record restores.
        let Some(mut entry) = load_older(batch, source, position + 1)? else { continue };
        let count = batch.count(&value_counter(source, attribute))?;
        if vanished {
            remove_text(batch, schema, source, def, b"")?;
            let count = batch.count(&value_counter(source, attribute))?;
            let is_full = schema.type_by_id(def.description.type_id).single_value && count > 0;
            if !is_full && is_allowed(batch, catalog, source, attribute)? {
                let end = ends.iter().find(|(of, _)| *of == source);
                let until = end.map_or(0, |(_, until)| *until);
                if add_link(batch, source, attribute, target)? {
                    ends::set(batch, (source, attribute), EndingValue::Link(target), until)?;
                }
            }
        } else {
            let normal = normal_value(schema, def, old_dn.as_bytes());
            let until = ends::take(batch, (source, attribute), EndingValue::Text(&normal))?;
            remove_text(batch, schema, source, def, old_dn.as_bytes())?;
            if batch.count(&value_counter(source, attribute))? < count
                && add_link(batch, source, attribute, target)?
            {
                ends::set(batch, (source, attribute), EndingValue::Link(target), until)?;
            }
        }
        entry.position = position;
        update_link_mark(batch, source, &mut entry, attribute)?;
        save(batch, source, &entry)?;
    }
    Ok(())
}

/// Returns true if the object classes of an entry allow the attribute.
fn is_allowed(batch: &Batch<'_>, catalog: &Catalog, id: EntryId, attribute: AttrId) -> Result<bool> {
    let Some(row) = node(batch, id)? else { return Ok(false) };
    let type_id = catalog.attribute(attribute).description.type_id;
    let mut classes =
        catalog.class_set(row.class_set).closure.iter().map(|id| catalog.schema.class_by_id(*id));
    Ok(classes.any(|class| {
        class.oid == EXTENSIBLE_OBJECT || class.must.contains(&type_id) || class.may.contains(&type_id)
    }))
}

/// Returns true if the object classes of an entry require the attribute.
fn is_required(batch: &Batch<'_>, catalog: &Catalog, id: EntryId, attribute: AttrId) -> Result<bool> {
    Ok(node(batch, id)?.is_some_and(|row| requires(catalog, row.class_set, attribute)))
}

/// Returns true if a set of classes requires the attribute.
pub(crate) fn requires(catalog: &Catalog, class_set: ClassSetId, attribute: AttrId) -> bool {
    let required = catalog.attribute(attribute).description.type_id;
    let classes = &catalog.class_set(class_set).closure;
    classes.iter().any(|class| catalog.schema.class_by_id(*class).must.contains(&required))
}
