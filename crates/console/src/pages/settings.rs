//! The settings of the directory as the text of a settings file. The page first shows the changes, like `pando plan`,
//! and then makes them, like `pando apply`.
//!
//! The form contains the version of the settings from which the text was made. The server makes the changes only if the
//! settings still have that version. Therefore the changes do not overwrite a change by another administrator.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use client::{ClientError, Connection};
use ldap::{ResultCode, SettingsInForce, SettingsRequest, oids};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::texts::url;

/// Prefix of a line in a plan that describes no change.
const NOTE: &str = "note: ";

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = signed.notice(&fields);
    let present = signed.talk(in_force).await;
    let page = |present: SettingsInForce| {
        let mut model = model(&present, &present.text);
        model["notice"] = notice;
        Page::new("settings.html", "settings.title", model)
    };
    signed.answer(present.map(page))
}

/// Reads the settings in force. Blocks.
///
/// # Errors
/// The requester is not the administrator, or the directory does not answer.
pub(super) fn in_force(connection: &mut Connection) -> Result<SettingsInForce, PageError> {
    let value = send(connection, &SettingsRequest::Read)?;
    let malformed = || PageError::Client(ClientError::Unexpected("settings that cannot be read".to_owned()));
    SettingsInForce::decode(&value).ok_or_else(malformed)
}

/// Sends a request about settings. Returns the value of the answer. Blocks.
///
/// # Errors
/// The directory refuses the request or does not answer.
pub(super) fn send(connection: &mut Connection, request: &SettingsRequest<'_>) -> Result<Vec<u8>, PageError> {
    let reply = connection.extended(oids::SETTINGS, Some(&request.encode()))?;
    PageError::unless_success(reply.outcome, None)?;
    Ok(reply.extended.value.unwrap_or_default())
}

fn model(present: &SettingsInForce, text: &str) -> Value {
    json!({
        "version": present.version,
        "text": text,
        "plan": null,
        "changed_meanwhile": false,
        "notice": null,
        "error": null,
    })
}

/// Shows the changes that the text would make, or makes them.
pub(crate) async fn change(Submission { signed, fields }: Submission) -> Response {
    let text = text(&fields);
    let form_version = version(&fields);
    let own = Arc::clone(&text);
    let error = if fields.text("step") == "apply" {
        let request = move |connection: &mut Connection| {
            send(connection, &SettingsRequest::Apply { text: &own, version: Some(form_version) }).map(drop)
        };
        match signed.talk(request).await {
            Ok(()) => return signed.go(&url("/settings", &[("notice", "settings_applied")])),
            Err(error) => error,
        }
    } else {
        match signed.talk(move |connection| planned(connection, &own, form_version)).await {
            Ok(model) => return signed.show(Page::new("settings.html", "settings.plan", model)),
            Err(error) => error,
        }
    };
    match error {
        PageError::Refused(..) => again(&signed, text, form_version, &error).await,
        error => signed.fail(&error),
    }
}

/// Returns the text in the form, with line ends converted to LF.
pub(super) fn text(fields: &Fields) -> Arc<str> {
    fields.text("text").replace("\r\n", "\n").into()
}

/// Returns the version of the settings from which the text in the form was made. Returns 0 if the form contains none.
pub(super) fn version(fields: &Fields) -> u64 {
    fields.text("version").parse().unwrap_or(0)
}

fn planned(connection: &mut Connection, text: &str, form_version: u64) -> Result<Value, PageError> {
    let present = in_force(connection)?;
    let value = send(connection, &SettingsRequest::Plan { text })?;
    let value = String::from_utf8_lossy(&value).into_owned();
    let (notes, lines): (Vec<&str>, Vec<&str>) = value.lines().partition(|line| line.starts_with(NOTE));
    let notes: Vec<&str> = notes.iter().filter_map(|note| note.strip_prefix(NOTE)).collect();
    let mut model = model(&present, text);
    model["plan"] = json!({ "lines": lines, "notes": notes });
    model["changed_meanwhile"] = json!(present.version != form_version);
    Ok(model)
}

/// Shows the form again with the text that the user entered. The form keeps the version `form_version`, so the next
/// preview still warns if other administrators have changed the settings meanwhile. But if `error` reports such a
/// change, the user has already been warned, and the form contains the present version.
async fn again(signed: &SignedInRequest, text: Arc<str>, form_version: u64, error: &PageError) -> Response {
    match signed.talk(in_force).await {
        Ok(present) => {
            let mut model = model(&present, &text);
            let is_conflict = matches!(error, PageError::Refused(outcome, _)
                if outcome.code == ResultCode::ASSERTION_FAILED);
            if is_conflict {
                model["error"] =
                    signed.error_model(&PageError::Request(StatusCode::CONFLICT, "settings.conflict"));
            } else {
                model["error"] = signed.error_model(error);
                model["version"] = json!(form_version);
            }
            let page = Page::new("settings.html", "settings.title", model);
            signed.show(Page { status: error.status(), ..page })
        }
        Err(error) => signed.fail(&error),
    }
}
