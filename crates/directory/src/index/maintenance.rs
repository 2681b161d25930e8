//! Building and removing the index rows of existing entries, in slices.
//!
//! After an index is defined, every change of an entry maintains the entry's rows ([`super::update`]), so only the rows
//! of entries that existed before are missing. In one batch, a slice reads the entries after the last entry of the
//! previous slice, inserts their rows, and stores the progress in `meta`. Changes may have inserted some of these rows
//! already. If the process is killed, building continues from the stored progress. The last slice marks the part
//! complete in the same batch as its last rows. Thus a reader that sees a complete index sees all of its rows.
//!
//! The rows of a removed part are deleted in slices in the same way. If a part is defined again during its removal,
//! building starts when all its old rows are removed.
//!
//! Indexes whose building has reached the same entry are built together. Thus several indexes that are defined at once
//! need only one pass over the entries.

use std::ops::Bound;
use std::sync::Arc;

use store::{Batch, Direction, Read};

use super::keys::{RowKey, rows_of};
pub use super::slice::SliceBudget;
use super::slice::{first_phase, key_id};
use super::{gram_rule, sort_orders};
use crate::catalog::{Catalog, META_INDEX, META_INDEX_VERSION, index_version, meta_key};
use crate::model::entry::{EntryRow, StoredEntry};
use crate::model::index_definition::{IndexKinds, IndexPart, IndexParts, IndexRow, Phase};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, ENTRIES, EntryId, META};
use crate::tree::{damaged_row, stored_values};

type Result<T> = std::result::Result<T, OperationError>;

/// Number of entries read, or of rows built or removed, between two calls of `maybe_yield`.
const YIELD_INTERVAL_ROWS: usize = 16;

/// Progress of an index part that is being built or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexProgress {
    /// Name of the attribute type or of the sort order.
    pub attribute: String,
    /// The part; `None` for a sort order.
    pub part: Option<IndexPart>,
    /// [`Phase::Building`] or [`Phase::Clearing`].
    pub phase: Phase,
    /// Highest entry id whose rows are built, in the phase [`Phase::Building`].
    pub built_to: u64,
    /// Highest entry id allocated.
    pub last_entry: u64,
}

/// Returns the progress of all parts that are being built or removed.
///
/// # Errors
/// The store failed.
pub fn progress(read: &Read, catalog: &Catalog) -> Result<Vec<IndexProgress>> {
    let last_entry = crate::catalog::last_entry_id(read)?.0;
    let mut all = Vec::new();
    for base in indexed(catalog) {
        let row = row(read, base)?;
        for part in IndexPart::ALL {
            let phase = row.index.phase(part);
            if matches!(phase, Phase::Building | Phase::Clearing) {
                let attribute = catalog.attribute(base).name.clone();
                let (part, built_to) = (Some(part), row.built_to(part));
                all.push(IndexProgress { attribute, part, phase, built_to, last_entry });
            }
        }
    }
    for order in catalog.sort_orders.iter() {
        let (phase, built_to) = (order.row.phase, order.row.built_to);
        if matches!(phase, Phase::Building | Phase::Clearing) {
            let attribute = order.name().to_owned();
            all.push(IndexProgress { attribute, part: None, phase, built_to, last_entry });
        }
    }
    Ok(all)
}

/// Index parts to build, by attribute.
pub(crate) type IndexWork = [(AttrId, IndexParts)];

/// Returns all index parts that are being built.
pub(crate) fn work(read: &Read, catalog: &Catalog) -> Result<Vec<(AttrId, IndexParts)>> {
    let mut work = Vec::new();
    for base in indexed(catalog).filter(|base| catalog.attribute(*base).index.has_work()) {
        let row = row(read, base)?;
        let parts = in_phase(&row, Phase::Building).fold(IndexParts::NONE, IndexParts::with);
        if !parts.is_empty() {
            work.push((base, parts));
        }
    }
    Ok(work)
}

/// Returns true if rows remain to be removed.
pub(crate) fn is_clearing(catalog: &Catalog) -> bool {
    has_part(catalog, Phase::Clearing)
}

