//! The fields of forms and queries. Fields are pairs of a name and a value in a fixed order, and several pairs may have
//! the same name.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Form, FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::limits::FIELDS_MAX;
use crate::multipart::{boundary, parts};

/// The fields of a form or a query, and the file that was uploaded with a form.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pairs: Vec<(String, String)>,
    file: Vec<u8>,
}

impl Fields {
    pub(crate) fn of(pairs: Vec<(String, String)>) -> Fields {
        Fields { pairs, file: Vec::new() }
    }

    /// Returns the first value with this name; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Returns the first value with this name without surrounding spaces. Returns `None` if there is no such value or
    /// it is empty.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let name = name.to_owned();
        self.pairs.iter().filter(move |(found, _)| *found == name).map(|(_, value)| value.as_str())
    }

    /// Returns the content of the uploaded file; empty if no file was uploaded.
    pub(crate) fn file(&self) -> &[u8] {
        &self.file
    }

    /// Returns all pairs in their order.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Reads the query of a GET request, or the form of a POST request. The form may contain an uploaded file.
impl FromRequest<Arc<App>> for Fields {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Fields, Response> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let Some(boundary) = kind.and_then(boundary) else {
            let form = Form::<Vec<(String, String)>>::from_request(request, app).await;
            let Form(pairs) = form.map_err(IntoResponse::into_response)?;
            if pairs.len() > FIELDS_MAX {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, "the form has too many fields\n").into_response());
            }
            return Ok(Fields::of(pairs));
        };
        let body = Bytes::from_request(request, app).await.map_err(IntoResponse::into_response)?;
        let malformed = || (StatusCode::BAD_REQUEST, "the form is malformed\n").into_response();
        let mut fields = Fields::default();
        for part in parts(&body, &boundary).ok_or_else(malformed)? {
            if part.is_file {
                fields.file = part.content.to_vec();
            } else {
                let text = String::from_utf8(part.content.to_vec()).map_err(|_| malformed())?;
                fields.pairs.push((part.name, text));
            }
        }
        Ok(fields)
    }
}
