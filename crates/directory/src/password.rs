//! Values of userPassword: parsing a stored value, verifying an asserted password, and hashing a clear password.
//!
//! A stored value is clear text, or `{SCHEME}` followed by a text of the scheme (RFC 2307 section 5.3; the idea comes
//! from RFC 3112). Imported directories contain values of other servers. This module therefore verifies every form that
//! OpenLDAP (with its contrib modules), 389 Directory Server and OpenDJ write by default, and the older hashes that
//! such directories still contain. Pando itself writes only the schemes of [`StorageScheme`].
//!
//! [`parse`] finds the scheme without decoding the text. [`verify`] verifies a password. This module reads no random
//! source and no clock, and starts no thread. The caller passes the salt, calls [`is_slow`], and chooses the thread.
//!
//! # Bounds
//! A stored value may come from a malicious user. The costs that it *announces* (iterations, memory) are therefore
//! checked against [`limits`] before any work. Values beyond a limit and malformed values never match. No input causes
//! a panic.
//!
//! # Unknown schemes
//! As in slapd, a value announces a scheme if it begins with `{`, at least one octet, and `}`. A value with an unknown
//! scheme never matches. If it counted as clear text, a reader of a dump could bind with the content of the value.
//!
//! # Left out
//! `$7$`, `$gy$`, `$sha1$` and `$md5$` are left out, because no software writes them by default. Encrypted passwords
//! (`{AES}`, `{3DES}`, `{RC4}` of OpenDJ, `{DES}` of 389 DS) are left out, because they need a key of the other server.
//! `{KERBEROS}` and `{UNIX}` are left out, because they delegate verification to another service. Such delegation is
//! supported only for `{SASL}` and `{PASSTHROUGH}`: see [`Verification::delegation`].

pub mod app_password;
mod argon2;
mod cost;
mod crypt;
mod des_crypt;
mod digest;
mod md5_crypt;
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
pub use md5_crypt::Md5CryptForm;
use pbkdf2::Prf;
use verification::PASS_THROUGH;
pub use verification::{Verification, VerificationResult};

/// Limits on the work that a stored value may require. A verification at a limit takes at most a few seconds of one
/// core.
pub mod limits {
    /// Maximum size of a hashed value, in bytes. The longest known form, 389 DS's {PBKDF2_SHA256}, has about 450.
    pub const STORED_SIZE_MAX: usize = 4096;
    /// PBKDF2: maximum number of runs of the inner HMAC (iterations times output blocks). In 389 DS, at most 10,000,000
    /// iterations of one block can be configured.
    pub const PBKDF2_ROUNDS_MAX: u64 = 10_000_000;
    /// Maximum memory of one verification with Argon2 or yescrypt, in KiB: 256 MiB.
    pub const MEMORY_KIB_MAX: u64 = 256 * 1024;
    /// Argon2: maximum memory filled in all passes (memory times passes), in KiB: 2 GiB.
    pub const ARGON2_WORK_KIB_MAX: u64 = 2 * 1024 * 1024;
    /// SHA-crypt: maximum number of rounds. 5,000 is the usual number, but some distributions have used 656,000.
    pub const SHA_CRYPT_ROUNDS_MAX: u32 = 1_000_000;
    /// BSDi's form of crypt(3): maximum number of DES encryptions. 725 is the usual number; passlib writes 5,001.
    pub const DES_ROUNDS_MAX: u32 = 1_000_000;
    /// bcrypt: maximum cost, the binary logarithm of the number of rounds.
    pub const BCRYPT_COST_MAX: u32 = 15;
    /// Maximum length of a password, in octets. A longer password never matches, and is refused as a new password.
    /// Every digest processes the whole password. The limit keeps this work cheap compared with a slow hash.
    pub const PASSWORD_SIZE_MAX: usize = 4096;
    /// Maximum length of a password verified against {CRYPT}, in bytes. libxcrypt has the same limit. The cost of
    /// SHA-crypt grows with the square of the length.
    pub const CRYPT_PASSWORD_SIZE_MAX: usize = 512;
}

