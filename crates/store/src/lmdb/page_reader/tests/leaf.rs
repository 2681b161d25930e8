use super::super::leaf::{LeafRows, Row};
use super::super::page::{FLAGS, LEAF, LIST, LIST_END, ROW_HEAD};

/// Builds a page the way LMDB fills it: the list of offsets grows from the start of the page, and rows are added from
/// its end downwards.
fn page(rows: &[(&str, &str, u16)]) -> Vec<u8> {
    let mut page = vec![0xee; 4096];
    let mut put = |at: usize, number: usize| page[at..at + 2].copy_from_slice(&(number as u16).to_ne_bytes());
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
    let mut leaf = LeafRows::after(page, key);
    let rows = std::iter::from_fn(|| leaf.next()).collect();
    (rows, leaf.last())
}

/// Returns the last occurrence of some bytes in a page.
fn found<'t>(page: &'t [u8], bytes: &[u8]) -> &'t [u8] {
    let at = page.windows(bytes.len()).rposition(|window| window == bytes).unwrap();
    &page[at..at + bytes.len()]
}

#[test]
fn returns_the_rows_after_a_key() {
    let page = page(&[("a", "one", 0), ("bb", "", 0), ("c", "three", 0), ("d", "big", 1), ("e", "four", 0)]);
    let (rows, last) = rest(&page, found(&page, b"aone"));
    assert_eq!(rows, [(&b"bb"[..], &b""[..]), (&b"c"[..], &b"three"[..])]);
    assert_eq!(last, Some(&b"c"[..]));
    // The row that LMDB returned may have an unsupported layout even if the rows after it have a supported layout.
    assert_eq!(rest(&page, found(&page, b"cthree")), (vec![], None));
    assert_eq!(rest(&page, found(&page, b"dbig")).0, [(&b"e"[..], &b"four"[..])]);
    assert_eq!(rest(&page, found(&page, b"efour")), (vec![], None));
    // No row begins at this slice.
    assert_eq!(rest(&page, &page[..1]), (vec![], None));
    assert_eq!(rest(&page, found(&page, b"three")), (vec![], None));
}

#[test]
fn unsupported_pages_return_no_rows() {
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
