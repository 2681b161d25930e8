//! Search results as bytes (RFC 4511 section 4.5.2), in one pass over the entry.
//!
//! Lengths precede the data but are known only when the data are written. So the head is written with estimated lengths
//! and corrected at the end. The attributes are moved only if a length needs a different number of octets than
//! estimated. A separate pass for the sizes was rejected, because it needs more instructions.
//!
//! Inline values are stored in the form in which they are sent. Values that must be fetched or computed are first
//! gathered in a buffer, one attribute at a time. The size of the buffer is limited: see [`super::stream`].

use std::ops::ControlFlow;

use ldap::MessageId;
use ldap::response::{
    SearchEntryLens, attribute_len, correct_search_entry, put_attribute_header, put_attributes_header,
    put_search_entry_header, put_value, value_len,
};
use schema::{AttributeDescription, TypeId};

use super::effective::RightsReport;
use super::selection::Selection;
use super::value_ranges::ValueRanges;
use crate::catalog::{AttributeDef, Catalog, VirtualAttribute};
use crate::filter::{Candidate, GroupsOf, for_each_visible};
use crate::model::access_rule::READ;
use crate::model::entry::{AttributeRow, Content, EntryRow};
use crate::model::limits::GATHERED_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, LINKS, link_key};
use crate::model::virtual_entries::VirtualEntry;
use crate::snapshot::name_cache::NameCache;
use crate::tree::operational::seconds_left;
use crate::tree::stored_values::{for_each_value, table_values};
use crate::tree::{TreeState, damaged_row, node};

/// Writer of results, with its buffers.
#[derive(Debug)]
pub(crate) struct ResultWriter {
    pub(crate) id: MessageId,
    pub(crate) types_only: bool,
    pub(crate) selection: Selection,
    /// The requester's view of groups for memberOf; `None` if no access rules restrict the requester.
    pub(super) groups: Option<GroupsOf>,
    /// State of the effective rights control; `None` in most searches.
    pub(super) effective: Option<Box<RightsReport>>,
    /// Requested ranges of values; `None` in most searches.
    pub(super) ranges: Option<Box<ValueRanges>>,
    /// Encoded values of one attribute that are not copied from the entry row.
    gathered: Vec<u8>,
    /// Time of the request in microseconds since 1970, for entryTtl; 0 if no entry is dynamic.
    pub(super) now: i64,
    /// Size of the attributes of the last result, in octets. This size is the estimate for the next result.
    last_len: Option<usize>,
}

impl ResultWriter {
    /// Creates a writer. For `groups`, see the field.
    #[inline(always)]
    pub(super) fn new(
        id: MessageId,
        types_only: bool,
        selection: Selection,
        groups: Option<GroupsOf>,
    ) -> ResultWriter {
        let (effective, ranges, gathered, last_len) = (None, None, Vec::new(), None);
        ResultWriter { id, types_only, selection, groups, effective, ranges, gathered, last_len, now: 0 }
    }

    /// Sets the ranges of values and the time of the request. See the fields.
    #[inline(always)]
    pub(super) fn with(self, ranges: Option<Box<ValueRanges>>, now: i64) -> ResultWriter {
        ResultWriter { ranges, now, ..self }
    }

