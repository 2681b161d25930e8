//! Random characters and formatted numbers. Each random number yields many characters.

use std::io::Write as _;
use std::sync::LazyLock;

use crate::Seeded;

/// Characters to draw from, all ASCII.
pub(super) struct Alphabet {
    characters: Vec<u8>,
    /// Number of characters that are made of 64 random bits. Their bias is too small to measure.
    per_draw: usize,
}

// These alphabets have no upper-case letters, the same as in OpenDJ, because most attributes ignore case.
pub(super) const ALPHA: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
pub(super) const ALPHANUMERIC: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
pub(super) const DIGITS: &[u8] = b"0123456789";
pub(super) const HEX: &[u8] = b"0123456789abcdef";

static BASE64: LazyLock<Alphabet> = LazyLock::new(|| {
    Alphabet::of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".to_vec())
});

pub(super) static DIGIT: LazyLock<Alphabet> = LazyLock::new(|| Alphabet::of(DIGITS.to_vec()));

impl Alphabet {
    /// Creates an alphabet. Returns `None` if there are no characters, or if a character is not ASCII.
    pub(super) fn new(characters: &[u8]) -> Option<Alphabet> {
        (!characters.is_empty() && characters.is_ascii()).then(|| Alphabet::of(characters.to_vec()))
    }

    fn of(characters: Vec<u8>) -> Alphabet {
        let bits = characters.len().next_power_of_two().trailing_zeros().max(1);
        Alphabet { characters, per_draw: (56 / bits) as usize }
    }

    /// Appends `count` characters.
    pub(super) fn put(&self, seeded: &mut Seeded, count: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + count, 0);
        let size = self.characters.len() as u128;
        for chunk in out[start..].chunks_mut(self.per_draw) {
            // The random number is a fraction of 2^64. Each multiplication by the size of the alphabet gives one
            // character.
            let mut fraction = seeded.next_u64();
            for slot in chunk {
                let product = u128::from(fraction) * size;
                *slot = self.characters[(product >> 64) as usize];
                fraction = product as u64;
            }
        }
    }
}

/// Appends `count` characters of valid base64. Incomplete groups are padded with `=`. A remainder of one character is
/// not valid base64, so two characters are written.
pub(super) fn put_base64(seeded: &mut Seeded, count: usize, out: &mut Vec<u8>) {
    let alphabet = &*BASE64;
    let (characters, unused_bits, padding) = match count % 4 {
        0 => (count, 0, 0),
        // Unused bits must be zero, because strict decoders require it.
        3 => (count, 2, 1),
        2 => (count, 4, 2),
        _ => (count + 1, 4, 2),
    };
    if unused_bits == 0 {
        alphabet.put(seeded, characters, out);
        return;
    }
    alphabet.put(seeded, characters - 1, out);
    let last = seeded.below(64) >> unused_bits << unused_bits;
    out.push(alphabet.characters[last]);
    out.extend(std::iter::repeat_n(b'=', padding));
}

/// Format of a number: a subset of Java's DecimalFormat (digits, grouping, zeros after the point, text before and
/// after).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NumberFormat {
    prefix: String,
    digits_min: usize,
    /// Number of digits between two commas; 0 for no commas.
    group_size: usize,
    /// Number of digits after the point. They are zeros, because the numbers are integers.
    fraction_digits: usize,
    suffix: String,
}

impl NumberFormat {
    pub(super) fn plain() -> NumberFormat {
        NumberFormat {
            prefix: String::new(),
            digits_min: 1,
            group_size: 0,
            fraction_digits: 0,
            suffix: String::new(),
        }
    }

    /// Parses a pattern such as `00000`, `#,##0` or `EUR 0.00`, or a number of digits, as in SLAMD.
    pub(super) fn parse(text: &str) -> Option<NumberFormat> {
        if let Some(first) = text.bytes().next()
            && matches!(first, b'1'..=b'9')
        {
            let digits_min = text.parse().ok().filter(|digits| *digits <= 99)?;
            return Some(NumberFormat { digits_min, ..NumberFormat::plain() });
        }
        let is_pattern = |character: char| matches!(character, '#' | '0' | ',' | '.');
        let start = text.find(['#', '0'])?;
        let end = text[start..].find(|character| !is_pattern(character)).map_or(text.len(), |at| start + at);
        let (whole, fraction) = text[start..end].split_once('.').unwrap_or((&text[start..end], ""));
        if fraction.contains(',') || fraction.contains('.') {
            return None;
        }
        Some(NumberFormat {
            prefix: text[..start].to_owned(),
            digits_min: whole.matches('0').count(),
            group_size: whole.rfind(',').map_or(0, |at| whole.len() - at - 1),
            fraction_digits: fraction.matches('0').count(),
            suffix: text[end..].to_owned(),
        })
    }

    pub(super) fn put(&self, number: i64, out: &mut Vec<u8>) {
        if number < 0 {
            out.push(b'-');
        }
        out.extend_from_slice(self.prefix.as_bytes());
        let mut buffer = [b'0'; 100];
        let mut at = buffer.len();
        let mut rest = number.unsigned_abs();
        while rest > 0 || buffer.len() - at < self.digits_min {
            at -= 1;
            buffer[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let digits = &buffer[at..];
        for (index, digit) in digits.iter().enumerate() {
            let left = digits.len() - index;
            if self.group_size > 0 && index > 0 && left.is_multiple_of(self.group_size) {
                out.push(b',');
            }
            out.push(*digit);
        }
        if self.fraction_digits > 0 {
            out.push(b'.');
            out.extend(std::iter::repeat_n(b'0', self.fraction_digits));
        }
        out.extend_from_slice(self.suffix.as_bytes());
    }
}

/// Appends a number in plain decimal form.
pub(super) fn put_decimal(number: i64, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{number}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;

    #[test]
    fn all_characters_of_an_alphabet_are_drawn_equally_often() {
        for alphabet in [&Alphabet::of(ALPHA.to_vec()), &*DIGIT, &*BASE64] {
            let mut out = Vec::new();
            alphabet.put(&mut Seeded::new(3), 10_000, &mut out);
            let average = 10_000 / alphabet.characters.len();
            for character in &alphabet.characters {
                let count = out.iter().filter(|drawn| *drawn == character).count();
                assert!(count > average / 2 && count < average * 2, "{count} of {average}");
            }
            assert!(out.iter().all(|drawn| alphabet.characters.contains(drawn)));
        }
        assert!(Alphabet::new(b"").is_none() && Alphabet::new("é".as_bytes()).is_none());
    }

    #[test]
    fn base64_decodes_at_every_length() {
        for count in 0..40 {
            let mut out = Vec::new();
            put_base64(&mut Seeded::new(count as u64), count, &mut out);
            assert_eq!(out.len(), count.div_ceil(4) * 4);
            base64::engine::general_purpose::STANDARD.decode(&out).unwrap();
        }
    }

    #[test]
    fn numbers_follow_their_pattern() {
        let check = |pattern: &str, number: i64, expected: &str| {
            let mut out = Vec::new();
            NumberFormat::parse(pattern).unwrap().put(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{pattern}");
        };
        check("00000", 42, "00042");
        check("5", 42, "00042");
        check("0", 42, "42");
        check("#,##0", 1_234_567, "1,234,567");
        check("EUR 0.00", 7, "EUR 7.00");
        check("#%", -3, "-3%");
        assert_eq!(NumberFormat::parse("text"), None);
        let mut out = Vec::new();
        put_decimal(i64::MIN, &mut out);
        assert_eq!(out, i64::MIN.to_string().into_bytes());
    }
}
