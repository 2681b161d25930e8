//! Progress of the conversion of values to links, after the definition of their type received `X-LINK`.
//!
//! One row of `meta` stores the progress and the position of the last record that set the progress. `apply` ignores
//! older records.

use crate::model::codec::{Decoder, put_list, put_varint};
use crate::model::rows::{AttrId, EntryId};

/// Version of the row. The version is the first byte of the row.
const ROW_VERSION: u8 = 1;

/// State of the conversion of values to links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkProgress {
    /// Position of the record that set the state.
    pub(crate) position: u64,
    /// Attributes for which entries may still have plain values.
    pub(crate) attributes: Vec<AttrId>,
    /// The last entry examined.
    pub after: EntryId,
    /// Number of values converted to links or dangling links.
    pub values: u64,
    /// Number of converted values that name no entry.
    pub dangling: u64,
}

impl Default for LinkProgress {
    fn default() -> LinkProgress {
        LinkProgress { position: 0, attributes: Vec::new(), after: EntryId::ROOT, values: 0, dangling: 0 }
    }
}

impl LinkProgress {
    /// Returns true if entries may have plain values left.
    pub fn is_pending(&self) -> bool {
        !self.attributes.is_empty()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![ROW_VERSION];
        put_varint(&mut out, self.position);
        put_list(&mut out, &self.attributes, |out, attribute| put_varint(out, u64::from(attribute.0)));
        put_varint(&mut out, self.after.0);
        put_varint(&mut out, self.values);
        put_varint(&mut out, self.dangling);
        out
    }

    /// Decodes a row; `None` if it is damaged or its version is unknown.
    pub(crate) fn decode(bytes: &[u8]) -> Option<LinkProgress> {
        let mut decoder = Decoder(bytes);
        if decoder.byte()? != ROW_VERSION {
            return None;
        }
        let progress = LinkProgress {
            position: decoder.varint()?,
            attributes: decoder.list(|d| Some(AttrId(d.number()?)))?,
            after: EntryId(decoder.varint()?),
            values: decoder.varint()?,
            dangling: decoder.varint()?,
        };
        decoder.is_empty().then_some(progress)
    }
}

/// Entries whose plain values a record converts to links: see [`Change::Links`](crate::model::record::Change::Links).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStep {
    /// The entries.
    pub entries: Vec<EntryId>,
    /// The last entry examined; the root if the step converts only the entry of a request, out of order.
    pub after: EntryId,
    /// Whether no entry with an id above `after` is left to examine.
    pub is_last: bool,
}

impl LinkStep {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_list(out, &self.entries, |out, id| put_varint(out, id.0));
        put_varint(out, self.after.0);
        out.push(u8::from(self.is_last));
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Option<LinkStep> {
        Some(LinkStep {
            entries: decoder.list(|d| Some(EntryId(d.varint()?)))?,
            after: EntryId(decoder.varint()?),
            is_last: match decoder.byte()? {
                0 => false,
                1 => true,
                _ => return None,
            },
        })
    }
}
