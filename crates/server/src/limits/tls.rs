//! Limits of TLS and certificates.

use std::time::Duration;

/// Size in octets of the responses that are encrypted before the socket accepts them. A TLS connection occupies this
/// memory in addition to [`UNSENT_MAX`](super::UNSENT_MAX).
pub const TLS_CHUNK_MAX: usize = 64 << 10;

/// Maximum number of reads from a socket in a row without plaintext. After them, the connection counts one read of
/// [`READS_PER_TURN_MAX`](super::READS_PER_TURN_MAX).
pub const TLS_FILLS_MAX: usize = 16;

/// Time that a client has for its part of a TLS handshake.
pub const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size in octets of a client's messages in a TLS handshake. Certificates are the largest part of them.
pub const TLS_HANDSHAKE_SIZE_MAX: usize = 64 << 10;

/// Maximum size of a file with certificates or keys, in octets.
pub const TLS_FILE_SIZE_MAX: u64 = 16 << 20;

/// Interval at which the certificate files are checked for changes.
pub const CERTIFICATE_WATCH: Duration = Duration::from_secs(10);

/// Time before the expiry of a certificate at which the server begins to warn about it.
pub const CERTIFICATE_WARNING: Duration = Duration::from_secs(30 * 86_400);

/// Interval between two warnings about the expiry of a certificate.
pub const CERTIFICATE_WARNING_INTERVAL: Duration = Duration::from_secs(86_400);

/// Number of days for which the server's own certificate authority is valid.
pub const OWN_AUTHORITY_DAYS: i64 = 7_300;

/// Number of days for which the server's own certificate is valid. Apple's systems reject a certificate that is valid
/// for more than 825 days.
pub const OWN_CERTIFICATE_DAYS: i64 = 730;

/// The server's own certificate is renewed this number of days before its validity ends.
pub const OWN_CERTIFICATE_RENEWAL_DAYS: i64 = 90;

/// Maximum time by which the clock of a client may lag the clock of the server that creates a certificate.
pub const CERTIFICATE_CLOCK_SKEW: Duration = Duration::from_secs(86_400);
