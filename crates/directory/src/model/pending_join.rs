//! Pending rules: rules of `auto_members` for which existing entries are still to be examined and added to groups.
//!
//! One row of `meta` stores all pending rules and the position of the last record that set them. `apply` ignores older
//! records.

use crate::model::codec::{Decoder, put_bytes, put_list, put_varint};
use crate::model::rows::EntryId;

/// A rule that was added or changed, with its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingJoin {
    /// Text of the rule in the settings.
    pub rule: String,
    /// The last entry examined.
    pub after: EntryId,
    /// Number of entries added to the group.
    pub joined: u64,
    /// Reason why an entry could not be added to the group; empty if there is none. After a refusal, no more entries
    /// are added.
    pub refusal: String,
}

impl PendingJoin {
    /// Returns the pending rule for a new rule, without progress.
    pub fn new(rule: String) -> PendingJoin {
        PendingJoin { rule, after: EntryId::ROOT, joined: 0, refusal: String::new() }
    }
}

/// Version of the row. The version is the first byte of the row.
const ROW_VERSION: u8 = 1;

/// All pending rules, in the order in which they are processed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingJoins {
    /// Position of the record that set the list.
    pub(crate) position: u64,
    pub(crate) list: Vec<PendingJoin>,
}

impl PendingJoins {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![ROW_VERSION];
        put_varint(&mut out, self.position);
        put_joins(&mut out, &self.list);
        out
    }

    /// Decodes a row; `None` if it is damaged or its version is unknown.
    pub(crate) fn decode(bytes: &[u8]) -> Option<PendingJoins> {
        let mut decoder = Decoder(bytes);
        if decoder.byte()? != ROW_VERSION {
            return None;
        }
        let (position, list) = (decoder.varint()?, take_joins(&mut decoder)?);
        decoder.is_empty().then_some(PendingJoins { position, list })
    }
}

pub(crate) fn put_joins(out: &mut Vec<u8>, list: &[PendingJoin]) {
    put_list(out, list, |out, join| {
        put_bytes(out, join.rule.as_bytes());
        put_varint(out, join.after.0);
        put_varint(out, join.joined);
        put_bytes(out, join.refusal.as_bytes());
    });
}

pub(crate) fn take_joins(decoder: &mut Decoder<'_>) -> Option<Vec<PendingJoin>> {
    decoder.list(|d| {
        let (rule, after) = (d.string()?, EntryId(d.varint()?));
        Some(PendingJoin { rule, after, joined: d.varint()?, refusal: d.string()? })
    })
}
