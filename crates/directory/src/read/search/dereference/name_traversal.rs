//! Traversal of the DNs in the values of one entry. The traversal produces the items of the dereference control. Each
//! item is a DN with the requested attributes of the entry that the DN names.

use std::ops::ControlFlow;
use std::sync::Arc;

use ber::{Tag, element_len, put_header};
use ldap::{dereferenced_len, put_dereferenced};

use super::{Dereferencing, Spec};
use crate::access::{self, EffectiveRights, EntryRights};
use crate::filter::{ByValue, Candidate};
use crate::model::access_rule::READ;
use crate::model::limits::STREAMED_PER_ENTRY;
use crate::model::name::name_in;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, LINKS, NodeRow, link_key};
use crate::read::search::attribute_stream::{AttributeStream, Room, ValuePosition};
use crate::snapshot::name_cache::NameCache;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Number of DNs read at a time.
const NAME_BLOCK: usize = 64;

/// Number of octets of an entry that cost as much as one value.
const OCTETS_PER_VALUE: usize = 256;

/// Traversal of the DNs in the values of one entry, in slices. A stream makes two traversals: one to measure, one to
/// write.
pub(in crate::read::search) struct NameTraversal {
    entry: EntryId,
    /// Rights at the entry; `None` if no access rules restrict the requester.
    rights: Option<Arc<EntryRights>>,
    /// Index of the attribute whose values are being read.
    spec: usize,
    /// Source of the values of this attribute; `None` before the first value is read.
    source: Option<Source>,
    /// DNs that were read and are still to be processed. The last DN is processed next.
    names: Vec<Name>,
    /// The named entry that is being processed, if its attributes are too large for memory.
    large: Option<LargeTarget>,
    /// Size of the items that are measured or written so far, in octets.
    size: usize,
    /// Size of all items in octets, once measured.
    measured: Option<usize>,
    writes: bool,
    access_traversal: access::TraversalCache,
    /// Buffers for the DN and the attributes of one named entry.
    name: Vec<u8>,
    attributes: Vec<u8>,
}

/// Source of the values of an attribute. The values are DNs.
enum Source {
    /// The values of a stored attribute from this position on, with the rights to single values if only some are
    /// readable.
    Stored(AttrId, Option<Arc<ByValue>>, ValuePosition),
    /// The encoded values of a virtual attribute, and the number of octets already read.
    Computed(Vec<u8>, usize),
    /// No more values.
    Nothing,
}

/// A DN that was read from a value.
enum Name {
    Link(EntryId),
    Text(Vec<u8>),
}

/// A named entry that is too large for memory and is written in slices, with its DN.
struct LargeTarget {
    name: Vec<u8>,
    attributes: AttributeStream,
    /// Whether the entry is measured and the head of its item is written.
    has_started: bool,
}

/// Snapshot and requester of the traversal.
struct View<'s, 'n> {
    state: TreeState<'s>,
    names: &'n mut NameCache,
    rights: &'n EffectiveRights,
}