    /// Returns the memory that the buffers use, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.gathered.capacity()
    }

    /// Returns a copy with buffers of its own.
    pub(crate) fn copy(&self) -> ResultWriter {
        let effective = self.effective.as_ref().map(|effective| Box::new(effective.copy()));
        let (selection, groups) = (self.selection.clone(), self.groups.clone());
        let (ranges, gathered) = (self.ranges.clone(), Vec::new());
        ResultWriter { selection, groups, effective, ranges, gathered, last_len: None, ..*self }
    }

    /// Appends the message of an entry of the tree. Returns false and appends nothing if the values of the entry exceed
    /// the buffer ([`GATHERED_MAX`]).
    pub(crate) fn put_entry<'s>(
        &mut self,
        out: &mut Vec<u8>,
        state: TreeState<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        let row = if self.selection.selects_stored() { Some(candidate.entry(state)?) } else { None };
        let guess = match (self.last_len, &row) {
            (Some(len), _) => len,
            (None, Some(row)) => self.selection.guess_len(row),
            (None, None) => 0,
        };
        let start = out.len();
        let head = self.put_head(out, state, names, candidate, guess)?;
        let has_others = self.effective.is_some() || self.ranges.is_some();
        if row.is_none() && self.selection.virtual_attributes.is_empty() && !has_others {
            return Ok(true);
        }
        match self.put_attributes(out, state, names, candidate, row) {
            Ok(true) => {
                let attributes_len = out.len() - head.end;
                self.last_len = Some(attributes_len);
                if attributes_len != guess {
                    correct_search_entry(out, start, self.id, head.lens, attributes_len);
                }
                Ok(true)
            }
            other => {
                out.truncate(start);
                other
            }
        }
    }

    /// Appends everything before the first attribute.
    #[inline(always)]
    pub(super) fn put_head(
        &self,
        out: &mut Vec<u8>,
        state: TreeState<'_>,
        names: &mut NameCache,
        candidate: &Candidate<'_>,
        attributes_len: usize,
    ) -> Result<Head, OperationError> {
        let container = names.container(state, candidate.node.parent)?;
        let above = names.dn(container);
        let rdn = candidate.node.rdn;
        let dn_len = rdn.len() + if above.is_empty() { 0 } else { 1 + above.len() };
        let lens = SearchEntryLens { dn_len, attributes_len, controls_len: 0 };
        put_search_entry_header(out, self.id, lens);
        out.extend_from_slice(rdn);
        if !above.is_empty() {
            out.push(b',');
            out.extend_from_slice(above);
        }
        put_attributes_header(out, attributes_len);
        Ok(Head { lens, end: out.len() })
    }

    /// Appends the attributes. Returns false if there are too many values to gather.
    pub(super) fn put_attributes<'s>(
        &mut self,
        out: &mut Vec<u8>,
        state: TreeState<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
        row: Option<EntryRow<'_>>,
    ) -> Result<bool, OperationError> {
        if let Some(row) = row {
            let Some(gathered_len) = self.put_stored(out, state, names, (candidate.id, row))? else {
                return Ok(false);
            };
            if self.selection.by_value().is_some()
                && !self.put_readable(out, state, candidate.id, row, gathered_len)?
            {
                return Ok(false);
            }
        }
        for (attribute, type_id) in &self.selection.virtual_attributes {
            if !self.selection.permits(*type_id) {
                continue;
            }
            let gathered = &mut self.gathered;
            gathered.clear();
            let mut put = |value: &[u8]| {
                put_value(gathered, value);
                ControlFlow::Continue(())
            };
            let entry = (candidate.id, &candidate.node);
            if *attribute == VirtualAttribute::EntryTtl {
                if self.now > 0
                    && let Some(seconds) = seconds_left(state, entry, self.now)?
                {
                    let _ = put(seconds.to_string().as_bytes());
                }
            } else {
                for_each_visible(state, *attribute, self.groups.as_ref(), entry, &mut put)?;
            }
            if !gathered.is_empty() {
                let name = state.catalog.schema.type_by_id(*type_id).name();
                let values: &[u8] = if self.types_only { &[] } else { gathered };
                put_attribute_header(out, name, values.len());
                out.extend_from_slice(values);
            }
        }
        if self.effective.is_some() || self.ranges.is_some() {
            for (name, values) in self.others(state, candidate)? {
                let values: &[u8] = if self.types_only { &[] } else { &values };
                put_attribute_header(out, &name, values.len());
                out.extend_from_slice(values);
            }
        }
        Ok(true)
    }

    /// Appends the attributes of the row. Returns the number of octets of gathered values; `None` if there are too
    /// many. This is a separate function so that the variables of its loop stay in registers.
    #[inline(never)]
    fn put_stored<'s>(
        &mut self,
        out: &mut Vec<u8>,
        state: TreeState<'s>,
        names: &mut NameCache,
        (id, row): (EntryId, EntryRow<'s>),
    ) -> Result<Option<usize>, OperationError> {
        let mut gathered_len = 0;
        let mut attributes = row.attributes();
        let wanted = self.selection.low_numbers(state.catalog);
        while let Some((number, located)) =
            attributes.next_where(wanted, |id| self.selection.decide(state.catalog, id))
        {
            let def = state.catalog.attribute(number);
            if !self.selection.permits(def.description.type_id) {
                continue;
            }
            let values: &[u8] = match located.encoded() {
                _ if self.types_only => &[],
                // Most attributes are sent in the form in which they are stored.
                Some(encoded) if def.name_syntax.is_none() => encoded,
                _ => {
                    let attribute = AttributeRow { id: number, content: located.content() };
                    self.gathered.clear();
                    gather_values(state, names, id, &attribute, def, &mut self.gathered)?;
                    gathered_len += self.gathered.len();
                    &self.gathered
                }
            };
            def.frame.put(out, values);
            if gathered_len > GATHERED_MAX {
                self.gathered = Vec::new();
                return Ok(None);
            }
        }
        Ok(Some(gathered_len))
    }

    /// Returns the attributes that report effective rights, and the requested ranges of values, encoded.
    #[cold]
    pub(super) fn others<'s>(
        &self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<Vec<(String, Vec<u8>)>, OperationError> {
        let mut all = match &self.effective {
            Some(effective) => effective.attributes(state, candidate)?,
            None => Vec::new(),
        };
        if let Some(ranges) = &self.ranges {
            all.extend(ranges.attributes(&self.selection, state, candidate)?);
        }
        Ok(all)
    }

    /// Appends the readable values of each attribute of which the requester may read only some values. Returns false if
    /// there are too many values to examine. The limit also counts `looked_at`, the octets of values examined before.
    #[cold]
    fn put_readable(
        &mut self,
        out: &mut Vec<u8>,
        state: TreeState<'_>,
        id: EntryId,
        row: EntryRow<'_>,
        mut looked_at: usize,
    ) -> Result<bool, OperationError> {
        let (schema, mut key) = (&state.catalog.schema, Vec::new());
        for attribute in row.attributes() {
            if !self.selection.decide_some(state.catalog, attribute.id) {
                continue;
            }
            let def = state.catalog.attribute(attribute.id);
            let type_id = def.description.type_id;
            let Some(view) = self.selection.over_values(type_id) else { continue };
            let gathered = &mut self.gathered;
            gathered.clear();
            for_each_value(state, id, &attribute, &mut |value| {
                looked_at += value_len(value.len());
                if view.allows(READ, type_id, schema, value, &mut key) {
                    put_value(gathered, value);
                }
                if looked_at > GATHERED_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if looked_at > GATHERED_MAX {
                self.gathered = Vec::new();
                return Ok(false);
            }
            if !self.gathered.is_empty() {
                let values: &[u8] = if self.types_only { &[] } else { &self.gathered };
                // `def.frame.put` is not called here, because the compiler inlines it into the loop of `put_stored`
                // only while it has a single call.
                put_attribute_header(out, &def.name, values.len());
                out.extend_from_slice(values);
            }
        }
        Ok(true)
    }

    /// Returns the virtual attributes that have values, encoded.
    #[cold]
    pub(super) fn virtual_values(
        &self,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<Vec<(TypeId, Vec<u8>)>, OperationError> {
        let mut virtual_values = Vec::new();
        for (attribute, type_id) in
            self.selection.virtual_attributes.iter().filter(|(_, type_id)| self.selection.permits(*type_id))
        {
            let mut values = Vec::new();
            let mut put = |value: &[u8]| {
                put_value(&mut values, value);
                ControlFlow::Continue(())
            };
            for_each_visible(
                state,
                *attribute,
                self.groups.as_ref(),
                (candidate.id, &candidate.node),
                &mut put,
            )?;
            if !values.is_empty() {
                virtual_values.push((*type_id, values));
            }
        }
        Ok(virtual_values)
    }

    /// Appends the message of a virtual entry.
    pub(crate) fn put_virtual(&self, out: &mut Vec<u8>, catalog: &Catalog, entry: &VirtualEntry) {
        let is_selected = |name: &str| match catalog.schema.parse_description(name) {
            Ok(description) => self.selection.selects(catalog, &description),
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

/// Head of a message: everything before the attributes.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Lengths in the head, some of which are estimates.
    pub(super) lens: SearchEntryLens,
    /// End of the head.
    pub(super) end: usize,
}

/// Appends the encoded values of an attribute that cannot be copied from the row. Stops when the values exceed
/// [`GATHERED_MAX`].
fn gather_values(
    state: TreeState<'_>,
    names: &mut NameCache,
    id: EntryId,
    attribute: &AttributeRow<'_>,
    def: &AttributeDef,
    gathered: &mut Vec<u8>,
) -> Result<(), OperationError> {
    let schema = &state.catalog.schema;
    if attribute.content != Content::Links {
        return for_each_value(state, id, attribute, &mut |value| {
            put_value(gathered, &def.value_text(schema, value));
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
        put_value(gathered, &def.value_text(schema, value?.1));
        if gathered.len() > GATHERED_MAX {
            return Ok(());
        }
    }
    Ok(())
}

/// Calls `each` with the DNs of the entries that a link attribute of an entry names, in ascending entry id, starting at
/// the id `from`. Each DN is passed in three pieces: its RDN, a comma unless the container is the root, and the DN of
/// the container. Breaks with the id at which `each` broke.
pub(super) fn for_each_target(
    state: TreeState<'_>,
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
            // Members of a group share containers, so the DN of each container is resolved once.
            let container = names.container(state, row.parent)?;
            let above = names.dn(container);
            let separator: &[u8] = if above.is_empty() { b"" } else { b"," };
            if each([row.rdn, separator, above]).is_break() {
                return Ok(ControlFlow::Break(target.0));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Number of targets read at a time.
const TARGET_BLOCK: usize = 512;

/// Returns the attributes of a virtual entry with resolved descriptions. Leaves out attributes that the schema does not
/// define.
pub(crate) fn resolved<'e>(
    schema: &schema::Schema,
    entry: &'e VirtualEntry,
) -> Vec<(AttributeDescription, &'e [Vec<u8>])> {
    let attributes = entry.attributes.iter();
    attributes
        .filter_map(|(name, values)| Some((schema.parse_description(name).ok()?, values.as_slice())))
        .collect()
}
