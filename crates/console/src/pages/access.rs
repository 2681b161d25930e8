//! Access: whether a user may do something with an entry, and the access rule that decides.

pub(super) mod rehearse;

use axum::response::Response;
use client::Connection;
use ldap::{AccessQuestion, oids};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::page::{Page, Signed};
use crate::trouble::Trouble;

/// Rights that the form offers; those of attributes first.
const RIGHTS: [&str; 12] = [
    "read", "search", "compare", "write", "join", "leave", "browse", "add", "delete", "rename", "reset",
    "explain",
];

pub(crate) async fn show(signed: Signed, fields: Fields) -> Response {
    let model = signed.talk(move |connection| model(connection, &fields)).await;
    signed.answer(model.map(|model| Page::new("access.html", "access.title", model)))
}

fn model(connection: &mut Connection, fields: &Fields) -> Result<Value, Trouble> {
    let who = fields.text("who").trim();
    let right = RIGHTS.iter().find(|right| **right == fields.text("right")).unwrap_or(&RIGHTS[0]);
    let answer = match fields.given("dn") {
        Some(entry) => Some(ask(connection, who, right, entry, fields.given("attribute"))?),
        None => None,
    };
    Ok(json!({
        "who": who,
        "right": right,
        "rights": RIGHTS,
        "dn": fields.text("dn"),
        "attribute": fields.text("attribute"),
        "answer": answer,
    }))
}

fn ask(
    connection: &mut Connection,
    who: &str,
    right: &str,
    entry: &str,
    attribute: Option<&str>,
) -> Result<Value, Trouble> {
    let identity = identity(who);
    let question = AccessQuestion {
        requester: &identity,
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
    Trouble::unless_success(reply.outcome, None)?;
    let value = reply.extended.value.unwrap_or_default();
    Ok(answer(&String::from_utf8_lossy(&value)))
}

/// Returns the authorization identity of a user name or a DN; empty for anonymous clients.
fn identity(who: &str) -> String {
    match who {
        "" | "anonymous" => String::new(),
        who if who.contains('=') => format!("dn:{who}"),
        who => format!("u:{who}"),
    }
}

/// Parses the lines of an answer: each has its kind, a tab, and the rest.
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
    fn answers_have_a_verdict_and_its_rules() {
        let found = answer("denied\tno\ndeny\t2\tphones: deny read\nneeded\tthat rule\nlater\tx\n");
        assert_eq!((&found["verdict"], &found["text"]), (&json!("denied"), &json!("no")));
        assert_eq!(found["rules"], json!([{ "kind": "deny", "number": "2", "text": "phones: deny read" }]));
        assert_eq!(found["notes"][0]["text"], "that rule");
    }
}
