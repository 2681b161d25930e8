//! Search results as bytes (RFC 4511 section 4.5.2): sizes first, then headers and copies, each byte written once.
//!
//! Inline values are stored as they go out. Values that have to be fetched or made are gathered in a buffer in the first
//! pass, which learns the sizes, and copied from there in the second. There is a bound to that: see [`super::stream`].

use std::ops::ControlFlow;

use ldap::MessageId;
use ldap::response::{
    SearchEntryLens, attribute_len, put_attribute_header, put_attributes_header, put_search_entry_header,
    put_value, value_len,
};
use schema::AttributeDescription;

use super::evaluate::{Candidate, for_each_value};
use super::selection::Selection;
use crate::OperationError;
use crate::entry::{AttributeRow, Content, EntryRow, InlineValues};
use crate::limits::GATHERED_MAX;
use crate::name_cache::NameCache;
use crate::rows::{AttrId, EntryId, LINKS, link_key};
use crate::stored_values::table_values;
use crate::tree::{State, damaged_row, node};
use crate::virtual_entries::VirtualEntry;

/// Writes results; keeps the buffers for it.
#[derive(Debug)]
pub(crate) struct ResultWriter {
    pub(crate) id: MessageId,
    pub(crate) types_only: bool,
    pub(crate) selection: Selection,
    /// Encoded values that are not copied from the entry row.
    gathered: Vec<u8>,
    /// Where those of each attribute end in `gathered`; an attribute without values adds none.
    ends: Vec<usize>,
}

impl ResultWriter {
    pub(crate) fn new(id: MessageId, types_only: bool, selection: Selection) -> ResultWriter {
        ResultWriter { id, types_only, selection, gathered: Vec::new(), ends: Vec::new() }
    }

    /// Another one that writes the same, with buffers of its own.
    pub(crate) fn copy(&self) -> ResultWriter {
        ResultWriter::new(self.id, self.types_only, self.selection.clone())
    }

    /// Appends the message of an entry of the tree. False, and nothing appended, for one with more values than are gathered
    /// in memory ([`GATHERED_MAX`]).
    pub(crate) fn put_entry<'s>(
        &mut self,
        out: &mut Vec<u8>,
        state: State<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        let row = if self.selection.selects_stored() { Some(candidate.entry(state)?) } else { None };
        let attributes_len = match row {
            None if self.selection.made.is_empty() => 0,
            row => match self.gather(state, names, candidate, row)? {
                Some(attributes_len) => attributes_len,
                None => return Ok(false),
            },
        };
        let container = names.container(state, candidate.node.parent)?;
        let above = names.dn(container);
        let rdn = candidate.node.rdn.as_bytes();
        let dn_len = rdn.len() + if above.is_empty() { 0 } else { 1 + above.len() };
        let lens = SearchEntryLens { dn_len, attributes_len, controls_len: 0 };
        put_search_entry_header(out, self.id, lens);
        out.extend_from_slice(rdn);
        if !above.is_empty() {
            out.push(b',');
            out.extend_from_slice(above);
        }
        put_attributes_header(out, attributes_len);
        if attributes_len > 0 {
            self.put_attributes(out, state, row);
        }
        Ok(true)
    }

    /// First pass: gathers values and adds up sizes. `None` if there are too many.
    fn gather<'s>(
        &mut self,
        state: State<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
        row: Option<EntryRow<'s>>,
    ) -> Result<Option<usize>, OperationError> {
        self.gathered.clear();
        self.ends.clear();
        let mut attributes_len = 0;
        for attribute in row.iter().flat_map(EntryRow::attributes) {
            if !self.selection.decide(state.catalog, attribute.id) {
                continue;
            }
            let name = &state.catalog.attribute(attribute.id).name;
            let values_len = match copied(&attribute) {
                _ if self.types_only => 0,
                Some(values) => values.bytes.len(),
                None => {
                    let start = self.gathered.len();
                    gather_values(state, names, candidate.id, &attribute, &mut self.gathered)?;
                    if self.gathered.len() > GATHERED_MAX {
                        self.gathered = Vec::new();
                        return Ok(None);
                    }
                    self.ends.push(self.gathered.len());
                    self.gathered.len() - start
                }
            };
            attributes_len += attribute_len(name.len(), values_len);
        }
        for (attribute, type_id) in &self.selection.made {
            let start = self.gathered.len();
            let gathered = &mut self.gathered;
            attribute.for_each_value(state, candidate.id, &candidate.node, &mut |value| {
                put_value(gathered, value);
                ControlFlow::Continue(())
            })?;
            let mut values_len = self.gathered.len() - start;
            self.ends.push(self.gathered.len());
            if values_len > 0 {
                let name = state.catalog.schema.type_by_id(*type_id).name();
                if self.types_only {
                    values_len = 0;
                }
                attributes_len += attribute_len(name.len(), values_len);
            }
        }
        Ok(Some(attributes_len))
    }

    /// Second pass: writes what the first has sized, in the same order.
    fn put_attributes(&self, out: &mut Vec<u8>, state: State<'_>, row: Option<EntryRow<'_>>) {
        let mut start = 0;
        let mut ends = self.ends.iter();
        let mut next = || {
            let end = ends.next().copied().unwrap_or(start);
            let piece = &self.gathered[start..end];
            start = end;
            piece
        };
        for attribute in row.iter().flat_map(EntryRow::attributes) {
            if !self.selection.selects_number(attribute.id) {
                continue;
            }
            let name = &state.catalog.attribute(attribute.id).name;
            let values = match copied(&attribute) {
                _ if self.types_only => &[],
                Some(values) => values.bytes,
                None => next(),
            };
            put_attribute_header(out, name, values.len());
            out.extend_from_slice(values);
        }
        for (_, type_id) in &self.selection.made {
            let values = next();
            if !values.is_empty() {
                let name = state.catalog.schema.type_by_id(*type_id).name();
                let values = if self.types_only { &[] } else { values };
                put_attribute_header(out, name, values.len());
                out.extend_from_slice(values);
            }
        }
    }

    /// Appends the message of an entry that is not in the tree.
    pub(crate) fn put_virtual(&self, out: &mut Vec<u8>, schema: &schema::Schema, entry: &VirtualEntry) {
        let is_selected = |name: &str| match schema.parse_description(name) {
            Ok(description) => self.selection.selects(schema, &description),
            Err(_) => self.selection.selects_unknown(name),
        };
        let selected: Vec<_> = entry.attributes.iter().filter(|(name, _)| is_selected(name)).collect();
        let values_len = |values: &[Vec<u8>]| {
            if self.types_only { 0 } else { values.iter().map(|value| value_len(value.len())).sum() }
        };
        let attributes_len =
            selected.iter().map(|(name, values)| attribute_len(name.len(), values_len(values))).sum();
        let lens = SearchEntryLens { dn_len: entry.dn.len(), attributes_len, controls_len: 0 };
        put_search_entry_header(out, self.id, lens);
        out.extend_from_slice(entry.dn.as_bytes());
        put_attributes_header(out, attributes_len);
        for (name, values) in selected {
            put_attribute_header(out, name, values_len(values));
            if !self.types_only {
                values.iter().for_each(|value| put_value(out, value));
            }
        }
    }
}

