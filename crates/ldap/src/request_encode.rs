//! Encoding of requests. The same type [`Message`] is used for encoding and for decoding. A message borrows its nested
//! parts, and the `Buf` types own them. Sizes are computed first, so each octet is written once.

use ber::{Tag, element_len, integer_len, put_boolean, put_element, put_header, put_integer};

use crate::response::{put_controls, put_envelope};
use crate::{
    AddRequest, Authentication, BindRequest, CompareRequest, DeleteRequest, ExtendedRequest, Message,
    ModifyDnRequest, ModifyRequest, Request, SearchRequest,
};

impl Message<'_> {
    /// Appends the encoded message. [`Authentication::Unrecognized`] is encoded without content.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (content_len, controls_len) = (self.request.content_len(), self.controls.as_bytes().len());
        put_envelope(out, self.id, self.request.tag(), content_len, controls_len);
        self.request.put(out);
        put_controls(out, self.controls);
    }
}

/// Length of a BOOLEAN element in octets, whatever its tag.
const BOOLEAN_LEN: usize = element_len(1);

impl Request<'_> {
    fn content_len(&self) -> usize {
        match self {
            Request::Bind(request) => request.content_len(),
            Request::Unbind => 0,
            Request::Search(request) => request.content_len(),
            Request::Modify(ModifyRequest { object, changes }) => {
                element_len(object.len()) + element_len(changes.as_bytes().len())
            }
            Request::Add(AddRequest { entry, attributes }) => {
                element_len(entry.len()) + element_len(attributes.as_bytes().len())
            }
            Request::Delete(DeleteRequest { entry }) => entry.len(),
            Request::ModifyDn(request) => {
                let new_superior_len = request.new_superior.map_or(0, |name| element_len(name.len()));
                element_len(request.entry.len())
                    + element_len(request.new_rdn.len())
                    + BOOLEAN_LEN
                    + new_superior_len
            }
            Request::Compare(request) => {
                element_len(request.entry.len()) + element_len(request.assertion_len())
            }
            Request::Abandon(id) => integer_len(i64::from(id.0)),
            Request::Extended(ExtendedRequest { name, value }) => {
                element_len(name.len()) + value.map_or(0, |value| element_len(value.len()))
            }
        }
    }

    /// Appends the content; the caller has written the tag and length.
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Request::Bind(request) => request.put(out),
            Request::Unbind => {}
            Request::Search(request) => request.put(out),
            Request::Modify(ModifyRequest { object, changes }) => {
                put_string(out, object);
                put_element(out, Tag::SEQUENCE, changes.as_bytes());
            }
            Request::Add(AddRequest { entry, attributes }) => {
                put_string(out, entry);
                put_element(out, Tag::SEQUENCE, attributes.as_bytes());
            }
            Request::Delete(DeleteRequest { entry }) => out.extend_from_slice(entry.as_bytes()),
            Request::ModifyDn(request) => request.put(out),
            Request::Compare(request) => {
                put_string(out, request.entry);
                put_header(out, Tag::SEQUENCE, request.assertion_len());
                put_string(out, request.description);
                put_element(out, Tag::OCTET_STRING, request.value);
            }
            Request::Abandon(id) => ber::put_integer_content(out, i64::from(id.0)),
            Request::Extended(ExtendedRequest { name, value }) => {
                put_element(out, ExtendedRequest::NAME, name.as_bytes());
                if let Some(value) = value {
                    put_element(out, ExtendedRequest::VALUE, value);
                }
            }
        }
    }
}

impl BindRequest<'_> {
    fn content_len(&self) -> usize {
        let authentication_len = match self.authentication {
            Authentication::Simple(password) => password.len(),
            Authentication::Sasl { mechanism, credentials } => sasl_len(mechanism, credentials),
            Authentication::Unrecognized(_) => 0,
        };
        element_len(integer_len(i64::from(self.version)))
            + element_len(self.name.len())
            + element_len(authentication_len)
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_integer(out, Tag::INTEGER, i64::from(self.version));
        put_string(out, self.name);
        match self.authentication {
            Authentication::Simple(password) => put_element(out, BindRequest::SIMPLE, password),
            Authentication::Sasl { mechanism, credentials } => {
                put_header(out, BindRequest::SASL, sasl_len(mechanism, credentials));
                put_string(out, mechanism);
                if let Some(credentials) = credentials {
                    put_element(out, Tag::OCTET_STRING, credentials);
                }
            }
            Authentication::Unrecognized(tag) => put_header(out, tag, 0),
        }
    }
}

fn sasl_len(mechanism: &str, credentials: Option<&[u8]>) -> usize {
    element_len(mechanism.len()) + credentials.map_or(0, |credentials| element_len(credentials.len()))
}

impl SearchRequest<'_> {
    fn content_len(&self) -> usize {
        element_len(self.base_object.len())
            + element_len(integer_len(self.scope.number()))
            + element_len(integer_len(self.deref_aliases.number()))
            + element_len(integer_len(i64::from(self.size_limit)))
            + element_len(integer_len(i64::from(self.time_limit_seconds)))
            + BOOLEAN_LEN
            + self.filter.encoded_len()
            + element_len(self.attributes.as_bytes().len())
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_string(out, self.base_object);
        put_integer(out, Tag::ENUMERATED, self.scope.number());
        put_integer(out, Tag::ENUMERATED, self.deref_aliases.number());
        put_integer(out, Tag::INTEGER, i64::from(self.size_limit));
        put_integer(out, Tag::INTEGER, i64::from(self.time_limit_seconds));
        put_boolean(out, Tag::BOOLEAN, self.types_only);
        self.filter.encode(out);
        put_element(out, Tag::SEQUENCE, self.attributes.as_bytes());
    }
}

