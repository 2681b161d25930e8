//! Encoding of a server's responses (RFC 4511 sections 4.1.9 and 4.5.2).
//!
//! Most functions append one whole message to `out`. They compute the sizes first, so each octet is written once. A
//! search entry is appended in parts, because its attributes are usually copied from a store that has them encoded:
//!
//! ```
//! use ldap::{MessageId, response};
//! let (dn, mut out) = ("dc=example", Vec::new());
//! let values_len = response::value_len(b"example".len());
//! let attributes_len = response::attribute_len("dc".len(), values_len);
//! let entry = response::SearchEntryLens { dn_len: dn.len(), attributes_len, controls_len: 0 };
//! response::put_search_entry_header(&mut out, MessageId(2), entry);
//! out.extend_from_slice(dn.as_bytes());
//! response::put_attributes_header(&mut out, attributes_len);
//! response::put_attribute_header(&mut out, "dc", values_len);
//! response::put_value(&mut out, b"example");
//! assert_eq!(out.len(), response::search_entry_len(MessageId(2), entry));
//! ```

use ber::{Tag, element_len, header_len, integer_len, put_element, put_header, put_integer};

use crate::message::CONTROLS_TAG;
use crate::{Controls, MessageId, Request, ResultCode};

/// Tags of a server's responses.
pub mod response_tag {
    use ber::Tag;

    /// BindResponse.
    pub const BIND: Tag = Tag::application_constructed(1);
    /// SearchResultEntry.
    pub const SEARCH_ENTRY: Tag = Tag::application_constructed(4);
    /// SearchResultDone.
    pub const SEARCH_DONE: Tag = Tag::application_constructed(5);
    /// SearchResultReference.
    pub const SEARCH_REFERENCE: Tag = Tag::application_constructed(19);
    /// ModifyResponse.
    pub const MODIFY: Tag = Tag::application_constructed(7);
    /// AddResponse.
    pub const ADD: Tag = Tag::application_constructed(9);
    /// DelResponse.
    pub const DELETE: Tag = Tag::application_constructed(11);
    /// ModifyDNResponse.
    pub const MODIFY_DN: Tag = Tag::application_constructed(13);
    /// CompareResponse.
    pub const COMPARE: Tag = Tag::application_constructed(15);
    /// ExtendedResponse.
    pub const EXTENDED: Tag = Tag::application_constructed(24);
    /// IntermediateResponse.
    pub const INTERMEDIATE: Tag = Tag::application_constructed(25);
}

/// The final response of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseOp {
    /// BindResponse.
    Bind,
    /// SearchResultDone.
    SearchDone,
    /// ModifyResponse.
    Modify,
    /// AddResponse.
    Add,
    /// DelResponse.
    Delete,
    /// ModifyDNResponse.
    ModifyDn,
    /// CompareResponse.
    Compare,
    /// ExtendedResponse.
    Extended,
}

impl ResponseOp {
    /// Returns the tag on the wire.
    pub const fn tag(self) -> Tag {
        match self {
            ResponseOp::Bind => response_tag::BIND,
            ResponseOp::SearchDone => response_tag::SEARCH_DONE,
            ResponseOp::Modify => response_tag::MODIFY,
            ResponseOp::Add => response_tag::ADD,
            ResponseOp::Delete => response_tag::DELETE,
            ResponseOp::ModifyDn => response_tag::MODIFY_DN,
            ResponseOp::Compare => response_tag::COMPARE,
            ResponseOp::Extended => response_tag::EXTENDED,
        }
    }

    /// Returns the kind of final response to this request; `None` for unbind and abandon, which have no response.
    pub const fn answering(request: &Request<'_>) -> Option<ResponseOp> {
        ResponseOp::answering_tag(request.tag())
    }

