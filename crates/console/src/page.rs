//! Pages. A page has a model. Scripts receive the model as JSON. For people, the model is rendered with a template.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use axum::{Extension, Json};
use client::Connection;
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde_json::json;

use crate::app::App;
use crate::fields::Fields;
use crate::host::Client;
use crate::page_error::PageError;
use crate::sessions::{Session, Sessions};
use crate::texts::url;

/// Format of a response. The header `Accept` of the request determines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Html,
    Json,
}

impl Format {
    pub(crate) fn of(headers: &HeaderMap) -> Format {
        let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        let mut media_types =
            accept.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
        let first = media_types.find(|range| matches!(*range, "text/html" | "application/json"));
        if first == Some("application/json") { Format::Json } else { Format::Html }
    }
}

/// A page before it is rendered.
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    /// Name of the template for HTML.
    pub(crate) template: &'static str,
    /// Path of the title in the texts.
    pub(crate) title: &'static str,
    /// The content of the page. In JSON it is the whole response.
    pub(crate) model: serde_json::Value,
}

impl Page {
    pub(crate) fn new(template: &'static str, title: &'static str, model: serde_json::Value) -> Page {
        Page { status: StatusCode::OK, template, title, model }
    }
}

/// A request for a page.
pub(crate) struct PageRequest {
    pub(crate) app: Arc<App>,
    pub(crate) client: Client,
    pub(crate) format: Format,
    pub(crate) session: Option<Arc<Session>>,
}

impl FromRequestParts<Arc<App>> for PageRequest {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<PageRequest, StatusCode> {
        let found = Extension::<Client>::from_request_parts(parts, app).await;
        let Extension(client) = found.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        let find = if loads_by_itself(&parts.uri) { Sessions::find_unused } else { Sessions::find };
        let session = find(&app.sessions, &parts.headers, client.is_secured, Instant::now());
        Ok(PageRequest { app: Arc::clone(app), client, format: Format::of(&parts.headers), session })
    }
}

/// Returns true if the request only refreshes the page with live figures. Browsers send such requests without an action
/// of the user.
fn loads_by_itself(uri: &Uri) -> bool {
    let mut query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    uri.path() == "/" && query.any(|(name, _)| name == "live")
}

