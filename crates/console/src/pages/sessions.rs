//! The user's own sessions. The user can end them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::sessions::Session;

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let now = Instant::now();
    let sessions = signed.app.sessions.of_user(&signed.session);
    let list: Vec<Value> = sessions.iter().map(|session| model(&signed.session, session, now)).collect();
    let model = json!({ "sessions": list, "notice": signed.notice(&fields) });
    signed.show(Page::new("sessions.html", "sessions.title", model))
}

fn model(own: &Arc<Session>, session: &Arc<Session>, now: Instant) -> Value {
    let minutes = |since: Instant| since_minutes(now.saturating_duration_since(since));
    json!({
        "id": session.id,
        "from": session.from.to_string(),
        "browser": session.browser,
        "method": session.method.name(),
        "begun_minutes": minutes(session.started),
        "used_minutes": minutes(session.last_use()),
        "is_this": Arc::ptr_eq(own, session),
    })
}

fn since_minutes(time: Duration) -> u64 {
    time.as_secs() / 60
}

/// Ends one session of the user, or all sessions except the present session.
pub(crate) async fn end(Submission { signed, fields }: Submission) -> Response {
    let sessions = &signed.app.sessions;
    let id = fields.text("id");
    let is_others = fields.text("action") == "others";
    let own = sessions.of_user(&signed.session);
    let is_chosen = |session: &&Arc<Session>| match is_others {
        true => !Arc::ptr_eq(session, &signed.session),
        false => session.id == id,
    };
    let chosen: Vec<_> = own.iter().filter(is_chosen).collect();
    if chosen.is_empty() && !is_others {
        return signed.fail(&PageError::Request(StatusCode::NOT_FOUND, "sessions.unknown"));
    }
    chosen.iter().for_each(|session| sessions.end(session));
    if chosen.iter().any(|session| Arc::ptr_eq(session, &signed.session)) {
        let cookie = sessions.set_cookie(None, signed.client.is_secured);
        return ([cookie], signed.go("/sign-in?notice=out")).into_response();
    }
    signed.go("/sessions?notice=ended")
}
