//! Rows that were found before, so that asking for them again costs a look into a table instead of a walk down a tree.
//!
//! Two tables, for the two questions of a search by an indexed value. [`KnownIds`] knows the one id under a key, with the key beside it in one line of
//! memory. [`KnownRows`] knows where rows with numbers for keys lie: a committed page does not change while a reading transaction
//! stands, so the address is enough, 16 bytes a row whatever its size. On this kind of machine a look-up in the trees of a million entries costs
//! ten lines of memory that are not in the processor's caches, these one and two.
//!
//! Both are caches in the exact sense: what is in them changes no answer. Keys are compared in full; keys that want the same place, by accident
//! or by intent, push each other out and nothing more. They belong to a transaction and forget everything when it moves to another state.
//! One that moves often gains nothing, and does not pay either: remembering begins after [`PATIENCE`] look-ups in one state.

use std::hash::{BuildHasher, Hasher};
use std::ptr;

use foldhash::fast::RandomState;
use lmdb_master_sys as ffi;

/// Look-ups in one state of the store before anything is remembered.
const PATIENCE: u32 = 4096;

/// Places of the smallest table.
const PLACES_MIN: usize = 1 << 10;

/// Bytes of a table from which on huge pages are worth asking for.
const HUGE_PAGES_FROM: usize = 4 << 20;

/// Places at which a key can be.
const WAYS: usize = 4;

/// What a transaction remembers.
pub(super) struct Known {
    pub(super) ids: KnownIds,
    pub(super) rows: KnownRows,
    /// The committed state that all of it is about.
    txn_id: u64,
    /// Counts the states: a place of another one is empty. Never 0.
    generation: u32,
    /// Look-ups in this state, as far as it matters.
    asked: u32,
    /// Whether the transaction stands: while it is reset, pages may change.
    stands: bool,
}

impl Known {
    /// Tables of up to `bytes_max` bytes together. They begin small and grow with what they are asked.
    pub(super) fn new(bytes_max: usize, txn_id: u64) -> Known {
        Known {
            ids: KnownIds { table: Table::new(bytes_max / 4 * 3), hasher: RandomState::default() },
            rows: KnownRows { table: Table::new(bytes_max / 4) },
            txn_id,
            generation: 1,
            asked: 0,
            stands: true,
        }
    }

    /// The transaction is reset.
    pub(super) fn stand_by(&mut self) {
        self.stands = false;
    }

    /// The transaction reads the committed state of this number. If it is another one, everything is forgotten.
    pub(super) fn go_on(&mut self, txn_id: u64) {
        self.stands = true;
        if txn_id == self.txn_id {
            return;
        }
        self.txn_id = txn_id;
        self.asked = 0;
        self.ids.table.taken = 0;
        self.rows.table.taken = 0;
        self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
            self.ids.table.clear();
            self.rows.table.clear();
            1
        });
    }

    /// The generation to find and remember under; `None` where it is not the time for either.
    #[inline]
    pub(super) fn generation(&mut self) -> Option<u32> {
        if self.asked >= PATIENCE && self.stands {
            return Some(self.generation);
        }
        self.asked = self.asked.saturating_add(1);
        None
    }
}

/// Places of `WORDS` words each, in a number that is a power of two. The low half of the first word is the generation. All zeroes at first.
struct Table<const WORDS: usize> {
    words: Vec<u64>,
    /// The first word that begins a line of memory, so that no place lies in two of them.
    start: usize,
    place_count: usize,
    place_count_max: usize,
    /// Places taken in this state.
    taken: usize,
}

impl<const WORDS: usize> Table<WORDS> {
    /// Words of a line of memory.
    const LINE: usize = 8;

    fn new(bytes_max: usize) -> Table<WORDS> {
        let place_count_max = 1 << (bytes_max / (WORDS * 8)).max(WAYS).ilog2();
        let mut table = Table { words: Vec::new(), start: 0, place_count: 0, place_count_max, taken: 0 };
        table.resize(PLACES_MIN.min(place_count_max));
        table
    }

