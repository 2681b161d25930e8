//! Collection of a group's records.

use crate::limits::{GROUP_RECORDS_MAX, MESSAGE_BYTES_MAX};
use crate::message::{GROUP_SIZE_MIN, put_record, record_size};
use crate::operation::OperationId;

/// Records of a batch that is being decided. A batch is one group: it ends before the first record that does not fit.
#[derive(Clone, Debug)]
pub struct GroupBuilder {
    records: Vec<u8>,
    count: u32,
    message_bytes_max: usize,
}

/// Result of checking whether a record fits into a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The record fits.
    Yes,
    /// The record fits only into the next group.
    Next,
    /// The record fits into no group: its message would have `size` bytes, and `max` are allowed.
    Never {
        /// Size of a message with this record alone.
        size: usize,
        /// Maximum size of a message, in bytes.
        max: usize,
    },
}

impl GroupBuilder {
    /// Returns an empty group whose message has at most `message_bytes_max` bytes: the topic's `max.message.bytes`,
    /// less the bytes that the log adds to a message.
    pub fn new(message_bytes_max: usize) -> GroupBuilder {
        GroupBuilder {
            records: Vec::new(),
            count: 0,
            message_bytes_max: message_bytes_max.min(MESSAGE_BYTES_MAX),
        }
    }

    /// Checks whether a record of `length` bytes fits. The caller checks this before it applies the record to the
    /// batch.
    pub fn fits(&self, length: usize) -> Fit {
        self.fits_all(1, length)
    }

    /// Does the same as [`fits`](GroupBuilder::fits) for `count` records of `length` bytes in total.
    pub fn fits_all(&self, count: usize, length: usize) -> Fit {
        let (size, max) = (GROUP_SIZE_MIN + length + count * record_size(0), self.message_bytes_max);
        if size > max {
            return Fit::Never { size, max };
        }
        let is_full = self.records.len() + size > max || self.record_count() + count > GROUP_RECORDS_MAX;
        if is_full { Fit::Next } else { Fit::Yes }
    }

    /// Returns the maximum total length of `count` records that still fit, or `None` if none do.
    pub fn room(&self, count: usize) -> Option<usize> {
        let used = GROUP_SIZE_MIN + self.records.len() + count * record_size(0);
        let has_place = self.record_count() + count <= GROUP_RECORDS_MAX;
        self.message_bytes_max.checked_sub(used).filter(|_| has_place)
    }

    /// Adds a record, which must fit.
    ///
    /// # Panics
    /// The record does not fit.
    pub fn push(&mut self, operation: &OperationId, bytes: &[u8]) {
        assert_eq!(self.fits(bytes.len()), Fit::Yes, "a record of {} bytes", bytes.len());
        put_record(&mut self.records, operation, bytes);
        self.count += 1;
    }

    /// Returns the number of records.
    pub fn record_count(&self) -> usize {
        self.count as usize
    }

    pub(crate) fn into_parts(self) -> (u32, Vec<u8>) {
        (self.count, self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::NodeId;

    #[test]
    fn records_fit_up_to_the_size_of_a_message() {
        let operation = OperationId { node: NodeId(1), incarnation: 1, sequence: 1 };
        let max = GROUP_SIZE_MIN + 2 * record_size(100);
        let mut group = GroupBuilder::new(max);
        assert_eq!(group.fits(record_size(200)), Fit::Yes);
        let overhead = record_size(0);
        assert_eq!((group.room(1), group.room(2)), (Some(200 + overhead), Some(200)));
        assert_eq!(group.fits_all(2, 200), Fit::Yes);
        let size = max + 1;
        assert_eq!(group.fits_all(2, 201), Fit::Never { size, max });
        assert_eq!(group.fits(100 + record_size(100) + 1), Fit::Never { size, max });
        group.push(&operation, &[0; 100]);
        assert_eq!((group.fits(100), group.fits(101), group.room(1)), (Fit::Yes, Fit::Next, Some(100)));
        let both = 100 - overhead;
        assert_eq!(group.room(2), Some(both));
        assert_eq!((group.fits_all(2, both), group.fits_all(2, both + 1)), (Fit::Yes, Fit::Next));
        group.push(&operation, &[0; 100]);
        assert_eq!(group.room(1), None);
        assert_eq!((group.fits(0), group.record_count()), (Fit::Next, 2));
    }
}
