//! Writes the new data file: map by map, each from its first row to its last.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::path::Path;

use schema::Schema;
use store::{BulkStore, Direction, MapKind, Read, View, temporary_file};

use super::carry::carry_over;
use super::emit::NodeItem;
use super::id_blocks::IdMerger;
use super::ids::IdBits;
use super::job::{ImportError, Job};
use super::prepare::{PreparedRows, Refusal, RejectedRecord};
use super::resolve::{NameOutcome, Resolution};
use super::sorters::{Destination, RowBlock, Sorters, destination};
use crate::catalog::{
    self, AttributeAllocation, META_ATTRIBUTE, META_CLASS_SET, META_CONTEXT_CSN, META_FORMAT,
    META_GENERATION, META_INDEX, META_LAST_CSN, META_LAST_ENTRY, META_SORT_ORDER, last_csn, meta_key,
};
use crate::database::{SERVER_NUMBER, versions};
use crate::model::csn::Csn;
use crate::model::index_definition::{IndexRow, Phase};
use crate::model::origin::Origin;
use crate::model::quoted::Quoted;
use crate::model::record::{Change, Record};
use crate::model::rows::{
    COUNTER_VALUES, DUE, ENDS, ENTRIES, EntryId, LINKS, MAPS, META, NODES, NodeFlags, NodeRow, VALUES,
    id_key, map_spec, value_counter,
};
use crate::model::sort_order::SortOrderRow;
use crate::model::value_end::{split_target_key, split_time_key};
use crate::tree::structure::Misplaced;

type Result<T> = std::result::Result<T, ImportError>;

/// Approximate number of ids that are collected before they are written.
const IDS_MAX: usize = 4_096;

/// The new data file under construction.
pub struct Builder {
    store: BulkStore,
    old: View,
    nodes: BufWriter<File>,
    last_id: EntryId,
    latest_csn: Csn,
    has_carried_over: bool,
    /// Number of entries written.
    count: u64,
    /// Ids of refused records, some of whose rows exist already.
    refused: Vec<EntryId>,
}

impl Builder {
    /// Returns a handle of the new data file: see [`BulkStore::new_file`].
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn new_file(&self) -> std::io::Result<File> {
        self.store.new_file()
    }

    /// Locks the data directory and begins a new data file. The directory must contain data.
    ///
    /// # Errors
    /// Another process has the directory open, the directory contains no data, or the disk failed.
    pub fn create(directory: &Path, options: &store::Options) -> Result<Builder> {
        let store = BulkStore::create(directory, MAPS, options)?;
        let old = store.old_view()?.ok_or(ImportError::Damaged("the data directory is empty"))?;
        if catalog::is_node(&old)? {
            return Err(ImportError::Node);
        }
        let nodes = BufWriter::with_capacity(1 << 20, temporary_file(directory)?);
        Ok(Builder {
            store,
            old,
            nodes,
            last_id: EntryId::ROOT,
            latest_csn: Csn::default(),
            has_carried_over: false,
            count: 0,
            refused: Vec::new(),
        })
    }

    /// Returns the old data.
    pub fn old(&self) -> &Read {
        &self.old
    }

    /// Carries over the entries of naming contexts that the import does not replace. Must be called first.
    ///
    /// # Errors
    /// The data contradicts itself, or the disk is full or failed.
    pub fn carry_over(&mut self, job: &Job, sorters: &mut Sorters) -> Result<u64> {
        self.last_id = job.last_old_id;
        self.latest_csn = last_csn(&self.old)?;
        let Builder { store, old, nodes, .. } = self;
        let count = carry_over(old, job, sorters, &mut |id, row, item| {
            store.append(ENTRIES, &id_key(id), row)?;
            nodes.write_all(item)?;
            Ok(())
        })?;
        self.has_carried_over = count > 0;
        Ok(count)
    }

