//! The values of the virtual list view controls (draft-ietf-ldapext-ldapv3-vlv-09 section 6).

use ber::{Reader, Tag};

use crate::ResultCode;
use crate::control::sequence;

/// Tag of a target given by its offset.
const BY_OFFSET: Tag = Tag::context_constructed(0);
/// Tag of a target given by a value of the sort key.
const BY_VALUE: Tag = Tag::context(1);

/// Virtual list view request: the part of a list to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListViewRequest<'a> {
    /// Number of entries before the target.
    pub before: u32,
    /// Number of entries after the target.
    pub after: u32,
    /// The target entry.
    pub target: ListViewTarget<'a>,
    /// Context ID from an earlier response of the server.
    pub context: Option<&'a [u8]>,
}

/// Target entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListViewTarget<'a> {
    /// The entry at `offset`. Offsets start at 1, and are relative to `count`. If `count` is 0, the offset is relative
    /// to the server's size of the list.
    Offset {
        /// Offset of the target in the list.
        offset: u32,
        /// Size of the list, as estimated by the client.
        count: u32,
    },
    /// The first entry whose sort key is equal to or greater than this value.
    Value(&'a [u8]),
}

/// Virtual list view response: the returned part of a list, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListViewResult {
    /// Position of the target, from 1.
    pub position: u32,
    /// Number of entries in the list.
    pub count: u32,
    /// Success, or the reason why the part is not returned.
    pub code: ResultCode,
}

impl<'a> ListViewRequest<'a> {
    /// Decodes the value of a request control; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<ListViewRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let (before, after) = (number(&mut fields)?, number(&mut fields)?);
        let target = match fields.peek_tag()? {
            BY_OFFSET => {
                let mut place = fields.sequence(BY_OFFSET).ok()?;
                let (offset, count) = (number(&mut place)?, number(&mut place)?);
                if !place.is_empty() {
                    return None;
                }
                ListViewTarget::Offset { offset, count }
            }
            _ => ListViewTarget::Value(fields.element(BY_VALUE).ok()?),
        };
        let context = fields.optional(Tag::OCTET_STRING).ok()?;
        (fields.is_empty() && reader.is_empty()).then_some(ListViewRequest { before, after, target, context })
    }

    /// Encodes the value of a request control.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.integer(self.before.into());
            writer.integer(self.after.into());
            match self.target {
                ListViewTarget::Offset { offset, count } => {
                    let place = writer.begin(BY_OFFSET);
                    writer.integer(offset.into());
                    writer.integer(count.into());
                    writer.end(place);
                }
                ListViewTarget::Value(asserted) => writer.element(BY_VALUE, asserted),
            }
            if let Some(context) = self.context {
                writer.octet_string(context);
            }
        })
    }
}

impl ListViewResult {
    /// Decodes the value of a response control; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<ListViewResult> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let (position, count) = (number(&mut fields)?, number(&mut fields)?);
        let code = ResultCode(u32::try_from(fields.enumerated().ok()?).ok()?);
        fields.optional(Tag::OCTET_STRING).ok()?;
        (fields.is_empty() && reader.is_empty()).then_some(ListViewResult { position, count, code })
    }

    /// Encodes the value of a response control, without a context ID.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.integer(self.position.into());
            writer.integer(self.count.into());
            writer.enumerated(self.code.0.into());
        })
    }
}

/// Reads a number from 0 to maxInt.
fn number(fields: &mut Reader<'_>) -> Option<u32> {
    u32::try_from(i32::try_from(fields.integer().ok()?).ok()?).ok()
}
