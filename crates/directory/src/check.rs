//! The full check: every row against the entries, both ways.
//!
//! The rows that follow from `nodes`, `entries` and `values` are made anew in memory and compared with those that are
//! there: names, class postings, counters, index rows, links and their reverse, dangling names. Memory grows with the
//! number of index rows; `pando check` is for a stopped directory and for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use store::{Direction, MapId, MapKind, Read};

use crate::attribute_index::definition::IndexRow;
use crate::attribute_index::keys::rows_of;
use crate::attribute_index::{IndexPart, Phase, maintenance, normal_value};
use crate::catalog::Catalog;
use crate::entry::{Content, EntryRow, InlineValue};
use crate::links::name_in;
use crate::rows::{
    AttrId, CLASSES, DANGLING, ENTRIES, EntryId, INDEX, LINKED, LINKS, MAPS, NAMES, NODES, NodeRow, PIECES,
    VALUES, children_counter, class_key, dangling_key, encode_name_row, link_key, name_key, subtree_counter,
    value_counter, value_hash, value_key,
};
use crate::stored_values::table_values;
use crate::tree::{NormalName, State};
use crate::{OperationError, Snapshot};

type Result<T> = std::result::Result<T, OperationError>;

/// Findings beyond this many are counted, not told.
const FINDINGS_MAX: usize = 200;

/// Checks every row. The findings, each a sentence with its place; none in a sound directory.
///
/// # Errors
/// The store failed.
pub fn check(snapshot: &Snapshot) -> Result<Vec<String>> {
    let state = snapshot.state();
    let mut check = Check {
        read: state.read,
        catalog: state.catalog,
        plain: BTreeMap::new(),
        ids: BTreeSet::new(),
        indexes: BTreeMap::new(),
        early: BTreeSet::new(),
        counters: BTreeMap::new(),
        findings: Vec::new(),
    };
    for def in state.catalog.attributes().iter().filter(|def| def.id == def.base) {
        check.indexes.insert(def.id, maintenance::row(state.read, def.id)?);
    }
    check.nodes()?;
    check.entries()?;
    check.compare_plain(NAMES)?;
    check.compare_plain(VALUES)?;
    for map in [LINKS, LINKED, DANGLING, INDEX, CLASSES, PIECES] {
        check.compare_ids(map)?;
    }
    check.compare_counters()?;
    check.links_resolve(state)?;
    if check.findings.len() > FINDINGS_MAX {
        let more = check.findings.len() - FINDINGS_MAX;
        check.findings.truncate(FINDINGS_MAX);
        check.findings.push(format!("and {more} more"));
    }
    Ok(check.findings)
}

/// What follows from the entries, to be compared with what is there.
struct Check<'a> {
    read: &'a Read,
    catalog: &'a Catalog,
    /// (map, key) -> value, `None` where any value will do.
    plain: BTreeMap<(usize, Vec<u8>), Option<Vec<u8>>>,
    /// (map, key, id).
    ids: BTreeSet<(usize, Vec<u8>, u64)>,
    /// The indexes, by attribute without options.
    indexes: BTreeMap<AttrId, IndexRow>,
    /// As `ids`: rows of an index that is being built which may be there before their turn.
    early: BTreeSet<(usize, Vec<u8>, u64)>,
    counters: BTreeMap<Vec<u8>, i64>,
    findings: Vec<String>,
}

