//! Tombstones: deleted entries that are kept for a time, so that they can be restored.
//!
//! Tombstones are rows of a separate map. No ordinary search, index, link or count reads this map. `apply` makes a
//! tombstone from the rows that a delete removes. The tombstone contains the entry's values, with links as entry ids,
//! and the ids of entries with links to the deleted entry.
//!
//! Keys begin with a letter. The key of a tombstone is `d`, position of the delete, entry id. A row with the key `u`,
//! entryUUID, position contains the entry id.
//!
//! Encoding: version (1), entryUUID (16), then these fields, encoded as in a record:
//!
//! - time of the delete in microseconds since 1970
//! - requester's DN, DN, parent id, RDN, class set, flags (1)
//! - attributes with their values
//! - link attributes by which other entries named the deleted entry. Each attribute is encoded as its number, a byte,
//!   and the ids of the other entries. The byte is 1 if the values were removed with the entry, 0 if they became text.
//!
//! Version 2 is for entries with end times of values. After these ids, version 2 adds entry ids with the end times of
//! their values. At the end, it adds value changes that set the end times of the entry's own values.

use crate::model::codec::{Decoder, put_bytes, put_list, put_varint};
use crate::model::record::{Value, ValueChange, put_value_change, take_value_change};
use crate::model::record_value::{put_value, take_value};
use crate::model::rows::{AttrId, ClassSetId, EntryId, NodeFlags};

/// Version of the encoding.
const VERSION: u8 = 1;

/// Version of the encoding with end times of values.
const VERSION_WITH_ENDS: u8 = 2;

/// First byte of the key of a tombstone.
pub const KIND_ENTRY: u8 = b'd';

/// First byte of the key that finds a tombstone by its entryUUID.
pub const KIND_UUID: u8 = b'u';

/// Key of a tombstone: the position of the delete and the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TombstonePlace {
    /// Position of the delete.
    pub position: u64,
    /// The entry.
    pub id: EntryId,
}

/// A deleted entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The entry's UUID; zeroes if the entry had none.
    pub uuid: [u8; 16],
    /// Time of the delete in microseconds since 1970.
    pub micros: u64,
    /// DN of the requester of the delete.
    pub requester: String,
    /// DN before the delete.
    pub dn: String,
    /// Superior before the delete.
    pub parent: EntryId,
    /// RDN as in returned DNs; all RDNs of the suffix for a suffix entry.
    pub rdn: String,
    /// Object classes.
    pub class_set: ClassSetId,
    /// Flags: alias, referral, subentry.
    pub flags: NodeFlags,
    /// All stored attributes.
    pub values: Vec<(AttrId, Vec<Value>)>,
    /// End times of the entry's values.
    pub ends: Vec<ValueChange>,
    /// Entries with links to the deleted entry, by link attribute.
    pub named_by: Vec<NamedBy>,
}

/// Entries that named a deleted entry by one link attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedBy {
    /// The link attribute.
    pub attribute: AttrId,
    /// True if the values were removed with the deleted entry; false if the DN of the deleted entry replaced the
    /// values.
    pub vanished: bool,
    /// Ids of the entries that had the values.
    pub sources: Vec<EntryId>,
    /// End times of these values, each with the id of the value's entry. Values without an end time are omitted.
    pub ends: Vec<(EntryId, u64)>,
}

impl TombstonePlace {
    /// Returns the key of the tombstone.
    pub fn key(self) -> [u8; 17] {
        let mut key = [KIND_ENTRY; 17];
        key[1..9].copy_from_slice(&self.position.to_be_bytes());
        key[9..].copy_from_slice(&self.id.0.to_be_bytes());
        key
    }

    /// Returns the place that the key of a tombstone contains; `None` for another kind of key.
    pub fn of_key(key: &[u8]) -> Option<TombstonePlace> {
        let (&kind, rest) = key.split_first()?;
        let (position, id) = rest.split_first_chunk()?;
        let id = EntryId(u64::from_be_bytes(id.try_into().ok()?));
        (kind == KIND_ENTRY).then_some(TombstonePlace { position: u64::from_be_bytes(*position), id })
    }

    /// Returns the key of the row that finds the tombstone by its entryUUID.
    pub fn uuid_key(self, uuid: &[u8; 16]) -> [u8; 25] {
        let mut key = [KIND_UUID; 25];
        key[1..17].copy_from_slice(uuid);
        key[17..].copy_from_slice(&self.position.to_be_bytes());
        key
    }
}

/// Returns the common prefix of the keys of all tombstones that one delete created.
pub fn delete_prefix(position: u64) -> [u8; 9] {
    let mut key = [KIND_ENTRY; 9];
    key[1..].copy_from_slice(&position.to_be_bytes());
    key
}

/// Returns the common prefix of the keys that find tombstones by this entryUUID.
pub fn uuid_prefix(uuid: &[u8; 16]) -> [u8; 17] {
    let mut key = [KIND_UUID; 17];
    key[1..].copy_from_slice(uuid);
    key
}

impl Tombstone {
    /// Returns true if the tombstone has been kept for at least `kept_seconds`.
    pub fn is_expired(&self, kept_seconds: u32, now_micros: u64) -> bool {
        self.micros.saturating_add(u64::from(kept_seconds) * 1_000_000) <= now_micros
    }

