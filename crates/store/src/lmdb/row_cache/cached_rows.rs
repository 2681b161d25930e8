//! Tables of rows that were read before, so that reading them again costs a table look-up instead of a tree descent.
//!
//! There are two tables, one for each step of a search by an indexed value. [`CachedIds`] maps a key to its single id;
//! key and id are in one cache line. [`CachedRows`] maps numeric keys to the locations of their rows. A committed page
//! does not change during a reading transaction, so the offset in the file is enough: a slot takes 16 bytes, whatever
//! the size of the row. A look-up in the trees of a million entries reads about ten uncached lines of memory. In the
//! tables, it reads one line for an id and two lines for a row.
//!
//! Both are caches: their contents change no result. Keys are compared in full; if keys share a slot, even by a
//! client's intent, they only evict each other. The tables belong to a transaction. When the transaction moves to
//! another state, rows that no commit in between has moved stay cached, according to [`MovedPages`]. If it is unknown
//! which rows were moved, all rows are dropped. Caching then begins again after [`PATIENCE`] look-ups, so a transaction
//! that often drops its rows does not pay for caching.
//!
//! A slot has a *stamp*: the number of the state in which it was last known to be valid. In a later state, the first
//! use of the slot checks whether its row has moved since.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a stamp is the low half of its word, and the low bits of a number choose a place"
)]

use std::sync::Arc;

use foldhash::fast::RandomState;

use super::key::{KeyWords, hash, key_words};
use super::moved::MovedPages;
use super::packed::ValueLocation;
use super::packed::{pack, unpack};
use super::table::{GrowingTable, SLOTS_PER_KEY, Table};

/// Number of look-ups that must pass before caching begins again after all rows were evicted.
pub(crate) const PATIENCE: u32 = 4096;

/// Load, in eighths of the slots, above which a table grows. A table of rows that serves a single map uses only every
/// second slot, so it grows when three quarters of these slots are taken.
const IDS_EIGHTHS: usize = 4;
const ROWS_EIGHTHS: usize = 3;

/// Cached rows of a transaction.
pub(crate) struct RowCache {
    ids: CachedIds,
    rows: CachedRows,
    /// Record of moved pages, by which cached rows outlive commits. Without this record, each commit evicts all cached
    /// rows.
    moved: Option<Arc<MovedPages>>,
    /// Committed state that is read, while the transaction is active.
    txn_id: u64,
    moment: Moment,
    /// Look-ups since all rows were evicted, up to [`PATIENCE`].
    lookups: u32,
    /// Whether the cache is active. False while the transaction is reset, because pages may change during that time.
    /// Also false while a commit up to the current state is not recorded.
    is_in_use: bool,
    /// Number of the state that is read, if the last [`resume`](RowCache::resume) found that not all commits up to this
    /// state were recorded.
    awaited: Option<u64>,
}

/// Stamps that determine whether a table slot is valid.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// Stamp of the state that is read; 0 if no row is cached for this state.
    stamp: u32,
    /// Lowest stamp of slots that were not evicted. It is above 0, except if `stamp` is 0.
    floor: u32,
}

impl Moment {
    /// Returns true if a slot that was valid at `stamp` is valid now. `moved` returns the stamp of the last commit that
    /// may have moved the row of the slot.
    #[inline]
    fn has(self, stamp: u32, moved: impl FnOnce() -> u32) -> bool {
        stamp == self.stamp || (stamp >= self.floor && moved() <= stamp)
    }
}

impl RowCache {
    /// Creates tables of up to `bytes_max` bytes in total. The tables are small at first and grow with use.
    pub(crate) fn new(bytes_max: usize, txn_id: u64, moved: Option<Arc<MovedPages>>) -> RowCache {
        let hasher = moved.as_ref().map_or_else(RandomState::default, |moved| moved.hasher.clone());
        let stamp = moved.as_ref().map_or(1, |moved| moved.stamp(txn_id));
        RowCache {
            ids: CachedIds {
                places: GrowingTable::new(bytes_max / 4 * 3),
                hasher,
                ahead: ([0; 6], 0),
                last: (0, 0),
            },
            rows: CachedRows { places: GrowingTable::new(bytes_max / 4) },
            moved,
            txn_id,
            moment: Moment { stamp, floor: stamp },
            lookups: 0,
            is_in_use: true,
            awaited: None,
        }
    }

