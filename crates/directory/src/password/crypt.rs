//! {CRYPT}: strings of crypt(3). The strings begin with `$5$` or `$6$` (SHA-crypt), `$2a$`, `$2b$` or `$2y$` (bcrypt),
//! or `$y$` (yescrypt, in the passwd files of Debian and Fedora). Directories of other servers also contain old forms:
//! `$1$` and `$apr1$` (MD5), and forms based on DES.
//!
//! The cost of a string is checked before a library is called, because none of the libraries limits the cost.

use sha_crypt::{PasswordVerifier as _, ShaCrypt};
use yescrypt::Yescrypt;

use super::md5_crypt::{APR1, MD5};
use super::{des_crypt, limits, md5_crypt};

/// Number of characters of a 32-byte hash at the end of a `$y$` string.
const YESCRYPT_HASH_LENGTH: usize = 43;
/// Number of rounds of a SHA-crypt string that states none.
const SHA_CRYPT_ROUNDS: u64 = 5_000;
/// `$2b$`, two digits, `$`, 22 characters of salt, 31 of hash.
const BCRYPT_LENGTH: usize = 60;

pub(super) fn verify(encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    let encoded = std::str::from_utf8(encoded).ok().filter(|text| text.is_ascii())?;
    // For crypt(3), a password ends at its first NUL. Passwords that differ only after the NUL would therefore all
    // match. slapd also refuses such passwords.
    if asserted.len() > limits::CRYPT_PASSWORD_SIZE_MAX || asserted.contains(&0) {
        return None;
    }
    if encoded.starts_with('_') {
        let rounds = des_crypt::extended_rounds(encoded.as_bytes())?;
        let in_bounds = rounds <= limits::DES_ROUNDS_MAX;
        return in_bounds.then(|| des_crypt::verify_extended(encoded.as_bytes(), asserted)).flatten();
    }
    let Some(named) = encoded.strip_prefix('$') else {
        return des_crypt::verify(encoded.as_bytes(), asserted);
    };
    let (id, settings) = named.split_once('$')?;
    match id {
        "1" => md5_crypt::verify(MD5, settings, asserted),
        "apr1" => md5_crypt::verify(APR1, settings, asserted),
        "5" | "6" => sha_crypt_in_bounds(settings)
            .then(|| ShaCrypt::default().verify_password(asserted, encoded).is_ok()),
        "2a" | "2b" | "2y" => {
            bcrypt_in_bounds(encoded, settings).then(|| bcrypt::verify(asserted, encoded).unwrap_or(false))
        }
        "y" => yescrypt_in_bounds(settings)
            .then(|| Yescrypt::default().verify_password(asserted, encoded).is_ok()),
        _ => None,
    }
}

/// Work that a string of crypt(3) announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Encryptions with DES.
    DesRounds(u64),
    /// Small work that is the same for all strings: forms with MD5, and the older form with DES.
    Fixed,
    /// Rounds of SHA-crypt.
    ShaRounds(u64),
    /// Rounds of bcrypt.
    BcryptRounds(u64),
    /// Memory of yescrypt.
    YescryptKib(u64),
}

impl Work {
    /// Returns true if the work is within the limits.
    pub(super) fn is_in_bounds(self) -> bool {
        match self {
            Work::Fixed => true,
            Work::DesRounds(rounds) => rounds <= limits::DES_ROUNDS_MAX.into(),
            Work::ShaRounds(rounds) => rounds <= limits::SHA_CRYPT_ROUNDS_MAX.into(),
            Work::BcryptRounds(rounds) => rounds <= 1 << limits::BCRYPT_COST_MAX,
            Work::YescryptKib(kib) => kib <= limits::MEMORY_KIB_MAX,
        }
    }
}

/// Returns true if the string has a prefix whose form is not supported.
pub(super) fn is_other_form(encoded: &[u8]) -> bool {
    const FORMS: [&[u8]; 6] = [b"$5$", b"$6$", b"$2a$", b"$2b$", b"$2y$", b"$y$"];
    encoded.starts_with(b"$") && !FORMS.iter().any(|form| encoded.starts_with(form)) && !is_obsolete(encoded)
}

