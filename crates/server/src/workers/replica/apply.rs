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

    /// Applies records that have arrived, up to the size of one commit or up to a mark. Returns false if no records
    /// have arrived, or if applying must wait because it failed before.
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
        let mut groups = blocks.chunk_by(|one, next| one.reading == next.reading);
        let applied = groups.try_for_each(|group| self.apply(writer, group));
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

    /// Applies records of one connection in one commit. A lineage with a further epoch is stored even without records.
    fn apply(&mut self, writer: &mut Writer, blocks: &[Block]) -> Result<(), OperationError> {
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return Ok(()) };
        self.note_connection();
        let records = || blocks.iter().flat_map(|block| block.records.iter().map(Vec::as_slice));
        let count = records().count() as u64;
        let Some(progress) = self.progress.after(last.reading, first.first, count, &last.lineage) else {
            // Records of an earlier connection were applied after this one had begun.
            self.read_again(last.reading);
            return Ok(());
        };
        let is_changed = progress.lineage() != self.progress.lineage();
        let changed = is_changed.then(|| progress.lineage().encode());
        if count > 0 || is_changed {
            let made_at = writer.apply_records(first.first, records(), changed.as_deref())?;
            self.queue.committed();
            let mut figures = self.parts.figures.lock();
            figures.records += count;
            if count > 0 {
                figures.delay_micros = now_micros().saturating_sub(made_at);
            }
            figures.epoch = progress.lineage().number();
            figures.apply_error = None;
        }
        self.progress = progress;
        self.note_progress(last);
        self.answer_decided();
        Ok(())
    }

    /// Records the beginning or the end of the connection that reads records. The outcome of changes that were
    /// forwarded before becomes unknown.
    pub(super) fn note_connection(&mut self) {
        let reading = self.fetcher.reading();
        if reading == self.reading {
            return;
        }
        self.reading = reading;
        match reading {
            0 => self.progress.disconnected(),
            connection => self.progress.connected(connection),
        }
        self.answer_decided();
    }

    /// Ignores the records of the connection `reading`. Reading begins again after the last commit.
    fn read_again(&mut self, reading: u64) {
        self.unwanted = reading;
        self.fetcher.read_again(reading);
    }

    fn note_progress(&mut self, last: &Block) {
        let mut figures = self.parts.figures.lock();
        let position = self.progress.position();
        figures.position = position;
        figures.newest = figures.newest.max(last.newest);
        if position >= last.newest {
            figures.complete = figures.complete.max(last.requested);
            if let Some(age) = &self.parts.read_age {
                age.is_complete_as_of(last.requested);
            }
        }
    }

    /// Handles records that could not be applied. After a delay, reading begins again after the last commit.
    fn not_applied(&mut self, reading: u64, error: &OperationError) {
        self.read_again(reading);
        self.apply_after = Some(Instant::now() + APPLY_RETRY);
        let text = error.to_string();
        let mut figures = self.parts.figures.lock();
        if figures.apply_error.as_deref() != Some(&text) {
            tracing::error!("records of the supplier cannot be applied; it is tried again: {text}");
            figures.apply_error = Some(text);
        }
    }
}
