//! userPassword schemes: what a stored value means, whether an asserted password matches it, and how a clear one is
//! stored.
//!
//! A stored value is `{SCHEME}` and a text of that scheme's own (RFC 2307 section 5.3, RFC 3112 for the idea), or clear
//! text. People come to Pando with directories from elsewhere, so everything OpenLDAP (with its contrib modules) and
//! 389 Directory Server write by default is verified; what Pando itself writes is the short list of [`StorageScheme`].
//!
//! [`parse`] names the scheme without looking inside, [`verify`] does the work. Nothing here reads a random source or a
//! clock, and nothing runs on another thread: the caller brings the salt, asks [`is_slow`], and chooses where to run.
//!
//! # Bounds
//! A stored value may have been written by a user who wants to hurt the server, so what it *announces* (iterations,
//! memory) is checked against [`limits`] before a single round runs. A value past a limit never matches; neither does
//! a malformed one. No input panics.
//!
//! # Unknown schemes
//! As in slapd, a value that starts with `{`, at least one octet, `}` announces a scheme. When we do not know the
//! scheme the value never matches: treating it as clear text would let anyone who can read a dump log in by the dump.
//!
//! # Left out
//! `$1$` (MD5-crypt), traditional and BSDi DES crypt, `$7$` and `$gy$`: no maintained library verifies the first three,
//! and nobody writes the last two by default. `{KERBEROS}` and `{UNIX}` send the password elsewhere, as `{SASL}` and
//! `{PASSTHROUGH}` do, which [`Verification::elsewhere`] tells.

pub mod app_password;
mod argon2;
mod cost;
mod crypt;
mod digest;
mod pbkdf2;
pub mod policy;
#[cfg(test)]
mod tests;
pub mod totp;
mod verification;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use subtle::ConstantTimeEq as _;

pub use crate::model::storage_scheme::{StorageScheme, UnknownStorageScheme};
pub(crate) use cost::is_too_costly;
pub use cost::{cost, cost_of_scheme};
use digest::DigestAlgorithm;
use pbkdf2::Prf;
pub use verification::{Verification, Verified};

/// How much work a stored value may ask for. Everything at a limit costs at most a few seconds of one core.
pub mod limits {
    /// Longest hashed value looked at, in bytes; 389 DS's {PBKDF2_SHA256}, the longest in use, has about 450.
    pub const STORED_SIZE_MAX: usize = 4096;
    /// PBKDF2: most runs of the inner HMAC, which is iterations times output blocks. The highest number of iterations
    /// that 389 DS can be set to is 10,000,000, with one block.
    pub const PBKDF2_ROUNDS_MAX: u64 = 10_000_000;
    /// Most memory one verification may take, in KiB, for Argon2 and yescrypt: 256 MiB.
    pub const MEMORY_KIB_MAX: u64 = 256 * 1024;
    /// Argon2: most memory filled over all passes (memory times passes), in KiB: 2 GiB.
    pub const ARGON2_WORK_KIB_MAX: u64 = 2 * 1024 * 1024;
    /// SHA-crypt: most rounds; 5,000 is the usual number and 656,000 what some distributions have used.
    pub const SHA_CRYPT_ROUNDS_MAX: u32 = 1_000_000;
    /// bcrypt: highest cost (the logarithm of the rounds).
    pub const BCRYPT_COST_MAX: u32 = 15;
    /// Longest password that is looked at, in octets; a longer one is never right, and is not taken as a new one. Every
    /// digest runs over all of it, and what that costs must be nothing beside a slow hash.
    pub const PASSWORD_SIZE_MAX: usize = 4096;
    /// Longest password checked against {CRYPT}, in bytes, which is libxcrypt's limit. SHA-crypt's cost grows with the
    /// square of the password's length.
    pub const CRYPT_PASSWORD_SIZE_MAX: usize = 512;
}