/// Marks parts as complete.
pub(crate) fn complete(batch: &mut Batch<'_>, catalog: &mut Arc<Catalog>, work: &IndexWork) -> Result<()> {
    for (base, parts) in work {
        let mut row = row(batch, *base)?;
        for part in IndexPart::ALL.into_iter().filter(|part| parts.has(*part)) {
            row.set_built_to(part, 0);
            row.index.set_phase(part, Phase::Complete);
        }
        put_row(batch, catalog, *base, &row)?;
    }
    Ok(())
}

/// Returns true if rows remain to be built or removed.
pub fn is_pending(catalog: &Catalog) -> bool {
    let has_orders =
        [Phase::Building, Phase::Clearing].iter().any(|phase| sort_orders::has_phase(catalog, *phase));
    has_orders || catalog.attributes().iter().any(|def| def.index.has_work())
}

/// Returns true if the next slice builds rows. Slices that remove rows come first, because they free space.
pub(crate) fn builds_rows(catalog: &Catalog) -> bool {
    has_part(catalog, Phase::Building) && !is_clearing(catalog)
}

fn has_part(catalog: &Catalog, phase: Phase) -> bool {
    let mut all = catalog.attributes().iter();
    all.any(|def| IndexPart::ALL.into_iter().any(|part| def.index.phase(part) == phase))
        || sort_orders::has_phase(catalog, phase)
}

/// Returns the attributes without options that have an index, or rows of a former index.
pub(crate) fn indexed(catalog: &Catalog) -> impl Iterator<Item = AttrId> {
    let all = catalog.attributes().iter().filter(|def| def.id == def.base);
    all.filter(|def| !def.index.is_nothing()).map(|def| def.id)
}

/// Returns the stored row of an index, or an empty row if none is stored.
pub(crate) fn row(read: &Read, base: AttrId) -> Result<IndexRow> {
    let Some(bytes) = read.get(META, &meta_key(META_INDEX, base.0))? else { return Ok(IndexRow::default()) };
    IndexRow::decode(bytes).ok_or_else(|| OperationError::Damaged(format!("index {}", base.0)))
}

fn put_row(batch: &mut Batch<'_>, catalog: &mut Arc<Catalog>, base: AttrId, row: &IndexRow) -> Result<()> {
    let key = meta_key(META_INDEX, base.0);
    if row.index.is_nothing() {
        batch.delete(META, &key)?;
    } else {
        batch.put(META, &key, &row.encode())?;
    }
    if catalog.attribute(base).index != row.index {
        let version = index_version(batch)? + 1;
        batch.put(META, META_INDEX_VERSION, &version.to_be_bytes())?;
        Arc::make_mut(catalog).set_index(base, row.index, version);
    }
    Ok(())
}

/// Changes the definition of an attribute's index. Rows of new parts will be built, and rows of parts no longer needed
/// will be removed, in later slices.
pub(crate) fn define(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    base: AttrId,
    kinds: IndexKinds,
) -> Result<()> {
    let mut row = row(batch, base)?;
    row.index.kinds = kinds;
    let type_id = catalog.attribute(base).description.type_id;
    let rule = gram_rule(catalog.schema.type_by_id(type_id));
    if row.index.phase(IndexPart::Grams) == Phase::Absent {
        row.index.gram_rule = rule;
    } else if row.index.gram_rule != rule {
        row.index.set_phase(IndexPart::Grams, Phase::Clearing);
    }
    for part in IndexPart::ALL {
        let phase = match (row.index.phase(part), part.is_of(kinds)) {
            (Phase::Absent, true) => first_phase(batch)?,
            (Phase::Building | Phase::Complete, false) => Phase::Clearing,
            (phase, _) => phase,
        };
        row.index.set_phase(part, phase);
        if phase != Phase::Building {
            row.set_built_to(part, 0);
        }
    }
    put_row(batch, catalog, base, &row)
}

/// Starts to rebuild the index parts whose rows are wrong under a new schema: all parts of the attributes in
/// `changed`, because their normal forms have changed, and the grams of attributes whose substring rule has changed.
pub(crate) fn follow_schema(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    changed: &[AttrId],
) -> Result<()> {
    for base in indexed(catalog).collect::<Vec<_>>() {
        let mut row = row(batch, base)?;
        let type_id = catalog.attribute(base).description.type_id;
        let has_other_grams = row.index.gram_rule != gram_rule(catalog.schema.type_by_id(type_id));
        let is_stale =
            |part: IndexPart| changed.contains(&base) || (part == IndexPart::Grams && has_other_grams);
        for part in IndexPart::ALL {
            if is_stale(part) && matches!(row.index.phase(part), Phase::Building | Phase::Complete) {
                row.index.set_phase(part, Phase::Clearing);
                row.set_built_to(part, 0);
            }
        }
        put_row(batch, catalog, base, &row)?;
    }
    Ok(())
}

