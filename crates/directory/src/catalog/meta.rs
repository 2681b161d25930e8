//! Rows of `meta`: their keys, and values that are read without a catalog. If there are several rows of a kind, their
//! keys consist of a letter and a number (4, big-endian). The comment of each key describes its value, with sizes in
//! octets in parentheses.

use store::{Read, StoreError};

use crate::model::csn::Csn;
use crate::model::entry::EntryRow;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, ENTRIES, EntryId, META};

/// Row format version (4), version of the normal forms (4).
pub(crate) const META_FORMAT: &[u8] = b"format";
/// Highest entry id ever allocated (8).
pub(crate) const META_LAST_ENTRY: &[u8] = b"last entry";
/// CSN of the last record, as text.
pub(crate) const META_LAST_CSN: &[u8] = b"last csn";
/// Generation: 16 random octets that identify the data. Keys are derived from the octets, for example the key of the
/// cookies of paged searches. Therefore clients receive only [`crate::Directory::published_generation`].
pub(crate) const META_GENERATION: &[u8] = b"generation";
/// The administrator's password in stored form.
pub(crate) const META_ADMINISTRATOR: &[u8] = b"administrator";
/// Version of the indexes (8). Each change of an index's phase changes the version. Local to the data directory.
pub(crate) const META_INDEX_VERSION: &[u8] = b"index version";
/// Settings: version 1 (1), position of the last record that changed any setting, suffix or index (varint), a count,
/// then for each setting its key in a settings file and a list of values as text. Settings that earlier builds do not
/// know are omitted while they have their defaults.
pub(crate) const META_SETTINGS: &[u8] = b"settings";
/// Schema texts: a count, then for each text its name and the text itself.
pub(crate) const META_SCHEMA: &[u8] = b"schema";
/// Times of the schema: version 1 (1), createTimestamp and modifyTimestamp of the subschema subentry as Unix seconds (8
/// each), SHA-256 of the published definitions (32). Data of earlier builds lack this row until they are opened for
/// writing.
pub(crate) const META_SCHEMA_TIMES: &[u8] = b"schema times";
/// Prefix of the keys that contain a cluster node's state of the shared log; see [`crate::replicated`].
pub(crate) const META_REPLICATION: &[u8] = b"replication ";
/// States of copied trees: version 2 (1), then for each tree the normal name of the top entry and the state of the
/// tree, each after its length (4). A state is version 1 (1), number of entries that are not copied (8), length (4) and
/// text of the source and content, then the cookie from the source. See [`crate::Directory::follow_state`].
pub(crate) const META_FOLLOW: &[u8] = b"follow";
/// States of copied trees whose copying has ended, in the format of [`META_FOLLOW`].
pub(crate) const META_PROMOTED: &[u8] = b"promoted";
/// Pending rules: version 1 (1), position of the record that set them (varint), the rules as in a record of kind 20.
pub(crate) const META_JOINS: &[u8] = b"joins";
/// Progress of the conversion to links: version 1 (1), position of the record that started the conversion (varint), a
/// list of the attributes with plain values, then the last entry id examined, the number of values converted, and the
/// number of dangling links among these values (varints).
pub(crate) const META_LINKS: &[u8] = b"links";
/// Lineage of the data: see `directory/src/database/replica.rs`.
pub(crate) const META_LINEAGE: &[u8] = b"lineage";
/// Role of this directory in replication without a shared log.
pub(crate) const META_ROLE: &[u8] = b"role";

/// Returns the key of an attribute, class set, suffix, index or context CSN in `meta`.
pub(crate) fn meta_key(kind: u8, number: u32) -> [u8; 5] {
    let mut key = [kind; 5];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Attribute: number (varint), then three texts, each after its length: OID, options, and `syntax equality ordering` as
/// OIDs. The third text ends with `link` if `X-LINK` makes the values links. The third text is empty if the type was
/// removed from the schema.
pub(crate) const META_ATTRIBUTE: u8 = b'A';
/// Class set: number (varint), count, OIDs. The last OID is empty if one of the classes was removed from the schema.
pub(crate) const META_CLASS_SET: u8 = b'C';
/// DN of a suffix.
pub(crate) const META_SUFFIX: u8 = b'S';
/// Index of an attribute: version 2 (1), kinds (1: 1 equality, 2 ordering, 4 presence, 8 substring, 16 approximate).
/// Then, for each index part (values, presence, grams, sounds), a phase (1: 0 absent, 1 being built, 2 complete, 3
/// being removed) and the entry id up to which the part's rows are built (8). Last, after its length, the OID of the
/// matching rule of the grams. A row that is the single octet `01` means complete for equality and ordering.
pub(crate) const META_INDEX: u8 = b'I';
/// contextCSN of a suffix, as text.
pub(crate) const META_CONTEXT_CSN: u8 = b'N';
/// Sort order: version 1 (1), phase as for an index (1), id of the last entry whose rows are built (8), then, after its
/// length, the text of its definition. Local to the data directory.
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

/// Returns the generation: a random identifier of the data in this directory. Data that replace the present data have
/// another generation.
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

/// Returns the rows with a cluster node's state of the shared log. The keys include the prefix [`META_REPLICATION`].
pub(crate) fn log_rows(read: &Read) -> impl Iterator<Item = Result<(&[u8], &[u8]), StoreError>> {
    // `META_REPLICATION` with its final space replaced by the next character.
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

/// Returns true if any entry has the attribute. Reads every entry, so this function is called only when a definition
/// has changed.
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
