//! Inputs of an operation from outside the directory.

use crate::model::origin::Origin;

/// Time and random values for one operation, and results computed before the writer executes the operation.
#[derive(Clone, Debug, Default)]
pub struct Stamp {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub now_micros: u64,
    /// A random UUID (RFC 9562 version 4), which becomes the entryUUID if the operation adds an entry.
    pub uuid: [u8; 16],
    /// Clear passwords of the request, each with its new stored form.
    pub hashed_passwords: Vec<(Vec<u8>, Vec<u8>)>,
    /// Clear passwords that the request deletes, each with the present stored form that it matches.
    pub matched_passwords: Vec<(Vec<u8>, Vec<u8>)>,
    /// Results of comparing the new passwords with former passwords.
    pub history: HistoryChecks,
    /// Clear passwords of the request, each with its keys for SCRAM, CRAM-MD5 and DIGEST-MD5 as text.
    pub scram_keys: Vec<(Vec<u8>, Vec<String>)>,
    /// Clear passwords of the request that are on the server's lists of weak passwords.
    pub listed_passwords: Vec<Vec<u8>>,
    /// Origin of the request, for its record.
    pub origin: Origin,
    /// Whether the record stores the values that the change replaces or removes.
    pub keeps_old_values: bool,
}

/// Results of comparing the new passwords of a request with the entry's former passwords. The policy forbids reusing
/// former passwords. The results are valid only if the entry has no other former passwords when the writer executes
/// the request.
#[derive(Clone, Debug, Default)]
pub struct HistoryChecks {
    /// Stored forms of the former passwords that were compared.
    pub forms: Vec<Vec<u8>>,
    /// Members of `forms` that match one of the new passwords.
    pub matching: Vec<Vec<u8>>,
}
