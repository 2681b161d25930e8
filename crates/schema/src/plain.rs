//! Matching on the bytes of a value as they are stored, without making its key.
//!
//! Keys are the truth. But the key of a value of printable ASCII is known beforehand: the same text with case folded and
//! spaces treated. Where that is all there is to it, comparing without regard to case says what comparing keys would, and a
//! search that has to look at every entry is several times faster. Everything here answers `None` where it is not so.

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

use crate::form::{Alphabet, Form};
use crate::prepare::{Preparation, Spaces, is_plain, is_printable};

/// Longest piece that is searched for here. Comparing at every candidate place costs its length, and both the piece and
/// the values may be hostile.
const PIECE_LEN_MAX: usize = 32;

/// Characters from the most to the least usual in names and sentences; any other is rarer still.
const USUAL: &[u8] = b" eatoinsrlhdcumpgfybwvk0123456789.,-@_jxqz";

/// The pieces of a substring assertion, to be found in printable ASCII.
#[derive(Debug, Clone)]
pub(crate) struct PlainPieces {
    initial: Vec<u8>,
    any: Vec<PlainPiece>,
    last: Vec<u8>,
    /// Whether the spaces of a value have to be as in its key: pieces have some, or are bound to its ends.
    looks_at_spaces: bool,
    fold: bool,
}

#[derive(Debug, Clone)]
enum PlainPiece {
    /// In any case: the piece and the place of its least usual character.
    Folded(Vec<u8>, usize),
    Exact(Box<Finder<'static>>),
}

/// How rules of this form prepare text, if the case of letters and spaces is all that they change of printable ASCII.
fn plain_preparation(form: Form) -> Option<Preparation> {
    match form {
        Form::Text(preparation, Alphabet::Unicode | Alphabet::Ascii)
            if preparation.spaces == Spaces::Collapse =>
        {
            Some(preparation)
        }
        _ => None,
    }
}

/// Whether a value has a key for sure: preparing ASCII never fails (RFC 4518 prohibits nothing there).
pub(crate) fn surely_has_key(form: Form, value: &[u8]) -> bool {
    match form {
        Form::Text(_, Alphabet::Unicode | Alphabet::Ascii) => value.is_ascii(),
        Form::List => value.is_ascii() && !value.contains(&b'\\'),
        Form::Octets => true,
        _ => false,
    }
}

impl PlainPieces {
    /// For pieces as they occur in keys; `None` where keys have to be made.
    pub(crate) fn new(
        form: Form,
        initial: Option<&[u8]>,
        any: &[Vec<u8>],
        last: Option<&[u8]>,
    ) -> Option<PlainPieces> {
        let preparation = plain_preparation(form)?;
        let pieces = || any.iter().map(Vec::as_slice).chain(initial).chain(last);
        if !pieces().all(|piece| is_printable(piece) && !piece.is_empty() && piece.len() <= PIECE_LEN_MAX) {
            return None;
        }
        let is_bound = initial.is_some() || last.is_some();
        Some(PlainPieces {
            initial: initial.unwrap_or_default().to_vec(),
            any: any.iter().map(|piece| PlainPiece::new(piece, preparation.fold)).collect(),
            last: last.unwrap_or_default().to_vec(),
            looks_at_spaces: is_bound || pieces().any(|piece| piece.contains(&b' ')),
            fold: preparation.fold,
        })
    }

    /// Whether a value has the pieces in order, without overlap; `None` for a value whose key has to be made.
    pub(crate) fn matches(&self, value: &[u8]) -> Option<bool> {
        if !is_printable(value) || (self.looks_at_spaces && !is_plain(value)) {
            return None;
        }
        let (head, tail) = (self.initial.len(), self.last.len());
        if value.len() < head + tail {
            return Some(false);
        }
        let (first, rest) = value.split_at(head);
        let (mut rest, last) = rest.split_at(rest.len() - tail);
        if !self.is_same(first, &self.initial) || !self.is_same(last, &self.last) {
            return Some(false);
        }
        Some(self.any.iter().all(|piece| match piece.find_end(rest) {
            Some(end) => {
                rest = &rest[end..];
                true
            }
            None => false,
        }))
    }

    fn is_same(&self, text: &[u8], piece: &[u8]) -> bool {
        if self.fold { text.eq_ignore_ascii_case(piece) } else { text == piece }
    }
}

impl PlainPiece {
    fn new(piece: &[u8], fold: bool) -> PlainPiece {
        if !fold {
            return PlainPiece::Exact(Box::new(Finder::new(piece).into_owned()));
        }
        let rarity = |byte: &u8| USUAL.iter().position(|usual| usual == byte).unwrap_or(USUAL.len());
        let rarest = (0..piece.len()).max_by_key(|place| rarity(&piece[*place]));
        PlainPiece::Folded(piece.to_vec(), rarest.unwrap_or(0))
    }

