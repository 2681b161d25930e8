//! Substring assertions, matched against keys.
//!
//! By RFC 4518 section 2.6.1, a prepared value has one space at each end and two for every inner space. A space at the
//! end of a substring is prepared as one space. So `foo *` matches `foo` as well as `foo bar` (not `foobar`), and `*o
//! *` and `* b*` both match `foo bar`, even in combination. Keys have one space for every inner space, and no spaces at
//! the ends. Matching against keys gives the same result as the RFC's form, unless a substring begins or ends with a
//! space that is not at an end of the value. Substrings are therefore normally searched in the key. In the exceptional
//! case, the key is first expanded to the RFC's form.

use crate::form::{Form, IGNORE_CASE};
use crate::plain::{Needle, PlainMatching, RequiredCharacter};
use crate::prepare::{Edges, Preparation, Spaces, expand_inner_spaces, expand_spaces};
use crate::{Fault, MatchingRule, ValueError};

/// The substrings of a filter item, prepared once and evaluated on the keys of many values.
///
/// A request of thirty kilobytes can have two thousand such assertions, so each text is stored once, and rare parts are
/// boxed.
#[derive(Debug, Clone)]
pub struct SubstringAssertion {
    initial: Option<Box<[u8]>>,
    any: Box<[Needle]>,
    last: Option<Box<[u8]>>,
    /// The substrings in the form of keys. `None` if the fields above have this form already. If it is `Some`, the
    /// fields above have the RFC's form, and keys must be expanded to the RFC's form before a comparison.
    in_keys: Option<Box<[KeyPiece]>>,
    /// Characters that a matching value must contain. Most values that do not match lack at least one of these
    /// characters.
    signs: [Option<RequiredCharacter>; 2],
    /// Search that compares values directly, without computing their keys. `None` if the keys are necessary.
    plain: Option<PlainMatching>,
}

/// Bytes that the key of every matching value contains, with their position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubstringPiece<'a> {
    /// The bytes, at least one.
    pub text: &'a [u8],
    /// Whether the key begins with these bytes.
    pub at_start: bool,
    /// Whether the key ends with these bytes.
    pub at_end: bool,
}

/// The owned form of a [`SubstringPiece`].
#[derive(Debug, Clone)]
struct KeyPiece {
    text: Box<[u8]>,
    place: PiecePosition,
}

/// A substring in a form that can become either the form of keys or the RFC's form.
struct Piece {
    /// Text without spaces at the ends, with single inner spaces.
    text: Vec<u8>,
    edges: Edges,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PiecePosition {
    Initial,
    Any,
    Final,
}

impl SubstringAssertion {
    /// Prepares the substrings for a substring `rule`, or an equality rule with the same keys.
    ///
    /// # Errors
    /// A substring does not follow the rule's syntax, or the rule has no substrings: the filter item is Undefined.
    pub fn new<'a>(
        rule: MatchingRule,
        initial: Option<&'a [u8]>,
        any: impl IntoIterator<Item = &'a [u8]>,
        r#final: Option<&'a [u8]>,
    ) -> Result<SubstringAssertion, ValueError> {
        let piece = |value| Piece::prepare(rule.form(), value).map_err(|fault| rule.error(fault));
        let initial = initial.map(piece).transpose()?;
        let any = any.into_iter().map(piece).collect::<Result<Vec<_>, _>>()?;
        let last = r#final.map(piece).transpose()?;

        let loose_space = initial.iter().any(|piece| piece.edges.trailing || piece.is_space())
            || any.iter().any(|piece| piece.edges.leading || piece.edges.trailing || piece.is_space())
            || last.iter().any(|piece| piece.edges.leading || piece.is_space());
        let expanded = loose_space && rule.form() != Form::Octets;
        // If a substring is bound to an end of the value, the comparison at that end rejects as many values as required
        // characters do.
        let is_bound = initial.is_some() || last.is_some();
        let texts = any.iter().chain(&initial).chain(&last).map(|piece| &*piece.text);
        let signs = if is_bound { [None; 2] } else { RequiredCharacter::of(rule.form(), texts) };
        let in_keys = expanded.then(|| {
            let inner = any.iter().map(|piece| (piece, PiecePosition::Any));
            let all = initial.iter().map(|piece| (piece, PiecePosition::Initial)).chain(inner);
            let all = all.chain(last.iter().map(|piece| (piece, PiecePosition::Final)));
            let all = all.filter(|(piece, _)| !piece.text.is_empty());
            all.map(|(piece, place)| KeyPiece { text: piece.text.as_slice().into(), place }).collect()
        });
        let write = |piece: Piece, place| if expanded { piece.expand(place) } else { piece.text };
        let initial = initial.map(|piece| write(piece, PiecePosition::Initial).into_boxed_slice());
        let any: Box<[Needle]> =
            any.into_iter().map(|piece| Needle::new(&write(piece, PiecePosition::Any))).collect();
        let last = last.map(|piece| write(piece, PiecePosition::Final).into_boxed_slice());
        let plain = match expanded {
            true => None,
            false => PlainMatching::new(rule.form(), initial.as_deref(), &any, last.as_deref()),
        };
        Ok(SubstringAssertion { initial, any, last, in_keys, signs, plain })
    }