impl ModifyDnRequest<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        put_string(out, self.entry);
        put_string(out, self.new_rdn);
        put_boolean(out, Tag::BOOLEAN, self.delete_old_rdn);
        if let Some(new_superior) = self.new_superior {
            put_element(out, ModifyDnRequest::NEW_SUPERIOR, new_superior.as_bytes());
        }
    }
}

impl CompareRequest<'_> {
    fn assertion_len(&self) -> usize {
        element_len(self.description.len()) + element_len(self.value.len())
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    put_element(out, Tag::OCTET_STRING, text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AttributesBuf, ChangeOperation, ChangesBuf, Control, Controls, ControlsBuf, DecodeLimits,
        DerefAliases, FilterBuf, MessageId, Scope, SelectionBuf,
    };

    /// Encodes a request with and without controls, and decodes the result.
    fn check_round_trip(request: Request<'_>) {
        let controls: ControlsBuf = [
            Control { oid: "1.2.3", critical: true, value: Some(b"v") },
            Control { oid: "1.2.4", critical: false, value: None },
        ]
        .into_iter()
        .collect();
        for controls in [Controls::NONE, controls.as_controls()] {
            for id in [1, 128, i32::MAX] {
                let message = Message { id: MessageId(id), request, controls };
                let mut out = Vec::new();
                message.encode(&mut out);
                assert_eq!(crate::frame_len(&out), Ok(Some(out.len())));
                assert_eq!(Message::decode(&out, &DecodeLimits::default()), Ok(message));
            }
        }
    }

    #[test]
    fn requests_decode_as_encoded() {
        let long_name = format!("cn={}", "x".repeat(300));
        let name = "cn=a,dc=example";
        for authentication in [
            Authentication::Simple(b"secret"),
            Authentication::Sasl { mechanism: "PLAIN", credentials: Some(b"\0a\0b") },
            Authentication::Sasl { mechanism: "EXTERNAL", credentials: None },
            Authentication::Unrecognized(Tag::context(9)),
        ] {
            check_round_trip(Request::Bind(BindRequest { version: 3, name, authentication }));
        }
        check_round_trip(Request::Unbind);
        check_round_trip(Request::Delete(DeleteRequest { entry: &long_name }));
        check_round_trip(Request::Abandon(MessageId(70_000)));
        check_round_trip(Request::Compare(CompareRequest { entry: name, description: "cn", value: b"a" }));
        for value in [None, Some(&b""[..]), Some(&b"x"[..])] {
            check_round_trip(Request::Extended(ExtendedRequest { name: "1.2.3", value }));
        }
        for new_superior in [None, Some(""), Some("dc=b")] {
            let entry = &long_name;
            let request = ModifyDnRequest { entry, new_rdn: "cn=b", delete_old_rdn: true, new_superior };
            check_round_trip(Request::ModifyDn(request));
        }
    }

    #[test]
    fn requests_with_lists_decode_as_encoded() {
        let name = "cn=a,dc=example";
        let mut attributes = AttributesBuf::new();
        attributes.push("cn", ["a", "b"]);
        attributes.push("photo", [vec![0xff; 70_000]]);
        check_round_trip(Request::Add(AddRequest { entry: name, attributes: attributes.as_attributes() }));

        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Add, "cn", ["x"]);
        changes.push::<&str>(ChangeOperation::Delete, "sn", []);
        changes.push(ChangeOperation::Replace, "title", [b"\xff\x00"]);
        changes.push(ChangeOperation::Increment, "uidNumber", ["1"]);
        check_round_trip(Request::Modify(ModifyRequest { object: name, changes: changes.as_changes() }));

        let filter = FilterBuf::parse("(&(cn=a*b*c)(!(sn>=x)))").unwrap();
        let attributes: SelectionBuf = ["cn", "+", "1.1"].into_iter().collect();
        for scope in [Scope::BaseObject, Scope::SingleLevel, Scope::WholeSubtree, Scope::Subordinate] {
            check_round_trip(Request::Search(SearchRequest {
                base_object: name,
                scope,
                deref_aliases: DerefAliases::Always,
                size_limit: i32::MAX as u32,
                time_limit_seconds: 0,
                types_only: true,
                filter: filter.as_filter(),
                attributes: attributes.as_selection(),
            }));
        }
    }

    #[test]
    fn lists_of_requests_can_be_read_before_encoding() {
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Add, "cn", ["x", "y"]);
        let change = changes.as_changes().iter().next().unwrap();
        assert_eq!(change.operation, ChangeOperation::Add);
        assert_eq!(change.attribute.description, "cn");
        assert_eq!(change.attribute.values.iter().collect::<Vec<_>>(), [b"x", b"y"]);
        assert_eq!(change.attribute.values.len(), 2);
        let selection: SelectionBuf = ["cn", "*"].into_iter().collect();
        assert_eq!(selection.as_selection().iter().collect::<Vec<_>>(), ["cn", "*"]);
    }
}
