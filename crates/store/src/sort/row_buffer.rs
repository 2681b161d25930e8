//! [`RowBuffer`]: the rows of a [`Sorter`](crate::Sorter) that are in memory, and their sorting.
//!
//! Rows are stored in the order of arrival; an index with 16 bytes per row is sorted. Sorting seldom reads the rows
//! themselves. Each index row contains the next seven bytes of its row and the number of these bytes, packed into one
//! integer that compares like the bytes. Rows for which this integer is equal are sorted again by the following seven
//! bytes. So a long common prefix, as in the keys of an index, costs one pass and no comparison of bytes.
//!
//! ```text
//!   rows    | value length (4) | key | value | value length (4) | key | value | ...
//!   index   | seven bytes and their number (8) | offset (4) | key length (4) | ...
//! ```

#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "offsets and lengths are those that push has written"
)]

use std::cmp::Ordering;

/// Memory of a row in addition to its bytes: its index row and the length of its value.
pub(crate) const ROW_COST: usize = size_of::<IndexRow>() + VALUE_LEN_LEN;
const VALUE_LEN_LEN: usize = size_of::<u32>();
/// Maximum memory of rows: their offsets have 4 bytes.
const MEMORY_BYTES_MAX: usize = u32::MAX as usize;
/// Maximum number of rows with equal heads that are compared byte by byte.
const FEW: usize = 12;
/// Number of leading bytes of a key or value that are sorted seven bytes at a time. Rows that are equal in these bytes
/// are compared byte by byte.
const DEPTH_MAX: usize = 20 * HEAD_LEN;
const HEAD_LEN: usize = 7;
/// Value of a head's last byte if more bytes follow. Otherwise that byte is the number of bytes in the head.
const MORE: u8 = 8;

#[derive(Debug, Clone, Copy)]
struct IndexRow {
    head: u64,
    offset: u32,
    key_len: u32,
}

/// Rows in memory, up to a limit in bytes.
pub(crate) struct RowBuffer {
    rows: Vec<u8>,
    index: Vec<IndexRow>,
    /// Number of rows at the beginning that are sorted. Rows added after a sort are not counted.
    sorted_count: usize,
    memory_bytes: usize,
    /// Highest number of bytes that `rows` and, in the next field, `index` have held so far. The system has allocated
    /// memory for that many.
    rows_touched: usize,
    index_touched: usize,
}

impl RowBuffer {
    pub(crate) fn new(memory_bytes: usize) -> RowBuffer {
        let memory_bytes = memory_bytes.min(MEMORY_BYTES_MAX);
        RowBuffer {
            rows: Vec::new(),
            index: Vec::new(),
            sorted_count: 0,
            memory_bytes,
            rows_touched: 0,
            index_touched: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns true if there is room for the row. A single row always has room.
    pub(crate) fn has_room(&self, key: &[u8], value: &[u8]) -> bool {
        let used = self.rows.len() + self.index.len() * size_of::<IndexRow>();
        self.index.is_empty() || used + ROW_COST + key.len() + value.len() <= self.memory_bytes
    }

    /// Adds a row. Returns false if its key or value has 4 GiB or more.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        if self.rows.capacity() == 0 {
            self.allocate();
        }
        let lengths = (u32::try_from(self.rows.len()), u32::try_from(key.len()), u32::try_from(value.len()));
        let (Ok(offset), Ok(key_len), Ok(value_len)) = lengths else { return false };
        self.rows.extend_from_slice(&value_len.to_le_bytes());
        self.rows.extend_from_slice(key);
        self.rows.extend_from_slice(value);
        self.index.push(IndexRow { head: head_of(key), offset, key_len });
        true
    }

    pub(crate) fn sort(&mut self) {
        if self.sorted_count == self.index.len() {
            return;
        }
        // The previous sort may have left later bytes in the heads of the sorted rows. Reset each head to the first
        // bytes of its row.
        for row in &mut self.index[..self.sorted_count] {
            row.head = head_of(row.key(&self.rows));
        }
        self.sorted_count = self.index.len();
        sort_by_heads(&mut self.index, &self.rows, Part::Key, 0);
    }

    /// Returns a row by its rank, after [`sort`](RowBuffer::sort).
    pub(crate) fn row(&self, place: usize) -> Option<(&[u8], &[u8])> {
        self.index.get(place).map(|row| (row.key(&self.rows), row.value(&self.rows)))
    }

    /// Removes all rows. Frees the memory if the next rows could otherwise exceed the limit because the ratio of `rows`
    /// to `index` differs.
    pub(crate) fn clear(&mut self) {
        self.rows_touched = self.rows_touched.max(self.rows.len());
        self.index_touched = self.index_touched.max(self.index.len() * size_of::<IndexRow>());
        self.rows.clear();
        self.index.clear();
        self.sorted_count = 0;
        if self.rows_touched + self.index_touched > self.memory_bytes + self.memory_bytes / 8 {
            self.free();
        }
    }

    pub(crate) fn free(&mut self) {
        *self = RowBuffer::new(self.memory_bytes);
    }

    /// Reserves address space for rows of any length, so that rows never move. Only pages that are written to occupy
    /// memory, and their number is limited.
    fn allocate(&mut self) {
        self.rows.reserve_exact(self.memory_bytes);
        self.index.reserve_exact(self.memory_bytes / ROW_COST + 1);
    }
}

