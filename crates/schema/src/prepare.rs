//! String preparation for matching (RFC 4518).
//!
//! The six steps end in *insignificant character handling*, which RFC 4518 section 2.6.1 writes as one space before,
//! one after and two inside. Keys use a shorter form with the same equality and order: no space before or after,
//! **one** inside, and a single space for a string without anything else. A space sorts before every other character
//! that remains after the mapping, so the order stays the same. [`expand_spaces`] restores the RFC's form for substring
//! matching that needs it.
//!
//! Pando differs from the RFC in two points. Code points unassigned in Unicode 3.2 (table A.1) are not prohibited: most
//! of them have been assigned since 2002, and refusing emoji or newer scripts in names has no benefit. Case folding is
//! fixed to table B.2, so that keys do not change with the compiler's Unicode version; scripts newer than Unicode 3.2
//! are compared exactly.

use stringprep::tables;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::Fault;

/// Treatment of spaces (RFC 4518 section 2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Spaces {
    /// A run of spaces counts as one; spaces at the ends are removed (section 2.6.1).
    Collapse,
    /// All spaces are removed (section 2.6.2).
    Remove,
    /// All spaces and hyphens are removed (section 2.6.3).
    RemoveWithHyphens,
}

/// Method of preparing strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Preparation {
    /// Whether to fold case (table B.2 of RFC 3454).
    pub(crate) fold: bool,
    /// Treatment of spaces.
    pub(crate) spaces: Spaces,
}

/// Spaces that were removed from the ends of a prepared string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Edges {
    /// Space at the beginning.
    pub(crate) leading: bool,
    /// Space at the end.
    pub(crate) trailing: bool,
    /// The string is empty or has only spaces.
    pub(crate) blank: bool,
}

impl Preparation {
    /// Prepares a whole value, and appends its key.
    pub(crate) fn value(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let edges = self.piece(bytes, out)?;
        if edges.blank && self.spaces == Spaces::Collapse {
            out.push(b' ');
        }
        Ok(())
    }

    /// Appends a substring of an assertion, without the spaces at its ends, and returns which ends had spaces.
    pub(crate) fn piece(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Edges, Fault> {
        let mut sink = Sink::new(out, self.spaces);
        // Most values are ASCII: test the value once, and then prepare it without decoding characters.
        if bytes.is_ascii() {
            self.ascii(bytes, &mut sink);
            return Ok(sink.finish());
        }
        let text =
            std::str::from_utf8(bytes).map_err(|error| Fault::NotUtf8 { offset: error.valid_up_to() })?;
        self.unicode(text, sink)
    }

    /// Prepares ASCII, which needs no normalization and has no prohibited characters. Words are copied whole and folded
    /// in place.
    fn ascii(self, bytes: &[u8], sink: &mut Sink<'_>) {
        if is_word(bytes) || (self.spaces == Spaces::Collapse && is_plain(bytes)) {
            sink.word(bytes, self.fold);
            return;
        }
        sink.out.reserve(bytes.len());
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            let end = rest.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            if word.is_empty() {
                // All other control characters map to nothing.
                if matches!(first, b' ' | 0x09..=0x0D) {
                    sink.space();
                }
                rest = behind.get(1..).unwrap_or_default();
            } else {
                sink.word(word, self.fold);
                rest = behind;
            }
        }
    }

    /// Prepares text beyond ASCII: maps, normalizes, prohibits, and drops insignificant characters (sections 2.2 to
    /// 2.6).
    fn unicode(self, text: &str, mut sink: Sink<'_>) -> Result<Edges, Fault> {
        let mapped = text.chars().filter_map(map_character);
        let fed = if self.fold {
            sink.feed(mapped.flat_map(tables::case_fold_for_nfkc).nfkc())
        } else {
            sink.feed(mapped.nfkc())
        };
        match fed {
            Ok(()) => Ok(sink.finish()),
            Err(fault) => {
                sink.out.truncate(sink.start);
                Err(fault)
            }
        }
    }
}

