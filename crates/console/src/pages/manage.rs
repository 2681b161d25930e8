//! List of the pages for administrators.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;

/// The pages for administrators, the most used first. Each row has the name of the page's text, and the page's address.
const PAGES: [(&str, &str); 10] = [
    ("audit", "/audit"),
    ("policies", "/policies"),
    ("access", "/access"),
    ("indexes", "/indexes"),
    ("nodes", "/nodes"),
    ("settings", "/settings"),
    ("settings-history", "/history?dn=cn%3Dconfig"),
    ("deleted", "/deleted"),
    ("restore", "/compare/tree"),
    ("schema", "/schema"),
];

pub(crate) async fn show(signed: SignedInRequest) -> Response {
    if !signed.session.manages {
        return signed.fail(&refused());
    }
    let pages: Vec<_> = PAGES.iter().map(|(name, at)| json!({ "name": name, "at": at })).collect();
    signed.show(Page::new("manage.html", "manage.title", json!({ "pages": pages })))
}

/// Converts the error that occurs if the requester cannot read the settings or figures of a page. The returned error
/// states that the page is only for administrators.
pub(crate) fn only_for_administrators(error: PageError) -> PageError {
    match &error {
        PageError::Refused(outcome, _) if outcome.code == ldap::ResultCode::NO_SUCH_OBJECT => refused(),
        _ => error,
    }
}

fn refused() -> PageError {
    PageError::Request(StatusCode::FORBIDDEN, "manage.refused")
}
