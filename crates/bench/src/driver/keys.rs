//! Keys of requests. They are used in sequence, at random, or each once in random order. If the workload requires it,
//! threads divide the keys so that no two clients use the same key.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::data::KeyData;
use super::pattern::Key;
use crate::Seeded;
use crate::workload::KeyOrder;

/// Number of keys that a thread takes from a shared sequence at a time.
const BLOCK: u64 = 32;

/// Sequence of the positions of keys, `0..count`. All threads with the same operation share it.
#[derive(Debug)]
pub(crate) struct KeySequence {
    order: KeyOrder,
    first: u64,
    count: u64,
    seed: u64,
    drawn: AtomicU64,
}

impl KeySequence {
    /// Creates a sequence of the keys at these positions. `seed` determines the order if it is random.
    pub(crate) fn part(order: KeyOrder, positions: Range<u64>, seed: u64) -> KeySequence {
        let count = (positions.end - positions.start).max(1);
        KeySequence { order, first: positions.start, count, seed, drawn: AtomicU64::new(0) }
    }

    /// Returns the number of times that threads have drawn the whole sequence of keys; 0 until every key was drawn
    /// once. For random keys with repetition, the result is always 0.
    pub(crate) fn rounds(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed) / self.count
    }

    /// Returns the number of keys.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// Keys that one thread takes from a [`KeySequence`].
#[derive(Debug)]
pub(crate) struct KeyStream {
    sequence: Arc<KeySequence>,
    random: Seeded,
    next: u64,
    end: u64,
}

impl KeyStream {
    /// Creates the stream of a thread. Each thread must have a different number.
    pub(crate) fn new(sequence: Arc<KeySequence>, thread: u64) -> KeyStream {
        // Each thread's stream has its own seed, from a separate generator, so that the streams are unrelated.
        let mut seeds = Seeded::new(sequence.seed ^ (thread + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        let random = Seeded::new(seeds.next_u64());
        KeyStream { sequence, random, next: 0, end: 0 }
    }

    /// Returns the position of the next key.
    pub(crate) fn next_position(&mut self) -> u64 {
        let KeySequence { first, count, .. } = *self.sequence;
        if self.sequence.order == KeyOrder::Random {
            return first + self.random.below(count as usize) as u64;
        }
        if self.next == self.end {
            self.next = self.sequence.drawn.fetch_add(BLOCK, Ordering::Relaxed);
            self.end = self.next + BLOCK;
        }
        let at = self.next;
        self.next += 1;
        match self.sequence.order {
            KeyOrder::Shuffled => first + shuffled(at % count, count, self.sequence.seed),
            _ => first + at % count,
        }
    }
}

/// Permutes `0..count` without a table, by a Feistel network over the next power of two with an even exponent. The
/// network is applied again until the result is in range.
fn shuffled(position: u64, count: u64, seed: u64) -> u64 {
    let bits = (64 - (count.max(2) - 1).leading_zeros()).div_ceil(2);
    let mask = (1_u64 << bits) - 1;
    let mut number = position;
    loop {
        let (mut left, mut right) = (number >> bits, number & mask);
        for round in 0..4 {
            let mixed = Seeded::new(seed ^ (right << 8) ^ round).next_u64() & mask;
            (left, right) = (right, left ^ mixed);
        }
        number = (left << bits) | right;
        if number < count {
            return number;
        }
    }
}

/// The key at a position in the data of a workload.
pub(crate) struct DataKey<'a> {
    pub(crate) data: &'a KeyData,
    pub(crate) position: u64,
}

impl Key for DataKey<'_> {
    fn number(&self) -> u64 {
        self.data.first + self.position
    }

    /// Divides all keys in order into `parts` parts, and returns the number of the part that contains this key, counted
    /// from 1. Part `g + 1` begins at the key `g * count / parts`, rounded down. The groups of a template are divided
    /// in the same manner.
    fn part(&self, parts: u64) -> u64 {
        let (parts, count) = (u128::from(parts), u128::from(self.data.count.max(1)));
        (((u128::from(self.position) + 1) * parts - 1) / count) as u64 + 1
    }

