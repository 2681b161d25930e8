//! Rehearsal of access rules: which rights would change if the rules in a settings file were in force. As with
//! `pando access rehearse`, the rights of a sample of requesters are compared.
//!
//! The server examines only some of the requesters in each request. The console sends further requests for the
//! remaining requesters until the time limit is reached or the browser has closed the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::http::StatusCode;
use axum::response::Response;
use client::{ClientError, Connection};
use ldap::{RehearsalAnswer, SettingsRequest};
use serde_json::{Value, json};

use super::identity;
use crate::limits::{REHEARSAL_LINES, REHEARSAL_REQUESTERS_MAX, REHEARSAL_TIME};
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::pages::settings::{in_force, send, text, version};

pub(crate) async fn form(signed: SignedInRequest) -> Response {
    let present = signed.talk(in_force).await;
    signed.answer(present.map(|present| page(model((&present.text, present.version), ""))))
}

fn page(model: Value) -> Page {
    Page::new("rehearse.html", "rehearse.title", model)
}

/// Returns the model of the form. `version` is the version of the settings from which the text was made.
fn model((text, version): (&str, u64), who: &str) -> Value {
    json!({ "text": text, "version": version, "who": who, "result": null, "error": null })
}

/// Signal to a conversation with the directory. Dropping this struct signals that the browser no longer waits.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

pub(crate) async fn rehearse(Submission { signed, fields }: Submission) -> Response {
    let (text, who) = (text(&fields), fields.text("who").to_owned());
    let lines = who.lines().map(str::trim).filter(|who| !who.is_empty());
    let requesters: Vec<String> = lines.map(identity).collect();
    let waits = Arc::new(AtomicBool::new(true));
    // If the browser closes the connection, this value is dropped before the conversation ends.
    let _waiting = Waiting(Arc::clone(&waits));
    let own = Arc::clone(&text);
    let talk = move |connection: &mut Connection| all(connection, &own, requesters, &waits);
    let mut model = model((&text, version(&fields)), &who);
    match signed.talk(talk).await {
        Ok(result) => {
            model["result"] = result;
            signed.show(page(model))
        }
        Err(error @ (PageError::Refused(..) | PageError::Request(..))) => {
            model["error"] = signed.error_model(&error);
            signed.show(Page { status: error.status(), ..page(model) })
        }
        Err(error) => signed.fail(&error),
    }
}

/// Rehearses the rules for all requesters, one after another.
fn all(
    connection: &mut Connection,
    text: &str,
    mut requesters: Vec<String>,
    waits: &AtomicBool,
) -> Result<Value, PageError> {
    if requesters.len() > REHEARSAL_REQUESTERS_MAX {
        return Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "rehearse.too_many"));
    }
    let started = Instant::now();
    let (mut examined, mut entries, mut changes) = (0, 0, 0);
    let mut lines: Vec<String> = Vec::new();
    loop {
        let named = requesters.iter().map(String::as_str).collect();
        let value = send(connection, &SettingsRequest::Rehearse { text, requesters: named })?;
        let unreadable = || ClientError::Unexpected("a rehearsal that cannot be read".to_owned());
        let answer = RehearsalAnswer::decode(&value).ok_or_else(unreadable)?;
        let done = usize::try_from(answer.done).unwrap_or(usize::MAX).max(1);
        examined += done.min(answer.requesters.len());
        entries = answer.entries.max(entries);
        changes += answer.changes;
        let room = REHEARSAL_LINES.saturating_sub(lines.len());
        lines.extend(answer.lines.into_iter().take(room));
        requesters = answer.requesters.into_iter().skip(done).collect();
        let goes_on = waits.load(Ordering::Relaxed) && started.elapsed() < REHEARSAL_TIME;
        if requesters.is_empty() || !goes_on {
            break;
        }
    }
    let unlisted = changes.saturating_sub(lines.len() as u64);
    Ok(json!({
        "examined": examined,
        "not_examined": requesters.len(),
        "entries": entries,
        "changes": changes,
        "lines": lines,
        "unlisted": unlisted,
    }))
}
