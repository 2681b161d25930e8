//! PBKDF2 (RFC 8018 section 5.2) in the two forms in use.
//!
//! - Text, OpenLDAP's pw-pbkdf2 and 389 DS 2.x: `iterations$salt$hash`. OpenLDAP writes passlib's "adapted" base64
//!   (`.` for `+`, no padding), 389 DS standard base64 with padding; both are accepted for every scheme name.
//! - Binary, 389 DS 1.3 to 2.x as {PBKDF2_SHA256}: base64 over 4 bytes of iterations, 64 of salt and 256 of hash.
//!
//! HMAC pads a short key with NULs (RFC 2104 section 2), so a password and the same with trailing NULs are one
//! password here, as in every implementation of PBKDF2.

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

/// Digest inside the HMAC.
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

pub(super) fn verify(prf: Prf, encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    let mut fields = std::str::from_utf8(encoded).ok()?.split('$');
    let (iterations, salt, hash) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some() || !iterations.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hash = decode_adapted(hash)?;
    // Every writer uses one block. Accepting a shorter hash would make a truncated value easier to match.
    if hash.len() != prf.block_size() {
        return None;
    }
    compare(prf, iterations.parse().ok()?, &decode_adapted(salt)?, &hash, asserted)
}

pub(super) fn verify_binary(encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    let decoded = decode_base64(encoded)?;
    let (iterations, rest) = decoded.split_first_chunk::<4>()?;
    let (salt, hash) = rest.split_at_checked(BINARY_SALT_SIZE)?;
    if hash.len() != BINARY_HASH_SIZE {
        return None;
    }
    compare(Prf::Sha256, u32::from_be_bytes(*iterations), salt, hash, asserted)
}

fn compare(prf: Prf, iterations: u32, salt: &[u8], expected: &[u8], asserted: &[u8]) -> Option<bool> {
    let blocks = expected.len().div_ceil(prf.block_size()) as u64;
    let in_bounds = (1..=limits::PBKDF2_ROUNDS_MAX).contains(&(u64::from(iterations) * blocks));
    if !in_bounds || salt.is_empty() {
        return None;
    }
    let mut computed = vec![0; expected.len()];
    prf.derive(asserted, salt, iterations, &mut computed);
    Some(computed.ct_eq(expected).into())
}

/// Returns the runs of the inner HMAC that verifying a text value takes.
pub(super) fn rounds(encoded: &[u8]) -> Option<u64> {
    let iterations = encoded.split(|byte| *byte == b'$').next()?;
    std::str::from_utf8(iterations).ok()?.parse().ok()
}

/// Returns the runs of the inner HMAC that verifying a binary value takes.
pub(super) fn rounds_binary(encoded: &[u8]) -> Option<u64> {
    let decoded = decode_base64(encoded)?;
    let (iterations, _) = decoded.split_first_chunk::<4>()?;
    let blocks = BINARY_HASH_SIZE.div_ceil(Prf::Sha256.block_size()) as u64;
    Some(u64::from(u32::from_be_bytes(*iterations)) * blocks)
}

/// Returns true if verifying a value costs as much as verifying one of [`hash`].
pub(super) fn costs_like_ours(prf: Prf, encoded: &[u8]) -> bool {
    let iterations = encoded.split(|byte| *byte == b'$').next();
    let iterations = iterations.and_then(|text| std::str::from_utf8(text).ok());
    prf == Prf::Sha256 && iterations.and_then(|text| text.parse().ok()) == Some(ITERATIONS)
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
