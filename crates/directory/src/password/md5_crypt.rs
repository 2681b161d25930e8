//! The MD5 forms of crypt(3): `$1$salt$hash`, and Apache's `$apr1$salt$hash`. The two forms differ only in the prefix.
//! The digest also covers the prefix.

use md5::{Digest as _, Md5};
use subtle::ConstantTimeEq as _;

use super::decode_base64;
use super::des_crypt::DIGITS;

/// Prefixes of the strings of crypt(3).
pub(super) const MD5: &[u8] = b"$1$";
pub(super) const APR1: &[u8] = b"$apr1$";

/// Form of crypt(3) with MD5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Md5CryptForm {
    /// `$1$` of FreeBSD and glibc.
    Bsd,
    /// `$apr1$` of Apache.
    Apache,
}

/// Number of characters of the hash.
const HASH_LENGTH: usize = 22;
/// Maximum number of characters of the salt.
const SALT_LENGTH_MAX: usize = 8;
/// Number of rounds after the first digest.
const ROUNDS: usize = 1_000;
/// Groups of three octets of the digest, in the order in which they become digits. The octet [`LAST`] follows alone.
const GROUPS: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
const LAST: usize = 11;

/// Verifies `salt$hash`. `name` is the prefix of the string, with both `$`.
pub(super) fn verify(name: &[u8], settings: &str, asserted: &[u8]) -> Option<bool> {
    let (salt, expected) = settings.split_once('$')?;
    if salt.len() > SALT_LENGTH_MAX || expected.len() != HASH_LENGTH {
        return None;
    }
    Some(encode(&digest(name, salt.as_bytes(), asserted)).ct_eq(expected.as_bytes()).into())
}

/// Verifies base64 of the digest followed by the salt.
pub(super) fn verify_base64(form: Md5CryptForm, encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    let decoded = decode_base64(encoded)?;
    let (expected, salt) = decoded.split_first_chunk::<16>()?;
    let name = match form {
        Md5CryptForm::Bsd => MD5,
        Md5CryptForm::Apache => APR1,
    };
    (salt.len() <= SALT_LENGTH_MAX).then(|| digest(name, salt, asserted).ct_eq(expected).into())
}

/// Returns the digest of a password.
pub(super) fn digest(name: &[u8], salt: &[u8], password: &[u8]) -> [u8; 16] {
    let inner: [u8; 16] =
        Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut outer = Md5::new().chain_update(password).chain_update(name).chain_update(salt);
    for chunk in password.chunks(inner.len()) {
        outer.update(inner.get(..chunk.len()).unwrap_or_default());
    }
    let first = password.get(..1).unwrap_or_default();
    let mut bits = password.len();
    while bits > 0 {
        outer.update(if bits & 1 == 1 { b"\0" } else { first });
        bits >>= 1;
    }
    let mut digest: [u8; 16] = outer.finalize().into();
    for round in 0..ROUNDS {
        let (before, after) = if round % 2 == 1 { (password, &digest[..]) } else { (&digest[..], password) };
        let mut next = Md5::new().chain_update(before);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        digest = next.chain_update(after).finalize().into();
    }
    digest
}

/// Returns the digits of a digest. In each group, the first digit is the least significant one.
#[expect(clippy::indexing_slicing, reason = "the places are below 16, and six bits are below 64")]
fn encode(digest: &[u8; 16]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(HASH_LENGTH);
    let groups = GROUPS
        .iter()
        .map(|group| (group.iter().fold(0, |bits, place| bits << 8 | u32::from(digest[*place])), 4));
    for (mut bits, count) in groups.chain([(u32::from(digest[LAST]), 2)]) {
        for _ in 0..count {
            encoded.push(DIGITS[bits as usize & 63]);
            bits >>= 6;
        }
    }
    encoded
}
