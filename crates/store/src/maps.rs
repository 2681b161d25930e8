//! Maps: names and kinds of the store's own and the user's maps, and ranges of their keys.

use std::ops::Bound;

use crate::layout::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::{OpenError, Result, StoreError};

const RESERVED_PREFIX: &str = "store.";

/// A range of keys in memcmp order. Bounds may have any length; an empty bound is below every key.
pub type KeyRange<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// The direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key up.
    Forward,
    /// From the highest key down.
    Backward,
}

/// Kind of values that a map holds under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// A key has one value of any bytes.
    Plain,
    /// A sorted set of `u64` ids, 8 bytes each. A key without ids does not exist.
    IdSet,
}

/// A map declared by the store's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapSpec {
    /// Name in the data file. Names that begin with `store.` are the store's own.
    pub name: &'static str,
    /// Kind of the map.
    pub kind: MapKind,
}

/// A map by its index in the slice given to [`Store::open`](crate::Store::open).
///
/// Operations on a `MapId` beyond that slice panic: this is an error of the program, not of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapId(usize);

impl MapId {
    /// Returns the id of the map at `index` of the slice given to [`Store::open`](crate::Store::open).
    pub const fn new(index: usize) -> MapId {
        MapId(index)
    }

    /// Returns the index in the slice given to [`Store::open`](crate::Store::open).
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A map of the engine. The store's own maps come first, then the user's maps in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Map {
    pub(crate) index: usize,
    pub(crate) spec: MapSpec,
}

impl Map {
    /// The meta map, which contains facts about the store itself. It is opened before the other maps, so that an
    /// unknown format is detected before anything is written.
    pub(crate) const META: Map = Map::own(0, "store.meta");
    /// The log: position as u64, big-endian -> framed record.
    pub(crate) const LOG: Map = Map::own(1, "store.log");
    /// Counters: key -> i64, big-endian, never 0.
    pub(crate) const COUNTS: Map = Map::own(2, "store.counts");
    const OWN_COUNT: usize = 3;

    const fn own(index: usize, name: &'static str) -> Map {
        Map { index, spec: MapSpec { name, kind: MapKind::Plain } }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a caller names maps by their places in the list that it opened the store with"
    )]
    pub(crate) fn users(maps: &'static [MapSpec], id: MapId) -> Map {
        Map { index: Map::OWN_COUNT + id.0, spec: maps[id.0] }
    }

    /// Returns the map's number in the redo log.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a program has a list of a few maps")]
    pub(crate) fn number(self) -> u16 {
        debug_assert!(self.index <= usize::from(u16::MAX));
        self.index as u16
    }

    /// Returns true if the map is one of the store's own.
    #[inline]
    pub(crate) fn is_own(self) -> bool {
        self.index < Map::OWN_COUNT
    }

    /// Returns the map with this name.
    pub(crate) fn named(maps: &'static [MapSpec], name: &[u8]) -> Option<Map> {
        let own = [Map::META, Map::LOG, Map::COUNTS].into_iter();
        let users = (0..maps.len()).map(|index| Map::users(maps, MapId(index)));
        own.chain(users).find(|map| map.spec.name.as_bytes() == name)
    }

    /// Returns the map if it is of `kind`; otherwise returns an error.
    #[inline]
    pub(crate) fn of_kind(self, kind: MapKind) -> Result<Map> {
        if self.spec.kind == kind { Ok(self) } else { Err(StoreError::WrongMapKind { map: self.spec.name }) }
    }

    #[inline]
    pub(crate) fn check_key(self, key: &[u8]) -> Result<()> {
        match key.len() {
            0 => Err(StoreError::EmptyKey { map: self.spec.name }),
            1..=KEY_LEN_MAX => Ok(()),
            length => Err(StoreError::KeyTooLong { map: self.spec.name, length }),
        }
    }

    pub(crate) fn check_value(self, value: &[u8]) -> Result<()> {
        if value.len() <= VALUE_LEN_MAX {
            return Ok(());
        }
        Err(StoreError::ValueTooLong { map: self.spec.name, length: value.len() })
    }
}

/// Returns all maps but [`Map::META`], in the order of their indexes.
pub(crate) fn other_maps(maps: &[MapSpec]) -> Vec<MapSpec> {
    [Map::LOG.spec, Map::COUNTS.spec].iter().chain(maps).copied().collect()
}

/// Returns the names of all maps, including the store's own.
pub(crate) fn all_names(maps: &[MapSpec]) -> Vec<&'static str> {
    [Map::META.spec].iter().chain(&other_maps(maps)).map(|map| map.name).collect()
}

/// Returns the number of maps that the engine opens.
pub(crate) fn map_count(maps: &[MapSpec]) -> u32 {
    u32::try_from(Map::OWN_COUNT + maps.len()).unwrap_or(u32::MAX)
}

/// Refuses a name that is empty, too long, reserved, contains a zero byte, or is given twice.
pub(crate) fn check_names(maps: &[MapSpec]) -> Result<(), OpenError> {
    for (index, map) in maps.iter().enumerate() {
        let reason = if map.name.is_empty() || map.name.contains('\0') {
            "a name is not empty and has no zero byte"
        } else if map.name.len() > KEY_LEN_MAX {
            "the name is too long"
        } else if map.name.starts_with(RESERVED_PREFIX) {
            "names that begin with \"store.\" are reserved"
        } else if maps.iter().take(index).any(|earlier| earlier.name == map.name) {
            "the name is given twice"
        } else {
            continue;
        };
        return Err(OpenError::Map { name: map.name.to_owned(), reason });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
mod tests {
    use super::*;

    const fn plain(name: &'static str) -> MapSpec {
        MapSpec { name, kind: MapKind::Plain }
    }

    #[test]
    fn invalid_map_names_are_refused() {
        let check = |maps: &[MapSpec], expected: Option<&str>| {
            let refused = match check_names(maps) {
                Err(OpenError::Map { name, .. }) => Some(name),
                outcome => outcome.map(|()| None).unwrap(),
            };
            assert_eq!(refused.as_deref(), expected, "{maps:?}");
        };
        check(&[plain("nodes"), plain("names")], None);
        check(&[plain("nodes"), plain("store.log")], Some("store.log"));
        check(&[plain("nodes"), plain("nodes")], Some("nodes"));
        check(&[plain("")], Some(""));
        check(&[plain("a\0b")], Some("a\0b"));
    }

    #[test]
    fn engine_maps_are_at_their_index() {
        static MAPS: [MapSpec; 1] = [plain("nodes")];
        let names = all_names(&MAPS);
        for map in [Map::META, Map::LOG, Map::COUNTS, Map::users(&MAPS, MapId::new(0))] {
            assert_eq!(names[map.index], map.spec.name);
        }
        assert_eq!(names.len(), map_count(&MAPS) as usize);
    }

    #[test]
    fn keys_are_between_1_and_511_bytes() {
        assert!(Map::COUNTS.check_key(&[0; 1]).is_ok());
        assert!(Map::COUNTS.check_key(&[0; 511]).is_ok());
        assert_eq!(Map::COUNTS.check_key(&[]), Err(StoreError::EmptyKey { map: "store.counts" }));
        assert_eq!(
            Map::COUNTS.check_key(&[0; 512]),
            Err(StoreError::KeyTooLong { map: "store.counts", length: 512 })
        );
    }
}