    /// Writes entry rows. The ids must be higher than the ids of all rows written before.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn take(&mut self, prepared: &PreparedRows) -> Result<()> {
        let mut start = 0;
        for &(id, end) in &prepared.ends {
            let row = prepared.rows.get(start..end).ok_or(ImportError::Damaged("rows"))?;
            self.store.append(ENTRIES, &id_key(id), row)?;
            start = end;
        }
        self.nodes.write_all(&prepared.nodes)?;
        self.refused.extend_from_slice(&prepared.refused);
        self.count += prepared.ends.len() as u64;
        self.last_id = self.last_id.max(prepared.last_id);
        self.latest_csn = self.latest_csn.max(prepared.latest_csn);
        Ok(())
    }

    /// Writes the rows of `nodes`. Passes the entries without a place in the tree to `reject`.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn place(
        &mut self,
        resolved: Resolution,
        mut reject: impl FnMut(RejectedRecord) -> Result<()>,
    ) -> Result<RefusedIds> {
        let mut outcomes = resolved.outcomes.finish()?;
        // Maps the earlier entry of each pair with the same entryUUID to its description. The item of the earlier entry
        // is read before the item of the later entry.
        let mut earlier: HashMap<EntryId, String> = HashMap::new();
        earlier.extend(resolved.same_uuid.values().map(|id| (*id, String::new())));
        self.nodes.flush()?;
        self.nodes.seek(SeekFrom::Start(0))?;
        let mut items = BufReader::with_capacity(1 << 20, self.nodes.get_ref().try_clone()?);
        let mut item = Vec::new();
        while read_item(&mut items, &mut item)? {
            let node = NodeItem::decode(&item).ok_or(ImportError::Damaged("nodes"))?;
            let key = id_key(node.id);
            if let Some(place) = earlier.get_mut(&node.id) {
                *place = place_of(&node);
            }
            let row = outcomes.next()?.filter(|(id, _)| *id == key);
            let outcome = row.and_then(|(_, outcome)| NameOutcome::decode(outcome));
            match outcome.ok_or(ImportError::Damaged("outcomes"))? {
                NameOutcome::Parent(parent) => {
                    let rdn = node.rdn.as_bytes();
                    let row = NodeRow { parent, class_set: node.class_set, flags: node.flags, rdn };
                    self.store.append(NODES, &key, &row.encode())?;
                }
                refused => {
                    self.store.remove(ENTRIES, &key)?;
                    let other = resolved.same_uuid.get(&node.id).and_then(|other| earlier.get(other));
                    let other = other.map_or("an earlier entry", String::as_str);
                    reject(rejected(&node, refused, (other, &resolved.schema)))?;
                }
            }
        }
        let mut ids = resolved.rejected;
        let count = ids.len();
        for id in &self.refused {
            ids.insert(*id);
        }
        Ok(RefusedIds { ids, count })
    }

    /// Returns the number of imported entries written so far, including entries that [`place`](Builder::place) rejects
    /// later.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes all other maps and the counters. Stores each value once and returns the number of repetitions. Values can
    /// be repeated only in attributes that were too large for an earlier check.
    ///
    /// # Errors
    /// The first error in the blocks, or the disk is full or failed.
    pub fn write_rows(
        &mut self,
        blocks: impl Iterator<Item = Result<RowBlock>>,
        refused: &RefusedIds,
        mut progress: impl FnMut(u64),
    ) -> Result<u64> {
        let mut rows = MapWriter::new(&mut self.store, &refused.ids);
        let mut count = 0;
        for block in blocks {
            let block = block?;
            for (key, value) in block.rows() {
                let (to, key) = destination(key).ok_or(ImportError::Damaged("rows"))?;
                rows.take(to, key, value)?;
            }
            count += block.ends.len() as u64;
            progress(count);
        }
        rows.flush()?;
        Ok(rows.repeated_values)
    }

    /// Writes the catalog and the first record of the log, makes the new data file durable, and replaces the old data
    /// file.
    ///
    /// # Errors
    /// The disk is full or failed. The old data are then unchanged.
    pub fn finish(mut self, job: &Job, generation: [u8; 16], now_micros: u64) -> Result<()> {
        let csn = Csn::after(self.latest_csn, now_micros, SERVER_NUMBER);
        let catalog = job.catalog();
        let attributes: Vec<_> = catalog
            .attributes()
            .iter()
            .skip(job.known_attributes)
            .map(|def| AttributeAllocation::of(def.id, &def.description, &catalog.schema))
            .collect();
        let class_sets = catalog.class_set_allocations(job.known_class_sets);
        let mut meta = meta_rows(&self.old)?;
        let mut put = |key: &[u8], value: &[u8]| meta.insert(key.to_vec(), value.to_vec());
        for allocation in &attributes {
            put(&meta_key(META_ATTRIBUTE, allocation.id.0), &encoded(|out| allocation.encode(out)));
        }
        for allocation in &class_sets {
            put(&meta_key(META_CLASS_SET, allocation.id.0), &encoded(|out| allocation.encode(out)));
        }
        for suffix in job.target_list() {
            put(&meta_key(META_CONTEXT_CSN, suffix.number), csn.to_string().as_bytes());
        }
        if !self.has_carried_over {
            // The index is complete, because the rows of all entries were written.
            for def in catalog.attributes().iter().filter(|def| def.id == def.base && def.index.has_work()) {
                let index = def.index.rebuilt();
                put(&meta_key(META_INDEX, def.id.0), &IndexRow::of(index).encode());
            }
        }
        // Sort orders are built from the entries after the import.
        for order in catalog.sort_orders.iter() {
            let row = SortOrderRow::of(&order.row.text, Phase::Building);
            put(&meta_key(META_SORT_ORDER, order.number), &row.encode());
        }
        put(META_FORMAT, &versions());
        put(META_GENERATION, &generation);
        put(META_LAST_ENTRY, &self.last_id.0.to_be_bytes());
        put(META_LAST_CSN, csn.to_string().as_bytes());
        for (key, value) in &meta {
            self.store.append(META, key, value)?;
        }
        // The record's DN is an existing naming context. Readers of the log learn the new numbers of attributes and
        // class sets from the record. The new generation shows readers that this is a different log.
        let dn = job.target_suffixes().next().unwrap_or_default().to_owned();
        let requester = job.creator.clone();
        let record = Record {
            csn,
            requester,
            attributes,
            class_sets,
            origin: Origin::default(),
            change: Change::Suffix { dn },
        };
        self.store.start_log_at(job.position)?;
        self.store.append_record(&record.encode())?;
        drop(self.old);
        self.store.finish()?;
        Ok(())
    }
}

