//! Index rows of a value.
//!
//! | part | map | key | rows per value |
//! |---|---|---|---|
//! | values | `index` | attribute, normal value | 1 |
//! | presence | `pieces` | attribute, `p` | 1, shared by all values of the entry |
//! | grams | `pieces` | attribute, `s`, three bytes | at most as many as the normal form of the value has bytes |
//! | sounds | `pieces` | attribute, `a`, code | at most one per word |
//!
//! Grams are taken from the normal form with a mark byte at its beginning and at its end, so that grams also match the
//! ends of a value: `abc` has the grams `<ab`, `abc` and `bc>`. An entry with a value too long for grams or sounds is
//! listed under the key without a gram or code. Such an entry is a candidate of every search that uses the part.

use schema::{MatchingRule, Schema, SubstringPiece, sound_codes};
use store::MapId;

use crate::catalog::{AttributeDef, put_normal_value};
use crate::model::index_definition::{IndexPart, IndexParts};
use crate::model::limits::{CODES_PER_VALUE_MAX, GRAMMED_VALUE_MAX, INDEX_KEY_MAX, NEEDED_GRAMS_MAX};
use crate::model::rows::{AttrId, INDEX, PIECES, index_key};

/// Size of a gram, in bytes. With grams of two bytes, postings would contain most of the directory. Grams of four bytes
/// would need a third more rows for little benefit.
pub const GRAM_SIZE: usize = 3;

/// Mark before a normal value. UTF-8 does not contain this byte. In an octet string this byte can only add needless
/// candidates.
const BEGIN: u8 = 0xfe;
/// Mark after a normal value.
const END: u8 = 0xff;

/// A row of an index: its part and its key. The part determines the map.
pub type RowKey = (IndexPart, Vec<u8>);

impl IndexPart {
    /// Returns the map that contains the rows of the part.
    pub fn map(self) -> MapId {
        match self {
            IndexPart::Values => INDEX,
            IndexPart::Presence | IndexPart::Grams | IndexPart::Sounds => PIECES,
        }
    }

    /// Returns the common prefix of the keys of the part's rows.
    pub fn key_prefix(self, base: AttrId) -> Vec<u8> {
        let mut key = base.0.to_be_bytes().to_vec();
        match self {
            IndexPart::Values => {}
            IndexPart::Presence => key.push(b'p'),
            IndexPart::Grams => key.push(b's'),
            IndexPart::Sounds => key.push(b'a'),
        }
        key
    }

    /// Returns the key of a row of `pieces`. If `content` is empty, returns a special key: for presence, the key of the
    /// entries that have the attribute; for grams and sounds, the key of the entries with a value that is too long.
    pub fn key(self, base: AttrId, content: &[u8]) -> Vec<u8> {
        let mut key = self.key_prefix(base);
        key.extend_from_slice(content);
        key
    }
}

/// Appends the rows of a value in these parts of an index. Several values of an entry may share rows.
pub fn rows_of(schema: &Schema, def: &AttributeDef, parts: IndexParts, value: &[u8], out: &mut Vec<RowKey>) {
    // Fast path: most indexes have only this part.
    if parts.has(IndexPart::Values) {
        out.push((IndexPart::Values, key_of_value(schema, def, value)));
    }
    let others = parts.without(IndexPart::Values);
    for_each_row(schema, def, others, value, &mut |part, key| out.push((part, key.to_vec())));
}

/// Returns the key of a value in the map `index`.
fn key_of_value(schema: &Schema, def: &AttributeDef, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(size_of::<AttrId>() + value.len() + 8);
    key.extend_from_slice(&def.base.0.to_be_bytes());
    put_normal_value(schema, def, value, &mut key);
    match key.split_at(size_of::<AttrId>()) {
        // `index_key` shortens a long value.
        (_, normal) if normal.len() > INDEX_KEY_MAX => index_key(def.base, normal),
        _ => key,
    }
}

