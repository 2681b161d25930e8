//! Key of the cookies of paged searches.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Key that authenticates the cookies of a data directory.
pub(crate) struct PageKey(pub(crate) Hmac<Sha256>);

impl PageKey {
    /// Returns the key of the data directory with this generation.
    pub(crate) fn new(generation: [u8; 16]) -> PageKey {
        let mut key = [0; 64];
        if let Some(start) = key.first_chunk_mut() {
            *start = generation;
        }
        PageKey(Hmac::new((&key).into()))
    }

    /// Derives a secret for a purpose other than cookies. Cookies never begin with the prefix used here.
    pub(crate) fn secret(&self, purpose: &[u8]) -> [u8; 32] {
        self.0.clone().chain_update(b"secret for ").chain_update(purpose).finalize().into_bytes().into()
    }
}
