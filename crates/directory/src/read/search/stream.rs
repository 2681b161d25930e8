//! An entry that is too large to be put together in memory, a group of a million members for example, as a stream.
//!
//! A message begins with its length, so the entry is gone through twice: once for the sizes, once for the bytes, both
//! in slices and both on one snapshot, which is pinned for as long as the client takes. Pages of a pinned snapshot are
//! not used again, so there are never many of these streams ([`STREAMS_MAX`]).
//!
//! From the first byte of the message to its last nothing else can be sent on the connection: see
//! [`Search::is_mid_message`](super::Search::is_mid_message).

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ldap::response::{
    SearchEntryLens, attribute_len, put_attribute_header, put_attributes_header, put_controls,
    put_search_entry_header, value_len,
};
use ldap::{ControlsBuf, ResultCode};
use store::Direction;

use super::matched::{MatchedValues, Passing};
use super::result::{ResultWriter, for_each_target};
use super::scanner::Scanner;
use crate::filter::{ByValue, Candidate};
use crate::model::access_rule::READ;
use crate::model::entry::{AttributeRow, Content, InlineValue};
use crate::model::limits::STREAMS_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, VALUES, link_key};
use crate::snapshot::name_cache::NameCache;
use crate::snapshot::{Directory, Snapshot};
use crate::tree::stored_values::large_value;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// An entry on its way to a client.
pub(super) struct EntryStream {
    snapshot: Snapshot,
    id: EntryId,
    /// The stored attributes to be sent.
    attributes: Vec<StreamedAttribute>,
    /// The attributes that are made when asked for: their values, encoded.
    made: Vec<(String, Vec<u8>)>,
    /// What tells values apart, where only some of an attribute may be read.
    view: Option<Arc<ByValue>>,
    types_only: bool,
    /// Controls behind it.
    controls: ControlsBuf,
    /// The attribute that is gone through.
    at: usize,
    walk: Walk,
    /// Whether the sizes are known and the message has begun.
    pub(super) is_begun: bool,
    _pin: Pin,
}

/// A stored attribute on its way.
struct StreamedAttribute {
    id: AttrId,
    /// Of its values, once it is known.
    size: usize,
    /// What the values pass that are sent; `None` where all are.
    items: Option<MatchedValues>,
}

/// Counts the streams there are.
struct Pin(Arc<Directory>);

