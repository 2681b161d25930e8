//! A search under access rules: decides which candidates, and which of their attributes, the requester may see.
//!
//! A filter item on an attribute that the requester may not search is Undefined (RFC 4511 section 4.5.1.7). An
//! Undefined item never turns a non-match into a match. So candidates are found by the whole filter, and each match is
//! evaluated again by the part of the filter that the rights at that entry permit.

use std::sync::Arc;

use schema::{Schema, TypeId};

use super::result::ResultWriter;
use crate::access::{EffectiveRights, EntryRights, Walk};
use crate::catalog::{Catalog, Shown, VirtualAttribute};
use crate::filter::{Candidate, Hops, Item, Matcher, Subject, Term, Test, Truth, VisibleTest};
use crate::model::access_rule::{Rights, SEARCH};
use crate::model::outcome::OperationError;
use crate::model::rows::AttrId;
use crate::tree::TreeState;

/// Rights at the entries of one search under access rules, and what they leave of its filter.
#[derive(Debug, Default)]
pub(super) struct Permitted {
    walk: Walk,
    /// Permitted part of the filter under rights already met; `None` if that is the whole filter.
    filters: Vec<(Arc<EntryRights>, Option<Term>)>,
}

impl Permitted {
    /// Returns true if an entry that matches the filter is a result for this requester, and prepares the writer for its
    /// readable attributes.
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
            let allowed = ValuesAllowed { rights: &rights, right: SEARCH };
            let is_whole = allowed.may_ask(filter, state.catalog);
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

    /// Returns true if the requester may see the entry, even if it does not match the filter, and prepares the writer
    /// for its readable attributes.
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
        let at = rights.at(state, &mut self.walk, candidate.id, candidate.node.parent)?;
        Ok(at.filter(|at| at.may_browse()))
    }
}

/// Maximum number of prepared filters.
const FILTERS_MAX: usize = 16;

/// Returns the type that an item tests, if it is only one.
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

/// Values that a right covers: search or compare.
#[derive(Clone, Copy)]
pub(crate) struct ValuesAllowed<'r> {
    pub(crate) rights: &'r EntryRights,
    pub(crate) right: Rights,
}

