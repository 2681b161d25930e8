//! Inputs of an operation from outside the directory.

use crate::model::origin::Origin;

/// Clock and random values for one operation, and results computed before it.
#[derive(Clone, Debug, Default)]
pub struct Stamp {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub now_micros: u64,
    /// A random UUID (RFC 9562 version 4) for an entry that the operation may add.
    pub uuid: [u8; 16],
    /// Clear passwords of the request, each with the stored form that was made of it.
    pub hashed_passwords: Vec<(Vec<u8>, Vec<u8>)>,
    /// Clear passwords that the request deletes, each with the stored form that it matches.
    pub matched_passwords: Vec<(Vec<u8>, Vec<u8>)>,
    /// Results of the comparison of the new passwords with former ones.
    pub history: HistoryChecks,
    /// Clear passwords of the request, each with the text forms of its keys for SCRAM, CRAM-MD5 and DIGEST-MD5.
    pub scram_keys: Vec<(Vec<u8>, Vec<String>)>,
    /// Clear passwords of the request that are on the server's lists of weak passwords.
    pub listed_passwords: Vec<Vec<u8>>,
    /// Origin of the request, for its record.
    pub origin: Origin,
    /// Whether the record keeps the values that the change replaces or removes.
    pub keeps_old_values: bool,
}

/// Stored forms that the new passwords of a request were verified against, because former passwords may not be used
/// again. The result is valid only if the entry still has no others when the request is decided.
#[derive(Clone, Debug, Default)]
pub struct HistoryChecks {
    /// Stored forms that were verified.
    pub forms: Vec<Vec<u8>>,
    /// Stored forms that one of the new passwords matches.
    pub matching: Vec<Vec<u8>>,
}
