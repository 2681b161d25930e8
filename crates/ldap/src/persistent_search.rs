//! The values of the controls of a persistent search (draft-ietf-ldapext-psearch-03 sections 4 and 5).

use ber::{Reader, Tag};

use crate::control::{sequence, text};

/// Type of a change to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeType {
    /// The entry was added.
    Add = 1,
    /// The entry was deleted.
    Delete = 2,
    /// The entry was modified.
    Modify = 4,
    /// The entry was renamed or moved.
    ModifyDn = 8,
}

impl ChangeType {
    const ALL: [ChangeType; 4] =
        [ChangeType::Add, ChangeType::Delete, ChangeType::Modify, ChangeType::ModifyDn];

    /// Returns the bit of this type in a request.
    pub const fn bit(self) -> u8 {
        self as u8
    }
}

/// Persistent Search control value: the changes to which a client subscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentSearch {
    /// Change types the client subscribed to: the sum of their bits, from 1 to 15.
    pub change_types: u8,
    /// Whether to omit the entries that exist when the search begins.
    pub changes_only: bool,
    /// Whether each changed entry is sent with an [`EntryChange`].
    pub returns_entry_changes: bool,
}

impl PersistentSearch {
    /// Value that includes all change types.
    pub const ALL_TYPES: u8 = 15;

    /// Decodes the value of a request control; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<PersistentSearch> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let change_types = u8::try_from(fields.integer().ok()?).ok()?;
        let (changes_only, returns_entry_changes) = (fields.boolean().ok()?, fields.boolean().ok()?);
        let is_valid = (1..=PersistentSearch::ALL_TYPES).contains(&change_types);
        (is_valid && fields.is_empty() && reader.is_empty()).then_some(PersistentSearch {
            change_types,
            changes_only,
            returns_entry_changes,
        })
    }

    /// Encodes the value of a request control.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.integer(self.change_types.into());
            writer.boolean(self.changes_only);
            writer.boolean(self.returns_entry_changes);
        })
    }

    /// Returns true if the request includes changes of this type.
    pub fn wants(&self, change: ChangeType) -> bool {
        self.change_types & change.bit() != 0
    }
}

/// Entry change notification, sent with a changed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryChange<'a> {
    /// Type of the change.
    pub change_type: ChangeType,
    /// The former DN, if the change was a rename or move.
    pub previous_dn: Option<&'a str>,
    /// The number of the change in a change log.
    pub change_number: Option<i64>,
}

impl<'a> EntryChange<'a> {
    /// Decodes the value of the control; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<EntryChange<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let number = fields.enumerated().ok()?;
        let change_type = ChangeType::ALL.into_iter().find(|known| i64::from(known.bit()) == number)?;
        let previous_dn = match fields.optional(Tag::OCTET_STRING).ok()? {
            Some(octets) => Some(text(octets)?),
            None => None,
        };
        let change_number = if fields.is_empty() { None } else { Some(fields.integer().ok()?) };
        (fields.is_empty() && reader.is_empty()).then_some(EntryChange {
            change_type,
            previous_dn,
            change_number,
        })
    }

    /// Encodes the value of the control.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.enumerated(self.change_type.bit().into());
            self.previous_dn.iter().for_each(|dn| writer.octet_string(dn.as_bytes()));
            self.change_number.iter().for_each(|number| writer.integer(*number));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_encoding_of_the_draft() {
        let all = PersistentSearch { change_types: 15, changes_only: true, returns_entry_changes: false };
        assert_eq!(all.encode(), [0x30, 9, 2, 1, 15, 1, 1, 0xff, 1, 1, 0]);
        assert_eq!(PersistentSearch::decode(&all.encode()), Some(all));
        let one = PersistentSearch { change_types: ChangeType::Delete.bit(), ..all };
        assert!(one.wants(ChangeType::Delete) && !one.wants(ChangeType::Add));
        for types in [0, 16, 0xff] {
            let wrong = PersistentSearch { change_types: types, ..all };
            assert_eq!(PersistentSearch::decode(&wrong.encode()), None, "{types}");
        }
        for wrong in [&b""[..], &[0x30, 6, 2, 1, 15, 1, 1, 0], &[0x30, 3, 2, 1, 15]] {
            assert_eq!(PersistentSearch::decode(wrong), None, "{wrong:?}");
        }
        let renamed = EntryChange {
            change_type: ChangeType::ModifyDn,
            previous_dn: Some("a=b"),
            change_number: Some(16),
        };
        assert_eq!(renamed.encode(), [0x30, 11, 10, 1, 8, 4, 3, b'a', b'=', b'b', 2, 1, 16]);
        let added = EntryChange { change_type: ChangeType::Add, previous_dn: None, change_number: None };
        assert_eq!(added.encode(), [0x30, 3, 10, 1, 1]);
        for change in [renamed, added, EntryChange { previous_dn: None, ..renamed }] {
            assert_eq!(EntryChange::decode(&change.encode()), Some(change));
        }
        for wrong in [&b""[..], &[0x30, 3, 10, 1, 3], &[0x30, 3, 10, 1, 0], &[0x30, 5, 10, 1, 1, 1, 0]] {
            assert_eq!(EntryChange::decode(wrong), None, "{wrong:?}");
        }
    }
}