impl PageRequest {
    /// Returns the response with a page, in the format that the client requested.
    pub(crate) fn show(&self, page: Page) -> Response {
        let Page { status, template, title, model } = page;
        if self.format == Format::Json {
            return (status, Json(model)).into_response();
        }
        let texts = &self.app.texts;
        let title = texts.text(title);
        let session = self.session.as_deref();
        let session = session.map(|session| {
            let must_change = session.must_change();
            let (manages, audits, method) = (session.manages, session.audits, session.method.name());
            let (who, token) = (session.who.as_str(), session.token.as_str());
            context! { who, token, must_change, manages, audits, method }
        });
        match texts.render(template, context! { title, session, page => Value::from(Serde(model)) }) {
            Ok(page) => (status, Html(page)).into_response(),
            Err(error) => {
                tracing::error!("the console cannot show {template}: {error:#}");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    /// Returns the response with a page about an error.
    pub(crate) fn fail(&self, error: &PageError) -> Response {
        self.show(Page {
            status: error.status(),
            template: "trouble.html",
            title: "trouble.title",
            model: json!({ "error": self.error_model(error) }),
        })
    }

    /// Returns the notice that the query of a page requests. For example, `notice=saved` requests the text
    /// `notice.saved`.
    pub(crate) fn notice(&self, fields: &Fields) -> serde_json::Value {
        let chosen = fields.given("notice").map(|name| (name, format!("notice.{name}")));
        let found =
            chosen.map(|(_, path)| (self.app.texts.text(&path), path)).filter(|(text, path)| text != path);
        json!(found.map(|(text, _)| text))
    }

    /// Returns the model of an error. It contains the text of the error.
    pub(crate) fn error_model(&self, error: &PageError) -> serde_json::Value {
        let mut explanation = error.explain();
        explanation.text = self.app.texts.text(&explanation.text);
        json!(explanation)
    }

    /// Returns the response to a successful change. It redirects a browser to the page `path`. A script receives the
    /// address of that page.
    pub(crate) fn go(&self, path: &str) -> Response {
        match HeaderValue::from_str(path) {
            Ok(to) if self.format == Format::Html => {
                (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
            }
            _ => Json(json!({ "done": true, "at": path })).into_response(),
        }
    }
}

/// A request of a signed-in user who need not change the password first.
pub(crate) struct SignedInRequest {
    pub(crate) visit: PageRequest,
    pub(crate) session: Arc<Session>,
}

impl Deref for SignedInRequest {
    type Target = PageRequest;

    fn deref(&self) -> &PageRequest {
        &self.visit
    }
}

impl FromRequestParts<Arc<App>> for SignedInRequest {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<SignedInRequest, Response> {
        let visit = PageRequest::from_request_parts(parts, app).await.map_err(IntoResponse::into_response)?;
        let path = parts.uri.path();
        match &visit.session {
            None => Err(match (visit.format, &parts.method) {
                (Format::Html, &Method::GET) => {
                    let requested = parts.uri.path_and_query().map_or("/", |requested| requested.as_str());
                    visit.go(&url("/sign-in", &[("to", requested)]))
                }
                (Format::Html, _) => visit.go("/sign-in"),
                (Format::Json, _) => {
                    visit.fail(&PageError::Request(StatusCode::UNAUTHORIZED, "trouble.sign_in"))
                }
            }),
            Some(session) if session.must_change() && !["/password", "/sign-out"].contains(&path) => {
                Err(match visit.format {
                    Format::Html => visit.go("/password"),
                    Format::Json => {
                        visit.fail(&PageError::Request(StatusCode::FORBIDDEN, "policy.must_change"))
                    }
                })
            }
            Some(session) => {
                let session = Arc::clone(session);
                Ok(SignedInRequest { visit, session })
            }
        }
    }
}

impl SignedInRequest {
    /// Runs `talk` with the LDAP connection of the session. A session runs only one conversation at a time.
    ///
    /// # Errors
    /// `talk` fails, or too many conversations are waiting. If the connection has failed, the session ends.
    pub(crate) async fn talk<T: Send + 'static>(
        &self,
        talk: impl FnOnce(&mut Connection) -> Result<T, PageError> + Send + 'static,
    ) -> Result<T, PageError> {
        let turn = Arc::clone(&self.session.turn).lock_owned().await;
        let session = Arc::clone(&self.session);
        let talked = self.app.ldap.talk(move || {
            // The turn ends with the conversation, even if the client no longer waits for the answer.
            let _turn = turn;
            session.with_connection(talk)
        });
        let result = talked.await.map_err(PageError::Conversation)?;
        if let Err(PageError::Client(error)) = &result {
            self.app.sessions.end_if_broken(&self.session, error);
        }
        result
    }

    /// Returns the response with a page, or with the error that prevented the page.
    pub(crate) fn answer(&self, page: Result<Page, PageError>) -> Response {
        page.map_or_else(|error| self.fail(&error), |page| self.show(page))
    }
}

/// A form that a signed-in user has sent. The form contains the token of the session. Therefore another site cannot
/// send the form.
pub(crate) struct Submission {
    pub(crate) signed: SignedInRequest,
    pub(crate) fields: Fields,
}

impl FromRequest<Arc<App>> for Submission {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Submission, Response> {
        let (mut parts, body) = request.into_parts();
        let signed = SignedInRequest::from_request_parts(&mut parts, app).await?;
        let request = Request::from_parts(parts, body);
        let fields = Fields::from_request(request, app).await?;
        if !signed.session.knows(fields.text("token")) {
            return Err(signed.fail(&PageError::Request(StatusCode::FORBIDDEN, "trouble.token")));
        }
        Ok(Submission { signed, fields })
    }
}

/// Returns a file that is part of the program. Browsers may cache it for an hour.
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
    fn only_the_page_of_live_figures_reloads_automatically() {
        let loads = |uri| loads_by_itself(&Uri::from_static(uri));
        assert!(loads("/?live=1") && loads("/?notice=x&live=1"));
        assert!(!loads("/") && !loads("/?notice=live") && !loads("/search?live=1"));
    }

    #[test]
    fn the_first_known_media_type_is_chosen() {
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
