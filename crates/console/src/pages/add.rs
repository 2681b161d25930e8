//! Adding of an entry: a person, a group, a unit, or an entry of any object class.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use client::Connection;
use ldap::ldif::LdifWriter;
use ldap::{AddRequest, AttributesBuf, Request};
use schema::Schema;
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::form::{fields_of, filled, inputs, resolved};
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::pages::members::resolve;
use crate::requests::{self, Values};
use crate::rights::Rights;
use crate::texts::url;

/// A kind of new entry.
struct Kind {
    name: &'static str,
    class: &'static str,
    /// Auxiliary object classes of the entry.
    auxiliary: &'static [&'static str],
    /// Attribute in the RDN of a new entry.
    rdn: &'static str,
    /// Optional attributes that the form shows from the beginning.
    featured: &'static [&'static str],
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "person",
        class: "inetOrgPerson",
        auxiliary: &[],
        rdn: "uid",
        featured: &["uid", "givenName", "mail", "telephoneNumber", "title", "manager"],
    },
    Kind {
        name: "group",
        class: "groupOfNames",
        auxiliary: &[],
        rdn: "cn",
        featured: &["description", "owner"],
    },
    Kind { name: "unit", class: "organizationalUnit", auxiliary: &[], rdn: "ou", featured: &["description"] },
    Kind {
        name: "policy",
        class: "device",
        auxiliary: &["pandoPwdPolicy"],
        rdn: "cn",
        featured: &[
            "pwdMinLength",
            "pwdInHistory",
            "pwdMaxAge",
            "pwdLockout",
            "pwdMaxFailure",
            "pwdMustChange",
        ],
    },
];

/// An entry that is to be added.
struct NewEntry {
    dn: String,
    attributes: Vec<(String, Vec<Vec<u8>>)>,
}

pub(crate) async fn form(signed: SignedInRequest, fields: Fields) -> Response {
    let (app, who) = (Arc::clone(&signed.app), signed.session.who.clone());
    let model = signed.talk(move |connection| {
        let schema = app.schema.get(connection);
        let parents = requests::contexts(connection)?;
        Ok(model(&schema, &fields, &parents, &who))
    });
    let model = model.await;
    signed.answer(model.map(|model| Page::new("add.html", "add.title", model)))
}

/// Returns the object class, the attribute of the RDN, and the attributes to show first, for the kind that was chosen
/// in the form.
fn chosen(schema: &Schema, fields: &Fields) -> Option<(String, String, &'static [&'static str])> {
    let kind = fields.text("kind");
    if let Some(kind) = KINDS.iter().find(|known| known.name == kind) {
        return Some((kind.class.to_owned(), kind.rdn.to_owned(), kind.featured));
    }
    let class = schema.object_class(fields.given("class")?)?;
    let mut required = class.all_must.iter().map(|id| schema.type_by_id(*id).name());
    let rdn = required.find(|name| *name != "objectClass").unwrap_or("cn");
    let rdn = fields.given("rdn").unwrap_or(rdn);
    Some((class.name().to_owned(), rdn.to_owned(), &[]))
}

/// Returns all object classes of a new entry.
fn classes(kind: &str, class: &str) -> Vec<String> {
    let known = KINDS.iter().find(|known| known.name == kind);
    let auxiliary = known.map(|known| known.auxiliary).unwrap_or_default();
    std::iter::once(class).chain(auxiliary.iter().copied()).map(str::to_owned).collect()
}

fn model(schema: &Schema, fields: &Fields, parents: &[String], who: &str) -> Value {
    let parent = fields.given("parent").or(parents.first().map(String::as_str)).unwrap_or_default();
    let mut entered: Vec<Values> = filled(fields)
        .into_iter()
        .map(|(description, values)| Values { description, values, next: None })
        .collect();
    let Some((class, rdn, featured)) = chosen(schema, fields) else {
        return json!({ "parent": parent, "kind": null, "class": fields.text("class"), "inputs": [], "error": null });
    };
    // A new groupOfNames must have at least one member.
    if class == "groupOfNames" && entered.is_empty() {
        entered.push(Values {
            description: "member".to_owned(),
            values: vec![who.as_bytes().to_vec()],
            next: None,
        });
    }
    if fields.text("kind") == "policy" && entered.is_empty() {
        let (description, values) = ("pwdAttribute".to_owned(), vec![b"userPassword".to_vec()]);
        entered.push(Values { description, values, next: None });
    }
    let mut inputs = inputs(schema, &classes(fields.text("kind"), &class), &entered);
    for input in &mut inputs {
        let name = input["name"].as_str().unwrap_or_default().to_owned();
        let is_first = input["required"] == true || name == rdn || featured.contains(&name.as_str());
        input["first"] =
            json!(is_first || input["values"].as_array().is_some_and(|values| !values.is_empty()));
    }
    json!({
        "parent": parent, "kind": fields.text("kind"), "class": class, "rdn": rdn, "inputs": inputs, "error": null,
    })
}

