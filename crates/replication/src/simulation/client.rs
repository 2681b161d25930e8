//! Clients: each sends one request at a time to any node, and keeps every answer.

use super::directory::{Action, ClientAction};
use crate::operation::{NodeId, OperationId};

/// Response that a client received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// The change was made, with this value.
    Done { position: u64, value: Option<u32> },
    /// The change was made when an earlier copy of the request was decided.
    Applied { position: u64 },
    /// The change was refused.
    Refused { position: u64 },
    /// The present value: the answer to a read, or to a change that had no effect.
    Shown { position: u64, value: Option<u32> },
    /// The outcome is unknown.
    Unavailable,
}

impl Response {
    pub(super) fn position(self) -> Option<u64> {
        match self {
            Response::Done { position, .. }
            | Response::Applied { position }
            | Response::Refused { position }
            | Response::Shown { position, .. } => Some(position),
            Response::Unavailable => None,
        }
    }
}

/// Response to a request, and the circumstances of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseRecord {
    pub(super) request: ClientAction,
    pub(super) response: Response,
    /// Position that the client had seen when it sent the request.
    pub(super) token: u64,
    /// Whether the client sent the request more than once. If one copy was refused, another copy may still have been
    /// accepted.
    pub(super) repeated: bool,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u32,
    /// Whether the client assigns operation ids itself, and retries an operation at any node.
    pub(super) is_smart: bool,
    /// Position up to which the client has seen the directory.
    pub(super) token: u64,
    pub(super) outstanding: Option<ClientAction>,
    pub(super) attempt: u32,
    pub(super) number: u32,
    pub(super) facts: Vec<ResponseRecord>,
    pub(super) unknown: u64,
}

impl Client {
    pub(super) fn new(id: u32) -> Client {
        Client {
            id,
            is_smart: id % 2 == 1,
            token: 0,
            outstanding: None,
            attempt: 0,
            number: 0,
            facts: Vec::new(),
            unknown: 0,
        }
    }

    /// Chooses the next action: on a key shared by all clients, or on a key of this client alone.
    pub(super) fn choose(&mut self, rng: &mut fastrand::Rng) -> ClientAction {
        self.number += 1;
        let key = if rng.bool() { rng.u32(..3) } else { 100 + self.id };
        let action = match rng.u8(..10) {
            0..3 => Action::Increment(key),
            3 | 4 => Action::Create(key),
            5 | 6 => Action::Delete(key),
            7 => Action::Touch(key),
            _ => Action::Read(key),
        };
        let request = ClientAction { client: self.id, number: self.number, action };
        (self.outstanding, self.attempt) = (Some(request), 0);
        request
    }

    /// Returns the operation id that the client assigns.
    pub(super) fn operation(&self, request: &ClientAction) -> Option<OperationId> {
        let node = NodeId(1_000 + self.id);
        self.is_smart.then_some(OperationId { node, incarnation: 1, sequence: u64::from(request.number) })
    }

    pub(super) fn answered(&mut self, number: u32, response: Response) {
        let Some(request) = self.outstanding.filter(|request| request.number == number) else { return };
        self.facts.push(ResponseRecord { request, response, token: self.token, repeated: self.attempt > 0 });
        self.token = self.token.max(response.position().unwrap_or(0));
        self.outstanding = None;
    }
}
