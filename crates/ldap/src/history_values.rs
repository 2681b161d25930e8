//! Values of the extended operation that reads the history of an entry from the log.

use ber::{Reader, Tag};

use crate::control::sequence;

/// Request for changes of an entry, the newest first: `SEQUENCE { entry LDAPDN, before INTEGER }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRequest<'a> {
    /// DN of the entry, or `cn=config` for changes of the settings.
    pub entry: &'a str,
    /// Position in the log. Only changes at lower positions are returned. 0 means all changes.
    pub before: u64,
}

/// Answer: `SEQUENCE { next INTEGER, changes SEQUENCE OF change }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryAnswer {
    /// `before` of the next request; 0 if the log has no older changes.
    pub next: u64,
    /// The changes, the newest first. May be empty although older changes exist.
    pub changes: Vec<HistoryChange>,
}

/// A change: `SEQUENCE { position INTEGER, micros INTEGER, kind ENUMERATED, requester LDAPDN, name LDAPDN, values
/// SEQUENCE OF values }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryChange {
    /// Position in the log.
    pub position: u64,
    /// Time in microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
    /// Kind of the change.
    pub kind: HistoryKind,
    /// DN of the requester; empty for anonymous, and for the server itself.
    pub requester: String,
    /// DN of the entry at that time; for a rename, the DN before the rename. Empty if the requester has no right to see
    /// the DN.
    pub name: String,
    /// Changed values, in the order of the change.
    pub values: Vec<HistoryValues>,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryKind {
    /// The entry was added.
    Add,
    /// Values were changed.
    Modify,
    /// The entry, or a superior of it, was renamed or moved.
    Rename,
    /// The entry was deleted.
    Delete,
    /// The entry was restored.
    Undelete,
    /// The settings were changed. Each value is the text of a setting after the change.
    Settings,
}

/// Effect of a change on values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryEffect {
    /// The values were added.
    Added,
    /// The values were removed.
    Removed,
    /// The values replaced all other values. Without values, the attribute was removed.
    Replaced,
    /// The values existed before the change.
    Before,
    /// The end of the validity of values was changed. The first value is the new end as a generalized time, or empty
    /// for no end. The other values are the values whose validity was changed.
    Until,
}

/// Values of an attribute: `SEQUENCE { fate ENUMERATED, attribute AttributeDescription, isWhole BOOLEAN, values
/// SEQUENCE OF OCTET STRING }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryValues {
    /// Effect on the values.
    pub fate: HistoryEffect,
    /// The attribute, or the key of a setting.
    pub attribute: String,
    /// False if values are omitted because they are secret or too large.
    pub is_whole: bool,
    /// The values.
    pub values: Vec<Vec<u8>>,
}

const KINDS: [HistoryKind; 6] = [
    HistoryKind::Add,
    HistoryKind::Modify,
    HistoryKind::Rename,
    HistoryKind::Delete,
    HistoryKind::Undelete,
    HistoryKind::Settings,
];

const FATES: [HistoryEffect; 5] = [
    HistoryEffect::Added,
    HistoryEffect::Removed,
    HistoryEffect::Replaced,
    HistoryEffect::Before,
    HistoryEffect::Until,
];

impl HistoryKind {
    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            HistoryKind::Add => "add",
            HistoryKind::Modify => "modify",
            HistoryKind::Rename => "rename",
            HistoryKind::Delete => "delete",
            HistoryKind::Undelete => "undelete",
            HistoryKind::Settings => "settings",
        }
    }
}

impl HistoryEffect {
    /// Returns the name of the effect.
    pub fn name(self) -> &'static str {
        match self {
            HistoryEffect::Added => "added",
            HistoryEffect::Removed => "removed",
            HistoryEffect::Replaced => "replaced",
            HistoryEffect::Before => "before",
            HistoryEffect::Until => "until",
        }
    }
}

impl<'a> HistoryRequest<'a> {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<HistoryRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let (entry, before) = (text(&mut fields)?, number(&mut fields)?);
        (reader.is_empty() && fields.is_empty()).then_some(HistoryRequest { entry, before })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(self.entry.as_bytes());
            writer.integer(i64::try_from(self.before).unwrap_or(i64::MAX));
        })
    }
}

