//! Collection of a group's records.

use crate::limits::{GROUP_RECORDS_MAX, MESSAGE_BYTES_MAX};
use crate::message::{GROUP_SIZE_MIN, put_record, record_size};
use crate::operation::OperationId;

/// Records of a batch that is being decided. A batch is one group: it ends before the first record that does not fit.
#[derive(Clone, Debug)]
pub struct GroupBuilder {
    records: Vec<u8>,
    count: u32,
    records_max: usize,
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
    /// The records fit into no group, because a group has at most `max` of them.
    TooMany {
        /// Maximum number of records in a group.
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
            records_max: GROUP_RECORDS_MAX,
            message_bytes_max: message_bytes_max.min(MESSAGE_BYTES_MAX),
        }
    }

    /// Lowers the maximum number of records.
    pub fn with_records_max(self, records_max: usize) -> GroupBuilder {
        GroupBuilder { records_max: records_max.min(self.records_max), ..self }
    }

    /// Checks whether a record of `length` bytes fits. The caller checks this before it applies the record to the
    /// batch.
    pub fn fits(&self, length: usize) -> Fit {
        self.fits_all(1, record_size(length))
    }

    /// Checks whether `count` records fit that take `length` bytes in total, including the head of each: see
    /// [`record_size`].
    pub fn fits_all(&self, count: usize, length: usize) -> Fit {
        let (size, max) = (GROUP_SIZE_MIN + length, self.message_bytes_max);
        if size > max {
            return Fit::Never { size, max };
        }
        if count > self.records_max {
            return Fit::TooMany { max: self.records_max };
        }
        let is_full = self.records.len() + size > max || count > self.records_left();
        if is_full { Fit::Next } else { Fit::Yes }
    }

    /// Returns the maximum total length of `count` records that still fit, or `None` if none do.
    pub fn room(&self, count: usize) -> Option<usize> {
        let used = GROUP_SIZE_MIN + self.records.len() + count * record_size(0);
        self.message_bytes_max.checked_sub(used).filter(|_| count <= self.records_left())
    }

    /// Returns how many more records the group can contain.
    pub fn records_left(&self) -> usize {
        self.records_max.saturating_sub(self.record_count())
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
    use std::borrow::Cow;

    use super::*;
    use crate::message::Records;
    use crate::operation::NodeId;

    #[test]
    fn records_fit_up_to_the_size_of_a_message() {
        let operation = OperationId { node: NodeId(1), incarnation: 1, sequence: 1 };
        let max = GROUP_SIZE_MIN + 2 * record_size(100);
        let mut group = GroupBuilder::new(max);
        assert_eq!(group.fits(record_size(200)), Fit::Yes);
        let overhead = record_size(0);
        assert_eq!((group.room(1), group.room(2)), (Some(200 + overhead), Some(200)));
        assert_eq!(group.fits_all(2, 2 * record_size(100)), Fit::Yes);
        let size = max + 1;
        assert_eq!(group.fits_all(2, record_size(100) + record_size(101)), Fit::Never { size, max });
        assert_eq!(group.fits(100 + record_size(100) + 1), Fit::Never { size, max });
        group.push(&operation, &[0; 100]);
        assert_eq!((group.fits(100), group.fits(101), group.room(1)), (Fit::Yes, Fit::Next, Some(100)));
        let both = 100 - overhead;
        assert_eq!(group.room(2), Some(both));
        let size = 2 * overhead + both;
        assert_eq!((group.fits_all(2, size), group.fits_all(2, size + 1)), (Fit::Yes, Fit::Next));
        group.push(&operation, &[0; 100]);
        assert_eq!(group.room(1), None);
        assert_eq!((group.fits(0), group.record_count()), (Fit::Next, 2));
    }

    #[test]
    fn a_group_is_cut_at_the_number_of_records_that_nodes_read() {
        let operation = OperationId { node: NodeId(1), incarnation: 1, sequence: 1 };
        let (mut group, max) = (GroupBuilder::new(usize::MAX), GROUP_RECORDS_MAX);
        let fits = |group: &GroupBuilder, count: usize| group.fits_all(count, count * record_size(0));
        assert_eq!((fits(&group, max), fits(&group, max + 1)), (Fit::Yes, Fit::TooMany { max }));
        (1..max).for_each(|_| group.push(&operation, b""));
        assert_eq!((group.records_left(), fits(&group, 1), fits(&group, 2)), (1, Fit::Yes, Fit::Next));
        assert!(group.room(1).is_some() && group.room(2).is_none());
        group.push(&operation, b"");
        assert_eq!((group.records_left(), group.fits(0), group.room(1)), (0, Fit::Next, None));
        let (count, bytes) = group.into_parts();
        let read =
            |count| Records::decode(count, Cow::Borrowed(&bytes[..])).map(|records| records.iter().count());
        assert_eq!(read(count), Some(max));
        // These bytes contain one more record than a group may have.
        let more = [&bytes[..], &bytes[..record_size(0)]].concat();
        assert!(Records::decode(count + 1, Cow::Borrowed(&more[..])).is_none());
    }
}
