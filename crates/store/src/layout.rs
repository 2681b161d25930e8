//! Names, versions and limits of the on-disk layout, in one place. docs/reference/store-format.md draws it.

use std::ffi::OsStr;

use crate::lmdb::EnvMap;
use crate::{Result, StoreError};

/// Version of the store's own layout: maps, key order, counters, log frame, redo log. Checked at every open.
pub const FORMAT_VERSION: u32 = 3;

/// The oldest version that can be opened; it becomes the newest when it is opened for writing. Version 2 had no mark of
/// the redo log.
pub(crate) const FORMAT_VERSION_MIN: u32 = 2;

/// Longest key in bytes: two keys with their values' heads must fit on one page of the engine.
pub const KEY_LEN_MAX: usize = 511;

/// Longest value of a plain map in bytes.
pub const VALUE_LEN_MAX: usize = u32::MAX as usize;

/// The data file. The engine adds `data.mdb-lock` beside it, its table of readers.
pub(crate) const DATA_FILE: &str = "data.mdb";

/// A data file in the making; renamed to [`DATA_FILE`] when complete.
pub(crate) const NEW_DATA_FILE: &str = "data.new";

/// The name of a sorter's file is this and a number. It has the name for a moment only: see the module `run`.
pub(crate) const SORT_FILE_PREFIX: &str = "data.sort-";

/// The name of a segment of the redo log is this and its number in [`REDO_DIGITS`] decimal digits.
const REDO_FILE_PREFIX: &str = "redo-";
const REDO_DIGITS: usize = 16;

/// Says what the redo log must have.
pub(crate) const MARK_FILE: &str = "redo.mark";

/// Where files go that hold changes of data that is not there: see the module `redo::set_aside`.
pub(crate) const SET_ASIDE_DIRECTORY: &str = "set-aside";

/// What the engine appends to a data file's name for its table of readers.
pub(crate) const READERS_SUFFIX: &str = "-lock";

/// Locked for as long as the store is open; holds the owner's process id in decimal.
pub(crate) const LOCK_FILE: &str = "lock";

/// The row of [`Map::META`] that holds [`FORMAT_VERSION`] as u32, big-endian.
pub(crate) const FORMAT_KEY: &[u8] = b"format";

/// The row of [`Map::META`] that holds what tells this data file from every other: 16 random bytes.
pub(crate) const IDENTITY_KEY: &[u8] = b"identity";

/// The row of [`Map::META`] that is there, with the value 1, while the redo log must have a mark.
pub(crate) const MARKED_KEY: &[u8] = b"marked";

/// The row of [`Map::META`] that holds the identity of the data file that this one has replaced; missing if there was
/// none.
pub(crate) const REPLACED_KEY: &[u8] = b"replaced";

/// The row of [`Map::META`] that holds the sequence number of the last group of the redo log that is in the data file,
/// as u64, big-endian; 0 if it is missing.
pub(crate) const FOLDED_KEY: &[u8] = b"folded";

/// The row of [`Map::META`] that holds how many batches were written to the data file around the redo log, as u64,
/// big-endian; 0 if it is missing.
pub(crate) const THROUGH_KEY: &[u8] = b"written through";

/// The row of [`Map::META`] that holds the names of the maps by which the redo log numbers them, in that order, each
/// with a zero byte behind it.
pub(crate) const MAP_NAMES_KEY: &[u8] = b"maps";

const RESERVED_PREFIX: &str = "store.";

/// What a map holds under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    /// One value of any bytes.
    Plain,
    /// A set of `u64` ids, kept sorted; 8 bytes an id. A key without ids does not exist.
    IdSet,
}

/// A map as the store's user declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapSpec {
    /// Name in the data file. Names that begin with `store.` are the store's own.
    pub name: &'static str,
    /// What the map holds.
    pub kind: MapKind,
}

/// A map by its index in the slice given to [`Store::open`](crate::Store::open).
///
/// Operations on a `MapId` beyond that slice panic: it is a mistake of the program, not of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapId(usize);

impl MapId {
    /// The map at `index` of the slice given to [`Store::open`](crate::Store::open).
    pub const fn new(index: usize) -> MapId {
        MapId(index)
    }

    /// The index again.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// A map as the engine knows it: the store's own first, then the user's in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Map {
    pub(crate) index: usize,
    pub(crate) spec: MapSpec,
}

impl Map {
    /// Facts about the store itself. Opened before the others, so that a foreign format is recognised before anything
    /// is written.
    pub(crate) const META: Map = Map::own(0, "store.meta");
    /// The log: position as u64, big-endian -> framed record.
    pub(crate) const LOG: Map = Map::own(1, "store.log");
    /// Counters: key -> i64, big-endian, never 0.
    pub(crate) const COUNTS: Map = Map::own(2, "store.counts");
    const OWN_COUNT: usize = 3;

    const fn own(index: usize, name: &'static str) -> Map {
        Map { index, spec: MapSpec { name, kind: MapKind::Plain } }
    }

    pub(crate) fn users(maps: &'static [MapSpec], id: MapId) -> Map {
        Map { index: Map::OWN_COUNT + id.0, spec: maps[id.0] }
    }

