//! Matching of the stored bytes of a value, without computing the value's key.
//!
//! Keys define equality. But the key of printable ASCII is known in advance: the same text with case folded and spaces
//! normalized. If the preparation of a rule changes nothing else, a comparison without regard to case gives the same
//! result as a comparison of keys. The comparison of stored bytes makes a search that examines every entry several
//! times faster. In all other cases the functions here return `None`.

use memchr::memmem::Finder;
use memchr::{memchr, memchr2};

use crate::form::{Alphabet, Form};
use crate::prepare::{Preparation, Spaces, is_plain, is_printable};

/// Maximum length of a substring that is found by its rarest byte. The length is limited, because such a search may
/// compare the whole substring at every position of a value. A client may choose the substring and the values so that
/// this happens.
const SHORT_LEN_MAX: usize = 32;

/// Characters in the order of their frequency in names and sentences, the most frequent first. All other characters are
/// rarer.
const USUAL: &[u8] = b" eatoinsrlhdcumpgfybwvk0123456789.,-@_jxqz";

/// Returns the rarity of a character: higher is rarer.
#[expect(clippy::indexing_slicing, reason = "every octet has its place, and the compiler computes this")]
#[expect(clippy::cast_possible_truncation, reason = "there are fewer usual characters than octets")]
static RARITY: [u8; 256] = {
    let mut rarity = [USUAL.len() as u8; 256];
    let mut place = 0;
    while place < USUAL.len() {
        rarity[USUAL[place] as usize] = place as u8;
        place += 1;
    }
    rarity
};

/// Search for the substrings of an assertion in printable ASCII.
#[derive(Debug, Clone)]
pub(crate) struct PlainMatching {
    /// Whether spaces in a value must be compared as in its key. True if a substring contains spaces or is bound to an
    /// end of the value.
    depends_on_spaces: bool,
    fold: bool,
    /// If `depends_on_spaces`, a word of the substrings. Every matching value contains the word, with whatever spaces.
    word: Option<Box<Needle>>,
}

/// Bytes to find in values. Clients choose the bytes and the values, so the search must take linear time. For a long
/// text, `long` is a searcher that guarantees linear time. For a short text, the search finds the rarest byte of the
/// text, and then compares the other bytes.
#[derive(Debug, Clone)]
pub(crate) struct Needle {
    text: Box<[u8]>,
    rarest: u32,
    long: Option<Box<Finder<'static>>>,
}

/// A character of a substring, by which many values are rejected quickly. The key of an ASCII value contains the
/// character only if the value contains the character in upper or lower case. Values without the character therefore
/// need no further test. The search for one character is cheap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequiredCharacter {
    byte: u8,
    /// The bit in which the two cases of a letter differ; 0 if case matters or the character has no case.
    case_bit: u8,
}

/// Number of bytes that are examined at a time.
const BLOCK: usize = 16;

impl RequiredCharacter {
    /// Returns the two rarest characters in substrings of keys of this form, or fewer if there are fewer.
    pub(crate) fn of<'p>(
        form: Form,
        pieces: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> [Option<RequiredCharacter>; 2] {
        let Form::Text(preparation, _) = form else { return [None; 2] };
        // Skip spaces and hyphens: preparation adds and removes spaces, and for some rules removes hyphens.
        let lasting = pieces.flatten().copied().filter(|byte| !matches!(byte, b' ' | b'-' | 0));
        let first = lasting.clone().max_by_key(|byte| rarity(*byte));
        let second = lasting.filter(|byte| Some(*byte) != first).max_by_key(|byte| rarity(*byte));
        [first, second].map(|byte| {
            let byte = byte?;
            let has_cases = preparation.fold && byte.is_ascii_lowercase();
            Some(RequiredCharacter { byte, case_bit: if has_cases { 0x20 } else { 0 } })
        })
    }

    /// Returns true if a value is ASCII and lacks the character. The key of such a value, if the value has a key, lacks
    /// the character, too.
    #[inline]
    pub(crate) fn is_surely_missing(self, value: &[u8]) -> bool {
        let mut against = [0; BLOCK];
        match value.last_chunk() {
            Some(last) => {
                for block in value.as_chunks().0 {
                    self.add(block, &mut against);
                }
                // Examines some bytes a second time, which is cheaper than examining the remaining bytes one by one.
                self.add(last, &mut against);
            }
            None => {
                // The required character is never a zero byte, so the padding does not match.
                let mut block = [0; BLOCK];
                if let Some(place) = block.get_mut(..value.len()) {
                    place.copy_from_slice(value);
                }
                self.add(&block, &mut against);
            }
        }
        against.iter().fold(0, |all, byte| all | byte) < 0x80
    }

    /// Sets the highest bit of each byte that is not ASCII or is the character. The loop is written so that the
    /// compiler vectorizes it.
    #[inline]
    fn add(self, block: &[u8; BLOCK], against: &mut [u8; BLOCK]) {
        for (against, byte) in against.iter_mut().zip(block) {
            *against |= byte | if byte | self.case_bit == self.byte { 0xff } else { 0 };
        }
    }
}