    /// Returns the kind of final response to the request with this tag; `None` for unbind, abandon and unknown
    /// operations. For requests that could not be decoded, see
    /// [`DecodeError::request_tag`](crate::DecodeError::request_tag).
    pub const fn answering_tag(request_tag: Tag) -> Option<ResponseOp> {
        use crate::request_tag::*;
        match request_tag {
            BIND => Some(ResponseOp::Bind),
            SEARCH => Some(ResponseOp::SearchDone),
            MODIFY => Some(ResponseOp::Modify),
            ADD => Some(ResponseOp::Add),
            DELETE => Some(ResponseOp::Delete),
            MODIFY_DN => Some(ResponseOp::ModifyDn),
            COMPARE => Some(ResponseOp::Compare),
            EXTENDED => Some(ResponseOp::Extended),
            _ => None,
        }
    }
}

/// An LDAPResult to send (RFC 4511 section 4.1.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LdapResult<'a> {
    /// Result code.
    pub code: ResultCode,
    /// DN of the lowest existing superior of the named entry, if the result code requires it; otherwise empty.
    pub matched_dn: &'a str,
    /// Human-readable text; may be empty.
    pub diagnostic: &'a str,
    /// Referral URLs. Omitted if empty.
    pub referrals: &'a [String],
}

impl<'a> LdapResult<'a> {
    /// Success, without a diagnostic text.
    pub const SUCCESS: LdapResult<'static> = LdapResult::new(ResultCode::SUCCESS, "");

