//! Blocks of records that were read and encoded for one replica. They are reused for other replicas at the same
//! position.

use std::collections::VecDeque;
use std::sync::Arc;

use directory::{OperationError, Snapshot};
use ldap::LogRecords;

use crate::limits::LOG_BLOCKS_BYTES;
use crate::net::mailbox::SharedValue;

/// Range of records for an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordRange {
    /// Position of the first record. The log must contain it.
    pub(super) first: u64,
    /// Position of the last record that may be included.
    pub(super) up_to: u64,
    /// Approximate maximum size in octets. The first record is included even if it is larger.
    pub(super) bytes_max: usize,
}

/// Fields of an answer in addition to its records.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Frame {
    /// Position of the last record of the log.
    pub(super) newest: u64,
    pub(super) lineage: Vec<u8>,
    pub(super) notice: Vec<u8>,
}

/// Consecutive encoded records, which were read for `wanted`.
struct Block {
    wanted: RecordRange,
    /// Whether the block ends at `up_to`. If not, it ends earlier because it is full.
    ends_there: bool,
    records: LogRecords,
    /// The last answer that was encoded with these records.
    answer: Option<(Frame, SharedValue)>,
}

impl Block {
    fn bytes(&self) -> usize {
        self.records.bytes() + self.answer.as_ref().map_or(0, |(_, answer)| answer.len())
    }

    fn serves(&self, wanted: &RecordRange) -> bool {
        let RecordRange { first, up_to, bytes_max } = self.wanted;
        (first, bytes_max) == (wanted.first, wanted.bytes_max)
            && if self.ends_there { up_to == wanted.up_to } else { up_to <= wanted.up_to }
    }

    fn read(snapshot: &Snapshot, wanted: RecordRange) -> Result<Block, OperationError> {
        let mut block = Block { wanted, ends_there: true, records: LogRecords::default(), answer: None };
        for record in snapshot.log_records(wanted.first) {
            let (position, bytes) = record?;
            if position > wanted.up_to {
                break;
            }
            block.records.push(bytes);
            if block.records.bytes() >= wanted.bytes_max {
                block.ends_there = position == wanted.up_to;
                break;
            }
        }
        Ok(block)
    }

    /// Returns the answer with these records. Consecutive equal answers are encoded once.
    fn answer(&mut self, frame: Frame) -> SharedValue {
        if let Some((of, answer)) = &self.answer
            && *of == frame
        {
            return Arc::clone(answer);
        }
        let Frame { newest, lineage, notice } = &frame;
        let answer = Arc::new(self.records.answer(*newest, lineage, self.wanted.first, notice));
        self.answer = Some((frame, Arc::clone(&answer)));
        answer
    }
}

/// The blocks that were read most recently.
#[derive(Default)]
pub(super) struct Blocks(VecDeque<Block>);

impl Blocks {
    /// Returns the value of an answer with the records in `wanted`.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn answer(
        &mut self,
        snapshot: &Snapshot,
        wanted: RecordRange,
        frame: Frame,
    ) -> Result<SharedValue, OperationError> {
        if let Some(block) = self.0.iter_mut().find(|block| block.serves(&wanted)) {
            return Ok(block.answer(frame));
        }
        let mut block = Block::read(snapshot, wanted)?;
        let answer = block.answer(frame);
        let mut bytes = self.0.iter().map(Block::bytes).sum::<usize>() + block.bytes();
        while bytes > LOG_BLOCKS_BYTES
            && let Some(oldest) = self.0.pop_front()
        {
            bytes -= oldest.bytes();
        }
        self.0.push_back(block);
        Ok(answer)
    }
}
