//! Verify Credentials, the extended operation of OpenLDAP's module `vc`: it returns the result that a bind would have,
//! and the connection keeps its identity. There is no specification. The values are those that the client `ldapvc`
//! sends and expects.

use ber::{Reader, Tag, Writer};

use crate::{BindRequest, Controls, ResultCode};

/// Tag of the cookie. In the cookie, the server returns the state of a multi-step exchange.
const COOKIE: Tag = Tag::context(0);
const SERVER_CREDENTIALS: Tag = Tag::context(1);
const CONTROLS: Tag = Tag::context_constructed(2);

/// Value of a Verify Credentials request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyCredentials<'a> {
    /// Name and credentials, as in a bind request.
    pub bind: BindRequest<'a>,
    /// Controls of the bind.
    pub controls: Controls<'a>,
    /// Cookie of the previous response, if the request continues an exchange.
    pub cookie: Option<&'a [u8]>,
}

/// Value of a Verify Credentials response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedCredentials<'a> {
    /// Result of the bind.
    pub code: ResultCode,
    /// Diagnostic text of the bind.
    pub diagnostic: &'a str,
    /// Cookie with which the next request continues the exchange.
    pub cookie: Option<&'a [u8]>,
    /// The server's part of the SASL exchange.
    pub server_credentials: Option<&'a [u8]>,
    /// Controls of the bind's response.
    pub controls: Controls<'a>,
}

impl<'a> VerifyCredentials<'a> {
    /// Decodes a request value; returns `None` if it is malformed.
    pub fn decode(value: Option<&'a [u8]>) -> Option<VerifyCredentials<'a>> {
        let mut reader = Reader::new(value?);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let cookie = fields.optional(COOKIE).ok()?;
        let (name, authentication) = BindRequest::decode_credentials(&mut fields).ok()?;
        let controls = match fields.optional(CONTROLS).ok()? {
            Some(controls) => Controls::from_bytes(controls)?,
            None => Controls::NONE,
        };
        let bind = BindRequest { version: 3, name, authentication };
        (reader.is_empty() && fields.is_empty()).then_some(VerifyCredentials { bind, controls, cookie })
    }

    /// Returns the value of a request with a name and a password.
    pub fn encode_simple(name: &str, password: &[u8], controls: Controls<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let whole = writer.begin(Tag::SEQUENCE);
        writer.octet_string(name.as_bytes());
        writer.element(BindRequest::SIMPLE, password);
        if !controls.is_empty() {
            writer.element(CONTROLS, controls.as_bytes());
        }
        writer.end(whole);
        out
    }

    /// Returns the value of a request with a message of a SASL exchange.
    pub fn encode_sasl(cookie: Option<&[u8]>, mechanism: &str, credentials: Option<&[u8]>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let whole = writer.begin(Tag::SEQUENCE);
        if let Some(cookie) = cookie {
            writer.element(COOKIE, cookie);
        }
        writer.octet_string(b"");
        let sasl = writer.begin(BindRequest::SASL);
        writer.octet_string(mechanism.as_bytes());
        if let Some(credentials) = credentials {
            writer.octet_string(credentials);
        }
        writer.end(sasl);
        writer.end(whole);
        out
    }
}

impl<'a> VerifiedCredentials<'a> {
    /// Returns the encoded value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let whole = writer.begin(Tag::SEQUENCE);
        writer.integer(self.code.0.into());
        writer.octet_string(self.diagnostic.as_bytes());
        for (tag, octets) in [(COOKIE, self.cookie), (SERVER_CREDENTIALS, self.server_credentials)] {
            if let Some(octets) = octets {
                writer.element(tag, octets);
            }
        }
        if !self.controls.is_empty() {
            writer.element(CONTROLS, self.controls.as_bytes());
        }
        writer.end(whole);
        out
    }

    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<VerifiedCredentials<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let code = ResultCode(u32::try_from(fields.integer().ok()?).ok()?);
        let diagnostic = std::str::from_utf8(fields.octet_string().ok()?).ok()?;
        let cookie = fields.optional(COOKIE).ok()?;
        let server_credentials = fields.optional(SERVER_CREDENTIALS).ok()?;
        let controls = match fields.optional(CONTROLS).ok()? {
            Some(controls) => Controls::from_bytes(controls)?,
            None => Controls::NONE,
        };
        let whole = VerifiedCredentials { code, diagnostic, cookie, server_credentials, controls };
        (reader.is_empty() && fields.is_empty()).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authentication;

