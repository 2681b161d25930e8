//! The pages, a file each, and their paths.

mod health;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::app::App;
use crate::page::file;
use crate::texts::STYLE;

/// Returns the router of all pages.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(health::show))
        .route("/health", get(health::show))
        .route("/style.css", get(|| async { file("text/css; charset=utf-8", STYLE) }))
        .with_state(app)
}
