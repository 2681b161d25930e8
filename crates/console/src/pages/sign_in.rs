//! Sign-in and sign-out.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use client::Connection;
use ldap::PolicyWarning;
use serde_json::json;
use zeroize::Zeroizing;

use crate::describe::subject_text;
use crate::fields::Fields;
use crate::page::{Format, Page, PageRequest, Submission};
use crate::page_error::PageError;
use crate::places::{Place, source};
use crate::prove::{SuccessfulBind, bind, bind_with_certificate};
use crate::sessions::{BoundUser, Method, NoSession};
use crate::texts::url;

pub(crate) async fn form(visit: PageRequest, fields: Fields) -> Response {
    let notice = match fields.text("notice") {
        "changed" => Some("sign_in.changed"),
        "out" => Some("sign_in.out"),
        _ => None,
    };
    let notice = notice.map(|notice| visit.app.texts.text(notice));
    let to = local(fields.text("to"));
    visit.show(page(
        StatusCode::OK,
        json!({
            "to": to, "name": "", "notice": notice, "error": null,
            "certificate": visit.client.certificate_subject.as_deref().map(subject_text),
            "sends_links": visit.app.ldap.sends_links(),
        }),
    ))
}

/// The credentials with which the user signs in.
enum Proof {
    /// A name and a password.
    Password(String, Zeroizing<String>),
    /// The certificate of the browser. The value is its subject.
    Certificate(Arc<str>),
}

impl Proof {
    fn of(visit: &PageRequest, fields: &Fields) -> Result<Proof, PageError> {
        let incomplete = |text| PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, text);
        if fields.text("method") == "certificate" {
            let subject = visit.client.certificate_subject.clone();
            return subject.map(Proof::Certificate).ok_or(incomplete("sign_in.no_certificate"));
        }
        let name = fields.text("name").trim().to_owned();
        let password = Zeroizing::new(fields.text("password").to_owned());
        match name.is_empty() || password.is_empty() {
            true => Err(incomplete("sign_in.incomplete")),
            false => Ok(Proof::Password(name, password)),
        }
    }

    fn method(&self) -> Method {
        match self {
            Proof::Password(..) => Method::Password,
            Proof::Certificate(_) => Method::Certificate,
        }
    }

    /// Binds with these credentials. Blocks.
    fn bind(&self, connection: Connection) -> Result<SuccessfulBind, PageError> {
        match self {
            Proof::Password(name, password) => bind(connection, name, password),
            Proof::Certificate(subject) => bind_with_certificate(connection, subject),
        }
    }
}

pub(crate) async fn sign_in(visit: PageRequest, headers: HeaderMap, fields: Fields) -> Response {
    let to = local(fields.text("to")).to_owned();
    let is_by_certificate = fields.text("method") == "certificate";
    let refuse = |error: &PageError| {
        let mut model = visit.error_model(error);
        // The server's message is not shown, because it would reveal which entry does not exist and whether the account
        // is locked.
        if is_by_certificate && matches!(error, PageError::Refused(..)) {
            model["text"] = json!(visit.app.texts.text("sign_in.certificate_refused"));
        }
        let model = json!({
            "to": to, "name": fields.text("name").trim(), "notice": null, "error": model,
            "certificate": visit.client.certificate_subject.as_deref().map(subject_text),
            "sends_links": visit.app.ldap.sends_links(),
        });
        visit.show(page(error.status(), model))
    };
    let proof = match Proof::of(&visit, &fields) {
        Ok(proof) => proof,
        Err(error) => return refuse(&error),
    };
    let sessions = &visit.app.sessions;
    let place = match sessions.place(source(visit.client.address.ip())).map_err(busy) {
        Ok(place) => place,
        Err(error) => return refuse(&error),
    };
    let Some(under_way) = visit.app.sign_ins.take(visit.client.address.ip()) else {
        return refuse(&busy(NoSession::TooMany));
    };
    let (ldap, client, method) = (visit.app.ldap.clone(), visit.client.clone(), proof.method());
    let bound = visit.app.ldap.talk(move || {
        // The bind may take longer than the client waits. The place is in use until the thread is free again.
        let _under_way = under_way;
        proof.bind(ldap.connect(client)?)
    });
    let bound = bound.await;
    let proven = match bound.map_err(PageError::Conversation).and_then(|bound| bound) {
        Ok(proven) => proven,
        Err(error) => return refuse(&error),
    };
    visit.app.sign_ins.succeeded(visit.client.address.ip());
    begin(&visit, &headers, (place, proven), method, &to).unwrap_or_else(|error| refuse(&error))
}

pub(super) fn busy(_: NoSession) -> PageError {
    PageError::Request(StatusCode::SERVICE_UNAVAILABLE, "sign_in.busy")
}

/// Begins the session of a user who has signed in with `method`. Returns the response, which redirects to `to`.
///
/// # Errors
/// There are too many sessions.
pub(super) fn begin(
    visit: &PageRequest,
    headers: &HeaderMap,
    (place, proven): (Place<IpAddr>, SuccessfulBind),
    method: Method,
    to: &str,
) -> Result<Response, PageError> {
    let SuccessfulBind { connection, who, entry_uuid, must_change, manages, audits, warning } = proven;
    let sessions = &visit.app.sessions;
    // If the browser already has a session, that session ends.
    visit.session.iter().for_each(|session| sessions.end(session));
    let from = visit.client.address.ip();
    let bound = BoundUser { who, entry_uuid, method, must_change, manages, audits, connection, from };
    let session = sessions.begin(place, bound, headers).map_err(busy)?;
    let cookie = [sessions.set_cookie(Some(&session), visit.client.is_secured)];
    if visit.format == Format::Json {
        let model =
            json!({ "who": session.who, "token": session.token, "must_change": must_change, "at": to });
        return Ok((cookie, axum::Json(model)).into_response());
    }
    let changes = must_change || warning.is_some();
    let to = if changes { url("/password", &warned(warning)) } else { to.to_owned() };
    Ok((cookie, visit.go(&to)).into_response())
}

/// Returns the query that makes the page for the password show the warning.
fn warned(warning: Option<PolicyWarning>) -> Vec<(&'static str, &'static str)> {
    match warning {
        None => Vec::new(),
        Some(PolicyWarning::TimeBeforeExpiration(_)) => vec![("notice", "expires")],
        Some(PolicyWarning::GraceLeft(_)) => vec![("notice", "grace")],
    }
}

pub(crate) async fn sign_out(Submission { signed, .. }: Submission) -> Response {
    let sessions = &signed.app.sessions;
    sessions.end(&signed.session);
    ([sessions.set_cookie(None, signed.client.is_secured)], signed.go("/sign-in?notice=out")).into_response()
}

fn page(status: StatusCode, model: serde_json::Value) -> Page {
    Page { status, template: "sign_in.html", title: "sign_in.title", model }
}

/// Returns `to` if it is a path of this console. Otherwise returns the path of the first page.
fn local(to: &str) -> &str {
    let is_local = to.starts_with('/') && !to.starts_with("//") && !to.contains(['\\', '\r', '\n', '\t']);
    if is_local { to } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_within_the_console() {
        for (to, expected) in [
            ("/search?q=a", "/search?q=a"),
            ("", "/"),
            ("//evil", "/"),
            ("https://evil", "/"),
            ("/\\evil", "/"),
            ("/a\r\nX: y", "/"),
            ("javascript:alert(1)", "/"),
        ] {
            assert_eq!(local(to), expected, "{to}");
        }
    }
}