impl HistoryAnswer {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<HistoryAnswer> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let next = number(&mut fields)?;
        let mut list = fields.sequence(Tag::SEQUENCE).ok()?;
        let mut changes = Vec::new();
        while !list.is_empty() {
            changes.push(change(&mut list.sequence(Tag::SEQUENCE).ok()?)?);
        }
        (reader.is_empty() && fields.is_empty()).then_some(HistoryAnswer { next, changes })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            let put_number = |writer: &mut ber::Writer<'_>, number: u64| {
                writer.integer(i64::try_from(number).unwrap_or(i64::MAX));
            };
            put_number(writer, self.next);
            let list = writer.begin(Tag::SEQUENCE);
            for change in &self.changes {
                let fields = writer.begin(Tag::SEQUENCE);
                put_number(writer, change.position);
                put_number(writer, change.micros);
                writer.enumerated(place(&KINDS, change.kind));
                writer.octet_string(change.requester.as_bytes());
                writer.octet_string(change.name.as_bytes());
                let all = writer.begin(Tag::SEQUENCE);
                for HistoryValues { fate, attribute, is_whole, values } in &change.values {
                    let of_attribute = writer.begin(Tag::SEQUENCE);
                    writer.enumerated(place(&FATES, *fate));
                    writer.octet_string(attribute.as_bytes());
                    writer.boolean(*is_whole);
                    let own = writer.begin(Tag::SEQUENCE);
                    values.iter().for_each(|value| writer.octet_string(value));
                    writer.end(own);
                    writer.end(of_attribute);
                }
                writer.end(all);
                writer.end(fields);
            }
            writer.end(list);
        })
    }
}

fn change(fields: &mut Reader<'_>) -> Option<HistoryChange> {
    let (position, micros) = (number(fields)?, number(fields)?);
    let kind = *KINDS.get(usize::try_from(fields.enumerated().ok()?).ok()?)?;
    let (requester, name) = (text(fields)?.to_owned(), text(fields)?.to_owned());
    let mut list = fields.sequence(Tag::SEQUENCE).ok()?;
    let mut values = Vec::new();
    while !list.is_empty() {
        let mut of_attribute = list.sequence(Tag::SEQUENCE).ok()?;
        let fate = *FATES.get(usize::try_from(of_attribute.enumerated().ok()?).ok()?)?;
        let attribute = text(&mut of_attribute)?.to_owned();
        let is_whole = of_attribute.boolean().ok()?;
        let mut own = of_attribute.sequence(Tag::SEQUENCE).ok()?;
        let mut octets = Vec::new();
        while !own.is_empty() {
            octets.push(own.octet_string().ok()?.to_vec());
        }
        let found = HistoryValues { fate, attribute, is_whole, values: octets };
        values.push(of_attribute.is_empty().then_some(found)?);
    }
    fields.is_empty().then_some(HistoryChange { position, micros, kind, requester, name, values })
}

fn place<T: PartialEq>(all: &[T], one: T) -> i64 {
    let place = all.iter().position(|other| *other == one).unwrap_or(0);
    i64::try_from(place).unwrap_or(0)
}

fn text<'a>(fields: &mut Reader<'a>) -> Option<&'a str> {
    std::str::from_utf8(fields.octet_string().ok()?).ok()
}

fn number(fields: &mut Reader<'_>) -> Option<u64> {
    u64::try_from(fields.integer().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        let request = HistoryRequest { entry: "cn=a", before: 7 };
        assert_eq!(HistoryRequest::decode(&request.encode()), Some(request));
        let values = FATES.map(|fate| HistoryValues {
            fate,
            attribute: "cn".to_owned(),
            is_whole: fate != HistoryEffect::Before,
            values: vec![b"x".to_vec(), Vec::new()],
        });
        let changes = KINDS.map(|kind| HistoryChange {
            position: 5,
            micros: 6,
            kind,
            requester: String::new(),
            name: "cn=b".to_owned(),
            values: values.to_vec(),
        });
        let answer = HistoryAnswer { next: 3, changes: changes.to_vec() };
        let value = answer.encode();
        assert_eq!(HistoryAnswer::decode(&value), Some(answer));
        for len in 0..value.len() {
            assert_eq!(HistoryAnswer::decode(&value[..len]), None, "cut to {len}");
        }
        assert_eq!(HistoryRequest::decode(b""), None);
        assert_eq!(HistoryRequest::decode(b"\x30\x06\x04\x01a\x02\x01\xff"), None, "a position below 0");
    }
}
