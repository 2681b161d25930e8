//! Definition of an attribute type's index, and the state of its rows.
//!
//! Administrators define an index by *kinds*: the filters that the index answers. The rows of the index are divided
//! into *parts*. Each kind has a part, but equality and ordering share one part. Each part has its own [`Phase`], so
//! that one part can be built while another part answers filters. Log records change the definition. The phases are
//! local to a data directory; `meta` stores them with the definition.

use schema::MatchingRule;

use crate::model::codec::{Decoder, put_bytes};

/// A set of index kinds: filters that an index answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IndexKinds(u8);

impl IndexKinds {
    /// No index.
    pub const NONE: IndexKinds = IndexKinds(0);
    /// Answers `(a=v)`.
    pub const EQUALITY: IndexKinds = IndexKinds(1);
    /// Answers `(a>=v)`, `(a<=v)`, `(a=v*)` and, if few entries have the attribute, `(a=*)`. Uses the rows of equality.
    pub const ORDERING: IndexKinds = IndexKinds(2);
    /// Answers `(a=*)`, from one posting of all entries with the attribute.
    pub const PRESENCE: IndexKinds = IndexKinds(4);
    /// Answers `(a=*v*)`. Each three adjacent bytes of a value have a posting.
    pub const SUBSTRING: IndexKinds = IndexKinds(8);
    /// Answers `(a~=v)`. Each word of a value has a posting.
    pub const APPROXIMATE: IndexKinds = IndexKinds(16);

    /// All kinds with their names.
    pub const ALL: [(IndexKinds, &'static str); 5] = [
        (IndexKinds::EQUALITY, "equality"),
        (IndexKinds::ORDERING, "ordering"),
        (IndexKinds::PRESENCE, "presence"),
        (IndexKinds::SUBSTRING, "substring"),
        (IndexKinds::APPROXIMATE, "approximate"),
    ];

    /// Returns the union of both sets.
    pub const fn with(self, other: IndexKinds) -> IndexKinds {
        IndexKinds(self.0 | other.0)
    }

    /// Returns the kinds that are not in `other`.
    pub const fn without(self, other: IndexKinds) -> IndexKinds {
        IndexKinds(self.0 & !other.0)
    }

    /// Returns true if this set contains all kinds of `other`.
    pub const fn contains(self, other: IndexKinds) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns true if the set is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns one bit per kind, as records store them.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the kinds with these bits; `None` if a bit is unknown.
    pub const fn from_bits(bits: u8) -> Option<IndexKinds> {
        if bits < 32 { Some(IndexKinds(bits)) } else { None }
    }
}

impl std::fmt::Display for IndexKinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> =
            IndexKinds::ALL.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, name)| *name).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
}

impl std::str::FromStr for IndexKinds {
    type Err = String;

    /// Parses names separated by commas. Case is ignored.
    fn from_str(text: &str) -> Result<IndexKinds, String> {
        let mut kinds = IndexKinds::NONE;
        for name in text.split(',').map(str::trim) {
            let known = IndexKinds::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
            let Some((kind, _)) = known else {
                let names = IndexKinds::ALL.map(|(_, name)| name).join(", ");
                return Err(format!("{name:?} is not a kind of index: choose from {names}"));
            };
            kinds = kinds.with(*kind);
        }
        Ok(kinds)
    }
}

/// Part of an index: rows of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexPart {
    /// Normal forms of values, for equality, ordering and prefixes.
    Values,
    /// One posting of all entries that have the attribute.
    Presence,
    /// Grams: three bytes of a normal form, for substrings.
    Grams,
    /// Sounds: Soundex codes of words, for approximate matches.
    Sounds,
}

impl IndexPart {
    /// All parts in the order of their numbers.
    pub const ALL: [IndexPart; 4] =
        [IndexPart::Values, IndexPart::Presence, IndexPart::Grams, IndexPart::Sounds];

    /// Returns the name of the part in messages for administrators.
    pub const fn name(self) -> &'static str {
        match self {
            IndexPart::Values => "values",
            IndexPart::Presence => "presence",
            IndexPart::Grams => "substrings",
            IndexPart::Sounds => "sounds",
        }
    }

    /// Returns the kinds that need this part.
    const fn kinds(self) -> IndexKinds {
        match self {
            IndexPart::Values => IndexKinds::EQUALITY.with(IndexKinds::ORDERING),
            IndexPart::Presence => IndexKinds::PRESENCE,
            IndexPart::Grams => IndexKinds::SUBSTRING,
            IndexPart::Sounds => IndexKinds::APPROXIMATE,
        }
    }

    /// Returns true if an index of these kinds needs the part.
    pub const fn is_of(self, kinds: IndexKinds) -> bool {
        kinds.bits() & self.kinds().bits() != 0
    }
}

