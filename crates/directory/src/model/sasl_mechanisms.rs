//! The names of the SASL mechanisms that settings may name.

/// A name and a password in clear (RFC 4616).
pub const PLAIN: &str = "PLAIN";

/// A token of an issuer that the server trusts (RFC 7628).
pub const OAUTHBEARER: &str = "OAUTHBEARER";

/// A ticket of Kerberos (RFC 4752).
pub const GSSAPI: &str = "GSSAPI";

/// The same, negotiated (RFC 4178).
pub const GSS_SPNEGO: &str = "GSS-SPNEGO";

/// A proof of the password by an old hash, for old clients (RFC 2195).
pub const CRAM_MD5: &str = "CRAM-MD5";

/// The same with a realm, and with a proof of the server's (RFC 2831).
pub const DIGEST_MD5: &str = "DIGEST-MD5";

/// Nobody, with a trace for the log (RFC 4505).
pub const ANONYMOUS: &str = "ANONYMOUS";

/// All that there are, the strongest first, as clients take them.
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
