//! Sets of attribute numbers below 128. Nearly all attributes have such a low number. A search can test membership in
//! such a set without the catalog.

use crate::model::rows::AttrId;

/// First number that does not fit into a set.
pub(crate) const LOW_END: u32 = 128;

/// Attribute numbers below [`LOW_END`], one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LowNumbers([u64; 2]);

impl LowNumbers {
    /// Returns true if the set contains the number in the low seven bits of `number`.
    #[inline(always)]
    pub(crate) fn contains(self, number: u32) -> bool {
        let LowNumbers([low, high]) = self;
        let word = if number & 64 == 0 { low } else { high };
        word >> (number & 63) & 1 != 0
    }

    /// Adds a number. Ignores numbers of [`LOW_END`] or more.
    pub(crate) fn insert(&mut self, id: AttrId) {
        if let Some(word) = self.0.get_mut(id.0 as usize / 64) {
            *word |= 1 << (id.0 & 63);
        }
    }

    /// Returns the numbers below [`LOW_END`] that are not in this set.
    #[inline(always)]
    pub(crate) fn complement(self) -> LowNumbers {
        LowNumbers([!self.0[0], !self.0[1]])
    }

    /// Returns the numbers that are in at least one of the two sets.
    #[inline(always)]
    pub(crate) fn or(self, other: LowNumbers) -> LowNumbers {
        LowNumbers([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// Returns the numbers that are in both sets.
    #[inline(always)]
    pub(crate) fn and(self, other: LowNumbers) -> LowNumbers {
        LowNumbers([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_exactly_the_inserted_numbers() {
        let mut odd = LowNumbers::default();
        (1..300).step_by(2).map(AttrId).for_each(|id| odd.insert(id));
        let mut low = LowNumbers::default();
        (0..70).map(AttrId).for_each(|id| low.insert(id));
        for number in 0..LOW_END {
            assert_eq!(odd.contains(number), number % 2 == 1, "{number}");
            assert_eq!(odd.and(low).contains(number), number % 2 == 1 && number < 70, "{number}");
            assert_eq!(odd.or(low).contains(number), number % 2 == 1 || number < 70, "{number}");
            assert_eq!(odd.complement().contains(number), number % 2 == 0, "{number}");
        }
    }
}