    /// Deactivates the cache when the transaction is reset.
    pub(crate) fn suspend(&mut self) {
        self.is_in_use = false;
        self.awaited = None;
    }

    /// Activates the cache for the committed state of this number: the previous state or a later state. If the commits
    /// up to this state are not recorded yet, the cache stays inactive.
    pub(crate) fn resume(&mut self, txn_id: u64) {
        self.is_in_use = true;
        self.awaited = None;
        if txn_id == self.txn_id {
            return;
        }
        let (stamp, is_recorded) = match &self.moved {
            Some(moved) => match moved.knows(self.txn_id, txn_id) {
                Some(is_recorded) => (moved.stamp(txn_id), is_recorded),
                None => {
                    // The commits up to this state are not recorded yet. Until they are, the cached rows belong to the
                    // previous state.
                    self.is_in_use = false;
                    self.awaited = Some(txn_id);
                    return;
                }
            },
            None => (self.moment.stamp.checked_add(1).unwrap_or(0), false),
        };
        self.txn_id = txn_id;
        self.moment.stamp = stamp;
        if !is_recorded {
            self.moment.floor = stamp;
            self.lookups = 0;
            self.ids.places.forget();
            self.rows.places.forget();
        }
    }

    /// Returns true if rows may be looked up and cached. Call it once for each look-up.
    #[inline]
    pub(crate) fn is_active(&mut self) -> bool {
        if self.lookups >= PATIENCE {
            return (self.is_in_use || self.resume_awaited()) && self.moment.stamp > 0;
        }
        self.lookups += 1;
        false
    }

    /// Activates the cache if the commits up to the current state have been recorded since
    /// [`resume`](RowCache::resume). Otherwise a reader that moved to a state before its commit was recorded would have
    /// no cache until the next commit.
    #[cold]
    fn resume_awaited(&mut self) -> bool {
        if let Some(txn_id) = self.awaited {
            self.resume(txn_id);
        }
        self.is_in_use
    }

    /// Returns the id under `key`. If the id is not cached, returns the key in the form required for caching it, or
    /// `None` if the key cannot be cached.
    #[inline]
    pub(crate) fn id(&mut self, map: usize, key: &[u8]) -> Option<Result<u64, NewKey>> {
        let RowCache { ids, moved, moment, .. } = self;
        ids.find(*moment, moved.as_deref(), map, key)
    }

    /// Caches the only id under a key. Returns true if adjacent keys should be cached too; see
    /// [`cache_id_ahead`](RowCache::cache_id_ahead). Returns false if the key evicted another key, or if the table is
    /// too full. Keys that evict each other are looked up in the data file repeatedly, and each of these look-ups would
    /// cache all adjacent keys.
    pub(crate) fn cache_id(&mut self, key: &NewKey, id: u64) -> bool {
        self.ids.remember(self.moment, key, id) && !self.ids.places.is_full(IDS_EIGHTHS)
    }

    /// Returns the location of the value of `key`, if the location is cached. The location is valid only while the
    /// transaction is in the state of the last [`resume`](RowCache::resume): see [`is_active`](RowCache::is_active).
    #[inline(always)]
    pub(crate) fn row(&mut self, map: usize, key: u64) -> Option<ValueLocation> {
        let RowCache { rows, moved, moment, .. } = self;
        rows.find(*moment, moved.as_deref(), map, key)
    }

    /// Caches the only id of a key that was not requested yet, unless caching it would evict another key.
    pub(crate) fn cache_id_ahead(&mut self, map: usize, key: &[u8], id: u64) {
        let Some(words) = key_words(map, key) else { return };
        let key = NewKey { hash: hash(&self.ids.hasher, &words), words };
        self.ids.insert_ahead(self.moment, &key, id);
    }

