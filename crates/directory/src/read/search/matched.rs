//! The matched values control (RFC 3876): returns only readable values that match one of the control's filter items.
//!
//! If all items on an attribute test equality, each item costs one lookup. Thus a member of a large group is found
//! without a scan of the other members. An attribute without matching values is omitted, as in the examples of the RFC
//! and in OpenLDAP; the wording of section 2 of the RFC would return it without values.

use std::ops::ControlFlow;
use std::sync::Arc;

use ldap::response::{correct_search_entry, put_attribute_header, put_value, value_len};
use schema::{AttributeDescription, Schema, TypeId};

use super::SearchInputs;
use super::result::ResultWriter;
use crate::catalog::Catalog;
use crate::filter::{ByValue, Candidate, Item, Subject, Target, Term, Test, Truth};
use crate::model::access_rule::READ;
use crate::model::entry::{AttributeRow, Content};
use crate::model::limits::GATHERED_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{EntryId, LINKS, VALUES, link_key, value_key};
use crate::model::virtual_entries::VirtualEntry;
use crate::snapshot::name_cache::NameCache;
use crate::tree::TreeState;
use crate::tree::stored_values::for_each_value;

type Result<T> = std::result::Result<T, OperationError>;

/// Number of octets of values that cost as much to test as one candidate.
const OCTETS_PER_CANDIDATE: usize = 1_024;

/// Filter items for returned values. A value is returned if it matches one of these items.
#[derive(Clone, Debug)]
pub(super) struct MatchedValues {
    items: Vec<Arc<Term>>,
}

/// Values of an attribute to return, or the items to scan for if the values are not known yet.
pub(super) enum Passing {
    /// No values.
    None,
    All,
    /// These values, encoded.
    These(Vec<u8>),
    /// The values that match one of these items. A scan must find them.
    Some(MatchedValues),
}

impl MatchedValues {
    /// Returns the filter items for the values that a search returns. Returns `None` if the search has no such items or
    /// requests only attribute types.
    pub(super) fn of(inputs: &SearchInputs<'_>) -> Result<Option<MatchedValues>> {
        let items = inputs.controls.matched_values().filter(|_| !inputs.request.types_only);
        let Some(items) = items else { return Ok(None) };
        let state = inputs.snapshot.state();
        let compiler = inputs.rights.compiler(state.catalog);
        let items = items.iter().map(|item| {
            let mut term = compiler.compile(item.as_filter());
            term.find_targets_in(state)?;
            Ok(Arc::new(term))
        });
        Ok(Some(MatchedValues { items: items.collect::<Result<_>>()? }))
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the memory that the items use, without themselves, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.items.iter().map(|item| size_of::<Term>() + item.heap_bytes()).sum()
    }

    /// Resolves the names in the items again, on a newer snapshot.
    pub(super) fn catch_up(&mut self, state: TreeState<'_>) -> Result<()> {
        self.items.iter_mut().try_for_each(|item| Arc::make_mut(item).find_targets_in(state))
    }

    /// Returns the items on an attribute; `None` if there are none.
    fn about(&self, catalog: &Catalog, description: &AttributeDescription) -> Option<MatchedValues> {
        let items: Vec<_> =
            self.items.iter().filter(|item| is_about(item, catalog, description)).cloned().collect();
        (!items.is_empty()).then_some(MatchedValues { items })
    }

    /// Returns true if a value matches one of the items. All items must be about the attribute of the value.
    pub(super) fn pass(&self, schema: &Schema, value: &[u8], key: &mut Vec<u8>) -> bool {
        self.items.iter().any(|item| passes(item, schema, value, key))
    }