    /// Creates a result without matched DN and referrals.
    pub const fn new(code: ResultCode, diagnostic: &'a str) -> LdapResult<'a> {
        LdapResult { code, matched_dn: "", diagnostic, referrals: &[] }
    }

    /// Returns the code, if it takes one octet and all other fields are empty.
    fn bare_code(&self) -> Option<u8> {
        let says_nothing =
            self.matched_dn.is_empty() && self.diagnostic.is_empty() && self.referrals.is_empty();
        u8::try_from(self.code.0).ok().filter(|code| says_nothing && *code < 0x80)
    }

    /// Returns the diagnostic text, truncated to [`DIAGNOSTIC_SIZE_MAX`].
    fn bounded_diagnostic(&self) -> &str {
        if self.diagnostic.len() <= DIAGNOSTIC_SIZE_MAX {
            return self.diagnostic;
        }
        let end = (0..=DIAGNOSTIC_SIZE_MAX).rev().find(|end| self.diagnostic.is_char_boundary(*end));
        self.diagnostic.get(..end.unwrap_or_default()).unwrap_or_default()
    }

    fn content_len(&self) -> usize {
        let referral_len = if self.referrals.is_empty() { 0 } else { element_len(uris_len(self.referrals)) };
        element_len(integer_len(i64::from(self.code.0)))
            + element_len(self.matched_dn.len())
            + element_len(self.bounded_diagnostic().len())
            + referral_len
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_integer(out, Tag::ENUMERATED, i64::from(self.code.0));
        put_element(out, Tag::OCTET_STRING, self.matched_dn.as_bytes());
        put_element(out, Tag::OCTET_STRING, self.bounded_diagnostic().as_bytes());
        if !self.referrals.is_empty() {
            put_header(out, REFERRAL_TAG, uris_len(self.referrals));
            put_uris(out, self.referrals);
        }
    }
}

/// Maximum size of a diagnostic text in octets. This limit is a second safeguard: a text that repeats a part of a
/// request already limits that part by [`crate::Excerpt`].
pub const DIAGNOSTIC_SIZE_MAX: usize = 4096;

pub(crate) const REFERRAL_TAG: Tag = Tag::context_constructed(3);
pub(crate) const SERVER_SASL_CREDENTIALS_TAG: Tag = Tag::context(7);
pub(crate) const RESPONSE_NAME_TAG: Tag = Tag::context(10);
pub(crate) const RESPONSE_VALUE_TAG: Tag = Tag::context(11);
pub(crate) const INTERMEDIATE_NAME_TAG: Tag = Tag::context(0);
pub(crate) const INTERMEDIATE_VALUE_TAG: Tag = Tag::context(1);

/// Appends the final response of an operation.
pub fn encode_result(
    out: &mut Vec<u8>,
    id: MessageId,
    op: ResponseOp,
    result: &LdapResult<'_>,
    controls: Controls<'_>,
) {
    put_result_message(out, id, op.tag(), result, [None, None], controls);
}

/// Appends a BindResponse, with the server's part of a SASL exchange if there is one.
pub fn encode_bind_response(
    out: &mut Vec<u8>,
    id: MessageId,
    result: &LdapResult<'_>,
    server_sasl_credentials: Option<&[u8]>,
    controls: Controls<'_>,
) {
    let credentials = server_sasl_credentials.map(|octets| (SERVER_SASL_CREDENTIALS_TAG, octets));
    put_result_message(out, id, response_tag::BIND, result, [credentials, None], controls);
}

/// Appends an ExtendedResponse. With [`MessageId::UNSOLICITED`] and a name it is an unsolicited notification.
pub fn encode_extended_response(
    out: &mut Vec<u8>,
    id: MessageId,
    result: &LdapResult<'_>,
    name: Option<&str>,
    value: Option<&[u8]>,
    controls: Controls<'_>,
) {
    let name = name.map(|name| (RESPONSE_NAME_TAG, name.as_bytes()));
    let value = value.map(|value| (RESPONSE_VALUE_TAG, value));
    put_result_message(out, id, response_tag::EXTENDED, result, [name, value], controls);
}

/// Appends a notice of disconnection (RFC 4511 section 4.4.1). The caller must close the connection after sending it.
pub fn encode_notice_of_disconnection(out: &mut Vec<u8>, code: ResultCode, diagnostic: &str) {
    encode_extended_response(
        out,
        MessageId::UNSOLICITED,
        &LdapResult::new(code, diagnostic),
        Some(crate::oids::NOTICE_OF_DISCONNECTION),
        None,
        Controls::NONE,
    );
}

/// Appends an IntermediateResponse (RFC 4511 section 4.13).
pub fn encode_intermediate_response(
    out: &mut Vec<u8>,
    id: MessageId,
    name: Option<&str>,
    value: Option<&[u8]>,
    controls: Controls<'_>,
) {
    let parts = [
        name.map(|name| (INTERMEDIATE_NAME_TAG, name.as_bytes())),
        value.map(|value| (INTERMEDIATE_VALUE_TAG, value)),
    ];
    let content_len = optional_len(parts);
    put_envelope(out, id, response_tag::INTERMEDIATE, content_len, controls.as_bytes().len());
    put_optional(out, parts);
    put_controls(out, controls);
}

/// Appends a SearchResultReference (RFC 4511 section 4.5.3). `uris` must not be empty.
pub fn encode_search_reference(out: &mut Vec<u8>, id: MessageId, uris: &[String], controls: Controls<'_>) {
    debug_assert!(!uris.is_empty(), "a reference needs a URI");
    let tag = response_tag::SEARCH_REFERENCE;
    put_envelope(out, id, tag, uris_len(uris), controls.as_bytes().len());
    put_uris(out, uris);
    put_controls(out, controls);
}

/// Sizes in the headers of a search entry, in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchEntryLens {
    /// Size of the DN's text.
    pub dn_len: usize,
    /// Size of all attributes: the sum of their [`attribute_len`]s.
    pub attributes_len: usize,
    /// Size of the encoded controls, [`Controls::as_bytes`]; 0 for none.
    pub controls_len: usize,
}

impl SearchEntryLens {
    /// Maximum number of octets by which the three lengths of a message can grow if the size of the attributes grows.
    const GROWTH_MAX: usize = 12;

    #[inline]
    const fn content_len(self) -> usize {
        element_len(self.dn_len) + element_len(self.attributes_len)
    }
}

