//! Filters that are compiled before the base of a search is looked up, so that index keys are prefetched during the
//! lookup.

use ldap::Scope;

use super::super::SearchInputs;
use crate::filter::{Item, Term, Test};
use crate::model::index_definition::IndexPart;
use crate::model::outcome::OperationError;
use crate::model::rows::{INDEX, with_index_key};
use crate::tree::TreeState;

/// Maximum number of keys that are prefetched for a filter.
const KEYS_MAX: usize = 4;

impl SearchInputs<'_> {
    /// Compiles the filter and prefetches the index keys of its equality tests. Returns `None` for a search of scope
    /// baseObject, because such a search uses no index.
    #[inline]
    pub(in super::super) fn filter_ahead(&self) -> Option<Result<Term, OperationError>> {
        if self.request.scope == Scope::BaseObject {
            return None;
        }
        let filter = Term::prepared(self.snapshot, self.rights.shown(), self.request.filter);
        match &filter {
            Ok(Term::Item(item)) => prefetch(self.snapshot.state(), item),
            Ok(Term::And(terms) | Term::Or(terms)) => {
                for term in terms.iter().take(KEYS_MAX) {
                    if let Term::Item(item) = term {
                        prefetch(self.snapshot.state(), item);
                    }
                }
            }
            _ => {}
        }
        Some(filter)
    }
}

#[inline]
fn prefetch(state: TreeState<'_>, item: &Item) {
    if let (Test::Equal(_, key), [attribute]) = (&item.test, &*item.attributes) {
        let def = state.catalog.attribute(*attribute);
        if def.index.answers(IndexPart::Values) {
            with_index_key(def.base, key, |key| state.read.prefetch_ids(INDEX, key));
        }
    }
}