    fn resize(&mut self, place_count: usize) {
        self.words = vec![0; place_count * WORDS + Self::LINE];
        self.start = self.words.as_ptr().align_offset(Self::LINE * 8).min(Self::LINE);
        self.place_count = place_count;
        self.taken = 0;
        self.ask_for_huge_pages();
    }

    /// Look-ups go all over the table: with pages of 4 KiB the processor would look up an address besides for each. No harm if the
    /// system declines.
    fn ask_for_huge_pages(&mut self) {
        const PAGE: usize = 4096;
        let table = self.words.as_mut_ptr_range();
        let start = table.start.map_addr(|address| address.next_multiple_of(PAGE));
        let len = table.end.addr().saturating_sub(start.addr()) & !(PAGE - 1);
        if len >= HUGE_PAGES_FROM {
            // SAFETY: the range is whole pages of the vector's own memory, and the advice changes no content.
            let _ = unsafe { rustix::mm::madvise(start.cast(), len, rustix::mm::Advice::LinuxHugepage) };
        }
    }

    /// Makes room, forgetting everything, if more than so many eighths of the places are taken.
    fn grow_if_full(&mut self, eighths: usize) {
        if self.taken > self.place_count / 8 * eighths && self.place_count < self.place_count_max {
            self.resize((self.place_count * 4).min(self.place_count_max));
        }
    }

    fn clear(&mut self) {
        self.words.fill(0);
    }

    #[inline]
    fn place(&mut self, number: usize) -> &mut [u64; WORDS] {
        let start = self.start + (number & (self.place_count - 1)) * WORDS;
        let place = &mut self.words[start..start + WORDS];
        place.try_into().unwrap_or_else(|_| unreachable!("a slice of that length"))
    }
}

/// The keys of id set maps that have one id.
///
/// A place is a line: generation and a part of the hash; the id; and the key, behind its length and map, zeroes behind it. A key is at
/// one of [`WAYS`] neighbouring places. It comes in at the first that is free or at the last, and moves to the one before when it is asked for again, so
/// keys that are asked for once do not push out those that are asked for often. With two places, 500 keys in 1,024 of them missed one look-up of five.
pub(super) struct KnownIds {
    table: Table<8>,
    hasher: RandomState,
}

/// A key as it stands in a place: up to 45 bytes.
type KeyWords = [u64; 6];

/// A key that is not known, as it is to be remembered.
pub(crate) struct NewKey {
    hash: u64,
    words: KeyWords,
}

impl KnownIds {
    /// The id under `key`, or what is to be remembered with it; `None` for a key that cannot be.
    #[inline]
    pub(super) fn find(&mut self, generation: u32, map: usize, key: &[u8]) -> Option<Result<u64, NewKey>> {
        let words = key_words(map, key)?;
        let hash = self.hash(&words);
        let tag = tag(generation, hash);
        let number = (hash >> 32) as usize;
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

    /// Remembers the one id under a key.
    pub(super) fn remember(&mut self, generation: u32, key: &NewKey, id: u64) {
        self.table.grow_if_full(4);
        let number = (key.hash >> 32) as usize;
        let free = (0..WAYS).find(|way| self.table.place(number ^ way)[0] as u32 != generation);
        self.table.taken += usize::from(free.is_some());
        let place = self.table.place(number ^ free.unwrap_or(WAYS - 1));
        place[0] = tag(generation, key.hash);
        place[1] = id;
        place[2..].copy_from_slice(&key.words);
    }

    fn hash(&self, words: &KeyWords) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        words.iter().for_each(|word| hasher.write_u64(*word));
        hasher.finish()
    }
}

#[inline]
fn tag(generation: u32, hash: u64) -> u64 {
    u64::from(generation) | hash << 32
}

