//! The permitted part of a filter: tests of attributes that the requester may not use become Undefined (RFC 4511
//! section 4.5.1.7).

use std::sync::Arc;

use schema::{Schema, TypeId};

use super::EntryRights;
use crate::catalog::{Catalog, Shown, VirtualAttribute};
use crate::filter::{Item, Subject, Term, Test, Truth, VisibleTest};
use crate::model::access_rule::Rights;
use crate::model::rows::AttrId;

/// Returns the type that an item tests; `None` if the item tests all types.
pub(crate) fn type_of(item: &Item, schema: &Schema) -> Option<TypeId> {
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

/// Values that the requester may use at an entry. `right` is the right to search or the right to compare.
#[derive(Clone, Copy)]
pub(crate) struct AllowedValues<'r> {
    pub(crate) rights: &'r EntryRights,
    pub(crate) right: Rights,
}

impl AllowedValues<'_> {
    fn has(self, type_id: TypeId) -> bool {
        self.rights.has(self.right, Some(type_id))
    }

    /// Returns true if the right covers all values of a type and of its subtypes.
    pub(crate) fn has_whole(self, type_id: TypeId, schema: &Schema) -> bool {
        schema.subtypes(type_id).iter().all(|subtype| self.has(*subtype))
    }

    fn may_test_item(self, item: &Item, catalog: &Catalog) -> bool {
        let schema = &*catalog.schema;
        type_of(item, schema).is_some_and(|type_id| self.has_whole(type_id, schema))
            || (matches!(item.subject, Subject::Any) && self.may_test_any(item, catalog))
    }

    /// Returns true if the right covers all types to which the item's matching rule applies. Types that no entry has
    /// count too, because otherwise the result would reveal which attributes hidden entries have. Secrets that no rule
    /// can grant do not count.
    fn may_test_any(self, item: &Item, catalog: &Catalog) -> bool {
        let (Some(rule), schema) = (item.test.rule(), &*catalog.schema) else { return false };
        let is_readable = |id: TypeId| Shown::AsRulesSay.includes(&catalog.secrets, id);
        schema
            .attribute_types()
            .iter()
            .all(|known| !schema.rule_applies(rule, known) || !is_readable(known.id) || self.has(known.id))
    }

    /// Returns true if the right covers all tests of a filter. Returns false for tests of memberships, chains of links
    /// and dynamic groups, because they depend on other entries that may be hidden.
    pub(crate) fn may_test(self, term: &Term, catalog: &Catalog) -> bool {
        match term {
            // objectClass is readable wherever the entry is visible, and structuralObjectClass reveals no more than
            // objectClass.
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => true,
            Term::And(terms) | Term::Or(terms) => terms.iter().all(|term| self.may_test(term, catalog)),
            Term::Not(term) => self.may_test(term, catalog),
            Term::Item(item) => {
                self.may_test_item(item, catalog) && !is_membership(item) && !item.counts_described
            }
        }
    }

    /// Returns the permitted part of a filter: forbidden tests become Undefined. If the right covers only some
    /// subtypes or values of a type, the test is restricted to the covered subtypes or values.
    pub(crate) fn left_of(self, term: &Term, catalog: &Catalog) -> Term {
        let all = |terms: &[Term]| terms.iter().map(|term| self.left_of(term, catalog)).collect();
        match term {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => term.clone(),
            Term::And(terms) => Term::And(all(terms)),
            Term::Or(terms) => Term::Or(all(terms)),
            Term::Not(term) => Term::Not(Box::new(self.left_of(term, catalog))),
            Term::Item(item) if self.may_test_item(item, catalog) => term.clone(),
            Term::Item(item) => {
                let type_of_number = |id: AttrId| catalog.attribute(id).description.type_id;
                let attributes = item.attributes.only(|id| self.has(type_of_number(id)));
                let is_own = type_of(item, &catalog.schema).is_some_and(|type_id| self.has(type_id));
                let is_virtual = matches!(item.subject, Subject::Virtual(_));
                let mut left = Vec::new();
                if !attributes.is_empty() || (is_own && !is_virtual) {
                    let counts_described = item.counts_described && is_own;
                    left.push(Term::Item(Item { attributes, counts_described, ..item.clone() }));
                }
                let by_value = |id| self.rights.over_values(self.right, type_of_number(id)).is_some();
                let attributes = item.attributes.only(by_value);
                if let (false, Some(view)) = (attributes.is_empty(), self.rights.by_value()) {
                    let shown =
                        VisibleTest { test: item.test.clone(), view: Arc::clone(view), right: self.right };
                    let test = Test::Visible(Box::new(shown));
                    // The item that was pushed before this item tests the values in the entry's DN, if the right
                    // covers them.
                    let (dn_attributes, counts_described) = (false, false);
                    let rest = item.clone();
                    left.push(Term::Item(Item { attributes, test, dn_attributes, counts_described, ..rest }));
                }
                // A forbidden test is Undefined, not False. Below a `not`, False would make the filter match.
                left.push(Term::Constant(Truth::Undefined));
                Term::Or(left)
            }
        }
    }
}

/// Returns true if an item tests membership of groups, or links of other entries. Some groups or links may be hidden
/// from the requester. The index may therefore list entries that do not match for this requester.
pub(crate) fn is_membership(item: &Item) -> bool {
    matches!(item.subject, Subject::Virtual(attribute) if attribute.is_membership())
        || matches!(item.test, Test::InChain(_))
}
