//! Evaluation of a filter on the bytes of an entry row alone.
//!
//! A scan that needs values reads entry rows in storage order and tests them here first. The scan skips a row that
//! fails, without reading the node row or verifying the checksum. A row that passes, or that these tests cannot
//! decide, is evaluated like any other candidate. Therefore a scan may skip a damaged row but never returns a damaged
//! row. `pando verify` finds damaged rows.
//!
//! A [`Guard`] rejects most rows. It is one test of one attribute, or a few tests such that every result of the search
//! passes at least one of them. A scan locates these attributes in a block of rows and prefetches their values before
//! it tests the first row.

use schema::Schema;

use super::{Item, Subject, Term, Test, Truth};
use crate::model::entry::{Content, EntryRow, InlineValues, Located, Place};
use crate::model::rows::AttrId;

/// Maximum number of tests of a guard.
const GUARD_TESTS_MAX: usize = 8;

/// A few tests, usually one, such that every entry that matches the filter passes at least one of them. Each test
/// concerns a single attribute number.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'f> {
    attribute: AttrId,
    test: &'f Test,
    /// Items of all tests except the first test. Each item has at most one attribute number.
    others: &'f [Term],
    /// Whether the filter has further terms, so that rows that pass the guard must still be tested against the whole
    /// filter.
    pub(crate) is_part: bool,
}

impl<'f> Guard<'f> {
    /// Locates the attribute of the first test in a row; `None` if the row does not have the attribute. `place` is the
    /// attribute's index in the previous row.
    #[inline(always)]
    pub(crate) fn locate<'a>(&self, row: &'a [u8], place: &mut Place) -> Option<Located<'a>> {
        locate(self.attribute, row, place)
    }

    /// Returns true if the entry cannot pass the first test. `key` is a scratch buffer.
    #[inline]
    pub(crate) fn refuses(&self, schema: &Schema, looked: Option<Located<'_>>, key: &mut Vec<u8>) -> bool {
        fails(self.test, schema, looked, key)
    }

    /// Returns the tests after the first, except tests of attributes that no entry has.
    pub(crate) fn other_tests(&self) -> Vec<OtherTest<'f>> {
        let tests = self.others.iter().filter_map(|term| {
            let (attribute, test) = single(term)?;
            Some(OtherTest { attribute: attribute?, test, place: Place::default() })
        });
        tests.collect()
    }

    /// Returns a guard of these items. Returns `None` if an entry row cannot decide an item, if an item has more than
    /// one attribute number, if no item has an attribute number, or if there are more than `GUARD_TESTS_MAX` items.
    fn of_items(first: &'f Term, others: &'f [Term]) -> Option<Guard<'f>> {
        let is_single = others.len() < GUARD_TESTS_MAX && others.iter().all(|term| single(term).is_some());
        match single(first)? {
            (Some(attribute), test) if is_single => Some(Guard { attribute, test, others, is_part: false }),
            // No entry has the attribute, so no entry passes this test.
            (None, _) => others.split_first().and_then(|(first, others)| Guard::of_items(first, others)),
            _ => None,
        }
    }

    /// Returns the rank of the guard: the guard that is likely to reject the most rows has the lowest rank.
    fn rank(&self) -> u8 {
        match (self.test, self.others) {
            (Test::Present, []) => 2,
            (_, []) => 0,
            _ => 1,
        }
    }
}

/// Any test of a guard except the first test.
pub(crate) struct OtherTest<'f> {
    attribute: AttrId,
    test: &'f Test,
    /// Index of the attribute in the previous row.
    place: Place,
}

/// Locates in a row the attributes that the other tests need.
#[inline]
pub(crate) fn locate_others<'a>(
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

/// Returns true if an entry passes none of these tests. `looked` has the located attribute of each test.
#[inline]
pub(crate) fn others_refuse(
    tests: &[OtherTest<'_>],
    schema: &Schema,
    looked: &[Option<Located<'_>>],
    key: &mut Vec<u8>,
) -> bool {
    // If `looked` lacks the attribute of a test, the row is not rejected.
    looked.len() == tests.len()
        && tests.iter().zip(looked).all(|(test, looked)| fails(test.test, schema, *looked, key))
}

#[inline(always)]
fn locate<'a>(attribute: AttrId, row: &'a [u8], place: &mut Place) -> Option<Located<'a>> {
    // A row that cannot be decoded is not rejected.
    let Some(row) = EntryRow::unchecked(row) else { return Some(Located::UNKNOWN) };
    row.locate(attribute, place)
}

#[inline(always)]
fn fails(test: &Test, schema: &Schema, looked: Option<Located<'_>>, key: &mut Vec<u8>) -> bool {
    looked.is_none_or(|located| test.content_passes(schema, located.content(), key) == Some(false))
}

/// Returns the attribute number and the test of an item, if an entry row can decide the item. The item must have at
/// most one attribute number.
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
    /// Returns the guard of the filter; `None` if the filter has no tests that can be a guard.
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

    /// Returns true if entry rows alone decide about most entries, so that it pays to test rows first.
    pub(crate) fn is_decided_by_rows(&self) -> bool {
        match self {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => false,
            Term::And(terms) => terms.iter().any(Term::is_decided_by_rows),
            Term::Or(terms) => terms.iter().all(Term::is_decided_by_rows),
            Term::Not(term) => term.is_decided_by_rows(),
            Term::Item(item) => item.is_about_rows(),
        }
    }

    /// Evaluates the filter on an entry row; `None` if the row alone cannot decide. `key` is a scratch buffer.
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
        !self.dn_attributes && !self.counts_described && !matches!(self.subject, Subject::Virtual(_))
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
    /// Returns true if a value in this content passes the test; `None` if the result depends on values outside the row.
    #[inline]
    fn content_passes(&self, schema: &Schema, content: Content<'_>, key: &mut Vec<u8>) -> Option<bool> {
        let values = match (content, self) {
            (_, Test::Present) => return Some(true),
            (Content::Inline(values), _) => values,
            (Content::Table | Content::Links, _) => return None,
        };
        if let Some(mut values) = values.octet_strings() {
            return Some(values.any(|value| self.passes(schema, value, key)));
        }
        self.other_content_passes(schema, values, key)
    }

    /// Does the same as [`content_passes`](Test::content_passes) for packed values and values outside the row.
    #[cold]
    fn other_content_passes(
        &self,
        schema: &Schema,
        values: InlineValues<'_>,
        key: &mut Vec<u8>,
    ) -> Option<bool> {
        let mut is_known = true;
        for value in values.iter() {
            match value.here() {
                Some(value) if self.passes(schema, value, key) => return Some(true),
                Some(_) => {}
                None => is_known = false,
            }
        }
        is_known.then_some(false)
    }
}
