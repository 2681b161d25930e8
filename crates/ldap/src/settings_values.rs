//! Values of the extended operation that reads and changes the settings of a directory.
//!
//! If a value is UTF-8 text, it is a settings file to apply. Any other value begins with an octet that cannot begin
//! UTF-8 text:
//!
//! ```text
//! CHOICE { read  [0] SEQUENCE {},
//!          plan  [1] SEQUENCE { text OCTET STRING },
//!          apply [2] SEQUENCE { text OCTET STRING, version INTEGER },
//!          rehearse [3] SEQUENCE { text OCTET STRING, requesters SEQUENCE OF OCTET STRING } }
//! ```

use ber::{Reader, Tag, Writer};

use crate::control::sequence;

const READ: Tag = Tag::context_constructed(0);
const PLAN: Tag = Tag::context_constructed(1);
const APPLY: Tag = Tag::context_constructed(2);
const REHEARSE: Tag = Tag::context_constructed(3);

/// Maximum number of requesters of a rehearsal, and of lines in its answer.
const TEXTS_MAX: usize = 100;

/// Request about the settings of a directory. Each text is a settings file that includes its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsRequest<'a> {
    /// Returns the settings in force.
    Read,
    /// Returns the changes that a settings file would make.
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
    /// Returns the rights that the access rules of a settings file would change, on a sample of entries.
    Rehearse {
        /// The settings file.
        text: &'a str,
        /// Authorization identities of the requesters; an empty identity means anonymous. If the list is empty, the
        /// server chooses a sample.
        requesters: Vec<&'a str>,
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
            REHEARSE => {
                let text = text(&mut fields)?;
                SettingsRequest::Rehearse { text, requesters: texts(&mut fields)? }
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
            SettingsRequest::Rehearse { text, requesters } => tagged(REHEARSE, |writer| {
                writer.octet_string(text.as_bytes());
                put_texts(writer, requesters);
            }),
        }
    }

    /// Returns true if the request is a change.
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

/// Answer to `rehearse`: `SEQUENCE { requesters SEQUENCE OF OCTET STRING, done INTEGER, entries INTEGER, changes
/// INTEGER, lines SEQUENCE OF OCTET STRING }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RehearsalAnswer {
    /// Authorization identities of all requesters.
    pub requesters: Vec<String>,
    /// Number of requesters that were examined, counted from the first. The client repeats the request for the
    /// remaining requesters.
    pub done: u64,
    /// Number of entries.
    pub entries: u64,
    /// Number of pairs of a requester and an entry whose rights would change.
    pub changes: u64,
    /// The first changes, as one text each.
    pub lines: Vec<String>,
}

impl RehearsalAnswer {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<RehearsalAnswer> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
        let requesters = owned(texts(&mut fields)?);
        let mut number = || fields.integer().ok()?.try_into().ok();
        let (done, entries, changes) = (number()?, number()?, number()?);
        let lines = owned(texts(&mut fields)?);
        let answer = RehearsalAnswer { requesters, done, entries, changes, lines };
        (reader.is_empty() && fields.is_empty()).then_some(answer)
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            put_texts(writer, &self.requesters);
            for number in [self.done, self.entries, self.changes] {
                writer.integer(i64::try_from(number).unwrap_or(i64::MAX));
            }
            put_texts(writer, &self.lines);
        })
    }
}

fn texts<'a>(fields: &mut Reader<'a>) -> Option<Vec<&'a str>> {
    let mut list = fields.sequence(Tag::SEQUENCE).ok()?;
    let mut texts = Vec::new();
    while !list.is_empty() {
        texts.push(Some(text(&mut list)?).filter(|_| texts.len() < TEXTS_MAX)?);
    }
    Some(texts)
}

fn put_texts(writer: &mut Writer<'_>, texts: &[impl AsRef<str>]) {
    let list = writer.begin(Tag::SEQUENCE);
    texts.iter().for_each(|text| writer.octet_string(text.as_ref().as_bytes()));
    writer.end(list);
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
    fn values_decode_as_encoded() {
        for request in [
            SettingsRequest::Read,
            SettingsRequest::Plan { text: "size_limit = 1" },
            SettingsRequest::Apply { text: "", version: None },
            SettingsRequest::Apply { text: "# ü\nsize_limit = 1", version: None },
            SettingsRequest::Apply { text: "size_limit = 1", version: Some(7) },
            SettingsRequest::Rehearse { text: "", requesters: Vec::new() },
            SettingsRequest::Rehearse { text: "access_rules = []", requesters: vec!["", "u:anna"] },
        ] {
            let value = request.encode();
            assert_eq!(SettingsRequest::decode(Some(&value)), Some(request.clone()));
            assert_eq!(SettingsRequest::decode(Some(&[&value[..], &[0xff]].concat())), None);
        }
        let answer = SettingsInForce { version: 9, text: "suffixes = []".to_owned() };
        assert_eq!(SettingsInForce::decode(&answer.encode()), Some(answer));
        let many = SettingsRequest::Rehearse { text: "", requesters: vec![""; TEXTS_MAX + 1] };
        assert_eq!(SettingsRequest::decode(Some(&many.encode())), None);
        let answer = RehearsalAnswer {
            requesters: vec![String::new(), "dn:cn=a".to_owned()],
            done: 1,
            entries: 70_000,
            changes: 3,
            lines: vec!["anonymous at cn=a: may now browse".to_owned()],
        };
        assert_eq!(RehearsalAnswer::decode(&answer.encode()), Some(answer));
        for malformed in [&[0xa1, 0][..], &[0xa4, 0], &[0xa2, 3, 4, 1, b'a'], &[0xa1, 3, 4, 1, 0xff]] {
            assert_eq!(SettingsRequest::decode(Some(malformed)), None, "{malformed:?}");
        }
        assert_eq!(SettingsRequest::decode(None), None);
    }
}
