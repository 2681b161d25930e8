//! PLAIN (RFC 4616). The client sends a name and a password in clear text.

use crate::SaslError;
use crate::limits::{MESSAGE_SIZE_MAX, NAME_SIZE_MAX};

/// The only message of the client. It does not implement `Debug`, because it contains the password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Plain<'a> {
    /// Authorization identity that the client requests. It is empty if the client requests none.
    pub authorization: &'a str,
    /// Name of the user.
    pub authentication: &'a str,
    /// The password.
    pub password: &'a [u8],
}

impl<'a> Plain<'a> {
    /// Parses the message. It consists of the authorization identity, NUL, the name, NUL, and the password.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn parse(message: &'a [u8]) -> Result<Plain<'a>, SaslError> {
        let mut parts = message.split(|octet| *octet == 0);
        let (Some(authorization), Some(authentication), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(SaslError::Malformed("it has three parts with a NUL between them"));
        };
        let text = |bytes: &'a [u8]| {
            std::str::from_utf8(bytes)
                .ok()
                .filter(|text| text.len() <= NAME_SIZE_MAX)
                .ok_or(SaslError::Malformed("a name is not UTF-8, or too long"))
        };
        let (authorization, authentication) = (text(authorization)?, text(authentication)?);
        if message.len() > MESSAGE_SIZE_MAX || authentication.is_empty() || password.is_empty() {
            return Err(SaslError::Malformed("name and password are not empty"));
        }
        Ok(Plain { authorization, authentication, password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_or_refused() {
        // The example in RFC 4616 section 4.
        let plain = Plain::parse(b"\0tim\0tanstaaftanstaaf").ok().unwrap();
        assert_eq!((plain.authorization, plain.authentication), ("", "tim"));
        assert_eq!(plain.password, b"tanstaaftanstaaf");
        let plain = Plain::parse(b"Ursel\0Kurt\0xipj3plmq").ok().unwrap();
        assert_eq!((plain.authorization, plain.authentication), ("Ursel", "Kurt"));
        let long = [&b"\0"[..], &[b'a'; NAME_SIZE_MAX + 1], b"\0x"].concat();
        for bad in
            [&b""[..], b"a", b"a\0b", b"\0\0x", b"\0a\0", b"\0a\0b\0c", b"\0\xff\0b", &long, &[0; 10_000]]
        {
            assert!(Plain::parse(bad).is_err(), "{bad:?}");
        }
    }
}
