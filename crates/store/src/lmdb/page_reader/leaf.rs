//! [`LeafRows`]: the rows of a leaf page, read where they lie.
//!
//! To go from row to row by LMDB's cursor costs a call each, as much as a scan spends on a row otherwise.
//!
//! A row with flags has its value elsewhere or, in a map of sets, has several: LMDB is asked for it. In a map of sets
//! one without flags has one value.

use super::page::{LEAF, LIST, Node, ROW_HEAD, number, row_count};

/// A key and a value.
type Row<'t> = (&'t [u8], &'t [u8]);

/// Rows of a page, from some row on.
#[derive(Clone, Copy)]
pub(crate) struct LeafRows<'t> {
    page: &'t [u8],
    /// The rows that were passed: the number of the next one.
    next: usize,
    count: usize,
    /// The key of the last row that was given out.
    last: Option<&'t [u8]>,
}

impl<'t> LeafRows<'t> {
    /// No rows.
    pub(crate) const NONE: LeafRows<'t> = LeafRows { page: &[], next: 0, count: 0, last: None };

    /// The rows behind the one whose key this is, a part of the page.
    #[inline]
    pub(crate) fn behind(page: &'t [u8], key: &[u8]) -> LeafRows<'t> {
        let at = key.as_ptr().addr().wrapping_sub(page.as_ptr().addr()).wrapping_sub(ROW_HEAD);
        let count = row_count(page, LEAF).unwrap_or(0);
        match (0..count).find(|place| number(page, LIST + 2 * place) == Some(at)) {
            Some(place) => LeafRows { page, next: place + 1, count, last: None },
            None => LeafRows::NONE,
        }
    }

    /// All rows of a page; `last` is the key of the one before them.
    pub(crate) fn all(page: &'t [u8], last: Option<&'t [u8]>) -> LeafRows<'t> {
        LeafRows { page, next: 0, count: row_count(page, LEAF).unwrap_or(0), last }
    }

    /// The next row; `None` at the end of the page, and before a row with flags.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Row<'t>> {
        if self.next >= self.count {
            return None;
        }
        let row = self.row(self.next)?;
        self.next += 1;
        self.last = Some(row.0);
        Some(row)
    }

    /// Whether there is no page.
    pub(crate) fn is_none(&self) -> bool {
        self.count == 0
    }

    /// The page whose last row was given out, or is the one behind which this began.
    pub(crate) fn finished_page(&self) -> Option<&'t [u8]> {
        (self.count > 0 && self.next >= self.count).then_some(self.page)
    }

    /// The key of the last row that [`next`](LeafRows::next) gave.
    pub(crate) fn last(&self) -> Option<&'t [u8]> {
        self.last
    }

    #[inline]
    fn row(&self, place: usize) -> Option<Row<'t>> {
        let Node { words: [value_low, value_high, flags], key, rest } = Node::at(self.page, place)?;
        let value = rest.get(..value_low | value_high << 16)?;
        (flags == 0).then_some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::{FLAGS, LIST_END};
    use super::*;

    /// A page as LMDB fills it: the list upwards, rows from the end down.
    fn page(rows: &[(&str, &str, u16)]) -> Vec<u8> {
        let mut page = vec![0xee; 4096];
        let mut put =
            |at: usize, number: usize| page[at..at + 2].copy_from_slice(&(number as u16).to_ne_bytes());
        put(FLAGS, LEAF);
        put(LIST_END, LIST + 2 * rows.len());
        let mut end = 4096;
        for (place, (key, value, flags)) in rows.iter().enumerate() {
            end -= ROW_HEAD + key.len() + value.len();
            put(LIST + 2 * place, end);
            put(end, value.len());
            put(end + 2, 0);
            put(end + 4, usize::from(*flags));
            put(end + 6, key.len());
        }
        end = 4096;
        for (key, value, _) in rows {
            end -= ROW_HEAD + key.len() + value.len();
            page[end + ROW_HEAD..][..key.len()].copy_from_slice(key.as_bytes());
            page[end + ROW_HEAD + key.len()..][..value.len()].copy_from_slice(value.as_bytes());
        }
        page
    }

    fn rest<'t>(page: &'t [u8], key: &[u8]) -> (Vec<Row<'t>>, Option<&'t [u8]>) {
        let mut leaf = LeafRows::behind(page, key);
        let rows = std::iter::from_fn(|| leaf.next()).collect();
        (rows, leaf.last())
    }

    /// Some bytes of a page, where they stand last.
    fn found<'t>(page: &'t [u8], bytes: &[u8]) -> &'t [u8] {
        let at = page.windows(bytes.len()).rposition(|window| window == bytes).unwrap();
        &page[at..at + bytes.len()]
    }

    #[test]
    fn rows_behind_a_key() {
        let page =
            page(&[("a", "one", 0), ("bb", "", 0), ("c", "three", 0), ("d", "big", 1), ("e", "four", 0)]);
        let (rows, last) = rest(&page, found(&page, b"aone"));
        assert_eq!(rows, [(&b"bb"[..], &b""[..]), (&b"c"[..], &b"three"[..])]);
        assert_eq!(last, Some(&b"c"[..]));
        // What LMDB gave may be odd; the rows behind it need not be.
        assert_eq!(rest(&page, found(&page, b"cthree")), (vec![], None));
        assert_eq!(rest(&page, found(&page, b"dbig")).0, [(&b"e"[..], &b"four"[..])]);
        assert_eq!(rest(&page, found(&page, b"efour")), (vec![], None));
        // No row begins there.
        assert_eq!(rest(&page, &page[..1]), (vec![], None));
        assert_eq!(rest(&page, found(&page, b"three")), (vec![], None));
    }

    #[test]
    fn odd_pages_have_no_rows() {
        let good = page(&[("a", "one", 0), ("b", "two", 0)]);
        for (at, odd) in
            [(FLAGS, 3), (FLAGS, 0x22), (LIST_END, 0), (LIST_END, 0xffff), (LIST, 5000), (LIST, 4095)]
        {
            let mut page = good.clone();
            page[at..at + 2].copy_from_slice(&(odd as u16).to_ne_bytes());
            assert_eq!(rest(&page, found(&page, b"aone")), (vec![], None), "{odd} at {at}");
        }
        let mut long = good.clone();
        let second = 4096 - 2 * (ROW_HEAD + 4);
        long[second..second + 4].fill(0xff);
        assert_eq!(rest(&long, found(&long, b"aone")), (vec![], None));
        assert_eq!(rest(&good, found(&good, b"aone")).0, [(&b"b"[..], &b"two"[..])]);
        assert_eq!(rest(&[], &good), (vec![], None));
    }
}
