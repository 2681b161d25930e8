//! The attribute types and object classes of the schema, and their definitions.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use schema::{AttributeType, MatchingRule, ObjectClassDef, Schema, TypeId};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let app = Arc::clone(&signed.app);
    let schema = signed.talk(move |connection| Ok(app.schema.get(connection))).await;
    let missing = PageError::Request(StatusCode::NOT_FOUND, "schema.missing");
    let model = schema.and_then(|schema| match (fields.given("type"), fields.given("class")) {
        (Some(name), _) => schema.attribute_type(name).map(|found| of_type(&schema, found)).ok_or(missing),
        (_, Some(name)) => schema.object_class(name).map(|found| of_class(&schema, found)).ok_or(missing),
        _ => Ok(list(&schema, fields.text("q").trim())),
    });
    signed.answer(model.map(|model| Page::new("schema.html", "schema.title", model)))
}

/// Returns the definitions whose name or description contains `letters`.
fn list(schema: &Schema, letters: &str) -> Value {
    let letters = letters.to_lowercase();
    let has = |names: &[String], description: Option<&String>| {
        let mut texts = names.iter().chain(description);
        texts.any(|text| text.to_lowercase().contains(&letters))
    };
    let types = schema.attribute_types().iter().filter(|found| has(&found.names, found.description.as_ref()));
    let classes =
        schema.object_classes().iter().filter(|found| has(&found.names, found.description.as_ref()));
    let row = |name: &str, description: Option<&str>| json!({ "name": name, "description": description });
    let mut types: Vec<Value> = types.map(|found| row(found.name(), found.description.as_deref())).collect();
    let mut classes: Vec<Value> =
        classes.map(|found| row(found.name(), found.description.as_deref())).collect();
    for rows in [&mut types, &mut classes] {
        rows.sort_by_key(|row| row["name"].as_str().unwrap_or_default().to_lowercase());
    }
    json!({ "kind": "list", "q": letters, "types": types, "classes": classes })
}

fn of_type(schema: &Schema, found: &AttributeType) -> Value {
    let rule = |rule: Option<MatchingRule>| rule.map(MatchingRule::name);
    let users = |is_required: bool| {
        let uses = move |class: &&ObjectClassDef| {
            if is_required { class.must.contains(&found.id) } else { class.may.contains(&found.id) }
        };
        schema.object_classes().iter().filter(uses).map(ObjectClassDef::name).collect::<Vec<_>>()
    };
    json!({
        "kind": "type",
        "name": found.name(),
        "names": found.names,
        "oid": found.oid,
        "description": found.description,
        "superior": found.sup.map(|id| schema.type_by_id(id).name()),
        "syntax": schema.syntax_by_id(found.syntax).description,
        "equality": rule(found.equality),
        "ordering": rule(found.ordering),
        "substring": rule(found.substring),
        "single_value": found.single_value,
        "operational": found.is_operational(),
        "read_only": found.no_user_modification,
        "required_by": users(true),
        "allowed_by": users(false),
        "definition": found.definition,
    })
}

fn of_class(schema: &Schema, found: &ObjectClassDef) -> Value {
    let names = |ids: &[TypeId]| ids.iter().map(|id| schema.type_by_id(*id).name()).collect::<Vec<_>>();
    json!({
        "kind": "class",
        "name": found.name(),
        "names": found.names,
        "oid": found.oid,
        "description": found.description,
        "class_kind": found.kind.name(),
        "superiors": found.superclasses.iter().map(|id| schema.class_by_id(*id).name()).collect::<Vec<_>>(),
        "must": names(&found.all_must),
        "may": names(&found.all_may),
        "definition": found.definition,
    })
}