/// Returns the size in octets of the whole message of a search entry.
pub const fn search_entry_len(id: MessageId, entry: SearchEntryLens) -> usize {
    element_len(envelope_len(id, entry.content_len(), entry.controls_len))
}

/// Appends a search entry's message up to and including the DN's header. The caller then appends the DN's text;
/// [`put_attributes_header`]; the attributes, each by [`put_attribute_header`] and [`put_value`] or copied; and
/// [`put_controls`] if there are any.
#[inline]
pub fn put_search_entry_header(out: &mut Vec<u8>, id: MessageId, entry: SearchEntryLens) {
    put_envelope(out, id, response_tag::SEARCH_ENTRY, entry.content_len(), entry.controls_len);
    put_header(out, Tag::OCTET_STRING, entry.dn_len);
}

/// Corrects the lengths of a search entry without controls that begins at `start` and extends to the end of `out`. Call
/// this function if the length of the attributes was only guessed when the header was written. Moves the octets after
/// the header only if the correct lengths take a different number of octets.
pub fn correct_search_entry(
    out: &mut Vec<u8>,
    start: usize,
    id: MessageId,
    guessed: SearchEntryLens,
    attributes_len: usize,
) {
    let lens = SearchEntryLens { attributes_len, ..guessed };
    let id_len = element_len(integer_len(i64::from(id.0)));
    let (dn_len, around) = (element_len(guessed.dn_len), 16 + id_len);
    if guessed.attributes_len.min(attributes_len) >= 0x100
        && guessed.attributes_len.max(attributes_len) + dn_len + around < 0x1_0000
    {
        // The usual case: each of the three lengths takes two octets both before and after the correction.
        let content_len = dn_len + element_len(attributes_len);
        let message_len = id_len + element_len(content_len);
        let mut place = start;
        for (len, behind) in [(message_len, id_len), (content_len, dn_len), (attributes_len, 0)] {
            if let Some(octets) = out.get_mut(place + 2..place + 4) {
                let [.., high, low] = len.to_be_bytes();
                octets.copy_from_slice(&[high, low]);
            }
            place += 4 + behind;
        }
        return;
    }
    let lengths = |lens: SearchEntryLens| {
        let content_len = lens.content_len();
        [envelope_len(id, content_len, 0), content_len, lens.attributes_len]
    };
    let (before, after) = (lengths(guessed), lengths(lens));
    // Number of octets between one header and the next.
    let between = [id_len, dn_len, 0];
    if before.map(header_len) == after.map(header_len) {
        let mut place = start;
        for ((len, behind), before) in after.into_iter().zip(between).zip(before) {
            ber::set_content_len(out.get_mut(place..).unwrap_or_default(), len);
            place += header_len(before) + behind;
        }
        return;
    }
    let head_len: usize = before.map(header_len).into_iter().chain(between).sum();
    let (end, attributes_header_len) = (start + head_len, header_len(guessed.attributes_len));
    let dn_end = end - attributes_header_len;
    let mut head = Vec::with_capacity(head_len + SearchEntryLens::GROWTH_MAX);
    put_search_entry_header(&mut head, id, lens);
    head.extend_from_slice(out.get(dn_end - guessed.dn_len..dn_end).unwrap_or_default());
    put_attributes_header(&mut head, attributes_len);
    out.splice(start..end, head);
}

/// Adds controls to the message that begins at `start` and extends to the end of `out`. The message must have no
/// controls.
pub fn add_controls(out: &mut Vec<u8>, start: usize, controls: Controls<'_>) {
    let message = out.get(start..).unwrap_or_default();
    let Ok(content) = ber::Reader::new(message).element(Tag::SEQUENCE) else { return };
    let head_len = message.len() - content.len();
    put_controls(out, controls);
    let mut head = Vec::with_capacity(16);
    put_header(&mut head, Tag::SEQUENCE, out.len() - start - head_len);
    out.splice(start..start + head_len, head);
}

