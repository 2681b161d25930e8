//! Evaluation of a filter on the bytes of an entry row alone.
//!
//! A scan that needs values reads entry rows in storage order and tests them here first. A row that fails is skipped
//! without reading its node row or verifying its checksum. A row that passes, or cannot be decided, is evaluated
//! like any other candidate. A scan may therefore skip a damaged row; it never returns one, and `pando verify` finds
//! it.
//!
//! The [`Guard`], one test of one attribute or a few of which one must pass, rejects most rows. A scan locates those
//! attributes in a block of rows and prefetches their values before it tests the first row.

use schema::Schema;

use super::{Item, Subject, Term, Test, Truth};
use crate::model::entry::{Content, EntryRow, InlineValue, Located, Place};
use crate::model::rows::AttrId;

/// Most tests of a guard.
const GUARD_TESTS_MAX: usize = 8;

/// A test that every result passes, of an attribute with one number; or tests of which every result passes one.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'f> {
    attribute: AttrId,
    test: &'f Test,
    /// Items of the other tests, each of one attribute number or none.
    others: &'f [Term],
    /// Whether rows that pass must still be tested against the rest of the filter.
    pub(crate) is_part: bool,
}

impl<'f> Guard<'f> {
    /// Locates the attribute in a row; `None` if the row does not have it. `place` is the attribute's place in the
    /// previous row.
    #[inline(always)]
    pub(crate) fn look<'a>(&self, row: &'a [u8], place: &mut Place) -> Option<Located<'a>> {
        locate(self.attribute, row, place)
    }

    /// Returns true if an entry cannot pass the first test. `key` is a scratch buffer.
    #[inline]
    pub(crate) fn refuses(&self, schema: &Schema, looked: Option<Located<'_>>, key: &mut Vec<u8>) -> bool {
        fails(self.test, schema, looked, key)
    }

    /// Returns the other tests, without those of attributes that no entry has.
    pub(crate) fn other_tests(&self) -> Vec<OtherTest<'f>> {
        let tests = self.others.iter().filter_map(|term| {
            let (attribute, test) = single(term)?;
            Some(OtherTest { attribute: attribute?, test, place: Place::default() })
        });
        tests.collect()
    }

    /// Returns a guard of one item, if it concerns at most one attribute number. A guard by presence refuses little.
    fn of_items(first: &'f Term, others: &'f [Term]) -> Option<Guard<'f>> {
        let is_single = others.len() < GUARD_TESTS_MAX && others.iter().all(|term| single(term).is_some());
        match single(first)? {
            (Some(attribute), test) if is_single => Some(Guard { attribute, test, others, is_part: false }),
            // No entry has the attribute.
            (None, _) => others.split_first().and_then(|(first, others)| Guard::of_items(first, others)),
            _ => None,
        }
    }

    /// Returns the order in which guards are preferred: those that probably refuse most first.
    fn rank(&self) -> u8 {
        match (self.test, self.others) {
            (Test::Present, []) => 2,
            (_, []) => 0,
            _ => 1,
        }
    }
}

/// A further test of a guard.
pub(crate) struct OtherTest<'f> {
    attribute: AttrId,
    test: &'f Test,
    /// Place of the attribute in the previous row.
    place: Place,
}

