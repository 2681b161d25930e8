//! Protection against requests from other sites. A request that changes something must come from a page of the console,
//! or from a client that is not a browser. The same applies to the parts on the listener, because browsers also store
//! Basic credentials.
//!
//! A browser reports the origin of a request in the headers `Sec-Fetch-Site` and `Origin`. A request that a browser
//! sends from another site contains at least one of these headers. In addition to this check, a page requires the
//! token of the session.

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

/// Refuses requests that a browser sends from another site.
pub(crate) async fn refuse_other_origins(request: Request, next: Next) -> Response {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD);
    if is_safe || is_own(request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "this request comes from another site\n").into_response()
}

fn is_own(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = text(header::ORIGIN.as_str()) else { return true };
    let Some((_, authority)) = origin.split_once("://") else { return false };
    text(header::HOST.as_str()).is_some_and(|host| host.eq_ignore_ascii_case(authority))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_of_the_same_origin_may_make_changes() {
        let of = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().unwrap()));
            is_own(&pairs.collect())
        };
        assert!(of(&[]), "a script");
        assert!(of(&[("sec-fetch-site", "same-origin")]));
        for site in ["cross-site", "same-site", "none", ""] {
            assert!(!of(&[("sec-fetch-site", site), ("host", "a"), ("origin", "https://a")]), "{site}");
        }
        assert!(of(&[("host", "a:1"), ("origin", "https://A:1")]));
        assert!(!of(&[("host", "a:1"), ("origin", "https://a:2")]));
        assert!(!of(&[("host", "a"), ("origin", "null")]));
        assert!(!of(&[("origin", "https://a")]));
    }
}
