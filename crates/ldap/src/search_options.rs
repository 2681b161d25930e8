//! The value of the search options control (Active Directory).

use ber::{Reader, Tag};

use crate::control::sequence;

/// Flag that requests no continuation references.
const DOMAIN_SCOPE: i64 = 1;
/// Flag that extends a search to all naming contexts below its base.
const PHANTOM_ROOT: i64 = 2;

/// Options of a search, as in the search options control of Active Directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchOptions {
    /// Whether the search returns no continuation references.
    pub domain_scope: bool,
    /// Whether the search extends to all naming contexts below its base.
    pub phantom_root: bool,
}

impl SearchOptions {
    /// Decodes the value; returns `None` if it is malformed or has another flag.
    pub fn decode(value: &[u8]) -> Option<SearchOptions> {
        let mut reader = Reader::new(value);
        let mut fields = reader.sequence(Tag::SEQUENCE).ok()?;
        let flags = fields.integer().ok()?;
        let is_whole = fields.is_empty() && reader.is_empty() && flags & !(DOMAIN_SCOPE | PHANTOM_ROOT) == 0;
        let has = |flag| flags & flag != 0;
        is_whole.then_some(SearchOptions { domain_scope: has(DOMAIN_SCOPE), phantom_root: has(PHANTOM_ROOT) })
    }

    /// Returns the value, to put into a request.
    pub fn encode(&self) -> Vec<u8> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        sequence(|writer| {
            writer.integer(flag(self.domain_scope, DOMAIN_SCOPE) | flag(self.phantom_root, PHANTOM_ROOT));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_specified_encoding() {
        for (flags, domain_scope, phantom_root) in
            [(0, false, false), (1, true, false), (2, false, true), (3, true, true)]
        {
            let options = SearchOptions { domain_scope, phantom_root };
            let encoded = [0x30, 3, 2, 1, flags];
            assert_eq!(options.encode(), encoded);
            assert_eq!(SearchOptions::decode(&encoded), Some(options));
        }
        let malformed: [&[u8]; 5] =
            [b"", &[0x30, 0], &[0x30, 3, 2, 1, 4], &[0x30, 3, 2, 1, 1, 0], &[0x30, 3, 2, 1, 0xff]];
        for value in malformed {
            assert_eq!(SearchOptions::decode(value), None, "{value:02x?}");
        }
    }
}
