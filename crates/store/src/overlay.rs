//! [`Overlay`]: changes that are durable in the redo log but not in the data file yet. The changes are in memory, and
//! are read before the data file.
//!
//! ```text
//!   active    changes committed since the last checkpoint began; in a batch, also the batch's own changes
//!   frozen    changes that the checkpoint in progress is writing to the data file
//!   the data file, at any point of that checkpoint
//! ```
//!
//! If several layers contain a row, the newest of these layers determines the row. Layers store absolute state: the
//! value of a row or its deletion, the presence of an id, and the number of ids of a key. So it does not matter how
//! much of the frozen layer is in the data file already, and a reader may use one snapshot of the data file during a
//! whole checkpoint.
//!
//! Layers are [`SnapshotMap`]s: a batch changes its own copy, which becomes visible with the commit and is dropped
//! otherwise. Each layer has a bit filter. Most look-ups of rows that a layer does not contain therefore read a single
//! cache line.

#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a short key is of 30 octets at most; a map that is open is a number of one here; low bits choose a word"
)]

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use foldhash::fast::RandomState;

use crate::Position;
use crate::layout::KEY_LEN_MAX;
use crate::maps::Direction;
use crate::snapshot_map::{SnapshotMap, SnapshotMapCursor};

/// Assumed memory of a change in addition to its key and value.
const CHANGE_LEN: usize = 96;

/// Maximum length of a key that is stored in place. A [`Key`] then takes 32 bytes.
const SHORT_KEY_LEN_MAX: usize = 30;

/// A key. Short keys are stored in place, so that most keys need no allocation, and comparing them reads no other
/// memory.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    Short(u8, [u8; SHORT_KEY_LEN_MAX]),
    Long(Arc<[u8]>),
}

impl Key {
    pub(crate) fn new(key: &[u8]) -> Key {
        debug_assert!(key.len() <= KEY_LEN_MAX);
        Key::of_any_length(key)
    }

    /// Creates a key of any length, for the bounds of scans. Other keys have a maximum length.
    pub(crate) fn of_any_length(key: &[u8]) -> Key {
        Key::short(key).unwrap_or_else(|| Key::Long(Arc::from(key)))
    }

    /// Creates a key that is stored in place; `None` for a longer key.
    #[inline]
    fn short(key: &[u8]) -> Option<Key> {
        let mut bytes = [0; SHORT_KEY_LEN_MAX];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(Key::Short(key.len() as u8, bytes))
    }

    /// Returns the value of a key in a tree.
    #[inline]
    fn find<'t, V>(key: &[u8], tree: &'t SnapshotMap<Key, V>) -> Option<&'t V> {
        match Key::short(key) {
            Some(short) => tree.get(&short),
            None => tree.get(key),
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Key::Short(len, bytes) => &bytes[..usize::from(*len)],
            Key::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl Ord for Key {
    /// Compares the bytes of the keys.
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        match (self, other) {
            // Short keys are padded with zeroes. A zero sorts before any other byte; if the padded bytes are equal, the
            // longer key is the greater.
            (Key::Short(len, bytes), Key::Short(other_len, others)) => {
                as_numbers(bytes).cmp(&as_numbers(others)).then(len.cmp(other_len))
            }
            _ => self.bytes().cmp(other.bytes()),
        }
    }
}

/// Returns all bytes as two numbers that compare like the bytes; the numbers overlap in the middle. Comparing them
/// takes a few instructions and no call.
#[inline]
fn as_numbers(bytes: &[u8; SHORT_KEY_LEN_MAX]) -> (u128, u128) {
    let number = |chunk: Option<&[u8; 16]>| chunk.map_or(0, |chunk| u128::from_be_bytes(*chunk));
    (number(bytes.first_chunk()), number(bytes.last_chunk()))
}

const _: () = assert!(SHORT_KEY_LEN_MAX >= 16 && SHORT_KEY_LEN_MAX <= 32);

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Key {}

/// New value of a row of a plain map; `None` if the row was deleted.
pub(crate) type RowChange = Option<Arc<[u8]>>;

/// Changes to a set.
#[derive(Debug, Clone)]
pub(crate) struct SetChange {
    /// Whether the ids of this key in older layers and in the data file are deleted.
    pub(crate) cleared: bool,
    /// Number of ids of the key in all layers and the data file.
    pub(crate) count: u64,
    pub(crate) ids: IdChanges,
}