/// Packs up to seven bytes at the beginning of `bytes` into an integer that compares like the bytes: zeroes replace
/// missing bytes, and the last byte is the number of bytes. If there are more bytes, the last byte is [`MORE`].
#[inline]
pub(crate) fn head_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk) & !0xff | u64::from(MORE),
        None => {
            let mut head = [0; 8];
            head[..bytes.len()].copy_from_slice(bytes);
            head[HEAD_LEN] = bytes.len() as u8;
            u64::from_be_bytes(head)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Key,
    Value,
}

impl IndexRow {
    #[inline]
    fn key(self, rows: &[u8]) -> &[u8] {
        let start = self.offset as usize + VALUE_LEN_LEN;
        &rows[start..start + self.key_len as usize]
    }

    #[inline]
    fn value(self, rows: &[u8]) -> &[u8] {
        let rest = &rows[self.offset as usize..];
        let (length, rest) = rest.split_first_chunk::<VALUE_LEN_LEN>().unwrap_or((&[0; 4], &[]));
        &rest[self.key_len as usize..][..u32::from_le_bytes(*length) as usize]
    }

    #[inline]
    fn part(self, rows: &[u8], part: Part) -> &[u8] {
        match part {
            Part::Key => self.key(rows),
            Part::Value => self.value(rows),
        }
    }
}

/// Sorts rows of which the first `depth` bytes of `part` are equal. The heads contain the bytes from `depth` on.
fn sort_by_heads(index: &mut [IndexRow], rows: &[u8], part: Part, depth: usize) {
    index.sort_unstable_by_key(|row| row.head);
    for group in index.chunk_by_mut(|one, next| one.head == next.head) {
        if group.len() == 1 {
            continue;
        }
        let ended = group[0].head as u8 != MORE;
        let (next_part, next_depth) = match (ended, part) {
            (false, _) => (part, depth + HEAD_LEN),
            (true, Part::Key) => (Part::Value, 0),
            // The rows are equal in key and value.
            (true, Part::Value) => continue,
        };
        if group.len() <= FEW || next_depth > DEPTH_MAX {
            group.sort_unstable_by(|one, other| compare(*one, *other, rows, next_part, next_depth));
            continue;
        }
        for row in &mut *group {
            row.head = head_of(&row.part(rows, next_part)[next_depth..]);
        }
        sort_by_heads(group, rows, next_part, next_depth);
    }
}

/// Compares two rows of which the first `depth` bytes of `part` are equal.
fn compare(one: IndexRow, other: IndexRow, rows: &[u8], part: Part, depth: usize) -> Ordering {
    let by_part = one.part(rows, part)[depth..].cmp(&other.part(rows, part)[depth..]);
    match part {
        Part::Key => by_part.then_with(|| one.value(rows).cmp(other.value(rows))),
        Part::Value => by_part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_order_as_bytes_do() {
        let texts: [&[u8]; 14] = [
            b"",
            b"\0",
            b"\0\0",
            b"\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\0\0",
            b"\0\0\0\0\0\0\x01",
            b"a",
            b"a\0",
            b"a\0\x01",
            b"abcdefg",
            b"abcdefgh",
            b"abcdefh",
            b"b",
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        for (one, other) in texts.iter().zip(&texts[1..]) {
            assert!(head_of(one) < head_of(other), "{one:?} {other:?}");
        }
        assert_eq!(head_of(b"abcdefgh"), head_of(b"abcdefgi and more"));
    }

    fn check(mut expected: Vec<(Vec<u8>, Vec<u8>)>) {
        let mut buffer = RowBuffer::new(1 << 20);
        for (key, value) in &expected {
            assert!(buffer.push(key, value));
        }
        buffer.sort();
        expected.sort();
        let sorted: Vec<_> = (0..buffer.len()).filter_map(|place| buffer.row(place)).collect();
        assert!(expected.iter().map(|(key, value)| (&key[..], &value[..])).eq(sorted));
    }

    #[test]
    fn rows_with_long_common_heads_are_sorted() {
        let mut random = fastrand::Rng::with_seed(1);
        for common in [0, 1, 6, 7, 8, 20, 139, 140, 141, 147, 300] {
            let mut text = |most: usize| {
                let mut text = vec![b'c'; random.usize(0..=common)];
                text.extend((0..random.usize(0..=most)).map(|_| random.u8(0..3)));
                text
            };
            check((0..500).map(|_| (text(4), text(9))).collect());
            check((0..500).map(|_| (vec![7; common], text(3))).collect());
        }
        check(vec![(Vec::new(), Vec::new()); 100]);
    }

    #[test]
    fn memory_counts_rows_and_index() {
        let mut buffer = RowBuffer::new(1_000);
        assert!(buffer.has_room(&[0; 5_000], b""), "a row alone");
        let mut count = 0;
        while buffer.has_room(b"key", b"value") {
            buffer.push(b"key", b"value");
            count += 1;
        }
        assert_eq!(count, 1_000 / (ROW_COST + 8));
        buffer.clear();
        assert_eq!(buffer.len(), 0);
    }
}
