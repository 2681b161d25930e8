//! The headers of responses, the time limit of requests, and the maximum size of bodies. They are the same for all
//! pages.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use tokio::time::timeout;

use crate::limits::{BODY_BYTES_MAX, REQUEST_TIME};

/// Default headers of every response. They forbid scripts, content from other servers, and caching. A handler may set a
/// different value for a header.
pub const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; \
             base-uri 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::VARY, HeaderValue::from_static("Accept, Cookie")),
];

/// Adds the headers and the limits to all routes of a router.
pub(crate) fn with_bounds(router: Router) -> Router {
    router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).layer(from_fn(answer))
}

async fn answer(request: Request, next: Next) -> Response {
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse::<u64>().ok())
        .is_some_and(|length| length > BODY_BYTES_MAX as u64)
    {
        return (StatusCode::PAYLOAD_TOO_LARGE, HeaderMap::from_iter(HEADERS), "the body is too large\n")
            .into_response();
    }
    let Ok(mut response) = timeout(REQUEST_TIME, next.run(request)).await else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            HeaderMap::from_iter(HEADERS),
            "the request took too long\n",
        )
            .into_response();
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}
