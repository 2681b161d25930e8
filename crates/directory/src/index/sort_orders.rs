//! Rows of sort orders. Each order of the settings has a sorted set ([`RankedKeys`]) with the sort keys of its entries.
//! [`super::sort_key`] computes these keys. Orders exclude subentries, because most searches do not return them.
//!
//! Every change that may alter the place of an entry in an order updates the entry's rows. The rows of entries that
//! existed before the order was defined are built in slices, as for attribute indexes. Rows are local to a data
//! directory: log records do not contain them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use store::{Batch, Direction, RankedKeys, Read};

use super::slice::{SliceBudget, first_phase, key_id};
use super::sort_key::{KeyBuffers, SortKey, make_key, sort_rule};
use crate::catalog::sort_orders::{SortOrder, SortOrderRule};
use crate::catalog::{Catalog, META_INDEX_VERSION, META_SORT_ORDER, Shown, index_version, meta_key};
use crate::filter::{Candidate, Compiler, Covering};
use crate::model::index_definition::Phase;
use crate::model::outcome::OperationError;
use crate::model::record::ValueChange;
use crate::model::rows::{ENTRIES, EntryId, META, ORDERS, subtree_counter};
use crate::model::settings::Settings;
use crate::model::sort_order::SortOrderRow;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Default settings, because a [`TreeState`] requires settings. Neither the keys nor the filters of orders depend on
/// settings.
static NO_SETTINGS: LazyLock<Settings> = LazyLock::new(Settings::default);

/// Number of entries between two calls of `maybe_yield`.
const YIELD_INTERVAL: usize = 4;

/// Returns the sorted set of the order with this number.
pub(crate) fn rows_of(number: u32) -> RankedKeys {
    RankedKeys::new(ORDERS, &number.to_be_bytes())
}

/// A sort order with its names resolved in one state of the directory.
pub(crate) struct ReadyOrder {
    pub(crate) keys: Vec<SortKey>,
    pub(crate) covering: Covering,
}

impl ReadyOrder {
    pub(crate) fn of(state: TreeState<'_>, rule: &SortOrderRule) -> Result<ReadyOrder> {
        let compiler = Compiler { catalog: state.catalog, shown: Shown::Plain, known: None };
        let keys = rule.types.iter().filter_map(|type_id| {
            let by = sort_rule(state.catalog.schema.type_by_id(*type_id))?;
            SortKey::of(&compiler, schema::AttributeDescription::of(*type_id), (by, false))
        });
        Ok(ReadyOrder { keys: keys.collect(), covering: Covering::of(state, &rule.covered)? })
    }

    /// Computes the key of an entry, even if the order does not cover the entry. Returns false if the entry does not
    /// exist.
    fn make_key(&self, state: TreeState<'_>, id: EntryId, buffers: &mut KeyBuffers) -> Result<bool> {
        let Some(node) = state.node(id)? else { return Ok(false) };
        make_key(&self.keys, state, &Candidate::new(id, node), None, buffers)?;
        Ok(true)
    }

    /// Returns the key of an entry; `None` if the order does not contain it.
    pub(crate) fn key(
        &self,
        state: TreeState<'_>,
        id: EntryId,
        buffers: &mut KeyBuffers,
    ) -> Result<Option<Vec<u8>>> {
        let Some(node) = state.node(id)? else { return Ok(None) };
        if node.flags.is_subentry() || !self.covering.covers(state, id)? {
            return Ok(None);
        }
        Ok(self.make_key(state, id, buffers)?.then(|| buffers.key.clone()))
    }
}

/// A change that may alter the place of an entry in a sort order.
#[derive(Clone, Copy)]
pub(crate) enum Cause<'c> {
    /// The entry is added, deleted or moved.
    Place,
    /// The class set of the entry changes, and possibly its values too.
    Classes,
    /// Values change.
    Values(&'c [ValueChange]),
}

/// The orders that a change of an entry may affect. For each order, the map contains the entry's key before the change,
/// even if the order did not cover the entry; `None` if the entry did not exist.
#[derive(Default)]
pub(crate) struct Places(BTreeMap<u32, Option<Vec<u8>>>);

/// Finds the keys of an entry before a change.
pub(crate) fn places(read: &Read, catalog: &Catalog, id: EntryId, cause: Cause<'_>) -> Result<Places> {
    if catalog.sort_orders.is_empty() { Ok(Places::default()) } else { all_places(read, catalog, id, cause) }
}

