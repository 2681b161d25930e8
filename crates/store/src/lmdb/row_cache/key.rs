//! Form of keys in a slot of a table.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

/// A packed key of up to 45 bytes: its length, its map, and the key.
pub(super) type KeyWords = [u64; 6];

/// Packs the length of a key, its map and the key, padded with zeroes; returns `None` if the key is too long.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a key that fits has at most 45 bytes")]
pub(super) fn key_words(map: usize, key: &[u8]) -> Option<KeyWords> {
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

/// Returns the hash of a packed key.
#[inline]
pub(super) fn hash(hasher: &RandomState, words: &KeyWords) -> u64 {
    let mut hasher = hasher.build_hasher();
    words.iter().for_each(|word| hasher.write_u64(*word));
    hasher.finish()
}