/// Changed ids of a key. The boolean is true if the id is present and false if it was removed.
#[derive(Debug, Clone)]
pub(crate) enum IdChanges {
    None,
    /// A single change, the usual case for keys of an index.
    One(u64, bool),
    Many(SnapshotMap<u64, bool>),
}

impl IdChanges {
    pub(crate) fn get(&self, id: u64) -> Option<bool> {
        match self {
            IdChanges::None => None,
            IdChanges::One(one, present) => (*one == id).then_some(*present),
            IdChanges::Many(ids) => ids.get(&id).copied(),
        }
    }

    /// Records whether an id is present. Returns true if this layer had no change of the id before.
    fn set(&mut self, id: u64, present: bool) -> bool {
        let mut many = match std::mem::replace(self, IdChanges::None) {
            IdChanges::None => {
                *self = IdChanges::One(id, present);
                return true;
            }
            IdChanges::One(one, _) if one == id => {
                *self = IdChanges::One(id, present);
                return false;
            }
            IdChanges::One(one, was_present) => {
                let mut many = SnapshotMap::default();
                *many.slot(one, || was_present) = was_present;
                many
            }
            IdChanges::Many(many) => many,
        };
        let mut is_new = false;
        *many.slot(id, || {
            is_new = true;
            present
        }) = present;
        *self = IdChanges::Many(many);
        is_new
    }

    pub(crate) fn cursor(&self) -> IdChangeCursor<'_> {
        match self {
            IdChanges::None => IdChangeCursor::One(None, true),
            IdChanges::One(id, present) => IdChangeCursor::One(Some((*id, *present)), true),
            IdChanges::Many(ids) => IdChangeCursor::Many(ids.cursor()),
        }
    }
}

/// Cursor over changes of ids.
#[derive(Debug)]
pub(crate) enum IdChangeCursor<'o> {
    /// The only change, and whether the cursor is past it.
    One(Option<(u64, bool)>, bool),
    Many(SnapshotMapCursor<'o, u64, bool>),
}

impl IdChangeCursor<'_> {
    /// Moves to the first change of an id that is at least `at_least`.
    pub(crate) fn seek(&mut self, at_least: u64) {
        match self {
            IdChangeCursor::One(change, passed) => *passed = change.is_none_or(|(id, _)| id < at_least),
            IdChangeCursor::Many(cursor) => cursor.seek(Bound::Included(&at_least)),
        }
    }

    /// Returns the change at the cursor: the id and whether it is present.
    pub(crate) fn item(&self) -> Option<(u64, bool)> {
        match self {
            IdChangeCursor::One(change, passed) => change.filter(|_| !*passed),
            IdChangeCursor::Many(cursor) => cursor.item().copied(),
        }
    }

    pub(crate) fn next(&mut self) {
        match self {
            IdChangeCursor::One(_, passed) => *passed = true,
            IdChangeCursor::Many(cursor) => cursor.next(),
        }
    }
}

/// Changes of one map.
#[derive(Debug, Clone, Default)]
pub(crate) struct MapLayer {
    pub(crate) rows: SnapshotMap<Key, RowChange>,
    pub(crate) sets: SnapshotMap<Key, SetChange>,
    /// Number of rows or ids of the map in all layers and the data file. `None` if this layer does not change it.
    pub(crate) row_count: Option<u64>,
}

/// Changes of all maps. Cloning costs little.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) maps: Vec<MapLayer>,
    /// Log records below this position are deleted.
    pub(crate) log_start: Position,
    /// Approximate memory of the changes.
    pub(crate) bytes: usize,
    filter: Arc<Filter>,
}