    /// Parses the text of a Substring Assertion (RFC 4517 section 3.3.30): `initial*any*final`, with `*` and `\` in
    /// substrings escaped as `\2A` and `\5C`.
    ///
    /// # Errors
    /// There is no `*`, a substring is empty, or an error of [`Self::new`].
    pub fn parse(rule: MatchingRule, text: &[u8]) -> Result<SubstringAssertion, ValueError> {
        let [initial, any @ .., last] = &text.split(|&byte| byte == b'*').collect::<Vec<_>>()[..] else {
            return Err(rule.error(Fault::Expected { offset: text.len(), what: "'*'" }));
        };
        if any.iter().any(|piece| piece.is_empty()) {
            return Err(rule.error(Fault::Expected { offset: 0, what: "characters between the asterisks" }));
        }
        let unescape = |piece: &&[u8]| crate::syntax_text::unescape_line(piece);
        let (initial, last) = (unescape(initial), unescape(last));
        let any: Vec<Vec<u8>> = any.iter().map(unescape).collect();
        let edge = |piece: &'_ Vec<u8>| !piece.is_empty();
        SubstringAssertion::new(
            rule,
            Some(&initial).filter(|piece| edge(piece)).map(Vec::as_slice),
            any.iter().map(Vec::as_slice),
            Some(&last).filter(|piece| edge(piece)).map(Vec::as_slice),
        )
    }

    /// Returns true if the value with this key, computed by the rule's `normalize`, contains the substrings in order,
    /// without overlap.
    pub fn matches(&self, key: &[u8]) -> bool {
        if self.in_keys.is_none() {
            return self.matches_form(key);
        }
        let mut form = Vec::with_capacity(key.len() * 2 + 2);
        for (index, line) in key.split(|&byte| byte == 0).enumerate() {
            if index > 0 {
                form.push(0);
            }
            expand_spaces(line, &mut form);
        }
        self.matches_form(&form)
    }

    /// Returns the result of [`matches`](Self::matches) from the value itself; `None` if its key must be computed. May
    /// return `Some(false)` for a value that has no key.
    #[inline]
    pub fn matches_plain(&self, value: &[u8]) -> Option<bool> {
        if self.signs.iter().flatten().any(|sign| sign.is_surely_missing(value)) {
            return Some(false);
        }
        let (initial, last) = (self.initial.as_deref(), self.last.as_deref());
        self.plain.as_ref()?.matches(initial.unwrap_or_default(), &self.any, last.unwrap_or_default(), value)
    }

