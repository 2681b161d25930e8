//! What the entries that a result names are like: the dereference control (draft-masarati-ldap-deref).
//!
//! A client that reads a group wants to know who its members are; this saves it a search for each. What it is told is
//! what that search would tell it: the names are values as a result shows them, each is looked up as a base is, and of
//! the entry comes what a result would have of it. Attributes are those that are asked for and no subtypes (section
//! 2.1). A result that names more than [`DEREFERENCED_ENTRIES_MAX`] entries, or of which not all can be told in
//! [`GATHERED_MAX`] octets, has no control.

use std::sync::Arc;

use ldap::response::{put_attribute_header, put_value, value_len};
use ldap::{
    DecodeLimits, DereferencedBuf, MessageId, PartialAttribute, Response, ResponseMessage, ResultCode,
    SelectionBuf,
};
use schema::{AttributeDescription, Schema};

use super::result::ResultWriter;
use super::selection::Selection;
use crate::access::{Access, Standing};
use crate::filter::{Candidate, GroupsOf, MemberUse};
use crate::model::limits::{DEREFERENCED_ENTRIES_MAX, GATHERED_MAX};
use crate::model::name::name_in;
use crate::model::outcome::OperationError;
use crate::read::controls::DereferenceAsked;
use crate::snapshot::Snapshot;
use crate::snapshot::name_cache::NameCache;
use crate::tree::{TreeState, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Syntax of distinguished names (RFC 4517 section 3.3.9).
const DN_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.12";

/// What is wanted of entries that results name.
#[derive(Debug)]
pub(super) struct Dereferencing {
    specs: Vec<Spec>,
    standing: Option<Arc<Standing>>,
}

/// An attribute with names, and what is wanted of the entries that have them.
#[derive(Debug)]
struct Spec {
    /// As the client writes it.
    attribute: String,
    description: AttributeDescription,
    wanted: Vec<AttributeDescription>,
    /// Writes the attribute with the names, and what is wanted of an entry.
    names: ResultWriter,
    targets: ResultWriter,
}

impl Dereferencing {
    /// `None` where the control is ignored.
    ///
    /// # Errors
    /// protocolError for an attribute that does not name entries, in a critical control.
    pub(super) fn of(
        snapshot: &Snapshot,
        (access, standing): (Access, Option<&Arc<Standing>>),
        asked: &DereferenceAsked,
    ) -> Result<Option<Dereferencing>> {
        let catalog = snapshot.state().catalog;
        let schema = &*catalog.schema;
        let groups = || {
            let view = Arc::clone(standing?) as _;
            Some(GroupsOf { view, by: MemberUse::Read })
        };
        let writer = |names: &[&str]| {
            let selection = SelectionBuf::from_iter(names.iter().copied());
            let selection = Selection::of(selection.as_selection(), catalog, access);
            ResultWriter::new(MessageId(1), false, selection, (groups(), None))
        };
        let mut specs = Vec::with_capacity(asked.specs.len());
        for (attribute, wanted) in &asked.specs {
            let description = schema.parse_description(attribute).ok();
            let names_entries = |description: &AttributeDescription| {
                schema.syntax_by_id(schema.type_by_id(description.type_id).syntax).oid == DN_SYNTAX
            };
            let Some(description) = description.filter(names_entries) else {
                if !asked.is_critical {
                    return Ok(None);
                }
                return Err(protocol_error(attribute, "does not name entries"));
            };
            if specs.iter().any(|other: &Spec| other.description == description) {
                return Err(protocol_error(attribute, "is given twice"));
            }
            let known: Vec<_> =
                wanted.iter().filter_map(|name| Some((name, schema.parse_description(name).ok()?))).collect();
            let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
            // An empty list would ask for all.
            let targets = writer(if names.is_empty() { &["1.1"] } else { &names });
            specs.push(Spec {
                attribute: attribute.clone(),
                description,
                wanted: known.into_iter().map(|(_, description)| description).collect(),
                names: writer(&[attribute]),
                targets,
            });
        }
        Ok(Some(Dereferencing { specs, standing: standing.cloned() }))
    }

    /// Another one, with buffers of its own.
    pub(super) fn copy(&self) -> Dereferencing {
        let specs = self.specs.iter().map(|spec| Spec {
            attribute: spec.attribute.clone(),
            description: spec.description.clone(),
            wanted: spec.wanted.clone(),
            names: spec.names.copy(),
            targets: spec.targets.copy(),
        });
        Dereferencing { specs: specs.collect(), standing: self.standing.clone() }
    }

    /// Bytes of memory that it holds besides itself.
    pub(super) fn heap_bytes(&self) -> usize {
        let of_spec = |spec: &Spec| {
            let writers =
                [&spec.names, &spec.targets].map(|of| of.buffer_bytes() + of.selection.heap_bytes());
            let wanted = spec.wanted.capacity() * size_of::<AttributeDescription>();
            size_of::<Spec>() + spec.attribute.capacity() + wanted + writers.iter().sum::<usize>()
        };
        self.specs.iter().map(of_spec).sum()
    }

    /// The value of the control for a result, where there is one; and how many entries were looked up for it. `rights`
    /// are in the selection of the writer of results.
    pub(super) fn value<'s>(
        &mut self,
        state: TreeState<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
        selection: &Selection,
    ) -> Result<(Option<Vec<u8>>, u32)> {
        let (mut all, mut looked_up) = (DereferencedBuf::default(), 0);
        let (mut message, mut attributes) = (Vec::new(), Vec::new());
        let schema = &*state.catalog.schema;
        for spec in &mut self.specs {
            message.clear();
            spec.names.selection.rights.clone_from(&selection.rights);
            if !spec.names.put_entry(&mut message, state, names, candidate)? {
                return Ok((None, looked_up));
            }
            for attribute in attributes_of(&message) {
                if !is_one_of(schema, attribute.description, std::slice::from_ref(&spec.description)) {
                    continue;
                }
                for value in attribute.values.iter() {
                    looked_up += 1;
                    attributes.clear();
                    let wanted = (&mut spec.targets, &*spec.wanted);
                    let standing = self.standing.as_deref();
                    let is_whole = put_target(state, names, standing, wanted, value, &mut attributes)?;
                    all.push(&spec.attribute, value, &attributes);
                    if !is_whole || all.len() > GATHERED_MAX || looked_up > DEREFERENCED_ENTRIES_MAX {
                        return Ok((None, looked_up));
                    }
                }
            }
        }
        Ok(((!all.is_empty()).then(|| all.finish()), looked_up))
    }
}