/// Kind of a userPassword value. The hash is not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// Clear text, without the prefix {CLEARTEXT} (OpenLDAP) or {CLEAR} (389 DS).
    Clear(&'a [u8]),
    /// A known scheme and the text after it.
    Hashed(Scheme, &'a [u8]),
    /// The name of an unknown scheme, without braces. The value never matches.
    Unknown(&'a [u8]),
}

/// Schemes that [`verify`] supports. Their names are case-insensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// {MD5}, {SHA}, {SHA256}, {SHA384}, {SHA512} without salt, and {SMD5}, {SSHA}, {SSHA256}, {SSHA384}, {SSHA512}
    /// with salt. The text is base64 of the digest, followed by the salt.
    Digest {
        /// Digest algorithm, applied to password and salt.
        algorithm: DigestAlgorithm,
        /// Whether the value must have a salt. If false, the value must not have a salt.
        salted: bool,
    },
    /// {PBKDF2}, {PBKDF2-SHA1}, {PBKDF2-SHA256}, {PBKDF2-SHA512}: `iterations$salt$hash`. OpenDJ's {PBKDF2},
    /// {PBKDF2-HMAC-SHA256}, {PBKDF2-HMAC-SHA512}: `iterations:`, then base64 of hash and salt.
    Pbkdf2(Prf),
    /// 389 DS's {PBKDF2_SHA256}: base64 of iterations (4 bytes, big endian), salt (64) and hash (256).
    Pbkdf2Binary,
    /// {PKCS5S2} of Atlassian, also used by OpenDJ: base64 of salt (16) and hash (32), with 10,000 iterations.
    Pkcs5s2,
    /// {ARGON2}: a PHC string of argon2id, argon2i or argon2d.
    Argon2,
    /// {BSDMD5} and {APR1} of OpenLDAP's contrib modules: base64 of digest and salt. The digest is computed as in
    /// crypt(3)'s `$1$`, or as in Apache's `$apr1$`.
    Md5Crypt(Md5CryptForm),
    /// {CRYPT}, and {BCRYPT} of OpenDJ: crypt(3) strings of DES, MD5, sha256-crypt, sha512-crypt, bcrypt and yescrypt.
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
            ("BCRYPT", Scheme::Crypt),
            ("BSDMD5", Scheme::Md5Crypt(Md5CryptForm::Bsd)),
            ("APR1", Scheme::Md5Crypt(Md5CryptForm::Apache)),
            ("PBKDF2", Scheme::Pbkdf2(Prf::Sha1)),
            ("PBKDF2-SHA1", Scheme::Pbkdf2(Prf::Sha1)),
            ("PBKDF2-SHA256", Scheme::Pbkdf2(Prf::Sha256)),
            ("PBKDF2-SHA512", Scheme::Pbkdf2(Prf::Sha512)),
            ("PBKDF2-HMAC-SHA256", Scheme::Pbkdf2(Prf::Sha256)),
            ("PBKDF2-HMAC-SHA512", Scheme::Pbkdf2(Prf::Sha512)),
            ("PBKDF2_SHA256", Scheme::Pbkdf2Binary),
            ("PKCS5S2", Scheme::Pkcs5s2),
        ];
        SCHEMES
            .iter()
            .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name))
            .map(|(_, scheme)| *scheme)
    }

    /// Returns true if a verification is deliberately slow: milliseconds or more.
    fn is_slow(self) -> bool {
        !matches!(self, Scheme::Digest { .. })
    }
}

/// Parses the scheme of a userPassword value.
pub fn parse(stored: &[u8]) -> Stored<'_> {
    let Some((name, rest)) = split_scheme(stored) else { return Stored::Clear(stored) };
    if name.eq_ignore_ascii_case(b"CLEARTEXT") || name.eq_ignore_ascii_case(b"CLEAR") {
        return Stored::Clear(rest);
    }
    Scheme::from_name(name).map_or(Stored::Unknown(name), |scheme| Stored::Hashed(scheme, rest))
}

