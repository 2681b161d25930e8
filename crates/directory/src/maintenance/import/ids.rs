//! Set of entry ids, with one bit for each id up to the highest.

use crate::model::rows::EntryId;

/// A set of entry ids.
#[derive(Debug, Default)]
pub(crate) struct IdBits {
    words: Vec<u64>,
    count: u64,
}

impl IdBits {
    /// Adds an id. Returns true if it is new.
    pub(crate) fn insert(&mut self, id: EntryId) -> bool {
        let (word, bit) = place(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let Some(word) = self.words.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// Returns true if the set contains the id.
    pub(crate) fn contains(&self, id: EntryId) -> bool {
        let (word, bit) = place(id);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Returns the number of ids.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }
}

fn place(id: EntryId) -> (usize, u64) {
    ((id.0 / 64) as usize, 1 << (id.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_id_once() {
        let mut ids = IdBits::default();
        assert!(!ids.contains(EntryId(700)));
        assert!(ids.insert(EntryId(700)) && ids.insert(EntryId(0)) && !ids.insert(EntryId(700)));
        assert!(ids.contains(EntryId(700)) && ids.contains(EntryId(0)) && !ids.contains(EntryId(64)));
        assert_eq!(ids.len(), 2);
    }
}
