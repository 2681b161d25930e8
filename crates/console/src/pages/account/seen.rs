//! The user's own entry as two other requesters can see it: an anonymous client, and an application that the user
//! chooses.

use std::collections::BTreeSet;

use axum::response::Response;
use client::Connection;
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::requests;
use crate::rights::Rights;

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let (ldap, client, who) = (signed.app.ldap.clone(), signed.client.clone(), signed.session.who.clone());
    let model = signed.talk(move |connection| {
        let anonymous = ldap.connect(client)?;
        model(connection, anonymous, &who, fields.given("as"))
    });
    let model = model.await;
    signed.answer(model.map(|model| Page::new("seen.html", "seen.title", model)))
}

fn model(
    connection: &mut Connection,
    mut anonymous: Connection,
    who: &str,
    other: Option<&str>,
) -> Result<Value, PageError> {
    let own = requests::entry(connection, who, &["*", "memberOf"])?;
    let names: Vec<&str> = own.attributes.iter().map(|found| found.description.as_str()).collect();
    // If anonymous clients cannot see the entry, they see none of its attributes.
    let seen: BTreeSet<String> = match requests::entry(&mut anonymous, who, &["*", "memberOf"]) {
        Ok(entry) => {
            entry.attributes.into_iter().map(|found| found.description.to_ascii_lowercase()).collect()
        }
        Err(PageError::Refused(..) | PageError::Request(..)) => BTreeSet::new(),
        Err(error) => return Err(error),
    };
    let rights =
        other.map(|other| Rights::of_other(connection, who, &names, &identity(other))).transpose()?;
    let rows = names.iter().map(|name| {
        let is_seen = seen.contains(&name.to_ascii_lowercase());
        json!({ "name": name, "anonymous": is_seen, "other": rights.as_ref().and_then(|rights| rights.can_read(name)) })
    });
    Ok(json!({
        "who": own.dn,
        "as": other.unwrap_or_default(),
        "is_known": rights.as_ref().is_none_or(Rights::is_known),
        "rows": rows.collect::<Vec<_>>(),
    }))
}

/// Returns the authorization identity of a user name or a DN (RFC 4513 section 5.2.1.8).
fn identity(name: &str) -> String {
    if name.contains('=') { format!("dn:{name}") } else { format!("u:{name}") }
}