impl Layer {
    pub(crate) fn new(map_count: usize) -> Layer {
        let maps = (0..map_count).map(|_| MapLayer::default()).collect();
        Layer { maps, log_start: 0, bytes: 0, filter: Arc::new(Filter::new()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.log_start == 0 && self.maps.iter().all(|map| map.rows.is_empty() && map.sets.is_empty())
    }

    pub(crate) fn set_row(&mut self, map: usize, key: &[u8], value: Option<&[u8]>) {
        let value_len = |value: &RowChange| value.as_ref().map_or(0, |value| value.len());
        let mut is_new = false;
        let slot = self.maps[map].rows.slot(Key::new(key), || {
            is_new = true;
            None
        });
        let len_before = value_len(slot);
        *slot = value.map(Arc::from);
        self.bytes = (self.bytes + value_len(slot)).saturating_sub(len_before);
        if is_new {
            self.bytes += CHANGE_LEN + key.len();
            self.filter.add(map, key);
        }
    }

    /// Sets whether an id is present, and the number of ids that its key then has.
    pub(crate) fn set_id(&mut self, map: usize, key: &[u8], id: u64, present: bool, count: u64) {
        let mut is_new = false;
        let set = self.maps[map].sets.slot(Key::new(key), || {
            is_new = true;
            SetChange { cleared: false, count, ids: IdChanges::None }
        });
        set.count = count;
        if set.ids.set(id, present) {
            self.bytes += CHANGE_LEN / 2;
        }
        if is_new {
            self.bytes += CHANGE_LEN + key.len();
            self.filter.add(map, key);
        }
    }

    /// Deletes all ids of a key.
    pub(crate) fn clear_set(&mut self, map: usize, key: &[u8]) {
        let cleared = SetChange { cleared: true, count: 0, ids: IdChanges::None };
        *self.maps[map].sets.slot(Key::new(key), || cleared.clone()) = cleared.clone();
        self.bytes += CHANGE_LEN + key.len();
        self.filter.add(map, key);
    }
}

/// Layers over the data file.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(crate) active: Layer,
    pub(crate) frozen: Option<Arc<Layer>>,
}

/// Changes to a set, the newest layer first. Layers older than one that clears the set are left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetChanges<'o> {
    pub(crate) newest: &'o SetChange,
    pub(crate) older: Option<&'o SetChange>,
}

impl SetChanges<'_> {
    pub(crate) fn count(self) -> u64 {
        self.newest.count
    }

    /// Returns true if the set's ids in the data file are hidden because a layer clears the set.
    pub(crate) fn hides_file(self) -> bool {
        self.newest.cleared || self.older.is_some_and(|older| older.cleared)
    }

    /// Returns whether an id is present; `None` if only the data file can answer.
    pub(crate) fn get(self, id: u64) -> Option<bool> {
        let known = self.newest.ids.get(id).or_else(|| self.older?.ids.get(id));
        known.or_else(|| self.hides_file().then_some(false))
    }
}

impl Overlay {
    pub(crate) fn new(map_count: usize) -> Overlay {
        Overlay { active: Layer::new(map_count), frozen: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frozen.is_none() && self.active.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.active.bytes + self.frozen.as_ref().map_or(0, |frozen| frozen.bytes)
    }

    /// Returns the layers, the newest first.
    fn layers(&self) -> impl Iterator<Item = &Layer> {
        std::iter::once(&self.active).chain(self.frozen.as_deref())
    }

    /// Returns the change of a row of a plain map; `None` if no layer changes it.
    // Neither this function nor `set` is inlined, because inlined code would make reads save registers even while
    // nothing is pending.
    #[inline(never)]
    pub(crate) fn row(&self, map: usize, key: &[u8]) -> Option<&RowChange> {
        let layers = self.layers().filter(|layer| !layer.maps[map].rows.is_empty());
        let mut knowing = layers.filter(|layer| layer.filter.may_have(map, key));
        knowing.find_map(|layer| Key::find(key, &layer.maps[map].rows))
    }

    /// Returns the changes of a set; `None` if no layer changes it.
    #[inline(never)]
    pub(crate) fn set(&self, map: usize, key: &[u8]) -> Option<SetChanges<'_>> {
        let layers = self.layers().filter(|layer| !layer.maps[map].sets.is_empty());
        let knowing = layers.filter(|layer| layer.filter.may_have(map, key));
        let mut found = knowing.filter_map(|layer| Key::find(key, &layer.maps[map].sets));
        let newest = found.next()?;
        Some(SetChanges { newest, older: found.next().filter(|_| !newest.cleared) })
    }

    /// Returns the number of rows or ids of a map; `None` if no layer changes it.
    pub(crate) fn row_count(&self, map: usize) -> Option<u64> {
        self.layers().find_map(|layer| layer.maps[map].row_count)
    }

    /// Returns the position below which log records are deleted.
    pub(crate) fn log_start(&self) -> Position {
        self.layers().map(|layer| layer.log_start).max().unwrap_or(0)
    }

    /// Returns a cursor over the changed rows of a plain map, if there are any.
    pub(crate) fn rows(&self, map: usize) -> Option<LayerCursor<'_, RowChange>> {
        LayerCursor::new(self.layers().map(|layer| &layer.maps[map].rows))
    }

    /// Returns a cursor over the changed keys of a map of sets, if there are any.
    pub(crate) fn sets(&self, map: usize) -> Option<LayerCursor<'_, SetChange>> {
        LayerCursor::new(self.layers().map(|layer| &layer.maps[map].sets))
    }
}

