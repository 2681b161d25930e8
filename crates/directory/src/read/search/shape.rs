//! Shapes of filters: filters without the asserted values, for statistics about searches without an index.

use std::fmt::Write as _;

use super::explain::{MissingIndex, missing, subject_name};
use super::plan::Result;
use crate::access::RequestContext;
use crate::catalog::Catalog;
use crate::filter::{Item, Term, Test, Truth};
use crate::model::limits::FILTER_SHAPE_BYTES_MAX;
use crate::snapshot::Snapshot;

/// A filter without asserted values, and the indexes that it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterShape {
    /// The filter in the form of RFC 4515, with `?` in place of each value. A long text is truncated.
    pub text: String,
    /// Indexes that would narrow the filter.
    pub missing: Vec<MissingIndex>,
}

impl FilterShape {
    /// Returns the shape of a filter in a search by this requester.
    ///
    /// # Errors
    /// The store failed.
    pub fn of(
        snapshot: &Snapshot,
        context: &RequestContext<'_>,
        filter: ldap::Filter<'_>,
    ) -> Result<FilterShape> {
        let rights = snapshot.rights(context)?;
        let filter = Term::prepared(snapshot, rights.shown(), filter)?;
        Ok(FilterShape::of_term(snapshot.state().catalog, &filter))
    }

    pub(super) fn of_term(catalog: &Catalog, filter: &Term) -> FilterShape {
        let mut text = String::new();
        put(catalog, filter, &mut text);
        if text.len() > FILTER_SHAPE_BYTES_MAX {
            let end = (0..=FILTER_SHAPE_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
            text.push_str("...");
        }
        FilterShape { text, missing: missing(catalog, filter) }
    }
}

fn put(catalog: &Catalog, term: &Term, text: &mut String) {
    if text.len() > FILTER_SHAPE_BYTES_MAX {
        return;
    }
    let class = |class| catalog.schema.class_by_id(class).name();
    let mut all = |sign, terms: &[Term]| {
        text.push_str(sign);
        terms.iter().for_each(|term| put(catalog, term, text));
        text.push(')');
    };
    match term {
        Term::And(terms) => all("(&", terms),
        Term::Or(terms) => all("(|", terms),
        Term::Not(term) => all("(!", std::slice::from_ref(term)),
        // The absolute true filter of RFC 4526. The next arm is the absolute false filter.
        Term::Constant(Truth::True) => text.push_str("(&)"),
        Term::Constant(Truth::False | Truth::Undefined) => text.push_str("(|)"),
        Term::Class(id) => drop(write!(text, "(objectClass={})", class(*id))),
        Term::StructuralClass(id) => drop(write!(text, "(structuralObjectClass={})", class(*id))),
        Term::Item(item) => put_item(catalog, item, text),
    }
}

fn put_item(catalog: &Catalog, item: &Item, text: &mut String) {
    let name = subject_name(&catalog.schema, &item.subject);
    let dn = if item.dn_attributes { ":dn" } else { "" };
    let test = match &item.test {
        Test::Present => "=*",
        Test::Equal(..) => "=?",
        Test::AtLeast(..) => ">=?",
        Test::AtMost(..) => "<=?",
        Test::Sounds(_) => "~=?",
        Test::Extensible(..) | Test::InChain(_) | Test::Visible(_) => ":=?",
        Test::Substring(_, assertion) => {
            let mut pieces = assertion.pieces();
            let is_initial = pieces.next().is_some_and(|piece| piece.at_start);
            let is_final = assertion.pieces().last().is_some_and(|piece| piece.at_end);
            let inner = assertion.pieces().filter(|piece| !piece.at_start && !piece.at_end).count();
            // The shape omits the number of inner parts, because the cost of the filter hardly depends on it.
            match (is_initial, inner > 0, is_final) {
                (true, false, false) => "=?*",
                (true, true, false) => "=?*?*",
                (true, false, true) => "=?*?",
                (true, true, true) => "=?*?*?",
                (false, false, true) => "=*?",
                (false, true, true) => "=*?*?",
                (false, _, false) => "=*?*",
            }
        }
    };
    let _ = write!(text, "({name}{dn}{test})");
}
