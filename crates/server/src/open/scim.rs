//! The SCIM service at the addresses of the console. Converts HTTP requests to requests of the service, and the
//! service's answers to HTTP responses.

use std::convert::Infallible;
use std::sync::Arc;

use ::scim::{AnswerShare, ScimRequest, ScimResponse, ScimSettings, Service, limits};
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Router};
use console::{Client, Ldap, Part, SignIns};
use futures_util::stream;

/// Path prefix of the service.
const PATH: &str = "/scim/v2";

/// Maximum size of one part of a response body, in bytes. A body is sent in parts.
const PART_BYTES: usize = 64 << 10;

/// State that all requests share.
#[derive(Clone)]
struct Shared {
    ldap: Ldap,
    service: Arc<Service>,
    /// Sign-ins that are in progress. Each request counts as one sign-in, because the directory delays the answer to a
    /// wrong password.
    sign_ins: Arc<SignIns>,
}

/// Returns the part of the console listener that serves SCIM. Returns `None` if the service does not accept the
/// settings, which happens only if they were not checked before.
pub(super) fn part(ldap: &Ldap, settings: &ScimSettings) -> Option<Part> {
    let service = match Service::new(settings) {
        Ok(service) => Arc::new(service),
        Err(error) => {
            tracing::error!("no SCIM: {error}");
            return None;
        }
    };
    let router = Router::new().route("/", any(answer)).fallback(answer);
    let shared = Shared { ldap: ldap.clone(), service, sign_ins: Arc::new(SignIns::of_part()) };
    Some(Part { path: PATH, router: router.with_state(shared) })
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
            ScimResponse::failed(413, "the body is too large, or it did not arrive"),
            None,
        );
    };
    let is_head = head.method == "HEAD";
    let Some(under_way) = shared.sign_ins.take_for(&client) else {
        let text = "too many requests from this address are under way: try again later";
        return response(is_head, ScimResponse::failed(503, text), None);
    };
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
            client: client.source(),
        };
        let answered = shared.service.answer(&request, &mut || shared.ldap.connect(client.clone()));
        if answered.1.is_some() {
            shared.sign_ins.note_success(&client);
        }
        drop(under_way);
        answered
    });
    match answered.await {
        Ok((answered, share)) => response(is_head, answered, share),
        Err(error) => response(is_head, ScimResponse::failed(503, &error.to_string()), None),
    }
}

fn response(is_head: bool, answered: ScimResponse, share: Option<AnswerShare>) -> Response {
    let mut headers = HeaderMap::new();
    let mut put = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    if let Some(body) = &answered.body {
        put(header::CONTENT_LENGTH, &body.len().to_string());
        put(header::CONTENT_TYPE, "application/scim+json");
    }
    answered.version.iter().for_each(|version| put(header::ETAG, version));
    answered.allowed_methods.iter().for_each(|methods| put(header::ALLOW, methods));
    answered.location.iter().for_each(|location| put(header::LOCATION, location));
    if answered.status == 503 {
        put(header::RETRY_AFTER, "1");
    }
    if answered.status == 401 {
        put(header::WWW_AUTHENTICATE, "Basic realm=\"Pando\", charset=\"UTF-8\"");
        headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"Pando\""));
    }
    let status = StatusCode::from_u16(answered.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = answered.body.filter(|_| !is_head);
    (status, headers, body.map_or(Body::empty(), |text| sent_in_parts(text, share))).into_response()
}

/// Returns a response body that holds `share` until the client has received the last part. The HTTP library requests
/// the next part only when the client has received most of the previous parts.
fn sent_in_parts(text: String, share: Option<AnswerShare>) -> Body {
    let whole = Bytes::from_owner(SharedText { text, _share: share });
    let parts = stream::unfold(whole, |mut rest| async move {
        let part = rest.split_to(rest.len().min(PART_BYTES));
        (!part.is_empty()).then_some((Ok::<_, Infallible>(part), rest))
    });
    Body::from_stream(parts)
}

/// The text of an answer. It holds the share of memory that the answer occupies.
struct SharedText {
    text: String,
    _share: Option<AnswerShare>,
}

impl AsRef<[u8]> for SharedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}
