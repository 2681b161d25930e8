//! An entry: its attributes, and their descriptions in the schema.

use axum::response::{IntoResponse as _, Response};
use client::Connection;
use schema::Schema;
use serde_json::{Value, json};

use crate::describe;
use crate::fields::Fields;
use crate::form::inputs;
use crate::limits::VALUES_PER_PAGE;
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::pages::account_state::LOCK;
use crate::requests::{self, WholeEntry, range, without_range};
use crate::rights::Rights;

/// Attributes that the page shows first, in this order.
const FIRST: [&str; 10] = [
    "jpegPhoto",
    "cn",
    "displayName",
    "givenName",
    "sn",
    "uid",
    "mail",
    "telephoneNumber",
    "title",
    "description",
];

/// Object classes of groups whose members are DNs.
const GROUPS: [&str; 2] = ["groupOfNames", "groupOfUniqueNames"];

/// Object classes of entries for which the page links to the pages about the password and the account.
const PERSONS: [&str; 4] = ["person", "inetOrgPerson", "account", "simpleSecurityObject"];

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let app = std::sync::Arc::clone(&signed.app);
    let notice = signed.notice(&fields);
    let model = signed
        .talk(move |connection| {
            let schema = app.schema.get(connection);
            let is_operational = fields.text("operational") == "1";
            match (fields.given("attribute"), fields.text("first").parse()) {
                (Some(attribute), Ok(first)) => {
                    values(connection, &schema, fields.text("dn"), attribute, first)
                }
                _ => model(connection, &schema, fields.text("dn"), is_operational),
            }
        })
        .await;
    let with_notice = |mut model: Value| {
        model["notice"] = notice;
        Page::new("entry.html", "entry.title", model)
    };
    signed.answer(model.map(with_notice))
}

/// Redirects to the user's own entry. The administrator may have no entry. In that case, the response is a page that
/// says so.
pub(crate) async fn own(signed: SignedInRequest) -> Response {
    let who = signed.session.who.clone();
    let found = signed
        .talk(move |connection| {
            let reply = connection.search(&who, ldap::Scope::BaseObject, "(objectClass=*)", &["1.1"])?;
            if reply.outcome.code != ldap::ResultCode::NO_SUCH_OBJECT {
                PageError::unless_success(reply.outcome, None)?;
            }
            Ok(!reply.entries.is_empty())
        })
        .await;
    match found {
        Ok(true) => signed.go(&crate::texts::url("/entry", &[("dn", &signed.session.who)])).into_response(),
        Ok(false) => {
            let model = json!({ "who": signed.session.who, "entry": null });
            signed.show(Page::new("no_entry.html", "no_entry.title", model))
        }
        Err(error) => signed.fail(&error),
    }
}

fn model(
    connection: &mut Connection,
    schema: &Schema,
    dn: &str,
    is_operational: bool,
) -> Result<Value, PageError> {
    let selection: &[&str] = if is_operational { &["*", "+"] } else { &["*", "memberOf"] };
    let mut entry = requests::entry(connection, dn, selection)?;
    let classes = entry.texts("objectClass");
    let is_one_of = |known: &[&str]| {
        classes.iter().any(|class| known.iter().any(|known| known.eq_ignore_ascii_case(class)))
    };
    sort(&mut entry);
    let attributes: Vec<Value> =
        entry.attributes.iter().map(|found| describe::attribute(schema, found)).collect();
    let edited = inputs(schema, &classes, &entry.attributes);
    let names = edited.iter().filter_map(|input| input["name"].as_str());
    let names = names.chain(["userPassword", "jpegPhoto", LOCK]);
    let rights = Rights::read(connection, &entry.dn, &names.collect::<Vec<_>>())?;
    let can_edit =
        edited.iter().any(|input| input["name"].as_str().is_some_and(|name| rights.can_write(name)));
    Ok(json!({
        "can_edit": can_edit,
        "can_add": rights.allows('a'),
        "can_rename": rights.allows('n'),
        "can_delete": rights.allows('d'),
        "can_photo": is_one_of(&["inetOrgPerson"]) && rights.can_write("jpegPhoto"),
        "can_reset": rights.can_write("userPassword"),
        "can_lock": rights.can_write(LOCK),
        "account": rights.account(),
        "dn": entry.dn,
        "parents": parents(&entry.dn, &requests::contexts(connection)?),
        "operational": is_operational,
        "attributes": attributes,
        "is_group": is_one_of(&GROUPS),
        "is_person": is_one_of(&PERSONS),
        "part": false,
        "notice": null,
    }))
}

/// Shows further values of one attribute.
fn values(
    connection: &mut Connection,
    schema: &Schema,
    dn: &str,
    attribute: &str,
    first: usize,
) -> Result<Value, PageError> {
    let name = range(attribute, first, VALUES_PER_PAGE);
    let reply = connection.search(dn, ldap::Scope::BaseObject, "(objectClass=*)", &[&name])?;
    PageError::unless_success(reply.outcome, None)?;
    let missing = || PageError::Request(axum::http::StatusCode::NOT_FOUND, "trouble.no_such_entry");
    let entry = reply.entries.into_iter().next().ok_or_else(missing)?;
    let attributes = entry.attributes.into_iter().map(without_range);
    let attributes: Vec<Value> = attributes.map(|found| describe::attribute(schema, &found)).collect();
    Ok(json!({
        "dn": entry.dn, "parents": parents(&entry.dn, &requests::contexts(connection)?), "operational": false,
        "attributes": attributes, "part": true, "notice": null,
    }))
}

/// Sorts the attributes of an entry: the attributes in [`FIRST`] come first, and objectClass comes last.
fn sort(entry: &mut WholeEntry) {
    entry.attributes.sort_by_key(|found| {
        let name = found.description.to_ascii_lowercase();
        let place = FIRST.iter().position(|first| first.eq_ignore_ascii_case(&name)).unwrap_or(FIRST.len());
        (name == "objectclass", place, name)
    });
}

/// Returns the name and the DN of each superior of an entry, the highest first. A naming context has no superiors.
pub(crate) fn parents(dn: &str, contexts: &[String]) -> Vec<Value> {
    let Ok(parsed) = ldap::Dn::parse(dn) else { return Vec::new() };
    let lower = dn.to_ascii_lowercase();
    // If the DN of the naming context is written in a different way, all superiors are returned.
    let ends = contexts.iter().filter(|context| lower.ends_with(&context.to_ascii_lowercase()));
    let shortest = ends.map(|context| context.len()).min().unwrap_or(0);
    let above = (1..parsed.len()).rev().map(|depth| parsed.text_from(depth));
    let model = |dn: &str| {
        let next = ldap::Dn::parse(dn).ok().map(|above| above.text_from(1).len()).unwrap_or(0);
        let name = dn.get(..dn.len() - next).unwrap_or(dn).trim_end_matches([',', ' ']);
        json!({ "dn": dn, "name": name })
    };
    above.filter(|dn| dn.len() >= shortest).map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_begin_at_the_root() {
        let path = parents("cn=a\\,b,ou=c,dc=d,dc=e", &[]);
        let names: Vec<_> = path.iter().map(|step| step["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["dc=e", "dc=d", "ou=c"]);
        assert_eq!(path[2]["dn"], "ou=c,dc=d,dc=e");
        assert!(["dc=e", "", "=,="].iter().all(|dn| parents(dn, &[]).is_empty()));
        let path = parents("cn=a,ou=c,dc=d,dc=e", &["o=x".to_owned(), "DC=d,dc=e".to_owned()]);
        assert_eq!((path.len(), &path[0]["name"]), (2, &json!("dc=d")));
    }
}
