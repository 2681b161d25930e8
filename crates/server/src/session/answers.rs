//! Answers to requests.

use directory::Outcome;
use ldap::{Controls, LdapResult, ResponseOp, ResultCode, response};

use super::Session;
use super::audit::OperationEnd;
use super::outstanding::RequestHead;
use super::responder::Responder;
use crate::session::context::Context;

impl Session {
    /// Appends the final response of an operation, and counts and logs it.
    pub(super) fn answer(&self, to: Responder<'_>, outcome: &Outcome) {
        let is_of_credentials =
            [ResultCode::SASL_BIND_IN_PROGRESS, ResultCode::INVALID_CREDENTIALS].contains(&outcome.code);
        match to.head.verifies_credentials && is_of_credentials {
            true => self.credentials_verified(to, outcome),
            false => self.answer_with(to, outcome, None),
        }
    }

    /// Appends the final response of an operation, with a value if it is an extended operation, and counts and logs it.
    pub(super) fn answer_with(&self, to: Responder<'_>, outcome: &Outcome, value: Option<&[u8]>) {
        self.answer_change(to, outcome, (value, None));
    }

    /// Appends the final response of an operation, and counts and logs it. The first part of `value` is the response
    /// value of an extended operation, or the encoded pre-read and post-read response controls of another change. The
    /// second part is the log position of the change.
    pub(super) fn answer_change(
        &self,
        to: Responder<'_>,
        outcome: &Outcome,
        value: (Option<&[u8]>, Option<u64>),
    ) {
        let Responder { context, head, out } = to;
        self.put_answer(context, &head, outcome, value, out);
    }

    /// Appends the final response like `answer_change`, for a request whose head the caller keeps.
    pub(super) fn put_answer(
        &self,
        context: &mut Context,
        head: &RequestHead,
        outcome: &Outcome,
        (value, position): (Option<&[u8]>, Option<u64>),
        out: &mut Vec<u8>,
    ) {
        let Some(response) = head.operation.response() else { return };
        let Outcome { code, matched_dn, diagnostic, referrals, fault, policy: _ } = outcome;
        let result = LdapResult { code: *code, matched_dn, diagnostic, referrals };
        let mut controls = head.response_controls(outcome, &self.requester);
        head.put_position(context, &mut controls);
        let is_extended = response == ResponseOp::Extended;
        let (value, copies) = if is_extended { (value, None) } else { (None, value) };
        if let Some(copies) = copies.and_then(Controls::from_bytes) {
            copies.iter().for_each(|copy| controls.push(copy));
        }
        let sasl_credentials = head
            .sasl_credentials
            .as_deref()
            .filter(|_| [ResultCode::SUCCESS, ResultCode::SASL_BIND_IN_PROGRESS].contains(code))
            .or(head.sasl_error.map(str::as_bytes));
        match value {
            None if sasl_credentials.is_some() && !is_extended => {
                response::encode_bind_response(
                    out,
                    head.id,
                    &result,
                    sasl_credentials,
                    controls.as_controls(),
                );
            }
            None => response::encode_result(out, head.id, response, &result, controls.as_controls()),
            Some(_) => {
                response::encode_extended_response(
                    out,
                    head.id,
                    &result,
                    head.is_refresh.then_some(ldap::oids::REFRESH),
                    value,
                    controls.as_controls(),
                );
            }
        }
        context.counters.completed(head.operation, *code, head.waited(context.now));
        context.counters.refused(*code, diagnostic);
        self.end_event(
            context,
            head,
            *code,
            OperationEnd { outcome: Some(outcome), position, ..OperationEnd::default() },
        );
        if let Some(fault) = fault {
            context.report_fault(*fault, self.number, head, *code, diagnostic);
        }
    }
}
