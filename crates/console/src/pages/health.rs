//! The health check: whether the directory answers a search. The check requires no session.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use crate::host::ConversationError;
use crate::page::{Page, PageRequest};

/// Searches the directory and reports the result. Thus the page reports a failure if the directory does not answer.
pub(crate) async fn show(visit: PageRequest) -> Response {
    let Ok(under_way) = Arc::clone(&visit.app.health_checks).try_acquire_owned() else {
        let (status, model) = failed(&ConversationError::Overloaded);
        return visit.show(Page { status, template: "health.html", title: "health.title", model });
    };
    let (ldap, client) = (visit.app.ldap.clone(), visit.client.clone());
    let search = move || {
        let _under_way = under_way;
        ldap.connect(client)?.entry("", &["vendorVersion"])
    };
    let (status, model) = match visit.app.ldap.talk(search).await {
        Ok(Ok(Some(entry))) => {
            (StatusCode::OK, json!({ "answers": true, "version": entry.text("vendorVersion") }))
        }
        Ok(Ok(None)) => (StatusCode::OK, json!({ "answers": true, "version": null })),
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error),
    };
    visit.show(Page { status, template: "health.html", title: "health.title", model })
}

fn failed(error: &dyn std::error::Error) -> (StatusCode, serde_json::Value) {
    (StatusCode::SERVICE_UNAVAILABLE, json!({ "answers": false, "error": error.to_string() }))
}
