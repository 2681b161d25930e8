//! Time-based codes (RFC 6238). A device and the server compute the same six digits from a secret and the time step.
//!
//! A time step takes 30 seconds. Codes of some earlier and later steps are also accepted, because clocks differ and
//! typing takes time (section 5.2). After a code is used, this code and all older codes are refused.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// Number of digits in a code.
pub const CODE_SIZE: usize = 6;

/// Microseconds in a time step.
const STEP: i64 = 30_000_000;

/// Minimum size of a secret, in octets (RFC 4226 section 4, R6).
pub const SECRET_SIZE_MIN: usize = 16;

/// Recorded state of a user's time-based codes.
#[derive(Clone, PartialEq, Eq)]
pub struct Totp {
    /// Secret in base32, as stored.
    pub secret: Vec<u8>,
    /// Time step of the last code that was used.
    pub last_step: Option<i64>,
    /// Number of time steps before and after the current time step whose codes the policy accepts.
    pub window: u32,
}

/// Formats the state without the secret.
impl std::fmt::Debug for Totp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Totp").field("last_step", &self.last_step).finish_non_exhaustive()
    }
}

impl Totp {
    /// Returns the time step of a code, if the code is valid at the time `now`, in microseconds since 1970. No code is
    /// valid if the secret is unreadable.
    pub fn step_of(&self, code: &[u8], now: i64) -> Option<i64> {
        let secret = Zeroizing::new(secret_of(&self.secret)?);
        let (present, window) = (now.div_euclid(STEP), i64::from(self.window));
        let mut found = None;
        // Try all time steps, so that the duration does not reveal which time step matches.
        for step in present - window..=present + window {
            let is_right: bool = code_of(&secret, step).ct_eq(code).into();
            if is_right && self.last_step.is_none_or(|last| step > last) {
                found = Some(step);
            }
        }
        found
    }
}

/// Returns the code of a time step (RFC 4226 section 5.3).
fn code_of(secret: &[u8], step: i64) -> [u8; CODE_SIZE] {
    let Ok(mac) = Hmac::<Sha1>::new_from_slice(secret) else { return [0; CODE_SIZE] };
    let digest = mac.chain_update(step.to_be_bytes()).finalize().into_bytes();
    let start = usize::from(digest.last().copied().unwrap_or(0) & 0xf);
    let bytes = digest.get(start..start + 4).unwrap_or_default();
    let mut number = bytes.iter().fold(0u32, |number, octet| number << 8 | u32::from(*octet)) & 0x7fff_ffff;
    let mut code = [b'0'; CODE_SIZE];
    for digit in code.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
    }
    code
}

/// Decodes a base32 secret (RFC 4648 section 6). Case and spaces are ignored, and padding is optional. Returns `None`
/// if the secret is invalid or too short.
pub fn secret_of(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut bit_count) = (0u32, 0);
    let mut secret = Vec::with_capacity(text.len() * 5 / 8);
    let end = text.iter().rposition(|octet| *octet != b'=').map_or(0, |last| last + 1);
    for octet in text.get(..end)?.iter().filter(|octet| **octet != b' ') {
        let value = match octet.to_ascii_uppercase() {
            letter @ b'A'..=b'Z' => letter - b'A',
            digit @ b'2'..=b'7' => digit - b'2' + 26,
            _ => return None,
        };
        bits = bits << 5 | u32::from(value);
        bit_count += 5;
        if bit_count >= 8 {
            bit_count -= 8;
            secret.push(u8::try_from(bits >> bit_count & 0xff).ok()?);
        }
    }
    (secret.len() >= SECRET_SIZE_MIN).then_some(secret)
}

/// Encodes octets in base32, without padding.
pub fn secret_text(secret: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let (mut bits, mut bit_count) = (0u32, 0);
    let mut text = String::with_capacity(secret.len().div_ceil(5) * 8);
    let mut put = |place: u32| {
        let letter = usize::try_from(place & 31).ok().and_then(|place| ALPHABET.get(place));
        text.push(letter.copied().map_or('A', char::from));
    };
    for octet in secret {
        bits = bits << 8 | u32::from(*octet);
        bit_count += 8;
        while bit_count >= 5 {
            bit_count -= 5;
            put(bits >> bit_count);
        }
    }
    if bit_count > 0 {
        put(bits << (5 - bit_count));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of RFC 6238 appendix B: the last six of the eight digits.
    #[test]
    fn computes_the_codes_of_the_rfc() {
        let secret = b"12345678901234567890";
        for (second, code) in [
            (59, b"287082"),
            (1_111_111_109, b"081804"),
            (1_111_111_111, b"050471"),
            (1_234_567_890, b"005924"),
            (2_000_000_000, b"279037"),
            (20_000_000_000, b"353130"),
        ] {
            assert_eq!(&code_of(secret, second / 30), code, "{second}");
            let totp = Totp { secret: secret_text(secret).into_bytes(), last_step: None, window: 1 };
            assert_eq!(totp.step_of(code, second * 1_000_000), Some(second / 30));
        }
    }

    #[test]
    fn accepts_a_code_once_within_the_window() {
        let secret = secret_text(b"12345678901234567890").into_bytes();
        let at = |last_step, second: i64| {
            Totp { secret: secret.clone(), last_step, window: 1 }.step_of(b"287082", second * 1_000_000)
        };
        // The time step of second 59 lasts from second 30 to second 60.
        assert_eq!([-1, 0, 59, 89].map(|second| at(None, second)), [None, Some(1), Some(1), Some(1)]);
        assert_eq!(at(None, 90), None);
        assert_eq!([Some(0), Some(1), Some(2)].map(|last| at(last, 59)), [Some(1), None, None]);
        let with = |window, second: i64| {
            Totp { secret: secret.clone(), last_step: None, window }.step_of(b"287082", second * 1_000_000)
        };
        assert_eq!([29, 30, 59, 60].map(|second| with(0, second)), [None, Some(1), Some(1), None]);
        assert_eq!([149, 150].map(|second| with(3, second)), [Some(1), None]);
        let totp = Totp { secret: b"no base32!".to_vec(), last_step: None, window: 1 };
        for code in [&b"287082"[..], b"", b"28708", b"000000"] {
            assert_eq!(totp.step_of(code, 59_000_000), None);
        }
        assert_eq!(format!("{totp:?}"), "Totp { last_step: None, .. }");
    }

    #[test]
    fn secrets_round_trip() {
        for length in 16..40 {
            let secret: Vec<u8> = (0..length).map(|octet: u8| octet.wrapping_mul(37)).collect();
            assert_eq!(secret_of(secret_text(&secret).as_bytes()), Some(secret));
        }
        let rfc = b"GEZD GNBV GY3T QOJQ gezd gnbv gy3t qojq====";
        assert_eq!(secret_of(rfc).as_deref(), Some(&b"12345678901234567890"[..]));
        for bad in [&b""[..], b"====", b"GEZDGNBVGY3TQOJQ", b"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJ1"] {
            assert_eq!(secret_of(bad), None);
        }
    }
}
