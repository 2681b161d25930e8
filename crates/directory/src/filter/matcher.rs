//! Evaluates filters on entries (RFC 4511 section 4.5.1.7).
//!
//! A [`Candidate`] reads the entry row only if a test needs values. Class tests read only the node row.

pub(crate) mod described;

use std::cell::{Cell, OnceCell};
use std::ops::ControlFlow;

use schema::{AttributeDescription, Schema};

use super::chain::Chains;
use super::memberships::GroupsOf;
use super::{Item, Subject, Target, Term, Test, Truth, VisibleTest};
use crate::catalog::{Catalog, Shown, VirtualAttribute};
use crate::model::collective::CollectiveSubentries;
use crate::model::entry::{AttributeRow, Content, EntryRow, InlineValues};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, LINKS, NodeRow, VALUES, link_key, value_key};
use crate::tree::collective::merged_row;
use crate::tree::operational::member_attributes;
use crate::tree::stored_values::{for_each_value, whole_value};
use crate::tree::{TreeState, damaged_row, dn_of, entry_row, node};
use described::{Described, describing_groups, for_each_stored, for_each_visible, is_in_a_group};

/// An entry that may match.
pub(crate) struct Candidate<'s> {
    pub(crate) id: EntryId,
    pub(crate) node: NodeRow<'s>,
    entry: Cell<Option<EntryRow<'s>>>,
    /// The entry row merged with collective attributes; an empty box if the entry has no collective attributes.
    merged: OnceCell<Box<[u8]>>,
}

impl<'s> Candidate<'s> {
    /// Returns a candidate that reads its entry row when needed.
    pub(crate) fn new(id: EntryId, node: NodeRow<'s>) -> Candidate<'s> {
        Candidate { id, node, entry: Cell::new(None), merged: OnceCell::new() }
    }

    /// Returns a candidate whose entry row is already read.
    pub(crate) fn with_entry(id: EntryId, node: NodeRow<'s>, entry: EntryRow<'s>) -> Candidate<'s> {
        Candidate { id, node, entry: Cell::new(Some(entry)), merged: OnceCell::new() }
    }

    /// Returns the entry's attributes, including its collective attributes if `state` has any. All calls must use the
    /// same snapshot.
    pub(crate) fn entry(&self, state: TreeState<'s>) -> Result<EntryRow<'_>, OperationError> {
        let entry = self.stored(state)?;
        match state.collective {
            None => Ok(entry),
            Some(subentries) => self.with_collective(state, subentries, entry),
        }
    }

    #[cold]
    fn with_collective(
        &self,
        state: TreeState<'s>,
        subentries: &CollectiveSubentries,
        entry: EntryRow<'s>,
    ) -> Result<EntryRow<'_>, OperationError> {
        if self.merged.get().is_none() {
            let merged = merged_row(state, subentries, (self.id, &self.node), &entry)?;
            let _ = self.merged.set(merged.unwrap_or_default().into_boxed_slice());
        }
        match self.merged.get().filter(|merged| !merged.is_empty()) {
            Some(merged) => EntryRow::unchecked(merged).ok_or_else(|| damaged_row("entries", self.id)),
            None => Ok(entry),
        }
    }

    /// Returns the attributes that are stored in the entry.
    fn stored(&self, state: TreeState<'s>) -> Result<EntryRow<'s>, OperationError> {
        if let Some(entry) = self.entry.get() {
            return Ok(entry);
        }
        let entry = entry_row(state.read, self.id)?;
        self.entry.set(Some(entry));
        Ok(entry)
    }
}

/// Evaluates filters on entries, with reusable buffers.
pub(crate) struct Matcher {
    /// Secrecy of the types that may be tested. Only items with `:dn:` and a matching rule, but no attribute, use
    /// this field.
    shown: Shown,
    /// The requester's view of groups; `None` if no groups are hidden from the requester.
    visible_groups: Option<GroupsOf>,
    /// Whether the filter comes from the URL of a dynamic group. In such a filter, only stored members count as members
    /// of a group.
    is_of_member_url: bool,
    /// State of the chains of links that were followed; `None` before the first chain.
    chains: Option<Box<Chains>>,
    key: Vec<u8>,
}

impl Matcher {
    /// Returns the heap memory that the matcher uses, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let chains = self.chains.as_ref().map_or(0, |chains| size_of::<Chains>() + chains.heap_bytes());
        self.key.capacity() + chains
    }

    pub(crate) fn new(shown: Shown) -> Matcher {
        Matcher { shown, visible_groups: None, is_of_member_url: false, chains: None, key: Vec::new() }
    }

