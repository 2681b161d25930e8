//! Expected rows: the rows that should exist. The rows are derived from the entries and sorted.
//!
//! One sorter receives the rows of all maps. A sorted row consists of the map's number, the row's key, and the id or
//! value. A byte after an id shows whether the row is required, or only allowed because its index is being built.
//! Counters have a sorter of their own. Contributions to a counter are first summed in a table of limited size.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use store::{Direction, MapId, Read, Sorted, Sorter};

use super::{CheckOptions, Fix, Report, Result};
use crate::catalog::{AttributeDef, Catalog, ClassSet, META_LAST_ENTRY, last_entry_id, normal_value};
use crate::index::keys::{RowKey, rows_of};
use crate::index::maintenance;
use crate::maintenance::entry_uuid::{uuid_attribute, uuid_in};
use crate::model::entry::{Content, EntryRow, InlineValue, InlineValues};
use crate::model::index_definition::{IndexRow, Phase};
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::name::name_in;
use crate::model::rows::{
    AttrId, CLASSES, DANGLING, DUE, ENDS, ENTRIES, EntryId, LINKED, LINKS, MAPS, META, NAMES, NODES, NodeRow,
    VALUES, children_counter, class_key, dangling_key, encode_name_row, id_key, link_key, map_number,
    name_key, subtree_counter, value_counter, value_hash, value_key,
};
use crate::model::value_end::{EndingValue, due_keys};
use crate::tree::stored_values::table_values;
use crate::tree::value_ends::of_value;
use crate::tree::{Found, TreeState, node};
use crate::write::schema_check::object_class_type;

/// Maximum number of counters summed in memory before they are sorted.
const COUNTERS_MAX: usize = 1 << 16;

/// Number of link targets read in one step.
const TARGET_BLOCK: usize = 512;

/// Number that replaces the map number in the keys of entryUUIDs. This number is higher than all map numbers.
pub(super) const UUIDS: u8 = u8::MAX;
const _: () = assert!(MAPS.len() < UUIDS as usize);

/// Marks a row that must exist.
pub(super) const REQUIRED: u8 = 0;
/// Marks a row that may exist, because its index is being built.
pub(super) const EARLY: u8 = 1;

/// All rows and counters that should exist.
pub(super) struct ExpectedRows {
    pub(super) rows: Sorted,
    pub(super) counters: Sorted,
    pub(super) indexes: BTreeMap<AttrId, IndexRow>,
}

/// Derives the expected rows of all entries.
pub(super) fn derive(
    state: TreeState<'_>,
    options: &CheckOptions<'_>,
    report: &mut Report<'_>,
) -> Result<ExpectedRows> {
    // The sorters share the memory. The final merges of the sorters can use the same amount of memory again.
    let sorter = |part| Sorter::new(options.scratch, options.memory_bytes / 8 * part);
    let mut derivation = Derivation {
        state,
        report,
        rows: sorter(7),
        counters: sorter(1),
        counts: HashMap::new(),
        indexes: BTreeMap::new(),
        index_rows: Vec::new(),
        chain: (None, Vec::new()),
        uuid: uuid_attribute(state.catalog),
        object_class: object_class_type(&state.catalog.schema)
            .ok()
            .and_then(|id| state.catalog.attribute_id(id, "")),
        row: Vec::new(),
    };
    for def in state.catalog.attributes().iter().filter(|def| def.id == def.base) {
        derivation.indexes.insert(def.id, maintenance::row(state.read, def.id)?);
    }
    derivation.nodes()?;
    derivation.entries()?;
    log(state.read, derivation.report)?;
    derivation.flush_counts()?;
    Ok(ExpectedRows {
        rows: derivation.rows.finish()?,
        counters: derivation.counters.finish()?,
        indexes: derivation.indexes,
    })
}

/// Verifies every record in the log by reading it.
fn log(read: &Read, report: &mut Report<'_>) -> Result<()> {
    let first = read.first_position()?.unwrap_or(0);
    for record in read.log_records(first) {
        if let Err(error) = record {
            return report.found(format!("log: {error}"), Vec::new());
        }
    }
    Ok(())
}

struct Derivation<'s, 'r, 'e> {
    state: TreeState<'s>,
    report: &'r mut Report<'e>,
    rows: Sorter,
    counters: Sorter,
    counts: HashMap<Box<[u8]>, i64>,
    indexes: BTreeMap<AttrId, IndexRow>,
    index_rows: Vec<RowKey>,
    /// Cached superiors: the container for which they were computed, and a list of this container and its superiors.
    chain: (Option<EntryId>, Vec<EntryId>),
    /// Attribute number of entryUUID.
    uuid: Option<AttrId>,
    /// Attribute number of objectClass.
    object_class: Option<AttrId>,
    row: Vec<u8>,
}