#[cold]
fn all_places(read: &Read, catalog: &Catalog, id: EntryId, cause: Cause<'_>) -> Result<Places> {
    let state = TreeState::stored(read, catalog, &NO_SETTINGS);
    let (mut places, mut buffers) = (BTreeMap::new(), KeyBuffers::default());
    for (order, rule) in maintained(catalog) {
        let is_watched = |change: &ValueChange| {
            rule.watched.contains(catalog.attribute(change.attribute).description.type_id)
        };
        let may_move = match cause {
            Cause::Place | Cause::Classes => true,
            Cause::Values(changes) => changes.iter().any(is_watched),
        };
        if may_move {
            let ready = ReadyOrder::of(state, rule)?;
            let is_there = ready.make_key(state, id, &mut buffers)?;
            places.insert(order.number, is_there.then(|| buffers.key.clone()));
        }
    }
    Ok(Places(places))
}

/// Updates the keys of an entry after a change. `before` contains the entry's keys before the change.
pub(crate) fn follow(batch: &mut Batch<'_>, catalog: &Catalog, id: EntryId, before: Places) -> Result<()> {
    if before.0.is_empty() { Ok(()) } else { move_entry(batch, catalog, id, before) }
}

#[cold]
fn move_entry(batch: &mut Batch<'_>, catalog: &Catalog, id: EntryId, mut before: Places) -> Result<()> {
    let mut buffers = KeyBuffers::default();
    for (order, rule) in maintained(catalog) {
        let Some(old) = before.0.remove(&order.number) else { continue };
        let state = TreeState::stored(batch, catalog, &NO_SETTINGS);
        let new = ReadyOrder::of(state, rule)?.key(state, id, &mut buffers)?;
        let rows = rows_of(order.number);
        if let Some(old) = old.filter(|old| new.as_ref() != Some(old)) {
            rows.remove(batch, &old)?;
        }
        if let Some(new) = new {
            rows.insert(batch, &new)?;
        }
    }
    Ok(())
}

fn maintained(catalog: &Catalog) -> impl Iterator<Item = (&SortOrder, &SortOrderRule)> {
    catalog.sort_orders.iter().filter_map(|order| Some((order, order.maintained()?)))
}

/// For each order with a base: the number of the order, its base entry, and whether the entry that is being moved is at
/// or below the base.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Bases(Vec<(u32, Option<EntryId>, bool)>);

/// Finds the bases of orders. Call it before and after an entry is moved together with the entries below it.
pub(crate) fn bases(read: &Read, catalog: &Catalog, id: EntryId) -> Result<Bases> {
    let mut bases = Bases::default();
    if catalog.sort_orders.is_empty() || read.count(&subtree_counter(id))? == 0 {
        return Ok(bases);
    }
    let state = TreeState::stored(read, catalog, &NO_SETTINGS);
    for (order, rule) in maintained(catalog) {
        let Some(name) = &rule.covered.base else { continue };
        let base = state.entry_of(name)?;
        let is_inside = base.map_or(Ok(false), |base| state.is_at_or_below(id, base))?;
        bases.0.push((order.number, base, is_inside));
    }
    Ok(bases)
}

/// Starts to rebuild the orders that a move affects: orders whose base is now a different entry, and orders whose
/// subtree the moved entries have entered or left.
pub(crate) fn follow_tree(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    before: &Bases,
    after: &Bases,
) -> Result<()> {
    let moved = before.0.iter().filter(|base| !after.0.contains(base));
    rebuild(batch, catalog, &moved.map(|(number, ..)| *number).collect::<Vec<_>>())
}

/// Starts to rebuild orders.
fn rebuild(batch: &mut Batch<'_>, catalog: &mut Arc<Catalog>, numbers: &[u32]) -> Result<()> {
    for order in Arc::clone(catalog).sort_orders.iter().filter(|order| numbers.contains(&order.number)) {
        put_row(batch, order.number, Some(&SortOrderRow::of(&order.row.text, Phase::Clearing)))?;
    }
    if numbers.is_empty() { Ok(()) } else { renew(batch, catalog) }
}

/// Starts to rebuild all orders, because a new schema may change their entries or the order of their entries.
pub(crate) fn rebuild_all(batch: &mut Batch<'_>, catalog: &mut Arc<Catalog>) -> Result<()> {
    let numbers: Vec<u32> = catalog.sort_orders.iter().map(|order| order.number).collect();
    rebuild(batch, catalog, &numbers)
}

/// Starts to build orders that were added to the settings, and to remove orders that were deleted from them.
pub(crate) fn define(batch: &mut Batch<'_>, catalog: &mut Arc<Catalog>, texts: &[String]) -> Result<()> {
    if texts.is_empty() && catalog.sort_orders.is_empty() {
        return Ok(());
    }
    let known = Arc::clone(&catalog.sort_orders);
    let lost = known.iter().filter(|order| !texts.contains(&order.row.text));
    for order in lost {
        put_row(batch, order.number, Some(&SortOrderRow::of(&order.row.text, Phase::Clearing)))?;
    }
    let gained = texts.iter().filter(|text| !known.iter().any(|order| order.row.text == **text));
    let next = known.iter().map(|order| order.number + 1).max().unwrap_or(0);
    for (number, text) in (next..).zip(gained) {
        put_row(batch, number, Some(&SortOrderRow::of(text, first_phase(batch)?)))?;
    }
    renew(batch, catalog)
}