/// Appends the header of a search entry's attributes. `attributes_len` is the size of all attributes in octets.
#[inline]
pub fn put_attributes_header(out: &mut Vec<u8>, attributes_len: usize) {
    put_header(out, Tag::SEQUENCE, attributes_len);
}

/// Returns the size in octets of an attribute with a description of `description_len` octets and encoded values of
/// `values_len` octets.
#[inline]
pub const fn attribute_len(description_len: usize, values_len: usize) -> usize {
    element_len(element_len(description_len) + element_len(values_len))
}

/// Appends an attribute without its values. The caller appends these next: `values_len` octets, the sum of their
/// [`value_len`]s.
#[inline]
pub fn put_attribute_header(out: &mut Vec<u8>, description: &str, values_len: usize) {
    put_header(out, Tag::SEQUENCE, element_len(description.len()) + element_len(values_len));
    put_element(out, Tag::OCTET_STRING, description.as_bytes());
    put_header(out, Tag::SET, values_len);
}

/// An attribute of a search entry without its values, encoded (PartialAttribute, RFC 4511, section 4.1.7).
/// [`put`](AttributeFrame::put) adds the values.
#[derive(Clone, Debug)]
pub struct AttributeFrame {
    encoded: Box<[u8]>,
    /// Length of the header of the SEQUENCE, in octets.
    header_len: usize,
}

impl AttributeFrame {
    /// Encodes the attribute with this description.
    #[must_use]
    pub fn new(description: &str) -> Self {
        let mut encoded = Vec::new();
        put_attribute_header(&mut encoded, description, 0);
        let header_len = header_len(element_len(description.len()) + element_len(0));
        Self { encoded: encoded.into(), header_len }
    }

    /// Appends the attribute with these encoded values, the content of its SET.
    #[inline]
    pub fn put(&self, out: &mut Vec<u8>, values: &[u8]) {
        let frame = &*self.encoded;
        let content_len = frame.len() + values.len() - 2;
        if content_len < 0x80 {
            // The usual case: both lengths take one octet, as in the encoded frame.
            let ([.., content_len], [.., values_len]) =
                (content_len.to_be_bytes(), values.len().to_be_bytes());
            let start = out.len();
            out.reserve(frame.len() + values.len());
            out.extend_from_slice(frame);
            if let Some([_, first, .., last]) = out.get_mut(start..) {
                (*first, *last) = (content_len, values_len);
            }
        } else {
            let description = frame.get(self.header_len..frame.len() - 2).unwrap_or_default();
            put_header(out, Tag::SEQUENCE, description.len() + element_len(values.len()));
            out.extend_from_slice(description);
            put_header(out, Tag::SET, values.len());
        }
        out.extend_from_slice(values);
    }
}

/// Returns the size in octets of an encoded value of `len` octets.
#[inline]
pub const fn value_len(len: usize) -> usize {
    element_len(len)
}

/// Appends a value.
#[inline]
pub fn put_value(out: &mut Vec<u8>, value: &[u8]) {
    put_element(out, Tag::OCTET_STRING, value);
}

/// Appends the controls at the end of a message. Appends nothing if there are none.
pub fn put_controls(out: &mut Vec<u8>, controls: Controls<'_>) {
    if !controls.is_empty() {
        put_element(out, CONTROLS_TAG, controls.as_bytes());
    }
}

/// Returns the size in octets of a control that is not critical, with a value of `value_len` octets.
pub const fn control_len(oid: &str, value_len: usize) -> usize {
    element_len(element_len(oid.len()) + element_len(value_len))
}

/// Appends controls like [`put_controls`], and the header of one more control. The caller appends the value of that
/// control next, `value_len` octets.
pub fn put_controls_and_header(out: &mut Vec<u8>, controls: Controls<'_>, oid: &str, value_len: usize) {
    put_header(out, CONTROLS_TAG, controls.as_bytes().len() + control_len(oid, value_len));
    out.extend_from_slice(controls.as_bytes());
    put_header(out, Tag::SEQUENCE, element_len(oid.len()) + element_len(value_len));
    put_element(out, Tag::OCTET_STRING, oid.as_bytes());
    put_header(out, Tag::OCTET_STRING, value_len);
}

