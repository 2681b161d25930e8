//! Format versions, limits, and names of files and of rows of `store.meta`. docs/reference/store-format.md describes
//! them.

use std::ffi::OsStr;

/// Version of the store's own layout: maps, order of keys, counters, frame of log records, redo log. It is checked at
/// every open.
pub const FORMAT_VERSION: u32 = 3;

/// The oldest version that can be opened. A store of this version is upgraded to the newest version when it is opened
/// for writing. A store of version 2 has no `redo.mark`.
pub const FORMAT_VERSION_MIN: u32 = 2;

/// Maximum length of a key in bytes. Two keys with the heads of their values must fit on one page of the engine.
pub const KEY_LEN_MAX: usize = 511;

/// Maximum length of a value of a plain map, in bytes.
pub const VALUE_LEN_MAX: usize = u32::MAX as usize;

/// The data file. The engine keeps its table of readers in another file, `data.mdb-lock`.
pub(crate) const DATA_FILE: &str = "data.mdb";

/// Unfinished data file; renamed to [`DATA_FILE`] when complete.
pub(crate) const NEW_DATA_FILE: &str = "data.new";

/// Prefix of the name of a sorter's file, followed by a number. The file is unlinked right after its creation; see the
/// module `sort::run`.
pub(crate) const SORT_FILE_PREFIX: &str = "data.sort-";

/// Prefix of the name of a redo log's segment, followed by its number in [`REDO_DIGITS`] decimal digits.
const REDO_FILE_PREFIX: &str = "redo-";
const REDO_DIGITS: usize = 16;

/// The mark: the redo log's manifest, which names the segments that must exist.
pub(crate) const MARK_FILE: &str = "redo.mark";

/// Directory for redo log files whose data file is missing: see the module `redo::set_aside`.
pub(crate) const SET_ASIDE_DIRECTORY: &str = "set-aside";

/// Suffix that the engine appends to a data file's name for its table of readers.
pub(crate) const READERS_SUFFIX: &str = "-lock";

/// Locked while the store is open. Contains the owner's process id in decimal.
pub(crate) const LOCK_FILE: &str = "lock";

/// The row of `Map::META` that holds [`FORMAT_VERSION`] as u32, big-endian.
pub(crate) const FORMAT_KEY: &[u8] = b"format";

/// Row of `Map::META` that identifies this data file: 16 random bytes.
pub(crate) const IDENTITY_KEY: &[u8] = b"identity";

/// Row of `Map::META` that exists, with the value 1, while the redo log is required to have a mark.
pub(crate) const MARKED_KEY: &[u8] = b"marked";

/// Row of `Map::META` with the identity of the data file that this data file replaced; missing if there was none.
pub(crate) const REPLACED_KEY: &[u8] = b"replaced";

/// Row of `Map::META` with the sequence number of the last redo group that was checkpointed into the data file, as u64,
/// big-endian. A missing row means 0.
pub(crate) const CHECKPOINTED_KEY: &[u8] = b"folded";

/// Row of `Map::META` with the number of batches that were written to the data file without the redo log, as u64,
/// big-endian. A missing row means 0.
pub(crate) const THROUGH_KEY: &[u8] = b"written through";

/// Row of `Map::META` with the names of the maps, in the order of their numbers in the redo log, each terminated by a
/// zero byte.
pub(crate) const MAP_NAMES_KEY: &[u8] = b"maps";

/// Returns true if a file of this name is left over from a process that died: an unfinished data file, or a sorter's
/// file.
pub(crate) fn is_left_over(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let of_new_data = name.strip_prefix(NEW_DATA_FILE).is_some_and(|end| ["", READERS_SUFFIX].contains(&end));
    let number = name.strip_prefix(SORT_FILE_PREFIX);
    let of_sorter =
        number.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    of_new_data || of_sorter
}

/// Returns the file name of the redo log's segment with this number.
pub(crate) fn redo_file(number: u64) -> String {
    format!("{REDO_FILE_PREFIX}{number:0REDO_DIGITS$}")
}

/// Returns the number of the redo log's segment with this file name; `None` for any other file.
pub(crate) fn redo_number(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix(REDO_FILE_PREFIX)?;
    let is_number = digits.len() == REDO_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns true if a file of this name belongs to a redo log.
pub(crate) fn is_of_redo_log(name: &OsStr) -> bool {
    redo_number(name).is_some() || name == MARK_FILE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_only_leftovers_of_the_store() {
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
}
