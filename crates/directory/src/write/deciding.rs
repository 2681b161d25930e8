//! What every change is decided with, and what the server keeps of each by itself.

use schema::AttributeDescription;
use uuid::Uuid;

use crate::access::Requester;
use crate::catalog::Allocations;
use crate::model::csn::{Csn, generalized_time};
use crate::model::origin::Origin;
use crate::model::record::{Change, Record};
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::tree::TreeState;

/// What every write operation works with.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    /// The rows, with the batch's earlier operations.
    pub(crate) state: TreeState<'a>,
    /// Who asks.
    pub(crate) requester: &'a Requester,
    /// What the controls ask for.
    pub(crate) controls: &'a RequestControls,
    /// Random bits and hashed passwords.
    pub(crate) stamp: &'a Stamp,
    /// Number and time of the change. Timestamps come from it and not from the clock, so that they never go back.
    pub(crate) csn: Csn,
}

impl Deciding<'_> {
    /// The time by the clock in microseconds since 1970, which rules about passwords go by, as binds do. The change's
    /// own number does not go back with the clock.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.stamp.now_micros).unwrap_or(i64::MAX)
    }

    /// The record of a change.
    pub(crate) fn record(&self, allocations: Allocations<'_>, change: Change) -> Record {
        let (attributes, class_sets) = allocations.into_parts();
        Record {
            csn: self.csn,
            requester: self.requester.dn().to_owned(),
            attributes,
            class_sets,
            origin: Origin::default(),
            change,
        }
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
