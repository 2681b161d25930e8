//! Sorters of rows (by map and key) and of names (by normal DN), and the encoding of sorted rows and names.
//!
//! A key in the sorter of rows is the map's number followed by the row's key, so that one pass visits the maps one
//! after another. The value for an id set is a block of ids (see [`super::id_blocks`]). The value for a counter is a
//! difference. All differences under one key are added.
//!
//! Keys in the sorter of names are normal DNs. Under each DN, the entries with the name come first, in the order of
//! ids. The links with the name follow. The entryUUIDs of all entries precede all names, so that duplicates are known
//! when names are resolved.

use std::path::Path;

use store::{MapId, MapKind, Sorted, Sorter};
use uuid::Uuid;

use super::id_blocks::IdCollector;
use crate::model::rows::{AttrId, DUE, ENDS, EntryId, MAPS, NodeFlags, map_number, map_spec};
use crate::model::value_end::{EndingValue, due_keys};
use crate::tree::structure::Placed;

type Result<T> = std::result::Result<T, store::StoreError>;

/// Number that replaces the map number in the key of a counter. This number is higher than all map numbers.
const COUNTERS: u8 = u8::MAX;

/// Size of a block of sorted rows, in bytes.
pub const ROW_BLOCK_SIZE: usize = 512 << 10;

/// The sorter of names gets one third of a preparer's memory. An entry has one name, and only a few index rows that are
/// not collected in blocks.
const NAMES_SHARE: usize = 3;

/// The table of frequent keys gets one eighth of the memory for rows.
const GATHERED_SHARE: usize = 8;

/// The two sorters of a preparer.
pub struct Sorters {
    /// Rows of all maps except `nodes` and `entries`.
    pub rows: Rows,
    /// Names of entries and links.
    pub names: Names,
}

impl Sorters {
    /// Returns sorters that together use `memory` bytes, with their files in `directory`.
    pub fn new(directory: &Path, memory: usize) -> Sorters {
        let names = memory / NAMES_SHARE;
        Sorters { rows: Rows::new(directory, memory - names), names: Names(Sorter::new(directory, names)) }
    }

    /// Sorts the whole content on this thread, so that merging is faster.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn settle(&mut self) -> Result<()> {
        self.rows.settle()?;
        self.names.0.settle()
    }
}

/// Sorter of rows by map and key.
pub struct Rows {
    sorter: Sorter,
    collector: IdCollector,
    key: Vec<u8>,
}

impl Rows {
    /// Returns a sorter that uses `memory` bytes, with its files in `directory`.
    pub fn new(directory: &Path, memory: usize) -> Rows {
        let gathered = memory / GATHERED_SHARE;
        Rows {
            sorter: Sorter::new(directory, memory - gathered),
            collector: IdCollector::new(gathered),
            key: Vec::new(),
        }
    }

    /// Adds an id under a key of an id set.
    pub(in crate::maintenance) fn id(&mut self, map: MapId, key: &[u8], id: EntryId) -> Result<()> {
        self.id_with(map, id, |out| out.extend_from_slice(key))
    }

    /// Like [`id`](Rows::id). `put_key` appends the key.
    pub(super) fn id_with(
        &mut self,
        map: MapId,
        id: EntryId,
        put_key: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        debug_assert_eq!(map_spec(map).kind, MapKind::IdSet);
        self.set_key(map_number(map), &[]);
        put_key(&mut self.key);
        let Rows { sorter, collector, key } = self;
        collector.push(key, id.0, &mut |key, block| sorter.push(key, block))
    }

    /// Adds a row of a plain map.
    pub(super) fn plain(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert_eq!(map_spec(map).kind, MapKind::Plain);
        self.push(map_number(map), key, value)
    }

    /// Adds the rows of a value's end time. Does nothing if `until` is 0, which means no end time.
    pub(super) fn end(
        &mut self,
        (source, attribute): (EntryId, AttrId),
        value: EndingValue<'_>,
        until: u64,
    ) -> Result<()> {
        if until == 0 {
            return Ok(());
        }
        let (key, row) = (value.key(source, attribute), until.to_be_bytes());
        self.plain(ENDS, &key, &row)?;
        due_keys(&key, until).try_for_each(|due| self.plain(DUE, &due, &row))
    }

