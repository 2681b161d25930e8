//! Rows of the directory in the store: ids, maps, keys, and the row formats of `nodes` and `names`.
//!
//! The comment of each map states its key and its value, with sizes in bytes. Entry ids have 8 bytes; numbers of
//! attributes and class sets have 4. Integers in keys and fixed fields are big-endian, so that they sort numerically.
//! If a normal name or value is too long for a key, the key contains its beginning and a hash of the whole
//! ([`shorten`]). Keys can still be compared for equality, and callers check the entry itself.

use sha2::{Digest, Sha256};
use store::{MapId, MapKind, MapSpec};

use crate::model::limits::{INDEX_KEY_MAX, KEY_HASH_SIZE, NAME_KEY_MAX};

/// Identity of an entry within one data directory; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub u64);

impl EntryId {
    /// The empty DN. It is the parent of every suffix entry, but is not an entry.
    pub const ROOT: EntryId = EntryId(0);
}

/// Number of an attribute description: a type with its options. Numbers are allocated at the first use and appear in
/// the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttrId(pub u32);

impl AttrId {
    /// Returns the next number after the first `count` numbers.
    pub(crate) fn after(count: usize) -> AttrId {
        AttrId(number(count))
    }
}

/// Number of a set of object classes that some entry has or had. Numbers are allocated at the first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassSetId(pub u32);

impl ClassSetId {
    /// Returns the next number after the first `count` numbers.
    pub(crate) fn after(count: usize) -> ClassSetId {
        ClassSetId(number(count))
    }
}

/// Converts a count to a number. The catalog keeps each number in memory, so their count is always below 2^32.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The maps of the store, in the order of their ids.
pub static MAPS: &[MapSpec] = &[
    MapSpec { name: "meta", kind: MapKind::Plain },
    MapSpec { name: "nodes", kind: MapKind::Plain },
    MapSpec { name: "entries", kind: MapKind::Plain },
    MapSpec { name: "values", kind: MapKind::Plain },
    MapSpec { name: "names", kind: MapKind::Plain },
    MapSpec { name: "links", kind: MapKind::IdSet },
    MapSpec { name: "linked", kind: MapKind::IdSet },
    MapSpec { name: "dangling", kind: MapKind::IdSet },
    MapSpec { name: "index", kind: MapKind::IdSet },
    MapSpec { name: "classes", kind: MapKind::IdSet },
    MapSpec { name: "pieces", kind: MapKind::IdSet },
    MapSpec { name: "deleted", kind: MapKind::Plain },
    MapSpec { name: "orders", kind: MapKind::Plain },
    MapSpec { name: "ends", kind: MapKind::Plain },
    MapSpec { name: "due", kind: MapKind::Plain },
];

/// Returns the description of a map.
#[expect(clippy::indexing_slicing, reason = "the map ids below index MAPS, and there are no others")]
pub(crate) fn map_spec(map: MapId) -> &'static MapSpec {
    &MAPS[map.index()]
}

/// Returns the number of a map as a byte.
#[expect(clippy::cast_possible_truncation, reason = "there are fewer maps than a byte has values")]
pub(crate) fn map_number(map: MapId) -> u8 {
    map.index() as u8
}

