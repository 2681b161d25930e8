//! The attributes of one entry, encoded slice by slice in two passes: the first measures, the second writes.
//!
//! Both passes use the same snapshot and the same rights, so that the measured sizes match the written bytes.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ldap::response::{attribute_len, put_attribute_header, value_len};
use store::Direction;

use crate::filter::{ByValue, Candidate};
use crate::model::access_rule::READ;
use crate::model::entry::{AttributeRow, Content};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, VALUES, link_key};
use crate::read::search::matched::{MatchedValues, Passing};
use crate::read::search::result::{ResultWriter, for_each_target};
use crate::snapshot::name_cache::NameCache;
use crate::tree::stored_values::whole_value;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Stream of the attributes of an entry.
pub(super) struct AttributeStream {
    id: EntryId,
    /// The stored attributes to send.
    stored: Vec<StreamedAttribute>,
    /// Pairs of a name and encoded values, for the attributes to send whose values are computed, such as virtual
    /// attributes.
    encoded: Vec<(String, Vec<u8>)>,
    /// Rights to single values; set if the requester may read only some values of an attribute.
    view: Option<Arc<ByValue>>,
    types_only: bool,
    /// Index of the current attribute.
    at: usize,
    walk: ValuePosition,
    /// Whether this is the second pass, which writes.
    writes: bool,
}

/// A stored attribute of the stream.
struct StreamedAttribute {
    id: AttrId,
    /// Size of the encoded values, as measured so far.
    size: usize,
    /// Filter items that returned values must match; `None` to return all values.
    items: Option<MatchedValues>,
}

/// Position in the values of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValuePosition {
    /// Before the first value.
    Start,
    /// After this many values in the entry row.
    Inline(usize),
    /// After all links whose target id is lower than this id.
    Links(u64),
    /// After the row of the map `values` with this key; `None` before the first row.
    Table(Option<Vec<u8>>),
    Done,
}

/// Remaining budget of one step.
pub(super) struct Room {
    /// Number of values that may still be examined.
    pub(super) values: usize,
    /// Output length at which the step ends.
    pub(super) out_end: usize,
}

impl Room {
    /// Returns true if some of the budget is left.
    pub(super) fn is_left(&self, out: &[u8]) -> bool {
        self.values > 0 && out.len() < self.out_end
    }

    /// Deducts this number of values, or work of the same cost.
    pub(super) fn took(&mut self, values: usize) {
        self.values = self.values.saturating_sub(values);
    }
}