/// Returns the size of a message's content in octets.
const fn envelope_len(id: MessageId, content_len: usize, controls_len: usize) -> usize {
    let controls = if controls_len == 0 { 0 } else { element_len(controls_len) };
    element_len(integer_len(id.0 as i64)) + element_len(content_len) + controls
}

/// Appends a message up to the content of its operation. The content must be `content_len` octets long.
#[inline]
pub(crate) fn put_envelope(
    out: &mut Vec<u8>,
    id: MessageId,
    tag: Tag,
    content_len: usize,
    controls_len: usize,
) {
    let message_len = envelope_len(id, content_len, controls_len);
    out.reserve(header_len(message_len) + message_len);
    if message_len < 0x80 {
        return put_short_envelope(out, id, tag, message_len, content_len);
    }
    put_header(out, Tag::SEQUENCE, message_len);
    put_integer(out, Tag::INTEGER, i64::from(id.0));
    put_header(out, tag, content_len);
}

/// Does the same as [`put_envelope`] if both lengths take one octet, as in results that contain only a DN.
#[inline]
fn put_short_envelope(out: &mut Vec<u8>, id: MessageId, tag: Tag, message_len: usize, content_len: usize) {
    let (sequence, integer) = (Tag::SEQUENCE.0, Tag::INTEGER.0);
    let ([.., message_len], [.., content_len]) = (message_len.to_be_bytes(), content_len.to_be_bytes());
    let [a, b, c, d] = id.0.to_be_bytes();
    match integer_len(i64::from(id.0)) {
        1 => out.extend_from_slice(&[sequence, message_len, integer, 1, d, tag.0, content_len]),
        2 => out.extend_from_slice(&[sequence, message_len, integer, 2, c, d, tag.0, content_len]),
        3 => out.extend_from_slice(&[sequence, message_len, integer, 3, b, c, d, tag.0, content_len]),
        _ => out.extend_from_slice(&[sequence, message_len, integer, 4, a, b, c, d, tag.0, content_len]),
    }
}

/// Optional components: tag and content.
type OptionalParts<'a> = [Option<(Tag, &'a [u8])>; 2];

fn put_result_message(
    out: &mut Vec<u8>,
    id: MessageId,
    tag: Tag,
    result: &LdapResult<'_>,
    parts: OptionalParts<'_>,
    controls: Controls<'_>,
) {
    if let (Some(code), [None, None], true) = (result.bare_code(), parts, controls.is_empty()) {
        return put_bare_result(out, id, tag, code);
    }
    let content_len = result.content_len() + optional_len(parts);
    put_envelope(out, id, tag, content_len, controls.as_bytes().len());
    result.put(out);
    put_optional(out, parts);
    put_controls(out, controls);
}

/// Appends a final response that has only a result code, as most responses have.
fn put_bare_result(out: &mut Vec<u8>, id: MessageId, tag: Tag, code: u8) {
    const STRING: u8 = Tag::OCTET_STRING.0;
    // An empty matched DN and an empty diagnostic follow the code.
    let content = [Tag::ENUMERATED.0, 1, code, STRING, 0, STRING, 0];
    put_envelope(out, id, tag, content.len(), 0);
    out.extend_from_slice(&content);
}

fn optional_len(parts: OptionalParts<'_>) -> usize {
    parts.iter().flatten().map(|(_, content)| element_len(content.len())).sum()
}

fn put_optional(out: &mut Vec<u8>, parts: OptionalParts<'_>) {
    parts.iter().flatten().for_each(|(tag, content)| put_element(out, *tag, content));
}

