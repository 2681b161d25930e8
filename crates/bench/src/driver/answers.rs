//! Answers, parsed in the receive buffer without copying or allocating. Only the parts that are checked are parsed.

use ber::{BerError, Reader, Tag};
use ldap::response::response_tag;
use ldap::{PagedResults, oids};

use super::request::CONTROLS;

/// A whole message from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer<'a> {
    pub(crate) id: i32,
    pub(crate) tag: u8,
    content: &'a [u8],
    /// Octets after the protocol operation: the controls, if the message has any.
    behind: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Returns the message at the beginning of the octets, and its length; `None` if it is incomplete.
    ///
    /// # Errors
    /// The octets are not an LDAP message.
    #[inline]
    pub(crate) fn read(octets: &'a [u8]) -> Result<Option<(Answer<'a>, usize)>, BerError> {
        // Fast path: most answers are shorter than 128 octets.
        let (len, envelope) = match octets {
            [0x30, len @ 0..0x80, rest @ ..] => {
                let Some(envelope) = rest.get(..usize::from(*len)) else { return Ok(None) };
                (usize::from(*len) + 2, envelope)
            }
            _ => {
                let Some(len) = ber::read_frame_len(octets)? else { return Ok(None) };
                let Some(message) = octets.get(..len) else { return Ok(None) };
                (len, Reader::new(message).element(Tag::SEQUENCE)?)
            }
        };
        let mut envelope = Reader::new(envelope);
        let id = envelope.integer()?;
        let (tag, content) = envelope.any()?;
        let id = i32::try_from(id).unwrap_or(-1);
        Ok(Some((Answer { id, tag: tag.0, content, behind: envelope.remaining() }, len)))
    }

    pub(crate) fn is_entry(&self) -> bool {
        self.tag == response_tag::SEARCH_ENTRY.0
    }

    /// Returns true if this is the final response of the operation, not an entry, reference or intermediate response.
    pub(crate) fn is_final(&self) -> bool {
        !self.is_entry()
            && self.tag != response_tag::SEARCH_REFERENCE.0
            && self.tag != response_tag::INTERMEDIATE.0
    }

    /// Returns the DN of an entry.
    pub(crate) fn entry_dn(&self) -> Result<&'a [u8], BerError> {
        Reader::new(self.content).octet_string()
    }

    /// Returns true if an entry has this attribute with this value, ignoring the case of name and value.
    pub(crate) fn has_value(&self, name: &[u8], value: &[u8]) -> Result<bool, BerError> {
        let mut entry = Reader::new(self.content);
        entry.octet_string()?;
        let mut attributes = entry.sequence(Tag::SEQUENCE)?;
        while !attributes.is_empty() {
            let mut attribute = attributes.sequence(Tag::SEQUENCE)?;
            if attribute.octet_string()?.eq_ignore_ascii_case(name) {
                let mut values = attribute.sequence(Tag::SET)?;
                while !values.is_empty() {
                    if values.octet_string()?.eq_ignore_ascii_case(value) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Returns the code and the diagnostic message of a final answer.
    pub(crate) fn result(&self) -> Result<(u32, &'a [u8]), BerError> {
        let mut result = Reader::new(self.content);
        let code = result.enumerated()?;
        result.octet_string()?;
        Ok((u32::try_from(code).unwrap_or(u32::MAX), result.octet_string()?))
    }

    /// Returns the cookie of the next page of a search (RFC 2696): empty on the last page, `None` if the answer has no
    /// paged results control.
    pub(crate) fn cookie(&self) -> Option<&'a [u8]> {
        let mut controls = Reader::new(self.behind).sequence(CONTROLS).ok()?;
        while let Ok(mut control) = controls.sequence(Tag::SEQUENCE) {
            let is_page = control.octet_string().ok()? == oids::PAGED_RESULTS.as_bytes();
            control.optional(Tag::BOOLEAN).ok()?;
            if is_page {
                let value = control.octet_string().ok()?;
                return PagedResults::decode(value).map(|page| page.cookie);
            }
        }
        None
    }

    /// Returns the server's SASL credentials from the response to a bind (RFC 4511 section 4.2.2).
    pub(crate) fn sasl_credentials(&self) -> Option<&'a [u8]> {
        let mut result = Reader::new(self.content);
        (0..3).try_for_each(|_| result.any().map(drop)).ok()?;
        while let Ok((tag, content)) = result.any() {
            if tag == Tag::context(7) {
                return Some(content);
            }
        }
        None
    }
}

/// Returns true if two DNs are equal except for case and spaces around separators. RFC 4514 allows more variations, but
/// servers return DNs in the form in which they were added.
pub(crate) fn is_same_dn(left: &[u8], right: &[u8]) -> bool {
    if left.eq_ignore_ascii_case(right) {
        return true;
    }
    let plain = |dn: &[u8]| -> Vec<u8> {
        let mut out: Vec<u8> = Vec::with_capacity(dn.len());
        for octet in dn {
            let is_after_separator = matches!(out.last(), None | Some(b',' | b'=' | b'+'));
            match octet {
                b' ' if is_after_separator => {}
                b',' | b'=' | b'+' => {
                    while out.last() == Some(&b' ') {
                        out.pop();
                    }
                    out.push(*octet);
                }
                _ => out.push(octet.to_ascii_lowercase()),
            }
        }
        out
    };
    plain(left) == plain(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldap::{Control, Controls, ControlsBuf, LdapResult, MessageId, ResponseOp, ResultCode, response};

    #[test]
    fn answers_are_parsed() {
        let mut octets = Vec::new();
        let (dn, value) = ("cn=a,dc=b", b"x".repeat(200));
        let values_len = response::value_len(value.len());
        let attributes_len = response::attribute_len(2, values_len);
        let lens = response::SearchEntryLens { dn_len: dn.len(), attributes_len, controls_len: 0 };
        response::put_search_entry_header(&mut octets, MessageId(300), lens);
        octets.extend_from_slice(dn.as_bytes());
        response::put_attributes_header(&mut octets, attributes_len);
        response::put_attribute_header(&mut octets, "cn", values_len);
        response::put_value(&mut octets, &value);
        let entry_len = octets.len();
        let result = LdapResult::new(ResultCode::BUSY, "later");
        response::encode_bind_response(
            &mut octets,
            MessageId(7),
            &result,
            Some(b"challenge"),
            Controls::NONE,
        );

        for cut in 0..entry_len {
            assert_eq!(Answer::read(&octets[..cut]), Ok(None));
        }
        let (entry, len) = Answer::read(&octets).unwrap().unwrap();
        assert_eq!((entry.id, entry.is_entry(), entry.is_final(), len), (300, true, false, entry_len));
        assert_eq!(entry.entry_dn(), Ok(dn.as_bytes()));
        assert_eq!(entry.has_value(b"CN", &value), Ok(true));
        assert_eq!(entry.has_value(b"cn", b"y"), Ok(false));
        let (bind, len) = Answer::read(&octets[entry_len..]).unwrap().unwrap();
        assert_eq!((bind.id, bind.tag, len), (7, ResponseOp::Bind.tag().0, octets.len() - entry_len));
        assert_eq!(bind.result(), Ok((ResultCode::BUSY.0, &b"later"[..])));
        assert_eq!(bind.sasl_credentials(), Some(&b"challenge"[..]));
        assert!(Answer::read(b"\x16\x03\x01").is_err());
        assert!(Answer::read(b"\x30\x03\x02\x01\x01").is_err());
    }

    #[test]
    fn pages_contain_the_cookie_of_the_next_page() {
        let cookie_in = |controls: &[(&str, &[u8])]| {
            let controls =
                controls.iter().map(|&(oid, value)| Control { oid, critical: false, value: Some(value) });
            let controls = ControlsBuf::from_iter(controls);
            let mut octets = Vec::new();
            let (op, result) = (ResponseOp::SearchDone, LdapResult::SUCCESS);
            response::encode_result(&mut octets, MessageId(7), op, &result, controls.as_controls());
            let (answer, _) = Answer::read(&octets).unwrap().unwrap();
            assert_eq!(answer.result(), Ok((0, &b""[..])));
            answer.cookie().map(<[u8]>::to_vec)
        };
        let value = |cookie: &[u8]| PagedResults { size: 7, cookie }.encode();
        assert_eq!(cookie_in(&[]), None);
        assert_eq!(cookie_in(&[("1.2", b"x")]), None);
        assert_eq!(cookie_in(&[(oids::PAGED_RESULTS, b"x")]), None);
        assert_eq!(cookie_in(&[("1.2", b"x"), (oids::PAGED_RESULTS, &value(b"abc"))]), Some(b"abc".to_vec()));
        assert_eq!(cookie_in(&[(oids::PAGED_RESULTS, &value(b""))]), Some(Vec::new()));
    }

    #[test]
    fn dns_are_compared_regardless_of_case_and_spaces() {
        for (left, right, is_same) in [
            ("uid=a,dc=b", "UID=A,DC=b", true),
            ("uid=a,dc=b", "uid=a, dc = b", true),
            ("cn=a b,dc=b", "cn=ab,dc=b", false),
            ("cn=a", "cn=b", false),
        ] {
            assert_eq!(is_same_dn(left.as_bytes(), right.as_bytes()), is_same, "{left} {right}");
        }
    }
}
