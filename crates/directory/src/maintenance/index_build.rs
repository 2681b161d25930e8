//! Builds the indexes of a directory that no server has open, in one pass over the entries.
//!
//! A running server builds rows in short slices ([`crate::index::maintenance`]). Each slice changes pages all over the
//! index. This module sorts the rows of all entries in bounded memory, as an import does, and writes them to the data
//! file in page order. The module then marks the index as complete. If the process ends earlier, the index stays
//! incomplete, and a server or the next command completes it. Rows that were already written do no harm.

use std::ops::Bound;
use std::path::Path;

use store::{Direction, SetInserter};

use super::import::{Destination, IdMerger, Rows, SortedRows, destination};
use crate::database::Writer;
use crate::index::maintenance::{self, IndexProgress, IndexWork, SliceBudget};
use crate::model::outcome::OperationError;
use crate::model::rows::ENTRIES;
use crate::snapshot::Snapshot;

type Result<T> = std::result::Result<T, OperationError>;

/// Number of entries between two progress reports.
const ENTRIES_PER_REPORT: usize = 100_000;
/// Number of entries whose sort keys are written in one slice.
const ENTRIES_PER_SLICE: usize = 20_000;
/// Approximate number of ids collected before they are written.
const IDS_MAX: usize = 4_096;

/// Completes all index work of a directory: removes rows of dropped indexes, builds missing rows, and builds sort
/// orders. Sorting uses up to `memory_bytes` of memory, then a temporary file in `folder`, the data directory. Calls
/// `report` from time to time.
///
/// # Errors
/// The disk is nearly full or failed, or rows contradict each other. Rows written before the error do no harm.
pub fn build_indexes(
    writer: &mut Writer,
    folder: &Path,
    memory_bytes: usize,
    mut report: impl FnMut(&IndexProgress),
) -> Result<()> {
    let mut snapshot = writer.directory().snapshot()?;
    while maintenance::is_clearing(snapshot.state().catalog) {
        drop(snapshot);
        writer.run_maintenance_slice(&SliceBudget::default(), &mut || ())?;
        snapshot = writer.directory().snapshot()?;
    }
    let work = maintenance::work(snapshot.state().read, snapshot.state().catalog)?;
    if work.is_empty() {
        drop(snapshot);
        return build_orders(writer, &mut report);
    }
    let rows = rows(&snapshot, &work, folder, memory_bytes, &mut report)?;
    drop(snapshot);
    let mut inserter = writer.insert_sets()?;
    insert(SortedRows::merge(vec![rows])?, &mut inserter)?;
    inserter.finish()?;
    writer.complete_indexes(&work)?;
    build_orders(writer, &mut report)
}

/// Builds the sort orders, in larger slices than a server.
fn build_orders(writer: &mut Writer, report: &mut dyn FnMut(&IndexProgress)) -> Result<()> {
    let budget = SliceBudget { entries_max: ENTRIES_PER_SLICE, ..SliceBudget::default() };
    while writer.maintenance_pending() {
        writer.index_progress()?.iter().for_each(&mut *report);
        writer.run_maintenance_slice(&budget, &mut || ())?;
    }
    Ok(())
}

/// Computes the index rows of all entries.
fn rows(
    snapshot: &Snapshot,
    work: &IndexWork,
    folder: &Path,
    memory_bytes: usize,
    report: &mut dyn FnMut(&IndexProgress),
) -> Result<Rows> {
    let state = snapshot.state();
    let mut rows = Rows::new(folder, memory_bytes);
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut of_entry = Vec::new();
    for (count, row) in state.read.scan(ENTRIES, all, Direction::Forward).enumerate() {
        let (key, bytes) = row?;
        let id = maintenance::entry_rows(state.read, state.catalog, work, key, bytes, &mut of_entry)?;
        for (part, key) in of_entry.drain(..) {
            rows.id(part.map(), &key, id)?;
        }
        if (count + 1).is_multiple_of(ENTRIES_PER_REPORT) {
            let progress = maintenance::progress(state.read, state.catalog)?;
            progress.into_iter().for_each(|progress| report(&IndexProgress { built_to: id.0, ..progress }));
        }
    }
    Ok(rows)
}

fn insert(mut rows: SortedRows, inserter: &mut SetInserter<'_>) -> Result<()> {
    let damaged = || OperationError::Damaged("sorted rows".to_owned());
    let mut at = None;
    let mut ids = IdMerger::default();
    while let Some(block) = rows.next_block()? {
        for (row_key, value) in block.rows() {
            let (Destination::Map(map), key) = destination(row_key).ok_or_else(damaged)? else {
                return Err(damaged());
            };
            let is_same =
                at.as_ref().is_some_and(|(last_map, last): &(_, Vec<u8>)| *last_map == map && last == key);
            if !is_same {
                if let Some((map, key)) = at.take() {
                    inserter.insert(map, &key, ids.all())?;
                }
                ids.clear();
                at = Some((map, key.to_vec()));
            }
            ids.take(value, |_| false).ok_or_else(damaged)?;
            if ids.settled().len() > IDS_MAX {
                inserter.insert(map, key, ids.settled())?;
                ids.drop_settled();
            }
        }
    }
    match at {
        Some((map, key)) => Ok(inserter.insert(map, &key, ids.all())?),
        None => Ok(()),
    }
}