/// A set of index parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IndexParts(u8);

impl IndexParts {
    /// The empty set.
    pub const NONE: IndexParts = IndexParts(0);

    /// Returns the set with this part added.
    pub const fn with(self, part: IndexPart) -> IndexParts {
        IndexParts(self.0 | 1 << part as u8)
    }

    /// Returns the set without this part.
    pub const fn without(self, part: IndexPart) -> IndexParts {
        IndexParts(self.0 & !(1 << part as u8))
    }

    /// Returns true if the part is in the set.
    pub const fn has(self, part: IndexPart) -> bool {
        self.0 & 1 << part as u8 != 0
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// State of the rows of an index part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// The part has no rows.
    #[default]
    Absent,
    /// Every change writes rows, and rows of older entries are being built. Searches do not use the part yet.
    Building,
    /// All rows exist. Searches may use the part.
    Complete,
    /// Changes no longer write rows, and existing rows are being removed.
    Clearing,
}

impl Phase {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Phase::Absent => 0,
            Phase::Building => 1,
            Phase::Complete => 2,
            Phase::Clearing => 3,
        }
    }

    pub(crate) const fn of(number: u8) -> Option<Phase> {
        match number {
            0 => Some(Phase::Absent),
            1 => Some(Phase::Building),
            2 => Some(Phase::Complete),
            3 => Some(Phase::Clearing),
            _ => None,
        }
    }
}

/// The index of an attribute type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AttributeIndex {
    /// Kinds that the administrator defined.
    pub kinds: IndexKinds,
    /// The substring rule under which the grams were made. The rule is stored, because grams of one rule must not
    /// answer a filter under another rule after a change of the schema.
    pub gram_rule: Option<MatchingRule>,
    phases: [Phase; 4],
}

impl AttributeIndex {
    /// Returns an index of these kinds with all parts complete, for callers that build a whole data directory.
    pub fn complete(kinds: IndexKinds, gram_rule: Option<MatchingRule>) -> AttributeIndex {
        let phase = |part: IndexPart| if part.is_of(kinds) { Phase::Complete } else { Phase::Absent };
        AttributeIndex { kinds, gram_rule, phases: IndexPart::ALL.map(phase) }
    }

    /// Returns the index after a rebuild that wrote all rows of the maintained parts, and no other rows. No part
    /// remains to be removed. A part that was being removed is still to be built if a kind needs it.
    pub fn rebuilt(&self) -> AttributeIndex {
        let mut index = *self;
        for part in IndexPart::ALL {
            let phase = match self.phase(part) {
                Phase::Building | Phase::Complete => Phase::Complete,
                Phase::Clearing if part.is_of(self.kinds) => Phase::Building,
                Phase::Clearing | Phase::Absent => Phase::Absent,
            };
            index.set_phase(part, phase);
        }
        index
    }

    /// Returns the phase of a part.
    #[expect(clippy::indexing_slicing, reason = "the parts are as many as the places")]
    pub fn phase(&self, part: IndexPart) -> Phase {
        self.phases[part as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "the parts are as many as the places")]
    pub(crate) fn set_phase(&mut self, part: IndexPart, phase: Phase) {
        self.phases[part as usize] = phase;
    }

    /// Returns true if searches may use the part.
    pub fn answers(&self, part: IndexPart) -> bool {
        self.phase(part) == Phase::Complete
    }

    /// Returns the parts whose rows must be maintained by every change of an entry.
    pub fn maintained_parts(&self) -> IndexParts {
        let maintained = |part: &IndexPart| matches!(self.phase(*part), Phase::Building | Phase::Complete);
        IndexPart::ALL.into_iter().filter(maintained).fold(IndexParts::NONE, IndexParts::with)
    }

    /// Returns true if rows of a part remain to be built or removed.
    pub fn has_work(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase, Phase::Building | Phase::Clearing))
    }

    /// Returns true if the index has no kinds and no rows, so that `meta` needs no row for it.
    pub(crate) fn is_nothing(&self) -> bool {
        self.kinds.is_none() && self.phases.iter().all(|phase| *phase == Phase::Absent)
    }
}

/// The row of an index in `meta`: an [`AttributeIndex`] and the progress of each part being built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IndexRow {
    /// Definition and phases.
    pub index: AttributeIndex,
    built_to: [u64; IndexPart::ALL.len()],
}

/// Version of the row. The version is the first byte of the row. In the first version of the program, the whole row is
/// the byte 1: a complete index for equality and ordering.
const ROW_VERSION: u8 = 2;

impl IndexRow {
    /// Returns the row of an index without progress, because no part is being built.
    pub fn of(index: AttributeIndex) -> IndexRow {
        IndexRow { index, ..IndexRow::default() }
    }

