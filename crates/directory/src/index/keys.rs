//! The index rows that follow from a value.
//!
//! | part | map | key | one value has |
//! |---|---|---|---|
//! | values | `index` | attribute, normal value | 1 |
//! | presence | `pieces` | attribute, `p` | 1, shared by all values of the entry |
//! | grams | `pieces` | attribute, `s`, three bytes | as many as its normal form has bytes |
//! | sounds | `pieces` | attribute, `a`, code | one a word |
//!
//! Grams are taken of the normal form with a mark before and one behind it, so that the ends of a value are found as
//! well: `abc` has `<ab`, `abc`, `bc>`. A value too long to be cut up stands, with every other such one, under the key
//! without a gram or code, and is a candidate of every search that goes by the part.

use schema::{MatchingRule, Schema, SubstringPiece, sound_codes};
use store::MapId;

use crate::catalog::{AttributeDef, put_normal_value};
use crate::model::index_definition::{IndexPart, IndexParts};
use crate::model::limits::{CODES_PER_VALUE_MAX, GRAMMED_VALUE_MAX, INDEX_KEY_MAX, NEEDED_GRAMS_MAX};
use crate::model::rows::{AttrId, INDEX, PIECES, index_key};

/// Bytes of a gram. Two would make postings of most of the directory, four a third more rows for little.
pub const GRAM_SIZE: usize = 3;

/// Stands before a normal value. UTF-8 has no such byte; in octet strings it only brings candidates in vain.
const BEGIN: u8 = 0xfe;
/// Stands behind a normal value.
const END: u8 = 0xff;

/// A row of an index: its part, which says the map, and its key.
pub type RowKey = (IndexPart, Vec<u8>);

impl IndexPart {
    /// The map that has the rows.
    pub fn map(self) -> MapId {
        match self {
            IndexPart::Values => INDEX,
            IndexPart::Presence | IndexPart::Grams | IndexPart::Sounds => PIECES,
        }
    }

    /// What the keys of all rows of the part begin with.
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

    /// The key of a row of `pieces`. With nothing behind it: the entries that have the attribute, or those with a value
    /// too long.
    pub fn key(self, base: AttrId, content: &[u8]) -> Vec<u8> {
        let mut key = self.key_prefix(base);
        key.extend_from_slice(content);
        key
    }
}

/// Appends the rows of a value in some parts. Several values of an entry may share rows.
pub fn rows_of(schema: &Schema, def: &AttributeDef, parts: IndexParts, value: &[u8], out: &mut Vec<RowKey>) {
    // Most indexes have this part alone, so its key is made where it stays.
    if parts.has(IndexPart::Values) {
        out.push((IndexPart::Values, key_of_value(schema, def, value)));
    }
    let others = parts.without(IndexPart::Values);
    for_each_row(schema, def, others, value, &mut |part, key| out.push((part, key.to_vec())));
}

/// The key of a value's row of `index`.
fn key_of_value(schema: &Schema, def: &AttributeDef, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(size_of::<AttrId>() + value.len() + 8);
    key.extend_from_slice(&def.base.0.to_be_bytes());
    put_normal_value(schema, def, value, &mut key);
    match key.split_at(size_of::<AttrId>()) {
        // Shortened.
        (_, normal) if normal.len() > INDEX_KEY_MAX => index_key(def.base, normal),
        _ => key,
    }
}

/// As [`rows_of`], for who needs a key only for a moment.
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
    // A value without a normal form matches no substring.
    if rule.normalize(schema, value, &mut marked).is_err() {
        return;
    }
    if marked.len() > GRAMMED_VALUE_MAX {
        return each(&key);
    }
    marked.push(END);
    // As numbers: there are as many as bytes, and comparing numbers costs next to nothing.
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

/// What a substring filter's pieces say of the grams of values that match.
#[derive(Debug, PartialEq, Eq)]
pub enum NeededGrams {
    /// They have all of these, each once.
    All(Vec<Vec<u8>>),
    /// No piece is long enough, but they have a gram that begins like this.
    Beginning(Vec<u8>),
    /// Nothing.
    Nothing,
}

/// The grams of all values that contain the pieces.
pub fn needed_grams<'a>(pieces: impl Iterator<Item = SubstringPiece<'a>>) -> NeededGrams {
    let mut grams = Vec::new();
    let mut beginning: &[u8] = &[];
    let marked: Vec<Vec<u8>> = pieces.map(marked).collect();
    for piece in &marked {
        let room = NEEDED_GRAMS_MAX.saturating_sub(grams.len());
        grams.extend(piece.windows(GRAM_SIZE).take(room).map(<[u8]>::to_vec));
        // Behind two bytes of a value comes another one or the mark, so they begin a gram. One byte may be the last.
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

    fn needed(assertion: &str) -> NeededGrams {
        let rule = MatchingRule::find("caseIgnoreSubstringsMatch").unwrap();
        needed_grams(SubstringAssertion::parse(rule, assertion.as_bytes()).unwrap().pieces())
    }

    #[test]
    fn values_are_cut_up_with_their_ends() {
        let gram = |bytes: &[u8]| bytes.to_vec();
        assert_eq!(grams_of("aBc"), [gram(b"abc"), gram(b"bc\xff"), gram(b"\xfeab")]);
        assert_eq!(grams_of("a"), [gram(b"\xfea\xff")]);
        assert_eq!(grams_of("aaaaa").len(), 3);
        assert_eq!(grams_of(&"x".repeat(GRAMMED_VALUE_MAX)), [gram(b"")]);
    }

    #[test]
    fn pieces_need_grams() {
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
            assert_eq!(needed(assertion), expected, "{assertion}");
        }
    }

    /// Every value that a filter matches has what the filter needs.
    #[test]
    fn no_match_lacks_a_needed_gram() {
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
    fn every_part_has_its_rows() {
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
