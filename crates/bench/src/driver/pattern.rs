//! Text with placeholders that are replaced in every request: `uid=user.{n},ou=people`.
//!
//! Placeholders are written as `{n}` (the key's number), `{part:50}` (the number, counted from 1, of the part that
//! contains the key, if all keys are divided into 50 parts), `{dn}` or `{attribute}` (values of the key's entry),
//! `{attribute:4}` (the whole characters in the first four octets of such a value), and `{random:alphanumeric:11}` (11
//! random characters; also `numeric`, `hex`, `base64`). A text is first [marked](Placeholders::mark): each placeholder
//! becomes one character of Unicode's private use area, so that texts with placeholders can be parsed as filters and
//! encoded in requests. [`Placeholders::split`] finds the placeholders again in the octets.

use crate::Seeded;

/// First character that marks a placeholder.
const MARK_FIRST: u32 = 0xe000;
/// Maximum number of placeholders in one text or request: the size of the private use area.
const PLACEHOLDERS_MAX: usize = 6400;

const ALPHANUMERIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Content of a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternValue {
    /// The number of the key.
    Number,
    /// Number, counted from 1, of the part that contains the key, if all keys are divided in order into this many
    /// parts.
    Part(u64),
    /// Value of the key's entry in a column (see [`ColumnNames`]), or the whole characters in its first `len_max`
    /// octets.
    Column { column: usize, len_max: usize },
    /// Characters that are random for each request.
    Random { alphabet: &'static [u8], len: usize },
}

/// An invalid placeholder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PatternError {
    /// A brace is not closed.
    #[error("a {{ without its }}")]
    Unclosed,
    /// The description of a random placeholder is invalid.
    #[error(
        "{{{0}}} is not understood: write {{random:KIND:LENGTH}}, KIND one of alphanumeric, numeric, hex, base64"
    )]
    Random(String),
    /// The description of a placeholder is invalid.
    #[error(
        "{{{0}}} is not understood: write {{n}}, {{dn}}, {{ATTRIBUTE}}, {{ATTRIBUTE:LENGTH}} or {{random:KIND:LENGTH}}"
    )]
    Unknown(String),
    /// The text has too many placeholders.
    #[error("more than {PLACEHOLDERS_MAX} places")]
    TooMany,
}

/// Attributes of the data that patterns use, in lower case. The number of a column is its position in this list. The DN
/// has the name `dn` in this list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnNames(pub(crate) Vec<String>);

impl ColumnNames {
    fn number(&mut self, name: &str) -> usize {
        let name = name.to_ascii_lowercase();
        self.0.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.0.push(name);
            self.0.len() - 1
        })
    }
}

/// The placeholders of one text or request.
#[derive(Debug)]
pub(crate) struct Placeholders<'a> {
    values: Vec<PatternValue>,
    columns: &'a mut ColumnNames,
}

impl<'a> Placeholders<'a> {
    pub(crate) fn new(columns: &'a mut ColumnNames) -> Placeholders<'a> {
        Placeholders { values: Vec::new(), columns }
    }

    /// Replaces every placeholder in the text by a mark.
    pub(crate) fn mark(&mut self, text: &str) -> Result<String, PatternError> {
        let (mut marked, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, behind)) = rest.split_once('{') {
            let (name, after) = behind.split_once('}').ok_or(PatternError::Unclosed)?;
            marked.push_str(before);
            // Braces may also belong to a stored password, such as `{SSHA}...`. Such braces are not a placeholder.
            if name.bytes().all(|octet| octet.is_ascii_uppercase() || octet.is_ascii_digit() || octet == b'-')
            {
                marked.push_str(&format!("{{{name}}}"));
            } else {
                let place = self.place(name)?;
                if self.values.len() == PLACEHOLDERS_MAX {
                    return Err(PatternError::TooMany);
                }
                marked.extend(char::from_u32(MARK_FIRST + self.values.len() as u32));
                self.values.push(place);
            }
            rest = after;
        }
        marked.push_str(rest);
        Ok(marked)
    }

    fn place(&mut self, name: &str) -> Result<PatternValue, PatternError> {
        if name == "n" {
            return Ok(PatternValue::Number);
        }
        if let Some(parts) = name.strip_prefix("part:") {
            let parts = parts.parse().ok().filter(|parts| *parts > 0);
            return parts.map(PatternValue::Part).ok_or_else(|| PatternError::Unknown(name.to_owned()));
        }
        if let Some(random) = name.strip_prefix("random:") {
            let unknown = || PatternError::Random(name.to_owned());
            let (kind, len) = random.split_once(':').ok_or_else(unknown)?;
            let alphabet = match kind {
                "alphanumeric" => ALPHANUMERIC,
                "numeric" => b"0123456789",
                "hex" => b"0123456789abcdef",
                "base64" => BASE64,
                _ => return Err(unknown()),
            };
            return Ok(PatternValue::Random { alphabet, len: len.parse().map_err(|_| unknown())? });
        }
        let unknown = || PatternError::Unknown(name.to_owned());
        let (attribute, len_max) = match name.split_once(':') {
            None => (name, usize::MAX),
            Some((attribute, len)) => (attribute, len.parse().map_err(|_| unknown())?),
        };
        let is_description = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b';' | b'.');
        if attribute.is_empty() || !attribute.bytes().all(is_description) {
            return Err(unknown());
        }
        Ok(PatternValue::Column { column: self.columns.number(attribute), len_max })
    }

    /// Returns true if the octets contain marks.
    pub(crate) fn are_in(&self, octets: &[u8]) -> bool {
        (0..octets.len()).any(|at| self.at(&octets[at..]).is_some())
    }

    /// Returns the placeholder that is marked at the beginning of the octets.
    fn at(&self, octets: &[u8]) -> Option<PatternValue> {
        let [0xee, second @ 0x80..0xc0, third @ 0x80..0xc0, ..] = octets else { return None };
        let index = (usize::from(*second & 0x3f) << 6) | usize::from(*third & 0x3f);
        self.values.get(index).copied()
    }

    /// Splits octets with marks into a pattern.
    pub(crate) fn split(&self, octets: &[u8]) -> Pattern {
        let (mut pieces, mut text, mut at) = (Vec::new(), Vec::new(), 0);
        while at < octets.len() {
            if let Some(place) = self.at(&octets[at..]) {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text).into()));
                }
                pieces.push(Piece::PatternValue(place));
                at += 3;
            } else {
                text.push(octets[at]);
                at += 1;
            }
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.into()));
        }
        Pattern { pieces: pieces.into() }
    }

    /// Parses a text into a pattern.
    pub(crate) fn pattern(&mut self, text: &str) -> Result<Pattern, PatternError> {
        let marked = self.mark(text)?;
        Ok(self.split(marked.as_bytes()))
    }
}

