//! [`Table`], the slots of cached rows, and [`GrowingTable`], a table that grows as it fills.
//!
//! Allocating a table of a hundred megabytes takes about a tenth of a second, during which an event loop could serve no
//! client. So a separate thread allocates it while the loop continues with the smaller table. Rows of the smaller table
//! are copied when they are requested, so growing causes no additional tree descents. While both tables exist, they
//! occupy at most a quarter more than the larger one alone.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

/// Number of slots of a table that a key may use.
pub(crate) const SLOTS_PER_KEY: usize = 4;

/// Number of slots of the smallest table.
const PLACES_MIN: usize = 1 << 10;

/// Size in bytes from which a table is allocated by a separate thread.
const LARGE: usize = 4 << 20;

/// Niceness of the thread that allocates a table. The niceness is high, so that the thread does not delay threads that
/// serve clients.
const NICENESS: i32 = 19;

/// Number of look-ups, per slot of the smaller table, after which the smaller table is dropped.
const LOOKS_PER_PLACE: usize = 2;

/// Slots of `WORDS` words each; their number is a power of two. The low half of the first word is the stamp. Initially
/// all zeroes.
pub(crate) struct Table<const WORDS: usize> {
    words: Vec<u64>,
    /// Index of the first word that begins a cache line, so that no slot spans two cache lines.
    start: usize,
    place_count: usize,
    /// Number of slots taken since all rows were last evicted.
    pub(crate) used_slots: usize,
}

impl<const WORDS: usize> Table<WORDS> {
    /// Words of a cache line.
    const LINE: usize = 8;

    /// Creates a table of `place_count` slots, rounded down to a power of two.
    pub(crate) fn new(place_count: usize) -> Table<WORDS> {
        let place_count = 1 << place_count.max(1).ilog2();
        let mut words = vec![0; place_count * WORDS + Self::LINE];
        let start = words.as_ptr().align_offset(Self::LINE * 8).min(Self::LINE);
        system::ask_for_huge_pages(&mut words);
        Table { words, start, place_count, used_slots: 0 }
    }

    pub(crate) fn place_count(&self) -> usize {
        self.place_count
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the low bits of a number select a slot of the table")]
    pub(crate) fn place(&mut self, number: usize) -> &mut [u64; WORDS] {
        let start = self.start + (number & (self.place_count - 1)) * WORDS;
        let place = &mut self.words[start..start + WORDS];
        place.try_into().unwrap_or_else(|_| unreachable!("a slice of that length"))
    }

    /// Writes to all of the memory, which the system otherwise allocates page by page at the first use. Yields after
    /// every 2 MiB; otherwise the scheduler would run other threads only at its next tick, some milliseconds later.
    fn take_memory(&mut self) {
        const PAGE_WORDS: usize = 512;
        for pages in self.words.chunks_mut(512 * PAGE_WORDS) {
            for word in pages.iter_mut().step_by(PAGE_WORDS) {
                *std::hint::black_box(word) = 0;
            }
            thread::yield_now();
        }
    }
}

/// A table that grows, up to a limit, when more than a given part of its slots is taken.
pub(crate) struct GrowingTable<const WORDS: usize> {
    pub(crate) table: Table<WORDS>,
    /// The previous table, while rows may be missing from the new table.
    before: Option<Before<WORDS>>,
    /// Receiver of a larger table that is being allocated.
    coming: Option<Receiver<Table<WORDS>>>,
    place_count_max: usize,
}

struct Before<const WORDS: usize> {
    table: Table<WORDS>,
    lookups_left: usize,
}

impl<const WORDS: usize> GrowingTable<WORDS> {
    /// Creates a table that grows up to `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> GrowingTable<WORDS> {
        let place_count_max = 1 << (bytes_max / (WORDS * 8)).max(SLOTS_PER_KEY).ilog2();
        let table = Table::new(PLACES_MIN.min(place_count_max));
        GrowingTable { table, before: None, coming: None, place_count_max }
    }

    /// Evicts all rows.
    pub(crate) fn forget(&mut self) {
        self.table.used_slots = 0;
        self.before = None;
    }

    /// Returns true if there is a previous table.
    #[inline]
    pub(crate) fn has_before(&self) -> bool {
        self.before.is_some()
    }

    /// Returns the previous table, for rows that the present table lacks. The previous table is dropped after a number
    /// of look-ups.
    pub(crate) fn before(&mut self) -> Option<&mut Table<WORDS>> {
        let lookups_left = self.before.as_ref()?.lookups_left.checked_sub(1);
        if lookups_left.is_none() {
            self.before = None;
        }
        let before = self.before.as_mut()?;
        before.lookups_left = lookups_left?;
        Some(&mut before.table)
    }

    /// Grows if more than `eighths` eighths of the slots are taken.
    #[inline]
    pub(crate) fn grow_if_full(&mut self, eighths: usize) {
        if self.is_full(eighths) && self.table.place_count < self.place_count_max {
            self.grow();
        }
    }

