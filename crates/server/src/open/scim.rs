//! SCIM at the addresses of the console: converts HTTP requests to requests of the service, and its answers to HTTP
//! responses.

use std::sync::Arc;

use ::scim::{ScimRequest, ScimResponse, ScimSettings, Service, limits};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Router};
use console::{Client, Ldap, Part};

/// Path prefix of the service.
const PATH: &str = "/scim/v2";

/// State of all requests.
#[derive(Clone)]
struct Shared {
    ldap: Ldap,
    service: Arc<Service>,
}

/// Returns the part of the console listener that serves SCIM; `None` if the settings were not checked.
pub(super) fn part(ldap: &Ldap, settings: &ScimSettings) -> Option<Part> {
    let service = match Service::new(settings) {
        Ok(service) => Arc::new(service),
        Err(error) => {
            tracing::error!("no SCIM: {error}");
            return None;
        }
    };
    let router = Router::new().route("/", any(answer)).fallback(answer);
    Some(Part { path: PATH, router: router.with_state(Shared { ldap: ldap.clone(), service }) })
}

async fn answer(
    State(shared): State<Shared>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, limits::BODY_SIZE_MAX).await else {
        return response(
            head.method == "HEAD",
            &ScimResponse::failed(413, "the body is too large, or it did not arrive"),
        );
    };
    let is_head = head.method == "HEAD";
    let ldap = shared.ldap.clone();
    let answered = ldap.talk(move || {
        let text = |name: HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok());
        let scheme = if client.is_secured { "https" } else { "http" };
        let url = format!("{scheme}://{}{PATH}", text(header::HOST).unwrap_or("localhost"));
        let request = ScimRequest {
            method: if is_head { "GET" } else { head.method.as_str() },
            path: head.uri.path(),
            query: head.uri.query().unwrap_or_default(),
            authorization: text(header::AUTHORIZATION),
            if_match: text(header::IF_MATCH),
            if_none_match: text(header::IF_NONE_MATCH),
            content_type: text(header::CONTENT_TYPE),
            body: &body,
            url: &url,
        };
        shared.service.answer(&request, &mut || shared.ldap.connect(client.clone()))
    });
    match answered.await {
        Ok(answered) => response(is_head, &answered),
        Err(error) => response(is_head, &ScimResponse::failed(503, &error.to_string())),
    }
}

fn response(is_head: bool, answered: &ScimResponse) -> Response {
    let mut headers = HeaderMap::new();
    let mut put = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    if answered.body.is_some() {
        put(header::CONTENT_TYPE, "application/scim+json");
    }
    answered.version.iter().for_each(|version| put(header::ETAG, version));
    answered.location.iter().for_each(|location| put(header::LOCATION, location));
    if answered.status == 401 {
        put(header::WWW_AUTHENTICATE, "Basic realm=\"Pando\", charset=\"UTF-8\"");
        headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"Pando\""));
    }
    let status = StatusCode::from_u16(answered.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body =
        answered.body.as_ref().filter(|_| !is_head).map_or(Body::empty(), |body| Body::from(body.clone()));
    (status, headers, body).into_response()
}