/// Does the same as [`rows_of`], but passes each key to a callback instead of storing it.
pub fn for_each_row(
    schema: &Schema,
    def: &AttributeDef,
    parts: IndexParts,
    value: &[u8],
    each: &mut impl FnMut(IndexPart, &[u8]),
) {
    if parts.has(IndexPart::Values) {
        each(IndexPart::Values, &key_of_value(schema, def, value));
    }
    if parts.has(IndexPart::Presence) {
        each(IndexPart::Presence, &IndexPart::Presence.key_prefix(def.base));
    }
    if parts.has(IndexPart::Grams)
        && let Some(rule) = def.index.gram_rule
    {
        gram_rows(schema, def.base, rule, value, &mut |key| each(IndexPart::Grams, key));
    }
    if parts.has(IndexPart::Sounds) {
        sound_rows(def.base, value, &mut |key| each(IndexPart::Sounds, key));
    }
}

fn gram_rows(schema: &Schema, base: AttrId, rule: MatchingRule, value: &[u8], each: &mut impl FnMut(&[u8])) {
    let mut key = IndexPart::Grams.key_prefix(base);
    let mut marked = vec![BEGIN];
    // A value without a normal form matches no substring filter, so it has no grams.
    if rule.normalize(schema, value, &mut marked).is_err() {
        return;
    }
    if marked.len() > GRAMMED_VALUE_MAX {
        return each(&key);
    }
    marked.push(END);
    // Grams are collected as numbers. There is one gram per byte, and numbers are cheap to compare.
    const { assert!(GRAM_SIZE + 1 == size_of::<u32>()) };
    let number = |gram: &[u8]| gram.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    let mut grams: Vec<u32> = marked.windows(GRAM_SIZE).map(number).collect();
    grams.sort_unstable();
    grams.dedup();
    let prefix_len = key.len();
    for gram in grams {
        key.truncate(prefix_len);
        let [_, gram @ ..] = gram.to_be_bytes();
        key.extend_from_slice(&gram);
        each(&key);
    }
}

fn sound_rows(base: AttrId, value: &[u8], each: &mut impl FnMut(&[u8])) {
    let Ok(text) = std::str::from_utf8(value) else { return };
    let codes = sound_codes(text);
    if codes.len() > CODES_PER_VALUE_MAX {
        return each(&IndexPart::Sounds.key_prefix(base));
    }
    codes.iter().for_each(|code| each(&IndexPart::Sounds.key(base, code.as_bytes())));
}

/// Grams that a value must have to match a substring filter.
#[derive(Debug, PartialEq, Eq)]
pub enum NeededGrams {
    /// Matching values have all of these grams. There are no duplicates.
    All(Vec<Vec<u8>>),
    /// All pieces are shorter than a gram. Matching values have a gram with this prefix.
    Beginning(Vec<u8>),
    /// The filter requires no gram.
    Nothing,
}

/// Returns grams that every value with these pieces must have, at most `NEEDED_GRAMS_MAX`.
pub fn needed_grams<'a>(pieces: impl Iterator<Item = SubstringPiece<'a>>) -> NeededGrams {
    let mut grams = Vec::new();
    let mut beginning: &[u8] = &[];
    let marked: Vec<Vec<u8>> = pieces.map(marked).collect();
    for piece in &marked {
        let room = NEEDED_GRAMS_MAX.saturating_sub(grams.len());
        grams.extend(piece.windows(GRAM_SIZE).take(room).map(<[u8]>::to_vec));
        // Two bytes of a value always begin a gram, because another byte or the end mark follows. A single byte may be
        // the last byte of the value, so that no whole gram begins with it.
        if piece.len() == GRAM_SIZE - 1 && !piece.ends_with(&[END]) {
            beginning = piece;
        }
    }
    grams.sort_unstable();
    grams.dedup();
    match (grams.is_empty(), beginning.is_empty()) {
        (false, _) => NeededGrams::All(grams),
        (true, false) => NeededGrams::Beginning(beginning.to_vec()),
        (true, true) => NeededGrams::Nothing,
    }
}

fn marked(piece: SubstringPiece<'_>) -> Vec<u8> {
    let mut marked = Vec::with_capacity(piece.text.len() + 2);
    if piece.at_start {
        marked.push(BEGIN);
    }
    marked.extend_from_slice(piece.text);
    if piece.at_end {
        marked.push(END);
    }
    marked
}

#[cfg(test)]
mod tests {
    use schema::SubstringAssertion;

    use super::*;
    use crate::catalog::{AttributeAllocation, Catalog};

    fn grams_of(value: &str) -> Vec<Vec<u8>> {
        let schema = Schema::shipped();
        let rule = MatchingRule::find("caseIgnoreSubstringsMatch").unwrap();
        let mut rows = Vec::new();
        gram_rows(&schema, AttrId(0), rule, value.as_bytes(), &mut |key| rows.push(key[5..].to_vec()));
        rows
    }