    /// Returns the matching values of a stored attribute if no scan is needed to find them, otherwise the items to scan
    /// for. `view` decides which values the requester may read.
    pub(super) fn of_stored(
        &self,
        state: TreeState<'_>,
        id: EntryId,
        row: &AttributeRow<'_>,
        view: Option<&ByValue>,
    ) -> Result<Passing> {
        let def = state.catalog.attribute(row.id);
        let Some(about) = self.about(state.catalog, &def.description) else { return Ok(Passing::None) };
        if about.items.iter().any(|item| is_presence(item)) {
            return Ok(Passing::All);
        }
        if matches!(row.content, Content::Inline(_)) {
            return Ok(Passing::Some(about));
        }
        let mut found: Vec<Vec<u8>> = Vec::new();
        for item in about.items.iter() {
            let Some(value) = find_value(item, state, id, row)? else { return Ok(Passing::Some(about)) };
            found.extend(value.filter(|value| !found.contains(value)));
        }
        let (schema, mut key) = (&state.catalog.schema, Vec::new());
        let type_id = def.description.type_id;
        let mut values = Vec::new();
        for value in found {
            if view.is_none_or(|view| view.allows(READ, type_id, schema, &value, &mut key)) {
                put_value(&mut values, &def.value_text(schema, &value));
            }
        }
        Ok(Passing::These(values))
    }

    /// Returns the matching values among the encoded values of a virtual attribute.
    pub(super) fn of_computed(&self, catalog: &Catalog, type_id: TypeId, values: &[u8]) -> Vec<u8> {
        let description = AttributeDescription::of(type_id);
        let Some(about) = self.about(catalog, &description) else { return Vec::new() };
        let (mut passing, mut key) = (Vec::new(), Vec::new());
        let mut reader = ber::Reader::new(values);
        while let Ok(value) = reader.octet_string() {
            if about.pass(&catalog.schema, value, &mut key) {
                put_value(&mut passing, value);
            }
        }
        passing
    }

    /// Returns a copy of a virtual entry with only the matching values.
    pub(super) fn of_virtual(&self, catalog: &Catalog, entry: &VirtualEntry) -> VirtualEntry {
        let mut key = Vec::new();
        let mut left = VirtualEntry::new(entry.dn.clone());
        for (name, values) in &entry.attributes {
            let Ok(description) = catalog.schema.parse_description(name) else { continue };
            let Some(about) = self.about(catalog, &description) else { continue };
            let passing = values.iter().filter(|value| about.pass(&catalog.schema, value, &mut key)).cloned();
            left = left.with(name, passing);
        }
        left
    }

