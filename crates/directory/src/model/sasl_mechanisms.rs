//! Names of the SASL mechanisms.

/// Name and clear password (RFC 4616).
pub const PLAIN: &str = "PLAIN";

/// Token of a trusted issuer (RFC 7628).
pub const OAUTHBEARER: &str = "OAUTHBEARER";

/// Kerberos ticket (RFC 4752).
pub const GSSAPI: &str = "GSSAPI";

/// Kerberos ticket, with negotiation (RFC 4178).
pub const GSS_SPNEGO: &str = "GSS-SPNEGO";

/// Proof of the password with MD5, for old clients (RFC 2195).
pub const CRAM_MD5: &str = "CRAM-MD5";

/// Like CRAM-MD5, with a realm and a proof by the server (RFC 2831).
pub const DIGEST_MD5: &str = "DIGEST-MD5";

/// Anonymous, with trace information for the log (RFC 4505).
pub const ANONYMOUS: &str = "ANONYMOUS";

/// Token that the server mailed to the user of an account. Only the console binds with this mechanism, and settings
/// cannot list it.
pub const MAIL_TOKEN: &str = "PANDO-MAIL-TOKEN";

/// All mechanisms, strongest first, because clients choose in this order.
pub(crate) const MECHANISMS: [&str; 14] = [
    "EXTERNAL",
    GSSAPI,
    GSS_SPNEGO,
    "SCRAM-SHA-512-PLUS",
    "SCRAM-SHA-512",
    "SCRAM-SHA-256-PLUS",
    "SCRAM-SHA-256",
    "SCRAM-SHA-1-PLUS",
    "SCRAM-SHA-1",
    OAUTHBEARER,
    PLAIN,
    DIGEST_MD5,
    CRAM_MD5,
    ANONYMOUS,
];
