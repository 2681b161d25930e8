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
use crate::catalog::{Catalog, Shown, VirtualAttribute};
use crate::filter::{Candidate, Item, Matcher, Subject, Term, Test, Truth, VisibleTest};
use crate::model::access_rule::{Rights, SEARCH};
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
        let Some(rights) = self.rights(state, candidate)? else { return Ok(false) };
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

    /// Whether the asker may see an entry, which need not be a result. Then the writer writes what of it may be read.
    pub(super) fn shows(
        &mut self,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
        writer: &mut ResultWriter,
    ) -> Result<bool, OperationError> {
        let rights = self.rights(state, candidate)?;
        let is_shown = rights.is_some();
        writer.selection.rights = rights;
        Ok(is_shown)
    }

    /// The rights at an entry that the asker may see.
    #[inline]
    fn rights(
        &mut self,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<Option<Arc<EntryRights>>, OperationError> {
        let rights = self.standing.at(state, &mut self.walk, candidate.id, candidate.node.parent)?;
        Ok(rights.may_browse().then_some(rights))
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

/// What may be done with values, by a right over them: searched, or compared.
#[derive(Clone, Copy)]
pub(crate) struct ValuesAllowed<'r> {
    pub(crate) rights: &'r EntryRights,
    pub(crate) right: Rights,
}

impl ValuesAllowed<'_> {
    fn has(self, type_id: TypeId) -> bool {
        self.rights.has(self.right, Some(type_id))
    }

    /// Whether values of a type, and of all its subtypes, may be asked for.
    pub(crate) fn has_whole(self, type_id: TypeId, schema: &Schema) -> bool {
        schema.subtypes(type_id).iter().all(|subtype| self.has(*subtype))
    }

    fn may_ask_item(self, item: &Item, catalog: &Catalog) -> bool {
        let schema = &*catalog.schema;
        type_of(item, schema).is_some_and(|type_id| self.has_whole(type_id, schema))
            || (matches!(item.subject, Subject::Any) && self.may_ask_any(item, catalog))
    }

    /// Whether all types may be asked for that a rule applies to: not just those that some entry has, which would tell
    /// what hidden entries have. Secrets that rules give nobody are not asked for at all.
    fn may_ask_any(self, item: &Item, catalog: &Catalog) -> bool {
        let (Some(rule), schema) = (item.test.rule(), &*catalog.schema) else { return false };
        let asked = |id: TypeId| Shown::AsRulesSay.includes(&catalog.secrets, id);
        schema
            .attribute_types()
            .iter()
            .all(|known| !schema.rule_applies(rule, known) || !asked(known.id) || self.has(known.id))
    }

    /// Whether all that a filter asks for may be asked for.
    fn may_ask(self, term: &Term, catalog: &Catalog) -> bool {
        match term {
            // objectClass goes with the entry, and what it tells is what structuralObjectClass does.
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => true,
            Term::And(terms) | Term::Or(terms) => terms.iter().all(|term| self.may_ask(term, catalog)),
            Term::Not(term) => self.may_ask(term, catalog),
            Term::Item(item) => self.may_ask_item(item, catalog) && !is_membership(item),
        }
    }

    /// What is left of a filter: what may not be asked for is Undefined. Of a type of which only some subtypes or
    /// values may be, these are left.
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
                    // The values of the entry's name are for the item before, if for any.
                    let dn_attributes = false;
                    left.push(Term::Item(Item { attributes, test, dn_attributes, ..item.clone() }));
                }
                // Whether what may not be asked for would match is not known: behind a `not` this matters.
                left.push(Term::Constant(Truth::Undefined));
                Term::Or(left)
            }
        }
    }
}

/// Whether an item is about groups, of which some may not show: what the index says of it may be more.
fn is_membership(item: &Item) -> bool {
    matches!(item.subject, Subject::Virtual(attribute) if attribute.is_membership())
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
    let allowed = ValuesAllowed { rights, right: SEARCH };
    if allowed.may_ask(filter, state.catalog) {
        return Ok(true);
    }
    let left = allowed.left_of(filter, state.catalog);
    Ok(matcher.truth(&left, state, candidate)? == Truth::True)
}