#[inline]
fn key_words(map: usize, key: &[u8]) -> Option<KeyWords> {
    let mut bytes = [0; size_of::<KeyWords>()];
    let room = bytes.get_mut(3..3 + key.len())?;
    room.copy_from_slice(key);
    bytes[0] = key.len() as u8;
    bytes[1..3].copy_from_slice(&u16::try_from(map).ok()?.to_ne_bytes());
    let (words, _) = bytes.as_chunks::<8>();
    let mut key_words = [0; 6];
    for (word, bytes) in key_words.iter_mut().zip(words) {
        *word = u64::from_ne_bytes(*bytes);
    }
    Some(key_words)
}

/// Where the rows of numbered keys lie.
///
/// A place is two words: generation and, of the number and the map, what does not follow from the place; the address of the value and its length.
/// Numbers that follow each other have places that do.
pub(super) struct KnownRows {
    table: Table<2>,
}

/// Bits of an address, and of a length that fits beside it.
const ADDRESS_BITS: u32 = 48;
const VALUE_LEN_MAX: usize = u16::MAX as usize;

/// Maps that are told apart: the lowest bits of what is remembered.
const MAPS_MAX: usize = 8;

impl KnownRows {
    /// Where the value of `key` lies, if that is known.
    ///
    /// # Safety
    /// The values remembered under this generation lie where they did.
    #[inline]
    pub(super) unsafe fn find(&mut self, generation: u32, map: usize, key: u64) -> Option<ffi::MDB_val> {
        let tag = self.tag(generation, map, key)?;
        let place = self.table.place(place_number(map, key));
        if place[0] != tag {
            return None;
        }
        let address = place[1] & ((1 << ADDRESS_BITS) - 1);
        let value = ptr::with_exposed_provenance_mut(address as usize);
        Some(ffi::MDB_val { mv_size: (place[1] >> ADDRESS_BITS) as usize, mv_data: value })
    }

    /// Has the processor fetch the place of `key`, which is about to be asked for.
    #[inline]
    pub(super) fn fetch_place(&mut self, key: u64) {
        fetch(self.table.place(place_number(0, key)).as_ptr().cast());
    }

    /// Has the processor fetch the value of `key`, which is about to be read, if it is known where that lies.
    ///
    /// # Safety
    /// As of [`find`](KnownRows::find).
    #[inline]
    pub(super) unsafe fn fetch_value(&mut self, generation: u32, map: usize, key: u64) {
        // SAFETY: the contract of this function.
        if let Some(value) = unsafe { self.find(generation, map, key) } {
            fetch(value.mv_data.cast());
        }
    }

    /// Remembers where the value of `key` lies.
    pub(super) fn remember(&mut self, generation: u32, map: usize, key: u64, value: &[u8]) {
        // Half of them where one map is asked only.
        self.table.grow_if_full(3);
        let address = value.as_ptr().expose_provenance() as u64;
        let fits = value.len() <= VALUE_LEN_MAX && address >> ADDRESS_BITS == 0;
        let Some(tag) = self.tag(generation, map, key).filter(|_| fits) else { return };
        let place = self.table.place(place_number(map, key));
        let was_free = place[0] as u32 != generation;
        *place = [tag, address | (value.len() as u64) << ADDRESS_BITS];
        self.table.taken += usize::from(was_free);
    }

    /// Says, with the number of the place, which map and key. `None` where the place is too small to say it.
    #[inline]
    fn tag(&self, generation: u32, map: usize, key: u64) -> Option<u64> {
        let rest = key >> (self.table.place_count.ilog2() - 1);
        if map >= MAPS_MAX || rest >= (1 << 32) / MAPS_MAX as u64 {
            return None;
        }
        Some(u64::from(generation) | (rest * MAPS_MAX as u64 + map as u64) << 32)
    }
}

/// Asks the processor to have the line at an address at hand soon. Reads nothing, so any address will do.
#[inline]
pub(super) fn fetch(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of every x86-64 and has no effect but on caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Rows of one number in two maps, as an entry has them, are neighbours.
#[inline]
fn place_number(map: usize, key: u64) -> usize {
    (key as usize) << 1 | (map & 1)
}