    /// Returns true if more than `eighths` eighths of the slots are taken.
    #[inline]
    pub(crate) fn is_full(&self, eighths: usize) -> bool {
        self.table.used_slots > self.table.place_count / 8 * eighths
    }

    #[cold]
    fn grow(&mut self) {
        let place_count = (self.table.place_count * 4).min(self.place_count_max);
        let larger = match &self.coming {
            Some(coming) => match coming.try_recv() {
                Ok(table) => table,
                Err(TryRecvError::Empty) => return,
                // The thread ended without a table, perhaps for lack of memory. The present table stays in use.
                Err(TryRecvError::Disconnected) => {
                    self.coming = None;
                    self.place_count_max = self.table.place_count;
                    return;
                }
            },
            None if place_count * WORDS * 8 < LARGE => Table::new(place_count),
            None => match allocate_in_background(place_count) {
                Some(coming) => {
                    self.coming = Some(coming);
                    return;
                }
                None => Table::new(place_count),
            },
        };
        self.coming = None;
        let table = std::mem::replace(&mut self.table, larger);
        self.before = Some(Before { lookups_left: table.place_count * LOOKS_PER_PLACE, table });
    }

    #[cfg(test)]
    pub(crate) fn forget_before(&mut self) {
        self.before = None;
    }

    /// Waits until the table that is being allocated is ready.
    #[cfg(test)]
    fn wait(&mut self) {
        if let Some(coming) = self.coming.take() {
            let (sender, receiver) = sync_channel(1);
            sender.send(coming.recv().unwrap()).unwrap();
            self.coming = Some(receiver);
        }
    }
}

/// Allocates a table, with all of its memory, on a thread. `None` if no thread can be started.
fn allocate_in_background<const WORDS: usize>(place_count: usize) -> Option<Receiver<Table<WORDS>>> {
    let (sender, receiver) = sync_channel(1);
    let make = move || {
        // If the system refuses the niceness, this thread delays threads that serve clients more often.
        let _ = system::set_thread_niceness(NICENESS);
        let mut table = Table::new(place_count);
        table.take_memory();
        // The transaction that requested the table may have ended.
        let _ = sender.send(table);
    };
    thread::Builder::new().name("store-table".to_owned()).spawn(make).ok().map(|_| receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a slot in the same way as caching a row.
    fn take_slot(growing: &mut GrowingTable<2>, number: usize) {
        growing.grow_if_full(4);
        let was = std::mem::replace(growing.table.place(number), [1, number as u64]);
        growing.table.used_slots += usize::from(was[0] == 0);
    }

    #[test]
    fn slots_begin_at_cache_lines() {
        for place_count in [1, 2, 1000, 1024, LARGE / 64] {
            let mut table: Table<8> = Table::new(place_count);
            assert_eq!(table.place_count(), 1 << place_count.ilog2());
            for number in [0, 1, place_count - 1, usize::MAX] {
                assert_eq!(table.place(number).as_ptr().addr() % 64, 0);
            }
            table.take_memory();
            assert!(table.words.iter().all(|word| *word == 0));
        }
    }

    #[test]
    fn a_growing_table_reads_the_smaller_one_for_a_while() {
        let mut growing: GrowingTable<2> = GrowingTable::new(1 << 20);
        assert!(growing.before().is_none());
        (0..513).for_each(|number| take_slot(&mut growing, number));
        assert_eq!((growing.table.place_count(), growing.table.used_slots), (1024, 513));
        take_slot(&mut growing, 600);
        assert_eq!((growing.table.place_count(), growing.table.used_slots), (4096, 1));
        assert_eq!(growing.before().map(|before| *before.place(512)), Some([1, 512]));
        let looks = (0..).take_while(|_| growing.before().is_some()).count();
        assert_eq!(looks, 1024 * LOOKS_PER_PLACE - 1);
        (0..40_000).for_each(|number| take_slot(&mut growing, number));
        assert_eq!(growing.table.place_count(), 1 << 16, "the bound");
        assert!(growing.before().is_some());
        growing.forget();
        assert!(growing.before().is_none());
        assert_eq!(growing.table.used_slots, 0);
    }

    #[test]
    fn a_large_table_is_allocated_by_another_thread() {
        let mut growing: GrowingTable<2> = GrowingTable::new(LARGE);
        let places = growing.place_count_max;
        let mut number = 0;
        while growing.coming.is_none() {
            take_slot(&mut growing, number);
            number += 1;
        }
        assert!(growing.table.place_count() < places);
        growing.wait();
        take_slot(&mut growing, number);
        assert_eq!((growing.table.place_count(), growing.table.used_slots), (places, 1));
        assert_eq!(growing.before().map(|before| *before.place(number - 1)), Some([1, number as u64 - 1]));
    }

    #[test]
    fn continues_without_a_table_that_cannot_be_allocated() {
        let mut growing: GrowingTable<2> = GrowingTable::new(LARGE);
        let (sender, receiver) = sync_channel(1);
        growing.coming = Some(receiver);
        drop(sender);
        (0..5_000).for_each(|number| take_slot(&mut growing, number));
        assert_eq!(growing.table.place_count(), PLACES_MIN);
    }
}
