//! Change of the user's own password.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use client::Connection;
use ldap::{Control, ControlsBuf, ExtendedRequest, PasswordModify, Request, decode_generated_password, oids};
use serde_json::json;
use zeroize::Zeroizing;

use crate::fields::Fields;
use crate::own;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::requests::policy_of;

pub(crate) async fn form(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = match fields.text("notice") {
        "expires" => Some("password.expires"),
        "grace" => Some("password.grace"),
        _ => None,
    };
    let notice = notice.map(|notice| signed.app.texts.text(notice));
    let rules = signed.talk(own::read).await;
    let model = |rules| json!({ "notice": notice, "error": null, "rules": rules });
    signed.answer(rules.map(|rules| page(StatusCode::OK, model(rules))))
}

fn page(status: StatusCode, model: serde_json::Value) -> Page {
    Page { status, template: "password.html", title: "password.title", model }
}

/// Changes the password. After that, ends all sessions of the user, because one of them may belong to an attacker who
/// knew the old password.
pub(crate) async fn change(Submission { signed, fields }: Submission) -> Response {
    let secret = |name: &str| Zeroizing::new(fields.text(name).to_owned());
    let (old, new) = (secret("old"), secret("new"));
    let unusable = |text| Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, text));
    let changed = if new.is_empty() {
        unusable("password.empty")
    } else if *new != fields.text("again") {
        unusable("password.different")
    } else {
        let (app, own) = (Arc::clone(&signed.app), Arc::clone(&signed.session));
        let talk = move |connection: &mut Connection| {
            set(connection, None, Some(&old), Some(&new))?;
            // The sessions end even if the client no longer waits for the answer.
            app.sessions.end_all_of(&own.who, own.entry_uuid.as_deref());
            Ok(())
        };
        signed.talk(talk).await
    };
    match changed {
        Err(error) => {
            let rules = signed.talk(own::read).await.unwrap_or_default();
            let model = json!({ "notice": null, "error": signed.error_model(&error), "rules": rules });
            signed.show(page(error.status(), model))
        }
        Ok(()) => (
            [signed.app.sessions.set_cookie(None, signed.client.is_secured)],
            signed.go("/sign-in?notice=changed"),
        )
            .into_response(),
    }
}

/// Sets the password of `dn`, or the requester's own password, by Password Modify (RFC 3062). If `new` is `None`, the
/// server generates a password, and this function returns it. Blocks.
///
/// # Errors
/// The directory refuses the change. The error contains the reason if a password policy returned one.
pub(crate) fn set(
    connection: &mut Connection,
    dn: Option<&str>,
    old: Option<&str>,
    new: Option<&str>,
) -> Result<Option<Zeroizing<String>>, PageError> {
    let value = PasswordModify {
        user_identity: dn.map(str::as_bytes),
        old_password: old.filter(|old| !old.is_empty()).map(str::as_bytes),
        new_password: new.map(str::as_bytes),
    };
    let value = Zeroizing::new(value.encode());
    let control = Control { oid: oids::PASSWORD_POLICY, critical: false, value: None };
    let controls = ControlsBuf::from_iter([control]);
    let request = Request::Extended(ExtendedRequest { name: oids::MODIFY_PASSWORD, value: Some(&value) });
    let reply = connection.request(request, controls.as_controls())?;
    PageError::unless_success(reply.outcome.clone(), policy_of(&reply))?;
    let generated = reply.extended.value.as_deref().and_then(decode_generated_password);
    Ok(generated.map(|password| Zeroizing::new(String::from_utf8_lossy(password).into_owned())))
}
