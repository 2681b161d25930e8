//! Toy directory: numbers under keys. Its operations can be refused, need no record, or depend on present values.
//! Therefore the checks detect an operation that is decided twice or on a wrong state.

use std::collections::BTreeMap;

/// Operation that a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Creates a key; refused if it exists.
    Create(u32),
    /// Deletes a key; refused if it does not exist.
    Delete(u32),
    /// Increments the present value.
    Increment(u32),
    /// Needs no record. The answer is the present value.
    Touch(u32),
    /// Reads a value, at any node.
    Read(u32),
}

impl Action {
    pub(super) fn key(self) -> u32 {
        let (Action::Create(key)
        | Action::Delete(key)
        | Action::Increment(key)
        | Action::Touch(key)
        | Action::Read(key)) = self;
        key
    }
}

/// Action of a client. `client` and `number` identify the action, whatever operation ids it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientAction {
    pub(super) client: u32,
    pub(super) number: u32,
    pub(super) action: Action,
}

/// Effect of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) client: u32,
    pub(super) number: u32,
    pub(super) key: u32,
    /// Value on which the action was decided.
    pub(super) old: Option<u32>,
    pub(super) new: Option<u32>,
}

/// Decision about an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Change(Effect),
    Refused,
    Nothing(Option<u32>),
}

/// Values by key.
pub(super) type Values = BTreeMap<u32, u32>;

pub(super) fn decide(request: &ClientAction, old: Option<u32>) -> Decision {
    let change = |new| {
        let ClientAction { client, number, action } = *request;
        Decision::Change(Effect { client, number, key: action.key(), old, new })
    };
    match request.action {
        Action::Create(_) if old.is_some() => Decision::Refused,
        Action::Delete(_) if old.is_none() => Decision::Refused,
        Action::Create(_) => change(Some(1)),
        Action::Delete(_) => change(None),
        Action::Increment(_) => change(Some(old.unwrap_or(0) + 1)),
        Action::Touch(_) | Action::Read(_) => Decision::Nothing(old),
    }
}

pub(super) fn put(values: &mut Values, effect: &Effect) {
    match effect.new {
        Some(new) => values.insert(effect.key, new),
        None => values.remove(&effect.key),
    };
}

impl ClientAction {
    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = match self.action {
            Action::Create(_) => 0,
            Action::Delete(_) => 1,
            Action::Increment(_) => 2,
            Action::Touch(_) => 3,
            Action::Read(_) => 4,
        };
        [self.client, self.number, kind, self.action.key()]
            .iter()
            .flat_map(|word| word.to_be_bytes())
            .collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> ClientAction {
        let [client, number, kind, key] = words(bytes);
        let action = match kind {
            0 => Action::Create(key),
            1 => Action::Delete(key),
            2 => Action::Increment(key),
            3 => Action::Touch(key),
            _ => Action::Read(key),
        };
        ClientAction { client, number, action }
    }
}

impl Effect {
    pub(super) fn encode(&self) -> Vec<u8> {
        let value = |value: Option<u32>| value.unwrap_or(u32::MAX);
        let words = [self.client, self.number, self.key, value(self.old), value(self.new)];
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    pub(super) fn decode(bytes: &[u8]) -> Effect {
        let [client, number, key, old, new] = words(bytes);
        let value = |word| (word != u32::MAX).then_some(word);
        Effect { client, number, key, old: value(old), new: value(new) }
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    assert_eq!(bytes.len(), 4 * N);
    std::array::from_fn(|index| u32::from_be_bytes(std::array::from_fn(|at| bytes[4 * index + at])))
}
