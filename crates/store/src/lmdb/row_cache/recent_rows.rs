//! The rows that batches have asked for last, so that asking again costs a look into a table.
//!
//! An operation asks for the same few rows several times: to decide, to apply, and to know whether what it writes was
//! there; and the next one asks for some of them again. So the writer's transaction remembers rows of maps without
//! sets, whatever their keys, and that there are none, from the first time on. The table is small enough for the
//! processor's caches. It belongs to one committed state and is empty in every other: what outlives commits is for
//! readers ([`RowCache`](super::known_rows::RowCache)), who come back to their rows after longer than from one fold to
//! the next.

use foldhash::fast::RandomState;

use super::key::{KeyWords, hash, key_words};
use super::packed::{ValueLocation, pack, unpack};
use super::table::{Table, WAYS};

/// Places of the table, 64 KiB of them: what the operations of a batch have in common fits many times over.
const PLACES: usize = 1 << 10;

/// In the place of offset and length: there is no row.
const NO_ROW: u64 = u64::MAX;

/// What a writer's transaction remembers.
///
/// A place is a line: generation and a part of the hash; address and length of the value; and the key, as in
/// `known_rows`. A key comes in at the first of its places that is free or at the last, and moves to the one before
/// when it is asked for again.
pub(crate) struct RecentRows {
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
pub(crate) struct NewKey {
    hash: u64,
    words: KeyWords,
}

impl RecentRows {
    pub(crate) fn new(txn_id: u64) -> RecentRows {
        let (table, hasher) = (Table::new(PLACES), RandomState::default());
        RecentRows { table, hasher, txn_id, generation: 1, stands: true }
    }

    /// The transaction is reset.
    pub(crate) fn suspend(&mut self) {
        self.stands = false;
    }

    /// The transaction reads the committed state of this number. If it is another one, everything is forgotten.
    pub(crate) fn resume(&mut self, txn_id: u64) {
        self.stands = true;
        if txn_id != self.txn_id {
            self.txn_id = txn_id;
            self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
                self.table = Table::new(PLACES);
                1
            });
        }
    }

    /// What is known of a row: where it lies or that there is none, or the key to remember it with. `None` for a key
    /// that cannot be remembered.
    #[inline]
    pub(crate) fn find(&mut self, map: usize, key: &[u8]) -> Option<Result<Option<ValueLocation>, NewKey>> {
        if !self.stands {
            return None;
        }
        let words = key_words(map, key)?;
        let hash = hash(&self.hasher, &words);
        let (tag, number) = (self.tag(hash), (hash >> 32) as usize);
        for way in 0..WAYS {
            let place = *self.table.place(number ^ way);
            if place[0] == tag && place[2..] == words {
                if way > 0 {
                    let before = std::mem::replace(self.table.place(number ^ (way - 1)), place);
                    *self.table.place(number ^ way) = before;
                }
                return Some(Ok((place[1] != NO_ROW).then(|| unpack(place[1]))));
            }
        }
        Some(Err(NewKey { hash, words }))
    }

    /// Remembers where a value lies, or that there is none.
    #[expect(clippy::cast_possible_truncation, reason = "a generation is the low half of its word")]
    pub(crate) fn remember(&mut self, key: &NewKey, value: Option<ValueLocation>) {
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