    /// Returns the encoded row.
    pub fn encode(&self) -> Vec<u8> {
        let has_ends = !self.ends.is_empty() || self.named_by.iter().any(|named| !named.ends.is_empty());
        let mut out = vec![if has_ends { VERSION_WITH_ENDS } else { VERSION }];
        out.extend_from_slice(&self.uuid);
        put_varint(&mut out, self.micros);
        put_bytes(&mut out, self.requester.as_bytes());
        put_bytes(&mut out, self.dn.as_bytes());
        put_varint(&mut out, self.parent.0);
        put_bytes(&mut out, self.rdn.as_bytes());
        put_varint(&mut out, u64::from(self.class_set.0));
        out.push(self.flags.0);
        put_list(&mut out, &self.values, |out, (attribute, values)| {
            put_varint(out, u64::from(attribute.0));
            put_list(out, values, put_value);
        });
        put_list(&mut out, &self.named_by, |out, NamedBy { attribute, vanished, sources, ends }| {
            put_varint(out, u64::from(attribute.0));
            out.push(u8::from(*vanished));
            put_list(out, sources, |out, id| put_varint(out, id.0));
            if has_ends {
                put_list(out, ends, |out, (id, until)| {
                    put_varint(out, id.0);
                    put_varint(out, *until);
                });
            }
        });
        if has_ends {
            put_list(&mut out, &self.ends, put_value_change);
        }
        out
    }

    /// Decodes a row; `None` if it is damaged or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Option<Tombstone> {
        let has_ends = bytes.first() == Some(&VERSION_WITH_ENDS);
        let mut decoder = Decoder(bytes);
        let head = Tombstone::take_head(&mut decoder)?;
        let values = decoder.list(|d| Some((AttrId(d.number()?), d.list(take_value)?)))?;
        let named_by = decoder.list(|d| {
            let (attribute, vanished) = (AttrId(d.number()?), d.byte()? != 0);
            let sources = d.list(|d| Some(EntryId(d.varint()?)))?;
            let ends = match has_ends {
                true => d.list(|d| Some((EntryId(d.varint()?), d.varint()?)))?,
                false => Vec::new(),
            };
            Some(NamedBy { attribute, vanished, sources, ends })
        })?;
        let ends = if has_ends { decoder.list(take_value_change)? } else { Vec::new() };
        decoder.is_empty().then_some(Tombstone { values, named_by, ends, ..head })
    }

    /// Decodes a row without its values and links; `None` if it is damaged or has an unknown version.
    pub fn decode_head(bytes: &[u8]) -> Option<Tombstone> {
        Tombstone::take_head(&mut Decoder(bytes))
    }

    fn take_head(decoder: &mut Decoder<'_>) -> Option<Tombstone> {
        if ![VERSION, VERSION_WITH_ENDS].contains(&decoder.byte()?) {
            return None;
        }
        Some(Tombstone {
            uuid: decoder.take(16)?.try_into().ok()?,
            micros: decoder.varint()?,
            requester: decoder.string()?,
            dn: decoder.string()?,
            parent: EntryId(decoder.varint()?),
            rdn: decoder.string()?,
            class_set: ClassSetId(decoder.number()?),
            flags: NodeFlags(decoder.byte()?),
            values: Vec::new(),
            ends: Vec::new(),
            named_by: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::record::ValueChangeKind;

    #[test]
    fn tombstones_round_trip_and_damage_never_panics() {
        let plain = Tombstone {
            uuid: [7; 16],
            micros: 1_700_000_000_000_001,
            requester: "cn=admin".to_owned(),
            dn: "cn=a,dc=b".to_owned(),
            parent: EntryId(3),
            rdn: "cn=a".to_owned(),
            class_set: ClassSetId(300),
            flags: NodeFlags(4),
            values: vec![(AttrId(5), vec![Value::Bytes(b"x".to_vec()), Value::Link(EntryId(9))])],
            ends: Vec::new(),
            named_by: vec![NamedBy {
                attribute: AttrId(6),
                vanished: true,
                sources: vec![EntryId(300)],
                ends: Vec::new(),
            }],
        };
        let (mut own, mut of_source) = (plain.clone(), plain.clone());
        let values = vec![Value::Link(EntryId(9))];
        own.ends.push(ValueChange { attribute: AttrId(5), kind: ValueChangeKind::Until(70), values });
        of_source.named_by[0].ends.push((EntryId(300), 1_798_761_600));
        for (tombstone, version) in [(plain, 1), (own, 2), (of_source, 2)] {
            let bytes = tombstone.encode();
            assert_eq!(bytes[0], version);
            assert_eq!(Tombstone::decode(&bytes).as_ref(), Some(&tombstone));
            for end in 0..bytes.len() {
                assert_eq!(Tombstone::decode(&bytes[..end]), None);
            }
            let (values, ends, named_by) = (Vec::new(), Vec::new(), Vec::new());
            let head = Tombstone { values, ends, named_by, ..tombstone };
            assert_eq!(Tombstone::decode_head(&bytes), Some(head));
        }
    }

    #[test]
    fn keys_sort_by_position_and_decode_to_their_place() {
        let place = |position, id| TombstonePlace { position, id: EntryId(id) };
        assert!(place(2, 900).key() < place(300, 1).key());
        assert_eq!(TombstonePlace::of_key(&place(300, 7).key()), Some(place(300, 7)));
        assert_eq!(TombstonePlace::of_key(&place(300, 7).uuid_key(&[1; 16])), None);
        assert!(place(300, 7).key().starts_with(&delete_prefix(300)));
        assert!(place(300, 7).uuid_key(&[1; 16]).starts_with(&uuid_prefix(&[1; 16])));
    }
}
