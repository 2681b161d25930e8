//! Key ranges as sources of candidates, and the gathering of their ids. Ranges of an index serve prefixes, ordering and
//! presence; a range of `names` has the children of an entry.
//!
//! The ids in a range do not ascend, so they are gathered and sorted before the first result. A range may be long, so
//! it is counted only up to a limit and gathered in slices. An entry whose key stays the same is found, whatever else
//! changes between slices.

use std::ops::Bound;

use store::{Direction, MapId, Read};

use super::chain_ids::ChainIds;
use crate::model::index_definition::IndexPart;
use crate::model::limits::COLLECTED_IDS_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, INDEX, NAMES, PIECES, decode_name_row, index_key};
use crate::tree::damaged_row;

type Result<T> = std::result::Result<T, OperationError>;

/// Range of keys of the map `index`, `pieces` or `names`.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    map: MapId,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Returns the memory that the range uses, without itself, in bytes.
    fn heap_bytes(&self) -> usize {
        let of = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.capacity(),
            Bound::Unbounded => 0,
        };
        of(&self.low) + of(&self.high)
    }

    /// Returns the range of all keys of an indexed attribute.
    pub(crate) fn of_attribute(base: AttrId) -> KeyRange {
        KeyRange::with_prefix(base, &[])
    }

    /// Returns the keys of an indexed attribute whose values begin with `prefix`.
    pub(crate) fn with_prefix(base: AttrId, prefix: &[u8]) -> KeyRange {
        let low = index_key(base, prefix);
        KeyRange { map: INDEX, high: after_prefix(&low), low: Bound::Included(low) }
    }

    /// Returns the keys of an indexed attribute from `low` on.
    pub(crate) fn at_least(base: AttrId, low: &[u8]) -> KeyRange {
        KeyRange { low: Bound::Included(index_key(base, low)), ..KeyRange::of_attribute(base) }
    }

    /// Returns the keys of an indexed attribute up to `high`. If `is_cut`, `high` is only the beginning of a longer
    /// value. Then keys that begin with `high` are included, because their values may be lower than the longer value.
    pub(crate) fn at_most(base: AttrId, high: &[u8], is_cut: bool) -> KeyRange {
        let key = index_key(base, high);
        let high = if is_cut { after_prefix(&key) } else { Bound::Included(key) };
        KeyRange { high, ..KeyRange::of_attribute(base) }
    }

    /// Returns the keys of an indexed attribute from `low` to `high`, as [`at_least`](KeyRange::at_least) and
    /// [`at_most`](KeyRange::at_most) do.
    pub(crate) fn between(base: AttrId, low: &[u8], high: &[u8], is_cut: bool) -> KeyRange {
        let low = Bound::Included(index_key(base, low));
        KeyRange { low, ..KeyRange::at_most(base, high, is_cut) }
    }

    /// Returns the keys of the grams of an attribute that begin with `head`, which must not be empty.
    pub(crate) fn of_gram(base: AttrId, head: &[u8]) -> KeyRange {
        let low = IndexPart::Grams.key(base, head);
        KeyRange { map: PIECES, high: after_prefix(&low), low: Bound::Included(low) }
    }

    /// Returns the keys of `names` for the entries one level below `parent`.
    pub(crate) fn children(parent: EntryId) -> KeyRange {
        let low = parent.0.to_be_bytes().to_vec();
        KeyRange { map: NAMES, high: after_prefix(&low), low: Bound::Included(low) }
    }

    /// Counts the ids in a range of `index` or `pieces`; `None` if there are `max` or more.
    pub(crate) fn count(&self, read: &Read, max: u64) -> Result<Option<u64>> {
        let mut count = 0;
        for key in read.scan_keys(self.map, (as_slice(&self.low), as_slice(&self.high)), Direction::Forward) {
            count += key?.1;
            if count >= max {
                return Ok(None);
            }
        }
        Ok(Some(count))
    }

    /// Appends the ids of up to `keys_max` keys, and advances the range past these keys. Returns the number of keys; a
    /// number below `keys_max` means that the range is exhausted. Stops when there are more than `ids_max` ids. After
    /// such a stop, the range must not be used any more.
    pub(crate) fn gather(
        &mut self,
        read: &Read,
        keys_max: usize,
        ids_max: usize,
        ids: &mut Vec<u64>,
    ) -> Result<usize> {
        let (count, last) = if self.map == NAMES {
            self.gather_names(read, keys_max, ids)?
        } else {
            self.gather_keys(read, keys_max, ids_max, ids)?
        };
        if let Some(last) = last.filter(|_| count == keys_max) {
            self.low = Bound::Excluded(last.to_vec());
        }
        Ok(count)
    }

    fn gather_keys<'r>(
        &self,
        read: &'r Read,
        keys_max: usize,
        ids_max: usize,
        ids: &mut Vec<u64>,
    ) -> Result<(usize, Option<&'r [u8]>)> {
        let (mut count, mut last) = (0, None);
        let mut keys =
            read.scan_keys(self.map, (as_slice(&self.low), as_slice(&self.high)), Direction::Forward);
        while count < keys_max
            && ids.len() <= ids_max
            && let Some(row) = keys.next()
        {
            let (key, id_count) = row?;
            match keys.first_id() {
                Some(id) if id_count == 1 => ids.push(id),
                // A single key may list most entries, so reading stops when `ids_max` is exceeded.
                _ => drop(read.ids(self.map, key)?.next_block(ids, ids_max + 1 - ids.len())?),
            }
            count += 1;
            last = Some(key);
        }
        Ok((count, last))
    }

    fn gather_names<'r>(
        &self,
        read: &'r Read,
        keys_max: usize,
        ids: &mut Vec<u64>,
    ) -> Result<(usize, Option<&'r [u8]>)> {
        let (mut count, mut last) = (0, None);
        let range = (as_slice(&self.low), as_slice(&self.high));
        for row in read.scan(self.map, range, Direction::Forward).take(keys_max) {
            let (key, value) = row?;
            let (id, _) = decode_name_row(value).ok_or_else(|| damaged_row("names", EntryId::ROOT))?;
            ids.push(id.0);
            count += 1;
            last = Some(key);
        }
        Ok((count, last))
    }
}