    /// Adds a difference to a counter.
    pub(super) fn count(&mut self, key: &[u8], difference: i64) -> Result<()> {
        self.push(COUNTERS, key, &difference.to_be_bytes())
    }

    fn push(&mut self, map: u8, key: &[u8], value: &[u8]) -> Result<()> {
        self.set_key(map, key);
        self.sorter.push(&self.key, value)
    }

    fn set_key(&mut self, map: u8, key: &[u8]) {
        self.key.clear();
        self.key.push(map);
        self.key.extend_from_slice(key);
    }

    fn settle(&mut self) -> Result<()> {
        let Rows { sorter, collector, .. } = self;
        collector.finish(&mut |key, block| sorter.push(key, block))?;
        sorter.settle()
    }
}

/// All rows, or all names, in sorted order. Merging takes about as long as processing the merged rows, so merging and
/// processing may run on separate threads.
pub struct SortedRows {
    sorted: Sorted,
}

impl SortedRows {
    /// Merges the rows of several sorters.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn merge(mut rows: Vec<Rows>) -> Result<SortedRows> {
        rows.iter_mut().try_for_each(Rows::settle)?;
        let sorted = Sorter::merge(rows.into_iter().map(|rows| rows.sorter).collect())?;
        Ok(SortedRows { sorted })
    }

    /// Merges the names of several sorters.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn merge_names(names: Vec<Names>) -> Result<SortedRows> {
        let sorted = Sorter::merge(names.into_iter().map(|names| names.0).collect())?;
        Ok(SortedRows { sorted })
    }

    /// Returns the next block of rows; `None` after the last.
    ///
    /// # Errors
    /// The disk failed.
    pub fn next_block(&mut self) -> Result<Option<RowBlock>> {
        let mut block = RowBlock { bytes: Vec::with_capacity(ROW_BLOCK_SIZE), ends: Vec::new() };
        while block.bytes.len() < ROW_BLOCK_SIZE {
            let Some((key, value)) = self.sorted.next()? else { break };
            block.bytes.extend_from_slice(key);
            let key_end = block.bytes.len();
            block.bytes.extend_from_slice(value);
            block.ends.push((key_end, block.bytes.len()));
        }
        Ok((!block.ends.is_empty()).then_some(block))
    }
}

/// A block of concatenated rows.
pub struct RowBlock {
    bytes: Vec<u8>,
    /// For each row, the end of its key and the end of its value.
    pub(super) ends: Vec<(usize, usize)>,
}

impl RowBlock {
    /// Returns the rows as pairs of key and value.
    #[expect(clippy::indexing_slicing, reason = "the ends are those of the bytes, in their order")]
    pub(in crate::maintenance) fn rows(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(key_end, end)| {
            let row = (&self.bytes[start..key_end], &self.bytes[key_end..end]);
            start = end;
            row
        })
    }
}

/// Destination of a sorted row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::maintenance) enum Destination {
    /// A row of this map.
    Map(MapId),
    /// A counter.
    Counters,
}

/// Splits the key of a sorted row into the destination and the rest of the key. Returns `None` if the first octet names
/// no destination.
pub(in crate::maintenance) fn destination(key: &[u8]) -> Option<(Destination, &[u8])> {
    let (&map, key) = key.split_first()?;
    match map {
        COUNTERS => Some((Destination::Counters, key)),
        map => (usize::from(map) < MAPS.len()).then_some((Destination::Map(MapId::new(map.into())), key)),
    }
}

/// Sorter of names by normal DN.
pub struct Names(pub(super) Sorter);

const ENTRY: u8 = 0;
const LINK: u8 = 1;
const UUID: u8 = 2;
const ENDING_LINK: u8 = 3;

/// First byte of the key of an entryUUID. Normal DNs begin with the size of an OID. This size is never zero, so
/// entryUUIDs precede all names.
const UUID_KEY: u8 = 0;