/// Catalog, versions, positions: see the `META_` keys of [`crate::catalog`].
pub const META: MapId = MapId::new(0);
/// Entry id -> [`NodeRow`]. A suffix entry has the parent id 0, and all RDNs of its suffix as its RDN.
pub const NODES: MapId = MapId::new(1);
/// Entry id -> attributes: see [`crate::model::entry`].
pub const ENTRIES: MapId = MapId::new(2);
/// Entry id, attribute, value key -> value. The map contains three kinds of values:
///
/// - values over 1,024 bytes (key: the first 16 bytes of the SHA-256)
/// - values of an attribute with more than 64 values (key: the normal value)
/// - dangling links (key: the normal value)
pub const VALUES: MapId = MapId::new(3);
/// Parent id, normal RDN -> entry id, [`NodeFlags`] (1).
pub const NAMES: MapId = MapId::new(4);
/// Source id, attribute -> target ids (an id set).
pub const LINKS: MapId = MapId::new(5);
/// Target id, attribute -> source ids (an id set).
pub const LINKED: MapId = MapId::new(6);
/// Attribute, normal DN of a dangling link (root first) -> source ids (an id set).
pub const DANGLING: MapId = MapId::new(7);
/// Attribute without options, normal value -> entry ids (an id set).
pub const INDEX: MapId = MapId::new(8);
/// Class set -> entry ids (an id set).
pub const CLASSES: MapId = MapId::new(9);
/// Attribute without options and one of three parts -> entry ids (an id set). The parts are `p` for presence, `s` and
/// a gram, and `a` and the sound of a word. A gram is three adjacent bytes of a text: `fe`, the normal value, and
/// `ff`. `s` or `a` alone lists entries with a value too long for grams or sounds. See [`crate::index::keys`].
pub const PIECES: MapId = MapId::new(10);
/// Tombstones: see [`crate::model::tombstone`].
pub const DELETED: MapId = MapId::new(11);
/// Number of a sort order (4) as the prefix of a ranked set: see [`store::RankedKeys`]. A member of the set has one
/// part for each attribute of the order, then the entry id. If the entry has a value, the part is 1, the normal form of
/// the least value with `ff` after each zero octet, and two zero octets. Otherwise the part is 2. Only the first 480
/// octets of all parts are stored.
pub const ORDERS: MapId = MapId::new(12);
/// Source id, attribute, then 1 and the target id, or 2 and the normal value of a dangling link -> end time of the
/// value, in seconds since 1970 (8): see [`crate::model::value_end`].
pub const ENDS: MapId = MapId::new(13);
/// Additional keys for each end time -> the end time: see [`crate::model::value_end`]. The key by time is `t`, end
/// time, key of `ends`. For links, the key by target is `l`, target id, attribute, source id.
pub const DUE: MapId = MapId::new(14);

/// Flags of an entry that name resolution and search treat specially.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NodeFlags(pub u8);

impl NodeFlags {
    /// An alias (RFC 4512 section 2.6).
    pub const ALIAS: u8 = 1;
    /// A named subordinate reference (RFC 3296).
    pub const REFERRAL: u8 = 2;
    /// A subentry (RFC 3672).
    pub const SUBENTRY: u8 = 4;

    /// Returns true if the entry is an alias.
    pub fn is_alias(self) -> bool {
        self.0 & Self::ALIAS != 0
    }

    /// Returns true if the entry is a referral.
    pub fn is_referral(self) -> bool {
        self.0 & Self::REFERRAL != 0
    }

    /// Returns true if the entry is a subentry.
    pub fn is_subentry(self) -> bool {
        self.0 & Self::SUBENTRY != 0
    }
}

/// Row of `nodes`: the data of an entry that are needed for scope checks, names and class filters.
///
/// Encoding: parent id (8, big-endian), class set (4, big-endian), flags (1), RDN text (the rest, UTF-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRow<'a> {
    /// Id of the superior; [`EntryId::ROOT`] for a suffix entry.
    pub parent: EntryId,
    /// Object classes.
    pub class_set: ClassSetId,
    /// Alias, referral, subentry.
    pub flags: NodeFlags,
    /// RDN as in returned DNs, UTF-8; all RDNs of the suffix for a suffix entry. The RDN is stored as octets, because
    /// most readers only copy or compare it.
    pub rdn: &'a [u8],
}