    /// Its index as the redo log has it.
    #[inline]
    pub(crate) fn number(self) -> u16 {
        debug_assert!(self.index <= usize::from(u16::MAX));
        self.index as u16
    }

    /// Whether it is the store's own.
    #[inline]
    pub(crate) fn is_own(self) -> bool {
        self.index < Map::OWN_COUNT
    }

    /// The map of this name.
    pub(crate) fn named(maps: &'static [MapSpec], name: &[u8]) -> Option<Map> {
        let own = [Map::META, Map::LOG, Map::COUNTS].into_iter();
        let users = (0..maps.len()).map(|index| Map::users(maps, MapId(index)));
        own.chain(users).find(|map| map.spec.name.as_bytes() == name)
    }

    /// The map as one of `kind`.
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

/// The map that tells a store's format.
pub(crate) fn meta_map() -> [EnvMap; 1] {
    [engine_map(&Map::META.spec)]
}

/// All maps but the one of [`meta_map`], in the order of their indexes.
pub(crate) fn other_maps(maps: &[MapSpec]) -> Vec<EnvMap> {
    [Map::LOG.spec, Map::COUNTS.spec].iter().chain(maps).map(engine_map).collect()
}

fn engine_map(spec: &MapSpec) -> EnvMap {
    EnvMap { name: spec.name, id_set: spec.kind == MapKind::IdSet }
}

/// The names of all maps, the store's own among them.
pub(crate) fn all_names(maps: &[MapSpec]) -> Vec<&'static str> {
    meta_map().iter().chain(&other_maps(maps)).map(|map| map.name).collect()
}

/// Whether a file of this name in the data directory is left over once its owner has died: a data file in the making, a
/// sorter's file.
pub(crate) fn is_left_over(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let of_new_data = name.strip_prefix(NEW_DATA_FILE).is_some_and(|end| ["", READERS_SUFFIX].contains(&end));
    let number = name.strip_prefix(SORT_FILE_PREFIX);
    let of_sorter =
        number.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    of_new_data || of_sorter
}

/// The name of the redo log's segment of this number.
pub(crate) fn redo_file(number: u64) -> String {
    format!("{REDO_FILE_PREFIX}{number:0REDO_DIGITS$}")
}

/// The number of the redo log's segment of this name; `None` if it is another file's.
pub(crate) fn redo_number(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix(REDO_FILE_PREFIX)?;
    let is_number = digits.len() == REDO_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Whether a file of this name is a part of a redo log.
pub(crate) fn is_of_redo_log(name: &OsStr) -> bool {
    redo_number(name).is_some() || name == MARK_FILE
}

/// How many maps the engine opens.
pub(crate) fn map_count(maps: &[MapSpec]) -> u32 {
    u32::try_from(Map::OWN_COUNT + maps.len()).unwrap_or(u32::MAX)
}

/// The first map whose name cannot be: empty, reserved, with a zero byte, or given twice; and why.
pub(crate) fn bad_name(maps: &[MapSpec]) -> Option<(&'static str, &'static str)> {
    maps.iter().enumerate().find_map(|(index, map)| {
        let reason = if map.name.is_empty() || map.name.contains('\0') {
            "a name is not empty and has no zero byte"
        } else if map.name.len() > KEY_LEN_MAX {
            "the name is too long"
        } else if map.name.starts_with(RESERVED_PREFIX) {
            "names that begin with \"store.\" are reserved"
        } else if maps[..index].iter().any(|earlier| earlier.name == map.name) {
            "the name is given twice"
        } else {
            return None;
        };
        Some((map.name, reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn plain(name: &'static str) -> MapSpec {
        MapSpec { name, kind: MapKind::Plain }
    }

    #[test]
    fn names_are_checked() {
        let check = |maps: &[MapSpec], expected: Option<&str>| {
            assert_eq!(bad_name(maps).map(|(name, _)| name), expected, "{maps:?}");
        };
        check(&[plain("nodes"), plain("names")], None);
        check(&[plain("nodes"), plain("store.log")], Some("store.log"));
        check(&[plain("nodes"), plain("nodes")], Some("nodes"));
        check(&[plain("")], Some(""));
        check(&[plain("a\0b")], Some("a\0b"));
    }

    #[test]
    fn only_files_of_ours_are_left_over() {
        for name in ["data.new", "data.new-lock", "data.sort-0", "data.sort-4711"] {
            assert!(is_left_over(OsStr::new(name)), "{name}");
        }
        for name in [
            "data.mdb",
            "data.mdb-lock",
            "lock",
            "data.newer",
            "data.sort-",
            "data.sort-1x",
            "data.sort--1",
            "x",
        ] {
            assert!(!is_left_over(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn segments_of_the_redo_log_are_known_by_their_names() {
        for number in [1, 42, 9_999_999_999_999_999] {
            assert_eq!(redo_number(OsStr::new(&redo_file(number))), Some(number));
        }
        assert_eq!(redo_file(7), "redo-0000000000000007");
        for name in
            ["redo-7", "redo-", "redo-000000000000000x", "redo-+000000000000007", "redo-0000000000000007.old"]
        {
            assert_eq!(redo_number(OsStr::new(name)), None, "{name}");
        }
    }

    #[test]
    fn engine_maps_stand_at_their_index() {
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
