//! `decide`: from a request to a record, or a refusal.
//!
//! Access, names, schema, constraints and passwords are all looked at here, once, on the writer. What comes out is an
//! effect that [`crate::write::apply`] cannot refuse. Nothing is written, so a refused request leaves no trace, and an
//! operation inside a batch sees those before it because `state` does.
//!
//! Every operation checks in the same order, so that answers do not depend on accidents: syntax of names, the right to
//! try at all (whoever has none learns nothing about entries), descriptions and values against the schema, the target,
//! the right to change it, the entry's final state.

use ldap::{Request, ResultCode};
use schema::AttributeDescription;
use uuid::Uuid;

use crate::access::Requester;
use crate::database::Stamp;
use crate::model::allocations::Allocations;
use crate::model::csn::{Csn, generalized_time};
use crate::model::outcome::OperationError;
use crate::model::record::{Change, Record};
use crate::read::controls::RequestControls;
use crate::tree::State;
use crate::write::add;
use crate::write::delete;
use crate::write::modify;
use crate::write::modify_dn;
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

/// What every write operation works with.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    /// The rows, with the batch's earlier operations.
    pub(crate) state: State<'a>,
    /// Who asks.
    pub(crate) requester: &'a Requester,
    /// What the controls ask for.
    pub(crate) controls: &'a RequestControls,
    /// Random bits and hashed passwords.
    pub(crate) stamp: &'a Stamp,
    /// Number and time of the change. Timestamps come from it and not from the clock, so that they never go back.
    pub(crate) csn: Csn,
}

/// Decides an add, delete, modify or modify DN request. `None` means success without anything to change.
///
/// # Errors
/// Why the request is refused; nothing has changed then.
pub fn decide(
    state: State<'_>,
    requester: &Requester,
    request: &Request<'_>,
    controls: &RequestControls,
    stamp: &Stamp,
    csn: Csn,
) -> Result<Option<Record>> {
    let deciding = Deciding { state, requester, controls, stamp, csn };
    match request {
        Request::Add(request) => add::decide(deciding, request).map(Some),
        Request::Delete(request) => delete::decide(deciding, request).map(Some),
        Request::Modify(request) => modify::decide(deciding, request),
        Request::ModifyDn(request) => modify_dn::decide(deciding, request),
        Request::Bind(_)
        | Request::Unbind
        | Request::Search(_)
        | Request::Compare(_)
        | Request::Abandon(_)
        | Request::Extended(_) => {
            Err(OperationError::refused(ResultCode::OPERATIONS_ERROR, "this request changes nothing"))
        }
    }
}

impl Deciding<'_> {
    /// The record of a change.
    pub(crate) fn record(&self, allocations: Allocations<'_>, change: Change) -> Record {
        let (attributes, class_sets) = allocations.into_parts();
        Record { csn: self.csn, requester: self.requester.dn().to_owned(), attributes, class_sets, change }
    }

    /// What the server keeps about the making of an entry: entryUUID (RFC 4530), creatorsName, createTimestamp.
    pub(crate) fn creation(&self) -> impl Iterator<Item = (AttributeDescription, Vec<u8>)> {
        let uuid = Uuid::from_bytes(self.stamp.uuid)
            .hyphenated()
            .encode_lower(&mut Uuid::encode_buffer())
            .to_owned();
        self.described(creation_values(uuid, self.requester.dn(), self.csn))
    }

    /// What the server keeps about the last change of an entry: entryCSN, modifiersName, modifyTimestamp.
    pub(crate) fn change(&self) -> impl Iterator<Item = (AttributeDescription, Vec<u8>)> {
        self.described(change_values(self.requester.dn(), self.csn))
    }

    /// Sets what the server keeps about the last change of an entry.
    pub(crate) fn stamp_change(&self, entry: &mut WorkingEntry<'_>) -> Result<()> {
        self.change().try_for_each(|(description, value)| entry.set_by_server(&description, value))
    }

    /// Operational attributes with their one value each, where the schema has them.
    fn described(
        &self,
        values: [(&'static str, String); 3],
    ) -> impl Iterator<Item = (AttributeDescription, Vec<u8>)> {
        let schema = &*self.state.catalog.schema;
        values.into_iter().filter_map(move |(name, value)| {
            let attribute_type = schema.attribute_type(name)?;
            Some((AttributeDescription::of(attribute_type.id), value.into_bytes()))
        })
    }
}

/// What the server keeps about the making of an entry, and what it is when `creator` makes one now.
pub(crate) fn creation_values(uuid: String, creator: &str, csn: Csn) -> [(&'static str, String); 3] {
    [("entryUUID", uuid), ("creatorsName", creator.to_owned()), ("createTimestamp", time(csn))]
}

/// What the server keeps about the last change of an entry, and what it is when `modifier` makes one now.
pub(crate) fn change_values(modifier: &str, csn: Csn) -> [(&'static str, String); 3] {
    [("entryCSN", csn.text()), ("modifiersName", modifier.to_owned()), ("modifyTimestamp", time(csn))]
}

fn time(csn: Csn) -> String {
    generalized_time(csn.micros / 1_000_000)
}
