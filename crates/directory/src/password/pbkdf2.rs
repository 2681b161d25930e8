//! PBKDF2 (RFC 8018 section 5.2), in the forms that other servers write:
//!
//! - Text of OpenLDAP's pw-pbkdf2 and of 389 DS 2.x: `iterations$salt$hash`. OpenLDAP writes passlib's "adapted"
//!   base64 (`.` for `+`, no padding), and 389 DS writes standard base64 with padding. Both encodings are accepted for
//!   every scheme name.
//! - Text of OpenDJ: `iterations:` and base64 of the hash followed by the salt.
//! - Atlassian's {PKCS5S2}, also used by OpenDJ: base64 of 16 bytes of salt and 32 of hash with HMAC-SHA-1.
//! - {PBKDF2_SHA256} of 389 DS 1.3 to 2.x: base64 of 4 bytes of iterations, 64 of salt and 256 of hash.
//!
//! HMAC pads a short key with NULs (RFC 2104 section 2). Therefore NULs at the end of a password make no difference, as
//! in every implementation of PBKDF2.

use ::pbkdf2::pbkdf2_hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq as _;

use super::{decode_base64, limits};

/// Iterations of [`super::StorageScheme::Pbkdf2Sha256`]: OWASP's number for HMAC-SHA-256.
const ITERATIONS: u32 = 600_000;

const BINARY_SALT_SIZE: usize = 64;
const BINARY_HASH_SIZE: usize = 256;

/// Parameters of {PKCS5S2}: iterations, bytes of salt, and bytes of hash.
const PKCS5S2_ITERATIONS: u32 = 10_000;
const PKCS5S2_SALT_SIZE: usize = 16;
const PKCS5S2_HASH_SIZE: usize = 32;

/// Digest algorithm in the HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prf {
    /// HMAC-SHA-1.
    Sha1,
    /// HMAC-SHA-256.
    Sha256,
    /// HMAC-SHA-512.
    Sha512,
}

impl Prf {
    fn block_size(self) -> usize {
        match self {
            Prf::Sha1 => 20,
            Prf::Sha256 => 32,
            Prf::Sha512 => 64,
        }
    }

    fn derive(self, password: &[u8], salt: &[u8], iterations: u32, output: &mut [u8]) {
        match self {
            Prf::Sha1 => pbkdf2_hmac::<Sha1>(password, salt, iterations, output),
            Prf::Sha256 => pbkdf2_hmac::<Sha256>(password, salt, iterations, output),
            Prf::Sha512 => pbkdf2_hmac::<Sha512>(password, salt, iterations, output),
        }
    }
}

