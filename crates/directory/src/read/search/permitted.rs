//! A search under access rules: which candidates the asker may see, and what of them.
//!
//! What the filter says of an attribute that the asker may not search is Undefined (RFC 4511 section 4.5.1.7). That
//! never makes a result of an entry that is none otherwise, because what is less certain is at most as true; so
//! candidates are found by the whole filter, and each that passes is asked once more by what is left of the filter
//! under the rights at that entry.

use std::sync::Arc;

use schema::{Schema, TypeId};

use super::result::ResultWriter;
use crate::access::{EntryRights, Standing, Walk};
use crate::catalog::{Catalog, VirtualAttribute, is_secret};
use crate::filter::{Candidate, Matcher};
use crate::filter::{Item, Subject, Term, Truth};
use crate::model::outcome::OperationError;
use crate::model::rows::AttrId;
use crate::tree::TreeState;

/// The rights of one search.
#[derive(Debug)]
pub(super) struct Permitted {
    pub(super) standing: Arc<Standing>,
    walk: Walk,
    /// What is left of the filter under rights that were met; `None` where that is all of it.
    filters: Vec<(Arc<EntryRights>, Option<Term>)>,
}

impl Permitted {
    pub(super) fn new(standing: Arc<Standing>) -> Permitted {
        Permitted { standing, walk: Walk::default(), filters: Vec::new() }
    }

    /// Forgets what was found out on another snapshot.
    pub(super) fn forget(&mut self) {
        self.walk = Walk::default();
        self.filters.clear();
    }