    /// Caches the location of a value that was not requested yet, unless caching it would evict another row.
    pub(crate) fn cache_row_ahead(&mut self, map: usize, key: u64, place: ValueLocation) {
        self.rows.insert_ahead(self.moment, map, key, place);
    }

    /// Caches the location of the value of `key` in the current state. Returns true if adjacent rows should be cached
    /// too, as for [`cache_id`](RowCache::cache_id).
    pub(crate) fn cache_row(&mut self, map: usize, key: u64, place: ValueLocation) -> bool {
        self.rows.remember(self.moment, map, key, place) && !self.rows.places.is_full(ROWS_EIGHTHS)
    }

    /// Prefetches the slot of a key that is about to be looked up.
    #[inline]
    pub(crate) fn prefetch_id(&mut self, map: usize, key: &[u8]) {
        if self.is_in_use
            && let Some(words) = key_words(map, key)
        {
            let hash = hash(&self.ids.hasher, &words);
            self.ids.ahead = (words, hash);
            system::prefetch(self.ids.places.table.place((hash >> 32) as usize));
        }
    }

    /// Returns the location at which the row of the last found id was stored when it was last read. The row may have
    /// moved since then.
    #[inline]
    pub(crate) fn hint(&mut self, map: usize, id: u64) -> Option<ValueLocation> {
        let hint = *self.ids.hint(map, id)?;
        (hint != 0).then(|| unpack(hint))
    }

    /// Stores the location of the row of the last found id, for [`hint`](RowCache::hint).
    #[inline(always)]
    pub(crate) fn keep_hint(&mut self, map: usize, id: u64, value: ValueLocation) {
        if let Some(hint) = self.ids.hint(map, id)
            && let Some(packed) = pack(value)
            && *hint != packed
        {
            *hint = packed;
        }
    }

    /// Prefetches the slot of a row that is about to be looked up.
    #[inline]
    pub(crate) fn prefetch_place(&mut self, key: u64) {
        system::prefetch(self.rows.places.table.place(place_number(0, key)));
    }

    #[cfg(test)]
    pub(crate) fn skip_patience(&mut self) {
        self.lookups = PATIENCE;
    }

    /// Drops the previous tables. After that, look-ups of cached rows do not change which rows are cached.
    #[cfg(test)]
    pub(crate) fn settle(&mut self) {
        self.ids.places.forget_before();
        self.rows.places.forget_before();
    }
}

/// Keys of id set maps that have one id.
///
/// A slot is a cache line: the stamp with a part of the hash; the id; and the length of the key, the map, and the key
/// padded with zeroes. If the key is short, the last two words are hints: the locations of the rows with that id in two
/// maps. A key is in one of [`SLOTS_PER_KEY`] neighbouring slots. A new key takes the first free slot, or the last slot
/// if none is free. The key moves one slot forward each time it is requested again. So keys that are requested once do
/// not evict keys that are requested often.
struct CachedIds {
    places: GrowingTable<8>,
    hasher: RandomState,
    /// The key that was prefetched last, and its hash.
    ahead: (KeyWords, u64),
    /// The slot that was found last, and its id.
    last: (usize, u64),
}

/// Number of words of a slot up to the end of a short key, and the length of the longest short key.
const SHORT_WORDS: usize = 6;
const SHORT_KEY_MAX: u8 = 29;

/// Returns true if a slot holds a key.
#[inline(always)]
fn is_of(place: &[u64; 8], words: &KeyWords) -> bool {
    place[2..SHORT_WORDS] == words[..4] && (is_short(place) || place[SHORT_WORDS..] == words[4..])
}

/// Returns true if the key of a slot is so short that the slot has hints.
#[inline(always)]
fn is_short(place: &[u64; 8]) -> bool {
    place[2].to_ne_bytes()[0] <= SHORT_KEY_MAX
}

/// A key that is not cached, in the form required for caching it.
pub(crate) struct NewKey {
    hash: u64,
    words: KeyWords,
}

