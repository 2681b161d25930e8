//! Errors of the client: reasons why a request has no response.

use ldap::DecodeError;
use std::io;

/// Reason why a request has no response. A result code other than success is a response, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection could not be made, or broke.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// No octets arrived within the time limit.
    #[error("no answer within the time limit")]
    TimedOut,
    /// The server closed the connection. Includes the notice of disconnection, if the server sent one (RFC 4511 section
    /// 4.4.1).
    #[error("the server closed the connection{}", .notice.as_ref().map(|n| format!(": {n}")).unwrap_or_default())]
    Closed {
        /// Result code and diagnostic text of the notice.
        notice: Option<String>,
    },
    /// The server sent a message that is not an LDAP response.
    #[error("not an LDAP response: {0}")]
    Decode(DecodeError),
    /// The server sent bytes that are not a BER element.
    #[error("not BER: {0}")]
    Framing(ldap::BerError),
    /// A message of the server is larger than the caller allows.
    #[error("an answer has more than {0} bytes")]
    TooLarge(usize),
    /// The server sent a different kind of response than the request requires.
    #[error("unexpected response: {0}")]
    Unexpected(String),
    /// The text of a filter cannot be parsed.
    #[error("filter: {0}")]
    Filter(ldap::FilterError),
}
