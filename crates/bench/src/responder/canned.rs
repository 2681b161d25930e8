//! Parses the necessary fields of a request, and writes the fixed answers.

use ber::{BerError, Tag};
use ldap::{Controls, LdapResult, MessageId, ResponseOp, ResultCode, request_tag, response};

use crate::driver::CANNED_DN;

/// A request's id and operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Request {
    id: i32,
    tag: u8,
}

/// Kind of answer to send: the answer that the driver expects, or a different answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reply {
    Right,
    Wrong,
}

impl Request {
    /// Reads the envelope of the message at the beginning of the octets. Returns the request and the length of the
    /// message; `None` if the message is incomplete.
    pub(super) fn read(octets: &[u8]) -> Result<Option<(Request, usize)>, BerError> {
        let Some(len) = ber::read_frame_len(octets)? else { return Ok(None) };
        let Some(message) = octets.get(..len) else { return Ok(None) };
        let mut envelope = ber::Reader::new(message).sequence(Tag::SEQUENCE)?;
        let id = i32::try_from(envelope.integer()?).unwrap_or_default();
        let tag = envelope.peek_tag().ok_or(BerError::Truncated)?;
        Ok(Some((Request { id, tag: tag.0 }, len)))
    }

    pub(super) fn is_unbind(self) -> bool {
        self.tag == request_tag::UNBIND.0
    }

    pub(super) fn is_search(self) -> bool {
        self.tag == request_tag::SEARCH.0
    }

    pub(super) fn has_answer(self) -> bool {
        ResponseOp::answering_tag(Tag(self.tag)).is_some()
    }

    /// Appends the answer to the request.
    pub(super) fn answer(self, reply: Reply, out: &mut Vec<u8>) {
        let id = MessageId(self.id);
        let Some(op) = ResponseOp::answering_tag(Tag(self.tag)) else { return };
        if op == ResponseOp::SearchDone {
            let dn = if reply == Reply::Right { CANNED_DN } else { "cn=wrong" };
            let lens = response::SearchEntryLens { dn_len: dn.len(), attributes_len: 0, controls_len: 0 };
            response::put_search_entry_header(out, id, lens);
            out.extend_from_slice(dn.as_bytes());
            response::put_attributes_header(out, 0);
        }
        let code = if op == ResponseOp::Compare { ResultCode::COMPARE_TRUE } else { ResultCode::SUCCESS };
        response::encode_result(out, id, op, &LdapResult::new(code, ""), Controls::NONE);
    }
}
