//! Deleted entries. An administrator can restore them.

use axum::http::StatusCode;
use axum::response::Response;
use client::Connection;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ldap::{DeletedAnswer, DeletedEntry, DeletedRequest, UndeleteAnswer, UndeleteRequest, oids};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::texts::url;
use crate::times::readable;

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let model = signed.talk(move |connection| model(connection, &fields)).await;
    signed.answer(model.map(|model| Page::new("deleted.html", "deleted.title", model)))
}

fn model(connection: &mut Connection, fields: &Fields) -> Result<Value, PageError> {
    let bad = |_| PageError::Request(StatusCode::BAD_REQUEST, "search.bad_page");
    let from = BASE64URL_NOPAD.decode(fields.text("page").as_bytes()).map_err(bad)?;
    let request = DeletedRequest { from: &from, name: fields.given("dn") };
    let value = send_request(connection, oids::LIST_DELETED, &request.encode())?;
    let DeletedAnswer { next, entries } = DeletedAnswer::decode(&value).ok_or_else(malformed)?;
    let entry = |entry: DeletedEntry| {
        let DeletedEntry { uuid, micros, requester, dn } = entry;
        json!({ "uuid": HEXLOWER.encode(&uuid), "at": readable(micros), "who": requester, "dn": dn })
    };
    let next = Some(next).filter(|next| !next.is_empty()).map(|next| BASE64URL_NOPAD.encode(&next));
    Ok(json!({
        "dn": fields.text("dn"), "entries": entries.into_iter().map(entry).collect::<Vec<_>>(), "next": next,
    }))
}

/// Restores an entry and all entries that were deleted by the same operation.
pub(crate) async fn bring_back(Submission { signed, fields }: Submission) -> Response {
    let back = signed.talk(move |connection| {
        let uuid = HEXLOWER.decode(fields.text("uuid").as_bytes()).ok().and_then(|uuid| uuid.try_into().ok());
        let uuid = uuid.ok_or(PageError::Request(StatusCode::BAD_REQUEST, "trouble.no_such_entry"))?;
        let request = UndeleteRequest { uuid, superior: None };
        let value = send_request(connection, oids::UNDELETE, &request.encode())?;
        UndeleteAnswer::decode(&value).ok_or_else(malformed)
    });
    match back.await {
        Ok(UndeleteAnswer { dn, .. }) => signed.go(&url("/entry", &[("dn", &dn), ("notice", "back")])),
        Err(error) => signed.fail(&error),
    }
}

fn send_request(connection: &mut Connection, oid: &str, value: &[u8]) -> Result<Vec<u8>, PageError> {
    let reply = connection.extended(oid, Some(value))?;
    PageError::unless_success(reply.outcome, None)?;
    Ok(reply.extended.value.unwrap_or_default())
}

fn malformed() -> PageError {
    PageError::Client(client::ClientError::Unexpected("a list of deleted entries".to_owned()))
}
