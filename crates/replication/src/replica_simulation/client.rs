//! Clients: each sends one request at a time to any server, and keeps the token of the last answer.

use super::data::Data;
use crate::replica::EpochName;

/// Position token. The digest is not part of the token. The oracle uses it to check the state that the token names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) position: u64,
    pub(super) epoch: Option<EpochName>,
    pub(super) digest: u64,
}

impl Token {
    /// Returns the token of all data of a server.
    pub(super) fn of(data: &Data) -> Token {
        let position = data.position();
        let digest = data.digest(position).unwrap_or_default();
        Token { position, epoch: data.lineage.epoch_of(position), digest }
    }
}

/// Read that waits at a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) client: usize,
    pub(super) number: u32,
    pub(super) token: Option<Token>,
    /// Time at which the read is answered with busy.
    pub(super) until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// The change was made, and the server shows it at the position of the token.
    Changed(Token),
    /// Data at the position of the token.
    Read(Token),
    /// The server does not show the requested position.
    Busy,
    /// The requested position belongs to a history that was lost.
    Lost,
    /// The change was refused, or its outcome is unknown.
    Unavailable,
}

#[derive(Debug, Default)]
pub(super) struct Client {
    /// Token of the last answer. The client sends it with each read.
    pub(super) token: Option<Token>,
    /// Number of the last request.
    pub(super) number: u32,
    /// Change in the outstanding request, if there is one. The inner value is `None` for a read.
    pub(super) outstanding: Option<Option<u64>>,
    /// Whether the client sends no more requests.
    pub(super) is_finished: bool,
}
