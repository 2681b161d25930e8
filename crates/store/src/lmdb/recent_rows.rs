//! The rows that batches have asked for last, so that asking again costs a look into a table.
//!
//! An operation asks for the same few rows several times: to decide, to apply, and to know whether what it writes was
//! there; and the next one asks for some of them again. So the writer's transaction remembers rows of maps without
//! sets, whatever their keys, and that there are none, from the first time on. The table is small enough for the
//! processor's caches. It belongs to one committed state and is empty in every other: what outlives commits is for
//! readers ([`Known`](super::known_rows::Known)), who come back to their rows after longer than from one fold to the
//! next.

use std::ptr;

use foldhash::fast::RandomState;
use lmdb_master_sys as ffi;

use super::known_rows::{KeyWords, key_words};
use super::table::Table;
use super::{Result, Txn, bytes_of, moved};

/// Places of the table, 64 KiB of them: what the operations of a batch have in common fits many times over.
const PLACES: usize = 1 << 10;

/// Places at which a key can be.
const WAYS: usize = 4;

/// Bits of an address, and of a length that fits beside it.
const ADDRESS_BITS: u32 = 48;
const VALUE_LEN_MAX: usize = u16::MAX as usize;

/// In the place of address and length: there is no row.
const NO_ROW: u64 = u64::MAX;

/// What a writer's transaction remembers.
///
/// A place is a line: generation and a part of the hash; address and length of the value; and the key, as in
/// `known_rows`. A key comes in at the first of its places that is free or at the last, and moves to the one before
/// when it is asked for again.
pub(super) struct RecentRows {
    table: Table<8>,
    hasher: RandomState,
    /// The committed state that all of it is about.
    txn_id: u64,
    /// Counts the states: a place of another one is empty. Never 0.
    generation: u32,
    /// Whether the transaction stands: while it is reset, pages may change.
    stands: bool,
}

/// A key that is not known, as it is to be remembered.
struct NewKey {
    hash: u64,
    words: KeyWords,
}

impl RecentRows {
    pub(super) fn new(txn_id: u64) -> RecentRows {
        let (table, hasher) = (Table::new(PLACES), RandomState::default());
        RecentRows { table, hasher, txn_id, generation: 1, stands: true }
    }

    /// The transaction is reset.
    pub(super) fn stand_by(&mut self) {
        self.stands = false;
    }

    /// The transaction reads the committed state of this number. If it is another one, everything is forgotten.
    pub(super) fn go_on(&mut self, txn_id: u64) {
        self.stands = true;
        if txn_id != self.txn_id {
            self.txn_id = txn_id;
            self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
                self.table = Table::new(PLACES);
                1
            });
        }
    }

    /// What is known of a row: its place in one word, or the key to remember it with. `None` for a key that cannot be
    /// remembered.
    #[inline]
    fn find(&mut self, map: usize, key: &[u8]) -> Option<std::result::Result<u64, NewKey>> {
        if !self.stands {
            return None;
        }
        let words = key_words(map, key)?;
        let hash = moved::hash(&self.hasher, &words);
        let (tag, number) = (self.tag(hash), (hash >> 32) as usize);
        for way in 0..WAYS {
            let place = *self.table.place(number ^ way);
            if place[0] == tag && place[2..] == words {
                if way > 0 {
                    let before = std::mem::replace(self.table.place(number ^ (way - 1)), place);
                    *self.table.place(number ^ way) = before;
                }
                return Some(Ok(place[1]));
            }
        }
        Some(Err(NewKey { hash, words }))
    }

    /// Remembers where a value lies, or that there is none.
    fn remember(&mut self, key: &NewKey, value: Option<&[u8]>) {
        let Some(packed) = value.map_or(Some(NO_ROW), pack) else { return };
        let number = (key.hash >> 32) as usize;
        let free = (0..WAYS).find(|way| self.table.place(number ^ way)[0] as u32 != self.generation);
        let tag = self.tag(key.hash);
        let place = self.table.place(number ^ free.unwrap_or(WAYS - 1));
        (place[0], place[1]) = (tag, packed);
        place[2..].copy_from_slice(&key.words);
    }

    fn tag(&self, hash: u64) -> u64 {
        u64::from(self.generation) | hash << 32
    }
}

/// Address and length of a value in one word; `None` where they do not fit.
fn pack(value: &[u8]) -> Option<u64> {
    let address = value.as_ptr().expose_provenance() as u64;
    let fits = value.len() <= VALUE_LEN_MAX && address >> ADDRESS_BITS == 0;
    fits.then_some(address | (value.len() as u64) << ADDRESS_BITS)
}

impl Txn {
    /// Of a reading transaction that batches are made over: remembers a little of what it is asked.
    pub(crate) fn remember_recent_rows(&mut self) {
        self.recent = Some(RecentRows::new(self.id()).into());
    }

    /// As [`get`](Txn::get), where [`RecentRows`] may know.
    pub(super) fn get_recent(&self, map: usize, key: &[u8]) -> Result<Option<&[u8]>> {
        let Some(recent) = &self.recent else { return self.get_from_tree(map, key) };
        let mut recent = recent.borrow_mut();
        let new = match recent.find(map, key) {
            Some(Ok(NO_ROW)) => return Ok(None),
            Some(Ok(packed)) => {
                let address = (packed & ((1 << ADDRESS_BITS) - 1)) as usize;
                let (mv_size, mv_data) =
                    ((packed >> ADDRESS_BITS) as usize, ptr::with_exposed_provenance_mut(address));
                // SAFETY: only what this transaction has read is remembered, just below, and found in the same
                // committed state only. There it stays where it is: until the transaction is reset, and on when it is
                // renewed to that state, which has been the newest all the while; `stand_by` and `go_on` see to that.
                // The value borrows from `self` as that of any read does.
                return Ok(Some(unsafe { bytes_of(ffi::MDB_val { mv_size, mv_data }) }));
            }
            Some(Err(new)) => new,
            None => return self.get_from_tree(map, key),
        };
        let value = self.get_from_tree(map, key)?;
        recent.remember(&new, value);
        Ok(value)
    }
}
