//! Bind and compare, and the verification of their passwords.

use std::sync::Arc;

use directory::controls::RequestControls;
use directory::password::Verification;
use directory::{Outcome, Requester, ServerFault};
use ldap::ResultCode;

use super::{RequestHead, Session, Work};
use crate::net::mailbox::HashResult;
use crate::session::context::Context;
use crate::workers::hash_pool::HashWork;

/// A password that was verified at once.
struct Verified {
    head: RequestHead,
    work: Work,
    is_right: bool,
}

impl Session {
    pub(super) fn compare(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        request: &ldap::CompareRequest<'_>,
        controls: &RequestControls,
        out: &mut Vec<u8>,
    ) {
        use directory::compare::{CompareOutcome, compare};
        match compare(&context.snapshot, &self.requester, request, controls) {
            CompareOutcome::Done(outcome) => self.answer(context, &head, &outcome, out),
            CompareOutcome::Verify { verification } => {
                let (asserted, work) = (request.value, Work::Compare);
                if let Some(verified) = self.verify(context, head, verification, asserted, work, out) {
                    self.answer(context, &verified.head, &compare_outcome(verified.is_right), out);
                }
            }
        }
    }

    pub(super) fn bind(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        request: &ldap::BindRequest<'_>,
        out: &mut Vec<u8>,
    ) {
        use directory::bind::{BindOutcome, bind, bind_result, bind_without_password};
        self.set_requester(context, Arc::clone(&context.anonymous));
        if request.version != 3 {
            let text = format!("LDAP version {} is not supported, only 3", request.version);
            return self.answer(context, &head, &Outcome::new(ResultCode::PROTOCOL_ERROR, text), out);
        }
        let asserted = match request.authentication {
            ldap::Authentication::Simple(password) => password,
            ldap::Authentication::Sasl { .. } | ldap::Authentication::Unrecognized(_) => {
                let (outcome, requester) = bind_without_password(
                    &context.snapshot,
                    request,
                    self.external,
                    self.certificate_subject(),
                );
                return self.bound(context, &head, &outcome, requester, out);
            }
        };
        match bind(&context.snapshot, request) {
            BindOutcome::Done(outcome, requester) => self.bound(context, &head, &outcome, requester, out),
            BindOutcome::Verify { verification, requester } => {
                let work = Work::Bind(requester);
                if let Some(verified) = self.verify(context, head, verification, asserted, work, out)
                    && let Work::Bind(requester) = verified.work
                {
                    let (outcome, requester) = bind_result(verified.is_right, requester);
                    self.bound(context, &verified.head, &outcome, requester, out);
                }
            }
        }
    }

    /// Ends a bind. The session becomes this requester's.
    fn bound(
        &mut self,
        context: &mut Context,
        head: &RequestHead,
        outcome: &Outcome,
        requester: Requester,
        out: &mut Vec<u8>,
    ) {
        let requester = match requester {
            Requester::Anonymous => Arc::clone(&context.anonymous),
            other => Arc::new(other),
        };
        self.set_requester(context, requester);
        self.answer(context, head, outcome, out);
    }

    /// Verifies a password at once if that is quick. Otherwise the result is `None`, and the hash pool verifies it, or
    /// the request is answered busy. A wrong password goes to the pool whatever is stored, so neither the time nor the
    /// answer busy tells whether a name exists (RFC 4513 section 6.3).
    fn verify(
        &mut self,
        context: &mut Context,
        head: RequestHead,
        verification: Verification,
        asserted: &[u8],
        work: Work,
        out: &mut Vec<u8>,
    ) -> Option<Verified> {
        if let Some(is_right) = verification.run_quick(asserted) {
            return Some(Verified { head, work, is_right });
        }
        let bytes = asserted.len() + verification.stored_bytes();
        let address = self.address(context);
        let job = HashWork::Verify { verification, asserted: asserted.to_vec() };
        match context.shared.hash_pool.submit(address, job) {
            Some(claim) => self.keep(head, work, bytes, Some(claim)),
            None => self.answer(context, &head, &hash_pool_busy(), out),
        }
        None
    }

    /// The hash pool has finished a job.
    pub(crate) fn hashed(
        &mut self,
        context: &mut Context,
        ticket: u64,
        result: HashResult,
        out: &mut Vec<u8>,
    ) {
        if self.is_held(ticket) {
            return self.held_hashed(context, ticket, result, out);
        }
        let Some((head, work)) = self.take(ticket) else { return };
        let is_right = matches!(result, HashResult::Verified(true));
        let failed = match result {
            HashResult::Failed(fault) => Some(could_not_verify(fault)),
            HashResult::Verified(_) | HashResult::Prepared(_) => None,
        };
        match (failed, work) {
            // Not invalidCredentials: the password may be right.
            (Some(outcome), Work::Bind(_)) => {
                self.bound(context, &head, &outcome, Requester::Anonymous, out);
            }
            (Some(outcome), _) => self.answer(context, &head, &outcome, out),
            (None, Work::Bind(requester)) => {
                let (outcome, requester) = directory::bind::bind_result(is_right, requester);
                self.bound(context, &head, &outcome, requester, out);
            }
            (None, _) => self.answer(context, &head, &compare_outcome(is_right), out),
        }
    }
}

fn could_not_verify(fault: ServerFault) -> Outcome {
    Outcome::new(ResultCode::OTHER, "the password could not be verified").by_fault(fault)
}

fn compare_outcome(is_right: bool) -> Outcome {
    Outcome::code(if is_right { ResultCode::COMPARE_TRUE } else { ResultCode::COMPARE_FALSE })
}

pub(super) fn hash_pool_busy() -> Outcome {
    Outcome::new(ResultCode::BUSY, "too many passwords are being hashed; try again later")
}