fn uris_len(uris: &[String]) -> usize {
    uris.iter().map(|uri| element_len(uri.len())).sum()
}

fn put_uris(out: &mut Vec<u8>, uris: &[String]) {
    uris.iter().for_each(|uri| put_element(out, Tag::OCTET_STRING, uri.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Control, ControlsBuf};

    #[test]
    fn attribute_frames_equal_the_general_encoding() {
        for description in [1, 2, 121, 122, 123, 124, 125, 126, 127, 128, 300].map(|len| "n".repeat(len)) {
            let frame = AttributeFrame::new(&description);
            for len in (0..130).chain([200, 255, 256, 257, 65_535, 65_536, 70_000]) {
                let values = vec![7; len];
                let (mut found, mut expected) = (b"before".to_vec(), b"before".to_vec());
                frame.put(&mut found, &values);
                put_attribute_header(&mut expected, &description, len);
                expected.extend_from_slice(&values);
                assert_eq!(found, expected, "{} octets of description, {len} of values", description.len());
            }
        }
    }

    #[test]
    fn results_without_texts_equal_the_general_encoding() {
        for id in [0, 1, 127, 128, 255, 256, 32_767, 32_768, 8_388_607, 8_388_608, i32::MAX].map(MessageId) {
            for code in [0, 3, 32, 80, 127, 128, 4096].map(ResultCode) {
                let result = LdapResult::new(code, "");
                let (mut found, mut expected) = (Vec::new(), Vec::new());
                encode_result(&mut found, id, ResponseOp::SearchDone, &result, Controls::NONE);
                put_envelope(&mut expected, id, response_tag::SEARCH_DONE, result.content_len(), 0);
                result.put(&mut expected);
                assert_eq!(found, expected, "{id} {code}");
            }
        }
    }

    #[test]
    fn a_control_appended_in_parts_equals_the_general_encoding() {
        let (oid, value) = ("1.2.3", [7; 200]);
        let other = Control { oid: "1.2", critical: false, value: None };
        let last = Control { oid, critical: false, value: Some(&value) };
        for before in [&[][..], &[other]] {
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let before: ControlsBuf = before.iter().copied().collect();
            put_controls_and_header(&mut found, before.as_controls(), oid, value.len());
            found.extend_from_slice(&value);
            let mut all = before.clone();
            all.push(last);
            put_controls(&mut expected, all.as_controls());
            assert_eq!(found, expected);
            let before_len = before.as_controls().as_bytes().len();
            assert_eq!(all.as_controls().as_bytes().len(), before_len + control_len(oid, value.len()));
        }
    }

    #[test]
    fn a_wrong_length_is_corrected() {
        let ids = [1, 127, 128, 70_000, i32::MAX].map(MessageId);
        let lens = [0, 1, 50, 90, 127, 128, 200, 255, 256, 700, 65_535, 65_536];
        for (id, dn_len) in ids.into_iter().flat_map(|id| [0, 20, 127, 200].map(|dn_len| (id, dn_len))) {
            let message = |attributes_len, said_len| {
                let mut out = b"before".to_vec();
                put_search_entry_header(
                    &mut out,
                    id,
                    SearchEntryLens { dn_len, attributes_len: said_len, controls_len: 0 },
                );
                out.extend(std::iter::repeat_n(b'd', dn_len));
                put_attributes_header(&mut out, said_len);
                out.extend(std::iter::repeat_n(b'a', attributes_len));
                out
            };
            for attributes_len in lens {
                let expected = message(attributes_len, attributes_len);
                for guess in lens {
                    let mut found = message(attributes_len, guess);
                    let guessed = SearchEntryLens { dn_len, attributes_len: guess, controls_len: 0 };
                    correct_search_entry(&mut found, "before".len(), id, guessed, attributes_len);
                    assert!(found == expected, "id {id}, DN of {dn_len}, {guess} for {attributes_len}");
                }
            }
        }
    }
}