    fn matches_form(&self, value: &[u8]) -> bool {
        let mut rest = value;
        if let Some(initial) = &self.initial {
            match rest.strip_prefix(&**initial) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        if let Some(last) = &self.last {
            match rest.strip_suffix(&**last) {
                Some(before) => rest = before,
                None => return false,
            }
        }
        self.any.iter().all(|piece| match piece.find_end(rest) {
            Some(end) => {
                rest = rest.get(end..).unwrap_or_default();
                true
            }
            None => false,
        })
    }

    /// Returns bytes with which the key of every matching value begins; `None` if unknown.
    pub fn prefix(&self) -> Option<&[u8]> {
        self.pieces().next().filter(|piece| piece.at_start).map(|piece| piece.text)
    }

    /// Returns true if the keys of matching values are exactly those that begin with [`prefix`](Self::prefix).
    pub fn is_prefix_only(&self) -> bool {
        self.in_keys.is_none() && self.initial.is_some() && self.any.is_empty() && self.last.is_none()
    }

    /// Returns bytes that the key of every matching value contains, in the order of the substrings. The bytes of
    /// different substrings may overlap. The bytes are necessary for a match, but not sufficient:
    /// [`matches`](Self::matches) also checks the order and the spaces at the ends of substrings.
    pub fn pieces(&self) -> impl Iterator<Item = SubstringPiece<'_>> + Clone {
        let in_keys = self.in_keys.as_deref().unwrap_or_default().iter();
        let expanded = in_keys.map(|piece| (&*piece.text, piece.place));
        let (initial, any, last) = match self.in_keys {
            Some(_) => (None, &[][..], None),
            None => (self.initial.as_deref(), &self.any[..], self.last.as_deref()),
        };
        let same = initial.into_iter().map(|text| (text, PiecePosition::Initial));
        let same = same.chain(any.iter().map(|piece| (piece.text(), PiecePosition::Any)));
        let same = same.chain(last.into_iter().map(|text| (text, PiecePosition::Final)));
        expanded.chain(same).filter(|(text, _)| !text.is_empty()).map(|(text, place)| SubstringPiece {
            text,
            at_start: place == PiecePosition::Initial,
            at_end: place == PiecePosition::Final,
        })
    }

    /// Returns the bytes of heap memory.
    pub fn heap_bytes(&self) -> usize {
        let ends = self.initial.iter().chain(&self.last).map(|text| text.len());
        let in_keys = self.in_keys.iter().flatten().map(|piece| size_of::<KeyPiece>() + piece.text.len());
        let any = self.any.iter().map(|piece| size_of::<Needle>() + piece.heap_bytes());
        let plain = self.plain.as_ref().map_or(0, PlainMatching::heap_bytes);
        ends.chain(in_keys).chain(any).sum::<usize>() + plain
    }
}

impl Piece {
    fn prepare(form: Form, value: &[u8]) -> Result<Piece, Fault> {
        let mut text = Vec::new();
        let edges = match form {
            Form::Text(preparation, alphabet) => {
                crate::form::check_alphabet(alphabet, value)?;
                Self::without_insignificant(preparation.piece(value, &mut text)?, preparation)
            }
            Form::List => IGNORE_CASE.piece(value, &mut text)?,
            Form::Octets => {
                text.extend_from_slice(value);
                Edges::default()
            }
            _ => return Err(Fault::Expected { offset: 0, what: "a rule for substrings" }),
        };
        Ok(Piece { text, edges })
    }

    /// Clears the spaces at the ends if the rule removes all spaces.
    fn without_insignificant(edges: Edges, preparation: Preparation) -> Edges {
        if preparation.spaces == Spaces::Collapse { edges } else { Edges::default() }
    }

    /// Returns true if the substring has only spaces, which count as one space.
    fn is_space(&self) -> bool {
        self.edges.blank
    }

