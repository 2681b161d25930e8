//! Values of the operations that ask about access: the Get Effective Rights control, and the extended operation that
//! `pando access explain` sends to a server.

use ber::{Reader, Tag};

use crate::control::{sequence, text};

/// Get Effective Rights control value: the identity whose rights are requested (draft-ietf-ldapext-acl-model-08 section
/// 9, and the variants of existing servers).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EffectiveRightsRequest<'a> {
    /// Authorization identity as the client wrote it; `None` means the client's own identity.
    pub identity: Option<&'a str>,
    /// Attributes to report rights on, in addition to those that the search requests.
    pub attributes: Vec<&'a str>,
}

impl<'a> EffectiveRightsRequest<'a> {
    /// Decodes a control's value; returns `None` if it is malformed. Clients send two forms: the identity alone (389
    /// DS), and `SEQUENCE { identity OCTET STRING OPTIONAL, attributes SEQUENCE OF OCTET STRING OPTIONAL }` (OpenDJ).
    pub fn decode(value: &'a [u8]) -> Option<EffectiveRightsRequest<'a>> {
        let mut asked = EffectiveRightsRequest::default();
        if value.first() != Some(&SEQUENCE_OCTET) {
            let text = text(value)?;
            asked.identity = (!text.is_empty()).then_some(text);
            return Some(asked);
        }
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        if let Some(identity) = fields.optional(Tag::OCTET_STRING).ok()? {
            asked.identity = Some(text(identity)?);
        }
        if !fields.is_empty() {
            let mut names = fields.sequence(Tag::SEQUENCE).ok()?;
            while !names.is_empty() {
                asked.attributes.push(text(names.octet_string().ok()?)?);
            }
        }
        (reader.is_empty() && fields.is_empty()).then_some(asked)
    }
}

/// First octet of a SEQUENCE. No authorization identity begins with it.
const SEQUENCE_OCTET: u8 = 0x30;

/// Value of [`AccessQuestion::requester`] that means all requesters. It is not a valid authorization identity.
pub const ALL_REQUESTERS: &str = "*";

/// Question to a server: does this requester have this right, and which rule decides?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessQuestion<'a> {
    /// Authorization identity of the assumed requester (RFC 4513 section 5.2.1.8); empty for anonymous,
    /// [`ALL_REQUESTERS`] for a list of the rules about the right.
    pub requester: &'a str,
    /// Name of the right.
    pub right: &'a str,
    /// The DN of the entry.
    pub entry: &'a str,
    /// The attribute, if the right applies to an attribute.
    pub attribute: Option<&'a str>,
    /// Address from which the request would come.
    pub address: Option<&'a str>,
    /// Whether the connection would use TLS.
    pub over_tls: bool,
    /// Method of the assumed bind: `simple`, or a SASL mechanism.
    pub bound_by: Option<&'a str>,
    /// Time of the assumed request, such as `monday 08:30`.
    pub time: Option<&'a str>,
    /// The name of the listener that would receive the request.
    pub listener: Option<&'a str>,
}

const ATTRIBUTE: Tag = Tag::context(0);
const ADDRESS: Tag = Tag::context(1);
const OVER_TLS: Tag = Tag::context(2);
const BOUND_BY: Tag = Tag::context(3);
const TIME: Tag = Tag::context(4);
const LISTENER: Tag = Tag::context(5);

impl<'a> AccessQuestion<'a> {
    /// Decodes the value of an extended request; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<AccessQuestion<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let mut next = || text(fields.octet_string().ok()?);
        let (requester, right, entry) = (next()?, next()?, next()?);
        let mut named = |tag| Some(fields.optional(tag).ok()?.map(text));
        let (attribute, address) = (named(ATTRIBUTE)?, named(ADDRESS)?);
        let over_tls = fields.optional(OVER_TLS).ok()?;
        let mut named = |tag| Some(fields.optional(tag).ok()?.map(text));
        let (bound_by, time, listener) = (named(BOUND_BY)?, named(TIME)?, named(LISTENER)?);
        let is_whole = reader.is_empty() && fields.is_empty() && over_tls.is_none_or(<[u8]>::is_empty);
        let are_texts = ![attribute, address, bound_by, time, listener].contains(&Some(None));
        let (attribute, address) = (attribute.flatten(), address.flatten());
        let (bound_by, time, listener) = (bound_by.flatten(), time.flatten(), listener.flatten());
        let over_tls = over_tls.is_some();
        (is_whole && are_texts).then_some(AccessQuestion {
            requester,
            right,
            entry,
            attribute,
            address,
            over_tls,
            bound_by,
            time,
            listener,
        })
    }

    /// Encodes the value of the extended request.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            [self.requester, self.right, self.entry]
                .iter()
                .for_each(|text| writer.octet_string(text.as_bytes()));
            if let Some(attribute) = self.attribute {
                writer.element(ATTRIBUTE, attribute.as_bytes());
            }
            if let Some(address) = self.address {
                writer.element(ADDRESS, address.as_bytes());
            }
            if self.over_tls {
                writer.element(OVER_TLS, &[]);
            }
            for (tag, said) in [(BOUND_BY, self.bound_by), (TIME, self.time), (LISTENER, self.listener)] {
                if let Some(text) = said {
                    writer.element(tag, text.as_bytes());
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_control_decode() {
        let read = |value: &'static [u8]| EffectiveRightsRequest::decode(value);
        assert_eq!(read(b""), Some(EffectiveRightsRequest::default()));
        let identity = |identity| EffectiveRightsRequest { identity: Some(identity), attributes: Vec::new() };
        assert_eq!(read(b"dn:uid=a"), Some(identity("dn:uid=a")));
        assert_eq!(read(b"dn:"), Some(identity("dn:")));
        assert_eq!(read(b"\x30\x04\x04\x02u:"), Some(identity("u:")));
        assert_eq!(read(b"\x30\x00"), Some(EffectiveRightsRequest::default()));
        let named = read(b"\x30\x0d\x04\x03dn:\x30\x06\x04\x02cn\x04\x00").unwrap();
        assert_eq!((named.identity, named.attributes), (Some("dn:"), vec!["cn", ""]));
        for wrong in [
            &b"\x30"[..],
            b"\x30\x01\x04",
            b"\x30\x02\x02\x00",
            b"\x30\x00\x00",
            b"\xff",
            b"\x30\x03\x04\x01\xff",
        ] {
            assert_eq!(read_any(wrong), None, "{wrong:?}");
        }
    }

    fn read_any(value: &[u8]) -> Option<EffectiveRightsRequest<'_>> {
        EffectiveRightsRequest::decode(value)
    }

    #[test]
    fn access_questions_decode_as_encoded() {
        for (attribute, over_tls) in [(None, false), (Some("mail"), true)] {
            let address = attribute.map(|_| "::1");
            let question = AccessQuestion {
                requester: "dn:uid=a",
                right: "read",
                entry: "dc=x",
                attribute,
                address,
                over_tls,
                bound_by: attribute.map(|_| "simple"),
                time: over_tls.then_some("monday 08:30"),
                listener: over_tls.then_some("ldaps"),
            };
            let value = question.encode();
            assert_eq!(AccessQuestion::decode(&value), Some(question));
            for len in 0..value.len() {
                assert_eq!(AccessQuestion::decode(&value[..len]), None);
            }
        }
        assert_eq!(AccessQuestion::decode(b"\x30\x06\x04\x00\x04\x00\x04\x00\x80\x00"), None);
        assert_eq!(AccessQuestion::decode(b"\x30\x09\x04\x00\x04\x00\x04\x00\x80\x01\xff"), None);
    }
}
