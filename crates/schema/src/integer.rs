//! Integers of any size: the check of RFC 4517 section 3.3.16, and a key that sorts as the numbers do.
//!
//! A key is a length octet and the decimal digits, two in an octet. Keys are used only for equality, order and (for
//! small numbers) bit tests, and decimal digits suffice for these. With decimal digits, a hostile number of a million
//! digits costs one pass and no long multiplication.
//!
//! | number | key |
//! |---|---|
//! | 0 | `80` |
//! | positive, `n` octets of digits, `n` < 0x70 | `80 + n`, digits |
//! | positive, longer | `f0`, `n` in four octets, digits |
//! | negative | the key of the magnitude, every bit inverted |

use crate::Fault;
use crate::syntax_text::only;

/// Checks an integer and splits it into sign and digits.
pub(crate) fn parse(value: &[u8]) -> Result<(bool, &[u8]), Fault> {
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let sign_size = value.len() - digits.len();
    if value.is_empty() {
        return Err(Fault::Empty);
    }
    only(digits, sign_size, |byte| byte.is_ascii_digit())?;
    match digits {
        [] => Err(Fault::Expected { offset: sign_size, what: "a digit" }),
        [b'0'] if !negative => Ok((false, &[])),
        [b'0', ..] => Err(Fault::Expected { offset: sign_size, what: "a number without leading zeros" }),
        _ if u32::try_from(digits.len()).is_err() => Err(Fault::OutOfRange { what: "the number of digits" }),
        _ => Ok((negative, digits)),
    }
}

/// Appends the key of an integer.
pub(crate) fn key(value: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    let (negative, digits) = parse(value)?;
    let start = out.len();
    let size = digits.len().div_ceil(2);
    match u8::try_from(size) {
        Ok(short) if short < 0x70 => out.push(0x80 + short),
        _ => {
            out.push(0xf0);
            let [.., a, b, c, d] = size.to_be_bytes();
            out.extend_from_slice(&[a, b, c, d]);
        }
    }
    let (first, pairs) = digits.as_rchunks::<2>();
    out.extend(first.iter().map(|digit| digit - b'0'));
    out.extend(pairs.iter().map(|[tens, ones]| (tens - b'0') * 10 + (ones - b'0')));
    if negative {
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
    Ok(())
}

/// Returns the number that the key of an integer represents; `None` if it does not fit in 64 bits.
pub fn small_number(key: &[u8]) -> Option<i64> {
    let (&head, digits) = key.split_first()?;
    let invert = if head < 0x80 { 0xff } else { 0 };
    if head ^ invert >= 0x80 + 11 {
        return None;
    }
    let magnitude = digits.iter().fold(0i128, |sum, &pair| sum * 100 + i128::from(pair ^ invert));
    i64::try_from(if invert == 0 { magnitude } else { -magnitude }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        key(text.as_bytes(), &mut out).unwrap();
        out
    }

    #[test]
    fn keys_sort_as_numbers() {
        let long = "9".repeat(300);
        let numbers = [
            &format!("-1{long}"),
            &format!("-{long}"),
            "-9223372036854775809",
            "-9223372036854775808",
            "-100",
            "-99",
            "-12",
            "-10",
            "-9",
            "-1",
            "0",
            "1",
            "9",
            "10",
            "99",
            "100",
            "101",
            "999",
            "1000",
            "9223372036854775807",
            "9223372036854775808",
            &long,
            &format!("1{long}"),
        ];
        for pair in numbers.windows(2) {
            assert!(key_of(pair[0]) < key_of(pair[1]), "{} {}", pair[0], pair[1]);
        }
        for number in numbers {
            assert_eq!(small_number(&key_of(number)), number.parse::<i64>().ok(), "{number}");
        }
    }

    #[test]
    fn invalid_integers_are_refused() {
        for (value, expected) in [
            ("", Fault::Empty),
            ("-", Fault::Expected { offset: 1, what: "a digit" }),
            ("-0", Fault::Expected { offset: 1, what: "a number without leading zeros" }),
            ("007", Fault::Expected { offset: 0, what: "a number without leading zeros" }),
            ("+1", Fault::NotAllowed { offset: 0, character: '+' }),
            ("-1x", Fault::NotAllowed { offset: 2, character: 'x' }),
            (" 1", Fault::NotAllowed { offset: 0, character: ' ' }),
        ] {
            let mut out = Vec::new();
            assert_eq!(key(value.as_bytes(), &mut out), Err(expected), "{value}");
            assert!(out.is_empty());
        }
    }
}
