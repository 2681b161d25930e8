//! Forgotten passwords. The user requests a mail with a link, and the link leads to a session in which the user can set
//! a new password.
//!
//! Opening the link changes nothing, because programs that inspect mail also open links. The link is used only by the
//! button on its page.

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use zeroize::Zeroizing;

use crate::fields::Fields;
use crate::page::{Page, PageRequest};
use crate::page_error::PageError;
use crate::pages::sign_in::{begin, busy};
use crate::places::source;
use crate::prove::bind_by_token;
use crate::sessions::{Method, NoSession};

const OFF: PageError = PageError::Request(StatusCode::NOT_FOUND, "forgotten.off");

pub(crate) async fn form(visit: PageRequest) -> Response {
    match visit.app.ldap.sends_links() {
        true => visit.show(request_page(StatusCode::OK, json!({ "done": false, "error": null }))),
        false => visit.fail(&OFF),
    }
}

/// Requests a mail with a link. The response does not depend on whether the account exists.
pub(crate) async fn request_link(visit: PageRequest, fields: Fields) -> Response {
    if !visit.app.ldap.sends_links() {
        return visit.fail(&OFF);
    }
    let refuse = |error: &PageError| {
        let model = json!({ "done": false, "error": visit.error_model(error) });
        visit.show(request_page(error.status(), model))
    };
    match fields.given("name") {
        None => refuse(&PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "forgotten.empty")),
        Some(name) if visit.app.ldap.request_link(visit.client.clone(), name) => {
            visit.show(request_page(StatusCode::ACCEPTED, json!({ "done": true, "error": null })))
        }
        Some(_) => refuse(&PageError::Request(StatusCode::TOO_MANY_REQUESTS, "forgotten.busy")),
    }
}

fn request_page(status: StatusCode, model: serde_json::Value) -> Page {
    Page { status, template: "forgotten.html", title: "forgotten.title", model }
}

/// Shows the page that the link leads to.
pub(crate) async fn link(visit: PageRequest, fields: Fields) -> Response {
    match visit.app.ldap.sends_links() {
        true => {
            let model = json!({ "link_token": fields.text("token"), "error": null });
            visit.show(link_page(StatusCode::OK, model))
        }
        false => visit.fail(&OFF),
    }
}

/// Uses the link. Begins a session in which the user can only set a new password.
pub(crate) async fn open(visit: PageRequest, headers: HeaderMap, fields: Fields) -> Response {
    if !visit.app.ldap.sends_links() {
        return visit.fail(&OFF);
    }
    let token = Zeroizing::new(fields.text("token").to_owned());
    let refuse = |error: &PageError| {
        let model = json!({ "link_token": "", "error": visit.error_model(error) });
        visit.show(link_page(error.status(), model))
    };
    let address = visit.client.address.ip();
    let place = match visit.app.sessions.place(source(address)).map_err(busy) {
        Ok(place) => place,
        Err(error) => return refuse(&error),
    };
    let Some(under_way) = visit.app.sign_ins.take(address) else {
        return refuse(&busy(NoSession::TooMany));
    };
    let (ldap, client) = (visit.app.ldap.clone(), visit.client.clone());
    let bound = visit.app.ldap.talk(move || {
        let _under_way = under_way;
        bind_by_token(ldap.connect(client)?, &token)
    });
    let bound = bound.await;
    let session = bound.map_err(PageError::Conversation).and_then(|bound| bound);
    let session =
        session.and_then(|proven| begin(&visit, &headers, (place, proven), Method::Mail, "/password"));
    session.unwrap_or_else(|error| refuse(&error))
}

fn link_page(status: StatusCode, model: serde_json::Value) -> Page {
    Page { status, template: "new_password.html", title: "new_password.title", model }
}