impl Check<'_> {
    fn found(&mut self, finding: String) {
        self.findings.push(finding);
    }

    fn expect_id(&mut self, map: MapId, key: &[u8], id: u64) {
        self.ids.insert((map.index(), key.to_vec(), id));
    }

    fn count(&mut self, key: &[u8], delta: i64) {
        *self.counters.entry(key.to_vec()).or_default() += delta;
    }

    fn nodes(&mut self) -> Result<()> {
        let read = self.read;
        for row in read.scan(NODES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, value) = row?;
            let id = EntryId(u64::from_be_bytes(key.try_into().unwrap_or_default()));
            let Some(node) = NodeRow::decode(value) else {
                self.found(format!("entry {}: node row is damaged", id.0));
                continue;
            };
            if node.class_set.0 as usize >= self.catalog.class_sets().len() {
                self.found(format!("entry {}: class set {} does not exist", id.0, node.class_set.0));
            } else if self.catalog.class_set(node.class_set).flags != node.flags {
                self.found(format!("entry {}: flags are not those of its classes", id.0));
            }
            let normal = crate::apply::normal_rdn(self.catalog, node.parent, node.rdn)?;
            let name = (NAMES.index(), name_key(node.parent, &normal));
            if self.plain.insert(name, Some(encode_name_row(id, node.flags).to_vec())).is_some() {
                self.found(format!("entry {}: another entry has its name", id.0));
            }
            self.expect_id(CLASSES, &class_key(node.class_set), id.0);
            self.count(&children_counter(node.parent), 1);
            self.ancestors(id, node.parent)?;
            if read.get(ENTRIES, key)?.is_none() {
                self.found(format!("entry {}: no attributes", id.0));
            }
        }
        Ok(())
    }

    fn ancestors(&mut self, id: EntryId, parent: EntryId) -> Result<()> {
        let mut at = parent;
        for _ in 0..crate::limits::TREE_DEPTH_MAX {
            self.count(&subtree_counter(at), 1);
            if at == EntryId::ROOT {
                return Ok(());
            }
            match crate::tree::node(self.read, at)? {
                Some(row) => at = row.parent,
                None => {
                    self.found(format!("entry {}: superior {} does not exist", id.0, at.0));
                    return Ok(());
                }
            }
        }
        self.found(format!("entry {}: its superiors do not end", id.0));
        Ok(())
    }

    fn entries(&mut self) -> Result<()> {
        let read = self.read;
        let last = read.position()?;
        for row in read.scan(ENTRIES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, value) = row?;
            let id = EntryId(u64::from_be_bytes(key.try_into().unwrap_or_default()));
            if read.get(NODES, key)?.is_none() {
                self.found(format!("entry {}: attributes without a node", id.0));
            }
            let Some(entry) = EntryRow::decode(value) else {
                self.found(format!("entry {}: attributes are damaged", id.0));
                continue;
            };
            if entry.position > last {
                self.found(format!("entry {}: changed at {}, the log ends at {last}", id.0, entry.position));
            }
            for attribute in entry.attributes() {
                if attribute.id.0 as usize >= self.catalog.attributes().len() {
                    self.found(format!("entry {}: attribute {} does not exist", id.0, attribute.id.0));
                    continue;
                }
                self.attribute(id, attribute.id, attribute.content)?;
            }
        }
        Ok(())
    }

    fn attribute(&mut self, id: EntryId, attribute: AttrId, content: Content<'_>) -> Result<()> {
        match content {
            Content::Inline(values) => {
                let mut count = 0;
                for value in values.iter() {
                    count += 1;
                    match value {
                        InlineValue::Here(value) => self.indexed(id, attribute, value),
                        InlineValue::Elsewhere(hash) => self.large(id, attribute, &hash)?,
                    }
                }
                if count != values.count {
                    self.found(format!(
                        "entry {}: attribute {} has another number of values",
                        id.0, attribute.0
                    ));
                }
                Ok(())
            }
            Content::Table => self.table(id, attribute),
            Content::Links => self.links(id, attribute),
        }
    }

    fn large(&mut self, id: EntryId, attribute: AttrId, hash: &[u8]) -> Result<()> {
        let key = value_key(id, attribute, hash);
        match self.read.get(VALUES, &key)? {
            Some(value) if value_hash(value) == hash => self.indexed(id, attribute, value),
            Some(_) => {
                self.found(format!("entry {}: a large value of attribute {} is damaged", id.0, attribute.0))
            }
            None => {
                self.found(format!("entry {}: a large value of attribute {} is missing", id.0, attribute.0))
            }
        }
        self.plain.insert((VALUES.index(), key), None);
        Ok(())
    }

    fn indexed(&mut self, id: EntryId, attribute: AttrId, value: &[u8]) {
        let def = self.catalog.attribute(attribute);
        let Some(index) = self.indexes.get(&def.base).copied() else { return };
        let mut rows = Vec::new();
        rows_of(&self.catalog.schema, def, index.index.kept_parts(), value, &mut rows);
        for (part, key) in rows {
            let is_built = match index.index.phase(part) {
                Phase::Building => id.0 <= index.built_to[part as usize],
                _ => true,
            };
            let row = (part.map().index(), key, id.0);
            if is_built {
                self.ids.insert(row)
            } else {
                self.early.insert(row)
            };
        }
    }

    /// Whether a row may be there though nothing demands it: its index is being built or removed.
    fn is_allowed(&mut self, map: MapId, key: &[u8], id: u64) -> bool {
        let removed = |(base, row): (&AttrId, &IndexRow)| {
            let removed = IndexPart::ALL.into_iter().filter(|part| row.index.phase(*part) == Phase::Clearing);
            removed.into_iter().any(|part| part.map() == map && key.starts_with(&part.key_prefix(*base)))
        };
        self.early.remove(&(map.index(), key.to_vec(), id)) || self.indexes.iter().any(removed)
    }

    fn table(&mut self, id: EntryId, attribute: AttrId) -> Result<()> {
        let def = self.catalog.attribute(attribute);
        for row in table_values(self.read, id, attribute) {
            let value = row?.1;
            let key = value_key(id, attribute, &normal_value(&self.catalog.schema, def, value));
            self.plain.insert((VALUES.index(), key), Some(value.to_vec()));
            self.count(&value_counter(id, attribute), 1);
            self.indexed(id, attribute, value);
        }
        Ok(())
    }

    fn links(&mut self, id: EntryId, attribute: AttrId) -> Result<()> {
        let def = self.catalog.attribute(attribute);
        for row in table_values(self.read, id, attribute) {
            let text = row?.1;
            let key = value_key(id, attribute, &normal_value(&self.catalog.schema, def, text));
            self.plain.insert((VALUES.index(), key), Some(text.to_vec()));
            self.count(&value_counter(id, attribute), 1);
            if let Some(name) = name_in(&self.catalog.schema, text) {
                self.expect_id(DANGLING, &dangling_key(attribute, &name.key), id.0);
            }
        }
        let mut targets = Vec::new();
        self.read.ids(LINKS, &link_key(id, attribute))?.next_block(&mut targets, usize::MAX)?;
        for target in targets {
            self.expect_id(LINKS, &link_key(id, attribute), target);
            self.expect_id(LINKED, &link_key(EntryId(target), attribute), id.0);
            self.count(&value_counter(id, attribute), 1);
        }
        Ok(())
    }

    fn compare_plain(&mut self, map: MapId) -> Result<()> {
        debug_assert_eq!(MAPS[map.index()].kind, MapKind::Plain);
        let name = MAPS[map.index()].name;
        let read = self.read;
        for row in read.scan(map, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, value) = row?;
            match self.plain.remove(&(map.index(), key.to_vec())) {
                None => self.found(format!("{name}: row {} belongs to no entry", hex(key))),
                Some(Some(expected)) if expected != value => {
                    self.found(format!("{name}: row {} is not what its entry says", hex(key)));
                }
                Some(_) => {}
            }
        }
        let missing: Vec<_> = self.plain.keys().filter(|(index, _)| *index == map.index()).cloned().collect();
        for (_, key) in missing {
            self.found(format!("{name}: row {} is missing", hex(&key)));
        }
        Ok(())
    }

    fn compare_ids(&mut self, map: MapId) -> Result<()> {
        let name = MAPS[map.index()].name;
        let read = self.read;
        for row in read.scan_keys(map, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            let (key, count) = row?;
            let mut ids = Vec::new();
            read.ids(map, key)?.next_block(&mut ids, usize::MAX)?;
            if ids.len() as u64 != count {
                self.found(format!("{name}: key {} has {} ids and says {count}", hex(key), ids.len()));
            }
            for id in ids {
                if !self.ids.remove(&(map.index(), key.to_vec(), id)) && !self.is_allowed(map, key, id) {
                    self.found(format!("{name}: id {id} under {} follows from no entry", hex(key)));
                }
            }
        }
        let missing: Vec<_> = self.ids.iter().filter(|(index, ..)| *index == map.index()).cloned().collect();
        for (_, key, id) in missing {
            self.found(format!("{name}: id {id} under {} is missing", hex(&key)));
        }
        Ok(())
    }

    /// Counters of everything that should count; one that should not be there shows when its entry is made again.
    fn compare_counters(&mut self) -> Result<()> {
        for (key, expected) in std::mem::take(&mut self.counters) {
            let found = self.read.count(&key)?;
            if found != expected {
                self.found(format!("counter {} is {found}, there are {expected}", hex(&key)));
            }
        }
        Ok(())
    }

    /// Every link has its target, and no text names an entry.
    fn links_resolve(&mut self, state: State<'_>) -> Result<()> {
        let unbounded = (Bound::Unbounded, Bound::Unbounded);
        for row in self.read.scan_keys(LINKED, unbounded, Direction::Forward) {
            let target = EntryId(u64::from_be_bytes(row?.0[..8].try_into().unwrap_or_default()));
            if state.node(target)?.is_none() {
                self.found(format!("links to entry {}, which does not exist", target.0));
            }
        }
        for row in self.read.scan(VALUES, unbounded, Direction::Forward) {
            let (key, value) = row?;
            let attribute = AttrId(u32::from_be_bytes(key[8..12].try_into().unwrap_or_default()));
            let is_link = self.catalog.attributes().get(attribute.0 as usize).is_some_and(|def| def.is_link);
            let Some(name) = is_link.then(|| name_in(&self.catalog.schema, value)).flatten() else {
                continue;
            };
            if let crate::tree::Found::Entry(id, _) = state.find(&NormalName::clone(&name))? {
                self.found(format!("values: row {} is text that names entry {}", hex(key), id.0));
            }
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
