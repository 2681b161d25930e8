//! Look-up of names and OIDs in any case, without allocation.
//!
//! Every search request resolves its attribute names here, so the table hashes and compares names without making a copy
//! in lower case. The hash sets bit 5 of every byte, which makes the two cases of a letter equal. The hash also makes
//! some punctuation characters equal, and then the comparison of the names shows the difference. The comparison ignores
//! ASCII case. The schema builder fills the table once.

/// Table from names to indexes, with open addressing and linear probing, never more than half full.
#[derive(Debug, Default, Clone)]
pub(crate) struct NameTable {
    /// For each slot, an index into `entries` plus one, or 0 if the slot is free. The length is a power of two.
    slots: Vec<u32>,
    entries: Vec<(Box<str>, usize)>,
}

impl NameTable {
    /// Adds a name. If it is present, returns its index and changes nothing.
    pub(crate) fn insert(&mut self, name: &str, index: usize) -> Option<usize> {
        if let Some(present) = self.find(name) {
            return Some(present);
        }
        self.entries.push((name.into(), index));
        if self.entries.len() * 2 > self.slots.len() {
            self.grow();
        } else {
            self.place(self.entries.len() - 1);
        }
        None
    }

    /// Returns the index of the definition with this name, in any case.
    #[inline]
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = hash(name.as_bytes()) & mask;
        loop {
            let entry = (*self.slots.get(slot)? as usize).checked_sub(1)?;
            let (text, index) = self.entries.get(entry)?;
            // Compare exactly first, because most clients use the schema's spelling.
            if **text == *name || text.eq_ignore_ascii_case(name) {
                return Some(*index);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self) {
        self.slots = vec![0; (self.slots.len() * 2).max(64)];
        for entry in 0..self.entries.len() {
            self.place(entry);
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the mask keeps a slot below the number of slots, a power of two"
    )]
    #[expect(clippy::cast_possible_truncation, reason = "memory ends before 2^32 names")]
    fn place(&mut self, entry: usize) {
        let mask = self.slots.len() - 1;
        let mut slot = hash(self.entries[entry].0.as_bytes()) & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = entry as u32 + 1;
    }
}

/// Case-insensitive multiplicative hash. An attacker cannot cause collisions, because only the schema's own names are
/// stored.
#[expect(clippy::cast_possible_truncation, reason = "the low bits choose a slot")]
fn hash(bytes: &[u8]) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    const FOLD: u64 = 0x2020_2020_2020_2020;
    let mut state = bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        state = (state.rotate_left(5) ^ (word | FOLD)).wrapping_mul(FACTOR);
    }
    let tail = chunks.remainder().iter().fold(0u64, |word, &byte| word << 8 | u64::from(byte | 0x20));
    state = (state.rotate_left(5) ^ tail).wrapping_mul(FACTOR);
    (state ^ state >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::NameTable;

    #[test]
    fn names_are_found_in_any_letter_case() {
        let mut table = NameTable::default();
        assert_eq!(table.find("cn"), None);
        for index in 0..2000 {
            assert_eq!(table.insert(&format!("attributeName{index}"), index), None);
        }
        assert_eq!(table.insert("ATTRIBUTENAME7", 9), Some(7));
        for index in 0..2000 {
            assert_eq!(table.find(&format!("ATTRIBUTEname{index}")), Some(index));
        }
        // The hash treats '@' and '`' as equal; the comparison does not.
        table.insert("a@b", 1);
        assert_eq!(table.find("a`b"), None);
        assert_eq!(table.find(""), None);
    }
}