/// Returns true if the string has a form with DES or MD5. Today, such a form is as weak as an unsalted digest.
pub(super) fn is_obsolete(encoded: &[u8]) -> bool {
    !encoded.starts_with(b"$") || encoded.starts_with(MD5) || encoded.starts_with(APR1)
}

/// Returns the work that verifying a string would take; `None` for a malformed string.
pub(super) fn work(encoded: &[u8]) -> Option<Work> {
    if encoded.starts_with(b"_") {
        return des_crypt::extended_rounds(encoded).map(|rounds| Work::DesRounds(rounds.into()));
    }
    let Some(named) = std::str::from_utf8(encoded).ok()?.strip_prefix('$') else {
        return (encoded.len() == des_crypt::LENGTH).then_some(Work::Fixed);
    };
    let (id, settings) = named.split_once('$')?;
    match id {
        "1" | "apr1" => Some(Work::Fixed),
        "5" | "6" => sha_crypt_rounds(settings).map(Work::ShaRounds),
        "2a" | "2b" | "2y" if encoded.len() == BCRYPT_LENGTH => {
            bcrypt_cost(settings).map(|cost| Work::BcryptRounds(1 << cost.min(63)))
        }
        "y" => yescrypt_memory_kib(settings).map(Work::YescryptKib),
        _ => None,
    }
}

/// Reads the rounds in `[rounds=N$]salt$hash`.
fn sha_crypt_rounds(settings: &str) -> Option<u64> {
    let Some(rest) = settings.strip_prefix("rounds=") else { return Some(SHA_CRYPT_ROUNDS) };
    rest.split_once('$').and_then(|(rounds, _)| rounds.parse().ok())
}

fn sha_crypt_in_bounds(settings: &str) -> bool {
    sha_crypt_rounds(settings).is_some_and(|rounds| rounds <= limits::SHA_CRYPT_ROUNDS_MAX.into())
}

/// Reads the cost in `NN$salthash`.
fn bcrypt_cost(settings: &str) -> Option<u32> {
    settings.split_once('$').and_then(|(cost, _)| cost.parse().ok())
}

fn bcrypt_in_bounds(encoded: &str, settings: &str) -> bool {
    encoded.len() == BCRYPT_LENGTH
        && bcrypt_cost(settings).is_some_and(|cost| cost <= limits::BCRYPT_COST_MAX)
}

/// Returns true if `jNr$salt$hash` is complete and its memory is within the limit. Accepts only the native mode `j`
/// with one character each for N and r. gensalt of crypt(3) always writes this form. Refuses the optional fields of
/// the format (parallelism, extra time).
fn yescrypt_in_bounds(settings: &str) -> bool {
    let is_whole = settings.split('$').nth(2).is_some_and(|hash| hash.len() == YESCRYPT_HASH_LENGTH);
    is_whole && yescrypt_memory_kib(settings).is_some_and(|kib| kib <= limits::MEMORY_KIB_MAX)
}

fn yescrypt_memory_kib(settings: &str) -> Option<u64> {
    let mut fields = settings.split('$');
    let (Some(parameters), Some(_salt), Some(_hash), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return None;
    };
    let &[b'j', n, r] = parameters.as_bytes() else { return None };
    // The memory is N blocks of 128 times r bytes. N is a power of two, at least 2.
    Some((u64::from(yescrypt_digit(r)?) << yescrypt_digit(n)?) * 128 / 1024)
}

/// Returns the number that a single character encodes. The first character of the alphabet encodes 1. Returns `None`
/// for a character that begins a longer number.
fn yescrypt_digit(byte: u8) -> Option<u32> {
    const DIGITS: &[u8; 48] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij";
    DIGITS.iter().zip(1..).find(|(digit, _)| **digit == byte).map(|(_, number)| number)
}
