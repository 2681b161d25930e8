//! States of copied trees: subtrees whose data other servers own. One row of `meta` stores all of these states.

use std::collections::BTreeMap;

/// Version of the row. A row of an earlier program has no version and contains only the state of a single copy.
const VERSION: u8 = 2;

/// States of copied trees as opaque bytes, by the normal name of each tree's top entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyStates(pub(crate) BTreeMap<Vec<u8>, Vec<u8>>);

impl CopyStates {
    /// Decodes a row. A row without the version byte is the state of one copy of the whole directory.
    pub(crate) fn decode(row: &[u8]) -> CopyStates {
        let mut states = BTreeMap::new();
        match row.split_first() {
            Some((&VERSION, mut rest)) => {
                while let Some((key, after_key)) = text(rest)
                    && let Some((state, after)) = text(after_key)
                {
                    states.insert(key.to_vec(), state.to_vec());
                    rest = after;
                }
            }
            _ => drop(states.insert(Vec::new(), row.to_vec())),
        }
        CopyStates(states)
    }

    /// Encodes the row.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = vec![VERSION];
        for text in self.0.iter().flat_map(|(key, state)| [key, state]) {
            row.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            row.extend_from_slice(text);
        }
        row
    }

    /// Returns the state of the copied tree that contains the entry with this normal name.
    pub(crate) fn of(&self, key: &[u8]) -> Option<&[u8]> {
        let mut states = self.0.iter();
        states.find(|(top, _)| key.starts_with(top)).map(|(_, state)| state.as_slice())
    }
}

/// Returns the first text and the rest of the bytes. The length of the text (4 bytes) precedes the text.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_state_of_each_copy() {
        let states = [(b"dc=a".to_vec(), b"one".to_vec()), (b"dc=b".to_vec(), Vec::new())];
        let states = CopyStates(BTreeMap::from(states));
        assert_eq!(CopyStates::decode(&states.encode()), states);
        assert_eq!(states.of(b"dc=a\0ou=x"), Some(&b"one"[..]));
        assert_eq!((states.of(b"dc=b"), states.of(b"dc=c")), (Some(&b""[..]), None));
        let before = CopyStates::decode(b"\x01old");
        assert_eq!(before.of(b"dc=c"), Some(&b"\x01old"[..]));
        for length in 0..states.encode().len() {
            CopyStates::decode(&states.encode()[..length]);
        }
    }
}