/// Use of a name in the sorter of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameUse<'a> {
    /// Name of an entry.
    Entry {
        /// Id of the entry.
        id: EntryId,
        /// Flags: alias, referral, subentry.
        flags: NodeFlags,
        /// Start of the entry's own RDN in the normal DN.
        rdn_start: usize,
        /// The entry's [`Placed`] in encoded form, if the schema has name forms.
        placed: &'a [u8],
    },
    /// Name in a value of a link attribute.
    Link {
        /// The attribute.
        attribute: AttrId,
        /// Entry that has the value.
        source: EntryId,
        /// The value.
        text: &'a [u8],
        /// End time of the value in seconds since 1970; 0 for none.
        until: u64,
    },
    /// The entryUUID of an entry. An entryUUID is not a name, but is sorted with the names.
    Uuid {
        /// Id of the entry.
        id: EntryId,
    },
}

impl Names {
    pub(super) fn entry(
        &mut self,
        normal_dn: &[u8],
        id: EntryId,
        flags: NodeFlags,
        rdn_start: usize,
        placed: Option<&Placed>,
    ) -> Result<()> {
        let mut value = [ENTRY; 14];
        value[1..9].copy_from_slice(&id.0.to_be_bytes());
        value[9] = flags.0;
        #[expect(clippy::cast_possible_truncation, reason = "a DN is far shorter than 4 GiB")]
        value[10..].copy_from_slice(&(rdn_start as u32).to_be_bytes());
        match placed {
            None => self.0.push(normal_dn, &value),
            Some(placed) => {
                let mut value = value.to_vec();
                placed.encode(&mut value);
                self.0.push(normal_dn, &value)
            }
        }
    }

    /// Adds the entryUUID of an entry.
    pub(super) fn uuid(&mut self, uuid: Uuid, id: EntryId) -> Result<()> {
        let mut key = [UUID_KEY; 17];
        key[1..].copy_from_slice(uuid.as_bytes());
        let mut value = [UUID; 9];
        value[1..].copy_from_slice(&id.0.to_be_bytes());
        self.0.push(&key, &value)
    }

    pub(super) fn link(
        &mut self,
        normal_dn: &[u8],
        (source, attribute): (EntryId, AttrId),
        text: &[u8],
        until: u64,
    ) -> Result<()> {
        let mut value = Vec::with_capacity(13 + text.len());
        value.push(if until > 0 { ENDING_LINK } else { LINK });
        value.extend_from_slice(&attribute.0.to_be_bytes());
        value.extend_from_slice(&source.0.to_be_bytes());
        if until > 0 {
            value.extend_from_slice(&until.to_be_bytes());
        }
        value.extend_from_slice(text);
        self.0.push(normal_dn, &value)
    }
}

impl<'a> NameUse<'a> {
    /// Decodes a value of the sorter. Returns `None` if [`Names`] did not write the value.
    pub(super) fn decode(value: &'a [u8]) -> Option<NameUse<'a>> {
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
        let short = |bytes: &[u8]| bytes.try_into().map(u32::from_be_bytes).ok();
        match *value.first()? {
            ENTRY => Some(NameUse::Entry {
                id: EntryId(number(value.get(1..9)?)?),
                flags: NodeFlags(*value.get(9)?),
                rdn_start: short(value.get(10..14)?)? as usize,
                placed: value.get(14..)?,
            }),
            LINK => Some(NameUse::Link {
                attribute: AttrId(short(value.get(1..5)?)?),
                source: EntryId(number(value.get(5..13)?)?),
                text: value.get(13..)?,
                until: 0,
            }),
            ENDING_LINK => Some(NameUse::Link {
                attribute: AttrId(short(value.get(1..5)?)?),
                source: EntryId(number(value.get(5..13)?)?),
                until: number(value.get(13..21)?)?,
                text: value.get(21..)?,
            }),
            UUID => Some(NameUse::Uuid { id: EntryId(number(value.get(1..9)?)?) }),
            _ => None,
        }
    }
}
