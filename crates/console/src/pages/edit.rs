//! Editing of an entry. The page first shows a form that is made from the schema, then shows the change as LDIF, and
//! finally makes the change.
//!
//! The form contains the CSN that the entry had when the form was made. The server makes the change only if the entry
//! still has that CSN. Therefore the change does not overwrite a change by another user.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use client::Connection;
use ldap::{Control, ModifyRequest, Request, oids};
use schema::Schema;
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::form::{changes, fields_of, filled, inputs, ldif, request_changes, resolved, unchanged_since};
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::pages::members::resolve;
use crate::requests::{self, Values, WholeEntry};
use crate::rights::Rights;
use crate::texts::url;

/// Attributes that are read for the form.
const SELECTION: [&str; 2] = ["*", "entryCSN"];

/// The result of sending the form.
enum SendResult {
    /// The LDIF of the change, which has not been made yet.
    Preview {
        dn: String,
        csn: Option<String>,
        ldif: String,
        fields: Vec<(String, String)>,
    },
    Done {
        dn: String,
    },
}

pub(crate) async fn form(signed: SignedInRequest, fields: Fields) -> Response {
    let app = Arc::clone(&signed.app);
    let model = signed.talk(move |connection| {
        let schema = app.schema.get(connection);
        let entry = requests::entry(connection, fields.text("dn"), &SELECTION)?;
        let mut model = model(&schema, &entry, &entry.attributes);
        keep_writable(connection, &mut model)?;
        Ok(model)
    });
    let model = model.await;
    signed.answer(model.map(|model| Page::new("edit.html", "edit.title", model)))
}

fn model(schema: &Schema, entry: &WholeEntry, present: &[Values]) -> Value {
    json!({
        "dn": entry.dn,
        "csn": csn(entry),
        "inputs": inputs(schema, &entry.texts("objectClass"), present),
        "error": null,
    })
}

/// Removes the inputs for attributes that the requester cannot write.
fn keep_writable(connection: &mut Connection, model: &mut Value) -> Result<(), PageError> {
    let dn = model["dn"].as_str().unwrap_or_default().to_owned();
    let Some(inputs) = model["inputs"].as_array_mut() else { return Ok(()) };
    let rights = {
        let names: Vec<&str> = inputs.iter().filter_map(|input| input["name"].as_str()).collect();
        Rights::read(connection, &dn, &names)?
    };
    inputs.retain(|input| input["name"].as_str().is_some_and(|name| rights.can_write(name)));
    Ok(())
}

fn csn(entry: &WholeEntry) -> Option<String> {
    entry.texts("entryCSN").into_iter().next()
}

pub(crate) async fn save(Submission { signed, fields }: Submission) -> Response {
    let fields = Arc::new(fields);
    let sent = {
        let (app, fields) = (Arc::clone(&signed.app), Arc::clone(&fields));
        let send = move |connection: &mut Connection| {
            let schema = app.schema.get(connection);
            send(connection, &schema, &fields)
        };
        signed.talk(send).await
    };
    match sent {
        Ok(SendResult::Done { dn }) => signed.go(&url("/entry", &[("dn", &dn), ("notice", "saved")])),
        Ok(SendResult::Preview { dn, csn, ldif, fields }) => {
            let model = json!({ "dn": dn, "csn": csn, "ldif": ldif, "fields": fields, "action": "/edit" });
            signed.show(Page::new("preview.html", "edit.preview", model))
        }
        Err(error @ (PageError::Refused(..) | PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, _))) => {
            again(&signed, fields, &error).await
        }
        Err(error) => signed.fail(&error),
    }
}

/// Shows the form again with the values that the user entered.
async fn again(signed: &SignedInRequest, fields: Arc<Fields>, error: &PageError) -> Response {
    let app = Arc::clone(&signed.app);
    let model = signed.talk(move |connection| {
        let schema = app.schema.get(connection);
        let entry = requests::entry(connection, fields.text("dn"), &SELECTION)?;
        let entered = filled(&fields).into_iter();
        let entered = entered.map(|(description, values)| Values { description, values, next: None });
        let mut model = model(&schema, &entry, &entered.collect::<Vec<_>>());
        keep_writable(connection, &mut model)?;
        Ok(model)
    });
    match model.await {
        Ok(mut model) => {
            model["error"] = signed.error_model(error);
            let page = Page::new("edit.html", "edit.title", model);
            signed.show(Page { status: error.status(), ..page })
        }
        Err(error) => signed.fail(&error),
    }
}

fn send(connection: &mut Connection, schema: &Schema, fields: &Fields) -> Result<SendResult, PageError> {
    let entry = requests::entry(connection, fields.text("dn"), &SELECTION)?;
    let (csn, form_csn) = (csn(&entry), fields.given("csn"));
    if csn.as_deref() != form_csn {
        return Err(PageError::Request(StatusCode::CONFLICT, "trouble.changed_meanwhile"));
    }
    let filled = resolved(schema, filled(fields), |name| resolve(connection, name))?;
    let changes = changes(schema, &entry, &filled);
    if changes.is_empty() {
        return Ok(SendResult::Done { dn: entry.dn });
    }
    if fields.text("step") != "apply" {
        let (ldif, fields) = (ldif(&entry.dn, &changes), fields_of(&filled));
        return Ok(SendResult::Preview { ldif, fields, dn: entry.dn, csn });
    }
    // If the requester cannot read the CSN, the change is made without this condition. The change deletes and adds
    // single values. Therefore the server still refuses most changes that would overwrite another change.
    let value = unchanged_since(csn.as_deref())?;
    let control =
        value.as_deref().map(|value| Control { oid: oids::ASSERTION, critical: true, value: Some(value) });
    let list = request_changes(&changes);
    let request = Request::Modify(ModifyRequest { object: &entry.dn, changes: list.as_changes() });
    requests::change(connection, request, control.as_slice())?;
    Ok(SendResult::Done { dn: entry.dn })
}
