//! Inputs of the functions that check requests and build records, and the operational attributes that the server
//! maintains.

use schema::AttributeDescription;
use uuid::Uuid;

use crate::access::RequestContext;
use crate::catalog::Allocations;
use crate::model::csn::{Csn, generalized_time};
use crate::model::origin::Origin;
use crate::model::record::{Change, Record};
use crate::model::stamp::Stamp;
use crate::read::controls::RequestControls;
use crate::tree::TreeState;

/// Inputs of every write operation.
#[derive(Clone, Copy)]
pub(crate) struct Deciding<'a> {
    /// Rows, including changes of earlier operations in the batch.
    pub(crate) state: TreeState<'a>,
    /// Requester and connection of the request.
    pub(crate) context: &'a RequestContext<'a>,
    /// Controls of the request.
    pub(crate) controls: &'a RequestControls,
    /// Random bits, hashed passwords and the time.
    pub(crate) stamp: &'a Stamp,
    /// CSN of the change. Timestamps are taken from the CSN instead of the clock, so that timestamps never decrease.
    pub(crate) csn: Csn,
}

impl Deciding<'_> {
    /// Returns the clock time in microseconds since 1970. Password rules and binds use the clock time. Unlike the
    /// change's CSN, the clock time decreases if the clock is set back.
    pub(crate) fn now(&self) -> i64 {
        i64::try_from(self.stamp.now_micros).unwrap_or(i64::MAX)
    }

    /// Builds the record of a change.
    pub(crate) fn record(&self, allocations: Allocations<'_>, change: Change) -> Record {
        let (attributes, class_sets) = allocations.into_parts();
        Record {
            csn: self.csn,
            requester: self.context.requester.dn().to_owned(),
            attributes,
            class_sets,
            origin: Origin::default(),
            change,
        }
    }

    /// Returns the attributes that record an entry's creation: entryUUID (RFC 4530), creatorsName, createTimestamp.
    pub(crate) fn creation(&self) -> impl Iterator<Item = (AttributeDescription, Vec<u8>)> {
        let uuid = Uuid::from_bytes(self.stamp.uuid)
            .hyphenated()
            .encode_lower(&mut Uuid::encode_buffer())
            .to_owned();
        self.described(creation_values(uuid, self.context.requester.dn(), self.csn))
    }

    /// Returns the attributes that record an entry's last change: entryCSN, modifiersName, modifyTimestamp.
    pub(crate) fn change(&self) -> impl Iterator<Item = (AttributeDescription, Vec<u8>)> {
        self.described(change_values(self.context.requester.dn(), self.csn))
    }

    /// Returns operational attributes with one value each. Skips attributes that the schema does not define.
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

/// Returns the attributes that record an entry's creation by `creator`, with their values.
pub(crate) fn creation_values(uuid: String, creator: &str, csn: Csn) -> [(&'static str, String); 3] {
    [("entryUUID", uuid), ("creatorsName", creator.to_owned()), ("createTimestamp", time(csn))]
}

/// Returns the attributes that record an entry's change by `modifier`, with their values.
pub(crate) fn change_values(modifier: &str, csn: Csn) -> [(&'static str, String); 3] {
    [("entryCSN", csn.text()), ("modifiersName", modifier.to_owned()), ("modifyTimestamp", time(csn))]
}

fn time(csn: Csn) -> String {
    generalized_time(csn.micros / 1_000_000)
}