impl Derivation<'_, '_, '_> {
    fn expect(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        self.row.clear();
        self.row.push(map_number(map));
        self.row.extend_from_slice(key);
        Ok(self.rows.push(&self.row, value)?)
    }

    fn expect_id(&mut self, map: MapId, key: &[u8], id: u64, when: u8) -> Result<()> {
        let mut value = [when; 9];
        value[..8].copy_from_slice(&id.to_be_bytes());
        self.expect(map, key, &value)
    }

    fn count(&mut self, key: &[u8], delta: i64) -> Result<()> {
        if let Some(count) = self.counts.get_mut(key) {
            *count += delta;
            return Ok(());
        }
        if self.counts.len() >= COUNTERS_MAX {
            self.flush_counts()?;
        }
        self.counts.insert(key.into(), delta);
        Ok(())
    }

    fn flush_counts(&mut self) -> Result<()> {
        for (key, count) in self.counts.drain() {
            self.counters.push(&key, &count.to_be_bytes())?;
        }
        Ok(())
    }

    fn nodes(&mut self) -> Result<()> {
        let read = self.state.read;
        let mut highest = EntryId::ROOT;
        for row in read.scan(NODES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, value) = row?;
            let id = EntryId(u64::from_be_bytes(key.try_into().unwrap_or_default()));
            highest = id;
            self.report.checked.entries += 1;
            let Some(node) = NodeRow::decode(value) else {
                self.report.lost_nodes = true;
                self.report.unreadable(id, "its node row is damaged, so its name and place are lost")?;
                continue;
            };
            self.node(id, &node)?;
            if read.get(ENTRIES, key)?.is_none() {
                self.report.unreadable(id, "its attributes are lost")?;
            }
        }
        if last_entry_id(read)? < highest {
            let fix = Fix::Put(META, META_LAST_ENTRY.to_vec(), highest.0.to_be_bytes().to_vec());
            self.report.found(
                format!("meta: the highest entry id is {}, above the recorded one", highest.0),
                vec![fix],
            )?;
        }
        Ok(())
    }

    /// Adds the expected name, class posting and counters of an entry.
    fn node(&mut self, id: EntryId, node: &NodeRow<'_>) -> Result<()> {
        let catalog = self.state.catalog;
        let Some(class_set) = catalog.class_sets().get(node.class_set.0 as usize) else {
            self.report.lost_nodes = true;
            return self.report.unreadable(id, &format!("its class set {} does not exist", node.class_set.0));
        };
        if class_set.flags != node.flags {
            let right = NodeRow { flags: class_set.flags, ..*node };
            let fix = Fix::Put(NODES, id_key(id).to_vec(), right.encode());
            self.report.found(format!("entry {}: flags contradict its classes", id.0), vec![fix])?;
        }
        let normal =
            node.rdn_text().map(|rdn| crate::tree::entry_rows::normal_rdn(catalog, node.parent, rdn));
        let Some(Ok(normal)) = normal else {
            self.report.lost_nodes = true;
            let rdn = String::from_utf8_lossy(node.rdn);
            return self.report.unreadable(id, &format!("its RDN {rdn:?} is damaged"));
        };
        self.expect(NAMES, &name_key(node.parent, &normal), &encode_name_row(id, class_set.flags))?;
        self.expect_id(CLASSES, &class_key(node.class_set), id.0, REQUIRED)?;
        self.count(&children_counter(node.parent), 1)?;
        if self.chain.0 != Some(node.parent) {
            self.chain = (Some(node.parent), self.superiors(id, node.parent)?);
        }
        let superiors = std::mem::take(&mut self.chain.1);
        let counted = superiors.iter().try_for_each(|superior| self.count(&subtree_counter(*superior), 1));
        self.chain.1 = superiors;
        counted
    }

    fn superiors(&mut self, id: EntryId, parent: EntryId) -> Result<Vec<EntryId>> {
        let mut chain = vec![parent];
        let mut at = parent;
        while at != EntryId::ROOT {
            if chain.len() > TREE_DEPTH_MAX {
                self.report.lost_nodes = true;
                self.report
                    .found(format!("entry {}: its chain of superiors has no end", id.0), Vec::new())?;
                break;
            }
            match self.state.read.get(NODES, &id_key(at))?.map(NodeRow::decode) {
                Some(Some(row)) => at = row.parent,
                // The check reports this damaged row when it reaches the superior.
                Some(None) => break,
                None => {
                    self.report.lost_nodes = true;
                    self.report
                        .found(format!("entry {}: its superior {} does not exist", id.0, at.0), Vec::new())?;
                    break;
                }
            }
            chain.push(at);
        }
        Ok(chain)
    }

    fn entries(&mut self) -> Result<()> {
        let read = self.state.read;
        let last = read.position()?;
        for row in read.scan(ENTRIES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, value) = row?;
            let id = EntryId(u64::from_be_bytes(key.try_into().unwrap_or_default()));
            let Some(entry) = EntryRow::decode(value) else {
                self.report.unreadable(id, "its attributes are damaged")?;
                continue;
            };
            let node = read.get(NODES, key)?;
            if node.is_none() {
                self.report.lost_nodes = true;
                self.report
                    .unreadable(id, "it has attributes but no node, so its name and place are lost")?;
            }
            if entry.position > last {
                let text = format!(
                    "entry {}: last changed at position {}, but the log ends at {last}",
                    id.0, entry.position
                );
                self.report.found(text, Vec::new())?;
            }
            if let Some(uuid) = uuid_in(&entry, self.uuid) {
                self.row.clear();
                self.row.push(UUIDS);
                self.row.extend_from_slice(uuid.as_bytes());
                self.rows.push(&self.row, &id.0.to_be_bytes())?;
            }
            for attribute in entry.attributes() {
                let Some(def) = self.state.catalog.attributes().get(attribute.id.0 as usize) else {
                    self.report
                        .unreadable(id, &format!("its attribute {} does not exist", attribute.id.0))?;
                    continue;
                };
                match attribute.content {
                    Content::Inline(values) => self.inline(id, def, values)?,
                    Content::Table => self.table(id, def)?,
                    Content::Links => self.links(id, def)?,
                }
                if let (Content::Inline(values), Some(node)) =
                    (attribute.content, node.and_then(NodeRow::decode))
                    && Some(attribute.id) == self.object_class
                {
                    self.classes(id, &node, values)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that the class set agrees with the values of objectClass.
    fn classes(&mut self, id: EntryId, node: &NodeRow<'_>, values: InlineValues<'_>) -> Result<()> {
        let catalog = self.state.catalog;
        let class = |value: InlineValue<'_>| {
            let name = std::str::from_utf8(value.here()?).ok()?;
            catalog.schema.object_class(name)
        };
        let Some(classes) = values.iter().map(|value| class(value).map(|class| class.id)).collect() else {
            return self
                .report
                .found(format!("entry {}: a value of objectClass is damaged", id.0), Vec::new());
        };
        let class_set = ClassSet::of(classes, &catalog.schema);
        let stored = catalog.class_sets().get(node.class_set.0 as usize);
        if stored.is_none_or(|stored| stored.classes == class_set.classes) {
            return Ok(());
        }
        let right = catalog.class_set_id(&class_set.classes);
        let fix = right.map(|right| {
            let right = NodeRow { class_set: right, flags: class_set.flags, ..*node };
            Fix::Put(NODES, id_key(id).to_vec(), right.encode())
        });
        let text = format!("entry {}: class set {} contradicts its objectClass", id.0, node.class_set.0);
        self.report.found(text, fix.into_iter().collect())
    }

    fn inline(&mut self, id: EntryId, def: &AttributeDef, values: InlineValues<'_>) -> Result<()> {
        let mut count = 0;
        for value in values.iter() {
            count += 1;
            match value {
                InlineValue::Here(value) => self.indexed(id, def, value)?,
                InlineValue::Text(text) => self.indexed(id, def, text.as_bytes())?,
                InlineValue::Reference(hash) => self.large(id, def, &hash)?,
            }
        }
        if count != values.count {
            self.report
                .unreadable(id, &format!("{} does not have its recorded number of values", def.name))?;
        }
        Ok(())
    }

    fn large(&mut self, id: EntryId, def: &AttributeDef, hash: &[u8]) -> Result<()> {
        let key = value_key(id, def.id, hash);
        match self.state.read.get(VALUES, &key)? {
            Some(value) => {
                if value_hash(value) == hash {
                    self.indexed(id, def, value)?;
                } else {
                    self.report.unreadable(id, &format!("a large value of {} is damaged", def.name))?;
                }
                self.expect(VALUES, &key, &[])
            }
            None => self.report.unreadable(id, &format!("a large value of {} is lost", def.name)),
        }
    }

    /// Adds the expected index rows of a value.
    fn indexed(&mut self, id: EntryId, def: &AttributeDef, value: &[u8]) -> Result<()> {
        let Some(index) = self.indexes.get(&def.base).copied() else { return Ok(()) };
        let parts = index.index.maintained_parts();
        if parts.is_empty() {
            return Ok(());
        }
        let mut rows = std::mem::take(&mut self.index_rows);
        rows.clear();
        rows_of(&self.state.catalog.schema, def, parts, value, &mut rows);
        for (part, key) in &rows {
            let is_early = index.index.phase(*part) == Phase::Building && id.0 > index.built_to(*part);
            self.expect_id(part.map(), key, id.0, if is_early { EARLY } else { REQUIRED })?;
        }
        self.index_rows = rows;
        Ok(())
    }

    fn table(&mut self, id: EntryId, def: &AttributeDef) -> Result<()> {
        for row in table_values(self.state.read, id, def.id) {
            let (_, value) = self.table_row(id, def, row?)?;
            self.indexed(id, def, value)?;
        }
        Ok(())
    }

    /// Checks that the key of a row in `values` is the key derived from the row's value. Returns the key and the value.
    fn table_row<'r>(
        &mut self,
        id: EntryId,
        def: &AttributeDef,
        row: (&[u8], &'r [u8]),
    ) -> Result<(Vec<u8>, &'r [u8])> {
        let (place, value) = row;
        let mut key = link_key(id, def.id).to_vec();
        key.extend_from_slice(place);
        self.expect(VALUES, &key, &[])?;
        self.count(&value_counter(id, def.id), 1)?;
        let right = value_key(id, def.id, &normal_value(&self.state.catalog.schema, def, value));
        if right != key {
            let fixes = vec![Fix::Delete(VALUES, key.clone()), Fix::Put(VALUES, right, value.to_vec())];
            self.report.found(
                format!("entry {}: a value of {} is stored under the key of another value", id.0, def.name),
                fixes,
            )?;
        }
        Ok((key, value))
    }

    fn links(&mut self, id: EntryId, def: &AttributeDef) -> Result<()> {
        let mut has_values = false;
        for row in table_values(self.state.read, id, def.id) {
            has_values = true;
            let (key, text) = self.table_row(id, def, row?)?;
            let normal = normal_value(&self.state.catalog.schema, def, text);
            self.end((id, def.id), EndingValue::Text(&normal))?;
            self.link_text(id, def, key, text)?;
        }
        let read = self.state.read;
        let mut targets = read.ids(LINKS, &link_key(id, def.id))?;
        let mut block = Vec::new();
        while targets.next_block(&mut block, TARGET_BLOCK)? > 0 {
            for target in block.drain(..) {
                has_values = true;
                self.expect_id(LINKS, &link_key(id, def.id), target, REQUIRED)?;
                if read.get(NODES, &id_key(EntryId(target)))?.is_none() {
                    let key = link_key(id, def.id).to_vec();
                    let fixes = vec![Fix::RemoveId(LINKS, key, target), Fix::Mark(id, def.id)];
                    let text = format!(
                        "entry {}: {} refers to entry {target}, which does not exist",
                        id.0, def.name
                    );
                    self.report.found(text, fixes)?;
                    continue;
                }
                self.expect_id(LINKED, &link_key(EntryId(target), def.id), id.0, REQUIRED)?;
                self.end((id, def.id), EndingValue::Link(EntryId(target)))?;
                self.count(&value_counter(id, def.id), 1)?;
            }
        }
        if !has_values {
            let text = format!("entry {}: {} has no values", id.0, def.name);
            self.report.found(text, vec![Fix::Mark(id, def.id)])?;
        }
        Ok(())
    }

    /// Adds the expected rows of a value's end time, if the value has one.
    fn end(&mut self, place: (EntryId, AttrId), value: EndingValue<'_>) -> Result<()> {
        let until = of_value(self.state.read, place, value)?;
        if until == 0 {
            return Ok(());
        }
        let (key, row) = (value.key(place.0, place.1), until.to_be_bytes());
        self.expect(ENDS, &key, &row)?;
        due_keys(&key, until).try_for_each(|due| self.expect(DUE, &due, &row))
    }

    /// Checks a link value that is stored as text. Such a value must be a dangling link, so no entry may have the name.
    fn link_text(&mut self, id: EntryId, def: &AttributeDef, key: Vec<u8>, text: &[u8]) -> Result<()> {
        let catalog: &Catalog = self.state.catalog;
        let Some(name) = name_in(&catalog.schema, text) else { return Ok(()) };
        let dangling = dangling_key(def.id, &name.key);
        self.expect_id(DANGLING, &dangling, id.0, REQUIRED)?;
        let Found::Entry(target, _) = self.state.find(&name)? else { return Ok(()) };
        if node(self.state.read, target)?.is_none() {
            return Ok(());
        }
        let fixes = vec![
            Fix::Delete(VALUES, key),
            Fix::RemoveId(DANGLING, dangling, id.0),
            Fix::InsertId(LINKS, link_key(id, def.id).to_vec(), target.0),
            Fix::InsertId(LINKED, link_key(target, def.id).to_vec(), id.0),
        ];
        let text = format!("entry {}: {} has the name of entry {} as text", id.0, def.name, target.0);
        self.report.found(text, fixes)
    }
}