/// Cursor over the changes of all layers. If several layers change a key, it returns the newest change.
#[derive(Debug)]
pub(crate) struct LayerCursor<'o, V> {
    /// Cursors of the layers, the newest first.
    layers: [Option<SnapshotMapCursor<'o, Key, V>>; 2],
    direction: Direction,
}

impl<'o, V> LayerCursor<'o, V> {
    fn new(trees: impl Iterator<Item = &'o SnapshotMap<Key, V>>) -> Option<LayerCursor<'o, V>> {
        let mut trees = trees.filter(|tree| !tree.is_empty()).map(SnapshotMap::cursor);
        let layers = [Some(trees.next()?), trees.next()];
        Some(LayerCursor { layers, direction: Direction::Forward })
    }

    /// Moves to the first change within the bound `near` in a direction. Later moves go in the same direction.
    pub(crate) fn seek(&mut self, near: Bound<&[u8]>, direction: Direction) {
        self.direction = direction;
        for cursor in self.layers.iter_mut().flatten() {
            match direction {
                Direction::Forward => cursor.seek(near),
                Direction::Backward => cursor.seek_back(near),
            }
        }
    }

    /// Returns the change at the cursor.
    pub(crate) fn item(&self) -> Option<&'o (Key, V)> {
        let items = self.layers.iter().flatten().filter_map(SnapshotMapCursor::item);
        // `reduce` returns the first of equal items, which is in the newest layer.
        items.reduce(|best, item| if self.is_before(&item.0, &best.0) { item } else { best })
    }

    /// Moves past the key at the cursor.
    pub(crate) fn pass(&mut self, key: &[u8]) {
        let direction = self.direction;
        for cursor in self.layers.iter_mut().flatten() {
            if cursor.item().is_some_and(|(there, _)| there.bytes() == key) {
                match direction {
                    Direction::Forward => cursor.next(),
                    Direction::Backward => cursor.back(),
                }
            }
        }
    }

    fn is_before(&self, one: &Key, other: &Key) -> bool {
        match self.direction {
            Direction::Forward => one < other,
            Direction::Backward => one > other,
        }
    }
}

/// Bit filter of a layer's contents: a key whose bits are not all set is not in the layer. Bits are only ever set, even
/// by batches that are dropped later, so all copies of a layer can share one filter.
#[derive(Debug)]
struct Filter {
    words: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Filter {
    /// Size of the filter: 1 MiB, or 12 bits for each of 700,000 keys. The default limit of pending changes, 64 MiB, is
    /// reached by that many keys at 96 bytes each.
    const WORDS: usize = 1 << 17;

    fn new() -> Filter {
        let words = std::iter::repeat_with(|| AtomicU64::new(0)).take(Filter::WORDS).collect();
        Filter { words, hasher: RandomState::default() }
    }

    /// Returns the word of the filter that belongs to a key, and the bits of the key in that word. A key has all its
    /// bits in one word, so a test touches one cache line.
    #[inline]
    fn place(&self, map: usize, key: &[u8]) -> (&AtomicU64, u64) {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_usize(map);
        hasher.write(key);
        let hash = hasher.finish();
        let bits = 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63);
        (&self.words[(hash >> 32) as usize % Filter::WORDS], bits)
    }

    fn add(&self, map: usize, key: &[u8]) {
        let (word, bits) = self.place(map, key);
        // `Relaxed` suffices: readers on other threads get the layer only by a later publication, which orders this
        // write.
        word.fetch_or(bits, Relaxed);
    }

    #[inline]
    fn may_have(&self, map: usize, key: &[u8]) -> bool {
        let (word, bits) = self.place(map, key);
        word.load(Relaxed) & bits == bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_their_bytes_do() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for len in (0..=34).chain([60, 511]) {
            // Few distinct bytes, including zero, so that many keys are prefixes of others.
            keys.extend((0..6).map(|_| (0..len).map(|_| random.u8(0..2) * 255).collect()));
            keys.extend([vec![0; len], vec![1; len]]);
        }
        for one in &keys {
            for other in &keys {
                let (one_key, other_key) = (Key::new(one), Key::new(other));
                assert_eq!(one_key.cmp(&other_key), one.cmp(other), "{one:?} {other:?}");
                assert_eq!(one_key == other_key, one == other);
            }
            assert_eq!(Key::new(one).bytes(), one);
            let mut tree = SnapshotMap::default();
            *tree.slot(Key::new(one), || 1) = 2;
            assert_eq!(Key::find(one, &tree), Some(&2));
        }
    }
}
