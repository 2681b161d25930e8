//! The dereference control (draft-masarati-ldap-deref): returns attributes of the entries that a result names.
//!
//! For example, a client that reads a group receives attributes of the members and needs no further search for each
//! member. Only values that the requester may read are dereferenced. A value is a DN and denotes the entry with that
//! DN, even if the entry is an alias or a referral. Access rules restrict the attributes of the named entry in the
//! same way as the attributes of a result. Only the requested attributes are returned, not their subtypes (section
//! 2.1).
//!
//! A result with too much data (see [`Dereferencing::gather`]) is sent as a stream, including its control. A result is
//! never sent without its control, because the client would conclude that the result names no entries.

mod name_traversal;

use ber::{Tag, put_element};
use ldap::ResultCode;
use schema::AttributeDescription;

use super::SearchInputs;
use super::attribute_stream::Room;
use super::result::ResultWriter;
use super::selection::Selection;
use crate::access::{EffectiveRights, RequestContext, Requester};
use crate::filter::{Candidate, MemberUse};
use crate::model::client_link::ClientLink;
use crate::model::limits::{DEREFERENCED_AT_ONCE_MAX, GATHERED_MAX, STREAMED_PER_ENTRY};
use crate::model::outcome::OperationError;
use crate::read::controls::DereferenceOptions;
use crate::snapshot::Snapshot;
use crate::snapshot::name_cache::NameCache;
use crate::tree::TreeState;
pub(super) use name_traversal::NameTraversal;

type Result<T> = std::result::Result<T, OperationError>;

/// Syntax of distinguished names (RFC 4517 section 3.3.9).
const DN_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.12";

/// Dereference request of a search.
#[derive(Debug)]
pub(super) struct Dereferencing {
    specs: Vec<Spec>,
    requester: Requester,
    link: Option<ClientLink>,
    /// Effective rights of the requester.
    rights: EffectiveRights,
}

/// An attribute that contains DNs, and the attributes to return from the entries with these DNs.
#[derive(Debug)]
struct Spec {
    /// The description of the attribute that contains DNs, as the client wrote it.
    attribute: String,
    description: AttributeDescription,
    /// Selects the attribute that contains the DNs.
    names: ResultWriter,
    /// Writes the requested attributes of a named entry.
    targets: ResultWriter,
}

impl Dereferencing {
    /// Creates the state of the control; `None` if the search ignores the control.
    ///
    /// # Errors
    /// protocolError for a critical control that names an attribute that does not contain DNs.
    pub(super) fn of(
        inputs: &SearchInputs<'_>,
        requested: &DereferenceOptions,
    ) -> Result<Option<Dereferencing>> {
        let SearchInputs { context, rights, .. } = *inputs;
        let catalog = inputs.snapshot.state().catalog;
        let schema = &*catalog.schema;
        let writer = |wanted: Vec<AttributeDescription>| {
            let selection = Selection::exactly(wanted, catalog, rights.shown());
            ResultWriter::new(ldap::MessageId(1), false, selection, rights.groups(MemberUse::Read))
        };
        let mut specs = Vec::with_capacity(requested.specs.len());
        for (attribute, wanted) in &requested.specs {
            let description = schema.parse_description(attribute).ok();
            let names_entries = |description: &AttributeDescription| {
                schema.syntax_by_id(schema.type_by_id(description.type_id).syntax).oid == DN_SYNTAX
            };
            let Some(description) = description.filter(names_entries) else {
                if !requested.is_critical {
                    return Ok(None);
                }
                return Err(protocol_error(attribute, "does not name entries"));
            };
            if specs.iter().any(|other: &Spec| other.description == description) {
                return Err(protocol_error(attribute, "is given twice"));
            }
            let known = wanted.iter().filter_map(|name| schema.parse_description(name).ok()).collect();
            specs.push(Spec {
                attribute: attribute.clone(),
                names: writer(vec![description.clone()]),
                description,
                targets: writer(known),
            });
        }
        let (requester, link) = (context.requester.clone(), context.link);
        Ok(Some(Dereferencing { specs, requester, link, rights: rights.clone() }))
    }

    /// Sets the current effective rights of the requester.
    pub(super) fn permit(&mut self, rights: &EffectiveRights) {
        for spec in &mut self.specs {
            for writer in [&mut spec.names, &mut spec.targets] {
                writer.groups = rights.groups(MemberUse::Read);
            }
        }
        self.rights = rights.clone();
    }

    /// Returns a copy with buffers of its own.
    pub(super) fn copy(&self) -> Dereferencing {
        let specs = self.specs.iter().map(|spec| Spec {
            attribute: spec.attribute.clone(),
            description: spec.description.clone(),
            names: spec.names.copy(),
            targets: spec.targets.copy(),
        });
        Dereferencing {
            specs: specs.collect(),
            requester: self.requester.clone(),
            link: self.link,
            rights: self.rights.clone(),
        }
    }

    /// Returns a copy that shares nothing with other searches, so that both passes of a stream give the same result on
    /// one snapshot. Otherwise another search could change shared effective rights between the passes, on a newer
    /// snapshot.
    ///
    /// # Errors
    /// busy if access rules have begun or ceased to restrict the requester.
    pub(super) fn on_its_own(&self, snapshot: &Snapshot) -> Result<Dereferencing> {
        let mut own = self.copy();
        let context = RequestContext::new(&self.requester, self.link);
        let rights = EffectiveRights::of(snapshot.state(), &context)?;
        if rights.is_restricted() != self.rights.is_restricted() {
            let text = "whether access rules bind you has just changed: ask again";
            return Err(OperationError::refused(ResultCode::BUSY, text));
        }
        own.permit(&rights);
        Ok(own)
    }

    /// Returns the memory that the state uses, without itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let of_spec = |spec: &Spec| {
            let writers =
                [&spec.names, &spec.targets].map(|of| of.buffer_bytes() + of.selection.heap_bytes());
            size_of::<Spec>() + spec.attribute.capacity() + writers.iter().sum::<usize>()
        };
        self.specs.iter().map(of_spec).sum()
    }

    /// Returns the value of the control for a result, and the number of entries looked up for it. The value is empty if
    /// the result names no entries. Returns `None` if there are more than [`DEREFERENCED_AT_ONCE_MAX`] names or
    /// [`GATHERED_MAX`] octets. `selection` holds the requester's rights at the entry of the result.
    pub(super) fn gather<'s>(
        &mut self,
        state: TreeState<'s>,
        names: &mut NameCache,
        candidate: &Candidate<'s>,
        selection: &Selection,
    ) -> Result<Option<(Vec<u8>, u32)>> {
        let values = DEREFERENCED_AT_ONCE_MAX * STREAMED_PER_ENTRY;
        let (mut room, mut items) = (Room { values, out_end: GATHERED_MAX }, Vec::new());
        let mut traversal = NameTraversal::writing(candidate.id, selection.rights.clone());
        if !traversal.step(self, (state, names), &mut items, &mut room)? {
            return Ok(None);
        }
        let looked_up = (values - room.values).div_ceil(STREAMED_PER_ENTRY);
        let mut value = Vec::new();
        if !items.is_empty() {
            put_element(&mut value, Tag::SEQUENCE, &items);
        }
        Ok(Some((value, u32::try_from(looked_up).unwrap_or(u32::MAX))))
    }
}

fn protocol_error(attribute: &str, what: &str) -> OperationError {
    let text = format!("control dereference: {:?} {what}", ldap::Excerpt(attribute));
    OperationError::refused(ResultCode::PROTOCOL_ERROR, text)
}
