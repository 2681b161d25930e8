//! Fields of forms and of queries: pairs in their order, of which a name may occur several times.

use std::sync::Arc;

use axum::extract::rejection::FormRejection;
use axum::extract::{Form, FromRequest, Request};

use crate::app::App;

/// The fields of a form or a query.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn of(pairs: Vec<(String, String)>) -> Fields {
        Fields(pairs)
    }

    /// Returns the first value of this name; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Returns the first value of this name without spaces at its ends, unless it is empty.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        Some(self.text(name).trim()).filter(|text| !text.is_empty())
    }

    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let name = name.to_owned();
        self.0.iter().filter(move |(found, _)| *found == name).map(|(_, value)| value.as_str())
    }

    /// Returns all pairs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The query of a GET, the form of a POST.
impl FromRequest<Arc<App>> for Fields {
    type Rejection = FormRejection;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Fields, FormRejection> {
        Form::<Vec<(String, String)>>::from_request(request, app).await.map(|Form(pairs)| Fields(pairs))
    }
}
