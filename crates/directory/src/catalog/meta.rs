//! Rows of `meta`: keys, and facts that are read without a catalogue.

use store::{Read, StoreError};

use crate::model::csn::Csn;
use crate::model::entry::EntryRow;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, ENTRIES, EntryId, META};

/// Keys of the catalogue in `meta`: a letter, followed by a number (big-endian) if there are several rows.
pub(crate) const META_FORMAT: &[u8] = b"format";
pub(crate) const META_LAST_ENTRY: &[u8] = b"last entry";
pub(crate) const META_LAST_CSN: &[u8] = b"last csn";
/// 16 random octets. They never leave the directory: cookies of paged searches are sealed with them.
pub(crate) const META_GENERATION: &[u8] = b"generation";
pub(crate) const META_ADMINISTRATOR: &[u8] = b"administrator";
pub(crate) const META_INDEX_VERSION: &[u8] = b"index version";
pub(crate) const META_SETTINGS: &[u8] = b"settings";
pub(crate) const META_SCHEMA: &[u8] = b"schema";
pub(crate) const META_SCHEMA_TIMES: &[u8] = b"schema times";
/// Prefix of the keys of a cluster node's state of the shared log; see [`crate::replicated`].
pub(crate) const META_REPLICATION: &[u8] = b"replication ";
/// State of the copy of another server's tree; see [`crate::Directory::follow_state`].
pub(crate) const META_FOLLOW: &[u8] = b"follow";
/// Key of the last state of a copy that was promoted.
pub(crate) const META_PROMOTED: &[u8] = b"promoted";
/// Row of the rules by which existing entries have yet to join their group.
pub(crate) const META_JOINS: &[u8] = b"joins";
/// Row of the lineage of the data: see `directory/src/database/replica.rs`.
pub(crate) const META_LINEAGE: &[u8] = b"lineage";
/// Row of the role of this directory in replication without a shared log.
pub(crate) const META_ROLE: &[u8] = b"role";

/// Returns the key of an attribute, class set, suffix, index or context CSN in `meta`.
pub(crate) fn meta_key(kind: u8, number: u32) -> [u8; 5] {
    let mut key = [kind; 5];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

pub(crate) const META_ATTRIBUTE: u8 = b'A';
pub(crate) const META_CLASS_SET: u8 = b'C';
pub(crate) const META_SUFFIX: u8 = b'S';
pub(crate) const META_INDEX: u8 = b'I';
pub(crate) const META_CONTEXT_CSN: u8 = b'N';
pub(crate) const META_SORT_ORDER: u8 = b'O';

/// Returns the highest entry id allocated so far.
///
/// # Errors
/// The row is damaged.
pub fn last_entry_id(read: &Read) -> Result<EntryId, OperationError> {
    let Some(bytes) = read.get(META, META_LAST_ENTRY)? else { return Ok(EntryId::ROOT) };
    let id = bytes.try_into().map(u64::from_be_bytes);
    id.map(EntryId).map_err(|_| OperationError::Damaged("last entry id".to_owned()))
}

/// Returns the random identifier of this data directory, which differs even from that of its replacement.
///
/// # Errors
/// The row is damaged.
pub(crate) fn generation(read: &Read) -> Result<[u8; 16], OperationError> {
    let generation = read.get(META, META_GENERATION)?.and_then(|bytes| bytes.try_into().ok());
    generation.ok_or_else(|| OperationError::Damaged("generation".to_owned()))
}

/// Returns true if the data belongs to a cluster node; see [`crate::replicated`].
///
/// # Errors
/// The store failed.
pub(crate) fn is_node(read: &Read) -> Result<bool, StoreError> {
    log_rows(read).next().transpose().map(|first| first.is_some())
}

/// Returns the rows of a cluster node's state of the shared log, with whole keys.
pub(crate) fn log_rows(read: &Read) -> impl Iterator<Item = Result<(&[u8], &[u8]), StoreError>> {
    // The successor of the space at the end of the prefix.
    const END: &[u8] = b"replication!";
    let range = (std::ops::Bound::Included(META_REPLICATION), std::ops::Bound::Excluded(END));
    read.scan(META, range, store::Direction::Forward)
}

/// Returns the version of the indexes in the rows: see [`Catalog::index_version`](super::Catalog::index_version).
///
/// # Errors
/// The row is damaged.
pub fn index_version(read: &Read) -> Result<u64, OperationError> {
    let Some(bytes) = read.get(META, META_INDEX_VERSION)? else { return Ok(0) };
    let version = bytes.try_into().map(u64::from_be_bytes);
    version.map_err(|_| OperationError::Damaged("index version".to_owned()))
}

/// Returns the CSN of the last change.
///
/// # Errors
/// The row is damaged.
pub fn last_csn(read: &Read) -> Result<Csn, OperationError> {
    let Some(bytes) = read.get(META, META_LAST_CSN)? else { return Ok(Csn::default()) };
    let csn = std::str::from_utf8(bytes).ok().and_then(Csn::parse);
    csn.ok_or_else(|| OperationError::Damaged("last CSN".to_owned()))
}

/// Returns true if any entry has the attribute. It reads every entry, and is called only when a definition has
/// changed.
pub(crate) fn has_values(read: &Read, attribute: AttrId) -> Result<bool, OperationError> {
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    for row in read.scan(ENTRIES, all, store::Direction::Forward) {
        let row = EntryRow::decode(row?.1).ok_or_else(|| OperationError::Damaged("an entry".to_owned()))?;
        if row.find(attribute).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn meta_rows(read: &Read, kind: u8) -> Result<Vec<(u32, &[u8])>, OpenError> {
    use std::ops::Bound::Included;
    let (low, high) = (meta_key(kind, 0), meta_key(kind, u32::MAX));
    let mut rows = Vec::new();
    for row in read.scan(META, (Included(&low[..]), Included(&high[..])), store::Direction::Forward) {
        let (key, value) = row?;
        let number = key.get(1..).and_then(|number| number.try_into().ok());
        let number = number.ok_or_else(|| OpenError::damaged("catalogue key"))?;
        rows.push((u32::from_be_bytes(number), value));
    }
    Ok(rows)
}