impl ValuesAllowed<'_> {
    fn has(self, type_id: TypeId) -> bool {
        self.rights.has(self.right, Some(type_id))
    }

    /// Returns true if all values of a type and of its subtypes may be tested.
    pub(crate) fn has_whole(self, type_id: TypeId, schema: &Schema) -> bool {
        schema.subtypes(type_id).iter().all(|subtype| self.has(*subtype))
    }

    fn may_ask_item(self, item: &Item, catalog: &Catalog) -> bool {
        let schema = &*catalog.schema;
        type_of(item, schema).is_some_and(|type_id| self.has_whole(type_id, schema))
            || (matches!(item.subject, Subject::Any) && self.may_ask_any(item, catalog))
    }

    /// Returns true if all types to which a matching rule applies may be tested: not only those that some entry has,
    /// which would reveal attributes of hidden entries. Secrets that no rule grants are left out.
    fn may_ask_any(self, item: &Item, catalog: &Catalog) -> bool {
        let (Some(rule), schema) = (item.test.rule(), &*catalog.schema) else { return false };
        let asked = |id: TypeId| Shown::AsRulesSay.includes(&catalog.secrets, id);
        schema
            .attribute_types()
            .iter()
            .all(|known| !schema.rule_applies(rule, known) || !asked(known.id) || self.has(known.id))
    }

    /// Returns true if all tests of a filter are permitted.
    fn may_ask(self, term: &Term, catalog: &Catalog) -> bool {
        match term {
            // objectClass is visible with the entry, and reveals as much as structuralObjectClass.
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => true,
            Term::And(terms) | Term::Or(terms) => terms.iter().all(|term| self.may_ask(term, catalog)),
            Term::Not(term) => self.may_ask(term, catalog),
            Term::Item(item) => self.may_ask_item(item, catalog) && !is_membership(item),
        }
    }

    /// Returns the permitted part of a filter: forbidden tests become Undefined. If only some subtypes or values of a
    /// type may be tested, the test is restricted to these.
    pub(crate) fn left_of(self, term: &Term, catalog: &Catalog) -> Term {
        let all = |terms: &[Term]| terms.iter().map(|term| self.left_of(term, catalog)).collect();
        match term {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => term.clone(),
            Term::And(terms) => Term::And(all(terms)),
            Term::Or(terms) => Term::Or(all(terms)),
            Term::Not(term) => Term::Not(Box::new(self.left_of(term, catalog))),
            Term::Item(item) if self.may_ask_item(item, catalog) => term.clone(),
            Term::Item(item) => {
                let type_of_number = |id: AttrId| catalog.attribute(id).description.type_id;
                let attributes = item.attributes.only(|id| self.has(type_of_number(id)));
                let is_own = type_of(item, &catalog.schema).is_some_and(|type_id| self.has(type_id));
                let is_virtual = matches!(item.subject, Subject::Virtual(_));
                let mut left = Vec::new();
                if !attributes.is_empty() || (is_own && !is_virtual) {
                    left.push(Term::Item(Item { attributes, ..item.clone() }));
                }
                let by_value = |id| self.rights.over_values(self.right, type_of_number(id)).is_some();
                let attributes = item.attributes.only(by_value);
                if let (false, Some(view)) = (attributes.is_empty(), self.rights.by_value()) {
                    let shown =
                        VisibleTest { test: item.test.clone(), view: Arc::clone(view), right: self.right };
                    let test = Test::Visible(Box::new(shown));
                    // The first item tests the values of the entry's name, if they may be tested.
                    let dn_attributes = false;
                    left.push(Term::Item(Item { attributes, test, dn_attributes, ..item.clone() }));
                }
                // The result of a forbidden test is unknown, which matters below a `not`.
                left.push(Term::Constant(Truth::Undefined));
                Term::Or(left)
            }
        }
    }
}

/// Returns true if an item tests membership of groups, or links of other entries, some of which may be hidden: the
/// index may list more.
fn is_membership(item: &Item) -> bool {
    matches!(item.subject, Subject::Virtual(attribute) if attribute.is_membership())
        || matches!(item.test, Test::InChain(_))
}

/// Attributes that a filter tests.
#[derive(Debug, Default)]
pub(super) struct FilterTypes {
    /// The types, including subtypes.
    pub(super) types: Vec<TypeId>,
    /// Links that it follows from entry to entry, also those to groups for memberOf.
    pub(super) hops: Vec<Hops>,
}

/// Returns the types that a filter tests.
pub(super) fn filter_types(filter: &Term, catalog: &Catalog) -> FilterTypes {
    let mut asked = FilterTypes::default();
    add_filter_types(filter, catalog, &mut asked);
    asked.types.sort_unstable();
    asked.types.dedup();
    asked
}

fn add_filter_types(filter: &Term, catalog: &Catalog, asked: &mut FilterTypes) {
    match filter {
        Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => {}
        Term::And(terms) | Term::Or(terms) => {
            terms.iter().for_each(|term| add_filter_types(term, catalog, asked));
        }
        Term::Not(term) => add_filter_types(term, catalog, asked),
        Term::Item(item) => {
            if is_membership(item) {
                asked.hops.push(Hops::of(item, catalog));
            }
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

/// Returns true if an entry that matches the filter and may be browsed is a result under these rights.
pub(super) fn is_found<'s>(
    state: TreeState<'s>,
    filter: &Term,
    rights: &EntryRights,
    matcher: &mut Matcher,
    candidate: &Candidate<'s>,
) -> Result<bool, OperationError> {
    let allowed = ValuesAllowed { rights, right: SEARCH };
    if allowed.may_ask(filter, state.catalog) {
        return Ok(true);
    }
    let left = allowed.left_of(filter, state.catalog);
    Ok(matcher.truth(&left, state, candidate)? == Truth::True)
}
