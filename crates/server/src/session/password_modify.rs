//! The Password Modify extended operation (RFC 3062). The server rewrites it as a Modify of userPassword.
//!
//! Therefore the hash pool, the writer, the log and the limits treat the request like a Modify. If the request contains
//! the old password, only the value that the old password verifies is replaced. Otherwise all values are replaced.

use std::borrow::Cow;

use directory::controls::{self, ControlContext, RequestControls};
use directory::passwords::named_user;
use directory::{Outcome, Requester};
use ldap::oids::MODIFY_PASSWORD;
use ldap::{
    ChangeOperation, ChangesBuf, Control, ControlsBuf, Message, ModifyRequest, PasswordModify, Request,
    ResultCode,
};

use super::Session;
use super::password_answer::PasswordAnswer;
use crate::session::context::Context;
use crate::stamp::{no_random_numbers, readable_password};

/// A request that the writer receives in place of the client's request.
pub(super) struct PasswordChange {
    /// Encoded message.
    pub(super) message: Vec<u8>,
    /// Content of the response.
    pub(super) answer: PasswordAnswer,
}

/// Returns true if a request is a Password Modify.
pub(super) fn is_password_modify(request: &Request<'_>) -> bool {
    matches!(request, Request::Extended(request) if request.name == MODIFY_PASSWORD)
}

impl Session {
    /// If the message is a Password Modify, returns the Modify that the writer receives in its place.
    pub(super) fn password_change(
        &self,
        context: &mut Context,
        message: &Message<'_>,
    ) -> Option<Result<PasswordChange, Outcome>> {
        match &message.request {
            Request::Extended(request) if request.name == MODIFY_PASSWORD => {
                Some(self.write_modify(context, message, request.value))
            }
            _ => None,
        }
    }

    fn write_modify(
        &self,
        context: &mut Context,
        message: &Message<'_>,
        value: Option<&[u8]>,
    ) -> Result<PasswordChange, Outcome> {
        let refused = |code, text: &str| Err(Outcome::new(code, text));
        let Some(decoded) = PasswordModify::decode(value) else {
            return refused(
                ResultCode::PROTOCOL_ERROR,
                "this is no value of Password Modify (RFC 3062 section 2)",
            );
        };
        let object = self.user_to_change(context, decoded.user_identity)?;
        if decoded.new_password.is_some_and(<[u8]>::is_empty) {
            return refused(ResultCode::CONSTRAINT_VIOLATION, "an empty password cannot be bound with");
        }
        let generated = match decoded.new_password {
            Some(_) => None,
            None => Some(readable_password(&context.random.bytes().map_err(no_random_numbers)?)),
        };
        let new = generated.as_ref().map_or(decoded.new_password.unwrap_or_default(), String::as_bytes);
        let mut changes = ChangesBuf::new();
        match decoded.old_password {
            Some(old) => {
                changes.push(ChangeOperation::Delete, "userPassword", [old]);
                changes.push(ChangeOperation::Add, "userPassword", [new]);
            }
            None => changes.push(ChangeOperation::Replace, "userPassword", [new]),
        }
        let request = Request::Modify(ModifyRequest { object: &object, changes: changes.as_changes() });
        // Some controls are valid for a Modify but not for Password Modify. They must not apply to the Modify.
        RequestControls::read(&message.controls, ControlContext::Extended)?;
        let fitting = |control: &Control<'_>| controls::fits(control.oid, ControlContext::Extended);
        let fitting: ControlsBuf = message.controls.iter().filter(fitting).collect();
        let mut bytes = Vec::new();
        Message { id: message.id, request, controls: fitting.as_controls() }.encode(&mut bytes);
        let answer = PasswordAnswer::new(generated, decoded.old_password.is_some());
        Ok(PasswordChange { message: bytes, answer })
    }

    /// Returns the DN of the entry whose password the value of a Password Modify request changes. Returns `None` if the
    /// request will be refused.
    pub(super) fn password_to_change(&self, context: &Context, value: Option<&[u8]>) -> Option<Cow<'_, str>> {
        let decoded = PasswordModify::decode(value)?;
        self.user_to_change(context, decoded.user_identity).ok()
    }

    /// Returns the DN of the entry whose password changes. The user identity in the request is a DN or a SASL
    /// authorization identity (RFC 3062 section 2, RFC 4513 section 5.2.1.8).
    fn user_to_change(&self, context: &Context, identity: Option<&[u8]>) -> Result<Cow<'_, str>, Outcome> {
        let refused = |code, text: &str| Err(Outcome::new(code, text));
        let Some(identity) = identity else {
            return match &*self.requester {
                Requester::Administrator { dn } | Requester::User { dn, .. } => Ok(Cow::Borrowed(dn)),
                Requester::Anonymous => Err(not_bound()),
            };
        };
        if *self.requester == Requester::Anonymous {
            return Err(not_bound());
        }
        let Ok(identity) = std::str::from_utf8(identity) else {
            return refused(ResultCode::INVALID_DN_SYNTAX, "the user identity is not UTF-8");
        };
        let after = |prefix: &str| {
            let (start, rest) = identity.split_at_checked(prefix.len())?;
            start.eq_ignore_ascii_case(prefix).then_some(rest)
        };
        if let Some(dn) = after("dn:") {
            return Ok(Cow::Owned(dn.to_owned()));
        }
        let Some(name) = after("u:") else { return Ok(Cow::Owned(identity.to_owned())) };
        match named_user(&context.snapshot, &self.request_context(context), name)? {
            Some(dn) => Ok(Cow::Owned(dn)),
            None if self.requester.is_administrator() => {
                refused(ResultCode::NO_SUCH_OBJECT, "no entry, or more than one, has this name")
            }
            None => refused(
                ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
                "there is no user of this name whose password you may change",
            ),
        }
    }
}

fn not_bound() -> Outcome {
    let text = "bind first: an anonymous client cannot change a password";
    Outcome::new(ResultCode::STRONGER_AUTH_REQUIRED, text)
}