/// Ids of refused entries. No rows of these entries are written.
pub struct RefusedIds {
    ids: IdBits,
    count: u64,
}

impl RefusedIds {
    /// Returns the number of refused entries whose entry rows were written, because only their place in the tree was
    /// refused.
    pub fn count(&self) -> u64 {
        self.count
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes);
    bytes
}

fn meta_rows(read: &Read) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let rows = read.scan(META, all, Direction::Forward);
    rows.map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).map_err(ImportError::from))
        .collect()
}

/// Reads the next item from the file of nodes. Returns false at the end of the file.
fn read_item(items: &mut impl std::io::Read, item: &mut Vec<u8>) -> Result<bool> {
    let mut length = [0; 4];
    match items.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    item.clear();
    let length = u64::from(u32::from_le_bytes(length));
    if items.by_ref().take(length).read_to_end(item)? as u64 != length {
        return Err(ImportError::Damaged("nodes"));
    }
    Ok(true)
}

/// Describes an entry by its RDN and its line in the text. An entry of another suffix was carried over and has no line.
fn place_of(node: &NodeItem<'_>) -> String {
    match node.place.line {
        0 => format!("the entry {} of another suffix", Quoted(node.rdn)),
        line => format!("the entry {} in line {line}", Quoted(node.rdn)),
    }
}

/// Returns the rejection of an entry without a place in the tree. `same` describes the entry with the same entryUUID.
fn rejected(node: &NodeItem<'_>, outcome: NameOutcome, (same, schema): (&str, &Schema)) -> RejectedRecord {
    let below = |what: &str| format!("its superior is {what}, which cannot have subordinates");
    let (refusal, reason) = match outcome {
        NameOutcome::Duplicate(_) => (Refusal::Duplicate, "an earlier entry has the same name".to_owned()),
        NameOutcome::SameUuid => {
            let why = format!(
                "its entryUUID is that of {same}, by which copies identify entries: delete the value from one \
                 of them, which then gets a new one"
            );
            (Refusal::SameUuid, why)
        }
        NameOutcome::Misplaced(class, superior) => {
            (Refusal::Bad, Misplaced::Place(class, superior).describe(schema))
        }
        NameOutcome::Leaf(flags) if flags.is_alias() => (Refusal::Bad, below("an alias")),
        NameOutcome::Leaf(flags) if flags.is_subentry() => (Refusal::Bad, below("a subentry")),
        NameOutcome::Leaf(NodeFlags(_)) => (Refusal::Bad, below("a referral")),
        NameOutcome::Orphan | NameOutcome::Parent(_) => {
            (Refusal::Orphan, "its superior does not exist, or was rejected as well".to_owned())
        }
    };
    RejectedRecord { place: node.place, refusal, reason }
}