    /// Does the same as [`ResultWriter::put_entry`], but writes only the matching values. Returns the cost as a number
    /// of candidates. If there is too much to examine at once, returns `None` and appends nothing.
    pub(super) fn put_entry<'s>(
        &self,
        writer: &mut ResultWriter,
        out: &mut Vec<u8>,
        state: TreeState<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
    ) -> Result<Option<u32>> {
        let start = out.len();
        let head = writer.put_head(out, state, names, candidate, 0)?;
        let Some(looked_at) = self.put_attributes(writer, out, state, candidate)? else {
            out.truncate(start);
            return Ok(None);
        };
        let attributes_len = out.len() - head.end;
        if attributes_len > 0 {
            correct_search_entry(out, start, writer.id, head.lens, attributes_len);
        }
        Ok(Some(u32::try_from(looked_at / OCTETS_PER_CANDIDATE).unwrap_or(u32::MAX)))
    }

    /// Appends the attributes. Returns the number of octets of values examined, each value counted once for each item.
    /// Returns `None` if that number is too large.
    fn put_attributes<'s>(
        &self,
        writer: &mut ResultWriter,
        out: &mut Vec<u8>,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<Option<usize>> {
        let (schema, mut key) = (&state.catalog.schema, Vec::new());
        let mut looked_at = 0;
        if writer.selection.selects_stored() {
            for row in candidate.entry(state)?.attributes() {
                if !writer.selection.decide_any(state.catalog, row.id) {
                    continue;
                }
                let def = state.catalog.attribute(row.id);
                let type_id = def.description.type_id;
                let view = writer.selection.over_values(type_id);
                let items = match self.of_stored(state, candidate.id, &row, view.map(Arc::as_ref))? {
                    Passing::None => continue,
                    Passing::These(values) => {
                        put_attribute(out, &def.name, &values);
                        continue;
                    }
                    Passing::All => None,
                    Passing::Some(items) => Some(items),
                };
                let (mut values, item_count) = (Vec::new(), items.as_ref().map_or(1, MatchedValues::len));
                for_each_value(state, candidate.id, &row, &mut |value| {
                    looked_at += value_len(value.len()) * item_count;
                    if view.is_none_or(|view| view.allows(READ, type_id, schema, value, &mut key))
                        && items.as_ref().is_none_or(|items| items.pass(schema, value, &mut key))
                    {
                        put_value(&mut values, &def.value_text(schema, value));
                    }
                    if looked_at > GATHERED_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                if looked_at > GATHERED_MAX {
                    return Ok(None);
                }
                put_attribute(out, &def.name, &values);
            }
        }
        for (name, values) in writer.others(state, candidate)? {
            put_attribute(out, &name, &values);
        }
        for (type_id, values) in writer.virtual_values(state, candidate)? {
            put_attribute(
                out,
                schema.type_by_id(type_id).name(),
                &self.of_computed(state.catalog, type_id, &values),
            );
        }
        Ok(Some(looked_at))
    }
}

fn put_attribute(out: &mut Vec<u8>, name: &str, values: &[u8]) {
    if !values.is_empty() {
        put_attribute_header(out, name, values.len());
        out.extend_from_slice(values);
    }
}

/// Returns true if an item tests the values of an attribute.
fn is_about(item: &Term, catalog: &Catalog, description: &AttributeDescription) -> bool {
    let facts = catalog.type_facts(description.type_id);
    match item {
        // A presence test of objectClass is compiled to this constant, because every entry has objectClass.
        Term::Constant(truth) => *truth == Truth::True && facts.is_object_class,
        Term::Class(_) => facts.is_object_class,
        Term::StructuralClass(_) => {
            facts.virtual_attribute == Some(crate::catalog::VirtualAttribute::StructuralObjectClass)
        }
        Term::Item(Item { subject: Subject::Attribute(asked), .. }) => {
            description.is_subtype_of(&catalog.schema, asked)
        }
        Term::Item(Item { subject: Subject::Virtual(asked), .. }) => facts.virtual_attribute == Some(*asked),
        Term::Item(Item { subject: Subject::Any, test, .. }) => test.rule().is_some_and(|rule| {
            catalog.schema.rule_applies(rule, catalog.schema.type_by_id(description.type_id))
        }),
        Term::And(_) | Term::Or(_) | Term::Not(_) => false,
    }
}

fn is_presence(item: &Term) -> bool {
    matches!(item, Term::Constant(_) | Term::Item(Item { test: Test::Present, .. }))
}

/// Returns true if a value of the item's attribute matches the item.
fn passes(item: &Term, schema: &Schema, value: &[u8], key: &mut Vec<u8>) -> bool {
    match item {
        Term::Constant(truth) => *truth == Truth::True,
        Term::Class(class) | Term::StructuralClass(class) => {
            let named = std::str::from_utf8(value).ok().and_then(|name| schema.object_class(name.trim()));
            named.is_some_and(|named| named.id == *class)
        }
        Term::Item(item) => item.test.passes(schema, value, key),
        Term::And(_) | Term::Or(_) | Term::Not(_) => false,
    }
}

/// Looks up the value that an item tests for, in an attribute with values in separate rows. Returns `Some(None)` if the
/// attribute lacks the value, and `None` if the values must be scanned.
fn find_value(
    item: &Term,
    state: TreeState<'_>,
    id: EntryId,
    row: &AttributeRow<'_>,
) -> Result<Option<Option<Vec<u8>>>> {
    let Term::Item(Item { test: Test::Equal(rule, key), target, .. }) = item else { return Ok(None) };
    if let (Content::Links, Some(Target { entry: Some(target), .. })) = (row.content, target.as_deref())
        && state.read.contains_id(LINKS, &link_key(id, row.id), target.0)?
    {
        return Ok(Some(state.dn(*target)?.map(String::into_bytes)));
    }
    if !state.catalog.attribute(row.id).equality.is_some_and(|own| own.shares_key_with(*rule)) {
        return Ok(None);
    }
    Ok(Some(state.read.get(VALUES, &value_key(id, row.id, key))?.map(<[u8]>::to_vec)))
}