/// What a userPassword value is, without a look inside the hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// Clear text: no scheme, or {CLEARTEXT} (OpenLDAP) or {CLEAR} (389 DS), which are not part of the password.
    Clear(&'a [u8]),
    /// A known scheme and the text after it.
    Hashed(Scheme, &'a [u8]),
    /// A scheme we do not know: its name between the braces. Never matches.
    Unknown(&'a [u8]),
}

/// The schemes that [`verify`] knows, case of the name aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// {MD5}, {SHA}, {SHA256}, {SHA384}, {SHA512}, and salted: {SMD5}, {SSHA}, {SSHA256}, {SSHA384}, {SSHA512}:
    /// base64 of the digest and, when salted, the salt behind it.
    Digest {
        /// The digest over password and salt.
        algorithm: DigestAlgorithm,
        /// Whether there must be a salt (at least one byte) or must not.
        salted: bool,
    },
    /// {PBKDF2}, {PBKDF2-SHA1}, {PBKDF2-SHA256}, {PBKDF2-SHA512}: `iterations$salt$hash`.
    Pbkdf2(Prf),
    /// 389 DS's {PBKDF2_SHA256}: base64 of iterations (4 bytes, big endian), salt (64) and hash (256).
    Pbkdf2Binary,
    /// {ARGON2}: a PHC string of argon2id, argon2i or argon2d.
    Argon2,
    /// {CRYPT}: crypt(3) strings; sha256-crypt, sha512-crypt, bcrypt and yescrypt are verified.
    Crypt,
}

impl Scheme {
    fn from_name(name: &[u8]) -> Option<Scheme> {
        use DigestAlgorithm::{Md5, Sha1, Sha256, Sha384, Sha512};
        const fn plain(algorithm: DigestAlgorithm) -> Scheme {
            Scheme::Digest { algorithm, salted: false }
        }
        const fn salted(algorithm: DigestAlgorithm) -> Scheme {
            Scheme::Digest { algorithm, salted: true }
        }
        const SCHEMES: &[(&str, Scheme)] = &[
            ("SSHA", salted(Sha1)),
            ("ARGON2", Scheme::Argon2),
            ("SSHA256", salted(Sha256)),
            ("SSHA384", salted(Sha384)),
            ("SSHA512", salted(Sha512)),
            ("SMD5", salted(Md5)),
            ("SHA", plain(Sha1)),
            ("SHA256", plain(Sha256)),
            ("SHA384", plain(Sha384)),
            ("SHA512", plain(Sha512)),
            ("MD5", plain(Md5)),
            ("CRYPT", Scheme::Crypt),
            ("PBKDF2", Scheme::Pbkdf2(Prf::Sha1)),
            ("PBKDF2-SHA1", Scheme::Pbkdf2(Prf::Sha1)),
            ("PBKDF2-SHA256", Scheme::Pbkdf2(Prf::Sha256)),
            ("PBKDF2-SHA512", Scheme::Pbkdf2(Prf::Sha512)),
            ("PBKDF2_SHA256", Scheme::Pbkdf2Binary),
        ];
        SCHEMES
            .iter()
            .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
            .map(|(_, scheme)| *scheme)
    }

    /// Whether a verification takes milliseconds or more, on purpose.
    fn is_slow(self) -> bool {
        !matches!(self, Scheme::Digest { .. })
    }
}

/// Reads the scheme of a userPassword value.
pub fn parse(stored: &[u8]) -> Stored<'_> {
    let Some((name, rest)) = split_scheme(stored) else { return Stored::Clear(stored) };
    if name.eq_ignore_ascii_case(b"CLEARTEXT") || name.eq_ignore_ascii_case(b"CLEAR") {
        return Stored::Clear(rest);
    }
    Scheme::from_name(name).map_or(Stored::Unknown(name), |scheme| Stored::Hashed(scheme, rest))
}

/// `{name}rest` with a name of at least one octet; `{}` is not a scheme (slapd's rule).
fn split_scheme(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = stored.strip_prefix(b"{")?;
    let end = inner.iter().position(|&byte| byte == b'}').filter(|&end| end > 0)?;
    let (name, rest) = inner.split_at_checked(end)?;
    Some((name, rest.strip_prefix(b"}")?))
}

/// Whether `asserted` is the password that `stored` was made of.
///
/// Compares in constant time once the hash is computed. False for malformed values, unknown schemes, values past
/// [`limits`], for an `asserted` past [`limits::PASSWORD_SIZE_MAX`], and for an empty one whatever is stored: an empty
/// password proves nothing (RFC 4513 section 5.1.2). Takes microseconds, or up to seconds and
/// [`limits::MEMORY_KIB_MAX`] when [`is_slow`] says so.
pub fn verify(stored: &[u8], asserted: &[u8]) -> bool {
    try_verify(stored, asserted).unwrap_or(false)
}

/// The same; `None` for what is false without a comparison, and so without the work of one.
fn try_verify(stored: &[u8], asserted: &[u8]) -> Option<bool> {
    if asserted.is_empty() || asserted.len() > limits::PASSWORD_SIZE_MAX {
        return None;
    }
    match parse(stored) {
        Stored::Clear(clear) => Some(clear.ct_eq(asserted).into()),
        Stored::Unknown(_) => None,
        Stored::Hashed(_, encoded) if encoded.len() > limits::STORED_SIZE_MAX => None,
        Stored::Hashed(scheme, encoded) => verify_hashed(scheme, encoded, asserted),
    }
}

