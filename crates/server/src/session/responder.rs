//! Responder of a request. An answer consumes it, so a request has at most one answer.

use super::outstanding::RequestHead;
use crate::session::context::Context;

/// Responder of a request: the values that its answer needs in addition to the outcome.
pub(super) struct Responder<'c> {
    pub(super) context: &'c mut Context,
    pub(super) head: RequestHead,
    /// Output of the connection.
    pub(super) out: &'c mut Vec<u8>,
}
