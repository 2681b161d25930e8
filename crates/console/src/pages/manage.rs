//! The list of pages for administrators.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use crate::page::{Page, Signed};
use crate::trouble::Trouble;

/// Pages for administrators, most used first: name of the text, and address.
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

pub(crate) async fn show(signed: Signed) -> Response {
    let pages: Vec<_> = PAGES.iter().map(|(name, at)| json!({ "name": name, "at": at })).collect();
    signed.show(Page::new("manage.html", "manage.title", json!({ "pages": pages })))
}

/// Returns the error for a requester who may not read the settings or figures of a page.
pub(crate) fn only_for_administrators(trouble: Trouble) -> Trouble {
    match &trouble {
        Trouble::Refused(outcome, _) if outcome.code == ldap::ResultCode::NO_SUCH_OBJECT => {
            Trouble::Request(StatusCode::FORBIDDEN, "manage.refused")
        }
        _ => trouble,
    }
}