/// A text with placeholders, ready to be filled in.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pieces: Box<[Piece]>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(Box<[u8]>),
    PatternValue(PatternValue),
}

/// Source of the values that replace placeholders.
pub(crate) trait Key {
    /// Returns the key's number.
    fn number(&self) -> u64;
    /// Returns the number, counted from 1, of the part that contains the key, if all keys are divided in order into
    /// `parts` parts.
    fn part(&self, parts: u64) -> u64;
    /// Returns the value in a column.
    fn column(&self, column: usize) -> &[u8];
}

impl Pattern {
    /// Appends the text to `out`, with the placeholders replaced for this key.
    pub(crate) fn fill(&self, key: &impl Key, random: &mut Seeded, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::PatternValue(PatternValue::Number) => put_number(key.number(), out),
                Piece::PatternValue(PatternValue::Part(parts)) => put_number(key.part(*parts), out),
                Piece::PatternValue(PatternValue::Column { column, len_max }) => {
                    out.extend_from_slice(first_characters(key.column(*column), *len_max));
                }
                Piece::PatternValue(PatternValue::Random { alphabet, len }) => {
                    put_random(alphabet, *len, random, out)
                }
            }
        }
    }

    /// Returns true if the text contains random placeholders, so that answers cannot be compared with it.
    pub(crate) fn is_random(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::PatternValue(PatternValue::Random { .. })))
    }
}

fn first_characters(value: &[u8], len_max: usize) -> &[u8] {
    if value.len() <= len_max {
        return value;
    }
    // The cut must not be inside a UTF-8 character.
    let end = (0..=len_max).rev().find(|end| value[*end] & 0xc0 != 0x80).unwrap_or_default();
    &value[..end]
}

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    let (mut digits, mut at) = ([0_u8; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends random characters. Each random number gives several characters, because the alphabets have at most 64
/// characters.
fn put_random(alphabet: &[u8], len: usize, random: &mut Seeded, out: &mut Vec<u8>) {
    let mut left = len;
    while left > 0 {
        let mut bits = random.next_u64();
        for _ in 0..left.min(8) {
            out.push(alphabet[((bits & 0xff) as usize * alphabet.len()) >> 8]);
            bits >>= 8;
        }
        left -= left.min(8);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A key whose columns all have the same value.
    pub(crate) struct Fixed(pub(crate) u64, pub(crate) &'static str);

    impl Key for Fixed {
        fn number(&self) -> u64 {
            self.0
        }

        fn part(&self, parts: u64) -> u64 {
            self.0 % parts
        }

        fn column(&self, _: usize) -> &[u8] {
            self.1.as_bytes()
        }
    }

    fn fill_pattern(text: &str, key: &Fixed) -> Result<String, PatternError> {
        let mut columns = ColumnNames::default();
        let pattern = Placeholders::new(&mut columns).pattern(text)?;
        let mut out = Vec::new();
        pattern.fill(key, &mut Seeded::new(1), &mut out);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn placeholders_are_filled() {
        let key = Fixed(1_000_017, "Jörg");
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("uid=user.{n},ou=x", "uid=user.1000017,ou=x"),
            ("{cn}{cn:2}{cn:3}{sn:1}", "JörgJJöJ"),
            ("{part:50}", "17"),
            ("{SSHA}abc{n}", "{SSHA}abc1000017"),
        ] {
            assert_eq!(fill_pattern(text, &key).as_deref(), Ok(expected), "{text}");
        }
        let random = fill_pattern("<{random:numeric:11}>", &key).unwrap();
        assert!(random.len() == 13 && random[1..12].bytes().all(|octet| octet.is_ascii_digit()), "{random}");
        assert_eq!(fill_pattern("{random:base64:2048}", &key).unwrap().len(), 2048);
    }

    #[test]
    fn invalid_placeholders_are_refused() {
        for (text, error) in [
            ("a{n", PatternError::Unclosed),
            ("{random:digits:6}", PatternError::Random("random:digits:6".to_owned())),
            ("{random:numeric:x}", PatternError::Random("random:numeric:x".to_owned())),
            ("{cn:x}", PatternError::Unknown("cn:x".to_owned())),
            ("{a b}", PatternError::Unknown("a b".to_owned())),
        ] {
            assert_eq!(fill_pattern(text, &Fixed(1, "")), Err(error), "{text}");
        }
    }
}