    /// Returns the highest entry id whose rows exist in this part, while the part is being built.
    #[expect(clippy::indexing_slicing, reason = "each part has a number below their count")]
    pub fn built_to(&self, part: IndexPart) -> u64 {
        self.built_to[part as usize]
    }

    /// Sets the value that [`built_to`](IndexRow::built_to) returns.
    #[expect(clippy::indexing_slicing, reason = "each part has a number below their count")]
    pub fn set_built_to(&mut self, part: IndexPart, id: u64) {
        self.built_to[part as usize] = id;
    }

    /// Returns the encoded row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![ROW_VERSION, self.index.kinds.bits()];
        for part in IndexPart::ALL {
            out.push(self.index.phase(part).number());
            out.extend_from_slice(&self.built_to(part).to_be_bytes());
        }
        put_bytes(&mut out, self.index.gram_rule.map_or("", MatchingRule::oid).as_bytes());
        out
    }

    /// Decodes a row; `None` if it is damaged or its version is unknown.
    pub fn decode(bytes: &[u8]) -> Option<IndexRow> {
        if bytes == [1] {
            let kinds = IndexKinds::EQUALITY.with(IndexKinds::ORDERING);
            return Some(IndexRow {
                index: AttributeIndex::complete(kinds, None),
                built_to: Default::default(),
            });
        }
        let mut decoder = Decoder(bytes);
        if decoder.byte()? != ROW_VERSION {
            return None;
        }
        let mut row = IndexRow::default();
        row.index.kinds = IndexKinds::from_bits(decoder.byte()?)?;
        for part in IndexPart::ALL {
            row.index.set_phase(part, Phase::of(decoder.byte()?)?);
            row.set_built_to(part, u64::from_be_bytes(decoder.take(8)?.try_into().ok()?));
        }
        row.index.gram_rule = rule_of(decoder.str()?)?;
        decoder.is_empty().then_some(row)
    }
}

/// Returns the matching rule with this OID: `Some(None)` for an empty OID, which means no rule. Returns `None` for an
/// OID that the program does not know.
#[allow(clippy::option_option, reason = "a missing rule is fine, an unknown one is not")]
pub(crate) fn rule_of(oid: &str) -> Option<Option<MatchingRule>> {
    if oid.is_empty() { Some(None) } else { MatchingRule::find(oid).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_kinds() {
        for (text, expected) in [
            ("equality", Ok("equality")),
            ("Substring, EQUALITY", Ok("equality,substring")),
            (
                "equality,ordering,presence,substring,approximate",
                Ok("equality,ordering,presence,substring,approximate"),
            ),
            ("", Err("\"\" is not a kind")),
            ("equality,exact", Err("\"exact\" is not a kind")),
        ] {
            match (text.parse::<IndexKinds>(), expected) {
                (Ok(kinds), Ok(expected)) => assert_eq!(kinds.to_string(), expected),
                (Err(error), Err(expected)) => assert!(error.starts_with(expected), "{error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        assert_eq!(IndexKinds::NONE.to_string(), "none");
    }

    #[test]
    fn rows_round_trip_and_damage_never_panics() {
        let kinds = IndexKinds::EQUALITY.with(IndexKinds::SUBSTRING);
        let mut index = AttributeIndex::complete(kinds, MatchingRule::find("caseIgnoreSubstringsMatch"));
        assert!(index.answers(IndexPart::Values) && !index.answers(IndexPart::Sounds) && !index.has_work());
        index.set_phase(IndexPart::Grams, Phase::Building);
        index.set_phase(IndexPart::Sounds, Phase::Clearing);
        assert!(index.has_work() && !index.answers(IndexPart::Grams));
        let maintained = index.maintained_parts();
        assert_eq!(IndexPart::ALL.map(|part| maintained.has(part)), [true, false, true, false]);
        let row = IndexRow { index, built_to: [0, 0, 77, 0] };
        let bytes = row.encode();
        assert_eq!(IndexRow::decode(&bytes), Some(row));
        for end in 0..bytes.len() {
            assert_eq!(IndexRow::decode(&bytes[..end]), None);
        }
        let anew = index.rebuilt();
        assert_eq!(
            IndexPart::ALL.map(|part| anew.phase(part)),
            [Phase::Complete, Phase::Absent, Phase::Complete, Phase::Absent]
        );
        index.kinds = kinds.with(IndexKinds::APPROXIMATE);
        assert_eq!(index.rebuilt().phase(IndexPart::Sounds), Phase::Building);
        let old = IndexRow::decode(&[1]).unwrap().index;
        assert!(old.answers(IndexPart::Values) && old.kinds.to_string() == "equality,ordering");
    }
}