    fn column(&self, column: usize) -> &[u8] {
        self.data.value(column, self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn streams(order: KeyOrder, count: u64, threads: u64) -> Vec<KeyStream> {
        let sequence = Arc::new(KeySequence::part(order, 0..count, 42));
        (0..threads).map(|thread| KeyStream::new(sequence.clone(), thread)).collect()
    }

    /// Takes keys for several threads in turn.
    fn take(streams: &mut [KeyStream], count: usize) -> Vec<u64> {
        let threads = streams.len();
        (0..count).map(|index| streams[index % threads].next_position()).collect()
    }

    #[test]
    fn sequential_and_shuffled_keys_are_drawn_once_per_round() {
        assert_eq!(take(&mut streams(KeyOrder::Sequential, 100, 1), 100), (0..100).collect::<Vec<_>>());
        for order in [KeyOrder::Sequential, KeyOrder::Shuffled] {
            for count in [1, 2, 3, 32, 1000, 4096, 4097] {
                // Round the count up, so that both threads end at the end of a block.
                let mut streams = streams(order, count, 2);
                let blocks = count.div_ceil(2 * BLOCK) * 2 * BLOCK;
                let drawn = take(&mut streams, blocks as usize);
                let mut seen = vec![0_u64; count as usize];
                drawn.iter().for_each(|key| seen[*key as usize] += 1);
                let rounds = blocks / count;
                assert!(seen.iter().all(|times| (rounds..=rounds + 1).contains(times)), "{order:?} {count}");
            }
        }
    }

    #[test]
    fn shuffled_keys_are_not_ascending() {
        let drawn = take(&mut streams(KeyOrder::Shuffled, 10_000, 1), 10_000);
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 10_000);
        let ascending = drawn.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((4_800..5_200).contains(&ascending), "{ascending} of 9,999 steps go up");
    }

    #[test]
    fn a_sequence_counts_its_rounds() {
        let sequence = Arc::new(KeySequence::part(KeyOrder::Sequential, 0..64, 1));
        let mut stream = KeyStream::new(sequence.clone(), 0);
        assert_eq!((0..63).map(|_| stream.next_position()).last(), Some(62));
        assert_eq!((sequence.rounds(), sequence.count()), (1, 64));
        assert_eq!((0..66).map(|_| stream.next_position()).last(), Some(0));
        assert_eq!(sequence.rounds(), 2);
    }

    /// Pearson's chi-square test over 1,000 cells with 100 expected keys each. The statistic has mean 999 and standard
    /// deviation 44.7, so a deviation of five standard deviations has a probability of about one in a million. The
    /// seeds are fixed, so the test is deterministic.
    #[test]
    fn random_keys_are_uniform_over_all_entries() {
        const CELLS: u64 = 1000;
        for (count, threads) in [(1_000, 1), (1_000, 3), (100_000, 2), (500_000_000, 2)] {
            let mut streams = streams(KeyOrder::Random, count, threads);
            let mut seen = vec![0_f64; CELLS as usize];
            for key in take(&mut streams, 100_000) {
                assert!(key < count);
                seen[(key * CELLS / count) as usize] += 1.0;
            }
            let chi_square: f64 = seen.iter().map(|times| (times - 100.0).powi(2) / 100.0).sum();
            assert!((775.0..1225.0).contains(&chi_square), "{count} keys, {threads} threads: {chi_square}");
        }
    }

    #[test]
    fn parts_match_those_of_a_template() {
        for (count, parts) in [(100, 50), (103, 50), (7, 7), (1000, 3), (50, 50)] {
            let data = KeyData::numbers(1, count);
            for part in 0..parts {
                for position in part * count / parts..(part + 1) * count / parts {
                    let key = DataKey { data: &data, position };
                    assert_eq!(key.part(parts), part + 1, "{position} of {count} in {parts}");
                }
            }
        }
    }

    #[test]
    fn threads_draw_different_random_keys() {
        let mut streams = streams(KeyOrder::Random, 1 << 40, 2);
        let both: BTreeSet<u64> =
            (0..1000).flat_map(|_| [streams[0].next_position(), streams[1].next_position()]).collect();
        assert_eq!(both.len(), 2000);
    }
}