    #[test]
    fn values_have_the_encoding_of_ldapvc() {
        let value = b"\x30\x0c\x04\x04cn=a\x80\x04pass";
        assert_eq!(VerifyCredentials::encode_simple("cn=a", b"pass", Controls::NONE), value);
        let asked = VerifyCredentials::decode(Some(value)).unwrap();
        assert_eq!((asked.bind.version, asked.bind.name), (3, "cn=a"));
        assert_eq!(asked.bind.authentication, Authentication::Simple(b"pass"));
        assert!(asked.controls.is_empty());
        let with_control = b"\x30\x13\x04\x04cn=a\x80\x02pw\xa2\x07\x30\x05\x04\x031.2";
        let asked = VerifyCredentials::decode(Some(with_control)).unwrap();
        assert_eq!(asked.controls.iter().map(|control| control.oid).collect::<Vec<_>>(), ["1.2"]);
        assert_eq!(VerifyCredentials::encode_simple("cn=a", b"pw", asked.controls), with_control);
        let sasl = b"\x30\x0b\x04\x00\xa3\x07\x04\x05PLAIN";
        let asked = VerifyCredentials::decode(Some(sasl)).unwrap();
        assert_eq!(asked.bind.authentication, Authentication::Sasl { mechanism: "PLAIN", credentials: None });
        for bad in [None, Some(&b""[..]), Some(b"\x30\x00"), Some(b"\x30\x04\x80\x02xx")] {
            assert!(VerifyCredentials::decode(bad).is_none(), "{bad:02x?}");
        }
        for end in 0..with_control.len() {
            assert!(VerifyCredentials::decode(with_control.get(..end)).is_none(), "{end}");
        }
        let continued = VerifyCredentials::encode_sasl(Some(b"1"), "PLAIN", Some(b"x"));
        assert_eq!(continued, b"\x30\x11\x80\x011\x04\x00\xa3\x0a\x04\x05PLAIN\x04\x01x");
        let asked = VerifyCredentials::decode(Some(&continued)).unwrap();
        assert_eq!(asked.cookie, Some(&b"1"[..]));
        assert_eq!(
            asked.bind.authentication,
            Authentication::Sasl { mechanism: "PLAIN", credentials: Some(b"x") }
        );
        let refused = VerifiedCredentials {
            code: ResultCode::INVALID_CREDENTIALS,
            diagnostic: "no",
            cookie: None,
            server_credentials: None,
            controls: Controls::NONE,
        };
        let controls = Controls::from_bytes(b"\x30\x05\x04\x031.2").unwrap();
        let right = VerifiedCredentials { code: ResultCode::SUCCESS, diagnostic: "", controls, ..refused };
        let (cookie, server_credentials) = (Some(&b"7"[..]), Some(&b"r=x"[..]));
        let code = ResultCode::SASL_BIND_IN_PROGRESS;
        let challenge = VerifiedCredentials { code, diagnostic: "", cookie, server_credentials, ..refused };
        for (result, octets) in [
            (refused, &b"\x30\x07\x02\x01\x31\x04\x02no"[..]),
            (right, b"\x30\x0e\x02\x01\0\x04\x00\xa2\x07\x30\x05\x04\x031.2"),
            (challenge, b"\x30\x0d\x02\x01\x0e\x04\x00\x80\x017\x81\x03r=x"),
        ] {
            assert_eq!(result.encode(), octets);
            assert_eq!(VerifiedCredentials::decode(octets), Some(result));
            for end in 0..octets.len() {
                assert_eq!(VerifiedCredentials::decode(&octets[..end]), None);
            }
        }
    }
}