/// Returns true if all bytes are printable ASCII. In such text, preparation changes only case, spaces and hyphens.
#[inline]
pub(crate) fn is_printable(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let odd = words.iter().fold(0, |odd, word| odd | oddity(u64::from_ne_bytes(*word)));
    let is_odd = |byte: &u8| byte.wrapping_sub(b' ') > b'~' - b' ';
    odd & 0x8080_8080_8080_8080 == 0
        && match bytes.last_chunk::<8>() {
            // Examine the last eight bytes. Some of these bytes were examined before, but that is cheaper than
            // examining the remaining bytes one by one.
            Some(last) if !rest.is_empty() => oddity(u64::from_ne_bytes(*last)) & 0x8080_8080_8080_8080 == 0,
            _ => !rest.iter().any(is_odd),
        }
}

/// Returns a word in which the highest bit of some byte is set if one of the eight bytes is not printable ASCII: below
/// a space, above a tilde, or not ASCII. Only such a byte causes a borrow or a carry, so borrows and carries cannot
/// cause a wrong result.
#[inline]
fn oddity(word: u64) -> u64 {
    word | word.wrapping_sub(0x2020_2020_2020_2020) | word.wrapping_add(0x0101_0101_0101_0101)
}

/// Returns true if ASCII text is one word: not empty, without spaces and control characters.
#[inline]
fn is_word(bytes: &[u8]) -> bool {
    // The same test as in `oddity`, except that a space counts as odd too.
    let odd = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        word | word.wrapping_sub(0x2121_2121_2121_2121) | word.wrapping_add(0x0101_0101_0101_0101)
    };
    match bytes.last_chunk::<8>() {
        Some(last) => {
            let all = bytes.as_chunks::<8>().0.iter().fold(odd(last), |all, word| all | odd(word));
            all & 0x8080_8080_8080_8080 == 0
        }
        None => !bytes.is_empty() && bytes.iter().all(|byte| matches!(byte, b'!'..=b'~')),
    }
}

/// Returns true if ASCII text has only single spaces, none at its ends, and no control characters: the usual case.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    let ([b'!'..=b'~', behind @ ..], [.., b'!'..=b'~']) = (bytes, bytes) else { return false };
    let pairs = bytes.iter().zip(behind);
    !pairs.fold(false, |odd, (&one, &next)| odd | (one | next == b' ') | (one < b' ') | (one == 0x7f))
}

/// Maps a character as in section 2.2, without case folding; `None` if it maps to nothing.
fn map_character(character: char) -> Option<char> {
    match character {
        '\t'..='\r' | '\u{85}' => Some(' '),
        '\u{200B}' => None,
        '\u{A0}' | '\u{1680}' | '\u{2000}'..='\u{200A}' => Some(' '),
        '\u{2028}' | '\u{2029}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => Some(' '),
        '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}' => None,
        '\u{AD}' | '\u{1806}' | '\u{34F}' | '\u{180B}'..='\u{180E}' => None,
        '\u{FE00}'..='\u{FE0F}' | '\u{FFFC}' => None,
        '\u{6DD}' | '\u{70F}' | '\u{200C}'..='\u{200F}' | '\u{202A}'..='\u{202E}' => None,
        '\u{2060}'..='\u{2063}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}' => None,
        '\u{FFF9}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}' => None,
        '\u{E0001}' | '\u{E0020}'..='\u{E007F}' => None,
        other => Some(other),
    }
}

/// Returns true if section 2.4 prohibits a character, except code points unassigned in Unicode 3.2 (see the module
/// documentation).
fn prohibited(character: char) -> bool {
    character >= '\u{340}'
        && (character == '\u{FFFD}'
            || tables::private_use(character)
            || tables::non_character_code_point(character)
            || tables::change_display_properties_or_deprecated(character))
}

/// Writer of characters that delays spaces until it knows that more characters follow.
struct Sink<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    spaces: Spaces,
    pending: bool,
    leading: bool,
}

