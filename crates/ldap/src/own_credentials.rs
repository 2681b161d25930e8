//! Values of Pando's extended operation on the requester's own credentials: a secret for time-based codes, and
//! application passwords.
//!
//! ```text
//! SEQUENCE { action ENUMERATED { read(0), addApplication(1), removeApplication(2), setCodes(3), clearCodes(4) },
//!            arguments SEQUENCE OF OCTET STRING OPTIONAL }
//! ```
//!
//! The arguments, in order, are:
//! - `addApplication`: the name of the application, and optionally the number of days until its password expires
//! - `removeApplication`: the name of the application
//! - `setCodes`: the secret in base32, and a code generated from it
//!
//! The answer to `read` has lines of a key and its values, separated by tabs. The answer to `addApplication` is the
//! password that the server generated, encoded as in Password Modify (RFC 3062).

use ber::{Reader, Tag};

use crate::control::sequence;

/// Maximum number of arguments of a request.
const ARGUMENTS_MAX: usize = 4;

/// Request about the requester's own credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnCredentials<'a> {
    /// Returns the credentials and the rules of the password policy.
    Read,
    /// Adds a password for an application.
    AddApplication {
        /// Name of the application.
        name: &'a str,
        /// Days until the password expires; `None` for never.
        days: Option<u32>,
    },
    /// Removes the passwords of an application.
    RemoveApplication {
        /// Name of the application.
        name: &'a str,
    },
    /// Sets the secret of time-based codes (RFC 6238).
    SetCodes {
        /// The secret, in base32.
        secret: &'a str,
        /// A current code, which proves that the user's device has the secret.
        code: &'a str,
    },
    /// Removes the secret.
    ClearCodes,
}

impl<'a> OwnCredentials<'a> {
    /// Decodes a request's value; `None` if it is malformed.
    pub fn decode(value: Option<&'a [u8]>) -> Option<OwnCredentials<'a>> {
        let mut reader = Reader::new(value?);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let action = fields.enumerated().ok()?;
        let mut arguments = Vec::new();
        if !fields.is_empty() {
            let mut list = fields.sequence(Tag::SEQUENCE).ok()?;
            while !list.is_empty() {
                let text = std::str::from_utf8(list.octet_string().ok()?).ok()?;
                arguments.push(Some(text).filter(|_| arguments.len() < ARGUMENTS_MAX)?);
            }
        }
        if !(reader.is_empty() && fields.is_empty()) {
            return None;
        }
        Some(match (action, arguments.as_slice()) {
            (0, []) => OwnCredentials::Read,
            (1, [name]) => OwnCredentials::AddApplication { name, days: None },
            (1, [name, days]) => OwnCredentials::AddApplication { name, days: Some(days.parse().ok()?) },
            (2, [name]) => OwnCredentials::RemoveApplication { name },
            (3, [secret, code]) => OwnCredentials::SetCodes { secret, code },
            (4, []) => OwnCredentials::ClearCodes,
            _ => return None,
        })
    }

    /// Returns the value of a request.
    pub fn encode(&self) -> Vec<u8> {
        let days_text;
        let (action, arguments): (i64, Vec<&str>) = match self {
            OwnCredentials::Read => (0, Vec::new()),
            OwnCredentials::AddApplication { name, days: None } => (1, vec![name]),
            OwnCredentials::AddApplication { name, days: Some(days) } => {
                days_text = days.to_string();
                (1, vec![name, &days_text])
            }
            OwnCredentials::RemoveApplication { name } => (2, vec![name]),
            OwnCredentials::SetCodes { secret, code } => (3, vec![secret, code]),
            OwnCredentials::ClearCodes => (4, Vec::new()),
        };
        sequence(|writer| {
            writer.enumerated(action);
            if !arguments.is_empty() {
                let list = writer.begin(Tag::SEQUENCE);
                arguments.iter().for_each(|argument| writer.octet_string(argument.as_bytes()));
                writer.end(list);
            }
        })
    }

    /// Returns true if the request is a change.
    pub fn is_change(&self) -> bool {
        *self != OwnCredentials::Read
    }
}

/// An application password that the server has generated. The server's session passes it to its writer; clients never
/// send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedApplication<'a> {
    /// Name of the application.
    pub name: &'a str,
    /// Stored form of the password.
    pub stored: &'a [u8],
    /// Days until the password expires; `None` for never.
    pub days: Option<u32>,
}

impl<'a> GeneratedApplication<'a> {
    /// Decodes a value; `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<GeneratedApplication<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let mut text = || std::str::from_utf8(fields.octet_string().ok()?).ok();
        let (name, days) = (text()?, text()?);
        let stored = fields.octet_string().ok()?;
        let days = if days.is_empty() { None } else { Some(days.parse().ok()?) };
        (reader.is_empty() && fields.is_empty()).then_some(GeneratedApplication { name, stored, days })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        let days = self.days.map(|days| days.to_string()).unwrap_or_default();
        sequence(|writer| {
            writer.octet_string(self.name.as_bytes());
            writer.octet_string(days.as_bytes());
            writer.octet_string(self.stored);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_applications_round_trip() {
        for days in [None, Some(30)] {
            let made = GeneratedApplication { name: "mail", stored: b"{SSHA512}x", days };
            let value = made.encode();
            assert_eq!(GeneratedApplication::decode(&value), Some(made));
            assert_eq!(GeneratedApplication::decode(value.get(1..).unwrap_or_default()), None);
        }
    }

    #[test]
    fn requests_round_trip() {
        for request in [
            OwnCredentials::Read,
            OwnCredentials::AddApplication { name: "mail", days: None },
            OwnCredentials::AddApplication { name: "mail", days: Some(30) },
            OwnCredentials::RemoveApplication { name: "mail" },
            OwnCredentials::SetCodes { secret: "ABC", code: "123456" },
            OwnCredentials::ClearCodes,
        ] {
            let value = request.encode();
            assert_eq!(OwnCredentials::decode(Some(&value)), Some(request.clone()));
            for end in 0..value.len() {
                assert_eq!(OwnCredentials::decode(value.get(..end)), None, "{request:?} cut at {end}");
            }
        }
    }

    #[test]
    fn malformed_requests_are_refused() {
        let of = |action: i64, arguments: &[&[u8]]| {
            sequence(|writer| {
                writer.enumerated(action);
                let list = writer.begin(Tag::SEQUENCE);
                arguments.iter().for_each(|argument| writer.octet_string(argument));
                writer.end(list);
            })
        };
        assert_eq!(OwnCredentials::decode(None), None);
        for (action, arguments) in [
            (0, &[&b"x"[..]][..]),
            (1, &[]),
            (1, &[b"mail", b"-1"]),
            (1, &[b"mail", b"4294967296"]),
            (1, &[b"\xff"]),
            (2, &[b"a", b"b"]),
            (3, &[b"secret"]),
            (4, &[b"x"]),
            (5, &[]),
            (-1, &[]),
            (2, &[b"a", b"b", b"c", b"d", b"e", b"f"]),
        ] {
            assert_eq!(OwnCredentials::decode(Some(&of(action, arguments))), None, "{action} {arguments:?}");
        }
    }
}
