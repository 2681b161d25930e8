//! Pages: a model, which is JSON for scripts and goes through a template for people. The decision is made here alone.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::{Extension, Json};
use minijinja::value::Serde;
use minijinja::{Value, context};

use crate::app::App;
use crate::host::Client;

/// Form of an answer, which the client chooses with the header `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Html,
    Json,
}

impl Format {
    pub(crate) fn of(headers: &HeaderMap) -> Format {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let media_types = accept.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
        let first = media_types.into_iter().find(|range| matches!(*range, "text/html" | "application/json"));
        if first == Some("application/json") { Format::Json } else { Format::Html }
    }
}

/// A page that is not in its form yet.
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    /// The template of its HTML form.
    pub(crate) template: &'static str,
    /// The path of its title among the texts.
    pub(crate) title: &'static str,
    /// Its content; the whole answer in JSON.
    pub(crate) model: serde_json::Value,
}

/// A request for a page.
pub(crate) struct Visit {
    pub(crate) app: Arc<App>,
    pub(crate) client: Client,
    pub(crate) format: Format,
}

impl FromRequestParts<Arc<App>> for Visit {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Visit, StatusCode> {
        let found = Extension::<Client>::from_request_parts(parts, app).await;
        let Extension(client) = found.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(Visit { app: Arc::clone(app), client, format: Format::of(&parts.headers) })
    }
}

impl Visit {
    /// Returns the page in the form that the client wants.
    pub(crate) fn show(&self, page: Page) -> Response {
        let Page { status, template, title, model } = page;
        if self.format == Format::Json {
            return (status, Json(model)).into_response();
        }
        let texts = &self.app.texts;
        let title = texts.text(title);
        match texts.render(template, context! { title, page => Value::from(Serde(model)) }) {
            Ok(page) => (status, Html(page)).into_response(),
            Err(error) => {
                tracing::error!("the console cannot show {template}: {error:#}");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// Returns a file that is part of the binary; browsers keep it for an hour.
pub(crate) fn file(media_type: &'static str, content: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("max-age=3600")),
    ];
    (headers, content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_media_type_counts() {
        let of = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            Format::of(&headers)
        };
        assert_eq!(of("application/json"), Format::Json);
        assert_eq!(of("application/json;q=0.9, text/html"), Format::Json);
        assert_eq!(of("text/html,application/xhtml+xml,*/*;q=0.8"), Format::Html);
        assert_eq!(of("*/*"), Format::Html);
        assert_eq!(Format::of(&HeaderMap::new()), Format::Html);
    }
}