impl<'a> NodeRow<'a> {
    /// Returns the encoded row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(13 + self.rdn.len());
        out.extend_from_slice(&self.parent.0.to_be_bytes());
        out.extend_from_slice(&self.class_set.0.to_be_bytes());
        out.push(self.flags.0);
        out.extend_from_slice(self.rdn);
        out
    }

    /// Decodes a row; `None` if it is damaged.
    pub fn decode(bytes: &'a [u8]) -> Option<NodeRow<'a>> {
        let (parent, rest) = bytes.split_first_chunk()?;
        let (class_set, rest) = rest.split_first_chunk()?;
        let (flags, rdn) = rest.split_first()?;
        Some(NodeRow {
            parent: EntryId(u64::from_be_bytes(*parent)),
            class_set: ClassSetId(u32::from_be_bytes(*class_set)),
            flags: NodeFlags(*flags),
            rdn,
        })
    }

    /// Returns the RDN as text; `None` if it is damaged.
    pub fn rdn_text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.rdn).ok()
    }
}

/// Encodes a row of `names`: entry id (8, big-endian), flags (1).
pub fn encode_name_row(id: EntryId, flags: NodeFlags) -> [u8; 9] {
    let mut out = [0; 9];
    out[..8].copy_from_slice(&id.0.to_be_bytes());
    out[8] = flags.0;
    out
}

/// Decodes a row of `names`.
pub fn decode_name_row(bytes: &[u8]) -> Option<(EntryId, NodeFlags)> {
    let (id, flags) = bytes.split_first_chunk()?;
    let [flags] = flags else { return None };
    Some((EntryId(u64::from_be_bytes(*id)), NodeFlags(*flags)))
}

/// Returns the key of an entry in `nodes` and `entries`.
pub fn id_key(id: EntryId) -> [u8; 8] {
    id.0.to_be_bytes()
}

/// Returns the key of a class set in `classes`.
pub fn class_key(class_set: ClassSetId) -> [u8; 4] {
    class_set.0.to_be_bytes()
}

/// Returns a key of `links` (`id` is the source) or of `linked` (`id` is the target).
pub fn link_key(id: EntryId, attribute: AttrId) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&id.0.to_be_bytes());
    key[8..].copy_from_slice(&attribute.0.to_be_bytes());
    key
}

/// Decodes the entry and the attribute at the beginning of a key of `links`, `linked` or `values`.
pub(crate) fn split_link_key(key: &[u8]) -> Option<(EntryId, AttrId)> {
    let (id, attribute) = key.get(..12)?.split_at_checked(8)?;
    let id = u64::from_be_bytes(id.try_into().ok()?);
    Some((EntryId(id), AttrId(u32::from_be_bytes(attribute.try_into().ok()?))))
}

/// Returns the key of an RDN in `names`.
pub fn name_key(parent: EntryId, normal_rdn: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + normal_rdn.len().min(NAME_KEY_MAX));
    key.extend_from_slice(&parent.0.to_be_bytes());
    shorten(normal_rdn, NAME_KEY_MAX, &mut key);
    key
}

/// Returns the key of a value in `values`.
pub fn value_key(id: EntryId, attribute: AttrId, normal_value: &[u8]) -> Vec<u8> {
    let mut key = link_key(id, attribute).to_vec();
    shorten(normal_value, NAME_KEY_MAX, &mut key);
    key
}

/// Returns the key of a DN in `dangling`.
pub fn dangling_key(attribute: AttrId, normal_dn: &[u8]) -> Vec<u8> {
    let mut key = attribute.0.to_be_bytes().to_vec();
    shorten(normal_dn, NAME_KEY_MAX, &mut key);
    key
}

/// Returns the key of a value in `index`. `attribute` is the number of the attribute type without options.
pub fn index_key(attribute: AttrId, normal_value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 + normal_value.len().min(INDEX_KEY_MAX));
    put_index_key(attribute, normal_value, &mut key);
    key
}

/// Calls `show` with the key of a value in `index`, and returns the result of `show`. A short key is built on the
/// stack.
pub(crate) fn with_index_key<T>(attribute: AttrId, normal_value: &[u8], show: impl FnOnce(&[u8]) -> T) -> T {
    let mut key = [0; 64];
    match key.get_mut(..4 + normal_value.len()) {
        Some(key) => {
            let (number, value) = key.split_at_mut(4);
            number.copy_from_slice(&attribute.0.to_be_bytes());
            value.copy_from_slice(normal_value);
            show(key)
        }
        None => show(&index_key(attribute, normal_value)),
    }
}