/// Ids being gathered from ranges and chains.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// Remaining ranges; the range being read is last.
    ranges: Vec<KeyRange>,
    /// Remaining chains; the chain being followed is last.
    chains: Vec<ChainIds>,
    ids: Vec<u64>,
    /// Number of ids above which a scan is cheaper.
    ids_max: usize,
}

/// Progress of a [`Gathering`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gathered {
    /// More keys are left.
    Partly,
    /// All ids, ascending, each once.
    All(Vec<u64>),
    /// There are too many ids.
    TooMany,
}

impl Gathering {
    /// Creates a gathering of the ids in ranges and chains, in addition to `ids`. The gathering ends if there are more
    /// than `ids_max` ids.
    pub(crate) fn new(
        (ranges, chains): (Vec<KeyRange>, Vec<ChainIds>),
        ids: Vec<u64>,
        ids_max: u64,
    ) -> Gathering {
        Gathering { ranges, chains, ids, ids_max: super::to_usize(ids_max).min(COLLECTED_IDS_MAX) }
    }

    /// Returns the memory that the gathering uses, without itself, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let keys: usize = self.ranges.iter().map(KeyRange::heap_bytes).sum();
        let chains = self.chains.iter().map(ChainIds::heap_bytes).sum::<usize>();
        self.ids.capacity() * size_of::<u64>()
            + self.ranges.capacity() * size_of::<KeyRange>()
            + keys
            + chains
    }

    /// Reads up to `keys_max` keys.
    pub(crate) fn go_on(&mut self, read: &Read, keys_max: usize) -> Result<Gathered> {
        let mut left = keys_max;
        while let Some(range) = self.ranges.last_mut() {
            let count = range.gather(read, left, self.ids_max, &mut self.ids)?;
            if self.ids.len() > self.ids_max {
                return Ok(Gathered::TooMany);
            }
            if count == left {
                return Ok(Gathered::Partly);
            }
            left -= count;
            self.ranges.pop();
        }
        while let Some(chain) = self.chains.last_mut() {
            let is_done = chain.go_on(read, &mut left, self.ids_max, &mut self.ids)?;
            if self.ids.len() > self.ids_max {
                return Ok(Gathered::TooMany);
            }
            if !is_done {
                return Ok(Gathered::Partly);
            }
            self.chains.pop();
        }
        let mut ids = std::mem::take(&mut self.ids);
        ids.sort_unstable();
        ids.dedup();
        Ok(Gathered::All(ids))
    }
}

/// Returns the upper bound of the keys that begin with `prefix`.
fn after_prefix(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}
