//! Sign in and out.
//!
//! A DN is a simple bind. Another name is a bind by SASL PLAIN: the server finds the user by `identity_attributes`, and
//! an unknown name gets the same answer as a wrong password, in the same time.

use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use client::{Connection, Reply};
use ldap::{
    Authentication, BindRequest, Control, ControlsBuf, Dn, PolicyError, PolicyWarning, Request, ResultCode,
    oids,
};
use serde_json::json;
use zeroize::Zeroizing;

use crate::ask::policy_of;
use crate::fields::Fields;
use crate::monitor;
use crate::page::{Format, Page, Submission, Visit};
use crate::places::source;
use crate::sessions::{Bound, NoSession};
use crate::texts::url;
use crate::trouble::Trouble;

/// A bind that succeeded.
pub(crate) struct Proven {
    pub(crate) connection: Connection,
    pub(crate) who: String,
    pub(crate) must_change: bool,
    pub(crate) manages: bool,
    /// The policy's warning.
    warning: Option<PolicyWarning>,
}

pub(crate) async fn form(visit: Visit, fields: Fields) -> Response {
    let notice = match fields.text("notice") {
        "changed" => Some("sign_in.changed"),
        "out" => Some("sign_in.out"),
        _ => None,
    };
    let notice = notice.map(|notice| visit.app.texts.text(notice));
    visit.show(page(
        StatusCode::OK,
        json!({ "to": local(fields.text("to")), "name": "", "notice": notice, "error": null }),
    ))
}

pub(crate) async fn sign_in(visit: Visit, headers: HeaderMap, fields: Fields) -> Response {
    let name = fields.text("name").trim().to_owned();
    let password = Zeroizing::new(fields.text("password").to_owned());
    let to = local(fields.text("to")).to_owned();
    let refuse = |trouble: &Trouble| {
        let model = json!({ "to": to, "name": name, "notice": null, "error": visit.said(trouble) });
        visit.show(page(trouble.status(), model))
    };
    if name.is_empty() || password.is_empty() {
        return refuse(&Trouble::Request(StatusCode::UNPROCESSABLE_ENTITY, "sign_in.incomplete"));
    }
    let sessions = &visit.app.sessions;
    let busy = |_: NoSession| Trouble::Request(StatusCode::SERVICE_UNAVAILABLE, "sign_in.busy");
    let place = match sessions.place(source(visit.client.address.ip())).map_err(busy) {
        Ok(place) => place,
        Err(trouble) => return refuse(&trouble),
    };
    let Some(_under_way) = visit.app.sign_ins.take(source(visit.client.address.ip())) else {
        return refuse(&busy(NoSession::TooMany));
    };
    let (ldap, client, given) = (visit.app.ldap.clone(), visit.client, name.clone());
    let bound = visit.app.ldap.talk(move || bind(ldap.connect(client)?, &given, &password)).await;
    let Proven { connection, who, must_change, manages, warning } =
        match bound.map_err(Trouble::Conversation).and_then(|bound| bound) {
            Ok(bound) => bound,
            Err(trouble) => return refuse(&trouble),
        };
    // The user of an earlier session in this browser has left.
    visit.session.iter().for_each(|session| sessions.end(session));
    let bound = Bound { who, must_change, manages, connection, from: visit.client.address.ip() };
    let session = match sessions.begin(place, bound, &headers).map_err(busy) {
        Ok(session) => session,
        Err(trouble) => return refuse(&trouble),
    };
    let cookie = [sessions.set_cookie(Some(&session), visit.client.is_secured)];
    if visit.format == Format::Json {
        let model =
            json!({ "who": session.who, "token": session.token, "must_change": must_change, "at": to });
        return (cookie, axum::Json(model)).into_response();
    }
    let to = if must_change || warning.is_some() { url("/password", &warned(warning)) } else { to };
    (cookie, visit.go(&to)).into_response()
}

/// Returns the query by which the page of the password shows a warning.
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

/// Returns a path of this console, whatever a link says.
fn local(to: &str) -> &str {
    let is_local = to.starts_with('/') && !to.starts_with("//") && !to.contains(['\\', '\r', '\n', '\t']);
    if is_local { to } else { "/" }
}

/// Binds, and asks who that is. Blocks.
pub(crate) fn bind(mut connection: Connection, name: &str, password: &str) -> Result<Proven, Trouble> {
    let plain = Zeroizing::new(format!("\0{name}\0{password}"));
    let is_dn = name.contains('=') && Dn::parse(name).is_ok();
    let (dn, authentication) = if is_dn {
        (name, Authentication::Simple(password.as_bytes()))
    } else {
        ("", Authentication::Sasl { mechanism: "PLAIN", credentials: Some(plain.as_bytes()) })
    };
    let asked = [oids::PASSWORD_POLICY, oids::AUTHORIZATION_IDENTITY_REQUEST];
    let controls = ControlsBuf::from_iter(asked.map(|oid| Control { oid, critical: false, value: None }));
    let request = Request::Bind(BindRequest { version: 3, name: dn, authentication });
    let reply = connection.request(request, controls.as_controls())?;
    let policy = policy_of(&reply);
    if reply.outcome.code == ResultCode::INVALID_CREDENTIALS {
        // Only the policy may say more than that.
        let error = policy.and_then(|policy| policy.error);
        return Err(match error {
            Some(_) => Trouble::Refused(reply.outcome, error),
            None => Trouble::Request(StatusCode::UNAUTHORIZED, "sign_in.wrong"),
        });
    }
    Trouble::unless_success(reply.outcome.clone(), policy)?;
    let who = identity_of(&reply).unwrap_or_else(|| name.to_owned());
    let policy = policy.unwrap_or_default();
    let must_change = policy.error == Some(PolicyError::ChangeAfterReset);
    let manages = !must_change && monitor::may_read(&mut connection)?;
    Ok(Proven { connection, who, must_change, manages, warning: policy.warning })
}

/// Returns the DN of the identity that a bind's answer names (RFC 3829).
fn identity_of(reply: &Reply) -> Option<String> {
    let control = reply.last.as_ref()?.message().controls.find(oids::AUTHORIZATION_IDENTITY_RESPONSE)?;
    let identity = std::str::from_utf8(control.value?).ok()?;
    Some(identity.strip_prefix("dn:").unwrap_or(identity).to_owned()).filter(|dn| !dn.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_console_alone() {
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
