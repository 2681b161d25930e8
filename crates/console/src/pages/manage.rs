//! Administration: the list of the pages for administrators.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use crate::page::{Page, Signed};
use crate::trouble::Trouble;

/// Pages for administrators, the most used first. Each has a text.
const PAGES: [&str; 5] = ["audit", "indexes", "access", "deleted", "schema"];

pub(crate) async fn show(signed: Signed) -> Response {
    signed.show(Page::new("manage.html", "manage.title", json!({ "pages": PAGES })))
}

/// Returns the error of a requester who may not see the settings or figures that a page needs.
pub(crate) fn only_for_administrators(trouble: Trouble) -> Trouble {
    match &trouble {
        Trouble::Refused(outcome, _) if outcome.code == ldap::ResultCode::NO_SUCH_OBJECT => {
            Trouble::Request(StatusCode::FORBIDDEN, "manage.refused")
        }
        _ => trouble,
    }
}
