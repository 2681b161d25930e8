//! Values of the extended operations that list and restore deleted entries.

use ber::{Reader, Tag, Writer};

use crate::control::sequence;

/// Request for a list of deleted entries, the newest first: `SEQUENCE { from OCTET STRING, name [0] LDAPDN OPTIONAL }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletedRequest<'a> {
    /// Position at which the previous answer ended; empty to begin with the newest deleted entry.
    pub from: &'a [u8],
    /// If present, only entries that had this DN are listed.
    pub name: Option<&'a str>,
}

/// A deleted entry in a list: `SEQUENCE { entryUUID OCTET STRING (SIZE(16)), micros INTEGER, requester LDAPDN, name
/// LDAPDN }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedEntry {
    /// entryUUID of the entry.
    pub uuid: [u8; 16],
    /// Time of the delete in microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
    /// DN of the requester of the delete.
    pub requester: String,
    /// DN before the delete.
    pub dn: String,
}

/// Answer: `SEQUENCE { next OCTET STRING, entries SEQUENCE OF entry }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletedAnswer {
    /// Position from which the next request continues; empty if there are no more entries.
    pub next: Vec<u8>,
    /// The entries.
    pub entries: Vec<DeletedEntry>,
}

/// Request to restore an entry and the entries below it that were deleted in the same operation: `SEQUENCE { entryUUID
/// OCTET STRING (SIZE(16)), superior [0] LDAPDN OPTIONAL }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndeleteRequest<'a> {
    /// entryUUID of the deleted entry.
    pub uuid: [u8; 16],
    /// DN of the new superior; `None` for the former superior.
    pub superior: Option<&'a str>,
}

/// Answer: `SEQUENCE { name LDAPDN, entries INTEGER }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndeleteAnswer {
    /// DN of the restored entry.
    pub dn: String,
    /// Number of restored entries: the named entry and the entries below it.
    pub entries: u64,
}

const OPTIONAL: Tag = Tag::context(0);

impl<'a> DeletedRequest<'a> {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<DeletedRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let (from, name) = (fields.octet_string().ok()?, optional(&mut fields)?);
        (reader.is_empty() && fields.is_empty()).then_some(DeletedRequest { from, name })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(self.from);
            put_optional(writer, self.name);
        })
    }
}

impl DeletedAnswer {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<DeletedAnswer> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let next = fields.octet_string().ok()?.to_vec();
        let mut list = fields.sequence(Tag::SEQUENCE).ok()?;
        let mut entries = Vec::new();
        while !list.is_empty() {
            let mut entry = list.sequence(Tag::SEQUENCE).ok()?;
            let uuid = entry.octet_string().ok()?.try_into().ok()?;
            let micros = entry.integer().ok()?.try_into().ok()?;
            let (requester, dn) = (text(&mut entry)?.to_owned(), text(&mut entry)?.to_owned());
            entries.push(entry.is_empty().then_some(DeletedEntry { uuid, micros, requester, dn })?);
        }
        (reader.is_empty() && fields.is_empty()).then_some(DeletedAnswer { next, entries })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(&self.next);
            let list = writer.begin(Tag::SEQUENCE);
            for DeletedEntry { uuid, micros, requester, dn } in &self.entries {
                let entry = writer.begin(Tag::SEQUENCE);
                writer.octet_string(uuid);
                writer.integer(i64::try_from(*micros).unwrap_or(i64::MAX));
                writer.octet_string(requester.as_bytes());
                writer.octet_string(dn.as_bytes());
                writer.end(entry);
            }
            writer.end(list);
        })
    }
}

impl<'a> UndeleteRequest<'a> {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<UndeleteRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let uuid = fields.octet_string().ok()?.try_into().ok()?;
        let superior = optional(&mut fields)?;
        (reader.is_empty() && fields.is_empty()).then_some(UndeleteRequest { uuid, superior })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(&self.uuid);
            put_optional(writer, self.superior);
        })
    }
}

impl UndeleteAnswer {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<UndeleteAnswer> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let dn = text(&mut fields)?.to_owned();
        let entries = fields.integer().ok()?.try_into().ok()?;
        (reader.is_empty() && fields.is_empty()).then_some(UndeleteAnswer { dn, entries })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(self.dn.as_bytes());
            writer.integer(i64::try_from(self.entries).unwrap_or(i64::MAX));
        })
    }
}

fn text<'a>(fields: &mut Reader<'a>) -> Option<&'a str> {
    std::str::from_utf8(fields.octet_string().ok()?).ok()
}

/// Reads an optional DN. The outer `None` means malformed input.
fn optional<'a>(fields: &mut Reader<'a>) -> Option<Option<&'a str>> {
    if fields.is_empty() {
        return Some(None);
    }
    match fields.any().ok()? {
        (OPTIONAL, text) => Some(Some(std::str::from_utf8(text).ok()?)),
        _ => None,
    }
}

fn put_optional(writer: &mut Writer<'_>, text: Option<&str>) {
    if let Some(text) = text {
        writer.element(OPTIONAL, text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_and_damage_never_panics() {
        for name in [None, Some("cn=a")] {
            let list = DeletedRequest { from: b"x", name };
            let undelete = UndeleteRequest { uuid: [7; 16], superior: name };
            assert_eq!(DeletedRequest::decode(&list.encode()), Some(list));
            assert_eq!(UndeleteRequest::decode(&undelete.encode()), Some(undelete));
        }
        let entry = DeletedEntry { uuid: [7; 16], micros: 300, requester: "cn=b".into(), dn: "cn=a".into() };
        let listed = DeletedAnswer { next: b"y".to_vec(), entries: vec![entry.clone(), entry] };
        let done = UndeleteAnswer { dn: "cn=a".into(), entries: 3 };
        assert_eq!(DeletedAnswer::decode(&listed.encode()).as_ref(), Some(&listed));
        assert_eq!(UndeleteAnswer::decode(&done.encode()).as_ref(), Some(&done));
        for end in 0..listed.encode().len() {
            assert_eq!(DeletedAnswer::decode(&listed.encode()[..end]), None);
        }
    }
}