fn rarity(byte: u8) -> u8 {
    #[expect(clippy::indexing_slicing, reason = "every octet has its place")]
    RARITY[usize::from(byte)]
}

/// Returns the preparation of rules of this form, if it changes only the case of letters and the spaces of printable
/// ASCII.
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

/// Returns true if a value certainly has a key: preparing ASCII never fails, because RFC 4518 prohibits no ASCII
/// character.
pub(crate) fn surely_has_key(form: Form, value: &[u8]) -> bool {
    match form {
        Form::Text(_, Alphabet::Unicode | Alphabet::Ascii) => value.is_ascii(),
        Form::List => value.is_ascii() && !value.contains(&b'\\'),
        Form::Octets => true,
        _ => false,
    }
}

impl PlainMatching {
    /// Creates the search for substrings in the form of keys; returns `None` if keys must be computed.
    pub(crate) fn new(
        form: Form,
        initial: Option<&[u8]>,
        any: &[Needle],
        last: Option<&[u8]>,
    ) -> Option<PlainMatching> {
        let preparation = plain_preparation(form)?;
        let pieces = || any.iter().map(Needle::text).chain(initial).chain(last);
        if !pieces().all(|piece| is_printable(piece) && !piece.is_empty() && piece.len() <= SHORT_LEN_MAX) {
            return None;
        }
        let is_bound = initial.is_some() || last.is_some();
        let depends_on_spaces = is_bound || pieces().any(|piece| piece.contains(&b' '));
        // If every substring is bound to an end of the value, comparing the ends rejects values sooner than a search
        // for a word.
        let word = if depends_on_spaces && !any.is_empty() {
            let words = pieces().flat_map(|piece| piece.split(|byte| *byte == b' '));
            let words = words.filter(|word| !word.is_empty());
            words.max_by_key(|word| word.iter().map(|byte| rarity(*byte)).max())
        } else {
            None
        };
        let word = word.map(|word| Box::new(Needle::new(word)));
        Some(PlainMatching { depends_on_spaces, fold: preparation.fold, word })
    }

    /// Returns true if a value contains the substrings in order, without overlap; `None` if the value's key must be
    /// computed.
    pub(crate) fn matches(
        &self,
        initial: &[u8],
        any: &[Needle],
        final_piece: &[u8],
        value: &[u8],
    ) -> Option<bool> {
        if !is_printable(value) {
            return None;
        }
        if self.word.as_ref().is_some_and(|word| self.find_end(word, value).is_none()) {
            return Some(false);
        }
        if self.depends_on_spaces && !is_plain(value) {
            return None;
        }
        let (head, tail) = (initial.len(), final_piece.len());
        if value.len() < head + tail {
            return Some(false);
        }
        let (first, rest) = value.split_at(head);
        let (mut rest, last) = rest.split_at(rest.len() - tail);
        if !self.is_same(first, initial) || !self.is_same(last, final_piece) {
            return Some(false);
        }
        Some(any.iter().all(|piece| match self.find_end(piece, rest) {
            Some(end) => {
                rest = rest.get(end..).unwrap_or_default();
                true
            }
            None => false,
        }))
    }

    #[inline]
    fn find_end(&self, piece: &Needle, text: &[u8]) -> Option<usize> {
        if self.fold { piece.find_end_in_any_case(text) } else { piece.find_end(text) }
    }

    fn is_same(&self, text: &[u8], piece: &[u8]) -> bool {
        if self.fold { text.eq_ignore_ascii_case(piece) } else { text == piece }
    }

    /// Returns the bytes of heap memory.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.word.as_ref().map_or(0, |word| size_of::<Needle>() + word.heap_bytes())
    }
}

