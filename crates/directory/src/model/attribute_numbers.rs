//! The attribute numbers of an attribute description. Most descriptions have one number, which needs no heap
//! allocation.

use std::ops::Deref;

use crate::model::rows::AttrId;

/// Attribute numbers that dereference to a slice.
#[derive(Clone, Debug)]
pub(crate) enum AttributeNumbers {
    /// Exactly one number.
    One([AttrId; 1]),
    /// No number, or several.
    Several(Vec<AttrId>),
}

impl Default for AttributeNumbers {
    fn default() -> AttributeNumbers {
        AttributeNumbers::Several(Vec::new())
    }
}

impl AttributeNumbers {
    /// Returns the heap memory that the numbers use, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            AttributeNumbers::One(_) => 0,
            AttributeNumbers::Several(all) => all.capacity() * size_of::<AttrId>(),
        }
    }

    /// Returns the numbers for which `passes` returns true.
    pub(crate) fn only(&self, passes: impl Fn(AttrId) -> bool) -> AttributeNumbers {
        self.iter().copied().filter(|id| passes(*id)).collect()
    }

    /// Adds a number at the end.
    pub(crate) fn push(&mut self, id: AttrId) {
        match self {
            AttributeNumbers::One([first]) => *self = AttributeNumbers::Several(vec![*first, id]),
            AttributeNumbers::Several(all) if all.is_empty() => *self = AttributeNumbers::One([id]),
            AttributeNumbers::Several(all) => all.push(id),
        }
    }
}

impl Deref for AttributeNumbers {
    type Target = [AttrId];

    #[inline]
    fn deref(&self) -> &[AttrId] {
        match self {
            AttributeNumbers::One(only) => only,
            AttributeNumbers::Several(all) => all,
        }
    }
}

impl FromIterator<AttrId> for AttributeNumbers {
    #[inline]
    fn from_iter<I: IntoIterator<Item = AttrId>>(ids: I) -> AttributeNumbers {
        let mut numbers = AttributeNumbers::default();
        ids.into_iter().for_each(|id| numbers.push(id));
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_any_count_as_a_slice() {
        for count in 0..5 {
            let ids: Vec<_> = (0..count).map(AttrId).collect();
            let numbers: AttributeNumbers = ids.iter().copied().collect();
            assert_eq!(*numbers, *ids);
            assert_eq!(matches!(numbers, AttributeNumbers::One(_)), count == 1);
        }
    }
}
