//! Reasons why there is no answer.

use ldap::DecodeError;
use std::io;

/// A request without an answer. A result code other than success is an answer, and no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection could not be made, or broke.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// Nothing came within the time limit.
    #[error("no answer within the time limit")]
    TimedOut,
    /// The server closed the connection; with what it said before, if it sent a notice of disconnection
    /// (RFC 4511 section 4.4.1).
    #[error("the server closed the connection{}", .notice.as_ref().map(|n| format!(": {n}")).unwrap_or_default())]
    Closed {
        /// Result code and diagnostic text of the notice.
        notice: Option<String>,
    },
    /// The server sent something that is no LDAP response.
    #[error("not an LDAP response: {0}")]
    Decode(DecodeError),
    /// The server sent bytes that are no BER element.
    #[error("not BER: {0}")]
    Framing(ldap::BerError),
    /// A message of the server is larger than the caller accepts.
    #[error("an answer has more than {0} bytes")]
    TooLarge(usize),
    /// The server answered with another kind of response than the request asks for.
    #[error("unexpected response: {0}")]
    Unexpected(String),
    /// The text of a filter cannot be parsed.
    #[error("filter: {0}")]
    Filter(ldap::FilterError),
}