/// Appends the key of a value in `index`.
pub(crate) fn put_index_key(attribute: AttrId, normal_value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&attribute.0.to_be_bytes());
    shorten(normal_value, INDEX_KEY_MAX, out);
}

/// Returns the key of the counter of the entries one level below `id`.
pub fn children_counter(id: EntryId) -> [u8; 9] {
    counter(b'c', id)
}

/// Returns the key of the counter of all entries below `id`.
pub fn subtree_counter(id: EntryId) -> [u8; 9] {
    counter(b's', id)
}

/// First byte of the keys of [`value_counter`].
pub(crate) const COUNTER_VALUES: u8 = b'v';

/// Returns the key of the counter of an attribute's values. Only link attributes and other attributes with one row per
/// value have a counter.
pub fn value_counter(id: EntryId, attribute: AttrId) -> [u8; 13] {
    let mut key = [COUNTER_VALUES; 13];
    key[1..].copy_from_slice(&link_key(id, attribute));
    key
}

fn counter(kind: u8, id: EntryId) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&id.0.to_be_bytes());
    key
}

/// Appends `normal` to `out`. If `normal` is longer than `max` bytes, appends its beginning and a hash of the whole
/// instead.
///
/// Shortened keys with different beginnings keep their order. Keys with the same beginning may not, so a caller that
/// scans a range must compare the values of each entry.
pub fn shorten(normal: &[u8], max: usize, out: &mut Vec<u8>) {
    if normal.len() <= max {
        out.extend_from_slice(normal);
        return;
    }
    out.extend_from_slice(normal.get(..max - KEY_HASH_SIZE).unwrap_or(normal));
    out.extend_from_slice(&value_hash(normal));
}

/// Returns the hash in the key of a value that is too long for a key.
pub fn value_hash(bytes: &[u8]) -> [u8; KEY_HASH_SIZE] {
    let mut hash = [0; KEY_HASH_SIZE];
    hash.iter_mut().zip(Sha256::digest(bytes)).for_each(|(octet, of_digest)| *octet = of_digest);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_rows_round_trip() {
        let row = NodeRow {
            parent: EntryId(7),
            class_set: ClassSetId(3),
            flags: NodeFlags(2),
            rdn: "cn=Ærø".as_bytes(),
        };
        assert_eq!(NodeRow::decode(&row.encode()), Some(row));
        assert_eq!(row.rdn_text(), Some("cn=Ærø"));
        assert_eq!(NodeRow { rdn: b"cn=\xff", ..row }.rdn_text(), None);
        assert_eq!(NodeRow::decode(&[0; 12]), None);
        let name = encode_name_row(EntryId(9), NodeFlags(1));
        assert_eq!(decode_name_row(&name), Some((EntryId(9), NodeFlags(1))));
    }

    #[test]
    fn long_keys_keep_their_head_and_stay_distinct() {
        let (a, mut b) = (vec![b'x'; 2_000], vec![b'x'; 2_000]);
        b[1_999] = b'y';
        let (key_a, key_b) = (index_key(AttrId(1), &a), index_key(AttrId(1), &b));
        for len in [0, 1, 59, 60, 61, INDEX_KEY_MAX, INDEX_KEY_MAX + 1] {
            with_index_key(AttrId(0x0102_0304), &a[..len], |key| {
                assert_eq!(key, index_key(AttrId(0x0102_0304), &a[..len]));
            });
        }
        assert_eq!(key_a.len(), 4 + INDEX_KEY_MAX);
        assert_ne!(key_a, key_b);
        assert_eq!(key_a[..INDEX_KEY_MAX - KEY_HASH_SIZE], key_b[..INDEX_KEY_MAX - KEY_HASH_SIZE]);
    }
}
