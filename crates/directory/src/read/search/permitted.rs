//! A search under access rules: decides which candidates the requester may see, and which of their attributes.
//!
//! A filter item on an attribute that the requester may not search is Undefined (RFC 4511 section 4.5.1.7). An item
//! that becomes Undefined never turns a non-match into a match. Therefore the whole filter is evaluated first. Each
//! match is evaluated again with the part of the filter that the requester's rights at that entry permit.

use std::sync::Arc;

use schema::TypeId;

use super::result::ResultWriter;
use crate::access::{AllowedValues, EffectiveRights, EntryRights, TraversalCache, is_membership, type_of};
use crate::catalog::Catalog;
use crate::filter::{Candidate, ChainLinks, Matcher, Term, Truth};
use crate::model::access_rule::SEARCH;
use crate::model::outcome::OperationError;
use crate::tree::TreeState;

/// Rights of the requester at the entries of one search, and the permitted parts of its filter.
#[derive(Debug, Default)]
pub(super) struct Permitted {
    traversal: TraversalCache,
    /// Permitted part of the filter for each set of rights at the entries examined so far; `None` if the whole filter
    /// is permitted.
    filters: Vec<(Arc<EntryRights>, Option<Term>)>,
}

impl Permitted {
    /// Returns true if an entry that matches the filter is a result for this requester. In that case, prepares the
    /// writer to write the entry's readable attributes.
    pub(super) fn admits<'s>(
        &mut self,
        state: TreeState<'s>,
        rights: &EffectiveRights,
        filter: &Term,
        (matcher, writer): (&mut Matcher, &mut ResultWriter),
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        let Some(rights) = self.at(state, rights, candidate)? else { return Ok(false) };
        let known = self.filters.iter().position(|(known, _)| Arc::ptr_eq(known, &rights));
        let place = known.unwrap_or_else(|| {
            if self.filters.len() >= FILTERS_MAX {
                self.filters.clear();
            }
            let allowed = AllowedValues { rights: &rights, right: SEARCH };
            let is_whole = allowed.may_test(filter, state.catalog);
            let left = (!is_whole).then(|| allowed.left_of(filter, state.catalog));
            self.filters.push((Arc::clone(&rights), left));
            self.filters.len() - 1
        });
        if let Some((_, Some(left))) = self.filters.get(place)
            && matcher.truth(left, state, candidate)? != Truth::True
        {
            return Ok(false);
        }
        writer.selection.rights = Some(rights);
        Ok(true)
    }

    /// Returns true if the requester may see the entry, even if it does not match the filter. In that case, prepares
    /// the writer to write the entry's readable attributes.
    pub(super) fn shows(
        &mut self,
        state: TreeState<'_>,
        rights: &EffectiveRights,
        candidate: &Candidate<'_>,
        writer: &mut ResultWriter,
    ) -> Result<bool, OperationError> {
        let rights = self.at(state, rights, candidate)?;
        let is_shown = rights.is_some();
        writer.selection.rights = rights;
        Ok(is_shown)
    }

    /// Returns the rights at an entry; `None` if the requester may not see it.
    #[inline]
    fn at(
        &mut self,
        state: TreeState<'_>,
        rights: &EffectiveRights,
        candidate: &Candidate<'_>,
    ) -> Result<Option<Arc<EntryRights>>, OperationError> {
        let at = rights.at(state, &mut self.traversal, candidate.id, candidate.node.parent)?;
        Ok(at.filter(|at| at.may_browse()))
    }
}

/// Maximum number of permitted filters that are cached.
const FILTERS_MAX: usize = 16;

/// Attributes that a filter tests.
#[derive(Debug, Default)]
pub(super) struct FilterTypes {
    /// The attribute types, including subtypes.
    pub(super) types: Vec<TypeId>,
    /// Links that the filter follows from one entry to another, including the links to groups for memberOf.
    pub(super) hops: Vec<ChainLinks>,
}

/// Returns the types that a filter tests.
pub(super) fn filter_types(filter: &Term, catalog: &Catalog) -> FilterTypes {
    let mut tested = FilterTypes::default();
    add_filter_types(filter, catalog, &mut tested);
    tested.types.sort_unstable();
    tested.types.dedup();
    tested
}

fn add_filter_types(filter: &Term, catalog: &Catalog, tested: &mut FilterTypes) {
    match filter {
        Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => {}
        Term::And(terms) | Term::Or(terms) => {
            terms.iter().for_each(|term| add_filter_types(term, catalog, tested));
        }
        Term::Not(term) => add_filter_types(term, catalog, tested),
        Term::Item(item) => {
            if is_membership(item) {
                tested.hops.push(ChainLinks::of(item, catalog));
            }
            match (type_of(item, &catalog.schema), item.test.rule()) {
                (Some(type_id), _) => tested.types.extend(catalog.schema.subtypes(type_id)),
                (None, Some(rule)) => {
                    let types = catalog.schema.attribute_types().iter();
                    let of_rule = types.filter(|known| catalog.schema.rule_applies(rule, known));
                    tested.types.extend(of_rule.map(|known| known.id));
                }
                (None, None) => {}
            }
        }
    }
}

/// Returns true if an entry is a result under these rights. The entry must match the filter and be visible.
pub(super) fn is_found<'s>(
    state: TreeState<'s>,
    filter: &Term,
    rights: &EntryRights,
    matcher: &mut Matcher,
    candidate: &Candidate<'s>,
) -> Result<bool, OperationError> {
    let allowed = AllowedValues { rights, right: SEARCH };
    if allowed.may_test(filter, state.catalog) {
        return Ok(true);
    }
    let left = allowed.left_of(filter, state.catalog);
    Ok(matcher.truth(&left, state, candidate)? == Truth::True)
}
