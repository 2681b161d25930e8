//! SASL mechanisms with passwords and tokens (RFC 4422). The crate contains the messages of client and server, and the
//! server's checks.
//!
//! The mechanisms are PLAIN (RFC 4616), SCRAM with SHA-1, SHA-256 and SHA-512 and channel binding (RFC 5802, RFC 7677),
//! CRAM-MD5 (RFC 2195), DIGEST-MD5 (RFC 2831), and OAUTHBEARER (RFC 7628). For GSSAPI (RFC 4752), the crate contains
//! only the messages that follow those of Kerberos. The crate does not read the clock or random numbers, find users, or
//! store any state. The caller provides nonces, keys, channel bindings and the time. The size of every text is limited,
//! and no input causes a panic.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::expect_used))]
#![forbid(unsafe_code)]

pub mod cram;
pub mod digest;
pub mod gssapi;
mod keys;
pub mod limits;
pub mod oauth;
mod plain;
pub mod scram;
mod token;

pub use keys::{Hash, ScramKeys};
pub use plain::Plain;
pub use token::{TokenError, TokenKeys, TokenRules};

/// The reason why a client's message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SaslError {
    /// The message is malformed.
    #[error("not a message of the mechanism: {0}")]
    Malformed(&'static str),
    /// The message requests something that the server does not offer.
    #[error("{0}")]
    NotOffered(&'static str),
    /// The message contains a mandatory extension (RFC 5802 section 5.1, `m=`). The server supports none.
    #[error("mandatory extensions of SCRAM are not supported: extensions-not-supported")]
    MandatoryExtension,
    /// The proof is wrong, or belongs to another exchange or to another channel.
    #[error("the proof is wrong")]
    WrongProof,
}

impl SaslError {
    /// Returns the error in the server's last message. Only some mechanisms have such an error (RFC 5802 section 7,
    /// server-error).
    pub fn server_message(self) -> Option<&'static str> {
        match self {
            SaslError::MandatoryExtension => Some("e=extensions-not-supported"),
            _ => None,
        }
    }
}

/// Prepares a password or a name for comparison (SASLprep, RFC 4013). A text that cannot be prepared is returned
/// unchanged, as slapd and Cyrus SASL do. Therefore the result is the same for client and server.
pub fn prepared(text: &str) -> std::borrow::Cow<'_, str> {
    stringprep::saslprep(text).unwrap_or(std::borrow::Cow::Borrowed(text))
}