/// Processes one slice of the remaining work. Returns false if no work remained. Calls `maybe_yield` every few tens of
/// microseconds.
///
/// # Errors
/// The store failed, or rows contradict each other. In both cases the caller must drop the batch.
pub fn run_slice(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    budget: &SliceBudget,
    maybe_yield: &mut dyn FnMut(),
) -> Result<bool> {
    let bases: Vec<AttrId> =
        indexed(catalog).filter(|base| catalog.attribute(*base).index.has_work()).collect();
    let mut slice = Slice { batch, catalog, budget, maybe_yield };
    for base in &bases {
        let row = row(slice.batch, *base)?;
        if let Some(part) = in_phase(&row, Phase::Clearing).next() {
            slice.clear(*base, part, row)?;
            return Ok(true);
        }
    }
    if bases.is_empty() {
        return sort_orders::run_slice(batch, catalog, budget, maybe_yield);
    }
    slice.build(&bases)?;
    Ok(true)
}

/// Work of one slice.
struct Slice<'s, 'b> {
    batch: &'s mut Batch<'b>,
    catalog: &'s mut Arc<Catalog>,
    budget: &'s SliceBudget,
    maybe_yield: &'s mut dyn FnMut(),
}

fn in_phase(row: &IndexRow, phase: Phase) -> impl Iterator<Item = IndexPart> {
    let index = row.index;
    IndexPart::ALL.into_iter().filter(move |part| index.phase(*part) == phase)
}

/// Index rows of the entries in a slice.
struct SliceRows {
    /// Sorted, so that rows of the same page are inserted one after another.
    rows: Vec<(IndexPart, Vec<u8>, u64)>,
    /// The last entry of the slice; `None` if there are no entries after it.
    last: Option<u64>,
}

impl Slice<'_, '_> {
    /// Removes some rows of a part. When no rows are left, ends the removal. Then begins to build the part again if
    /// the index kinds include it.
    fn clear(&mut self, base: AttrId, part: IndexPart, mut row: IndexRow) -> Result<()> {
        let rows = first_rows(self.batch, base, part, self.budget.rows_max)?;
        let ids = rows.iter().flat_map(|(key, ids)| ids.iter().map(move |id| (key, *id)));
        for (count, (key, id)) in ids.enumerate() {
            self.batch.remove_id(part.map(), key, id)?;
            self.yield_at(count);
        }
        if rows.is_empty() {
            row.index.set_phase(part, Phase::Absent);
            if part == IndexPart::Grams {
                let type_id = self.catalog.attribute(base).description.type_id;
                row.index.gram_rule = gram_rule(self.catalog.schema.type_by_id(type_id));
            }
            if part.is_of(row.index.kinds) {
                row.index.set_phase(part, first_phase(self.batch)?);
            }
            row.set_built_to(part, 0);
            put_row(self.batch, self.catalog, base, &row)?;
        }
        Ok(())
    }

    /// Builds the index rows of the next entries. Handles only the index parts that are least advanced: those with the
    /// lowest `built_to`.
    fn build(&mut self, bases: &[AttrId]) -> Result<()> {
        let mut rows = Vec::with_capacity(bases.len());
        for base in bases {
            rows.push((*base, row(self.batch, *base)?));
        }
        let building = |row: &IndexRow| in_phase(row, Phase::Building).map(|part| row.built_to(part)).min();
        let Some(from) = rows.iter().filter_map(|(_, row)| building(row)).min() else { return Ok(()) };
        let at_hand = |row: &IndexRow| {
            let behind = in_phase(row, Phase::Building).filter(|part| row.built_to(*part) == from);
            behind.fold(IndexParts::NONE, IndexParts::with)
        };
        let work: Vec<(AttrId, IndexParts)> = rows.iter().map(|(base, row)| (*base, at_hand(row))).collect();
        let slice_rows = self.build_rows(&work, from)?;
        for (count, (part, key, id)) in slice_rows.rows.iter().enumerate() {
            self.batch.insert_id(part.map(), key, *id)?;
            self.yield_at(count);
        }
        for ((base, mut row), (_, parts)) in rows.into_iter().zip(work) {
            for part in IndexPart::ALL.into_iter().filter(|part| parts.has(*part)) {
                match slice_rows.last {
                    Some(last) => row.set_built_to(part, last),
                    None => {
                        row.set_built_to(part, 0);
                        row.index.set_phase(part, Phase::Complete);
                    }
                }
            }
            if !parts.is_empty() {
                put_row(self.batch, self.catalog, base, &row)?;
            }
        }
        Ok(())
    }

