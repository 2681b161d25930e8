//! Clients: each asks one thing at a time, of any node, and remembers every answer.

use super::directory::{Action, Ask};
use crate::operation::{NodeId, OperationId};

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The change is made, with this value.
    Done { position: u64, value: Option<u32> },
    /// The change had been made before.
    Applied { position: u64 },
    /// The change is refused.
    Refused { position: u64 },
    /// There was nothing to change, or a read: this is there.
    Shown { position: u64, value: Option<u32> },
    /// Nobody knows.
    Unavailable,
}

impl Told {
    pub(super) fn position(self) -> Option<u64> {
        match self {
            Told::Done { position, .. }
            | Told::Applied { position }
            | Told::Refused { position }
            | Told::Shown { position, .. } => Some(position),
            Told::Unavailable => None,
        }
    }
}

/// An answer, and what went before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub(super) ask: Ask,
    pub(super) told: Told,
    /// What the client had seen when it asked.
    pub(super) token: u64,
    /// Whether it asked more than once, so that a refusal of one copy says nothing of others.
    pub(super) repeated: bool,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) id: u32,
    /// Brings operation ids of its own, and retries by them at any node.
    pub(super) is_smart: bool,
    /// The position up to which it has seen the directory.
    pub(super) token: u64,
    pub(super) asked: Option<Ask>,
    pub(super) attempt: u32,
    pub(super) number: u32,
    pub(super) facts: Vec<Fact>,
    pub(super) unknown: u64,
}

impl Client {
    pub(super) fn new(id: u32) -> Client {
        Client {
            id,
            is_smart: id % 2 == 1,
            token: 0,
            asked: None,
            attempt: 0,
            number: 0,
            facts: Vec::new(),
            unknown: 0,
        }
    }

    /// Its next action: on keys that all share, or on one of its own.
    pub(super) fn choose(&mut self, rng: &mut fastrand::Rng) -> Ask {
        self.number += 1;
        let key = if rng.bool() { rng.u32(..3) } else { 100 + self.id };
        let action = match rng.u8(..10) {
            0..3 => Action::Increment(key),
            3 | 4 => Action::Create(key),
            5 | 6 => Action::Delete(key),
            7 => Action::Touch(key),
            _ => Action::Read(key),
        };
        let ask = Ask { client: self.id, number: self.number, action };
        (self.asked, self.attempt) = (Some(ask), 0);
        ask
    }

    /// The id that it brings.
    pub(super) fn operation(&self, ask: &Ask) -> Option<OperationId> {
        let node = NodeId(1_000 + self.id);
        self.is_smart.then_some(OperationId { node, incarnation: 1, sequence: u64::from(ask.number) })
    }

    pub(super) fn told(&mut self, number: u32, told: Told) {
        let Some(ask) = self.asked.filter(|ask| ask.number == number) else { return };
        self.facts.push(Fact { ask, told, token: self.token, repeated: self.attempt > 0 });
        self.token = self.token.max(told.position().unwrap_or(0));
        self.asked = None;
    }
}