pub(crate) async fn save(Submission { signed, fields }: Submission) -> Response {
    let fields = Arc::new(fields);
    let prepared = {
        let (app, fields) = (Arc::clone(&signed.app), Arc::clone(&fields));
        signed.talk(move |connection| {
            let schema = app.schema.get(connection);
            let new = new(connection, &schema, &fields)?;
            if fields.text("step") != "apply" {
                return Ok((new, None));
            }
            add(connection, &new)?;
            // A new person needs a password.
            let sets_password = fields.text("kind") == "person"
                && Rights::require_write(connection, &new.dn, "userPassword").is_ok();
            Ok((new, Some(if sets_password { "/reset-password" } else { "/entry" })))
        })
    };
    match prepared.await {
        Ok((new, Some(page))) => signed.go(&url(page, &[("dn", &new.dn), ("notice", "added")])),
        Ok((new, None)) => {
            let is_page_field = |name: &str| ["parent", "kind", "class", "rdn"].contains(&name);
            let chosen = fields.pairs().filter(|(name, _)| is_page_field(name));
            let chosen = chosen.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let given = new.attributes.iter().filter(|(description, _)| description != "objectClass");
            let given: Vec<_> = given.cloned().collect();
            let values: Vec<_> = chosen.chain(fields_of(&given)).collect();
            let model =
                json!({ "dn": new.dn, "csn": null, "ldif": ldif(&new), "fields": values, "action": "/add" });
            signed.show(Page::new("preview.html", "add.preview", model))
        }
        Err(error @ (PageError::Refused(..) | PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, _))) => {
            again(&signed, fields, &error).await
        }
        Err(error) => signed.fail(&error),
    }
}

/// Shows the form again with the values that the user entered.
async fn again(signed: &SignedInRequest, fields: Arc<Fields>, error: &PageError) -> Response {
    let (app, who) = (Arc::clone(&signed.app), signed.session.who.clone());
    let model = signed.talk(move |connection| Ok(model(&app.schema.get(connection), &fields, &[], &who)));
    match model.await {
        Ok(mut model) => {
            model["error"] = signed.error_model(error);
            let page = Page::new("add.html", "add.title", model);
            signed.show(Page { status: error.status(), ..page })
        }
        Err(error) => signed.fail(&error),
    }
}

fn new(connection: &mut Connection, schema: &Schema, fields: &Fields) -> Result<NewEntry, PageError> {
    let unusable = |text| PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, text);
    let (class, rdn, _) = chosen(schema, fields).ok_or(unusable("add.no_class"))?;
    let mut attributes = resolved(schema, filled(fields), |name| resolve(connection, name))?;
    attributes.retain(|(description, values)| {
        !values.is_empty() && !description.eq_ignore_ascii_case("objectClass")
    });
    let named = attributes.iter().find(|(description, _)| description.eq_ignore_ascii_case(&rdn));
    let name = named.and_then(|(_, values)| values.first()).ok_or(unusable("add.no_name"))?;
    let parent = fields.text("parent").trim();
    let separator = if parent.is_empty() { "" } else { "," };
    let dn = format!("{rdn}={}{separator}{parent}", ldap::escaped_value(name));
    let classes = classes(fields.text("kind"), &class).into_iter().map(String::into_bytes);
    attributes.insert(0, ("objectClass".to_owned(), classes.collect()));
    Ok(NewEntry { dn, attributes })
}

fn add(connection: &mut Connection, new: &NewEntry) -> Result<(), PageError> {
    let mut list = AttributesBuf::new();
    for (description, values) in &new.attributes {
        list.push(description, values.iter().map(Vec::as_slice));
    }
    let request = Request::Add(AddRequest { entry: &new.dn, attributes: list.as_attributes() });
    requests::change(connection, request, &[])
}

fn ldif(new: &NewEntry) -> String {
    let mut text = Vec::new();
    let values = new.attributes.iter().flat_map(|(description, values)| {
        values.iter().map(|value| (description.as_str(), value.as_slice()))
    });
    // Writing to memory cannot fail.
    let _ = LdifWriter::new(&mut text).add(&new.dn, &[], values);
    String::from_utf8_lossy(&text).into_owned()
}
