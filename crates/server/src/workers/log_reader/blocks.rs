//! Blocks of records that were read for one replica and serve others at the same position.

use std::sync::Arc;

use directory::{OperationError, Snapshot};
use ldap::LogRecords;

use crate::limits::LOG_BLOCKS_KEPT;

/// A run of encoded records.
struct Block {
    /// Position of the first record, and the limit in bytes that it was read with.
    first: u64,
    bytes_max: usize,
    /// Newest position at the time, if the block ends there.
    ends_at_newest: Option<u64>,
    records: Arc<LogRecords>,
}

/// The blocks that were read last.
#[derive(Default)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    /// Returns records from the position `first` on, about `bytes_max` bytes of them and at least one. There is one:
    /// `newest` is the position of the last.
    pub(super) fn read(
        &mut self,
        snapshot: &Snapshot,
        first: u64,
        newest: u64,
        bytes_max: usize,
    ) -> Result<Arc<LogRecords>, OperationError> {
        let fits = |block: &Block| {
            block.first == first
                && block.bytes_max == bytes_max
                && block.ends_at_newest.is_none_or(|newest_then| newest_then == newest)
        };
        if let Some(found) = self.0.iter().find(|block| fits(block)) {
            return Ok(Arc::clone(&found.records));
        }
        let (mut records, mut last) = (LogRecords::default(), first);
        for record in snapshot.log_records(first) {
            let (position, bytes) = record?;
            records.push(bytes);
            last = position;
            if records.bytes() >= bytes_max {
                break;
            }
        }
        let records = Arc::new(records);
        if self.0.len() >= LOG_BLOCKS_KEPT {
            self.0.remove(0);
        }
        let ends_at_newest = (last == newest).then_some(newest);
        self.0.push(Block { first, bytes_max, ends_at_newest, records: Arc::clone(&records) });
        Ok(records)
    }
}
