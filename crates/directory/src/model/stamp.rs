//! What an operation takes from outside.

use crate::model::origin::Origin;

/// What the clock and the random source gave to one operation.
#[derive(Clone, Debug, Default)]
pub struct Stamp {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub now_micros: u64,
    /// A random UUID (RFC 9562 version 4) for an entry that the operation may add.
    pub uuid: [u8; 16],
    /// Clear passwords of the request, each with the stored form made of it beforehand.
    pub hashed_passwords: Vec<(Vec<u8>, Vec<u8>)>,
    /// Clear passwords that the request deletes, each with the stored form that it verifies against.
    pub matched_passwords: Vec<(Vec<u8>, Vec<u8>)>,
    /// What the new passwords were compared with.
    pub history: HistoryChecks,
    /// Clear passwords of the request with the text forms of their keys for SCRAM, CRAM-MD5 and DIGEST-MD5.
    pub scram_keys: Vec<(Vec<u8>, Vec<String>)>,
    /// Clear passwords of the request that are on the server's lists of bad ones.
    pub listed_passwords: Vec<Vec<u8>>,
    /// Where the request came from, for its record.
    pub origin: Origin,
    /// Whether the record keeps the values that the change replaces or removes.
    pub keeps_old_values: bool,
}

/// The stored forms that the new passwords of a request were verified against, because no former password may be used
/// again. It decides only where the entry has no other by then.
#[derive(Clone, Debug, Default)]
pub struct HistoryChecks {
    /// Stored forms that were verified.
    pub forms: Vec<Vec<u8>>,
    /// Those of them that one of the new passwords matches.
    pub matching: Vec<Vec<u8>>,
}
