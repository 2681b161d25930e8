//! Delete traces: a part of delete records for clients that keep copies of entries.

use crate::model::codec::{Decoder, put_list, put_varint};
use crate::model::rows::EntryId;

/// The entryUUIDs of deleted entries, and the ids of the entries whose links to deleted entries changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTrace {
    /// EntryUUIDs of the deleted entries. Each entry precedes its superior.
    pub uuids: Vec<[u8; 16]>,
    /// Entries with a link to a deleted entry. Some of these entries may have been deleted by the same record.
    pub named_by: Vec<EntryId>,
}

impl DeleteTrace {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_list(out, &self.uuids, |out, uuid| out.extend_from_slice(uuid));
        put_list(out, &self.named_by, |out, id| put_varint(out, id.0));
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Option<DeleteTrace> {
        Some(DeleteTrace {
            uuids: decoder.list(|d| d.take(16)?.try_into().ok())?,
            named_by: decoder.list(|d| Some(EntryId(d.varint()?)))?,
        })
    }
}
