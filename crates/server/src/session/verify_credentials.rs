//! Verify Credentials: the outcome of a simple bind, without the bind. The connection keeps its identity; the check
//! itself is that of a bind, with its policies, throttles, records and pools.

use std::ops::ControlFlow;

use directory::Outcome;
use ldap::oids::{PASSWORD_POLICY, VERIFY_CREDENTIALS};
use ldap::{
    Authentication, Control, ControlsBuf, ExtendedRequest, PolicyResponse, Request, ResultCode,
    VerifyCredentials,
};

use super::outstanding::RequestHead;
use super::{Next, Session};
use crate::session::context::Context;

/// Whether a request has a password to verify.
pub(super) fn has_credentials(request: &Request<'_>) -> bool {
    let Request::Extended(request) = request else { return false };
    request.name == VERIFY_CREDENTIALS
        && VerifyCredentials::decode(request.value)
            .is_some_and(|asked| asked.bind.authentication.is_password())
}

impl Session {
    /// Verifies the credentials of a user, for a requester who has the right.
    pub(super) fn verify_credentials(
        &mut self,
        context: &mut Context,
        mut head: RequestHead,
        request: &ExtendedRequest<'_>,
        out: &mut Vec<u8>,
    ) -> ControlFlow<Next> {
        match self.credentials(context, request) {
            Ok((asked, password)) => {
                head.verifies_credentials = true;
                head.wants_policy_of_credentials = asked.controls.find(PASSWORD_POLICY).is_some();
                self.simple_bind(context, head, &asked.bind, password, out);
            }
            Err(outcome) => self.answer(context, &head, &outcome, out),
        }
        ControlFlow::Continue(())
    }

    /// Returns the credentials in a request.
    fn credentials<'r>(
        &self,
        context: &Context,
        request: &ExtendedRequest<'r>,
    ) -> Result<(VerifyCredentials<'r>, &'r [u8]), Outcome> {
        if !context.snapshot.may_use(&self.request_context(context), request.name)? {
            let text = "only the administrator, or a requester that a rule allows it, may verify credentials";
            return Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        let asked = VerifyCredentials::decode(request.value).ok_or_else(|| {
            Outcome::new(ResultCode::PROTOCOL_ERROR, "this is no value of Verify Credentials")
        })?;
        let is_unknown = |control: &Control<'_>| control.critical && control.oid != PASSWORD_POLICY;
        if let Some(control) = asked.controls.iter().find(is_unknown) {
            let text =
                format!("critical control {:?} of the credentials is not known", ldap::Excerpt(control.oid));
            return Err(Outcome::new(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text));
        }
        match asked.bind.authentication {
            Authentication::Simple(password) => Ok((asked, password)),
            Authentication::Sasl { .. } | Authentication::Unrecognized(_) => {
                let text = "only names with passwords can be verified";
                Err(Outcome::new(ResultCode::AUTH_METHOD_NOT_SUPPORTED, text))
            }
        }
    }

    /// Answers with the outcome that a bind would have had.
    pub(super) fn credentials_verified(
        &self,
        context: &mut Context,
        head: &RequestHead,
        outcome: &Outcome,
        out: &mut Vec<u8>,
    ) {
        let policy = PolicyResponse { warning: head.warning, error: outcome.policy };
        let mut controls = ControlsBuf::new();
        if head.wants_policy_of_credentials && policy != PolicyResponse::default() {
            controls.push(Control { oid: PASSWORD_POLICY, critical: false, value: Some(&policy.encode()) });
        }
        let (code, controls) = (outcome.code, controls.as_controls());
        let value = VerifyCredentials::encode_result(code, &outcome.diagnostic, controls);
        self.answer_with(context, head, outcome, Some(&value), out);
    }
}