/// Writer of sorted rows. Collects the ids, or the differences of a counter, under one key, and then writes them
/// together.
struct MapWriter<'a> {
    store: &'a mut BulkStore,
    refused: &'a IdBits,
    /// Destination and key of the last row.
    at: Option<(Destination, Vec<u8>)>,
    ids: IdMerger,
    count: i64,
    /// Corrections of counters, because repeated values are stored only once.
    corrections: BTreeMap<Vec<u8>, i64>,
    repeated_values: u64,
}

impl<'a> MapWriter<'a> {
    fn new(store: &'a mut BulkStore, refused: &'a IdBits) -> MapWriter<'a> {
        MapWriter {
            store,
            refused,
            at: None,
            ids: IdMerger::default(),
            count: 0,
            corrections: BTreeMap::new(),
            repeated_values: 0,
        }
    }

    fn take(&mut self, to: Destination, key: &[u8], value: &[u8]) -> Result<()> {
        let number = || value.try_into().map_err(|_| ImportError::Damaged("rows"));
        if let Some(owner) = owner(to, key)
            && self.refused.contains(owner)
        {
            return Ok(());
        }
        let is_same = self.at.as_ref().is_some_and(|(at, last)| *at == to && last == key);
        match to {
            Destination::Counters => {
                self.begin(is_same, to, key)?;
                self.count += i64::from_be_bytes(number()?);
            }
            Destination::Map(map) if map_spec(map).kind == MapKind::IdSet => {
                self.begin(is_same, to, key)?;
                let is_refused = |id| self.refused.contains(EntryId(id));
                self.ids.take(value, is_refused).ok_or(ImportError::Damaged("rows"))?;
                if self.ids.settled().len() > IDS_MAX {
                    self.store.append_ids(map, key, self.ids.settled())?;
                    self.ids.drop_settled();
                }
            }
            // The end times of a repeated value are already written.
            Destination::Map(ENDS | DUE) if is_same => {}
            Destination::Map(map) if is_same => {
                // Only values can be repeated here, because duplicate names were found before.
                debug_assert_eq!(map, VALUES);
                self.repeated_values += 1;
                if let Some((id, attribute)) = crate::model::rows::split_link_key(key) {
                    *self.corrections.entry(value_counter(id, attribute).to_vec()).or_default() -= 1;
                }
            }
            Destination::Map(map) => {
                self.begin(is_same, to, key)?;
                self.store.append(map, key, value)?;
            }
        }
        Ok(())
    }

    /// Writes the content under the last key, and begins another key. Does nothing if the keys are the same.
    fn begin(&mut self, is_same: bool, to: Destination, key: &[u8]) -> Result<()> {
        if is_same {
            return Ok(());
        }
        self.flush()?;
        match &mut self.at {
            Some((at, last)) => {
                *at = to;
                last.clear();
                last.extend_from_slice(key);
            }
            none => *none = Some((to, key.to_vec())),
        }
        Ok(())
    }

    /// Writes the content that was collected under the last key.
    fn flush(&mut self) -> Result<()> {
        let Some((to, key)) = &self.at else { return Ok(()) };
        match to {
            Destination::Counters => {
                let count = self.count + self.corrections.get(key).copied().unwrap_or(0);
                if count != 0 {
                    self.store.append_counter(key, count)?;
                }
                self.count = 0;
            }
            Destination::Map(map) => {
                // Only the rows of id sets have ids.
                if !self.ids.all().is_empty() {
                    self.store.append_ids(*map, key, self.ids.all())?;
                }
                self.ids.clear();
            }
        }
        Ok(())
    }
}

/// Returns the entry that owns a row, if the row's key contains the entry's id. Among id sets, only keys of `links`
/// contain an owner. The members of other id sets are entries, so the members are checked instead.
fn owner(to: Destination, key: &[u8]) -> Option<EntryId> {
    let id = |bytes: Option<&[u8]>| Some(EntryId(u64::from_be_bytes(bytes?.try_into().ok()?)));
    match to {
        Destination::Counters if key.first() == Some(&COUNTER_VALUES) => id(key.get(1..9)),
        Destination::Counters => None,
        Destination::Map(VALUES | LINKS | ENDS) => id(key.get(..8)),
        Destination::Map(DUE) => match split_time_key(key) {
            Some((_, key)) => id(key.get(..8)),
            None => split_target_key(key).map(|(_, source)| source),
        },
        Destination::Map(_) => None,
    }
}
