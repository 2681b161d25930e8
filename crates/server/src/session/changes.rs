//! Changes of a session: on their way to the writer, by the hash pool where they bring clear passwords, in the order
//! received.

use std::sync::Arc;

use directory::{Outcome, Requester};
use ldap::{Message, Request, ResultCode};

use super::passwords::hash_pool_busy;
use super::{Asked, Session, Work};
use crate::context::Context;
use crate::hash_pool::{HashJob, HashResult, HashWork, HashedPasswords, hash_all, is_slow_scheme};
use crate::limits::CLEAR_PASSWORDS_MAX;
use crate::mailbox::{Address, Written};
use crate::writer::WriteRequest;

/// A change that waits for the hash pool, or behind one that does.
pub(super) struct HeldChange {
    pub(super) request: WriteRequest,
    ready: bool,
}

impl Session {
    /// Takes a change whose place at the writer is reserved.
    pub(super) fn change(
        &mut self,
        context: &mut Context,
        asked: Asked,
        message: &Message<'_>,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) {
        let mut request = WriteRequest {
            address: self.address(context),
            requester: Arc::clone(&self.requester),
            message: frame.to_vec(),
            hashed_passwords: Vec::new(),
        };
        let mut ready = true;
        let clear = self.clear_passwords(context, message);
        if !clear.is_empty() {
            match hash_passwords(context, request.address, clear) {
                Ok(Some(hashed)) => request.hashed_passwords = hashed,
                Ok(None) => ready = false,
                Err(outcome) => {
                    context.shared.writes.release(1, frame.len());
                    return self.answer(context, &asked, &outcome, out);
                }
            }
        }
        self.keep(asked, Work::Change);
        if ready && self.held.is_empty() {
            context.outbox.push(request);
        } else {
            self.held.push_back(HeldChange { request, ready });
        }
    }

    /// The clear passwords that the change brings and that are worth hashing: anonymous never changes anything.
    fn clear_passwords(&self, context: &Context, message: &Message<'_>) -> Vec<Vec<u8>> {
        let brings_values = matches!(message.request, Request::Add(_) | Request::Modify(_));
        if !brings_values || *self.requester == Requester::Anonymous {
            return Vec::new();
        }
        let clear = directory::password::clear_passwords(&message.request, &context.snapshot);
        clear.into_iter().map(<[u8]>::to_vec).collect()
    }

    /// Gives the writer what does not have to wait any longer.
    pub(super) fn release_held(&mut self, context: &mut Context) {
        while self.held.front().is_some_and(|held| held.ready) {
            context.outbox.extend(self.held.pop_front().map(|held| held.request));
        }
    }

    /// The writer has finished a change.
    pub(crate) fn written(&mut self, context: &mut Context, answer: &Written, out: &mut Vec<u8>) {
        if let Some((asked, _)) = self.take(answer.address.ticket) {
            self.answer_with(context, &asked, &answer.outcome, answer.value.as_deref(), out);
        }
    }

    /// Whether a change waits for the hash pool, or behind one that does.
    pub(super) fn is_held(&self, ticket: u64) -> bool {
        self.held.iter().any(|held| held.request.address.ticket == ticket)
    }

    /// The hash pool has finished the passwords of a change.
    pub(super) fn held_hashed(
        &mut self,
        context: &mut Context,
        ticket: u64,
        result: HashResult,
        out: &mut Vec<u8>,
    ) {
        let Some(place) = self.held.iter().position(|held| held.request.address.ticket == ticket) else {
            return;
        };
        match result {
            HashResult::Hashed(hashed) => {
                self.held[place].request.hashed_passwords = hashed;
                self.held[place].ready = true;
            }
            HashResult::Verified(_) | HashResult::Failed => self.drop_held(context, place, out),
        }
        self.release_held(context);
    }

    /// Refuses a change whose password could not be hashed.
    fn drop_held(&mut self, context: &mut Context, place: usize, out: &mut Vec<u8>) {
        let Some(held) = self.held.remove(place) else { return };
        context.shared.writes.release(1, held.request.message.len());
        if let Some((asked, _)) = self.take(held.request.address.ticket) {
            let outcome = Outcome::new(ResultCode::OTHER, "the password could not be hashed");
            self.answer(context, &asked, &outcome, out);
        }
    }
}

/// Hashes passwords at once where that is quick, else on the pool (`None`).
fn hash_passwords(
    context: &mut Context,
    address: Address,
    clear: Vec<Vec<u8>>,
) -> Result<Option<HashedPasswords>, Outcome> {
    if clear.len() > CLEAR_PASSWORDS_MAX {
        let text = format!("more than {CLEAR_PASSWORDS_MAX} clear passwords in one request");
        return Err(Outcome::new(ResultCode::ADMIN_LIMIT_EXCEEDED, text));
    }
    let scheme = context.shared.directory.settings().password_scheme;
    if !is_slow_scheme(scheme) {
        return match hash_all(scheme, clear, &mut context.random) {
            Ok(hashed) => Ok(Some(hashed)),
            Err(error) => Err(Outcome::new(ResultCode::UNAVAILABLE, format!("no random numbers: {error}"))),
        };
    }
    let work = HashWork::Hash { scheme, clear };
    if context.shared.hash_pool.submit(HashJob { address, work }) { Ok(None) } else { Err(hash_pool_busy()) }
}
