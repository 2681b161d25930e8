//! Evaluation of a filter on the bytes of an entry row alone.
//!
//! A scan that needs values reads entry rows in storage order and tests them here first. A row that fails is skipped
//! without reading its node row or verifying its checksum. A row that passes, or cannot be decided, is evaluated
//! like any other candidate. A scan may therefore skip a damaged row; it never returns one, and `pando verify` finds
//! it.
//!
//! The [`Guard`], one test of one attribute, rejects most rows. A scan locates that attribute in a block of rows and
//! prefetches its values before it tests the first row.

use schema::Schema;

use super::{Item, Subject, Term, Test, Truth};
use crate::model::entry::{Content, EntryRow, InlineValue, Located};
use crate::model::rows::AttrId;

/// A test that every result passes, of an attribute with one number.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'f> {
    attribute: AttrId,
    test: &'f Test,
    /// Whether rows that pass must still be tested against the rest of the filter.
    pub(crate) is_part: bool,
}

impl Guard<'_> {
    /// Locates the attribute in a row; `None` if the row does not have it. `place` is the attribute's place in the
    /// previous row.
    #[inline(always)]
    pub(crate) fn look<'a>(&self, row: &'a [u8], place: &mut usize) -> Option<Located<'a>> {
        // A row that cannot be read decides nothing.
        let Some(row) = EntryRow::unchecked(row) else { return Some(Located::UNKNOWN) };
        row.locate(self.attribute, place)
    }

    /// Returns true if an entry cannot match. `key` is a scratch buffer.
    #[inline]
    pub(crate) fn refuses(&self, schema: &Schema, looked: Option<Located<'_>>, key: &mut Vec<u8>) -> bool {
        looked.is_none_or(|located| self.test.content_passes(schema, located.content(), key) == Some(false))
    }
}

impl Term {
    /// Returns the first test that can decide by itself that an entry does not match.
    pub(crate) fn guard(&self) -> Option<Guard<'_>> {
        match self {
            Term::And(terms) => {
                let guard = terms.iter().find_map(Term::guard)?;
                Some(Guard { is_part: true, ..guard })
            }
            Term::Item(item) => match item.attributes[..] {
                [attribute] if item.is_about_rows() => {
                    Some(Guard { attribute, test: &item.test, is_part: false })
                }
                _ => None,
            },
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) | Term::Or(_) | Term::Not(_) => {
                None
            }
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
