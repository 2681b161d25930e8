//! Photos of an entry. Photos have addresses of their own, and can be uploaded and removed.
//!
//! Values are served only if they begin like a JPEG, PNG or GIF file, with the media type of that format. A header
//! forbids browsers to guess another type. Only JPEG is stored, as the syntax of jpegPhoto requires (RFC 2798 section
//! 2.6). The file is stored unchanged.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use ldap::{ChangeOperation, ChangesBuf, ModifyRequest, Request, Scope};
use serde_json::json;

use crate::describe::image;
use crate::fields::Fields;
use crate::limits::PHOTO_BYTES_MAX;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::requests::{self, range};
use crate::rights::Rights;
use crate::texts::url;

/// Attribute that contains the photos.
const PHOTO: &str = "jpegPhoto";

/// Serves a value of the attribute as an image.
pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let first = fields.text("n").parse().unwrap_or(0);
    let found = signed.talk(move |connection| {
        let attribute = fields.given("attribute").unwrap_or(PHOTO);
        let name = range(attribute, first, 1);
        let reply =
            connection.search(fields.text("dn"), Scope::BaseObject, "(objectClass=*)", &[name.as_str()])?;
        PageError::unless_success(reply.outcome, None)?;
        let mut values = reply.entries.into_iter().flat_map(|entry| entry.attributes);
        Ok(values.find_map(|attribute| attribute.values.into_iter().next()))
    });
    let missing = PageError::Request(StatusCode::NOT_FOUND, "photo.none");
    let octets = match found.await {
        Ok(octets) => octets,
        Err(error) => return signed.fail(&error),
    };
    let Some((octets, media_type)) = octets.and_then(|octets| image(&octets).map(|kind| (octets, kind)))
    else {
        return signed.fail(&missing);
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("inline; filename=\"photo\"")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    ];
    (headers, octets).into_response()
}

/// Shows the form for uploading a photo.
pub(crate) async fn form(signed: SignedInRequest, fields: Fields) -> Response {
    let model = signed.talk(move |connection| {
        let entry = requests::entry(connection, fields.text("dn"), &["objectClass"])?;
        Rights::require_write(connection, &entry.dn, PHOTO)?;
        Ok(json!({ "dn": entry.dn, "error": null }))
    });
    let model = model.await;
    signed.answer(model.map(|model| page(StatusCode::OK, model)))
}

fn page(status: StatusCode, model: serde_json::Value) -> Page {
    Page { status, ..Page::new("photo.html", "photo.title", model) }
}

/// Replaces all photos of the entry by the uploaded photo, or removes all photos.
pub(crate) async fn change(Submission { signed, fields }: Submission) -> Response {
    let dn = fields.text("dn").to_owned();
    let is_removal = fields.text("action") == "remove";
    let unusable = |text| Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, text));
    let photo = fields.file();
    let changed = if !is_removal && photo.len() > PHOTO_BYTES_MAX {
        unusable("photo.too_large")
    } else if !is_removal && image(photo) != Some("image/jpeg") {
        unusable("photo.no_jpeg")
    } else {
        let object = dn.clone();
        let change = move |connection: &mut client::Connection| {
            let mut list = ChangesBuf::new();
            let values = if is_removal { Vec::new() } else { vec![fields.file()] };
            list.push(ChangeOperation::Replace, PHOTO, values);
            let request = Request::Modify(ModifyRequest { object: &object, changes: list.as_changes() });
            requests::change(connection, request, &[])
        };
        signed.talk(change).await
    };
    match changed {
        Ok(()) => signed.go(&url("/entry", &[("dn", &dn), ("notice", "saved")])),
        Err(error) => {
            let model = json!({ "dn": dn, "error": signed.error_model(&error) });
            signed.show(page(error.status(), model))
        }
    }
}
