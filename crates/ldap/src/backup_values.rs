//! Values of the extended operation that reads former states of entries from the backup.

use ber::{Reader, Tag};

use crate::control::sequence;

/// Request: `SEQUENCE { entry LDAPDN, micros INTEGER, tree BOOLEAN DEFAULT FALSE }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupRequest<'a> {
    /// DN of the entry at the requested time.
    pub entry: &'a str,
    /// The requested time, in microseconds since 1970-01-01T00:00:00Z. Changes made at exactly this time are included.
    pub micros: u64,
    /// Whether to return the whole subtree of the entry. If true, the answer also contains the entries outside the
    /// subtree that name an entry inside it.
    pub is_tree: bool,
}

/// Answer: `SEQUENCE { position INTEGER, micros INTEGER, ldif OCTET STRING, referrers OCTET STRING OPTIONAL }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupAnswer {
    /// Position in the log of the last change up to the requested time.
    pub position: u64,
    /// Time of the change at `position`, in microseconds since 1970-01-01T00:00:00Z.
    pub micros: u64,
    /// The entry, or the subtree with superiors first, as LDIF with all stored attributes; empty if the entry did not
    /// exist.
    pub ldif: Vec<u8>,
    /// LDIF of the entries outside the requested subtree that named an entry inside it. For each of these entries, the
    /// LDIF contains only the entryUUID and the values that name entries of the subtree. Empty if no subtree was
    /// requested.
    pub referrers: Vec<u8>,
}

impl<'a> BackupRequest<'a> {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &'a [u8]) -> Option<BackupRequest<'a>> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let entry = std::str::from_utf8(fields.octet_string().ok()?).ok()?;
        let micros = fields.integer().ok()?.try_into().ok()?;
        let is_tree = !fields.is_empty() && fields.boolean().ok()?;
        (reader.is_empty() && fields.is_empty()).then_some(BackupRequest { entry, micros, is_tree })
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.octet_string(self.entry.as_bytes());
            writer.integer(i64::try_from(self.micros).unwrap_or(i64::MAX));
            if self.is_tree {
                writer.boolean(true);
            }
        })
    }
}

impl BackupAnswer {
    /// Decodes a value; returns `None` if it is malformed.
    pub fn decode(value: &[u8]) -> Option<BackupAnswer> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let position = fields.integer().ok()?.try_into().ok()?;
        let micros = fields.integer().ok()?.try_into().ok()?;
        let ldif = fields.octet_string().ok()?.to_vec();
        let referrers = if fields.is_empty() { Vec::new() } else { fields.octet_string().ok()?.to_vec() };
        let answer = BackupAnswer { position, micros, ldif, referrers };
        (reader.is_empty() && fields.is_empty()).then_some(answer)
    }

    /// Returns the value.
    pub fn encode(&self) -> Vec<u8> {
        sequence(|writer| {
            writer.integer(i64::try_from(self.position).unwrap_or(i64::MAX));
            writer.integer(i64::try_from(self.micros).unwrap_or(i64::MAX));
            writer.octet_string(&self.ldif);
            if !self.referrers.is_empty() {
                writer.octet_string(&self.referrers);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_and_damage_never_panics() {
        for is_tree in [false, true] {
            let request = BackupRequest { entry: "cn=a", micros: 300, is_tree };
            let asked = request.encode();
            assert_eq!(BackupRequest::decode(&asked), Some(request));
            for end in 0..asked.len() {
                assert_eq!(BackupRequest::decode(&asked[..end]), None);
            }
            let referrers = if is_tree { b"dn: cn=b\n\n".to_vec() } else { Vec::new() };
            let answer = BackupAnswer { position: 7, micros: 300, ldif: b"dn: cn=a\n\n".to_vec(), referrers };
            assert_eq!(BackupAnswer::decode(&answer.encode()).as_ref(), Some(&answer));
            for end in 0..answer.encode().len() {
                assert_eq!(BackupAnswer::decode(&answer.encode()[..end]), None);
            }
        }
        assert_eq!(BackupRequest::decode(&[0x30, 5, 4, 0, 2, 1, 0x80]), None, "a negative time");
    }
}