impl<'a> Sink<'a> {
    fn new(out: &'a mut Vec<u8>, spaces: Spaces) -> Sink<'a> {
        let start = out.len();
        Sink { out, start, spaces, pending: false, leading: false }
    }

    #[inline]
    fn flush(&mut self) {
        if self.pending {
            self.pending = false;
            if self.out.len() == self.start {
                self.leading = true;
            } else {
                self.out.push(b' ');
            }
        }
    }

    /// Writes a word of graphic ASCII.
    fn word(&mut self, word: &[u8], fold: bool) {
        if self.spaces == Spaces::RemoveWithHyphens && word.contains(&b'-') {
            word.split(|&byte| byte == b'-').for_each(|part| self.word(part, fold));
            return;
        }
        self.flush();
        let start = self.out.len();
        self.out.extend_from_slice(word);
        if fold {
            self.out.get_mut(start..).unwrap_or_default().make_ascii_lowercase();
        }
    }

    /// Writes normalized text.
    fn feed(&mut self, characters: impl Iterator<Item = char>) -> Result<(), Fault> {
        let mut characters = characters.peekable();
        while let Some(character) = characters.next() {
            if prohibited(character) {
                return Err(Fault::Prohibited { character });
            }
            // A space or hyphen with a combining mark is significant.
            let plain = !characters.peek().copied().is_some_and(is_combining_mark);
            match character {
                ' ' if plain => self.space(),
                '-' | '\u{58A}' | '\u{2010}' | '\u{2212}' if plain => self.hyphen(character),
                _ => self.push_char(character),
            }
        }
        Ok(())
    }

    fn push_char(&mut self, character: char) {
        self.flush();
        self.out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    #[inline]
    fn space(&mut self) {
        self.pending = self.spaces == Spaces::Collapse;
    }

    fn hyphen(&mut self, character: char) {
        if self.spaces != Spaces::RemoveWithHyphens {
            self.push_char(character);
        }
    }

    fn finish(self) -> Edges {
        let blank = self.out.len() == self.start;
        Edges { leading: self.leading || blank && self.pending, trailing: self.pending, blank }
    }
}

/// Appends the form of a key in RFC 4518 section 2.6.1: one space at each end, and two for each inner space.
pub(crate) fn expand_spaces(key: &[u8], out: &mut Vec<u8>) {
    out.push(b' ');
    if key != b" " {
        expand_inner_spaces(key, out);
    }
    out.push(b' ');
}

/// Doubles every space without a combining mark.
pub(crate) fn expand_inner_spaces(key: &[u8], out: &mut Vec<u8>) {
    let mut rest = key;
    while let Some(space) = rest.iter().position(|&byte| byte == b' ') {
        let (before, after) = rest.split_at(space + 1);
        out.extend_from_slice(before);
        if !begins_with_mark(after) {
            out.push(b' ');
        }
        rest = after;
    }
    out.extend_from_slice(rest);
}

fn begins_with_mark(bytes: &[u8]) -> bool {
    let head = bytes.get(..4).unwrap_or(bytes);
    let text = head.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    text.chars().next().is_some_and(is_combining_mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IGNORE: Preparation = Preparation { fold: true, spaces: Spaces::Collapse };
    const EXACT: Preparation = Preparation { fold: false, spaces: Spaces::Collapse };
    const NUMERIC: Preparation = Preparation { fold: false, spaces: Spaces::Remove };
    const TELEPHONE: Preparation = Preparation { fold: true, spaces: Spaces::RemoveWithHyphens };

    fn key(preparation: Preparation, value: &str) -> String {
        let mut out = Vec::new();
        preparation.value(value.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_word_has_no_spaces_and_no_control_characters() {
        for len in 0..20 {
            let word = vec![b'w'; len];
            assert_eq!(is_word(&word), len > 0, "{len}");
            for place in 0..len {
                for odd in 0..=u8::MAX {
                    let mut text = word.clone();
                    text[place] = odd;
                    assert_eq!(is_word(&text), odd.is_ascii_graphic(), "{odd} at {place} of {len}");
                }
            }
        }
    }

    #[test]
    fn text_is_printable_if_each_byte_is() {
        for len in 0..20 {
            assert!(is_printable(&b"abcdefgh ~!z 0123456789"[..len]), "{len}");
            for place in 0..len {
                for byte in 0..=255 {
                    let mut text = vec![b'~'; len];
                    text[place] = byte;
                    assert_eq!(
                        is_printable(&text),
                        matches!(byte, b' '..=b'~'),
                        "{byte} at {place} of {len}"
                    );
                    text.iter_mut().for_each(|other| *other = b' ');
                    text[place] = byte;
                    assert_eq!(
                        is_printable(&text),
                        matches!(byte, b' '..=b'~'),
                        "{byte} at {place} of {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn strings_are_prepared_as_keys() {
        for (preparation, value, expected) in [
            (IGNORE, "Foo", "foo"),
            (EXACT, "Foo", "Foo"),
            (IGNORE, "  foo \t\r\n bar  ", "foo bar"),
            (IGNORE, "", " "),
            (IGNORE, " ", " "),
            (IGNORE, "   \u{A0}\u{3000} ", " "),
            (IGNORE, "a\u{0}b\u{7f}c", "abc"),
            (IGNORE, "a\u{AD}b\u{200B}c\u{FEFF}", "abc"),
            (IGNORE, "Straße", "strasse"),
            (IGNORE, "ÉCOLE", "école"),
            (IGNORE, "E\u{301}COLE", "école"),
            (EXACT, "E\u{301}cole", "École"),
            (IGNORE, "ＡＢＣ　１２", "abc 12"),
            (IGNORE, "ﬁn", "fin"),
            (IGNORE, "Ω\u{2126}", "ωω"),
            (IGNORE, "naïve\u{2003}name", "naïve name"),
            (IGNORE, "a \u{301}b", "a \u{301}b"),
            (IGNORE, "é \u{301}", "é \u{301}"),
            (IGNORE, "😀 X", "😀 x"),
            (NUMERIC, "  123  456  ", "123456"),
            (NUMERIC, "   ", ""),
            (TELEPHONE, " -123  456 -", "123456"),
            (TELEPHONE, "---", ""),
            (TELEPHONE, "+1 512\u{2010}315\u{FF0D}0280", "+15123150280"),
            (TELEPHONE, "+1 512-ABC", "+1512abc"),
        ] {
            assert_eq!(key(preparation, value), expected, "{value:?}");
        }
    }

    #[test]
    fn failures_leave_the_output_unchanged() {
        for (value, expected) in [
            (&b"ab\xff"[..], Fault::NotUtf8 { offset: 2 }),
            ("é\u{E000}".as_bytes(), Fault::Prohibited { character: '\u{E000}' }),
            ("é\u{FFFD}".as_bytes(), Fault::Prohibited { character: '\u{FFFD}' }),
            ("é\u{FDD0}".as_bytes(), Fault::Prohibited { character: '\u{FDD0}' }),
        ] {
            let mut out = b"x".to_vec();
            assert_eq!(IGNORE.value(value, &mut out), Err(expected));
            assert_eq!(out, b"x");
        }
    }

    #[test]
    fn keys_expand_to_the_form_of_the_rfc() {
        for (value, expected) in [("foo bar  ", " foo  bar "), ("", "  "), ("   ", "  "), ("a", " a ")] {
            let mut out = Vec::new();
            expand_spaces(key(IGNORE, value).as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    /// There are three functions for preparing text: for plain ASCII, for other ASCII, and for text beyond ASCII. All
    /// must produce the same keys.
    #[test]
    fn ascii_shortcuts_do_not_change_keys() {
        const ALPHABET: [u8; 6] = [b'a', b'B', b'-', b' ', b'\t', 0];
        for size in 0..=5u32 {
            for code in 0..6usize.pow(size) {
                let value: Vec<u8> = (0..size).map(|at| ALPHABET[code / 6usize.pow(at) % 6]).collect();
                let text = std::str::from_utf8(&value).unwrap();
                for preparation in [IGNORE, EXACT, NUMERIC, TELEPHONE] {
                    let (mut short, mut long) = (Vec::new(), Vec::new());
                    let short_edges = preparation.piece(&value, &mut short).unwrap();
                    let long_edges =
                        preparation.unicode(text, Sink::new(&mut long, preparation.spaces)).unwrap();
                    assert_eq!((short, short_edges), (long, long_edges), "{text:?} {preparation:?}");
                }
            }
        }
    }

    /// Keys are stored. If this test fails, the Unicode tables changed: check the effect on keys, raise
    /// `NORMALISATION_VERSION` and write the new version here.
    #[test]
    fn unicode_tables_are_those_of_this_normalisation_version() {
        assert_eq!((unicode_normalization::UNICODE_VERSION, crate::NORMALISATION_VERSION), ((18, 0, 0), 1));
    }
}
