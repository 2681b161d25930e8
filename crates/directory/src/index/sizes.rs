//! Sizes of indexes, estimated from the index rows of a sample of the entries.
//!
//! An entry's share of a key is one divided by the number of ids under the key. The sum of the shares of all entries is
//! the exact number of keys. For a sample, the sum of its shares, multiplied by the ratio of all entries to sampled
//! entries, estimates the number of keys. The cost of the estimate does not depend on the number of entries.

use std::collections::BTreeMap;
use std::ops::Bound;

use store::{Direction, Read};

use super::maintenance::{IndexWork, entry_rows, indexed};
use crate::catalog::Catalog;
use crate::model::index_definition::{IndexPart, IndexParts, Phase};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, ENTRIES};
use crate::tree::damaged_row;

type Result<T> = std::result::Result<T, OperationError>;

/// Size of an id in an index row, in bytes.
const ID_BYTES: u128 = 8;

/// The share 1. All shares are fixed-point numbers in units of 1 / `WHOLE`.
const WHOLE: u128 = 1 << 32;

/// Step, a prime number, between sampled entries that are visited one after the other. It spreads the visited entries
/// evenly even if the limit on rows ends the sample early.
const STRIDE: usize = 7_919;

/// Limits of a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleBounds {
    /// Maximum number of entries.
    pub entries_max: usize,
    /// Maximum number of index rows of all sampled entries. The rows of the last entry may exceed this number.
    pub rows_max: u64,
}

/// Sizes of all indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexSizes {
    /// Number of entries.
    pub entries: u64,
    /// Number of sampled entries. If all entries were sampled, the sizes are exact.
    pub sampled: u64,
    /// Sizes of the complete parts, by attribute type. Indexes without a complete part are missing.
    pub by_attribute: BTreeMap<String, IndexSize>,
}

/// Size of all complete parts of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSize {
    /// Number of pairs of a key and an entry.
    pub rows: u64,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of the keys and of the entry ids under them, without the overhead of pages in the data file.
    pub bytes: u64,
}

/// Sums of shares over the sample, in units of 1 / [`WHOLE`].
#[derive(Clone, Copy, Default)]
struct Sums {
    rows: u128,
    keys: u128,
    bytes: u128,
}

/// Returns the sizes of the complete parts of all indexes.
///
/// # Errors
/// The store failed, or a row is damaged.
pub(crate) fn sizes(read: &Read, catalog: &Catalog, bounds: SampleBounds) -> Result<IndexSizes> {
    let work: Vec<(AttrId, IndexParts)> =
        indexed(catalog).map(|base| (base, complete(catalog, base))).collect();
    let work: Vec<_> = work.into_iter().filter(|(_, parts)| !parts.is_empty()).collect();
    let entries = read.row_count(ENTRIES)?;
    let sample = sample(read, entries, bounds.entries_max)?;
    let mut sums: BTreeMap<AttrId, Sums> = work.iter().map(|(base, _)| (*base, Sums::default())).collect();
    let (mut sampled, mut rows) = (0_u64, 0);
    for place in 0..sample.len() {
        let Some(key) = sample.get(place * STRIDE % sample.len()) else { continue };
        if rows >= bounds.rows_max {
            break;
        }
        rows += add_entry(read, catalog, &work, key, &mut sums)?;
        sampled += 1;
    }
    let of = |(base, sums): (AttrId, Sums)| {
        let [rows, keys, bytes] =
            [sums.rows, sums.keys, sums.bytes].map(|sum| scaled(sum, entries, sampled.max(1)));
        (catalog.attribute(base).name.clone(), IndexSize { rows, keys, bytes })
    };
    let by_attribute = sums.into_iter().map(of).collect();
    Ok(IndexSizes { entries, sampled, by_attribute })
}

/// Extrapolates a sum of shares from `sampled` entries to all `entries`.
fn scaled(sum: u128, entries: u64, sampled: u64) -> u64 {
    let unit = u128::from(sampled) * WHOLE;
    let size = sum.saturating_mul(entries.into()).saturating_add(unit / 2) / unit;
    u64::try_from(size).unwrap_or(u64::MAX)
}

