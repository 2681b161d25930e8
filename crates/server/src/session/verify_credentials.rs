//! Verify Credentials: returns the outcome of a bind without binding, so that the connection keeps its identity. The
//! credentials are verified as in a bind, with the same policies, delays, records and pools.
//!
//! The session stores a SASL exchange until the client continues it, independently of other requests. The cookie is the
//! number of the exchange. All mechanisms that the connection offers can be used, except mechanisms that depend on the
//! connection itself: EXTERNAL, ANONYMOUS, channel binding, Kerberos.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use directory::Outcome;
use directory::bind::{CRAM_MD5, DIGEST_MD5, OAUTHBEARER, PLAIN};
use ldap::oids::PASSWORD_POLICY;
use ldap::{
    Authentication, Control, ControlsBuf, ExtendedRequest, PolicyResponse, ResultCode, VerifiedCredentials,
    VerifyCredentials,
};

use super::responder::Responder;
use super::sasl::SaslExchange;
use super::{Next, Session};
use crate::limits::{SASL_EXCHANGE_BYTES, VERIFYING_MAX};
use crate::session::context::Context;

/// SASL exchanges of Verify Credentials requests, each waiting for the client's next message.
#[derive(Default)]
pub(super) struct Verifying {
    /// Number for the next exchange.
    next: u64,
    waiting: VecDeque<(u64, Box<SaslExchange>)>,
}

impl Verifying {
    /// Returns the request memory that the exchanges occupy, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.waiting.len() * SASL_EXCHANGE_BYTES
    }

    /// Removes and returns the exchange with this cookie; `None` if it has ended or never existed.
    fn take(&mut self, cookie: &[u8]) -> Option<Box<SaslExchange>> {
        let number = u64::from_be_bytes(cookie.try_into().ok()?);
        let place = self.waiting.iter().position(|(of, _)| *of == number)?;
        self.waiting.remove(place).map(|(_, exchange)| exchange)
    }

    /// Adds an exchange. If there are [`VERIFYING_MAX`] already, drops the oldest exchange.
    fn add(&mut self, number: u64, exchange: Box<SaslExchange>) {
        if self.waiting.len() >= VERIFYING_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back((number, exchange));
    }
}

impl Session {
    /// Verifies a user's credentials for a requester that may do so.
    pub(super) fn verify_credentials(
        &mut self,
        mut to: Responder<'_>,
        request: &ExtendedRequest<'_>,
    ) -> ControlFlow<Next> {
        let credentials = match self.credentials(to.context, request) {
            Ok(credentials) => credentials,
            Err(outcome) => {
                self.answer(to, &outcome);
                return ControlFlow::Continue(());
            }
        };
        to.head.verifies_credentials = true;
        to.head.wants_policy_of_credentials = credentials.controls.find(PASSWORD_POLICY).is_some();
        match credentials.bind.authentication {
            Authentication::Simple(password) => self.simple_bind(to, &credentials.bind, password),
            _ => self.verify_sasl(to, &credentials),
        }
        ControlFlow::Continue(())
    }

    /// Handles a message of a SASL exchange. The exchange is in `self.sasl` meanwhile. That field is free, because
    /// every request except a bind ends the session's own exchange.
    fn verify_sasl(&mut self, mut to: Responder<'_>, credentials: &VerifyCredentials<'_>) {
        let verifying = self.verifying.get_or_insert_default();
        let number = verifying.next;
        verifying.next += 1;
        self.sasl = credentials.cookie.and_then(|cookie| verifying.take(cookie));
        to.head.exchange = number;
        self.sasl_bind(to, &credentials.bind);
        if let (Some(exchange), Some(verifying)) = (self.sasl.take(), &mut self.verifying) {
            verifying.add(number, exchange);
        }
    }

    /// Returns the credentials in a request.
    fn credentials<'r>(
        &self,
        context: &Context,
        request: &ExtendedRequest<'r>,
    ) -> Result<VerifyCredentials<'r>, Outcome> {
        if !context.snapshot.may_use(&self.request_context(context), request.name)? {
            let text = "only the administrator, or a requester that a rule allows it, may verify credentials";
            return Err(Outcome::new(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        let decoded = VerifyCredentials::decode(request.value).ok_or_else(|| {
            Outcome::new(ResultCode::PROTOCOL_ERROR, "this is no value of Verify Credentials")
        })?;
        let is_unknown = |control: &Control<'_>| control.critical && control.oid != PASSWORD_POLICY;
        if let Some(control) = decoded.controls.iter().find(is_unknown) {
            let text =
                format!("critical control {:?} of the credentials is not known", ldap::Excerpt(control.oid));
            return Err(Outcome::new(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text));
        }
        let is_possible = match decoded.bind.authentication {
            Authentication::Simple(_) => decoded.cookie.is_none(),
            Authentication::Sasl { mechanism, .. } => is_of_user(mechanism),
            Authentication::Unrecognized(_) => false,
        };
        is_possible.then_some(decoded).ok_or_else(|| {
            let text =
                "credentials are a password, or a SASL mechanism that is not about the connection itself";
            Outcome::new(ResultCode::AUTH_METHOD_NOT_SUPPORTED, text)
        })
    }

    /// Answers with the outcome that a bind would have.
    pub(super) fn credentials_verified(&self, to: Responder<'_>, outcome: &Outcome) {
        let policy = PolicyResponse { warning: to.head.warning, error: outcome.policy };
        let mut controls = ControlsBuf::new();
        if to.head.wants_policy_of_credentials && policy != PolicyResponse::default() {
            controls.push(Control { oid: PASSWORD_POLICY, critical: false, value: Some(&policy.encode()) });
        }
        let goes_on = outcome.code == ResultCode::SASL_BIND_IN_PROGRESS;
        let says_more = goes_on || outcome.code == ResultCode::SUCCESS;
        let cookie = to.head.exchange.to_be_bytes();
        let value = VerifiedCredentials {
            code: outcome.code,
            diagnostic: &outcome.diagnostic,
            cookie: goes_on.then_some(&cookie),
            server_credentials: to.head.sasl_credentials.as_deref().filter(|_| says_more),
            controls: controls.as_controls(),
        };
        let value = value.encode();
        self.answer_with(to, outcome, Some(&value));
    }
}

/// Returns true if a SASL mechanism depends only on the user and not on the connection.
fn is_of_user(mechanism: &str) -> bool {
    let is = |known: &&str| known.eq_ignore_ascii_case(mechanism);
    [PLAIN, CRAM_MD5, DIGEST_MD5, OAUTHBEARER, "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"].iter().any(is)
}
