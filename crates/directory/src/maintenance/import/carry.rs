//! Carries over the entries of naming contexts that the import does not replace. Writes them into the new data file
//! with their ids.
//!
//! The rows of these entries are copied, except rows that depend on replaced entries. Names, and links to replaced
//! entries, are resolved together with the names and links of imported entries. A link to a replaced entry becomes
//! text. The text becomes a link again if an entry with the name is imported.

use std::ops::Bound;

use store::{Direction, MapId, Read};

use super::emit::NodeItem;
use super::ids::IdBits;
use super::job::{ImportError, Job};
use super::prepare::RecordPlace;
use super::sorters::Sorters;
use crate::catalog::normal_value;
use crate::maintenance::entry_uuid::{uuid_attribute, uuid_in};
use crate::model::entry::{EntryRow, of_current_version};
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::name::name_in;
use crate::model::outcome::OperationError;
use crate::model::rows::{
    AttrId, CLASSES, ENTRIES, EntryId, INDEX, LINKED, LINKS, NAMES, NODES, NodeRow, PIECES, VALUES,
    decode_name_row, link_key, name_key, split_link_key, value_counter,
};
use crate::model::value_end::EndingValue;
use crate::tree::structure::Placed;
use crate::tree::value_ends::of_value;
use crate::tree::{damaged_row, dn_of, node, normal_dn_of};

type Result<T> = std::result::Result<T, ImportError>;

/// Callback for an entry: its id, its entry row and its fields for `nodes`.
type Put<'p> = dyn FnMut(EntryId, &[u8], &[u8]) -> Result<()> + 'p;

const ALL: store::KeyRange<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Carries over the entries outside of the imported naming contexts. `put` receives the entries in ascending order of
/// ids, each with its entry row and its fields for `nodes`. Returns the number of entries.
pub(super) fn carry_over(old: &Read, job: &Job, sorters: &mut Sorters, put: &mut Put<'_>) -> Result<u64> {
    let dropped = ReplacedEntries::find(old, job)?;
    let remaining = old.row_count(NODES)? - dropped.ids.len();
    if remaining == 0 {
        return Ok(0);
    }
    let mut carry = CarryOver { old, job, sorters, dropped };
    carry.entries(put)?;
    carry.values()?;
    carry.links()?;
    for map in [INDEX, PIECES, CLASSES] {
        carry.postings(map)?;
    }
    Ok(remaining)
}

/// Ids of the entries that the import replaces.
struct ReplacedEntries {
    ids: IdBits,
}

impl ReplacedEntries {
    fn find(old: &Read, job: &Job) -> Result<ReplacedEntries> {
        let mut dropped = ReplacedEntries { ids: IdBits::default() };
        let mut roots = Vec::new();
        for suffix in job.target_list() {
            let row = old.get(NAMES, &name_key(EntryId::ROOT, &suffix.key))?;
            roots.extend(row.and_then(decode_name_row).map(|(id, _)| id));
        }
        if roots.is_empty() || !job.replace {
            return Ok(dropped);
        }
        for row in old.scan(NODES, ALL, Direction::Forward) {
            let id = id_of(row?.0)?;
            if dropped.is_below(old, &roots, id)? {
                dropped.ids.insert(id);
            }
        }
        Ok(dropped)
    }

    fn is_below(&self, old: &Read, roots: &[EntryId], id: EntryId) -> Result<bool> {
        let mut at = id;
        for _ in 0..TREE_DEPTH_MAX {
            if roots.contains(&at) || self.ids.contains(at) {
                return Ok(true);
            }
            match node(old, at)? {
                Some(row) if row.parent != EntryId::ROOT => at = row.parent,
                _ => return Ok(false),
            }
        }
        Err(OperationError::Damaged(format!("the chain of parents of entry {} has no end", id.0)).into())
    }
}

struct CarryOver<'a> {
    old: &'a Read,
    job: &'a Job,
    sorters: &'a mut Sorters,
    dropped: ReplacedEntries,
}