impl CachedIds {
    #[inline]
    fn find(
        &mut self,
        moment: Moment,
        moved: Option<&MovedPages>,
        map: usize,
        key: &[u8],
    ) -> Option<Result<u64, NewKey>> {
        let words = key_words(map, key)?;
        let (ahead, known) = &self.ahead;
        let hash = if *ahead == words { *known } else { hash(&self.hasher, &words) };
        let key = NewKey { hash, words };
        if let Some((id, number)) = id_in(&mut self.places.table, moment, moved, &key) {
            self.last = (number, id);
            return Some(Ok(id));
        }
        let carried = if self.places.has_before() { self.carry_over(moment, moved, &key) } else { None };
        Some(carried.ok_or(key))
    }

    #[inline(never)]
    fn carry_over(&mut self, moment: Moment, moved: Option<&MovedPages>, key: &NewKey) -> Option<u64> {
        let (id, _) = id_in(self.places.before()?, moment, moved, key)?;
        self.remember(moment, key, id);
        Some(id)
    }

    /// Returns the hint of the last found id: the word that stores the location of the id's row in `map`.
    #[inline(always)]
    fn hint(&mut self, map: usize, id: u64) -> Option<&mut u64> {
        let (number, last) = self.last;
        if last != id {
            return None;
        }
        // Another key may have taken the slot since.
        let place = self.places.table.place(number);
        if place[1] == id && is_short(place) { place.get_mut(SHORT_WORDS + (map & 1)) } else { None }
    }

    fn insert_ahead(&mut self, moment: Moment, key: &NewKey, id: u64) {
        let (table, number) = (&mut self.places.table, (key.hash >> 32) as usize);
        let mut free = None;
        for way in 0..SLOTS_PER_KEY {
            let place = table.place(number ^ way);
            if (place[0] as u32) < moment.floor {
                free = free.or(Some(way));
            } else if place[0] >> 32 == key.hash & u64::from(u32::MAX) && is_of(place, &key.words) {
                return;
            }
        }
        let Some(free) = free else { return };
        table.used_slots += 1;
        table.place(number ^ free).copy_from_slice(&line(moment, key, id));
    }

    /// Caches the id of a key. Returns true if the key took a free slot.
    fn remember(&mut self, moment: Moment, key: &NewKey, id: u64) -> bool {
        self.places.grow_if_full(IDS_EIGHTHS);
        let (table, number) = (&mut self.places.table, (key.hash >> 32) as usize);
        let free = (0..SLOTS_PER_KEY).find(|way| (table.place(number ^ way)[0] as u32) < moment.floor);
        table.used_slots += usize::from(free.is_some());
        *table.place(number ^ free.unwrap_or(SLOTS_PER_KEY - 1)) = line(moment, key, id);
        free.is_some()
    }
}

/// Encodes the slot of a key and its id.
#[inline]
fn line(moment: Moment, key: &NewKey, id: u64) -> [u64; 8] {
    let [first, second, third, fourth, fifth, sixth] = key.words;
    [tag(moment.stamp, key.hash), id, first, second, third, fourth, fifth, sixth]
}

/// Returns the id under a key and the number of its slot, if the table contains the key.
#[inline(always)]
fn id_in(
    table: &mut Table<8>,
    moment: Moment,
    moved: Option<&MovedPages>,
    key: &NewKey,
) -> Option<(u64, usize)> {
    let NewKey { hash, words } = key;
    let number = (hash >> 32) as usize;
    for way in 0..SLOTS_PER_KEY {
        let mut place = *table.place(number ^ way);
        if place[0] >> 32 != hash & u64::from(u32::MAX) || !is_of(&place, words) {
            continue;
        }
        if !moment.has(place[0] as u32, || moved.map_or(u32::MAX, |moved| moved.key_changed(*hash))) {
            // Clear the old slot, so that the key does not have two slots once the next slot is filled.
            table.place(number ^ way)[0] = 0;
            table.used_slots = table.used_slots.saturating_sub(1);
            return None;
        }
        if place[0] as u32 != moment.stamp {
            place[0] = tag(moment.stamp, *hash);
            table.place(number ^ way)[0] = place[0];
        }
        if way > 0 {
            let before = std::mem::replace(table.place(number ^ (way - 1)), place);
            *table.place(number ^ way) = before;
        }
        return Some((place[1], number ^ way.saturating_sub(1)));
    }
    None
}

