//! Setting of another user's password.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use client::Connection;
use serde_json::json;
use zeroize::Zeroizing;

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::pages::password;
use crate::requests;
use crate::rights::Rights;

pub(crate) async fn form(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = signed.notice(&fields);
    let model = signed.talk(move |connection| {
        let entry = requests::entry(connection, fields.text("dn"), &["objectClass"])?;
        Rights::require_write(connection, &entry.dn, "userPassword")?;
        Ok(json!({ "dn": entry.dn, "generated": null, "done": false, "notice": notice, "error": null }))
    });
    let model = model.await;
    signed.answer(model.map(|model| Page::new("reset.html", "reset.title", model)))
}

/// Sets the password. If the form contains no password, the server generates one. The generated password is shown only
/// in this response.
pub(crate) async fn reset(Submission { signed, fields }: Submission) -> Response {
    let dn = fields.text("dn").to_owned();
    let new = Zeroizing::new(fields.text("new").to_owned());
    let set = if *new != fields.text("again") {
        Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "password.different"))
    } else {
        let (app, dn) = (Arc::clone(&signed.app), dn.clone());
        let talk = move |connection: &mut Connection| {
            // The DN in the form can have another spelling than the DN of the user's sessions.
            let user = requests::entry(connection, &dn, &["entryUUID"])?;
            let given = Some(new.as_str()).filter(|new| !new.is_empty());
            let generated = password::set(connection, Some(&user.dn), None, given)?;
            // The sessions end even if the client no longer waits for the answer.
            app.sessions.end_all_of(&user.dn, user.texts("entryUUID").pop().as_deref());
            Ok(generated)
        };
        signed.talk(talk).await
    };
    let (status, generated, error) = match set {
        Ok(generated) => (StatusCode::OK, generated, None),
        Err(error) => (error.status(), None, Some(signed.error_model(&error))),
    };
    let model = json!({
        "dn": dn,
        "generated": generated.as_ref().map(|password| password.as_str()),
        "done": error.is_none(),
        "notice": null,
        "error": error,
    });
    signed.show(Page { status, ..Page::new("reset.html", "reset.title", model) })
}
