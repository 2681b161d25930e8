//! Limits of the records of a batch, for shared logs that limit the size and the number of records in a group.

/// Room that records take in a group of a shared log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRoom {
    /// Total bytes of the records, including the bytes that the group adds to each record.
    pub bytes: usize,
    /// Number of records.
    pub count: usize,
}

impl RecordRoom {
    /// Returns room of this many bytes for any number of records.
    pub const fn of_bytes(bytes: usize) -> RecordRoom {
        RecordRoom { bytes, count: usize::MAX }
    }

    fn checked_sub(self, other: RecordRoom) -> Option<RecordRoom> {
        let (bytes, count) = (self.bytes.checked_sub(other.bytes)?, self.count.checked_sub(other.count)?);
        Some(RecordRoom { bytes, count })
    }

    fn saturating_add(self, other: RecordRoom) -> RecordRoom {
        let (bytes, count) = (self.bytes.saturating_add(other.bytes), self.count.saturating_add(other.count));
        RecordRoom { bytes, count }
    }
}

/// Room that is left for further records, and the room that the last rejected change needs.
#[derive(Debug)]
pub(super) struct RecordLimit {
    pub(super) left: RecordRoom,
    /// Bytes that the group adds to each record.
    overhead: usize,
    /// Room that the last rejected change needs for its records, up to the first record that did not fit.
    pub(super) rejected: Option<RecordRoom>,
}

impl RecordLimit {
    pub(super) fn new(left: RecordRoom, overhead: usize) -> RecordLimit {
        RecordLimit { left, overhead, rejected: None }
    }

    /// Takes room for a record of `length` bytes. Returns false if the record does not fit.
    pub(super) fn take(&mut self, length: usize) -> bool {
        let needed = RecordRoom { bytes: length.saturating_add(self.overhead), count: 1 };
        match self.left.checked_sub(needed) {
            Some(left) => self.left = left,
            None => {
                self.rejected = Some(needed);
                return false;
            }
        }
        true
    }

    /// Adds the room that records took since `left` to the room of the record that did not fit. The sum is the room
    /// that the whole transaction needs.
    pub(super) fn reject_since(&mut self, left: RecordRoom) {
        if let (Some(rejected), Some(before)) = (self.rejected, left.checked_sub(self.left)) {
            self.rejected = Some(rejected.saturating_add(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_limited_in_bytes_and_number() {
        let room = |bytes, count| RecordRoom { bytes, count };
        let mut limit = RecordLimit::new(room(100, 3), 10);
        assert!(limit.take(40) && limit.take(0));
        assert_eq!((limit.left, limit.rejected), (room(40, 1), None));
        // The record is too long, because of the overhead.
        assert!(!limit.take(31));
        assert_eq!((limit.left, limit.rejected), (room(40, 1), Some(room(41, 1))));
        limit.reject_since(room(90, 2));
        assert_eq!(limit.rejected, Some(room(91, 2)));
        // There are too many records.
        let mut limit = RecordLimit::new(room(40, 1), 10);
        assert!(limit.take(5) && !limit.take(5));
        limit.reject_since(room(40, 1));
        assert_eq!((limit.left, limit.rejected), (room(25, 0), Some(room(30, 2))));
    }
}