    fn needed_grams_of(assertion: &str) -> NeededGrams {
        let rule = MatchingRule::find("caseIgnoreSubstringsMatch").unwrap();
        needed_grams(SubstringAssertion::parse(rule, assertion.as_bytes()).unwrap().pieces())
    }

    #[test]
    fn cuts_values_into_grams_with_their_ends() {
        let gram = |bytes: &[u8]| bytes.to_vec();
        assert_eq!(grams_of("aBc"), [gram(b"abc"), gram(b"bc\xff"), gram(b"\xfeab")]);
        assert_eq!(grams_of("a"), [gram(b"\xfea\xff")]);
        assert_eq!(grams_of("aaaaa").len(), 3);
        assert_eq!(grams_of(&"x".repeat(GRAMMED_VALUE_MAX)), [gram(b"")]);
    }

    #[test]
    fn returns_the_grams_that_substrings_require() {
        let all = |grams: &[&[u8]]| NeededGrams::All(grams.iter().map(|gram| gram.to_vec()).collect());
        for (assertion, expected) in [
            ("abc*", all(&[b"abc", b"\xfeab"])),
            ("*abc", all(&[b"abc", b"bc\xff"])),
            ("*abcd*", all(&[b"abc", b"bcd"])),
            ("a*b", NeededGrams::Beginning(b"\xfea".to_vec())),
            ("*ab*c*", NeededGrams::Beginning(b"ab".to_vec())),
            ("*a", NeededGrams::Nothing),
            ("*a*", NeededGrams::Nothing),
            ("*ab", all(&[b"ab\xff"])),
            ("* *", NeededGrams::Nothing),
            ("*x y *z z*", all(&[b"x y", b"z z"])),
        ] {
            assert_eq!(needed_grams_of(assertion), expected, "{assertion}");
        }
    }

    /// Every value that matches a filter has the grams that the filter requires.
    #[test]
    fn every_match_has_the_required_grams() {
        let rule = MatchingRule::find("caseIgnoreSubstringsMatch").unwrap();
        let schema = Schema::shipped();
        let letters = ["a", "b", " "];
        let texts: Vec<String> = (1..=4u32)
            .flat_map(|size| (0..3usize.pow(size)).map(move |code| (size, code)))
            .map(|(size, code)| (0..size).map(|at| letters[code / 3usize.pow(at) % 3]).collect())
            .collect();
        for value in &texts {
            let grams = grams_of(value);
            let mut key = Vec::new();
            rule.normalize(&schema, value.as_bytes(), &mut key).unwrap();
            for piece in &texts {
                for text in [format!("{piece}*"), format!("*{piece}*"), format!("*{piece}")] {
                    let assertion = SubstringAssertion::parse(rule, text.as_bytes()).unwrap();
                    if !assertion.matches(&key) {
                        continue;
                    }
                    let has = match needed_grams(assertion.pieces()) {
                        NeededGrams::All(needed) => needed.iter().all(|gram| grams.contains(gram)),
                        NeededGrams::Beginning(head) => grams.iter().any(|gram| gram.starts_with(&head)),
                        NeededGrams::Nothing => true,
                    };
                    assert!(has, "{text:?} {value:?}");
                }
            }
        }
    }

    #[test]
    fn returns_the_rows_of_every_part() {
        let schema = Schema::shipped();
        let mut catalog = Catalog::new(schema.clone());
        let description = schema.parse_description("cn").unwrap();
        catalog.add_attribute(&AttributeAllocation::of(AttrId(0), &description, &schema)).unwrap();
        let mut def = catalog.attribute(AttrId(0)).clone();
        def.index.gram_rule = MatchingRule::find("caseIgnoreSubstringsMatch");
        for (part, expected) in IndexPart::ALL.into_iter().zip([1, 1, 8, 2]) {
            let mut rows = Vec::new();
            rows_of(&schema, &def, IndexParts::NONE.with(part), b"Ada Love", &mut rows);
            assert_eq!(rows.len(), expected, "{part:?}");
            assert!(rows.iter().all(|(of, key)| *of == part && key.starts_with(&part.key_prefix(AttrId(0)))));
        }
    }
}