impl Pin {
    fn new(directory: &Arc<Directory>) -> Result<Pin> {
        let pin = Pin(Arc::clone(directory));
        if pin.0.streams.fetch_add(1, Ordering::Relaxed) < STREAMS_MAX {
            return Ok(pin);
        }
        Err(OperationError::refused(
            ResultCode::BUSY,
            format!("{STREAMS_MAX} entries as large as this one are being sent already: try again later"),
        ))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How far the values of an attribute were gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Walk {
    /// Not at all.
    Start,
    /// That many values in the entry row.
    Inline(usize),
    /// Links to targets below this id.
    Links(u64),
    /// Rows of `values` up to this key, or from the first.
    Table(Option<Vec<u8>>),
    Done,
}

impl EntryStream {
    /// Bytes of memory that it holds, itself included. Of the values only those that are made when asked for: the
    /// others go from the store to the output.
    pub(super) fn heap_bytes(&self) -> usize {
        let made: usize = self.made.iter().map(|(name, values)| name.capacity() + values.capacity()).sum();
        let items = self.attributes.iter().filter_map(|attribute| attribute.items.as_ref());
        let items: usize = items.map(MatchedValues::heap_bytes).sum();
        size_of::<EntryStream>() + self.attributes.capacity() * size_of::<StreamedAttribute>() + made + items
    }

    /// A stream of the entry `id` as it is now; `None` if it is not a result of the search any more.
    pub(super) fn begin(
        snapshot: &Snapshot,
        scanner: &mut Scanner,
        id: EntryId,
    ) -> Result<Option<EntryStream>> {
        let pin = Pin::new(snapshot.directory_handle())?;
        let snapshot = snapshot.directory_handle().snapshot()?;
        scanner.catch_up(&snapshot)?;
        let state = snapshot.state();
        let Some(row) = node(state.read, id)? else { return Ok(None) };
        let candidate = Candidate::new(id, row);
        if !scanner.passes(&snapshot, &candidate)? {
            return Ok(None);
        }
        let controls = scanner.controls_of_any_size(state, &candidate)?;
        let matched = scanner.matched_values().cloned();
        let writer = &mut scanner.writer;
        let (mut attributes, mut made) = (Vec::new(), Vec::new());
        for row in candidate.entry(state)?.attributes() {
            if !writer.selection.decide_any(state.catalog, row.id) {
                continue;
            }
            let def = state.catalog.attribute(row.id);
            let items = match &matched {
                None => None,
                Some(matched) => {
                    let view = writer.selection.over_values(def.description.type_id).map(Arc::as_ref);
                    match matched.of_stored(state, id, &row, view)? {
                        Passing::None => continue,
                        Passing::These(values) => {
                            if !values.is_empty() {
                                made.push((def.name.to_string(), values));
                            }
                            continue;
                        }
                        Passing::All => None,
                        Passing::Some(items) => Some(items),
                    }
                }
            };
            attributes.push(StreamedAttribute { id: row.id, size: 0, items });
        }
        for (type_id, mut values) in writer.made(state, &candidate)? {
            if let Some(matched) = &matched {
                values = matched.of_made(state.catalog, type_id, &values);
            }
            if !values.is_empty() {
                made.push((state.catalog.schema.type_by_id(type_id).name().to_owned(), values));
            }
        }
        if let Some(effective) = &writer.effective {
            made.extend(effective.attributes(state, &candidate)?);
        }
        let view = writer.selection.by_value().cloned();
        let types_only = writer.types_only;
        let (at, walk, is_begun) = (0, Walk::Start, false);
        Ok(Some(EntryStream {
            snapshot,
            id,
            attributes,
            made,
            view,
            types_only,
            controls,
            at,
            walk,
            is_begun,
            _pin: pin,
        }))
    }

    /// Goes through up to `values_max` values, or appends about `bytes_max` bytes; true when the message is complete.
    pub(super) fn step(
        &mut self,
        writer: &ResultWriter,
        out: &mut Vec<u8>,
        values_max: usize,
        bytes_max: usize,
    ) -> Result<bool> {
        let out_end = out.len().saturating_add(bytes_max);
        let mut left = values_max.max(1);
        while left > 0 && out.len() < out_end {
            let Some(&StreamedAttribute { id: attribute, size, .. }) = self.attributes.get(self.at) else {
                if self.is_begun {
                    self.put_made(out);
                    return Ok(true);
                }
                self.put_head(writer, out)?;
                continue;
            };
            if self.is_begun && self.walk == Walk::Start {
                let name = &self.snapshot.state().catalog.attribute(attribute).name;
                put_attribute_header(out, name, if self.types_only { 0 } else { size });
            }
            let items = self.attributes.get(self.at).and_then(|attribute| attribute.items.as_ref());
            let item_count = items.map_or(1, MatchedValues::len);
            let (seen, measured) = self.go_on(attribute, left.div_ceil(item_count), out_end, out)?;
            left = left.saturating_sub(seen.max(1) * item_count);
            if !self.is_begun
                && let Some(attribute) = self.attributes.get_mut(self.at)
            {
                attribute.size += measured;
            }
            if self.walk == Walk::Done {
                self.at += 1;
                self.walk = Walk::Start;
            }
        }
        Ok(false)
    }

    /// Some values of an attribute: how many, and how many bytes they are.
    fn go_on(
        &mut self,
        attribute: AttrId,
        values_max: usize,
        out_end: usize,
        out: &mut Vec<u8>,
    ) -> Result<(usize, usize)> {
        let state = self.snapshot.state();
        let (schema, type_id) =
            (&state.catalog.schema, state.catalog.attribute(attribute).description.type_id);
        let view = self.view.as_ref().filter(|view| view.is_for(READ, type_id));
        // Whether there is a value that shows is not known without looking.
        if self.types_only && (view.is_none() || self.is_begun) {
            self.walk = Walk::Done;
            return Ok((0, 0));
        }
        let names = &mut *self.snapshot.names();
        let row = node(state.read, self.id)?.ok_or_else(|| damaged_row("nodes", self.id))?;
        let entry = Candidate::new(self.id, row).entry(state)?;
        let row = entry.find(attribute).ok_or_else(|| damaged_row("entries", self.id))?;
        let (mut seen, mut measured, writes) = (0, 0, self.is_begun);
        let items = self.attributes.get(self.at).and_then(|attribute| attribute.items.as_ref());
        let (mut key, mut whole) = (Vec::new(), Vec::new());
        let mut each = |pieces: [&[u8]; 3]| {
            let len = pieces.iter().map(|piece| piece.len()).sum();
            seen += 1;
            // What shows value by value is no link, which would be in pieces.
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
        while self.walk != Walk::Done {
            let (next, flow) = self.walk.go_on(state, names, self.id, &row, &mut each)?;
            self.walk = next;
            if flow.is_break() {
                break;
            }
        }
        // One value that shows is enough for the name.
        if self.types_only && measured > 0 {
            self.walk = Walk::Done;
        }
        Ok((seen, measured))
    }

    /// Begins the message, and the second way through.
    fn put_head(&mut self, writer: &ResultWriter, out: &mut Vec<u8>) -> Result<()> {
        let state = self.snapshot.state();
        if self.view.is_some() {
            // An attribute without a value that shows is not there.
            self.attributes.retain(|StreamedAttribute { id, size, .. }| {
                let type_id = state.catalog.attribute(*id).description.type_id;
                *size > 0 || !self.view.as_ref().is_some_and(|view| view.is_for(READ, type_id))
            });
        }
        self.attributes.retain(|attribute| attribute.size > 0 || attribute.items.is_none());
        let stored = self.attributes.iter().map(|StreamedAttribute { id, size, .. }| {
            let size = if self.types_only { 0 } else { *size };
            attribute_len(state.catalog.attribute(*id).name.len(), size)
        });
        let made = self.made.iter().map(|(name, values)| {
            let size = if self.types_only { 0 } else { values.len() };
            attribute_len(name.len(), size)
        });
        let attributes_len = stored.chain(made).sum();
        let dn = state.dn(self.id)?.ok_or_else(|| damaged_row("nodes", self.id))?;
        let lens = SearchEntryLens {
            dn_len: dn.len(),
            attributes_len,
            controls_len: self.controls.as_controls().as_bytes().len(),
        };
        put_search_entry_header(out, writer.id, lens);
        out.extend_from_slice(dn.as_bytes());
        put_attributes_header(out, attributes_len);
        (self.is_begun, self.at) = (true, 0);
        Ok(())
    }

    fn put_made(&self, out: &mut Vec<u8>) {
        for (name, values) in &self.made {
            let values: &[u8] = if self.types_only { &[] } else { values };
            put_attribute_header(out, name, values.len());
            out.extend_from_slice(values);
        }
        put_controls(out, self.controls.as_controls());
    }
}

impl Walk {
    /// Shows values from this place on, each in three pieces, until told to stop. Where that was.
    fn go_on(
        &self,
        state: TreeState<'_>,
        names: &mut NameCache,
        id: EntryId,
        row: &AttributeRow<'_>,
        each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
    ) -> Result<(Walk, ControlFlow<()>)> {
        match self {
            Walk::Start => {
                let first = match row.content {
                    Content::Inline(_) => Walk::Inline(0),
                    Content::Links => Walk::Links(0),
                    Content::Table => Walk::Table(None),
                };
                Ok((first, ControlFlow::Continue(())))
            }
            Walk::Inline(from) => inline(state, id, row, *from, each),
            Walk::Links(from) => links(state, names, id, row.id, *from, each),
            Walk::Table(after) => table(state, id, row.id, after.as_deref(), each),
            Walk::Done => Ok((Walk::Done, ControlFlow::Break(()))),
        }
    }
}

fn inline(
    state: TreeState<'_>,
    id: EntryId,
    row: &AttributeRow<'_>,
    from: usize,
    each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
) -> Result<(Walk, ControlFlow<()>)> {
    let Content::Inline(values) = row.content else { return Err(damaged_row("entries", id)) };
    let def = state.catalog.attribute(row.id);
    for (place, value) in values.iter().enumerate().skip(from) {
        let value = match value {
            InlineValue::Here(value) => value,
            InlineValue::Elsewhere(hash) => large_value(state.read, id, row.id, &hash)?,
        };
        if each([&def.value_text(&state.catalog.schema, value), &[], &[]]).is_break() {
            return Ok((Walk::Inline(place + 1), ControlFlow::Break(())));
        }
    }
    Ok((Walk::Done, ControlFlow::Continue(())))
}

fn links(
    state: TreeState<'_>,
    names: &mut NameCache,
    id: EntryId,
    attribute: AttrId,
    from: u64,
    each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
) -> Result<(Walk, ControlFlow<()>)> {
    Ok(match for_each_target(state, names, (id, attribute), from, each)? {
        ControlFlow::Break(last) => (Walk::Links(last + 1), ControlFlow::Break(())),
        ControlFlow::Continue(()) => (Walk::Table(None), ControlFlow::Continue(())),
    })
}

fn table(
    state: TreeState<'_>,
    id: EntryId,
    attribute: AttrId,
    after: Option<&[u8]>,
    each: &mut dyn FnMut([&[u8]; 3]) -> ControlFlow<()>,
) -> Result<(Walk, ControlFlow<()>)> {
    let prefix = link_key(id, attribute);
    let def = state.catalog.attribute(attribute);
    let low = after.map_or(Bound::Included(&prefix[..]), Bound::Excluded);
    for row in state.read.scan(VALUES, (low, Bound::Unbounded), Direction::Forward) {
        let (key, value) = row?;
        if !key.starts_with(&prefix) {
            break;
        }
        if each([&def.value_text(&state.catalog.schema, value), &[], &[]]).is_break() {
            return Ok((Walk::Table(Some(key.to_vec())), ControlFlow::Break(())));
        }
    }
    Ok((Walk::Done, ControlFlow::Continue(())))
}
