//! Settings of a directory on the wire: the values of the extended operation that reads and changes them.
//!
//! A value that is UTF-8 text is a settings file to put in force. The others begin with an octet that begins no such
//! text:
//!
//! ```text
//! CHOICE { read  [0] SEQUENCE {},
//!          plan  [1] SEQUENCE { text OCTET STRING },
//!          apply [2] SEQUENCE { text OCTET STRING, version INTEGER } }
//! ```

use ber::{Reader, Tag, Writer};

use crate::control::sequence;

const READ: Tag = Tag::context_constructed(0);
const PLAN: Tag = Tag::context_constructed(1);
const APPLY: Tag = Tag::context_constructed(2);

/// Request about the settings of a directory. A text is a settings file with its schema inline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsRequest<'a> {
    /// Asks for the settings in force.
    Read,
    /// Asks for the changes that a settings file would make.
    Plan {
        /// The settings file.
        text: &'a str,
    },
    /// Puts a settings file in force.
    Apply {
        /// The settings file.
        text: &'a str,
        /// Version of the settings that the change is based on; `None` for any.
        version: Option<u64>,
    },
}

impl<'a> SettingsRequest<'a> {
    /// Decodes a request's value; `None` if it is malformed.
    pub fn decode(value: Option<&'a [u8]>) -> Option<SettingsRequest<'a>> {
        let value = value?;
        if let Ok(text) = std::str::from_utf8(value) {
            return Some(SettingsRequest::Apply { text, version: None });
        }
        let mut reader = Reader::new(value);
        let tag = reader.peek_tag()?;
        let mut fields = reader.sequence(tag).ok()?;
        let request = match tag {
            READ => SettingsRequest::Read,
            PLAN => SettingsRequest::Plan { text: text(&mut fields)? },
            APPLY => {
                let text = text(&mut fields)?;
                SettingsRequest::Apply { text, version: Some(fields.integer().ok()?.try_into().ok()?) }
            }
            _ => return None,
        };
        (reader.is_empty() && fields.is_empty()).then_some(request)
    }

    /// Returns the value of a request.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            SettingsRequest::Read => tagged(READ, |_| ()),
            SettingsRequest::Plan { text } => tagged(PLAN, |writer| writer.octet_string(text.as_bytes())),
            SettingsRequest::Apply { text, version: None } => text.as_bytes().to_vec(),
            SettingsRequest::Apply { text, version: Some(version) } => tagged(APPLY, |writer| {
                writer.octet_string(text.as_bytes());
                writer.integer(i64::try_from(*version).unwrap_or(i64::MAX));
            }),
        }
    }

    /// Whether the request changes something.
    pub fn is_change(&self) -> bool {
        matches!(self, SettingsRequest::Apply { .. })
    }
}

/// Answer to `read`: `SEQUENCE { version INTEGER, text OCTET STRING }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsInForce {
    /// Position of the last change of the settings in the log.
    pub version: u64,
    /// The settings as a settings file.
    pub text: String,
}

impl SettingsInForce {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<SettingsInForce> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let version = fields.integer().ok()?.try_into().ok()?;
        let text = text(&mut fields)?.to_owned();
        (reader.is_empty() && fields.is_empty()).then_some(SettingsInForce { version, text })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.integer(i64::try_from(self.version).unwrap_or(i64::MAX));
            writer.octet_string(self.text.as_bytes());
        })
    }
}

fn tagged(tag: Tag, fields: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut value = Vec::new();
    let mut writer = Writer::new(&mut value);
    let mark = writer.begin(tag);
    fields(&mut writer);
    writer.end(mark);
    value
}

fn text<'a>(fields: &mut Reader<'a>) -> Option<&'a str> {
    std::str::from_utf8(fields.octet_string().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for request in [
            SettingsRequest::Read,
            SettingsRequest::Plan { text: "size_limit = 1" },
            SettingsRequest::Apply { text: "", version: None },
            SettingsRequest::Apply { text: "# ü\nsize_limit = 1", version: None },
            SettingsRequest::Apply { text: "size_limit = 1", version: Some(7) },
        ] {
            let value = request.encode();
            assert_eq!(SettingsRequest::decode(Some(&value)), Some(request.clone()));
            assert_eq!(SettingsRequest::decode(Some(&[&value[..], &[0xff]].concat())), None);
        }
        let answer = SettingsInForce { version: 9, text: "suffixes = []".to_owned() };
        assert_eq!(SettingsInForce::decode(&answer.encode()), Some(answer));
        for malformed in [&[0xa1, 0][..], &[0xa3, 0], &[0xa2, 3, 4, 1, b'a'], &[0xa1, 3, 4, 1, 0xff]] {
            assert_eq!(SettingsRequest::decode(Some(malformed)), None, "{malformed:?}");
        }
        assert_eq!(SettingsRequest::decode(None), None);
    }
}
