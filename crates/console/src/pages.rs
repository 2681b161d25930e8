//! The pages, a file each, and their paths.

mod entry;
mod health;
mod password;
mod search;
mod sign_in;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{get, post};

use crate::app::App;
use crate::origin::refuse_other_origins;
use crate::page::file;
use crate::texts::{ICON, STYLE};

/// Returns the router of all pages.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(search::show))
        .route("/health", get(health::show))
        .route("/sign-in", get(sign_in::form).post(sign_in::sign_in))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/password", get(password::form).post(password::change))
        .route("/search", get(search::show))
        .route("/entry", get(entry::show))
        .route("/me", get(entry::own))
        .route("/style.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .route("/icon.svg", get(|| async { file("image/svg+xml", ICON) }))
        .layer(from_fn(refuse_other_origins))
        .with_state(app)
}