impl AttributeStream {
    /// Creates the stream of the attributes that `writer` selects, with the values that match `matched`.
    pub(super) fn of<'s>(
        state: TreeState<'s>,
        writer: &mut ResultWriter,
        candidate: &Candidate<'s>,
        matched: Option<&MatchedValues>,
    ) -> Result<AttributeStream> {
        let (mut stored, mut encoded) = (Vec::new(), Vec::new());
        if writer.selection.selects_stored() {
            for row in candidate.entry(state)?.attributes() {
                if !writer.selection.decide_any(state.catalog, row.id) {
                    continue;
                }
                let def = state.catalog.attribute(row.id);
                let items = match matched {
                    None => None,
                    Some(matched) => {
                        let view = writer.selection.over_values(def.description.type_id).map(Arc::as_ref);
                        match matched.of_stored(state, candidate.id, &row, view)? {
                            Passing::None => continue,
                            Passing::These(values) => {
                                if !values.is_empty() {
                                    encoded.push((def.name.to_string(), values));
                                }
                                continue;
                            }
                            Passing::All => None,
                            Passing::Some(items) => Some(items),
                        }
                    }
                };
                stored.push(StreamedAttribute { id: row.id, size: 0, items });
            }
        }
        for (type_id, mut values) in writer.virtual_values(state, candidate)? {
            if let Some(matched) = matched {
                values = matched.of_computed(state.catalog, type_id, &values);
            }
            if !values.is_empty() {
                encoded.push((state.catalog.schema.type_by_id(type_id).name().to_owned(), values));
            }
        }
        encoded.extend(writer.others(state, candidate)?);
        let view = writer.selection.by_value().cloned();
        let types_only = writer.types_only;
        let (at, walk, writes) = (0, ValuePosition::Start, false);
        Ok(AttributeStream { id: candidate.id, stored, encoded, view, types_only, at, walk, writes })
    }

    /// Returns the memory that the stream uses, without itself, in bytes. Only the values in `encoded` are in memory.
    /// Other values go directly from the store to the output.
    pub(super) fn heap_bytes(&self) -> usize {
        let encoded: usize =
            self.encoded.iter().map(|(name, values)| name.capacity() + values.capacity()).sum();
        let items = self.stored.iter().filter_map(|attribute| attribute.items.as_ref());
        let items: usize = items.map(MatchedValues::heap_bytes).sum();
        self.stored.capacity() * size_of::<StreamedAttribute>() + encoded + items
    }

    /// Continues the current pass while budget is left. Returns true when all attributes are done.
    pub(super) fn step(
        &mut self,
        (state, names): (TreeState<'_>, &mut NameCache),
        out: &mut Vec<u8>,
        room: &mut Room,
    ) -> Result<bool> {
        while let Some(&StreamedAttribute { id: attribute, size, .. }) = self.stored.get(self.at) {
            if !room.is_left(out) {
                return Ok(false);
            }
            if self.writes && self.walk == ValuePosition::Start {
                let name = &state.catalog.attribute(attribute).name;
                put_attribute_header(out, name, if self.types_only { 0 } else { size });
            }
            let items = self.stored.get(self.at).and_then(|attribute| attribute.items.as_ref());
            let item_count = items.map_or(1, MatchedValues::len);
            let values_max = room.values.div_ceil(item_count);
            let (seen, measured) = self.go_on((state, names), attribute, (values_max, room.out_end), out)?;
            room.took(seen.max(1) * item_count);
            if !self.writes
                && let Some(attribute) = self.stored.get_mut(self.at)
            {
                attribute.size += measured;
            }
            if self.walk == ValuePosition::Done {
                self.at += 1;
                self.walk = ValuePosition::Start;
            }
        }
        if self.writes {
            self.put_computed(out);
        }
        Ok(true)
    }

    /// Measures or writes some values of an attribute. Returns the number of values examined, and the encoded size of
    /// the values that are sent.
    fn go_on(
        &mut self,
        (state, names): (TreeState<'_>, &mut NameCache),
        attribute: AttrId,
        (values_max, out_end): (usize, usize),
        out: &mut Vec<u8>,
    ) -> Result<(usize, usize)> {
        let (schema, type_id) =
            (&state.catalog.schema, state.catalog.attribute(attribute).description.type_id);
        let view = self.view.as_ref().filter(|view| view.is_for(READ, type_id));
        // If the requester may read only some values, the first pass must examine the values to decide whether to
        // return the name.
        if self.types_only && (view.is_none() || self.writes) {
            self.walk = ValuePosition::Done;
            return Ok((0, 0));
        }
        let row = node(state.read, self.id)?.ok_or_else(|| damaged_row("nodes", self.id))?;
        let candidate = Candidate::new(self.id, row);
        let entry = candidate.entry(state)?;
        let row = entry.find(attribute).ok_or_else(|| damaged_row("entries", self.id))?;
        let (mut seen, mut measured, writes) = (0, 0, self.writes);
        let items = self.stored.get(self.at).and_then(|attribute| attribute.items.as_ref());
        let (mut key, mut whole) = (Vec::new(), Vec::new());
        let mut each = |pieces: [&[u8]; 3]| {
            let len = pieces.iter().map(|piece| piece.len()).sum();
            seen += 1;
            // Rules about values do not cover links, and only the DNs of links consist of several pieces. Thus the
            // first piece is the whole value that the rules test.
            let [value, ..] = pieces;
            let shows = view.is_none_or(|view| view.allows(READ, type_id, schema, value, &mut key))
                && items.is_none_or(|items| {
                    whole.clear();
                    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
                    items.pass(schema, &whole, &mut key)
                });
            if !shows {
                return if seen >= values_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            measured += value_len(len);
            if writes {
                ber::put_header(out, ber::Tag::OCTET_STRING, len);
                pieces.iter().for_each(|piece| out.extend_from_slice(piece));
            }
            let is_enough = seen >= values_max || out.len() >= out_end;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        while self.walk != ValuePosition::Done {
            let (next, flow) = self.walk.go_on(state, names, self.id, &row, &mut each)?;
            self.walk = next;
            if flow.is_break() {
                break;
            }
        }
        // One readable value is enough to return the name.
        if self.types_only && measured > 0 {
            self.walk = ValuePosition::Done;
        }
        Ok((seen, measured))
    }

    /// Begins the second pass, after all attributes are measured. Returns their total size with headers, in octets.
    pub(super) fn begin_writing(&mut self, state: TreeState<'_>) -> usize {
        if self.view.is_some() {
            // An attribute without a readable value is omitted.
            self.stored.retain(|StreamedAttribute { id, size, .. }| {
                let type_id = state.catalog.attribute(*id).description.type_id;
                *size > 0 || !self.view.as_ref().is_some_and(|view| view.is_for(READ, type_id))
            });
        }
        self.stored.retain(|attribute| attribute.size > 0 || attribute.items.is_none());
        (self.writes, self.at) = (true, 0);
        let stored = self.stored.iter().map(|StreamedAttribute { id, size, .. }| {
            let size = if self.types_only { 0 } else { *size };
            attribute_len(state.catalog.attribute(*id).name.len(), size)
        });
        let encoded = self.encoded.iter().map(|(name, values)| {
            let size = if self.types_only { 0 } else { values.len() };
            attribute_len(name.len(), size)
        });
        stored.chain(encoded).sum()
    }

    fn put_computed(&self, out: &mut Vec<u8>) {
        for (name, values) in &self.encoded {
            let values: &[u8] = if self.types_only { &[] } else { values };
            put_attribute_header(out, name, values.len());
            out.extend_from_slice(values);
        }
    }
}

impl ValuePosition {
    /// Calls `each` with the values from this position on, until `each` breaks or this source of values ends. Each
    /// value is passed as three pieces to concatenate. Returns the position after the last value, and whether `each`
    /// broke.
    pub(super) fn go_on(
        &self,
        state: TreeState<'_>,
        names: &mut NameCache,
        id: EntryId,
        row: &AttributeRow<'_>,
        each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
    ) -> Result<(ValuePosition, ControlFlow<()>)> {
        match self {
            ValuePosition::Start => {
                let first = match row.content {
                    Content::Inline(_) => ValuePosition::Inline(0),
                    Content::Links => ValuePosition::Links(0),
                    Content::Table => ValuePosition::Table(None),
                };
                Ok((first, ControlFlow::Continue(())))
            }
            ValuePosition::Inline(from) => inline(state, id, row, *from, each),
            ValuePosition::Links(from) => links(state, names, id, row.id, *from, each),
            ValuePosition::Table(after) => table(state, id, row.id, after.as_deref(), each),
            ValuePosition::Done => Ok((ValuePosition::Done, ControlFlow::Break(()))),
        }
    }
}

fn inline(
    state: TreeState<'_>,
    id: EntryId,
    row: &AttributeRow<'_>,
    from: usize,
    each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
) -> Result<(ValuePosition, ControlFlow<()>)> {
    let Content::Inline(values) = row.content else { return Err(damaged_row("entries", id)) };
    let def = state.catalog.attribute(row.id);
    for (place, value) in values.iter().enumerate().skip(from) {
        let value = whole_value(state.read, id, row.id, &value)?;
        if each([&def.value_text(&state.catalog.schema, value), &[], &[]]).is_break() {
            return Ok((ValuePosition::Inline(place + 1), ControlFlow::Break(())));
        }
    }
    Ok((ValuePosition::Done, ControlFlow::Continue(())))
}

fn links(
    state: TreeState<'_>,
    names: &mut NameCache,
    id: EntryId,
    attribute: AttrId,
    from: u64,
    each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
) -> Result<(ValuePosition, ControlFlow<()>)> {
    Ok(match for_each_target(state, names, (id, attribute), from, each)? {
        ControlFlow::Break(last) => (ValuePosition::Links(last + 1), ControlFlow::Break(())),
        ControlFlow::Continue(()) => (ValuePosition::Table(None), ControlFlow::Continue(())),
    })
}

fn table(
    state: TreeState<'_>,
    id: EntryId,
    attribute: AttrId,
    after: Option<&[u8]>,
    each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
) -> Result<(ValuePosition, ControlFlow<()>)> {
    let prefix = link_key(id, attribute);
    let def = state.catalog.attribute(attribute);
    let low = after.map_or(Bound::Included(&prefix[..]), Bound::Excluded);
    for row in state.read.scan(VALUES, (low, Bound::Unbounded), Direction::Forward) {
        let (key, value) = row?;
        if !key.starts_with(&prefix) {
            break;
        }
        if each([&def.value_text(&state.catalog.schema, value), &[], &[]]).is_break() {
            return Ok((ValuePosition::Table(Some(key.to_vec())), ControlFlow::Break(())));
        }
    }
    Ok((ValuePosition::Done, ControlFlow::Continue(())))
}
