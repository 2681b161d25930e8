//! Slices of work on index rows, for attribute indexes and sort orders.

use store::Batch;

use crate::model::index_definition::Phase;
use crate::model::limits::{INDEX_SLICE_ENTRIES_MAX, INDEX_SLICE_ROWS_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::{EntryId, NODES};

type Result<T> = std::result::Result<T, OperationError>;

/// Limits of a slice.
#[derive(Clone, Copy, Debug)]
pub struct SliceBudget {
    /// Maximum number of entries whose rows are built.
    pub entries_max: usize,
    /// Maximum number of rows built or removed. The rows of the last entry may exceed this number.
    pub rows_max: usize,
}

impl Default for SliceBudget {
    fn default() -> SliceBudget {
        SliceBudget { entries_max: INDEX_SLICE_ENTRIES_MAX, rows_max: INDEX_SLICE_ROWS_MAX }
    }
}

/// Returns the first phase of a new index. Without entries, the index is complete at once.
pub(crate) fn first_phase(batch: &Batch<'_>) -> Result<Phase> {
    Ok(if batch.row_count(NODES)? == 0 { Phase::Complete } else { Phase::Building })
}

/// Returns the entry id in a key of `entries`.
pub(crate) fn key_id(key: &[u8]) -> Result<EntryId> {
    let id = key.try_into().map(u64::from_be_bytes).map(EntryId);
    id.map_err(|_| OperationError::Damaged("key of entries".to_owned()))
}
