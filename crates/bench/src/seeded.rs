//! A small generator of pseudo-random numbers that are the same on every machine and in every release.
//!
//! Sample and benchmark data are generated from a seed, and results with that data are compared over years. Crates for
//! random numbers may change their sequence in a new version. This module is SplitMix64, in ten lines that must not
//! change.

/// SplitMix64 generator. It must not be used for secrets.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// Creates a generator. The same seed produces the same numbers in all releases.
    pub fn new(seed: u64) -> Seeded {
        Seeded(seed)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0. The result is slightly biased, by less than 2^-32 for the
    /// bounds used here.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Returns one of the choices.
    ///
    /// # Panics
    /// There are no choices.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| (self.next_u64() >> 56) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_never_changes() {
        let mut seeded = Seeded::new(1);
        assert_eq!(seeded.next_u64(), 0x910a_2dec_8902_5cc1);
        assert!((0..1000).all(|_| seeded.below(7) < 7));
        assert_eq!(seeded.below(0), 0);
    }
}