/// The values that go out as they are stored.
fn copied<'a>(attribute: &AttributeRow<'a>) -> Option<InlineValues<'a>> {
    match attribute.content {
        Content::Inline(values) if !values.is_mixed => Some(values),
        _ => None,
    }
}

/// Appends the values of an attribute that is not copied, encoded; of too many for [`GATHERED_MAX`] only some.
fn gather_values(
    state: State<'_>,
    names: &mut NameCache,
    id: EntryId,
    attribute: &AttributeRow<'_>,
    gathered: &mut Vec<u8>,
) -> Result<(), OperationError> {
    if attribute.content != Content::Links {
        return for_each_value(state, id, attribute, &mut |value| {
            put_value(gathered, value);
            if gathered.len() > GATHERED_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    let walked = for_each_target(state, names, (id, attribute.id), 0, &mut |pieces| {
        ber::put_header(gathered, ber::Tag::OCTET_STRING, pieces.iter().map(|piece| piece.len()).sum());
        pieces.iter().for_each(|piece| gathered.extend_from_slice(piece));
        if gathered.len() > GATHERED_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if walked.is_break() {
        return Ok(());
    }
    for value in table_values(state.read, id, attribute.id) {
        put_value(gathered, value?.1);
        if gathered.len() > GATHERED_MAX {
            return Ok(());
        }
    }
    Ok(())
}

/// Shows the DNs of the entries that a link attribute (of an entry) names, those with ids from `from` on in the order of their ids, each in three
/// pieces: its RDN, a comma unless it is at the root, and the container's DN. Breaks with the id at which it was told to stop.
pub(super) fn for_each_target(
    state: State<'_>,
    names: &mut NameCache,
    (source, attribute): (EntryId, AttrId),
    from: u64,
    each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
) -> Result<ControlFlow<u64>, OperationError> {
    let mut targets = state.read.ids(LINKS, &link_key(source, attribute))?;
    if targets.seek(from)?.is_none() {
        return Ok(ControlFlow::Continue(()));
    }
    let mut block = Vec::new();
    while targets.next_block(&mut block, TARGET_BLOCK)? > 0 {
        for target in block.drain(..).map(EntryId) {
            let row = node(state.read, target)?.ok_or_else(|| damaged_row("links", source))?;
            // Members of a group share their containers: the names of these are looked up once.
            let container = names.container(state, row.parent)?;
            let above = names.dn(container);
            let separator: &[u8] = if above.is_empty() { b"" } else { b"," };
            if each([row.rdn.as_bytes(), separator, above]).is_break() {
                return Ok(ControlFlow::Break(target.0));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Targets read at a time.
const TARGET_BLOCK: usize = 512;

/// The attributes of an entry that is not in the tree, resolved; those that the schema does not know are left out.
pub(crate) fn resolved<'e>(
    schema: &schema::Schema,
    entry: &'e VirtualEntry,
) -> Vec<(AttributeDescription, &'e [Vec<u8>])> {
    let attributes = entry.attributes.iter();
    attributes
        .filter_map(|(name, values)| Some((schema.parse_description(name).ok()?, values.as_slice())))
        .collect()
}
