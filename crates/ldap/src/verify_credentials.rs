//! Verify Credentials, the extended operation of OpenLDAP's module `vc`: the outcome of a bind, without the bind. It
//! has no specification; the values are those that `ldapvc` sends and expects.

use ber::{Reader, Tag, Writer};

use crate::{Authentication, BindRequest, Controls, ResultCode};

/// State of an exchange of several steps, which the server would have returned.
const COOKIE: Tag = Tag::context(0);
const CONTROLS: Tag = Tag::context_constructed(2);

/// Value of a Verify Credentials request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyCredentials<'a> {
    /// Name and credentials, as a bind has them.
    pub bind: BindRequest<'a>,
    /// Controls of the bind.
    pub controls: Controls<'a>,
}

impl<'a> VerifyCredentials<'a> {
    /// Decodes a request value; returns `None` if it is malformed, or continues an exchange.
    pub fn decode(value: Option<&'a [u8]>) -> Option<VerifyCredentials<'a>> {
        let mut reader = Reader::new(value?);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        if fields.peek_tag() == Some(COOKIE) {
            return None;
        }
        let (name, authentication) = BindRequest::decode_credentials(&mut fields).ok()?;
        let controls = match fields.optional(CONTROLS).ok()? {
            Some(controls) => Controls::from_bytes(controls)?,
            None => Controls::NONE,
        };
        let bind = BindRequest { version: 3, name, authentication };
        (reader.is_empty() && fields.is_empty()).then_some(VerifyCredentials { bind, controls })
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

    /// Returns the value of a response: the result of the bind, its diagnostic text and its controls.
    pub fn encode_result(code: ResultCode, diagnostic: &str, controls: Controls<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let whole = writer.begin(Tag::SEQUENCE);
        writer.integer(code.0.into());
        writer.octet_string(diagnostic.as_bytes());
        if !controls.is_empty() {
            writer.element(CONTROLS, controls.as_bytes());
        }
        writer.end(whole);
        out
    }
}

impl Authentication<'_> {
    /// Whether it has a password in clear.
    pub fn is_password(&self) -> bool {
        matches!(self, Authentication::Simple(password) if !password.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_ldapvc() {
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
        for bad in [None, Some(&b""[..]), Some(b"\x30\x00"), Some(b"\x30\x08\x80\x02xx\x04\x00\x80\x00")] {
            assert!(VerifyCredentials::decode(bad).is_none(), "{bad:02x?}");
        }
        for end in 0..with_control.len() {
            assert!(VerifyCredentials::decode(with_control.get(..end)).is_none(), "{end}");
        }
        let result = VerifyCredentials::encode_result(ResultCode::INVALID_CREDENTIALS, "no", Controls::NONE);
        assert_eq!(result, b"\x30\x07\x02\x01\x31\x04\x02no");
        let controls = Controls::from_bytes(b"\x30\x05\x04\x031.2").unwrap();
        let result = VerifyCredentials::encode_result(ResultCode::SUCCESS, "", controls);
        assert_eq!(result, b"\x30\x0e\x02\x01\0\x04\x00\xa2\x07\x30\x05\x04\x031.2");
    }
}
