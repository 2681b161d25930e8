//! Access rights. The page shows whether a user has a right on an entry, and which access rule decides this. If no user
//! is given, the page shows all rules about the right, and the requesters to whom each rule applies.

mod list;
pub(super) mod rehearse;

use std::sync::Arc;

use axum::response::Response;
use client::Connection;
use ldap::{ALL_REQUESTERS, AccessQuestion, oids};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::requests::contexts;

/// The rights that the form offers. Rights on attributes are first.
const RIGHTS: [&str; 12] = [
    "read", "search", "compare", "write", "join", "leave", "browse", "add", "delete", "rename", "reset",
    "explain",
];

/// Rights that apply to the whole entry. All other rights apply to an attribute.
const OF_ENTRY: [&str; 6] = ["browse", "add", "delete", "rename", "reset", "explain"];

/// Attribute of `cn=config` that contains the access rules.
const RULE: &str = "pandoAccessRule";

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let fields = Arc::new(fields);
    let (own, manages) = (Arc::clone(&fields), signed.session.manages);
    let page = |model| Page::new("access.html", "access.title", model);
    match signed.talk(move |connection| model(connection, &own, manages)).await {
        // The page shows the form with the user's input again.
        Err(error @ (PageError::Refused(..) | PageError::Request(..))) => {
            let mut model = form(&fields);
            model["error"] = signed.error_model(&error);
            signed.show(Page { status: error.status(), ..page(model) })
        }
        model => signed.answer(model.map(page)),
    }
}

fn right(fields: &Fields) -> &'static str {
    RIGHTS.into_iter().find(|right| *right == fields.text("right")).unwrap_or(RIGHTS[0])
}

/// Returns the model of the form, without an answer.
fn form(fields: &Fields) -> Value {
    json!({
        "who": fields.text("who").trim(),
        "right": right(fields),
        "rights": RIGHTS,
        "dn": fields.text("dn"),
        "attribute": fields.text("attribute"),
        "needs_attribute": false,
        "answer": null,
        "list": null,
        "in_force": [],
        "error": null,
    })
}

fn model(connection: &mut Connection, fields: &Fields, manages: bool) -> Result<Value, PageError> {
    let (who, right) = (fields.text("who").trim(), right(fields));
    let (entry, attribute) = (fields.given("dn"), fields.given("attribute"));
    let mut model = form(fields);
    if entry.is_none() {
        model["dn"] = json!(contexts(connection)?.first());
    }
    // A link on the page of an entry contains no attribute.
    model["needs_attribute"] = json!(entry.is_some() && attribute.is_none() && !OF_ENTRY.contains(&right));
    if let Some(entry) = entry.filter(|_| model["needs_attribute"] == false) {
        let identity = if who.is_empty() { ALL_REQUESTERS.to_owned() } else { identity(who) };
        let lines = explain(connection, &identity, right, entry, attribute)?;
        match who {
            "" => model["list"] = list::model(&lines),
            _ => model["answer"] = answer(&lines),
        }
    }
    if manages {
        // A user who can read the monitor may still not be able to read the settings.
        let config = connection.entry("cn=config", &[RULE])?;
        let mentions =
            |rule: &str| attribute.is_some_and(|name| rule.to_lowercase().contains(&name.to_lowercase()));
        let rules = config.map(|config| config.texts(RULE)).unwrap_or_default();
        let rules = rules.iter().map(|rule| json!({ "text": rule, "mentions": mentions(rule) }));
        model["in_force"] = json!(rules.collect::<Vec<_>>());
    }
    Ok(model)
}

/// Sends the question to the server. Returns the lines of its answer.
fn explain(
    connection: &mut Connection,
    identity: &str,
    right: &str,
    entry: &str,
    attribute: Option<&str>,
) -> Result<String, PageError> {
    let question = AccessQuestion {
        requester: identity,
        right,
        entry,
        attribute,
        address: None,
        over_tls: true,
        bound_by: Some("simple"),
        time: None,
        listener: None,
    };
    let reply = connection.extended(oids::EXPLAIN_ACCESS, Some(&question.encode()))?;
    PageError::unless_success(reply.outcome, None)?;
    let value = reply.extended.value.unwrap_or_default();
    Ok(String::from_utf8_lossy(&value).into_owned())
}

/// Returns the authorization identity of a user name or a DN. It is empty for anonymous clients.
fn identity(who: &str) -> String {
    match who {
        "" | "anonymous" => String::new(),
        who if who.contains('=') => format!("dn:{who}"),
        who => format!("u:{who}"),
    }
}

/// Parses the lines of an answer. A line consists of its kind, a tab and a text.
fn answer(lines: &str) -> Value {
    let (mut verdict, mut text) = ("", "");
    let (mut rules, mut notes) = (Vec::new(), Vec::new());
    for (kind, rest) in lines.lines().filter_map(|line| line.split_once('\t')) {
        match kind {
            "allowed" | "partly" | "denied" => (verdict, text) = (kind, rest),
            "allow" | "deny" => {
                let (number, rule) = rest.split_once('\t').unwrap_or(("", rest));
                rules.push(json!({ "kind": kind, "number": number, "text": rule }));
            }
            "note" | "needed" => notes.push(json!({ "kind": kind, "text": rest })),
            _ => {}
        }
    }
    json!({ "verdict": verdict, "text": text, "rules": rules, "notes": notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_contain_the_decision_and_its_rules() {
        let found = answer("denied\tno\ndeny\t2\tphones: deny read\nneeded\tthat rule\nlater\tx\n");
        assert_eq!((&found["verdict"], &found["text"]), (&json!("denied"), &json!("no")));
        assert_eq!(found["rules"], json!([{ "kind": "deny", "number": "2", "text": "phones: deny read" }]));
        assert_eq!(found["notes"][0]["text"], "that rule");
    }
}
