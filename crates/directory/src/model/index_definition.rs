//! What is defined for an attribute type, and how far its rows are made.
//!
//! An administrator speaks of *kinds*: what filters an index answers. Rows come in *parts*, because equality and
//! ordering are answered by the same ones. Each part goes through [`Phase`]s of its own, so that one can be built while
//! another answers. The definition changes by records; the phases are this data directory's own business and stand
//! beside it in `meta`.

use schema::MatchingRule;

use crate::model::codec::{Decoder, put_bytes};

/// Kinds of an index: what it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IndexKinds(u8);

impl IndexKinds {
    /// None: no index.
    pub const NONE: IndexKinds = IndexKinds(0);
    /// `(a=v)`.
    pub const EQUALITY: IndexKinds = IndexKinds(1);
    /// `(a>=v)`, `(a<=v)`, `(a=v*)` and, where few entries have it, `(a=*)`. The rows are those of equality.
    pub const ORDERING: IndexKinds = IndexKinds(2);
    /// `(a=*)`, a row an entry.
    pub const PRESENCE: IndexKinds = IndexKinds(4);
    /// `(a=*v*)`, a row for every three bytes of the value.
    pub const SUBSTRING: IndexKinds = IndexKinds(8);
    /// `(a~=v)`, a row for every word.
    pub const APPROXIMATE: IndexKinds = IndexKinds(16);

    /// Every kind with its name.
    pub const ALL: [(IndexKinds, &'static str); 5] = [
        (IndexKinds::EQUALITY, "equality"),
        (IndexKinds::ORDERING, "ordering"),
        (IndexKinds::PRESENCE, "presence"),
        (IndexKinds::SUBSTRING, "substring"),
        (IndexKinds::APPROXIMATE, "approximate"),
    ];

    /// The kinds of both.
    pub const fn with(self, other: IndexKinds) -> IndexKinds {
        IndexKinds(self.0 | other.0)
    }

    /// The kinds that are not in `other`.
    pub const fn without(self, other: IndexKinds) -> IndexKinds {
        IndexKinds(self.0 & !other.0)
    }

    /// Whether all kinds of `other` are among these.
    pub const fn contains(self, other: IndexKinds) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// A bit a kind, as records have them.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The kinds of these bits; `None` where one is unknown.
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

    /// Names separated by commas, in any case.
    fn from_str(text: &str) -> Result<IndexKinds, String> {
        let mut kinds = IndexKinds::NONE;
        for name in text.split(',').map(str::trim) {
            let known = IndexKinds::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
            let Some((kind, _)) = known else {
                let names = IndexKinds::ALL.map(|(_, name)| name).join(", ");
                return Err(format!("{name:?} is no kind of index: there are {names}"));
            };
            kinds = kinds.with(*kind);
        }
        Ok(kinds)
    }
}

/// Rows of one sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexPart {
    /// Normal values: equality, ordering, prefixes.
    Values,
    /// One posting of all entries that have the attribute.
    Presence,
    /// Three bytes of normal values: substrings.
    Grams,
    /// Words as they sound: approximate matches.
    Sounds,
}

impl IndexPart {
    /// All parts, in the order of their numbers.
    pub const ALL: [IndexPart; 4] =
        [IndexPart::Values, IndexPart::Presence, IndexPart::Grams, IndexPart::Sounds];

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            IndexPart::Values => "values",
            IndexPart::Presence => "presence",
            IndexPart::Grams => "substrings",
            IndexPart::Sounds => "sounds",
        }
    }

    /// The kinds, of which any needs the part.
    const fn kinds(self) -> IndexKinds {
        match self {
            IndexPart::Values => IndexKinds::EQUALITY.with(IndexKinds::ORDERING),
            IndexPart::Presence => IndexKinds::PRESENCE,
            IndexPart::Grams => IndexKinds::SUBSTRING,
            IndexPart::Sounds => IndexKinds::APPROXIMATE,
        }
    }

    /// Whether an index of these kinds has the part.
    pub const fn is_of(self, kinds: IndexKinds) -> bool {
        kinds.bits() & self.kinds().bits() != 0
    }
}

/// A set of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IndexParts(u8);

impl IndexParts {
    /// No part.
    pub const NONE: IndexParts = IndexParts(0);

    /// The set with one part more.
    pub const fn with(self, part: IndexPart) -> IndexParts {
        IndexParts(self.0 | 1 << part as u8)
    }

    /// The set without a part.
    pub const fn without(self, part: IndexPart) -> IndexParts {
        IndexParts(self.0 & !(1 << part as u8))
    }

    /// Whether the part is in the set.
    pub const fn has(self, part: IndexPart) -> bool {
        self.0 & 1 << part as u8 != 0
    }

    /// Whether no part is.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// How far the rows of a part are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// There are no rows.
    #[default]
    Absent,
    /// Rows follow every change, and those of entries from before are being made. Never used to answer.
    Building,
    /// There is a row for everything.
    Complete,
    /// Rows no longer follow changes, and are being removed.
    Clearing,
}

impl Phase {
    const fn number(self) -> u8 {
        match self {
            Phase::Absent => 0,
            Phase::Building => 1,
            Phase::Complete => 2,
            Phase::Clearing => 3,
        }
    }

    const fn of(number: u8) -> Option<Phase> {
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
    /// What is defined.
    pub kinds: IndexKinds,
    /// The rule whose keys the grams are of. Kept with the definition, so that another substring rule in the schema
    /// makes the grams useless but never wrong.
    pub gram_rule: Option<MatchingRule>,
    phases: [Phase; 4],
}

impl AttributeIndex {
    /// An index of these kinds whose rows are all there. For whoever makes a data directory in one go.
    pub fn complete(kinds: IndexKinds, gram_rule: Option<MatchingRule>) -> AttributeIndex {
        let phase = |part: IndexPart| if part.is_of(kinds) { Phase::Complete } else { Phase::Absent };
        AttributeIndex { kinds, gram_rule, phases: IndexPart::ALL.map(phase) }
    }