#[inline]
fn tag(stamp: u32, hash: u64) -> u64 {
    u64::from(stamp) | hash << 32
}

/// Locations of the rows of numeric keys.
///
/// A slot is two words: the stamp with the bits of key and map that the slot's index does not imply; and the offset and
/// length of the value in the data file. Consecutive keys of a map have every second slot.
struct CachedRows {
    places: GrowingTable<2>,
}

/// Number of maps that the table distinguishes, in the lowest bits of a slot.
const MAPS_MAX: usize = 8;

impl CachedRows {
    #[inline(always)]
    fn find(
        &mut self,
        moment: Moment,
        moved: Option<&MovedPages>,
        map: usize,
        key: u64,
    ) -> Option<ValueLocation> {
        match row_in(&mut self.places.table, moment, moved, map, key) {
            None if self.places.has_before() => self.carry_over(moment, moved, map, key),
            found => found,
        }
    }

    #[inline(never)]
    fn carry_over(
        &mut self,
        moment: Moment,
        moved: Option<&MovedPages>,
        map: usize,
        key: u64,
    ) -> Option<ValueLocation> {
        let place = row_in(self.places.before()?, moment, moved, map, key)?;
        self.remember(moment, map, key, place);
        Some(place)
    }

    /// Caches the location of a row. Returns true if the row took a free slot.
    fn remember(&mut self, moment: Moment, map: usize, key: u64, value: ValueLocation) -> bool {
        self.places.grow_if_full(ROWS_EIGHTHS);
        self.put(moment, (map, key), value, |_| true)
    }

    fn insert_ahead(&mut self, moment: Moment, map: usize, key: u64, value: ValueLocation) {
        self.put(moment, (map, key), value, |is_free| is_free);
    }

    /// Fills the slot of a row. Returns true if the slot was free.
    #[inline]
    fn put(
        &mut self,
        moment: Moment,
        (map, key): (usize, u64),
        value: ValueLocation,
        may: impl FnOnce(bool) -> bool,
    ) -> bool {
        let table = &mut self.places.table;
        let (Some(rest), Some(packed)) = (rest(table, map, key), pack(value)) else { return false };
        let place = table.place(place_number(map, key));
        let was_free = (place[0] as u32) < moment.floor;
        if may(was_free) {
            *place = [rest << 32 | u64::from(moment.stamp), packed];
            table.used_slots += usize::from(was_free);
        }
        was_free
    }
}

/// Returns the location of the value of a key, if the table contains it.
#[inline(always)]
fn row_in(
    table: &mut Table<2>,
    moment: Moment,
    moved: Option<&MovedPages>,
    map: usize,
    key: u64,
) -> Option<ValueLocation> {
    let rest = rest(table, map, key)?;
    let place = table.place(place_number(map, key));
    if place[0] >> 32 != rest {
        return None;
    }
    let value = unpack(place[1]);
    if !moment.has(place[0] as u32, || moved.map_or(u32::MAX, |moved| moved.row_moved(value.0))) {
        return None;
    }
    place[0] = rest << 32 | u64::from(moment.stamp);
    Some(value)
}

/// Returns the bits that distinguish the maps and keys with the same slot index. Returns `None` if they do not fit into
/// the slot.
#[inline(always)]
fn rest(table: &Table<2>, map: usize, key: u64) -> Option<u64> {
    let rest = key >> (table.place_count().ilog2() - 1);
    if map >= MAPS_MAX || rest >= (1 << 32) / MAPS_MAX as u64 {
        return None;
    }
    Some(rest * MAPS_MAX as u64 + map as u64)
}

/// Returns the slot number of the row with this key. The two rows of an entry have the same key in two maps, so they
/// get adjacent slots.
#[inline]
fn place_number(map: usize, key: u64) -> usize {
    (key as usize) << 1 | (map & 1)
}