/// Locates the attributes of other tests in a row.
#[inline]
pub(crate) fn look_at_others<'a>(
    tests: &mut [OtherTest<'_>],
    row: &'a [u8],
    mut found: impl FnMut(Option<Located<'a>>),
) {
    let row = EntryRow::unchecked(row);
    for test in tests {
        found(match &row {
            Some(row) => row.locate(test.attribute, &mut test.place),
            None => Some(Located::UNKNOWN),
        });
    }
}

/// Returns true if an entry cannot pass any of these tests, of attributes that were located before.
#[inline]
pub(crate) fn others_refuse(
    tests: &[OtherTest<'_>],
    schema: &Schema,
    looked: &[Option<Located<'_>>],
    key: &mut Vec<u8>,
) -> bool {
    // Without all of them nothing is refused.
    looked.len() == tests.len()
        && tests.iter().zip(looked).all(|(test, looked)| fails(test.test, schema, *looked, key))
}

#[inline(always)]
fn locate<'a>(attribute: AttrId, row: &'a [u8], place: &mut Place) -> Option<Located<'a>> {
    // A row that cannot be read decides nothing.
    let Some(row) = EntryRow::unchecked(row) else { return Some(Located::UNKNOWN) };
    row.locate(attribute, place)
}

#[inline(always)]
fn fails(test: &Test, schema: &Schema, looked: Option<Located<'_>>, key: &mut Vec<u8>) -> bool {
    looked.is_none_or(|located| test.content_passes(schema, located.content(), key) == Some(false))
}

/// Returns the attribute number and the test of an item that rows decide, if it has at most one number.
#[inline]
fn single(term: &Term) -> Option<(Option<AttrId>, &Test)> {
    match term {
        Term::Item(item) if item.is_about_rows() => match item.attributes[..] {
            [] => Some((None, &item.test)),
            [attribute] => Some((Some(attribute), &item.test)),
            _ => None,
        },
        _ => None,
    }
}

impl Term {
    /// Returns tests that can decide by themselves that an entry does not match.
    pub(crate) fn guard(&self) -> Option<Guard<'_>> {
        match self {
            Term::And(terms) => {
                let guard = terms.iter().filter_map(Term::guard).min_by_key(Guard::rank)?;
                Some(Guard { is_part: true, ..guard })
            }
            Term::Or(terms) => terms.split_first().and_then(|(first, others)| Guard::of_items(first, others)),
            Term::Item(_) => Guard::of_items(self, &[]),
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) | Term::Not(_) => None,
        }
    }

    /// Returns true if entry rows decide about most entries, so that testing them first pays.
    pub(crate) fn is_decided_by_rows(&self) -> bool {
        match self {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => false,
            Term::And(terms) => terms.iter().any(Term::is_decided_by_rows),
            Term::Or(terms) => terms.iter().all(Term::is_decided_by_rows),
            Term::Not(term) => term.is_decided_by_rows(),
            Term::Item(item) => item.is_about_rows(),
        }
    }

    /// Evaluates the filter on the entry with this row; `None` if the row alone cannot decide. `key` is a scratch
    /// buffer.
    pub(crate) fn row_truth(&self, schema: &Schema, row: &EntryRow<'_>, key: &mut Vec<u8>) -> Option<Truth> {
        match self {
            Term::Constant(truth) => Some(*truth),
            Term::And(terms) => {
                let mut all = Some(Truth::True);
                for term in terms {
                    match term.row_truth(schema, row, key) {
                        Some(Truth::False) => return Some(Truth::False),
                        truth => all = all.and_then(|all| Some(all.min(truth?))),
                    }
                }
                all
            }
            Term::Or(terms) => {
                let mut any = Some(Truth::False);
                for term in terms {
                    match term.row_truth(schema, row, key) {
                        Some(Truth::True) => return Some(Truth::True),
                        truth => any = any.and_then(|any| Some(any.max(truth?))),
                    }
                }
                any
            }
            Term::Not(term) => term.row_truth(schema, row, key).map(|truth| !truth),
            Term::Class(_) | Term::StructuralClass(_) => None,
            Term::Item(item) => item.row_truth(schema, row, key).map(Truth::from),
        }
    }
}

impl Item {
    fn is_about_rows(&self) -> bool {
        !self.dn_attributes && !matches!(self.subject, Subject::Virtual(_))
    }

    fn row_truth(&self, schema: &Schema, row: &EntryRow<'_>, key: &mut Vec<u8>) -> Option<bool> {
        if !self.is_about_rows() {
            return None;
        }
        let mut is_known = true;
        let mut attributes = row.attributes();
        while let Some(attribute) = attributes.next_of(&self.attributes) {
            match self.test.content_passes(schema, attribute.content, key) {
                Some(true) => return Some(true),
                told => is_known &= told.is_some(),
            }
        }
        is_known.then_some(false)
    }
}

impl Test {
    /// Returns true if a value in this content passes; `None` if values outside the row decide.
    #[inline]
    fn content_passes(&self, schema: &Schema, content: Content<'_>, key: &mut Vec<u8>) -> Option<bool> {
        let values = match (content, self) {
            (_, Test::Present) => return Some(true),
            (Content::Inline(values), _) => values,
            (Content::Table | Content::Links, _) => return None,
        };
        let mut is_known = true;
        for value in values.iter() {
            match value {
                InlineValue::Here(value) if self.passes(schema, value, key) => return Some(true),
                InlineValue::Here(_) => {}
                InlineValue::Elsewhere(_) => is_known = false,
            }
        }
        is_known.then_some(false)
    }
}
