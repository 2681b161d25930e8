//! Part of a delete record for clients that keep copies of entries.

use crate::model::codec::{Decoder, put_list, put_varint};
use crate::model::rows::EntryId;

/// EntryUUIDs of deleted entries, and the entries that changed with the delete because they named one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTrace {
    /// EntryUUIDs. Each entry precedes its superior.
    pub uuids: Vec<[u8; 16]>,
    /// Entries that named a deleted entry. Some of them may be deleted too.
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