    /// Returns a matcher for a requester whose access rules may hide groups.
    pub(crate) fn under(shown: Shown, visible_groups: Option<GroupsOf>) -> Matcher {
        Matcher { visible_groups, ..Matcher::new(shown) }
    }

    /// Returns a matcher for the filter of a dynamic group.
    pub(super) fn of_member_url(visible_groups: Option<GroupsOf>) -> Matcher {
        Matcher { is_of_member_url: true, ..Matcher::under(Shown::Plain, visible_groups) }
    }

    /// Drops cached state. Call it when the snapshot changes.
    pub(crate) fn forget(&mut self) {
        self.chains = None;
    }

    /// Returns the cost of following chains since the last call, as a number of links read.
    #[inline]
    pub(crate) fn take_cost(&mut self) -> u64 {
        self.chains.as_mut().map_or(0, |chains| chains.take_cost())
    }

    /// Evaluates the filter on an entry. All calls between two calls of [`forget`](Matcher::forget) must use the same
    /// snapshot.
    pub(crate) fn truth<'s>(
        &mut self,
        term: &Term,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<Truth, OperationError> {
        Ok(match term {
            Term::Constant(truth) => *truth,
            Term::And(terms) => {
                let mut all = Truth::True;
                for term in terms {
                    all = all.min(self.truth(term, state, candidate)?);
                    if all == Truth::False {
                        break;
                    }
                }
                all
            }
            Term::Or(terms) => {
                let mut any = Truth::False;
                for term in terms {
                    any = any.max(self.truth(term, state, candidate)?);
                    if any == Truth::True {
                        break;
                    }
                }
                any
            }
            Term::Not(term) => !self.truth(term, state, candidate)?,
            Term::Class(class) => {
                state.catalog.class_set(candidate.node.class_set).closure.contains(class).into()
            }
            Term::StructuralClass(class) => {
                (state.catalog.class_set(candidate.node.class_set).structural == Some(*class)).into()
            }
            Term::Item(item) => self.item_passes(item, state, candidate)?.into(),
        })
    }