fn put_row(batch: &mut Batch<'_>, number: u32, row: Option<&SortOrderRow>) -> Result<()> {
    let key = meta_key(META_SORT_ORDER, number);
    match row {
        Some(row) => batch.put(META, &key, &row.encode())?,
        None => drop(batch.delete(META, &key)?),
    }
    Ok(())
}

/// Updates the catalog from the rows, after an order has become usable or unusable for searches. Searches that use the
/// order then make a new plan.
fn renew(batch: &mut Batch<'_>, catalog: &mut Arc<Catalog>) -> Result<()> {
    let version = index_version(batch)? + 1;
    batch.put(META, META_INDEX_VERSION, &version.to_be_bytes())?;
    load(batch, catalog)
}

/// Updates the catalog from the rows.
fn load(read: &Read, catalog: &mut Arc<Catalog>) -> Result<()> {
    let loaded = Arc::make_mut(catalog).load_indexes(read);
    loaded.map_err(|error| OperationError::Damaged(error.to_string()))
}

/// Returns true if any order is in this phase.
pub(crate) fn has_phase(catalog: &Catalog, phase: Phase) -> bool {
    catalog.sort_orders.iter().any(|order| order.row.phase == phase)
}

/// Processes one slice of the remaining work on orders. Returns false if no work remained.
///
/// # Errors
/// The store failed, or rows contradict each other. In both cases the caller must drop the batch.
pub(crate) fn run_slice(
    batch: &mut Batch<'_>,
    catalog: &mut Arc<Catalog>,
    budget: &SliceBudget,
    maybe_yield: &mut dyn FnMut(),
) -> Result<bool> {
    let in_phase = |phase| catalog.sort_orders.iter().find(|order| order.row.phase == phase).cloned();
    if let Some(order) = in_phase(Phase::Clearing) {
        if !rows_of(order.number).clear(batch, budget.rows_max)? {
            let is_wanted = catalog.settings.general.sort_orders.contains(&order.row.text);
            let rebuilt = SortOrderRow::of(&order.row.text, first_phase(batch)?);
            put_row(batch, order.number, is_wanted.then_some(&rebuilt))?;
            renew(batch, catalog)?;
        }
        return Ok(true);
    }
    let Some(order) = in_phase(Phase::Building) else { return Ok(false) };
    let (keys, last) = keys_after(batch, catalog, &order, budget, maybe_yield)?;
    let rows = rows_of(order.number);
    for (count, key) in keys.iter().enumerate() {
        rows.insert(batch, key)?;
        if count.is_multiple_of(YIELD_INTERVAL) {
            maybe_yield();
        }
    }
    let row = match last {
        Some(built_to) => SortOrderRow { built_to, ..order.row },
        None => SortOrderRow::of(&order.row.text, Phase::Complete),
    };
    put_row(batch, order.number, Some(&row))?;
    match row.phase {
        Phase::Building => load(batch, catalog)?,
        _ => renew(batch, catalog)?,
    }
    Ok(true)
}

/// Returns the sorted keys of the next entries in an order that is being built. Also returns the last of these entries;
/// `None` if no entries follow.
fn keys_after(
    read: &Read,
    catalog: &Catalog,
    order: &SortOrder,
    budget: &SliceBudget,
    maybe_yield: &mut dyn FnMut(),
) -> Result<(Vec<Vec<u8>>, Option<u64>)> {
    let (mut keys, mut last) = (Vec::new(), None);
    let Some(rule) = order.maintained() else { return Ok((keys, last)) };
    let state = TreeState::stored(read, catalog, &NO_SETTINGS);
    let (ready, mut buffers) = (ReadyOrder::of(state, rule)?, KeyBuffers::default());
    let low = order.row.built_to.to_be_bytes();
    let range = (Bound::Excluded(&low[..]), Bound::Unbounded);
    for (count, row) in read.scan(ENTRIES, range, Direction::Forward).enumerate() {
        // The limit is checked after the next row is found, so that an entry certainly follows a slice that ends here.
        if count == budget.entries_max {
            keys.sort_unstable();
            return Ok((keys, last));
        }
        let id = key_id(row?.0)?;
        keys.extend(ready.key(state, id, &mut buffers)?);
        last = Some(id.0);
        if count.is_multiple_of(YIELD_INTERVAL) {
            maybe_yield();
        }
    }
    keys.sort_unstable();
    Ok((keys, None))
}
