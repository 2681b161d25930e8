//! The pages and their paths. Each page has its own module.

mod access;
mod account;
mod account_state;
mod add;
mod audit;
mod compare;
mod deleted;
mod edit;
mod entry;
mod forgotten;
mod health;
mod history;
mod indexes;
mod manage;
mod members;
mod move_or_delete;
mod nodes;
mod overview;
mod password;
mod photo;
mod policies;
mod reset;
mod schema_browser;
mod search;
mod sessions;
mod settings;
mod sign_in;
mod tree;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{MethodRouter, get, post};

use crate::app::App;
use crate::origin::refuse_other_origins;
use crate::page::file;
use crate::texts::{ICON, OPENAPI, STYLE};

/// Returns the router of all pages.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/style.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/icon.svg", get(|| async { file("image/svg+xml", ICON) }))
        .route("/openapi.json", get(|| async { file("application/json", OPENAPI) }));
    for (path, _, handlers) in pages() {
        router = router.route(path, handlers);
    }
    router.layer(from_fn(refuse_other_origins)).with_state(app)
}

/// The path, the methods and the handlers of a page.
type PageRoute = (&'static str, &'static [&'static str], MethodRouter<Arc<App>>);

/// Returns all pages. The OpenAPI description must contain the same pages.
fn pages() -> Vec<PageRoute> {
    const READ: &[&str] = &["get"];
    const SEND: &[&str] = &["post"];
    const BOTH: &[&str] = &["get", "post"];
    vec![
        ("/", READ, get(overview::show)),
        ("/health", READ, get(health::show)),
        ("/sign-in", BOTH, get(sign_in::form).post(sign_in::sign_in)),
        ("/forgotten-password", BOTH, get(forgotten::form).post(forgotten::request_link)),
        ("/new-password", BOTH, get(forgotten::link).post(forgotten::open)),
        ("/sign-out", SEND, post(sign_in::sign_out)),
        ("/password", BOTH, get(password::form).post(password::change)),
        ("/account", READ, get(account::show)),
        ("/account/applications", SEND, post(account::change_application)),
        ("/account/codes", BOTH, get(account::codes::form).post(account::codes::change)),
        ("/account/codes/remove", READ, get(account::codes::removal)),
        ("/account/seen", READ, get(account::seen::show)),
        ("/sessions", BOTH, get(sessions::show).post(sessions::end)),
        ("/search", READ, get(search::show)),
        ("/searches", SEND, post(search::saved::change)),
        ("/tree", READ, get(tree::show)),
        ("/entry", READ, get(entry::show)),
        ("/photo", READ, get(photo::show)),
        ("/photo/change", BOTH, get(photo::form).post(photo::change)),
        ("/me", READ, get(entry::own)),
        ("/edit", BOTH, get(edit::form).post(edit::save)),
        ("/add", BOTH, get(add::form).post(add::save)),
        ("/delete", BOTH, get(move_or_delete::delete_form).post(move_or_delete::delete)),
        ("/rename", BOTH, get(move_or_delete::rename_form).post(move_or_delete::rename)),
        ("/reset-password", BOTH, get(reset::form).post(reset::reset)),
        ("/members", BOTH, get(members::show).post(members::change)),
        ("/schema", READ, get(schema_browser::show)),
        ("/manage", READ, get(manage::show)),
        ("/indexes", BOTH, get(indexes::show).post(indexes::change)),
        ("/settings", BOTH, get(settings::show).post(settings::change)),
        ("/audit", READ, get(audit::show)),
        ("/policies", READ, get(policies::show)),
        ("/account-state", BOTH, get(account_state::show).post(account_state::change)),
        ("/nodes", READ, get(nodes::show)),
        ("/history", BOTH, get(history::show).post(history::undo)),
        ("/access", READ, get(access::show)),
        ("/access/rehearse", BOTH, get(access::rehearse::form).post(access::rehearse::rehearse)),
        ("/compare", BOTH, get(compare::show).post(compare::restore)),
        ("/compare/tree", BOTH, get(compare::tree::show).post(compare::tree::restore)),
        ("/deleted", BOTH, get(deleted::show).post(deleted::bring_back)),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_openapi_description_has_every_page() {
        let description: serde_json::Value = serde_json::from_str(OPENAPI).unwrap();
        let described: BTreeMap<&str, Vec<&str>> = description["paths"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(path, methods)| {
                (path.as_str(), methods.as_object().unwrap().keys().map(String::as_str).collect())
            })
            .collect();
        let served: BTreeMap<&str, Vec<&str>> =
            pages().into_iter().map(|(path, methods, _)| (path, methods.to_vec())).collect();
        assert_eq!(described, served);
    }
}
