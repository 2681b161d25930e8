//! Schemes with a single digest: {SHA}, {SSHA} and similar schemes. A value is fast to verify, and equally fast to
//! guess. The schemes are supported because most existing directories contain such values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq as _;

use super::decode_base64;

/// Digest algorithms of these schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// MD5, 16 bytes.
    Md5,
    /// SHA-1, 20 bytes.
    Sha1,
    /// SHA-256, 32 bytes.
    Sha256,
    /// SHA-384, 48 bytes.
    Sha384,
    /// SHA-512, 64 bytes.
    Sha512,
}

impl DigestAlgorithm {
    fn digest(self, password: &[u8], salt: &[u8]) -> Vec<u8> {
        fn run<D: Digest>(password: &[u8], salt: &[u8]) -> Vec<u8> {
            D::new().chain_update(password).chain_update(salt).finalize().to_vec()
        }
        match self {
            DigestAlgorithm::Md5 => run::<Md5>(password, salt),
            DigestAlgorithm::Sha1 => run::<Sha1>(password, salt),
            DigestAlgorithm::Sha256 => run::<Sha256>(password, salt),
            DigestAlgorithm::Sha384 => run::<Sha384>(password, salt),
            DigestAlgorithm::Sha512 => run::<Sha512>(password, salt),
        }
    }

    /// Returns the strength of a salted value compared with other schemes: see [`super::Verification::has_weaker`].
    pub(super) fn strength(self) -> u8 {
        match self {
            DigestAlgorithm::Md5 => 1,
            DigestAlgorithm::Sha1 => 2,
            DigestAlgorithm::Sha256 => 3,
            DigestAlgorithm::Sha384 | DigestAlgorithm::Sha512 => 4,
        }
    }

    fn size(self) -> usize {
        match self {
            DigestAlgorithm::Md5 => 16,
            DigestAlgorithm::Sha1 => 20,
            DigestAlgorithm::Sha256 => 32,
            DigestAlgorithm::Sha384 => 48,
            DigestAlgorithm::Sha512 => 64,
        }
    }
}

/// Verifies a value. As in slapd, a value of a salted scheme must have a salt, and a value of an unsalted scheme must
/// not have a salt. Therefore a truncated value of one scheme is not accepted as a value of the other scheme.
pub(super) fn verify(
    algorithm: DigestAlgorithm,
    salted: bool,
    encoded: &[u8],
    asserted: &[u8],
) -> Option<bool> {
    let decoded = decode_base64(encoded)?;
    let (expected, salt) = split(algorithm, salted, &decoded)?;
    Some(algorithm.digest(asserted, salt).ct_eq(expected).into())
}

/// Returns true if a stored value has a length with which it can match a password.
pub(super) fn is_whole(algorithm: DigestAlgorithm, salted: bool, encoded: &[u8]) -> bool {
    decode_base64(encoded).is_some_and(|decoded| split(algorithm, salted, &decoded).is_some())
}

/// Splits a stored value into digest and salt.
fn split(algorithm: DigestAlgorithm, salted: bool, decoded: &[u8]) -> Option<(&[u8], &[u8])> {
    decoded.split_at_checked(algorithm.size()).filter(|(_, salt)| salted != salt.is_empty())
}

pub(super) fn hash(prefix: &str, algorithm: DigestAlgorithm, clear: &[u8], salt: &[u8]) -> Vec<u8> {
    let mut raw = algorithm.digest(clear, salt);
    raw.extend_from_slice(salt);
    format!("{prefix}{}", STANDARD.encode(raw)).into_bytes()
}