/// A decoded stored value.
pub(super) struct Decoded {
    prf: Prf,
    iterations: u32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Decoded {
    /// Decodes a text value.
    pub(super) fn text(prf: Prf, encoded: &[u8]) -> Option<Decoded> {
        let encoded = std::str::from_utf8(encoded).ok()?;
        let (iterations, salt, hash) = if let Some((iterations, decoded)) = encoded.split_once(':') {
            let mut hash = decode_base64(decoded.as_bytes())?;
            let salt = (hash.len() > prf.block_size()).then(|| hash.split_off(prf.block_size()))?;
            (iterations, salt, hash)
        } else {
            let mut fields = encoded.split('$');
            let (iterations, salt, hash) = (fields.next()?, fields.next()?, fields.next()?);
            if fields.next().is_some() {
                return None;
            }
            (iterations, decode_adapted(salt)?, decode_adapted(hash)?)
        };
        // All known servers write a hash of one block. A shorter hash would make a truncated value easier to match.
        let is_whole = hash.len() == prf.block_size() && !salt.is_empty();
        let iterations = parse_iterations(iterations).filter(|iterations| *iterations > 0)?;
        is_whole.then_some(Decoded { prf, iterations, salt, hash })
    }

    /// Decodes a binary value of 389 DS.
    pub(super) fn binary(encoded: &[u8]) -> Option<Decoded> {
        let decoded = decode_base64(encoded)?;
        let (iterations, rest) = decoded.split_first_chunk::<4>()?;
        let (salt, hash) = rest.split_at_checked(BINARY_SALT_SIZE)?;
        let iterations = Some(u32::from_be_bytes(*iterations)).filter(|iterations| *iterations > 0)?;
        let (salt, is_whole) = (salt.to_vec(), hash.len() == BINARY_HASH_SIZE);
        is_whole.then(|| Decoded { prf: Prf::Sha256, iterations, salt, hash: hash.to_vec() })
    }

    /// Decodes a value of {PKCS5S2}.
    pub(super) fn pkcs5s2(encoded: &[u8]) -> Option<Decoded> {
        let decoded = decode_base64(encoded)?;
        let (salt, hash) = decoded.split_at_checked(PKCS5S2_SALT_SIZE)?;
        let (salt, is_whole) = (salt.to_vec(), hash.len() == PKCS5S2_HASH_SIZE);
        let iterations = PKCS5S2_ITERATIONS;
        is_whole.then(|| Decoded { prf: Prf::Sha1, iterations, salt, hash: hash.to_vec() })
    }

    /// Returns true if the work is within the limit.
    pub(super) fn is_in_bounds(&self) -> bool {
        let blocks = self.hash.len().div_ceil(self.prf.block_size()) as u64;
        u64::from(self.iterations) * blocks <= limits::PBKDF2_ROUNDS_MAX
    }

    /// Returns true if the password matches. Returns `None` if verifying the password would take too much work.
    pub(super) fn verify(&self, asserted: &[u8]) -> Option<bool> {
        self.is_in_bounds().then(|| {
            let mut computed = vec![0; self.hash.len()];
            self.prf.derive(asserted, &self.salt, self.iterations, &mut computed);
            computed.ct_eq(&self.hash).into()
        })
    }
}

/// Parses digits without a sign.
fn parse_iterations(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Returns the number of runs of the inner HMAC for verifying a text value.
pub(super) fn rounds(encoded: &[u8]) -> Option<u64> {
    let iterations = encoded.split(|byte| matches!(byte, b'$' | b':')).next()?;
    std::str::from_utf8(iterations).ok()?.parse().ok()
}

/// Returns the number of runs of the inner HMAC for verifying a value of {PKCS5S2}.
pub(super) fn rounds_pkcs5s2() -> u64 {
    u64::from(PKCS5S2_ITERATIONS) * PKCS5S2_HASH_SIZE.div_ceil(Prf::Sha1.block_size()) as u64
}

/// Returns the number of runs of the inner HMAC for verifying a binary value.
pub(super) fn rounds_binary(encoded: &[u8]) -> Option<u64> {
    let decoded = decode_base64(encoded)?;
    let (iterations, _) = decoded.split_first_chunk::<4>()?;
    let blocks = BINARY_HASH_SIZE.div_ceil(Prf::Sha256.block_size()) as u64;
    Some(u64::from(u32::from_be_bytes(*iterations)) * blocks)
}

/// Returns true if verifying a value costs as much as verifying a hash of [`hash`].
pub(super) fn costs_like_ours(prf: Prf, encoded: &[u8]) -> bool {
    prf == Prf::Sha256 && rounds(encoded) == Some(ITERATIONS.into())
}

pub(super) fn hash(clear: &[u8], salt: &[u8]) -> Vec<u8> {
    let mut derived = [0; 32];
    Prf::Sha256.derive(clear, salt, ITERATIONS, &mut derived);
    format!("{{PBKDF2-SHA256}}{ITERATIONS}${}${}", encode_adapted(salt), encode_adapted(&derived))
        .into_bytes()
}

fn decode_adapted(encoded: &str) -> Option<Vec<u8>> {
    decode_base64(encoded.replace('.', "+").as_bytes())
}

fn encode_adapted(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes).replace('+', ".")
}