    /// Where the first occurrence ends.
    #[inline]
    fn find_end(&self, text: &[u8]) -> Option<usize> {
        let (piece, rarest) = match self {
            PlainPiece::Exact(finder) => return Some(finder.find(text)? + finder.needle().len()),
            PlainPiece::Folded(piece, rarest) => (piece, *rarest),
        };
        let (low, high) = (piece[rarest], piece[rarest].to_ascii_uppercase());
        // The rarest character can be up to here: behind it there must be room for the rest of the piece.
        let room = text.len().checked_sub(piece.len() - rarest - 1)?;
        let mut from = rarest;
        while let Some(places) = text.get(from..room) {
            let found = if low == high { memchr(low, places) } else { memchr2(low, high, places) };
            let start = from + found? - rarest;
            let end = start + piece.len();
            if text[start..end].eq_ignore_ascii_case(piece) {
                return Some(end);
            }
            from = start + rarest + 1;
        }
        None
    }
}

/// Whether the key of a value is this one; `None` for a value whose key has to be made.
#[inline]
pub(crate) fn has_key(form: Form, value: &[u8], key: &[u8]) -> Option<bool> {
    let preparation = plain_preparation(form)?;
    if !is_printable(value) || !is_plain(value) {
        return None;
    }
    Some(if preparation.fold { value.eq_ignore_ascii_case(key) } else { value == key })
}

#[cfg(test)]
mod tests {
    use crate::{MatchingRule, Schema, SubstringAssertion};

    const ALPHABET: [&str; 8] = ["a", "B", "b", " ", "\t", "\0", "\u{e9}", "\u{ff42}"];

    /// Texts of up to four letters, and a few longer ones.
    fn texts() -> Vec<String> {
        let mut texts = vec![String::new()];
        let mut last = texts.clone();
        for _ in 0..4 {
            last = last.iter().flat_map(|text| ALPHABET.map(|letter| format!("{text}{letter}"))).collect();
            texts.extend(last.iter().cloned());
        }
        texts.extend(["abbab bab", "AB  ab", "xa bbx ba", "aabab"].map(str::to_owned));
        texts
    }

    #[test]
    fn shortcuts_say_what_keys_say() {
        let schema = Schema::shipped();
        let assertions = [
            "*b*", "*ab*", "a*", "*b", "a*b", "*a*b*", "b*b*b", "*a b*", "*a *", "* b*", "*bab*ab",
            "*\u{e9}*",
        ];
        let rules = ["caseIgnoreSubstringsMatch", "caseExactSubstringsMatch", "caseIgnoreIA5SubstringsMatch"];
        for rule in rules.map(|name| MatchingRule::find(name).unwrap()) {
            for text in assertions {
                let Ok(assertion) = SubstringAssertion::parse(rule, text.as_bytes()) else { continue };
                let mut told = 0;
                for value in texts() {
                    let Some(found) = assertion.matches_plain(value.as_bytes()) else { continue };
                    let mut key = Vec::new();
                    rule.normalize(&schema, value.as_bytes(), &mut key).unwrap();
                    assert_eq!(found, assertion.matches(&key), "{rule:?} {text:?} {value:?}");
                    told += 1;
                }
                let has_shortcut = text.is_ascii() && !["*a *", "* b*"].contains(&text);
                assert_eq!(told > 100, has_shortcut, "{rule:?} {text:?}: {told}");
            }
        }
    }

    #[test]
    fn keys_are_compared_without_making_them() {
        let schema = Schema::shipped();
        for (rule, value, asserted, expected) in [
            ("caseIgnoreMatch", "Paris", "PARIS", Some(true)),
            ("caseIgnoreMatch", "Paris", "London", Some(false)),
            ("caseIgnoreMatch", " Paris", "paris", None),
            ("caseIgnoreMatch", "Z\u{fc}rich", "z\u{fc}rich", None),
            ("caseExactMatch", "Paris", "paris", Some(false)),
            ("caseExactMatch", "Paris", "Paris", Some(true)),
            ("caseIgnoreIA5Match", "a@b", "A@B", Some(true)),
            ("telephoneNumberMatch", "1", "1", None),
            ("integerMatch", "1", "1", None),
        ] {
            let rule = MatchingRule::find(rule).unwrap();
            let mut key = Vec::new();
            rule.normalize_assertion(&schema, asserted.as_bytes(), &mut key).unwrap();
            assert_eq!(rule.has_key_plainly(value.as_bytes(), &key), expected, "{rule:?} {value:?}");
        }
    }

    #[test]
    fn the_rarest_character_may_stand_anywhere() {
        let rule = MatchingRule::find("caseIgnoreSubstringsMatch").unwrap();
        for (piece, value, expected) in [
            ("*zebra*", "a Zebra", true),
            ("*quiz*", "xquiquiZ", true),
            ("*quiz*", "quiz", true),
            ("*quiz*", "zzzzqui", false),
            ("*quiz*", "ui", false),
            ("*quiz*quiz*", "QUIZuizquiz", true),
            ("*quiz*quiz*", "QUIZuiz", false),
        ] {
            let assertion = SubstringAssertion::parse(rule, piece.as_bytes()).unwrap();
            assert_eq!(assertion.matches_plain(value.as_bytes()), Some(expected), "{piece} {value}");
        }
    }
}