    /// Returns the substring in the form of RFC 4518 section 2.6.1.
    fn expand(self, place: PiecePosition) -> Vec<u8> {
        if self.is_space() {
            return vec![b' '];
        }
        let mut out = Vec::with_capacity(self.text.len() * 2 + 2);
        if place == PiecePosition::Initial || self.edges.leading {
            out.push(b' ');
        }
        expand_inner_spaces(&self.text, &mut out);
        if place == PiecePosition::Final || self.edges.trailing {
            out.push(b' ');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    fn matches(rule: &str, assertion: &str, value: &str) -> bool {
        let rule = MatchingRule::find(rule).unwrap();
        let assertion = SubstringAssertion::parse(rule, assertion.as_bytes()).unwrap();
        let mut key = Vec::new();
        rule.normalize(&Schema::shipped(), value.as_bytes(), &mut key).unwrap();
        let found = assertion.matches(&key);
        if let (true, Some(prefix)) = (found, assertion.prefix()) {
            assert!(key.starts_with(prefix), "{value}");
        }
        if found {
            check_pieces(&assertion, &key);
        }
        found
    }

    fn check_pieces(assertion: &SubstringAssertion, key: &[u8]) {
        for piece in assertion.pieces() {
            assert!(key.windows(piece.text.len()).any(|window| window == piece.text), "{piece:?} {key:?}");
            assert!(!piece.at_start || key.starts_with(piece.text), "{piece:?} {key:?}");
            assert!(!piece.at_end || key.ends_with(piece.text), "{piece:?} {key:?}");
        }
    }

    #[test]
    fn spaces_at_the_edges_of_substrings_match_as_in_the_rfc() {
        const RULE: &str = "caseIgnoreSubstringsMatch";
        for (assertion, value, expected) in [
            ("foo*", "Foobar", true),
            ("foo *", "foobar", false),
            ("foo *", "foo", true),
            ("foo *", "foo bar", true),
            ("foo  *", "foo    bar", true),
            ("  foo*", "foobar", true),
            ("foo bar  *", "foo   bar", true),
            ("foo bar  *", "foo bar baz", true),
            ("*foo bar  *", "x foo bar", true),
            ("*foo bar  *", "foo barx", false),
            ("*foo bar  ", "a foo bar", true),
            ("* foo*", "foo", true),
            ("* foo*", "xfoo", false),
            ("* foo*", "x foo", true),
            ("*o *", "foo bar", true),
            ("* b*", "foo bar", true),
            ("*o * b*", "foo bar", true),
            ("*o * * b*", "foo bar", false),
            ("* foo", "xfoo", false),
            ("*foo ", "xfoo", true),
            ("* *", "x", true),
            ("* * *", "x", true),
            ("* * * *", "x", false),
            ("* *", "   ", true),
            ("x* *", "x", true),
            ("*o b*", "foo bar", true),
            ("*ob*", "foo bar", false),
            ("*o   b*", "foo bar", true),
            ("foo*oo", "foo", false),
            ("foo*oo", "foooo", true),
            ("f*o*o", "foo", true),
            ("f*o*o*o", "foo", false),
            ("*", "anything", true),
            ("a\\2Ab*", "a*bc", true),
            ("a\\5cb*", "a\\bc", true),
            ("STRASSE*", "Straße 5", true),
            ("É*", "e\u{301}cole", true),
        ] {
            assert_eq!(matches(RULE, assertion, value), expected, "{assertion:?} {value:?}");
        }
    }

    #[test]
    fn each_substrings_rule_matches_in_its_own_form() {
        for (rule, assertion, value, expected) in [
            ("caseExactSubstringsMatch", "foo*", "Foo", false),
            ("caseExactSubstringsMatch", "Fo*", "Foo", true),
            ("numericStringSubstringsMatch", "1 2*", "123", true),
            ("numericStringSubstringsMatch", "*2 3", "1 2 3", true),
            ("telephoneNumberSubstringsMatch", "+1-512*", "+1 512 315 0280", true),
            ("telephoneNumberSubstringsMatch", "*0280", "+1 512 315-0 280", true),
            ("telephoneNumberSubstringsMatch", "* *", "+1", true),
            ("caseIgnoreListSubstringsMatch", "1234*ca*usa", "1234 Main St.$Anytown, CA 12345$USA", true),
            ("caseIgnoreListSubstringsMatch", "*St.Any*", "1234 Main St.$Anytown", false),
            ("caseIgnoreListSubstringsMatch", "*main *any*", "1234 Main$Anytown", true),
            ("caseIgnoreListSubstringsMatch", "$1*", "\\241,000,000 Sweepstakes$PO Box", true),
            ("caseIgnoreIA5SubstringsMatch", "*@EXAMPLE.com", "a@example.com", true),
            ("octetStringSubstringsMatch", "a *", "a b", true),
            ("octetStringSubstringsMatch", "a *", "a", false),
        ] {
            assert_eq!(matches(rule, assertion, value), expected, "{rule} {assertion:?} {value:?}");
        }
    }

    #[test]
    fn invalid_assertions_are_refused() {
        for (rule, assertion) in [
            ("caseIgnoreSubstringsMatch", "abc"),
            ("caseIgnoreSubstringsMatch", "a**b"),
            ("integerMatch", "1*"),
            ("numericStringSubstringsMatch", "x*"),
            ("caseIgnoreIA5SubstringsMatch", "é*"),
        ] {
            let rule = MatchingRule::find(rule).unwrap();
            assert!(SubstringAssertion::parse(rule, assertion.as_bytes()).is_err(), "{assertion}");
        }
    }

    /// Checks for every pair of short strings that matching in the RFC's form and matching by keys give the same
    /// result.
    #[test]
    fn matching_by_keys_agrees_with_the_form_of_the_rfc() {
        let rule = MatchingRule::find("caseIgnoreSubstringsMatch").unwrap();
        let schema = Schema::shipped();
        let strings: Vec<String> = (0..=5u32)
            .flat_map(|size| (0..3u32.pow(size)).map(move |code| (size, code)))
            .map(|(size, code)| {
                (0..size).map(|at| ['a', 'b', ' '][(code / 3u32.pow(at) % 3) as usize]).collect()
            })
            .collect();
        let pieces: Vec<&String> = strings.iter().filter(|text| (1..=3).contains(&text.len())).collect();
        for value in &strings {
            let mut key = Vec::new();
            rule.normalize(&schema, value.as_bytes(), &mut key).unwrap();
            let words: Vec<&str> = value.split(' ').filter(|word| !word.is_empty()).collect();
            let form = if words.is_empty() { "  ".into() } else { format!(" {} ", words.join("  ")) };
            for piece in &pieces {
                let words: Vec<&str> = piece.split(' ').filter(|word| !word.is_empty()).collect();
                let blank = words.is_empty();
                let text = words.join("  ");
                let (before, behind) = (piece.starts_with(' '), piece.ends_with(' '));
                let spelled = |before: bool, behind: bool| {
                    if blank {
                        return " ".to_owned();
                    }
                    format!("{}{text}{}", if before { " " } else { "" }, if behind { " " } else { "" })
                };
                let bytes = piece.as_bytes();
                for (initial, any, last, expected) in [
                    (Some(bytes), None, None, form.starts_with(&spelled(true, behind))),
                    (None, Some(bytes), None, form.contains(&spelled(before, behind))),
                    (None, None, Some(bytes), form.ends_with(&spelled(before, true))),
                ] {
                    let assertion = SubstringAssertion::new(rule, initial, any, last).unwrap();
                    assert_eq!(assertion.matches(&key), expected, "{value:?} {initial:?} {any:?} {last:?}");
                    if expected {
                        check_pieces(&assertion, &key);
                    }
                    if let (true, Some(prefix)) = (expected, assertion.prefix()) {
                        assert!(key.starts_with(prefix));
                    }
                }
            }
        }
    }
}