/// None for what cannot be read or asks for too much.
fn verify_hashed(scheme: Scheme, encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    match scheme {
        Scheme::Digest { algorithm, salted } => digest::verify(algorithm, salted, encoded, asserted),
        Scheme::Pbkdf2(prf) => pbkdf2::verify(prf, encoded, asserted),
        Scheme::Pbkdf2Binary => pbkdf2::verify_binary(encoded, asserted),
        Scheme::Argon2 => argon2::verify(encoded, asserted),
        Scheme::Crypt => crypt::verify(encoded, asserted),
    }
}

/// Whether [`verify`] of this value belongs on a pool: true for PBKDF2, Argon2 and crypt, false for clear text, the
/// fast digests and what never matches anyway.
pub fn is_slow(stored: &[u8]) -> bool {
    matches!(parse(stored), Stored::Hashed(scheme, _) if scheme.is_slow())
}

/// The password in a value that came in clear: without a {CLEARTEXT} in front of it.
pub fn clear_of(value: &[u8]) -> &[u8] {
    match parse(value) {
        Stored::Clear(clear) => clear,
        Stored::Hashed(..) | Stored::Unknown(_) => value,
    }
}

/// Whether a value that arrives by add or modify is hashed already and is to be stored as it came: it announces a
/// scheme other than clear text. An unknown scheme counts, so that hashes for other systems survive a round trip; so
/// does a malformed hash (it will never match, as in slapd).
pub fn is_hashed(value: &[u8]) -> bool {
    !matches!(parse(value), Stored::Clear(_))
}

/// The value to store for a password that came in clear text.
///
/// `value` is what the client sent: a {CLEARTEXT} in front of it is not hashed with it. `salt` must come from a secure
/// random source, new for every call. Argon2id takes about 20 ms and 19 MiB, PBKDF2 some 200 ms, the rest microseconds.
pub fn hash(scheme: StorageScheme, value: &[u8], salt: &[u8; 16]) -> Vec<u8> {
    let clear = clear_of(value);
    match scheme {
        // Without 19 MiB to be had, the next best: never a weaker digest, and no way for a write to fail half-way.
        StorageScheme::Argon2id => argon2::hash(clear, salt).unwrap_or_else(|| pbkdf2::hash(clear, salt)),
        StorageScheme::Ssha => digest::hash("{SSHA}", DigestAlgorithm::Sha1, clear, salt),
        StorageScheme::Ssha256 => digest::hash("{SSHA256}", DigestAlgorithm::Sha256, clear, salt),
        StorageScheme::Ssha512 => digest::hash("{SSHA512}", DigestAlgorithm::Sha512, clear, salt),
        StorageScheme::Pbkdf2Sha256 => pbkdf2::hash(clear, salt),
        // A clear password that looks like a scheme would never match: say what it is.
        StorageScheme::Clear if split_scheme(clear).is_some() => [b"{CLEARTEXT}", clear].concat(),
        StorageScheme::Clear => clear.to_vec(),
    }
}

/// Base64 with or without padding, and with whatever is left in the last character's low bits: other servers' values
/// come in all these shapes, and none of them weakens a comparison of the decoded bytes.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Whether `asserted` is the password of a value of authPassword, `scheme$salt$digest` without spaces (RFC 3112 section
/// 3): MD5 and SHA1 of the password and the salt behind it. Others never match.
pub(crate) fn verify_auth_password(value: &[u8], asserted: &[u8]) -> bool {
    let mut parts = value.split(|byte| *byte == b'$');
    let (Some(scheme), Some(salt), Some(digest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let name = match scheme.to_ascii_uppercase().as_slice() {
        b"MD5" => "{SMD5}",
        b"SHA1" => "{SSHA}",
        _ => return false,
    };
    let (Some(salt), Some(mut digest)) = (decode_base64(salt), decode_base64(digest)) else { return false };
    digest.extend_from_slice(&salt);
    let stored = format!("{name}{}", base64::engine::general_purpose::STANDARD.encode(digest));
    verify(stored.as_bytes(), asserted)
}

fn decode_base64(encoded: &[u8]) -> Option<Vec<u8>> {
    LENIENT_BASE64.decode(encoded).ok()
}
