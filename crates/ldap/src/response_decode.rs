//! Decoding of a server's responses, for clients.

use std::fmt;

use ber::{Reader, Tag};

use crate::decode::{Body, BodyError, InComponent, checked_text, string, text};
use crate::message::Envelope;
use crate::response::{
    INTERMEDIATE_NAME_TAG, INTERMEDIATE_VALUE_TAG, REFERRAL_TAG, RESPONSE_NAME_TAG, RESPONSE_VALUE_TAG,
    SERVER_SASL_CREDENTIALS_TAG, response_tag,
};
use crate::{Attributes, Controls, DecodeError, DecodeErrorKind, DecodeLimits, MessageId, ResultCode};

/// A response with its envelope. Borrows the buffer it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseMessage<'a> {
    /// Id of the request; [`MessageId::UNSOLICITED`] for notifications.
    pub id: MessageId,
    /// The response.
    pub response: Response<'a>,
    /// The controls, in the order sent.
    pub controls: Controls<'a>,
}

/// Response of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response<'a> {
    /// BindResponse.
    Bind {
        /// Result of the bind.
        result: ReceivedResult<'a>,
        /// The server's part of a SASL exchange.
        server_sasl_credentials: Option<&'a [u8]>,
    },
    /// SearchResultEntry.
    SearchEntry(SearchEntry<'a>),
    /// SearchResultReference.
    SearchReference(Uris<'a>),
    /// SearchResultDone.
    SearchDone(ReceivedResult<'a>),
    /// ModifyResponse.
    Modify(ReceivedResult<'a>),
    /// AddResponse.
    Add(ReceivedResult<'a>),
    /// DelResponse.
    Delete(ReceivedResult<'a>),
    /// ModifyDNResponse.
    ModifyDn(ReceivedResult<'a>),
    /// CompareResponse.
    Compare(ReceivedResult<'a>),
    /// ExtendedResponse, including unsolicited notifications.
    Extended {
        /// Result of the operation.
        result: ReceivedResult<'a>,
        /// The response's OID.
        name: Option<&'a str>,
        /// Value, as the OID defines it.
        value: Option<&'a [u8]>,
    },
    /// IntermediateResponse.
    Intermediate {
        /// The response's OID.
        name: Option<&'a str>,
        /// Value, as the OID defines it.
        value: Option<&'a [u8]>,
    },
}

impl<'a> Response<'a> {
    /// Returns the result, if this is the final response of its operation.
    pub const fn result(&self) -> Option<&ReceivedResult<'a>> {
        match self {
            Response::Bind { result, .. }
            | Response::SearchDone(result)
            | Response::Modify(result)
            | Response::Add(result)
            | Response::Delete(result)
            | Response::ModifyDn(result)
            | Response::Compare(result)
            | Response::Extended { result, .. } => Some(result),
            Response::SearchEntry(_) | Response::SearchReference(_) | Response::Intermediate { .. } => None,
        }
    }
}

/// An LDAPResult as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedResult<'a> {
    /// Result code.
    pub code: ResultCode,
    /// DN of the lowest existing superior of the named entry; usually empty, because only a few result codes have it.
    pub matched_dn: &'a str,
    /// Human-readable text; may be empty.
    pub diagnostic: &'a str,
    /// Referral URLs.
    pub referrals: Uris<'a>,
}

/// A search result entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchEntry<'a> {
    /// The entry's DN, unparsed.
    pub object_name: &'a str,
    /// Requested attributes that the requester may see.
    pub attributes: Attributes<'a>,
}

/// URIs of a referral or reference: validated LDAPStrings.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Uris<'a> {
    content: &'a [u8],
}

impl<'a> Uris<'a> {
    /// Returns the URIs in the order sent.
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let mut reader = Reader::new(self.content);
        std::iter::from_fn(move || reader.octet_string().ok().map(checked_text))
    }

    /// Returns true if there are no URIs.
    pub const fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    fn decode(content: &'a [u8]) -> Body<Uris<'a>> {
        let mut reader = Reader::new(content);
        while !reader.is_empty() {
            string(&mut reader).component("Referral.uri")?;
        }
        Ok(Uris { content })
    }
}

impl<'a> ResponseMessage<'a> {
    /// Decodes one whole message: the octets whose number [`frame_len`](crate::frame_len) returned. Does not allocate.
    ///
    /// # Errors
    /// The first error in the message, with the id and the operation's tag if they could be read.
    pub fn decode(bytes: &'a [u8], limits: &DecodeLimits) -> Result<ResponseMessage<'a>, DecodeError> {
        let mut id = None;
        let mut request_tag = None;
        let mut decode = || -> Body<ResponseMessage<'a>> {
            let envelope = Envelope::read(bytes, limits, |known_id, known_tag| {
                id = Some(known_id);
                request_tag = known_tag;
            })?;
            let response = Response::decode(envelope.tag, envelope.content, limits)?;
            let controls = Controls::decode(envelope.controls, limits)?;
            Ok(ResponseMessage { id: envelope.id, response, controls })
        };
        decode().map_err(|BodyError { component, kind }| DecodeError { id, request_tag, component, kind })
    }
}

impl<'a> Response<'a> {
    fn decode(tag: Tag, content: &'a [u8], limits: &DecodeLimits) -> Body<Response<'a>> {
        let mut reader = Reader::new(content);
        let plain = |mut reader: Reader<'a>| -> Body<ReceivedResult<'a>> {
            let result = ReceivedResult::decode(&mut reader)?;
            reader.skip_rest().component("LDAPResult")?;
            Ok(result)
        };
        match tag {
            response_tag::SEARCH_ENTRY => SearchEntry::decode(reader, limits).map(Response::SearchEntry),
            response_tag::SEARCH_REFERENCE => Uris::decode(content).map(Response::SearchReference),
            response_tag::SEARCH_DONE => plain(reader).map(Response::SearchDone),
            response_tag::MODIFY => plain(reader).map(Response::Modify),
            response_tag::ADD => plain(reader).map(Response::Add),
            response_tag::DELETE => plain(reader).map(Response::Delete),
            response_tag::MODIFY_DN => plain(reader).map(Response::ModifyDn),
            response_tag::COMPARE => plain(reader).map(Response::Compare),
            response_tag::BIND => {
                let result = ReceivedResult::decode(&mut reader)?;
                let server_sasl_credentials =
                    reader.optional(SERVER_SASL_CREDENTIALS_TAG).component("BindResponse.serverSaslCreds")?;
                reader.skip_rest().component("BindResponse")?;
                Ok(Response::Bind { result, server_sasl_credentials })
            }
            response_tag::EXTENDED => {
                let result = ReceivedResult::decode(&mut reader)?;
                let (name, value) = name_and_value(reader, RESPONSE_NAME_TAG, RESPONSE_VALUE_TAG)?;
                Ok(Response::Extended { result, name, value })
            }
            response_tag::INTERMEDIATE => {
                let (name, value) = name_and_value(reader, INTERMEDIATE_NAME_TAG, INTERMEDIATE_VALUE_TAG)?;
                Ok(Response::Intermediate { name, value })
            }
            _ => Err(BodyError::new("LDAPMessage.protocolOp", DecodeErrorKind::UnknownOperation)),
        }
    }
}

impl<'a> ReceivedResult<'a> {
    fn decode(reader: &mut Reader<'a>) -> Body<ReceivedResult<'a>> {
        let number = reader.enumerated().component("LDAPResult.resultCode")?;
        let code = u32::try_from(number)
            .map_err(|_| DecodeErrorKind::OutOfRange(number))
            .component("LDAPResult.resultCode")?;
        let matched_dn = string(reader).component("LDAPResult.matchedDN")?;
        let diagnostic = string(reader).component("LDAPResult.diagnosticMessage")?;
        let referrals = reader.optional(REFERRAL_TAG).component("LDAPResult.referral")?;
        let referrals = Uris::decode(referrals.unwrap_or_default())?;
        Ok(ReceivedResult { code: ResultCode(code), matched_dn, diagnostic, referrals })
    }
}

impl<'a> SearchEntry<'a> {
    fn decode(mut reader: Reader<'a>, limits: &DecodeLimits) -> Body<SearchEntry<'a>> {
        let object_name = string(&mut reader).component("SearchResultEntry.objectName")?;
        let attributes = Attributes::decode_partial(&mut reader, limits)?;
        reader.skip_rest().component("SearchResultEntry")?;
        Ok(SearchEntry { object_name, attributes })
    }
}

/// Decodes the optional OID and value at the end of extended and intermediate responses.
fn name_and_value(
    mut reader: Reader<'_>,
    name_tag: Tag,
    value_tag: Tag,
) -> Body<(Option<&str>, Option<&[u8]>)> {
    let name = reader.optional(name_tag).component("ExtendedResponse.responseName")?;
    let name = name.map(text).transpose().component("ExtendedResponse.responseName")?;
    let value = reader.optional(value_tag).component("ExtendedResponse.responseValue")?;
    reader.skip_rest().component("ExtendedResponse")?;
    Ok((name, value))
}

impl fmt::Debug for Uris<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::*;
    use crate::{Control, ControlsBuf, LdapResult, ResponseOp};

    fn decode(bytes: &[u8]) -> ResponseMessage<'_> {
        assert_eq!(crate::frame_len(bytes), Ok(Some(bytes.len())));
        ResponseMessage::decode(bytes, &DecodeLimits::default()).unwrap()
    }

    #[test]
    fn results_decode_to_what_was_encoded() {
        let referrals = ["ldap://a/".to_string(), format!("ldap://{}/", "b".repeat(200))];
        let controls: ControlsBuf =
            [Control { oid: "1.2.3", critical: false, value: Some(b"v") }].into_iter().collect();
        let controls = controls.as_controls();
        let sent = LdapResult {
            code: ResultCode::REFERRAL,
            matched_dn: "dc=example",
            diagnostic: "elsewhere",
            referrals: &referrals,
        };
        for op in [
            ResponseOp::Bind,
            ResponseOp::SearchDone,
            ResponseOp::Modify,
            ResponseOp::Add,
            ResponseOp::Delete,
            ResponseOp::ModifyDn,
            ResponseOp::Compare,
            ResponseOp::Extended,
        ] {
            let mut out = Vec::new();
            encode_result(&mut out, MessageId(300), op, &sent, controls);
            let message = decode(&out);
            assert_eq!((message.id, message.controls), (MessageId(300), controls));
            let received = message.response.result().unwrap();
            assert_eq!((received.code, received.matched_dn), (sent.code, sent.matched_dn));
            assert_eq!(received.diagnostic, sent.diagnostic);
            assert!(received.referrals.iter().eq(referrals.iter()));
        }
    }

    #[test]
    fn short_results_decode_as_encoded() {
        let mut out = Vec::new();
        encode_result(&mut out, MessageId(1), ResponseOp::Add, &LdapResult::SUCCESS, Controls::NONE);
        assert_eq!(out, b"\x30\x0c\x02\x01\x01\x69\x07\x0a\x01\x00\x04\x00\x04\x00");
        // The content of this result code takes three octets.
        out.clear();
        let result = LdapResult::new(ResultCode(0xffff), "");
        encode_result(&mut out, MessageId(1), ResponseOp::Add, &result, Controls::NONE);
        assert_eq!(decode(&out).response.result().unwrap().code, ResultCode(0xffff));
    }

    #[test]
    fn bind_extended_and_other_special_responses_decode() {
        let mut out = Vec::new();
        let in_progress = LdapResult::new(ResultCode::SASL_BIND_IN_PROGRESS, "");
        encode_bind_response(&mut out, MessageId(1), &in_progress, Some(b"challenge"), Controls::NONE);
        let Response::Bind { server_sasl_credentials, .. } = decode(&out).response else { panic!() };
        assert_eq!(server_sasl_credentials, Some(&b"challenge"[..]));

        out.clear();
        let (name, value) = (Some("1.2.3"), Some(&b"x"[..]));
        encode_extended_response(&mut out, MessageId(1), &LdapResult::SUCCESS, name, value, Controls::NONE);
        let Response::Extended { name: got_name, value: got_value, .. } = decode(&out).response else {
            panic!()
        };
        assert_eq!((got_name, got_value), (name, value));

        out.clear();
        encode_intermediate_response(&mut out, MessageId(1), name, value, Controls::NONE);
        assert_eq!(decode(&out).response, Response::Intermediate { name, value });

        out.clear();
        let uris = ["ldap://a/".to_string(), "ldap://b/".to_string()];
        encode_search_reference(&mut out, MessageId(1), &uris, Controls::NONE);
        let Response::SearchReference(received) = decode(&out).response else { panic!() };
        assert!(received.iter().eq(uris.iter()));

        out.clear();
        encode_notice_of_disconnection(&mut out, ResultCode::PROTOCOL_ERROR, "why");
        let notice = decode(&out);
        assert_eq!(notice.id, MessageId::UNSOLICITED);
        let Response::Extended { result, name, .. } = notice.response else { panic!() };
        assert_eq!((result.code, result.diagnostic), (ResultCode::PROTOCOL_ERROR, "why"));
        assert_eq!(name, Some(crate::oids::NOTICE_OF_DISCONNECTION));
    }

    #[test]
    fn search_entries_written_in_pieces_decode() {
        let controls: ControlsBuf =
            [Control { oid: "1.2.3", critical: false, value: None }].into_iter().collect();
        let photo = vec![0xff; 70_000];
        for controls in [Controls::NONE, controls.as_controls()] {
            let values_len = value_len(1) + value_len(photo.len());
            let attributes_len = attribute_len(5, values_len) + attribute_len(2, 0);
            let entry =
                SearchEntryLens { dn_len: 4, attributes_len, controls_len: controls.as_bytes().len() };
            let mut out = Vec::new();
            put_search_entry_header(&mut out, MessageId(7), entry);
            out.extend_from_slice(b"cn=");
            out.extend_from_slice(b"a");
            put_attributes_header(&mut out, attributes_len);
            put_attribute_header(&mut out, "photo", values_len);
            put_value(&mut out, b"x");
            put_value(&mut out, &photo);
            put_attribute_header(&mut out, "sn", 0);
            put_controls(&mut out, controls);
            assert_eq!(out.len(), search_entry_len(MessageId(7), entry));

            let message = decode(&out);
            assert_eq!(message.controls, controls);
            let Response::SearchEntry(entry) = message.response else { panic!() };
            assert_eq!(entry.object_name, "cn=a");
            let attributes: Vec<_> = entry.attributes.iter().collect();
            assert_eq!(attributes[0].values.iter().collect::<Vec<_>>(), [&b"x"[..], &photo]);
            assert_eq!((attributes[1].description, attributes[1].values.len()), ("sn", 0));
        }
    }

    #[test]
    fn requests_are_refused_as_responses() {
        let error = ResponseMessage::decode(b"\x30\x05\x02\x01\x05\x42\x00", &DecodeLimits::default());
        let error = error.unwrap_err();
        assert_eq!((error.id, error.kind), (Some(MessageId(5)), DecodeErrorKind::UnknownOperation));
    }
}