/// Returns the scheme and form of a stored value that never matches a password, for reports: `{ABC}`, `{CRYPT} $7$`.
///
/// Returns `None` for other values, and for a value that delegates verification to another service.
pub fn unverifiable_form(stored: &[u8]) -> Option<String> {
    let (scheme, encoded) = match parse(stored) {
        Stored::Clear(_) => return None,
        Stored::Unknown(scheme) => {
            let is_elsewhere = PASS_THROUGH.iter().any(|known| scheme.eq_ignore_ascii_case(known));
            return (!is_elsewhere).then(|| printed(scheme));
        }
        Stored::Hashed(scheme, encoded) => (scheme, encoded),
    };
    let name = printed(split_scheme(stored).map(|(name, _)| name).unwrap_or_default());
    match fault(scheme, encoded)? {
        Fault::Form => {
            let form = encoded.strip_prefix(b"$").and_then(|rest| rest.split(|octet| *octet == b'$').next());
            let form = form.map(|form| form.get(..form.len().min(8)).unwrap_or_default());
            Some(form.map_or_else(
                || format!("{name} (damaged)"),
                |form| format!("{name} ${}$", String::from_utf8_lossy(form)),
            ))
        }
        Fault::Damaged => Some(format!("{name} (damaged)")),
        Fault::Costly => Some(format!("{name} (beyond the limit of its cost)")),
    }
}

/// Returns at most 32 octets of a scheme, in braces and upper case.
fn printed(scheme: &[u8]) -> String {
    let scheme = scheme.get(..scheme.len().min(32)).unwrap_or_default();
    format!("{{{}}}", String::from_utf8_lossy(scheme).to_ascii_uppercase())
}

/// Reason why a value of a known scheme never matches.
enum Fault {
    /// The value has a form of crypt(3) that is not supported.
    Form,
    /// The value is malformed.
    Damaged,
    /// The value requires more work than the limits allow.
    Costly,
}

/// Returns the reason why a value never matches. Verifies no password.
fn fault(scheme: Scheme, encoded: &[u8]) -> Option<Fault> {
    let damaged = |is_whole: bool| (!is_whole).then_some(Fault::Damaged);
    let derived = |decoded: Option<pbkdf2::Decoded>| match decoded {
        Some(decoded) => (!decoded.is_in_bounds()).then_some(Fault::Costly),
        None => Some(Fault::Damaged),
    };
    match scheme {
        _ if encoded.len() > limits::STORED_SIZE_MAX => Some(Fault::Damaged),
        Scheme::Digest { algorithm, salted } => damaged(digest::is_whole(algorithm, salted, encoded)),
        Scheme::Pbkdf2(prf) => derived(pbkdf2::Decoded::text(prf, encoded)),
        Scheme::Pbkdf2Binary => derived(pbkdf2::Decoded::binary(encoded)),
        Scheme::Pkcs5s2 => derived(pbkdf2::Decoded::pkcs5s2(encoded)),
        Scheme::Argon2 => match argon2::in_bounds(encoded) {
            Some(in_bounds) => (!in_bounds).then_some(Fault::Costly),
            None => Some(Fault::Damaged),
        },
        Scheme::Md5Crypt(_) => damaged(decode_base64(encoded).is_some_and(|decoded| decoded.len() >= 16)),
        Scheme::Crypt => match crypt::work(encoded) {
            None if crypt::is_other_form(encoded) => Some(Fault::Form),
            None => Some(Fault::Damaged),
            Some(work) => (!work.is_in_bounds()).then_some(Fault::Costly),
        },
    }
}

/// Splits `{name}rest` into the name and the rest. The name has at least one octet, so `{}` is not a scheme, as in
/// slapd.
fn split_scheme(stored: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = stored.strip_prefix(b"{")?;
    let end = inner.iter().position(|&byte| byte == b'}').filter(|&end| end > 0)?;
    let (name, rest) = inner.split_at_checked(end)?;
    Some((name, rest.strip_prefix(b"}")?))
}

/// Returns true if `asserted` is the password whose stored form is `stored`.
///
/// Compares hashes in constant time. Returns false for malformed values, unknown schemes and values beyond [`limits`].
/// Also returns false if `asserted` is longer than [`limits::PASSWORD_SIZE_MAX`], or empty: an empty password proves
/// nothing (RFC 4513 section 5.1.2). Takes microseconds for fast values. For values of which [`is_slow`] returns true,
/// takes up to seconds and the memory [`limits::MEMORY_KIB_MAX`].
pub fn verify(stored: &[u8], asserted: &[u8]) -> bool {
    try_verify(stored, asserted).unwrap_or(false)
}

