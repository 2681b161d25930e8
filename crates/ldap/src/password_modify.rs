//! The values of the Password Modify extended operation (RFC 3062 section 2).

use ber::{Reader, Tag};

use crate::control::sequence;

const USER_IDENTITY: Tag = Tag::context(0);
const OLD_PASSWORD: Tag = Tag::context(1);
const NEW_PASSWORD: Tag = Tag::context(2);
const GENERATED_PASSWORD: Tag = Tag::context(0);

/// Password Modify request (RFC 3062).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PasswordModify<'a> {
    /// User whose password is changed, often a DN; `None` means the requester.
    pub user_identity: Option<&'a [u8]>,
    /// Current password.
    pub old_password: Option<&'a [u8]>,
    /// New password; `None` asks the server to generate one.
    pub new_password: Option<&'a [u8]>,
}

/// Does not show passwords.
impl std::fmt::Debug for PasswordModify<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PasswordModify").finish_non_exhaustive()
    }
}

impl<'a> PasswordModify<'a> {
    /// Decodes a request's value; returns `None` if the value is malformed. The value may be absent.
    pub fn decode(value: Option<&'a [u8]>) -> Option<PasswordModify<'a>> {
        let Some(value) = value else { return Some(PasswordModify::default()) };
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let request = PasswordModify {
            user_identity: fields.optional(USER_IDENTITY).ok()?,
            old_password: fields.optional(OLD_PASSWORD).ok()?,
            new_password: fields.optional(NEW_PASSWORD).ok()?,
        };
        (reader.is_empty() && fields.is_empty()).then_some(request)
    }

    /// Encodes the value, to put into a request.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            let parts = [
                (USER_IDENTITY, self.user_identity),
                (OLD_PASSWORD, self.old_password),
                (NEW_PASSWORD, self.new_password),
            ];
            for (tag, part) in parts {
                if let Some(part) = part {
                    writer.element(tag, part);
                }
            }
        })
    }
}

/// Encodes the response's value, which contains the password that the server generated.
pub fn encode_generated_password(password: &[u8]) -> Vec<u8> {
    sequence(|writer| {
        writer.element(GENERATED_PASSWORD, password);
    })
}

/// Returns the password in a response's value; `None` if there is none.
pub fn decode_generated_password(value: &[u8]) -> Option<&[u8]> {
    let mut fields = Reader::new(value).sequence(Tag::SEQUENCE).ok()?;
    fields.optional(GENERATED_PASSWORD).ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_specified_encoding() {
        let request = |user_identity, old_password, new_password| PasswordModify {
            user_identity,
            old_password,
            new_password,
        };
        let cases: [(PasswordModify<'_>, &[u8]); 4] = [
            (request(None, None, None), &[0x30, 0]),
            (request(Some(b"o=x"), None, None), &[0x30, 5, 0x80, 3, b'o', b'=', b'x']),
            (request(None, Some(b"a"), Some(b"")), &[0x30, 5, 0x81, 1, b'a', 0x82, 0]),
            (request(Some(b""), None, Some(b"b")), &[0x30, 5, 0x80, 0, 0x82, 1, b'b']),
        ];
        for (request, encoded) in cases {
            assert_eq!(request.encode(), encoded);
            assert_eq!(PasswordModify::decode(Some(encoded)), Some(request));
        }
        assert_eq!(PasswordModify::decode(None), Some(PasswordModify::default()));
        assert_eq!(decode_generated_password(&encode_generated_password(b"secret")), Some(&b"secret"[..]));
        assert_eq!(decode_generated_password(&[0x30, 0]), None);
    }

    #[test]
    fn rejects_malformed_values() {
        let cases: [&[u8]; 6] = [
            b"",
            &[0x30, 1],
            &[0x30, 0, 0],
            &[0x30, 2, 4, 0],
            &[0x30, 4, 0x82, 0, 0x81, 0],
            &[0x30, 3, 0x80, 2, b'a'],
        ];
        for value in cases {
            assert_eq!(PasswordModify::decode(Some(value)), None, "{value:02x?}");
        }
    }
}
