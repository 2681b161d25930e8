//! What the bytes of an entry row alone tell about a filter.
//!
//! A scan that has to look at values reads entry rows in the order in which they lie and asks here first. What does not
//! pass is done with: neither its node row nor its checksum was looked at. Whatever passes, or cannot be told from the
//! row, is read and tried like any other candidate. So a damaged row may be passed over by a scan; it is never returned,
//! and `pando verify` finds it.

use schema::Schema;

use super::filter::{Item, Subject, Term, Test, Truth};
use crate::entry::{Content, EntryRow, InlineValue};

impl Term {
    /// Whether entry rows decide about most entries: whether it pays to look at them first.
    pub(super) fn is_told_by_rows(&self) -> bool {
        match self {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => false,
            Term::And(terms) => terms.iter().any(Term::is_told_by_rows),
            Term::Or(terms) => terms.iter().all(Term::is_told_by_rows),
            Term::Not(term) => term.is_told_by_rows(),
            Term::Item(item) => item.is_about_rows(),
        }
    }

    /// What the filter says of the entry with this row; `None` where the row is not enough to know. `key` is a buffer to
    /// work in.
    pub(super) fn row_truth(&self, schema: &Schema, row: &EntryRow<'_>, key: &mut Vec<u8>) -> Option<Truth> {
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
            match (attribute.content, &self.test) {
                (_, Test::Present) => return Some(true),
                (Content::Inline(values), test) => {
                    for value in values.iter() {
                        match value {
                            InlineValue::Here(value) if test.passes(schema, value, key) => return Some(true),
                            InlineValue::Here(_) => {}
                            InlineValue::Elsewhere(_) => is_known = false,
                        }
                    }
                }
                (Content::Table | Content::Links, _) => is_known = false,
            }
        }
        is_known.then_some(false)
    }
}
