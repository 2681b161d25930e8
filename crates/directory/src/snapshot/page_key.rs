//! The key of the cookies of paged searches.

use hmac::{Hmac, KeyInit};
use sha2::Sha256;

/// What seals the cookies of a data directory.
pub(crate) struct PageKey(pub(crate) Hmac<Sha256>);

impl PageKey {
    /// The key of the data directory of this generation.
    pub(crate) fn new(generation: [u8; 16]) -> PageKey {
        let mut key = [0; 64];
        if let Some(start) = key.first_chunk_mut() {
            *start = generation;
        }
        PageKey(Hmac::new((&key).into()))
    }
}
