//! The extended operation with which users manage their own credentials: time-based codes and application passwords.
//!
//! A change is permitted for a short time after a bind with the user's own password, and with a code if the account has
//! codes. Therefore no credentials can be created after a bind with an application password, through a proxied
//! identity, or on a connection that was left open. The server generates each application password. The writer receives
//! only its hash.

use directory::controls::{ControlContext, RequestControls};
use directory::own_credentials::own_credentials;
use directory::password::{StorageScheme, hash};
use directory::virtual_entries::STORE_APPLICATION;
use directory::{Outcome, Requester};
use ldap::oids::OWN_CREDENTIALS;
use ldap::{Controls, ExtendedRequest, GeneratedApplication, Message, OwnCredentials, Request, ResultCode};

use super::Session;
use super::password_answer::PasswordAnswer;
use super::password_modify::PasswordChange;
use crate::limits::RECENT_PROOF_TIME;
use crate::session::context::Context;
use crate::stamp::{application_password, no_random_numbers, password_time};

/// Returns true if a request changes the requester's own credentials.
pub(super) fn changes_own_credentials(request: &ExtendedRequest<'_>) -> bool {
    request.name == OWN_CREDENTIALS
        && OwnCredentials::decode(request.value).is_some_and(|decoded| decoded.is_change())
}

/// Returns true if a request only reads the requester's own credentials.
pub(super) fn reads_own_credentials(request: &Request<'_>) -> bool {
    matches!(request, Request::Extended(request)
        if request.name == OWN_CREDENTIALS && !changes_own_credentials(request))
}

impl Session {
    /// Answers a query of the requester's own credentials.
    pub(super) fn own_credentials(
        &mut self,
        context: &mut Context,
        request: &ExtendedRequest<'_>,
    ) -> Result<Vec<u8>, Outcome> {
        match OwnCredentials::decode(request.value) {
            Some(_) => own_credentials(&context.snapshot, &self.request_context(context), password_time()),
            None => Err(Outcome::new(ResultCode::PROTOCOL_ERROR, "this is no value of Own Credentials")),
        }
    }

    /// If `message` changes the requester's own credentials, returns the request that the writer receives in its place.
    pub(super) fn own_credentials_change(
        &self,
        context: &mut Context,
        message: &Message<'_>,
    ) -> Option<Result<PasswordChange, Outcome>> {
        let Request::Extended(request) = &message.request else { return None };
        if !changes_own_credentials(request) {
            return None;
        }
        match RequestControls::read(&message.controls, ControlContext::of(&message.request)) {
            Ok(controls) if controls.in_transaction() => {
                let text = "control transaction specification does not fit this operation";
                return Some(Err(Outcome::new(ResultCode::UNAVAILABLE_CRITICAL_EXTENSION, text)));
            }
            Ok(_) => {}
            Err(outcome) => return Some(Err(outcome)),
        }
        if !self.has_proved_recently(context) {
            let text =
                "bind again with your own password, and your code if you have one, to change credentials";
            return Some(Err(Outcome::new(ResultCode::STRONGER_AUTH_REQUIRED, text)));
        }
        match OwnCredentials::decode(request.value)? {
            OwnCredentials::AddApplication { name, days } => {
                Some(add_application(context, message, (name, days)))
            }
            decoded => Some(Ok(written(message, OWN_CREDENTIALS, &decoded.encode(), None))),
        }
    }

    /// Returns true if the requester proved the account's own password at most [`RECENT_PROOF_TIME`] ago.
    fn has_proved_recently(&self, context: &Context) -> bool {
        let Requester::User { id, .. } = &*self.requester else { return false };
        self.proved.as_deref().is_some_and(|proof| {
            let age = context.now.saturating_duration_since(proof.at);
            proof.is_own && proof.id == *id && age <= RECENT_PROOF_TIME
        })
    }
}

fn add_application(
    context: &mut Context,
    message: &Message<'_>,
    (name, days): (&str, Option<u32>),
) -> Result<PasswordChange, Outcome> {
    let mut random = || context.random.bytes().map_err(no_random_numbers);
    let (first, second, salt) = (random()?, random()?, random()?);
    let password = application_password(&[first, second]);
    let stored = hash(StorageScheme::Ssha512, password.as_bytes(), &salt);
    let value = GeneratedApplication { name, stored: &stored, days }.encode();
    Ok(written(message, STORE_APPLICATION, &value, Some(password)))
}

/// Encodes the request that the writer receives in place of `message`. It has no controls, because all controls that
/// fit this operation concern only the session.
fn written(message: &Message<'_>, name: &str, value: &[u8], generated: Option<String>) -> PasswordChange {
    let request = Request::Extended(ExtendedRequest { name, value: Some(value) });
    let mut bytes = Vec::new();
    Message { id: message.id, request, controls: Controls::NONE }.encode(&mut bytes);
    PasswordChange { message: bytes, answer: PasswordAnswer::new(generated, false) }
}