fn protocol_error(attribute: &str, what: &str) -> OperationError {
    let text = format!("control dereference: {:?} {what}", ldap::Excerpt(attribute));
    OperationError::refused(ResultCode::PROTOCOL_ERROR, text)
}

/// Appends what is wanted of the entry that a value names, as far as it is there and shows. False if it is too much.
fn put_target(
    state: TreeState<'_>,
    names: &mut NameCache,
    standing: Option<&Standing>,
    (writer, wanted): (&mut ResultWriter, &[AttributeDescription]),
    value: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool> {
    let schema = &*state.catalog.schema;
    let Some(name) = name_in(schema, value) else { return Ok(true) };
    let Some(id) = state.entry_of(&name)? else { return Ok(true) };
    let Some(row) = node(state.read, id)? else { return Ok(true) };
    if let Some(standing) = standing {
        let rights = standing.at_entry(state, id)?;
        if !rights.may_browse() {
            return Ok(true);
        }
        writer.selection.rights = Some(rights);
    }
    let mut message = Vec::new();
    if !writer.put_entry(&mut message, state, names, &Candidate::new(id, row))? {
        return Ok(false);
    }
    for attribute in attributes_of(&message) {
        if is_one_of(schema, attribute.description, wanted) {
            let values = attribute.values;
            put_attribute_header(
                out,
                attribute.description,
                values.iter().map(|value| value_len(value.len())).sum(),
            );
            values.iter().for_each(|value| put_value(out, value));
        }
    }
    Ok(true)
}

/// The attributes in the message of a result.
fn attributes_of(message: &[u8]) -> impl Iterator<Item = PartialAttribute<'_>> {
    let decoded = ResponseMessage::decode(message, &DecodeLimits::default());
    let entry = match decoded.map(|decoded| decoded.response) {
        Ok(Response::SearchEntry(entry)) => Some(entry),
        _ => None,
    };
    entry.into_iter().flat_map(|entry| entry.attributes.iter())
}

/// Whether an attribute is one of these, and no subtype of one.
fn is_one_of(schema: &Schema, attribute: &str, all: &[AttributeDescription]) -> bool {
    schema.parse_description(attribute).is_ok_and(|description| all.contains(&description))
}