fn complete(catalog: &Catalog, base: AttrId) -> IndexParts {
    let index = catalog.attribute(base).index;
    let parts = IndexPart::ALL.into_iter().filter(|part| index.phase(*part) == Phase::Complete);
    parts.fold(IndexParts::NONE, IndexParts::with)
}

/// Returns the keys in `entries` of the sampled entries. If there are at most `entries_max` entries, the sample
/// contains all of them. Otherwise the sample is evenly distributed.
fn sample(read: &Read, entries: u64, entries_max: usize) -> Result<Vec<Vec<u8>>> {
    let after = |low: u64| -> Result<Option<Vec<u8>>> {
        let low = low.to_be_bytes();
        let mut rows = read.scan(ENTRIES, (Bound::Included(&low[..]), Bound::Unbounded), Direction::Forward);
        Ok(rows.next().transpose()?.map(|(key, _)| key.to_vec()))
    };
    let mut sample = Vec::new();
    if entries <= entries_max as u64 {
        for row in read.scan(ENTRIES, (Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
            sample.push(row?.0.to_vec());
        }
        return Ok(sample);
    }
    let last = crate::catalog::last_entry_id(read)?.0;
    for place in 0..entries_max as u64 {
        let low = u128::from(last) * u128::from(place) / entries_max as u128;
        sample.extend(after(u64::try_from(low).unwrap_or(last))?);
    }
    sample.dedup();
    Ok(sample)
}

/// Adds the shares of the entry with this key in `entries`. Returns the number of its index rows.
fn add_entry(
    read: &Read,
    catalog: &Catalog,
    work: &IndexWork,
    key: &[u8],
    sums: &mut BTreeMap<AttrId, Sums>,
) -> Result<u64> {
    let Some(row) = read.get(ENTRIES, key)? else { return Ok(0) };
    let mut rows = Vec::new();
    let id = entry_rows(read, catalog, work, key, row, &mut rows)?;
    let count = rows.len() as u64;
    for (part, key) in rows {
        let base = key.first_chunk().map(|base| AttrId(u32::from_be_bytes(*base)));
        let sums = base.and_then(|base| sums.get_mut(&base)).ok_or_else(|| damaged_row("entries", id))?;
        let share = WHOLE / u128::from(read.ids(part.map(), &key)?.estimate().max(1));
        sums.rows += WHOLE;
        sums.keys += share;
        sums.bytes += key.len() as u128 * share + ID_BYTES * WHOLE;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::outcome::Outcome;
    use crate::testing::*;

    const ALL: SampleBounds = SampleBounds { entries_max: 1_000, rows_max: u64::MAX };

    #[test]
    fn a_sample_of_all_entries_counts_every_row_and_key() {
        let mut directory = TestDirectory::with_suffix_entry();
        for (number, city) in (0..90).map(|number| (number, format!("city{}", number % 3))) {
            let (cn, dn) = (format!("p{number:02}"), format!("cn=p{number:02},dc=example,dc=com"));
            let attributes = [
                ("objectClass", &["person", "extensibleObject"][..]),
                ("cn", &[&cn]),
                ("sn", &["x"]),
                ("l", &[&city]),
            ];
            assert_eq!(directory.add(&dn, &attributes), Outcome::success());
        }
        directory.define_index("l", "equality,presence");
        directory.finish_indexes();
        let state = directory.snapshot.state();
        let all = sizes(state.read, state.catalog, ALL).unwrap();
        assert_eq!((all.entries, all.sampled), (91, 91));
        let l = all.by_attribute["l"];
        // The keys are three cities and one key for presence. Each entry has one row for its city and one for presence.
        assert_eq!((l.rows, l.keys), (180, 4));
        // A key for a city has the attribute number and the name; the key for presence has the attribute number and a
        // letter.
        assert_eq!(l.bytes, 180 * 8 + 3 * (4 + 5) + (4 + 1));
        let some = sizes(state.read, state.catalog, SampleBounds { entries_max: 30, ..ALL }).unwrap();
        assert_eq!((some.entries, some.sampled), (91, 30));
        let l = some.by_attribute["l"];
        assert!((170..=190).contains(&l.rows) && (3..=5).contains(&l.keys), "{l:?}");
        let few = sizes(state.read, state.catalog, SampleBounds { rows_max: 20, ..ALL }).unwrap();
        assert!(few.sampled < 20, "{}", few.sampled);
    }
}