    fn item_passes<'s>(
        &mut self,
        item: &Item,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        let passes = match item.subject {
            Subject::Virtual(attribute) => self.virtual_passes(attribute, item, state, candidate)?,
            Subject::Attribute(_) | Subject::Any => self.stored_passes(item, state, candidate)?,
        };
        Ok(passes || (item.dn_attributes && self.dn_passes(item, state, candidate)?))
    }

    fn stored_passes<'s>(
        &mut self,
        item: &Item,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        if !item.attributes.is_empty() {
            let mut attributes = candidate.entry(state)?.attributes();
            while let Some(row) = attributes.next_of(&item.attributes) {
                if self.row_passes(item, state, candidate.id, &row)? {
                    return Ok(true);
                }
            }
        }
        Ok(item.counts_described && self.describes(item, state, candidate.id)?)
    }

    /// Returns true if an entry is a dynamic group that describes the asserted entry. For a test of chains, also
    /// returns true if a chain leads from the entry to such a group.
    #[cold]
    #[inline(never)]
    fn describes(&mut self, item: &Item, state: TreeState<'_>, id: EntryId) -> Result<bool, OperationError> {
        let Some(member) = item.target.as_ref().and_then(|target| target.entry) else { return Ok(false) };
        if matches!(item.test, Test::InChain(_)) {
            return self.in_chain(item, state, id);
        }
        let Some(group) = state.catalog.dynamic_groups.of(id) else { return Ok(false) };
        self.chains.get_or_insert_default().add_cost(1);
        let Some(row) = node(state.read, member)? else { return Ok(false) };
        Described::new(state, (member, &row), self.visible_groups.as_ref()).by(group)
    }

    fn row_passes(
        &mut self,
        item: &Item,
        state: TreeState<'_>,
        id: EntryId,
        row: &AttributeRow<'_>,
    ) -> Result<bool, OperationError> {
        let schema = &state.catalog.schema;
        match (row.content, &item.test) {
            (_, Test::Visible(shown)) => self.visible_passes(shown, state, id, row),
            (_, Test::InChain(_)) => self.in_chain(item, state, id),
            // Every stored attribute has at least one value.
            (_, Test::Present) => Ok(true),
            (Content::Inline(values), test) => {
                if let Some(mut values) = values.octet_strings() {
                    return Ok(values.any(|value| test.passes(schema, value, &mut self.key)));
                }
                self.others_pass(test, state, (id, row.id), values)
            }
            (Content::Table, Test::Equal(rule, key))
                if state.catalog.attribute(row.id).equality.is_some_and(|own| own.shares_key_with(*rule)) =>
            {
                Ok(state.read.get(VALUES, &value_key(id, row.id, key))?.is_some())
            }
            (Content::Links, Test::Equal(_, key)) => {
                if let Some(Target { entry: Some(target), .. }) = item.target.as_deref()
                    && state.read.contains_id(LINKS, &link_key(id, row.id), target.0)?
                {
                    return Ok(true);
                }
                // Values stored as text are tested only if the asserted name has a normal form. An asserted name
                // without a normal form is the DN of an existing entry, and values with such a DN are stored as links,
                // never as text.
                let may_be_text = item.target.as_ref().is_none_or(|target| target.name.is_some());
                Ok(may_be_text && state.read.get(VALUES, &value_key(id, row.id, key))?.is_some())
            }
            (Content::Table | Content::Links, test) => {
                self.compare_names(test, state, id, row)?;
                let key = &mut self.key;
                let mut passes = false;
                for_each_value(state, id, row, &mut |value| {
                    passes = test.passes(schema, value, key);
                    if passes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                Ok(passes)
            }
        }
    }

    /// Counts the links of a row as read, if the test compares the positions of the link targets in the tree. These
    /// links count because an entry may have millions of them.
    fn compare_names(
        &mut self,
        test: &Test,
        state: TreeState<'_>,
        id: EntryId,
        row: &AttributeRow<'_>,
    ) -> Result<(), OperationError> {
        let Some(rule) = test.rule().filter(|rule| rule.relates_names()) else { return Ok(()) };
        if !matches!(row.content, Content::Links) {
            return Ok(());
        }
        let count = state.read.ids(LINKS, &link_key(id, row.id))?.estimate();
        self.chains.get_or_insert_default().compare_names(id, count, rule.name())
    }

    /// Returns true if a packed value, or a value outside the row, passes the test.
    #[cold]
    fn others_pass(
        &mut self,
        test: &Test,
        state: TreeState<'_>,
        (id, attribute): (EntryId, AttrId),
        values: InlineValues<'_>,
    ) -> Result<bool, OperationError> {
        for value in values.iter() {
            let value = whole_value(state.read, id, attribute, &value)?;
            if test.passes(&state.catalog.schema, value, &mut self.key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    #[cold]
    fn in_chain(&mut self, item: &Item, state: TreeState<'_>, id: EntryId) -> Result<bool, OperationError> {
        let visible_groups = self.visible_groups.as_ref();
        let describing = || {
            let target = item.target.as_ref().and_then(|target| target.entry);
            let Some(target) = target else { return Ok(Vec::new()) };
            match node(state.read, target)? {
                Some(row) => describing_groups(state, (target, &row), visible_groups),
                None => Ok(Vec::new()),
            }
        };
        self.chains.get_or_insert_default().lead(item, state, visible_groups, id, &describing)
    }

    /// Does the same as `row_passes`, but considers only values that the requester may use.
    #[cold]
    fn visible_passes(
        &mut self,
        shown: &VisibleTest,
        state: TreeState<'_>,
        id: EntryId,
        row: &AttributeRow<'_>,
    ) -> Result<bool, OperationError> {
        let (schema, def) = (&state.catalog.schema, state.catalog.attribute(row.id));
        let type_id = def.description.type_id;
        self.compare_names(&shown.test, state, id, row)?;
        let buffer = &mut self.key;
        if let (Content::Table, Test::Equal(rule, key)) = (row.content, &shown.test)
            && def.equality.is_some_and(|own| own.shares_key_with(*rule))
        {
            let value = state.read.get(VALUES, &value_key(id, row.id, key))?;
            return Ok(value.is_some_and(|value| shown.passes(type_id, schema, value, buffer)));
        }
        let mut passes = false;
        for_each_value(state, id, row, &mut |value| {
            passes = shown.passes(type_id, schema, value, buffer);
            if passes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(passes)
    }

    fn virtual_passes<'s>(
        &mut self,
        attribute: VirtualAttribute,
        item: &Item,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        let id = candidate.id;
        if attribute.is_only_returned() {
            return Ok(false);
        }
        if attribute.is_end() {
            return self.end_passes(attribute, &item.test, state, candidate);
        }
        if matches!(item.test, Test::InChain(_)) {
            return self.leads_to_group(item, state, candidate);
        }
        let with_described = !self.is_of_member_url && !state.catalog.dynamic_groups.is_empty();
        match (&item.test, &item.target) {
            (Test::Present, _) if attribute.is_membership() => {
                is_in_a_group(state, (id, &candidate.node), self.visible_groups.as_ref(), with_described)
            }
            (Test::Present, _) => attribute.is_present(state, id, &candidate.node),
            (Test::Equal(..), Some(_)) if attribute.is_nested(state) => {
                self.leads_to_group(item, state, candidate)
            }
            (Test::Equal(..), Some(target)) if attribute.is_membership() => {
                let Some(group) = target.entry else { return Ok(false) };
                for member in member_attributes(state.catalog) {
                    if state.read.contains_id(LINKS, &link_key(group, member), id.0)?
                        && self
                            .visible_groups
                            .as_ref()
                            .map_or(Ok(true), |visible_groups| visible_groups.shows(state, group, member))?
                    {
                        return Ok(true);
                    }
                }
                Ok(with_described && self.is_described(state, candidate, |_, other| Ok(other == group))?)
            }
            (Test::Equal(..), Some(target)) => Ok(target.entry == Some(id)),
            (test, _) => {
                let mut key = std::mem::take(&mut self.key);
                let mut passes = false;
                let mut each = |value: &[u8]| {
                    passes = test.passes(&state.catalog.schema, value, &mut key);
                    if passes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                let visible_groups = self.visible_groups.as_ref();
                if attribute.is_membership() && !with_described {
                    for_each_stored(state, attribute, visible_groups, (id, &[]), &mut each)?;
                } else {
                    for_each_visible(state, attribute, visible_groups, (id, &candidate.node), &mut each)?;
                }
                self.key = key;
                Ok(passes)
            }
        }
    }

    /// Returns true if the end (expiration time) of a visible link passes a test.
    #[cold]
    fn end_passes(
        &mut self,
        attribute: VirtualAttribute,
        test: &Test,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<bool, OperationError> {
        let (is_of_times, key) = (test.is_of_times(), &mut self.key);
        let mut passes = false;
        let mut each = |value: &[u8]| {
            let time = value.split(|octet| *octet == b' ').next().filter(|_| is_of_times);
            passes = test.passes(&state.catalog.schema, time.unwrap_or(value), key);
            if passes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        for_each_visible(
            state,
            attribute,
            self.visible_groups.as_ref(),
            (candidate.id, &candidate.node),
            &mut each,
        )?;
        Ok(passes)
    }

    /// Returns true if a chain of groups leads from an entry to the asserted group.
    fn leads_to_group<'s>(
        &mut self,
        item: &Item,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        if self.in_chain(item, state, candidate.id)? {
            return Ok(true);
        }
        let target = item.target.as_ref().and_then(|target| target.entry);
        if self.is_of_member_url || state.catalog.dynamic_groups.is_empty() || target.is_none() {
            return Ok(false);
        }
        self.is_described(state, candidate, |matcher, group| {
            Ok(Some(group) == target || matcher.in_chain(item, state, group)?)
        })
    }

    /// Returns true if a dynamic group describes the entry and `counts` accepts the group.
    #[cold]
    fn is_described<'s>(
        &mut self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
        mut counts: impl FnMut(&mut Matcher, EntryId) -> Result<bool, OperationError>,
    ) -> Result<bool, OperationError> {
        self.chains.get_or_insert_default().add_cost(state.catalog.dynamic_groups.len());
        let visible_groups = self.visible_groups.clone();
        let mut described = Described::new(state, (candidate.id, &candidate.node), visible_groups.as_ref());
        for group in state.catalog.dynamic_groups.iter() {
            if counts(self, group.id)? && described.by(group)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a value in the entry's DN passes the test of an item with `:dn:`.
    fn dn_passes(
        &mut self,
        item: &Item,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<bool, OperationError> {
        match dn_of(state.read, candidate.id)? {
            Some(dn) => Ok(self.dn_text_passes(item, state.catalog, &dn)),
            None => Ok(false),
        }
    }

    fn dn_text_passes(&mut self, item: &Item, catalog: &Catalog, dn: &str) -> bool {
        let schema = &*catalog.schema;
        let Ok(dn) = ldap::Dn::parse(dn) else { return false };
        let counts = |name: &str| {
            let Some(attribute_type) = schema.attribute_type(name) else { return false };
            match &item.subject {
                // Values in a DN have no options.
                Subject::Attribute(requested) => {
                    AttributeDescription::of(attribute_type.id).is_subtype_of(schema, requested)
                }
                Subject::Any => {
                    item.test.rule().is_some_and(|rule| schema.rule_applies(rule, attribute_type))
                        && self.shown.includes(&catalog.secrets, attribute_type.id)
                }
                Subject::Virtual(_) => false,
            }
        };
        let values = dn.rdns().flat_map(|rdn| rdn.avas).filter(|ava| counts(ava.attribute));
        let values: Vec<_> = values.map(|ava| ava.value.as_ref()).collect();
        values.into_iter().any(|value| item.test.passes(schema, value, &mut self.key))
    }

    /// Evaluates the filter on a virtual entry.
    pub(crate) fn truth_in_memory(&mut self, term: &Term, catalog: &Catalog, entry: &InMemory<'_>) -> Truth {
        let schema = &*catalog.schema;
        match term {
            Term::Constant(truth) => *truth,
            Term::And(terms) => {
                let truths = terms.iter().map(|term| self.truth_in_memory(term, catalog, entry));
                truths.min().unwrap_or(Truth::True)
            }
            Term::Or(terms) => {
                let truths = terms.iter().map(|term| self.truth_in_memory(term, catalog, entry));
                truths.max().unwrap_or(Truth::False)
            }
            Term::Not(term) => !self.truth_in_memory(term, catalog, entry),
            Term::Class(class) => {
                let mut named =
                    entry.values_of(schema, "2.5.4.0").filter_map(|name| schema.object_class(name));
                named.any(|named| named.is_subclass_of(*class)).into()
            }
            Term::StructuralClass(class) => {
                let mut named =
                    entry.values_of(schema, "2.5.21.9").filter_map(|name| schema.object_class(name));
                named.any(|named| named.id == *class).into()
            }
            // No links lead to or from a virtual entry.
            Term::Item(Item { test: Test::InChain(_), .. }) => Truth::Undefined,
            Term::Item(item) => {
                let passes = entry.attributes.iter().any(|(description, values)| {
                    in_memory_subject(item, schema, description)
                        && (matches!(item.test, Test::Present)
                            || values.iter().any(|value| item.test.passes(schema, value, &mut self.key)))
                });
                (passes || (item.dn_attributes && self.dn_text_passes(item, catalog, entry.dn))).into()
            }
        }
    }
}

impl Term {
    /// Returns true if the term tests values of the attribute when the term is evaluated on a virtual entry.
    pub(crate) fn tests(&self, schema: &Schema, description: &AttributeDescription) -> bool {
        match self {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => false,
            Term::And(terms) | Term::Or(terms) => terms.iter().any(|term| term.tests(schema, description)),
            Term::Not(term) => term.tests(schema, description),
            Term::Item(item) => in_memory_subject(item, schema, description),
        }
    }

    /// Appends to `found` the asserted names that the term compares with values of the attribute when it is evaluated
    /// on an entry outside the tree. Returns false if the term also contains a test of these values that is not an
    /// equality test.
    pub(crate) fn compared_names<'t>(
        &'t self,
        schema: &Schema,
        description: &AttributeDescription,
        found: &mut Vec<&'t Target>,
    ) -> bool {
        match self {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => true,
            Term::And(terms) | Term::Or(terms) => {
                terms.iter().all(|term| term.compared_names(schema, description, found))
            }
            Term::Not(term) => term.compared_names(schema, description, found),
            Term::Item(item) if !in_memory_subject(item, schema, description) => true,
            Term::Item(Item { test: Test::Equal(..), target: Some(target), .. }) => {
                found.push(target);
                true
            }
            Term::Item(_) => false,
        }
    }
}

/// An entry that is not in the tree, with resolved attribute descriptions: a virtual entry, or an entry to be added.
pub(crate) struct InMemory<'e> {
    pub(crate) dn: &'e str,
    pub(crate) attributes: Vec<(AttributeDescription, &'e [Vec<u8>])>,
}

impl<'e> InMemory<'e> {
    fn values_of(&self, schema: &'e Schema, oid: &'static str) -> impl Iterator<Item = &'e str> {
        let of_type = self
            .attributes
            .iter()
            .filter(move |(description, _)| schema.type_by_id(description.type_id).oid == oid);
        of_type.flat_map(|(_, values)| values.iter()).filter_map(|value| std::str::from_utf8(value).ok())
    }
}

fn in_memory_subject(item: &Item, schema: &Schema, description: &AttributeDescription) -> bool {
    let attribute_type = schema.type_by_id(description.type_id);
    match &item.subject {
        Subject::Attribute(requested) => description.is_subtype_of(schema, requested),
        Subject::Virtual(attribute) => VirtualAttribute::of(attribute_type) == Some(*attribute),
        Subject::Any => item.test.rule().is_some_and(|rule| schema.rule_applies(rule, attribute_type)),
    }
}