/// Like [`verify`], but returns `None` if the value or the password is not acceptable, so that nothing was compared.
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

/// Verifies a hashed value. Returns `None` if the value cannot be read or requires too much work.
fn verify_hashed(scheme: Scheme, encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    match scheme {
        Scheme::Digest { algorithm, salted } => digest::verify(algorithm, salted, encoded, asserted),
        Scheme::Pbkdf2(prf) => pbkdf2::Decoded::text(prf, encoded)?.verify(asserted),
        Scheme::Pbkdf2Binary => pbkdf2::Decoded::binary(encoded)?.verify(asserted),
        Scheme::Pkcs5s2 => pbkdf2::Decoded::pkcs5s2(encoded)?.verify(asserted),
        Scheme::Argon2 => argon2::verify(encoded, asserted),
        Scheme::Md5Crypt(form) => md5_crypt::verify_base64(form, encoded, asserted),
        Scheme::Crypt => crypt::verify(encoded, asserted),
    }
}

/// Returns true for a value of a slow scheme, such as PBKDF2, Argon2 or crypt. The hash pool should verify such a
/// value. Returns false for clear text, fast digests and unknown schemes.
pub fn is_slow(stored: &[u8]) -> bool {
    matches!(parse(stored), Stored::Hashed(scheme, _) if scheme.is_slow())
}

/// Returns the password in a clear value, without the prefix {CLEARTEXT}.
pub fn clear_of(value: &[u8]) -> &[u8] {
    match parse(value) {
        Stored::Clear(clear) => clear,
        Stored::Hashed(..) | Stored::Unknown(_) => value,
    }
}

/// Returns true if a value in an add or modify is already hashed, so that it is stored unchanged. Such a value
/// announces a scheme other than clear text. Unknown schemes count as hashed, so that hashes for other systems survive
/// an export and import. Malformed hashes count, too, but never match, as in slapd.
pub fn is_hashed(value: &[u8]) -> bool {
    !matches!(parse(value), Stored::Clear(_))
}

/// Returns the value to store for a clear password.
///
/// `value` is the value that the client sent. A prefix {CLEARTEXT} is removed before hashing. `salt` must come from a
/// secure random source, and be new for every call. Argon2id takes about 20 ms and 19 MiB, PBKDF2 about 200 ms, and
/// other schemes microseconds.
pub fn hash(scheme: StorageScheme, value: &[u8], salt: &[u8; 16]) -> Vec<u8> {
    let clear = clear_of(value);
    match scheme {
        // If 19 MiB cannot be allocated, use PBKDF2, so that the write neither fails nor stores a weaker digest.
        StorageScheme::Argon2id => argon2::hash(clear, salt).unwrap_or_else(|| pbkdf2::hash(clear, salt)),
        StorageScheme::Ssha => digest::hash("{SSHA}", DigestAlgorithm::Sha1, clear, salt),
        StorageScheme::Ssha256 => digest::hash("{SSHA256}", DigestAlgorithm::Sha256, clear, salt),
        StorageScheme::Ssha512 => digest::hash("{SSHA512}", DigestAlgorithm::Sha512, clear, salt),
        StorageScheme::Pbkdf2Sha256 => pbkdf2::hash(clear, salt),
        // Without the prefix {CLEARTEXT}, a clear password that looks like a scheme would never match.
        StorageScheme::Clear if split_scheme(clear).is_some() => [b"{CLEARTEXT}", clear].concat(),
        StorageScheme::Clear => clear.to_vec(),
    }
}

/// Base64 with or without padding, and with any unused bits in the last character. Other servers write all these forms.
/// The variants do not weaken a comparison of the decoded bytes.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns true if `asserted` is the password in a value of authPassword. The value has the form `scheme$salt$digest`
/// without spaces (RFC 3112 section 3). Supports MD5 and SHA1 of the password followed by the salt. A value of another
/// scheme never matches.
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
