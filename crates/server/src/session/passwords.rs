//! Bind and compare: what a session does with passwords that it is asked to verify.

use std::sync::Arc;

use directory::controls::RequestControls;
use directory::password::Verification;
use directory::{Outcome, Requester, ServerFault};
use ldap::ResultCode;

use super::{Asked, Session, Work};
use crate::net::mailbox::HashResult;
use crate::session::context::Context;
use crate::workers::hash_pool::HashWork;

/// A password that was verified at once.
struct Verified {
    asked: Asked,
    work: Work,
    is_right: bool,
}

impl Session {
    pub(super) fn compare(
        &mut self,
        context: &mut Context,
        asked: Asked,
        request: &ldap::CompareRequest<'_>,
        controls: &RequestControls,
        out: &mut Vec<u8>,
    ) {
        use directory::compare::{CompareOutcome, compare};
        match compare(&context.snapshot, &self.requester, request, controls) {
            CompareOutcome::Done(outcome) => self.answer(context, &asked, &outcome, out),
            CompareOutcome::Verify { verification } => {
                let (asserted, work) = (request.value, Work::Compare);
                if let Some(verified) = self.verify(context, asked, verification, asserted, work, out) {
                    self.answer(context, &verified.asked, &compare_outcome(verified.is_right), out);
                }
            }
        }
    }

    pub(super) fn bind(
        &mut self,
        context: &mut Context,
        asked: Asked,
        request: &ldap::BindRequest<'_>,
        out: &mut Vec<u8>,
    ) {
        use directory::bind::{BindOutcome, bind, bind_result, bind_without_password};
        self.becomes(context, Arc::clone(&context.anonymous));
        if request.version != 3 {
            let text = format!("LDAP version {} is not supported, only 3", request.version);
            return self.answer(context, &asked, &Outcome::new(ResultCode::PROTOCOL_ERROR, text), out);
        }
        let asserted = match request.authentication {
            ldap::Authentication::Simple(password) => password,
            ldap::Authentication::Sasl { .. } | ldap::Authentication::Unrecognized(_) => {
                let (outcome, requester) = bind_without_password(&context.snapshot, request, self.external);
                return self.bound(context, &asked, &outcome, requester, out);
            }
        };
        match bind(&context.snapshot, request) {
            BindOutcome::Done(outcome, requester) => self.bound(context, &asked, &outcome, requester, out),
            BindOutcome::Verify { verification, requester } => {
                let work = Work::Bind(requester);
                if let Some(verified) = self.verify(context, asked, verification, asserted, work, out)
                    && let Work::Bind(requester) = verified.work
                {
                    let (outcome, requester) = bind_result(verified.is_right, requester);
                    self.bound(context, &verified.asked, &outcome, requester, out);
                }
            }
        }
    }

    /// Ends a bind: from here on the session is this requester's.
    fn bound(
        &mut self,
        context: &mut Context,
        asked: &Asked,
        outcome: &Outcome,
        requester: Requester,
        out: &mut Vec<u8>,
    ) {
        let requester = match requester {
            Requester::Anonymous => Arc::clone(&context.anonymous),
            other => Arc::new(other),
        };
        self.becomes(context, requester);
        self.answer(context, asked, outcome, out);
    }

    /// Verifies a password: at once if that is quick, else `None` and on the pool, or with the answer busy. A wrong
    /// password gets to the pool whatever is stored, so neither time nor busy tells names apart (RFC 4513 section 6.3).
    fn verify(
        &mut self,
        context: &mut Context,
        asked: Asked,
        verification: Verification,
        asserted: &[u8],
        work: Work,
        out: &mut Vec<u8>,
    ) -> Option<Verified> {
        if let Some(is_right) = verification.run_quick(asserted) {
            return Some(Verified { asked, work, is_right });
        }
        let bytes = asserted.len() + verification.stored_bytes();
        let address = self.address(context);
        let job = HashWork::Verify { verification, asserted: asserted.to_vec() };
        match context.shared.hash_pool.submit(address, job) {
            Some(claim) => self.keep_claimed(asked, work, bytes, Some(claim)),
            None => self.answer(context, &asked, &hash_pool_busy(), out),
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
        let Some((asked, work)) = self.take(ticket) else { return };
        let is_right = matches!(result, HashResult::Verified(true));
        let failed = match result {
            HashResult::Failed(fault) => Some(could_not_verify(fault)),
            HashResult::Verified(_) | HashResult::Prepared(_) => None,
        };
        match (failed, work) {
            // Not that the password is wrong, which nobody knows.
            (Some(outcome), Work::Bind(_)) => {
                self.bound(context, &asked, &outcome, Requester::Anonymous, out);
            }
            (Some(outcome), _) => self.answer(context, &asked, &outcome, out),
            (None, Work::Bind(requester)) => {
                let (outcome, requester) = directory::bind::bind_result(is_right, requester);
                self.bound(context, &asked, &outcome, requester, out);
            }
            (None, _) => self.answer(context, &asked, &compare_outcome(is_right), out),
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