impl Needle {
    pub(crate) fn new(text: &[u8]) -> Needle {
        // The rarest byte is used only if the text is short.
        let short = text.get(..SHORT_LEN_MAX).unwrap_or(text);
        let rarest = (0..).zip(short).max_by_key(|(_, byte)| rarity(**byte)).map_or(0, |(place, _)| place);
        let is_long = text.len() > SHORT_LEN_MAX;
        Needle { text: text.into(), rarest, long: is_long.then(|| Box::new(Finder::new(text).into_owned())) }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the bytes of heap memory. A searcher has a second copy of the text.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.text.len() + self.long.as_ref().map_or(0, |_| size_of::<Finder<'_>>() + self.text.len())
    }

    /// Returns the end of the first occurrence.
    pub(crate) fn find_end(&self, text: &[u8]) -> Option<usize> {
        if let Some(finder) = &self.long {
            return Some(finder.find(text)? + self.text.len());
        }
        let Some(byte) = self.text.get(self.rarest as usize) else { return Some(0) };
        self.find_short(text, |places| memchr(*byte, places), |found| found == &*self.text)
    }

    /// Returns the end of the first occurrence of a short text in lower case among letters in any case.
    #[inline]
    fn find_end_in_any_case(&self, text: &[u8]) -> Option<usize> {
        let low = *self.text.get(self.rarest as usize)?;
        let high = low.to_ascii_uppercase();
        self.find_short(
            text,
            |places| if low == high { memchr(low, places) } else { memchr2(low, high, places) },
            |found| found.eq_ignore_ascii_case(&self.text),
        )
    }

    #[inline]
    fn find_short(
        &self,
        text: &[u8],
        find_rarest: impl Fn(&[u8]) -> Option<usize>,
        is_same: impl Fn(&[u8]) -> bool,
    ) -> Option<usize> {
        let rarest = self.rarest as usize;
        // The number of positions at which the rarest byte may be: the rest of the needle must fit after that byte.
        let room = text.len().checked_sub(self.text.len() - rarest - 1)?;
        let mut from = rarest;
        while let Some(places) = text.get(from..room) {
            let start = from + find_rarest(places)? - rarest;
            let end = start + self.text.len();
            if text.get(start..end).is_some_and(&is_same) {
                return Some(end);
            }
            from = start + rarest + 1;
        }
        None
    }
}

/// Returns true if the key of `value` is `key`; `None` if the key must be computed.
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
    use super::RequiredCharacter;
    use crate::{MatchingRule, Schema, SubstringAssertion};

    const ALPHABET: [&str; 9] = ["a", "B", "b", " ", "-", "\t", "\0", "\u{e9}", "\u{ff42}"];

    /// Returns all texts of up to four letters, and a few longer ones.
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
    fn matching_without_keys_agrees_with_keys() {
        let schema = Schema::shipped();
        let assertions = [
            "*b*", "*ab*", "a*", "*b", "a*b", "*a*b*", "b*b*b", "*a b*", "*a *", "* b*", "*bab*ab",
            "*\u{e9}*",
        ];
        let rules = [
            "caseIgnoreSubstringsMatch",
            "caseExactSubstringsMatch",
            "caseIgnoreIA5SubstringsMatch",
            "telephoneNumberSubstringsMatch",
        ];
        for rule in rules.map(|name| MatchingRule::find(name).unwrap()) {
            for text in assertions {
                let Ok(assertion) = SubstringAssertion::parse(rule, text.as_bytes()) else { continue };
                let mut decided = 0;
                for value in texts() {
                    let Some(found) = assertion.matches_plain(value.as_bytes()) else { continue };
                    let mut key = Vec::new();
                    rule.normalize(&schema, value.as_bytes(), &mut key).unwrap();
                    assert_eq!(found, assertion.matches(&key), "{rule:?} {text:?} {value:?}");
                    decided += 1;
                }
                // If the rule removes spaces, the required character is the only shortcut. This shortcut is not used if
                // a substring is bound to an end.
                let has_sign = text.starts_with('*') && text.ends_with('*');
                let has_shortcut = has_sign || rule.name() != "telephoneNumberSubstringsMatch";
                assert_eq!(decided > 100, has_shortcut, "{rule:?} {text:?}: {decided}");
            }
        }
    }

    /// A required character is found at every position, in values that are searched in blocks and in values shorter
    /// than a block.
    #[test]
    fn a_required_character_is_found_at_every_position() {
        let form = MatchingRule::find("caseIgnoreSubstringsMatch").unwrap().form();
        let [sign, second] =
            RequiredCharacter::of(form, [&b"lazy dog"[..], b"-zz"].into_iter()).map(Option::unwrap);
        assert_eq!((sign.byte, sign.case_bit), (b'z', 0x20));
        assert_eq!((second.byte, second.case_bit), (b'y', 0x20));
        for len in 0..40 {
            let mut text = b"The quick brown fox and the lion and dogs"[..len].to_vec();
            assert!(sign.is_surely_missing(&text), "{len}");
            for place in 0..len {
                let was = text[place];
                for odd in [b'z', b'Z', 0x80, 0xff] {
                    text[place] = odd;
                    assert!(!sign.is_surely_missing(&text), "{odd} at {place} of {len}");
                }
                // Other characters that differ from the required character in one bit.
                for other in [b'{', b'x', b'z' & !0x40, b':'] {
                    text[place] = other;
                    assert!(sign.is_surely_missing(&text), "{other} at {place} of {len}");
                }
                text[place] = was;
            }
        }
        let signs = |piece: &[u8]| {
            RequiredCharacter::of(form, [piece].into_iter()).map(|sign| sign.map(|sign| sign.byte))
        };
        assert_eq!(signs(b" - "), [None, None]);
        assert_eq!(signs(b"aa"), [Some(b'a'), None]);
    }

    #[test]
    fn values_are_compared_without_computing_keys() {
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
    fn the_rarest_character_may_be_anywhere() {
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