    /// The index as it is once every entry has the rows of the parts that follow changes, and there are no others:
    /// nothing is left to remove, and a part that was to come back after its removal is still to be built.
    pub fn made_anew(&self) -> AttributeIndex {
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

    /// The phase of a part.
    #[expect(clippy::indexing_slicing, reason = "the parts are as many as the places")]
    pub fn phase(&self, part: IndexPart) -> Phase {
        self.phases[part as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "the parts are as many as the places")]
    pub(crate) fn set_phase(&mut self, part: IndexPart, phase: Phase) {
        self.phases[part as usize] = phase;
    }

    /// Whether searches may use the part.
    pub fn answers(&self, part: IndexPart) -> bool {
        self.phase(part) == Phase::Complete
    }

    /// The parts whose rows follow every change of an entry.
    pub fn kept_parts(&self) -> IndexParts {
        let kept = |part: &IndexPart| matches!(self.phase(*part), Phase::Building | Phase::Complete);
        IndexPart::ALL.into_iter().filter(kept).fold(IndexParts::NONE, IndexParts::with)
    }

    /// Whether rows remain to be made or removed.
    pub fn has_work(&self) -> bool {
        self.phases.iter().any(|phase| matches!(phase, Phase::Building | Phase::Clearing))
    }

    /// Whether there is nothing to keep in `meta`.
    pub(crate) fn is_nothing(&self) -> bool {
        self.kinds.is_none() && self.phases.iter().all(|phase| *phase == Phase::Absent)
    }
}

/// The row of an index in `meta`: an [`AttributeIndex`] and how far each part being built has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IndexRow {
    /// Definition and phases.
    pub index: AttributeIndex,
    built_to: [u64; IndexPart::ALL.len()],
}

/// First byte of a row. A row of 1 and nothing more, as the first version of the program wrote it, is a complete index
/// for equality and ordering.
const ROW_VERSION: u8 = 2;

impl IndexRow {
    /// The row of an index of which no part is being built.
    pub fn of(index: AttributeIndex) -> IndexRow {
        IndexRow { index, ..IndexRow::default() }
    }

    /// For a part being built: the highest entry id that has its rows.
    #[expect(clippy::indexing_slicing, reason = "each part has a number below their count")]
    pub fn built_to(&self, part: IndexPart) -> u64 {
        self.built_to[part as usize]
    }

    /// Sets what [`built_to`](IndexRow::built_to) tells.
    #[expect(clippy::indexing_slicing, reason = "each part has a number below their count")]
    pub fn set_built_to(&mut self, part: IndexPart, id: u64) {
        self.built_to[part as usize] = id;
    }

    /// The row's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![ROW_VERSION, self.index.kinds.bits()];
        for part in IndexPart::ALL {
            out.push(self.index.phase(part).number());
            out.extend_from_slice(&self.built_to(part).to_be_bytes());
        }
        put_bytes(&mut out, self.index.gram_rule.map_or("", MatchingRule::oid).as_bytes());
        out
    }

    /// Reads a row; `None` when it is damaged or of a version unknown here.
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

/// The rule of an OID in a row or record, empty for none. `None` where the program does not know it.
#[allow(clippy::option_option, reason = "a missing rule is fine, an unknown one is not")]
pub(crate) fn rule_of(oid: &str) -> Option<Option<MatchingRule>> {
    if oid.is_empty() { Some(None) } else { MatchingRule::find(oid).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names() {
        for (text, expected) in [
            ("equality", Ok("equality")),
            ("Substring, EQUALITY", Ok("equality,substring")),
            (
                "equality,ordering,presence,substring,approximate",
                Ok("equality,ordering,presence,substring,approximate"),
            ),
            ("", Err("\"\" is no kind")),
            ("equality,exact", Err("\"exact\" is no kind")),
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
    fn rows_go_both_ways_and_damage_never_panics() {
        let kinds = IndexKinds::EQUALITY.with(IndexKinds::SUBSTRING);
        let mut index = AttributeIndex::complete(kinds, MatchingRule::find("caseIgnoreSubstringsMatch"));
        assert!(index.answers(IndexPart::Values) && !index.answers(IndexPart::Sounds) && !index.has_work());
        index.set_phase(IndexPart::Grams, Phase::Building);
        index.set_phase(IndexPart::Sounds, Phase::Clearing);
        assert!(index.has_work() && !index.answers(IndexPart::Grams));
        let kept = index.kept_parts();
        assert_eq!(IndexPart::ALL.map(|part| kept.has(part)), [true, false, true, false]);
        let row = IndexRow { index, built_to: [0, 0, 77, 0] };
        let bytes = row.encode();
        assert_eq!(IndexRow::decode(&bytes), Some(row));
        for end in 0..bytes.len() {
            assert_eq!(IndexRow::decode(&bytes[..end]), None);
        }
        let anew = index.made_anew();
        assert_eq!(
            IndexPart::ALL.map(|part| anew.phase(part)),
            [Phase::Complete, Phase::Absent, Phase::Complete, Phase::Absent]
        );
        index.kinds = kinds.with(IndexKinds::APPROXIMATE);
        assert_eq!(index.made_anew().phase(IndexPart::Sounds), Phase::Building);
        let old = IndexRow::decode(&[1]).unwrap().index;
        assert!(old.answers(IndexPart::Values) && old.kinds.to_string() == "equality,ordering");
    }
}