    /// Whether an entry that passes the filter is a result for the asker. Then the writer writes what of it may be
    /// read.
    pub(super) fn admits<'s>(
        &mut self,
        state: TreeState<'s>,
        filter: &Term,
        matcher: &mut Matcher,
        candidate: &Candidate<'s>,
        writer: &mut ResultWriter,
    ) -> Result<bool, OperationError> {
        let rights = self.standing.at(state, &mut self.walk, candidate.id, candidate.node.parent)?;
        if !rights.may_browse() {
            return Ok(false);
        }
        let known = self.filters.iter().position(|(known, _)| Arc::ptr_eq(known, &rights));
        let place = known.unwrap_or_else(|| {
            if self.filters.len() >= FILTERS_MAX {
                self.filters.clear();
            }
            let left =
                (!may_ask(filter, state.catalog, &rights)).then(|| left_of(filter, state.catalog, &rights));
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
}

/// Filters that are kept ready.
const FILTERS_MAX: usize = 16;

/// The type that an item is about, if it is one.
fn type_of(item: &Item, schema: &Schema) -> Option<TypeId> {
    match &item.subject {
        Subject::Attribute(description) => Some(description.type_id),
        Subject::Virtual(attribute) => {
            let types = schema.attribute_types().iter();
            types
                .map(|known| known.id)
                .find(|id| VirtualAttribute::of(schema.type_by_id(*id)) == Some(*attribute))
        }
        Subject::Any => None,
    }
}

fn may_ask_item(item: &Item, catalog: &Catalog, rights: &EntryRights) -> bool {
    let by_type = type_of(item, &catalog.schema).is_some_and(|type_id| {
        catalog.schema.subtypes(type_id).iter().all(|subtype| rights.may_search(*subtype))
    });
    by_type || (matches!(item.subject, Subject::Any) && may_ask_any(item, &catalog.schema, rights))
}

/// Whether all types may be searched that a rule applies to: not just those that some entry has, which would tell what
/// hidden entries have.
fn may_ask_any(item: &Item, schema: &Schema, rights: &EntryRights) -> bool {
    let Some(rule) = item.test.rule() else { return false };
    schema.attribute_types().iter().all(|known| {
        !schema.rule_applies(rule, known) || is_secret(schema, known.id) || rights.may_search(known.id)
    })
}

fn may_ask_number(catalog: &Catalog, id: AttrId, rights: &EntryRights) -> bool {
    rights.may_search(catalog.attribute(id).description.type_id)
}

/// Whether all that a filter asks for may be searched.
fn may_ask(term: &Term, catalog: &Catalog, rights: &EntryRights) -> bool {
    match term {
        // objectClass goes with the entry, and what it tells is what structuralObjectClass does.
        Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => true,
        Term::And(terms) | Term::Or(terms) => terms.iter().all(|term| may_ask(term, catalog, rights)),
        Term::Not(term) => may_ask(term, catalog, rights),
        Term::Item(item) => may_ask_item(item, catalog, rights) && !is_membership(item),
    }
}

/// Whether an item is about groups, of which some may not show: what the index says of it may be more.
fn is_membership(item: &Item) -> bool {
    matches!(item.subject, Subject::Virtual(attribute) if attribute.is_membership())
}

/// What is left of a filter: what may not be searched is Undefined. Of a type of which only some subtypes may be, these
/// are left.
fn left_of(term: &Term, catalog: &Catalog, rights: &EntryRights) -> Term {
    let all = |terms: &[Term]| terms.iter().map(|term| left_of(term, catalog, rights)).collect();
    match term {
        Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => term.clone(),
        Term::And(terms) => Term::And(all(terms)),
        Term::Or(terms) => Term::Or(all(terms)),
        Term::Not(term) => Term::Not(Box::new(left_of(term, catalog, rights))),
        Term::Item(item) if may_ask_item(item, catalog, rights) => term.clone(),
        Term::Item(item) => {
            let attributes = item.attributes.only(|id| may_ask_number(catalog, id, rights));
            let is_own = type_of(item, &catalog.schema).is_some_and(|type_id| rights.may_search(type_id));
            let is_virtual = matches!(item.subject, Subject::Virtual(_));
            if attributes.is_empty() && (is_virtual || !is_own) {
                return Term::Constant(Truth::Undefined);
            }
            // Whether what may not be asked for would match is not known: behind a `not` this matters.
            let left = Term::Item(Item { attributes, ..item.clone() });
            Term::Or(vec![left, Term::Constant(Truth::Undefined)])
        }
    }
}

/// What a filter asks for.
#[derive(Debug, Default)]
pub(super) struct TypesAsked {
    /// The types, subtypes among them.
    pub(super) types: Vec<TypeId>,
    /// Whether it asks for groups of entries.
    pub(super) membership: bool,
}

/// The types that a filter asks for.
pub(super) fn types_asked(filter: &Term, catalog: &Catalog) -> TypesAsked {
    let mut asked = TypesAsked::default();
    add_types_asked(filter, catalog, &mut asked);
    asked.types.sort_unstable();
    asked.types.dedup();
    asked
}

fn add_types_asked(filter: &Term, catalog: &Catalog, asked: &mut TypesAsked) {
    match filter {
        Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => {}
        Term::And(terms) | Term::Or(terms) => {
            terms.iter().for_each(|term| add_types_asked(term, catalog, asked));
        }
        Term::Not(term) => add_types_asked(term, catalog, asked),
        Term::Item(item) => {
            asked.membership |= is_membership(item);
            match (type_of(item, &catalog.schema), item.test.rule()) {
                (Some(type_id), _) => asked.types.extend(catalog.schema.subtypes(type_id)),
                (None, Some(rule)) => {
                    let types = catalog.schema.attribute_types().iter();
                    let of_rule = types.filter(|known| catalog.schema.rule_applies(rule, known));
                    asked.types.extend(of_rule.map(|known| known.id));
                }
                (None, None) => {}
            }
        }
    }
}

/// Whether an entry that passes the filter and may be browsed is a result under these rights.
pub(super) fn is_found<'s>(
    state: TreeState<'s>,
    filter: &Term,
    rights: &EntryRights,
    matcher: &mut Matcher,
    candidate: &Candidate<'s>,
) -> Result<bool, OperationError> {
    if may_ask(filter, state.catalog, rights) {
        return Ok(true);
    }
    let left = left_of(filter, state.catalog, rights);
    Ok(matcher.truth(&left, state, candidate)? == Truth::True)
}
