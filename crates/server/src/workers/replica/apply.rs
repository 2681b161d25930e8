//! Applying the supplier's records.

use std::sync::mpsc::TryRecvError;
use std::time::Instant;

use directory::{OperationError, Writer};

use super::Replica;
use super::fetch::Block;
use crate::limits::{APPLY_BYTES_MAX, APPLY_RETRY};
use crate::stamp::now_micros;

impl Replica {
    /// Returns true if records that have arrived can be applied now.
    pub(super) fn has_block(&self) -> bool {
        self.has_more_blocks && self.apply_after.is_none_or(|after| after <= Instant::now())
    }

    /// Applies records that have arrived, as many as fit into one commit. Returns true if any records had arrived.
    pub(super) fn apply_blocks(&mut self, writer: &mut Writer) -> bool {
        if self.apply_after.is_some_and(|after| after > Instant::now()) {
            return false;
        }
        let (mut blocks, mut bytes, mut mark) = (Vec::new(), 0, None);
        self.has_more_blocks = false;
        // The commit ends at a mark, because digests are computed from the data after the commit.
        while bytes < APPLY_BYTES_MAX && mark.is_none() {
            match self.blocks.try_recv() {
                Ok(block) if block.reading <= self.unwanted => {}
                Ok(mut block) => {
                    bytes += block.records.iter().map(Vec::len).sum::<usize>();
                    mark = block.mark.take();
                    blocks.push(block);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
            self.fetcher.has_room();
        }
        self.has_more_blocks = bytes >= APPLY_BYTES_MAX || mark.is_some();
        let Some(last) = blocks.last() else { return false };
        let reading = last.reading;
        // After a reconnection, records begin again at an earlier position.
        let first = blocks.iter().position(|block| block.reading == reading).unwrap_or(0);
        let (older, newer) = blocks.split_at(first);
        let applied = self.apply(writer, older).and_then(|()| self.apply(writer, newer));
        match applied {
            Ok(()) => {
                self.apply_after = None;
                if let Some(mark) = mark {
                    self.compare(mark);
                }
            }
            Err(error) => self.not_applied(reading, &error),
        }
        true
    }

    /// Applies records of one connection in one commit.
    fn apply(&mut self, writer: &mut Writer, blocks: &[Block]) -> Result<(), OperationError> {
        let Some(last) = blocks.last() else { return Ok(()) };
        let Some(first) = blocks.iter().find(|block| !block.records.is_empty()) else {
            self.note_progress(last);
            return Ok(());
        };
        let records = || blocks.iter().flat_map(|block| block.records.iter().map(Vec::as_slice));
        let count = records().count() as u64;
        let position = (first.first + count).saturating_sub(1).max(self.position);
        let lineage = last.lineage.up_to(position);
        let changed = (lineage != self.lineage).then(|| lineage.encode());
        let made_at = writer.apply_records(first.first, records(), changed.as_deref())?;
        self.queue.committed();
        self.lineage = lineage;
        let applied = position - self.position;
        self.position = position;
        {
            let mut figures = self.parts.figures.lock();
            figures.records += applied;
            figures.delay_micros = now_micros().saturating_sub(made_at);
            figures.epoch = self.lineage.number();
            figures.apply_error = None;
        }
        self.note_progress(last);
        self.answer_decided();
        Ok(())
    }

    fn note_progress(&mut self, last: &Block) {
        let mut figures = self.parts.figures.lock();
        figures.position = self.position;
        figures.newest = figures.newest.max(last.newest);
        if self.position >= last.newest {
            figures.complete = figures.complete.max(last.requested);
            if let Some(age) = &self.parts.read_age {
                age.is_complete_as_of(last.requested);
            }
        }
    }

    /// Handles records that could not be applied. After a delay, reading begins again after the last commit.
    fn not_applied(&mut self, reading: u64, error: &OperationError) {
        self.unwanted = reading;
        self.fetcher.read_again(reading);
        self.apply_after = Some(Instant::now() + APPLY_RETRY);
        let text = error.to_string();
        let mut figures = self.parts.figures.lock();
        if figures.apply_error.as_deref() != Some(&text) {
            tracing::error!("records of the supplier cannot be applied; it is tried again: {text}");
            figures.apply_error = Some(text);
        }
    }
}