impl NameTraversal {
    /// Creates a traversal that measures.
    pub(in crate::read::search) fn new(entry: EntryId, rights: Option<Arc<EntryRights>>) -> NameTraversal {
        NameTraversal {
            entry,
            rights,
            spec: 0,
            source: None,
            names: Vec::new(),
            large: None,
            size: 0,
            measured: None,
            writes: false,
            access_traversal: access::TraversalCache::default(),
            name: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// Creates a traversal that writes without measuring first.
    pub(super) fn writing(entry: EntryId, rights: Option<Arc<EntryRights>>) -> NameTraversal {
        NameTraversal { writes: true, ..NameTraversal::new(entry, rights) }
    }

    /// Restarts the traversal to write, after everything is measured. Returns the size of the control's value in
    /// octets.
    pub(in crate::read::search) fn begin_writing(&mut self) -> usize {
        (self.spec, self.source) = (0, None);
        self.measured = Some(std::mem::take(&mut self.size));
        self.writes = true;
        self.value_len()
    }

    /// Returns the measured size of the control's value, a SEQUENCE of the items, in octets; 0 without items.
    pub(in crate::read::search) fn value_len(&self) -> usize {
        match self.measured.unwrap_or(self.size) {
            0 => 0,
            items_len => element_len(items_len),
        }
    }

    /// Appends the part of the control's value that precedes the first item.
    pub(in crate::read::search) fn put_header(&self, out: &mut Vec<u8>) {
        put_header(out, Tag::SEQUENCE, self.measured.unwrap_or_default());
    }

    /// Returns the memory that the traversal uses, without itself, in bytes.
    pub(in crate::read::search) fn heap_bytes(&self) -> usize {
        let source = match &self.source {
            Some(Source::Computed(values, _)) => values.capacity(),
            _ => 0,
        };
        let text = |name: &Name| if let Name::Text(text) = name { text.capacity() } else { 0 };
        let names = self.names.capacity() * size_of::<Name>() + self.names.iter().map(text).sum::<usize>();
        let of_large = |large: &LargeTarget| large.name.capacity() + large.attributes.heap_bytes();
        let large = self.large.as_ref().map_or(0, of_large);
        source + names + large + self.name.capacity() + self.attributes.capacity()
    }

    /// Continues as long as budget is left. Returns true when all DNs are processed.
    pub(in crate::read::search) fn step(
        &mut self,
        dereferencing: &mut Dereferencing,
        (state, names): (TreeState<'_>, &mut NameCache),
        out: &mut Vec<u8>,
        room: &mut Room,
    ) -> Result<bool> {
        let Dereferencing { specs, rights, .. } = dereferencing;
        let mut view = View { state, names, rights };
        while let Some(spec) = specs.get_mut(self.spec) {
            if !room.is_left(out) {
                return Ok(false);
            }
            if let Some(large) = self.large.take() {
                self.large = self.put_large(spec, &mut view, large, (out, room))?;
            } else if let Some(name) = self.names.pop() {
                self.put_item(spec, &mut view, name, (out, room))?;
            } else if !self.read_names(spec, &mut view)? {
                self.spec += 1;
                self.source = None;
            }
        }
        match self.measured {
            // If the sizes differ, the length of the message would differ from the length in its header.
            Some(measured) if measured != self.size => {
                let written = self.size;
                let text = format!("control dereference: {measured} octets were measured, {written} written");
                Err(OperationError::Damaged(text))
            }
            _ => Ok(true),
        }
    }

    /// Reads the next values of an attribute, at most [`NAME_BLOCK`]. Returns false if no values are left.
    fn read_names(&mut self, spec: &mut Spec, view: &mut View<'_, '_>) -> Result<bool> {
        let mut source = match self.source.take() {
            Some(source) => source,
            None => self.source_of(spec, view.state)?,
        };
        let has_some = match &mut source {
            Source::Stored(attribute, allowed, traversal) => {
                *traversal = self.read_stored(view, *attribute, allowed.as_deref(), traversal)?;
                true
            }
            Source::Computed(values, at) => {
                let mut left = ber::Reader::new(values.get(*at..).unwrap_or_default());
                while self.names.len() < NAME_BLOCK
                    && let Ok(value) = left.octet_string()
                {
                    *at += element_len(value.len());
                    self.names.push(Name::Text(value.to_vec()));
                }
                !self.names.is_empty()
            }
            Source::Nothing => false,
        };
        self.names.reverse();
        self.source = Some(match source {
            Source::Stored(_, _, ValuePosition::Done) => Source::Nothing,
            source => source,
        });
        Ok(has_some)
    }

    /// Returns the source of the readable values of an attribute.
    fn source_of(&self, spec: &mut Spec, state: TreeState<'_>) -> Result<Source> {
        let (Spec { description, names: writer, .. }, catalog) = (spec, state.catalog);
        writer.selection.rights.clone_from(&self.rights);
        let row = node(state.read, self.entry)?.ok_or_else(|| damaged_row("nodes", self.entry))?;
        let candidate = Candidate::new(self.entry, row);
        let entry = candidate.entry(state)?;
        // While the values of an attribute are being converted to links, two attribute numbers have the same
        // description.
        let numbers = catalog.stored_attributes_of_type(description.type_id).iter().copied();
        let is_it = |id: &AttrId| catalog.attribute(*id).description.options == description.options;
        if let Some(attribute) = numbers.filter(is_it).find(|id| entry.find(*id).is_some()) {
            if writer.selection.decide(catalog, attribute) {
                return Ok(Source::Stored(attribute, None, ValuePosition::Start));
            }
            if writer.selection.decide_some(catalog, attribute) {
                let allowed = writer.selection.over_values(description.type_id).cloned();
                return Ok(Source::Stored(attribute, allowed, ValuePosition::Start));
            }
        }
        let virtual_value = writer.virtual_values(state, &candidate)?.into_iter().next();
        Ok(virtual_value.map_or(Source::Nothing, |(_, values)| Source::Computed(values, 0)))
    }

    /// Reads the next values of a stored attribute, at most [`NAME_BLOCK`]. Returns the position after them.
    fn read_stored(
        &mut self,
        view: &mut View<'_, '_>,
        attribute: AttrId,
        allowed: Option<&ByValue>,
        traversal: &ValuePosition,
    ) -> Result<ValuePosition> {
        let state = view.state;
        if let ValuePosition::Links(from) = traversal {
            let mut targets = state.read.ids(LINKS, &link_key(self.entry, attribute))?;
            let mut block = Vec::with_capacity(NAME_BLOCK);
            if targets.seek(*from)?.is_some() {
                targets.next_block(&mut block, NAME_BLOCK)?;
            }
            let Some(last) = block.last().copied() else { return Ok(ValuePosition::Table(None)) };
            // Rules about single values do not cover links.
            self.names.extend(block.into_iter().map(|target| Name::Link(EntryId(target))));
            return Ok(ValuePosition::Links(last + 1));
        }
        let row = node(state.read, self.entry)?.ok_or_else(|| damaged_row("nodes", self.entry))?;
        let candidate = Candidate::new(self.entry, row);
        let entry = candidate.entry(state)?;
        let row = entry.find(attribute).ok_or_else(|| damaged_row("entries", self.entry))?;
        let type_id = state.catalog.attribute(attribute).description.type_id;
        let (schema, mut key, mut seen) = (&state.catalog.schema, Vec::new(), 0);
        let names = &mut self.names;
        let mut each = |[value, ..]: [&[u8]; 3]| {
            seen += 1;
            if allowed.is_none_or(|allowed| allowed.allows(READ, type_id, schema, value, &mut key)) {
                names.push(Name::Text(value.to_vec()));
            }
            if seen >= NAME_BLOCK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        Ok(traversal.go_on(state, view.names, self.entry, &row, &mut each)?.0)
    }

    /// Measures or writes the item of a named entry. If the entry is too large, prepares it for
    /// [`put_large`](Self::put_large).
    fn put_item(
        &mut self,
        spec: &mut Spec,
        view: &mut View<'_, '_>,
        name: Name,
        (out, room): (&mut Vec<u8>, &mut Room),
    ) -> Result<()> {
        let state = view.state;
        let target = match name {
            Name::Link(id) => {
                let row = node(state.read, id)?.ok_or_else(|| damaged_row("links", self.entry))?;
                let container = view.names.container(state, row.parent)?;
                let above = view.names.dn(container);
                self.name.clear();
                self.name.extend_from_slice(row.rdn);
                if !above.is_empty() {
                    self.name.push(b',');
                    self.name.extend_from_slice(above);
                }
                Some((id, row))
            }
            Name::Text(text) => {
                self.name = text;
                target_of(state, &self.name)?
            }
        };
        self.attributes.clear();
        if let Some((id, row)) = target {
            let at = view.rights.at(state, &mut self.access_traversal, id, row.parent)?;
            if at.as_ref().is_none_or(|at| at.may_browse()) {
                spec.targets.selection.rights = at;
                self.put_target(spec, view, Candidate::new(id, row))?;
            }
        }
        room.took(STREAMED_PER_ENTRY + self.attributes.len() / OCTETS_PER_VALUE);
        if self.large.is_some() {
            return Ok(());
        }
        self.size += dereferenced_len(spec.attribute.len(), self.name.len(), self.attributes.len());
        if self.writes {
            put_dereferenced(out, &spec.attribute, &self.name, self.attributes.len());
            out.extend_from_slice(&self.attributes);
        }
        Ok(())
    }

    /// Writes the requested attributes of an entry to the buffer. If they are too large for memory, sets `large`
    /// instead.
    fn put_target<'s>(
        &mut self,
        spec: &mut Spec,
        view: &mut View<'s, '_>,
        candidate: Candidate<'s>,
    ) -> Result<()> {
        let (state, writer) = (view.state, &mut spec.targets);
        let row = if writer.selection.selects_stored() { Some(candidate.entry(state)?) } else { None };
        if !writer.put_attributes(&mut self.attributes, state, view.names, &candidate, row)? {
            self.attributes.clear();
            let attributes = AttributeStream::of(state, writer, &candidate, None)?;
            self.large = Some(LargeTarget { name: self.name.clone(), attributes, has_started: false });
        }
        Ok(())
    }

    /// Continues with a large entry. Returns the entry if it is not finished.
    fn put_large(
        &mut self,
        spec: &Spec,
        view: &mut View<'_, '_>,
        mut large: LargeTarget,
        (out, room): (&mut Vec<u8>, &mut Room),
    ) -> Result<Option<LargeTarget>> {
        if !large.attributes.step((view.state, view.names), out, room)? {
            return Ok(Some(large));
        }
        if large.has_started {
            return Ok(None);
        }
        let attributes_len = large.attributes.begin_writing(view.state);
        self.size += dereferenced_len(spec.attribute.len(), large.name.len(), attributes_len);
        if !self.writes {
            return Ok(None);
        }
        put_dereferenced(out, &spec.attribute, &large.name, attributes_len);
        large.has_started = true;
        Ok(Some(large))
    }
}

/// Finds the entry with a DN, even if the entry is an alias or a referral.
fn target_of<'s>(state: TreeState<'s>, name: &[u8]) -> Result<Option<(EntryId, NodeRow<'s>)>> {
    let Some(name) = name_in(&state.catalog.schema, name) else { return Ok(None) };
    let Some(id) = state.entry_of(&name)? else { return Ok(None) };
    Ok(node(state.read, id)?.map(|row| (id, row)))
}