impl CarryOver<'_> {
    fn entries(&mut self, put: &mut Put<'_>) -> Result<()> {
        let mut item = Vec::new();
        let uuid = uuid_attribute(&self.job.catalog());
        for row in self.old.scan(NODES, ALL, Direction::Forward) {
            let (key, value) = row?;
            let id = id_of(key)?;
            if self.dropped.ids.contains(id) {
                continue;
            }
            let node = NodeRow::decode(value).ok_or_else(|| damaged_row("nodes", id))?;
            let normal =
                normal_dn_of(self.old, &self.job.schema, id)?.ok_or_else(|| damaged_row("nodes", id))?;
            let rdn = node.rdn_text().ok_or_else(|| damaged_row("nodes", id))?;
            let own = crate::tree::entry_rows::normal_rdn(&self.job.catalog(), node.parent, rdn)?;
            let entry = self.old.get(ENTRIES, key)?.ok_or_else(|| damaged_row("entries", id))?;
            let row = EntryRow::decode(entry).ok_or_else(|| damaged_row("entries", id))?;
            let placed = match self.job.schema.has_name_forms() {
                true => Some(Placed::of_row(self.old, &self.job.catalog(), id, (&node, &row))?),
                false => None,
            };
            self.sorters.names.entry(&normal, id, node.flags, normal.len() - own.len(), placed.as_ref())?;
            if let Some(uuid) = uuid_in(&row, uuid) {
                self.sorters.names.uuid(uuid, id)?;
            }
            item.clear();
            let NodeRow { class_set, flags, .. } = node;
            NodeItem { id, class_set, flags, rdn, place: RecordPlace::default() }.encode(&mut item);
            put(id, &of_current_version(&row, entry), &item)?;
        }
        Ok(())
    }

    fn values(&mut self) -> Result<()> {
        for row in self.old.scan(VALUES, ALL, Direction::Forward) {
            let (key, value) = row?;
            let (id, attribute) = split_link_key(key).ok_or_else(damaged_values)?;
            if self.dropped.ids.contains(id) {
                continue;
            }
            let def = {
                let catalog = self.job.catalog();
                catalog.attributes().get(attribute.0 as usize).ok_or_else(damaged_values)?.clone()
            };
            if def.is_link {
                let normal = normal_value(&self.job.schema, &def, value);
                self.sorters.rows.count(&value_counter(id, attribute), 1)?;
                let until = of_value(self.old, (id, attribute), EndingValue::Text(&normal))?;
                self.job.emit_link(self.sorters, (&def, id), (value, &normal), until)?;
            } else {
                self.sorters.rows.plain(VALUES, key, value)?;
                if self.is_table(id, attribute)? {
                    self.sorters.rows.count(&value_counter(id, attribute), 1)?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if the attribute is stored with one row per value. Only such attributes have a counter of values.
    /// Another attribute may have rows for its large values, but has no counter.
    fn is_table(&self, id: EntryId, attribute: AttrId) -> Result<bool> {
        Ok(self.old.count(&value_counter(id, attribute))? > 0)
    }

    fn links(&mut self) -> Result<()> {
        for row in self.old.scan_keys(LINKS, ALL, Direction::Forward) {
            let (key, _) = row?;
            let (source, attribute) = split_link_key(key).ok_or_else(damaged_values)?;
            if self.dropped.ids.contains(source) {
                continue;
            }
            let mut targets = self.old.ids(LINKS, key)?;
            let mut block = Vec::new();
            while targets.next_block(&mut block, 1_024)? > 0 {
                for target in block.drain(..) {
                    self.link(source, attribute, EntryId(target))?;
                }
            }
        }
        Ok(())
    }

    fn link(&mut self, source: EntryId, attribute: AttrId, target: EntryId) -> Result<()> {
        let until = of_value(self.old, (source, attribute), EndingValue::Link(target))?;
        let Sorters { rows, names } = &mut *self.sorters;
        rows.count(&value_counter(source, attribute), 1)?;
        if !self.dropped.ids.contains(target) {
            rows.id(LINKS, &link_key(source, attribute), target)?;
            rows.id(LINKED, &link_key(target, attribute), source)?;
            return Ok(rows.end((source, attribute), EndingValue::Link(target), until)?);
        }
        let dn = dn_of(self.old, target)?.ok_or_else(|| damaged_row("nodes", target))?;
        let name = name_in(&self.job.schema, dn.as_bytes()).ok_or_else(|| damaged_row("nodes", target))?;
        names.link(&name.key, (source, attribute), dn.as_bytes(), until)?;
        Ok(())
    }

    fn postings(&mut self, map: MapId) -> Result<()> {
        for row in self.old.scan_keys(map, ALL, Direction::Forward) {
            let (key, _) = row?;
            let mut ids = self.old.ids(map, key)?;
            let mut block = Vec::new();
            while ids.next_block(&mut block, 1_024)? > 0 {
                for id in block.drain(..).map(EntryId).filter(|id| !self.dropped.ids.contains(*id)) {
                    self.sorters.rows.id(map, key, id)?;
                }
            }
        }
        Ok(())
    }
}

fn id_of(key: &[u8]) -> Result<EntryId> {
    let id = key.try_into().map(u64::from_be_bytes);
    id.map(EntryId).map_err(|_| OperationError::Damaged("key of nodes".to_owned()).into())
}

fn damaged_values() -> OperationError {
    OperationError::Damaged("key of values or links".to_owned())
}