    /// Computes the index rows of the entries after `from`.
    fn build_rows(&mut self, work: &IndexWork, from: u64) -> Result<SliceRows> {
        let Slice { batch, catalog, budget, maybe_yield } = self;
        let mut slice_rows = SliceRows { rows: Vec::new(), last: None };
        let low = from.to_be_bytes();
        let mut rows: Vec<RowKey> = Vec::new();
        let scan = batch.scan(ENTRIES, (Bound::Excluded(&low[..]), Bound::Unbounded), Direction::Forward);
        for (count, row) in scan.enumerate() {
            // The limits are checked after the next row is found, so that an entry certainly follows a slice that ends
            // here.
            if count == budget.entries_max || slice_rows.rows.len() >= budget.rows_max {
                slice_rows.rows.sort_unstable();
                return Ok(slice_rows);
            }
            let (key, bytes) = row?;
            let id = entry_rows(batch, catalog, work, key, bytes, &mut rows)?;
            slice_rows.rows.extend(rows.drain(..).map(|(part, key)| (part, key, id.0)));
            slice_rows.last = Some(id.0);
            if count.is_multiple_of(YIELD_INTERVAL_ROWS) {
                maybe_yield();
            }
        }
        slice_rows.last = None;
        slice_rows.rows.sort_unstable();
        Ok(slice_rows)
    }

    fn yield_at(&mut self, count: usize) {
        if count.is_multiple_of(YIELD_INTERVAL_ROWS) {
            (self.maybe_yield)();
        }
    }
}

/// Returns the first rows of a part, up to a limit.
fn first_rows(
    read: &Read,
    base: AttrId,
    part: IndexPart,
    rows_max: usize,
) -> Result<Vec<(Vec<u8>, Vec<u64>)>> {
    let prefix = part.key_prefix(base);
    let mut rows = Vec::new();
    let mut left = rows_max;
    for key in read.scan_keys_below(part.map(), &prefix) {
        let (key, _) = key?;
        if left == 0 {
            break;
        }
        let mut ids = Vec::new();
        left -= read.ids(part.map(), key)?.next_block(&mut ids, left)?;
        rows.push((key.to_vec(), ids));
    }
    Ok(rows)
}

/// Appends the index rows of an entry in these parts, without duplicates. `key` and `bytes` are the key and the value
/// of the entry's row in `entries`.
pub(crate) fn entry_rows(
    read: &Read,
    catalog: &Catalog,
    work: &IndexWork,
    key: &[u8],
    bytes: &[u8],
    out: &mut Vec<RowKey>,
) -> Result<EntryId> {
    let id = key_id(key)?;
    let row = EntryRow::decode(bytes).ok_or_else(|| damaged_row("entries", id))?;
    let parts_of = |attribute: AttrId| {
        let base = catalog.attribute(attribute).base;
        work.iter().find(|(of, parts)| *of == base && !parts.is_empty()).map(|(_, parts)| *parts)
    };
    let wanted: Vec<_> = row.attributes().filter_map(|a| Some((a.id, parts_of(a.id)?))).collect();
    if wanted.is_empty() {
        return Ok(id);
    }
    let entry = StoredEntry::of(&row);
    for (attribute, parts) in wanted {
        let def = catalog.attribute(attribute);
        stored_values::any(read, id, &entry, attribute, &mut |value| {
            rows_of(&catalog.schema, def, parts, value, out);
            false
        })?;
    }
    out.sort_unstable();
    out.dedup();
    Ok(id)
}
