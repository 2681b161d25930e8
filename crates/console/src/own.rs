//! The user's own credentials, as the server reports them, and changes of these credentials.

use std::sync::Arc;

use axum::http::StatusCode;
use client::Connection;
use ldap::{OwnCredentials, decode_generated_password, oids};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::app::App;
use crate::host::Client;
use crate::page_error::PageError;
use crate::prove::{SuccessfulBind, USE, bind};

/// Returns the credentials of the user and the rules of the password policy. Returns `null` if the server refuses the
/// operation, for example to the administrator, who has no entry. Returns an empty object if no policy applies to the
/// entry. Blocks.
///
/// # Errors
/// The directory does not answer.
pub(crate) fn read(connection: &mut Connection) -> Result<Value, PageError> {
    let value = OwnCredentials::Read.encode();
    let reply = connection.extended(oids::OWN_CREDENTIALS, Some(&value))?;
    // The administrator has no such credentials. An access rule may also deny the operation to a user.
    if !reply.outcome.is_success() {
        return Ok(Value::Null);
    }
    Ok(model(&String::from_utf8_lossy(&reply.extended.value.unwrap_or_default())))
}

/// Returns the model of an answer. Each line of the answer contains a key and its values, separated by tabs.
fn model(lines: &str) -> Value {
    let (mut members, mut applications) = (Map::new(), Vec::new());
    for line in lines.lines() {
        let mut parts = line.split('\t');
        let key = parts.next().unwrap_or_default();
        let values: Vec<&str> = parts.collect();
        match key {
            USE => continue,
            "administrator" => return Value::Null,
            _ => {}
        }
        let of = |place: usize| values.get(place).copied().filter(|text| !text.is_empty());
        if key == "application" {
            applications.push(json!({ "name": of(0), "ends": of(1), "used": of(2) }));
            continue;
        }
        let value = match of(0) {
            Some("true") => json!(true),
            Some("false") => json!(false),
            Some(text) => text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)),
            None => Value::Null,
        };
        members.insert(key.replace('-', "_"), value);
    }
    if !members.is_empty() {
        members.insert("applications".to_owned(), json!(applications));
    }
    Value::Object(members)
}

/// Changes the credentials of a user, who must enter the password again. Returns the application password if the server
/// generated one. Uses a separate connection. Therefore a wrong password does not end the session.
///
/// # Errors
/// The password is wrong, too many sign-ins are in progress, or the directory refuses the change or does not answer.
pub(crate) async fn change(
    (app, client): (&Arc<App>, Client),
    (who, password): (&str, Zeroizing<String>),
    request: Vec<u8>,
) -> Result<Option<Zeroizing<String>>, PageError> {
    let busy = PageError::Request(StatusCode::SERVICE_UNAVAILABLE, "sign_in.busy");
    let Some(under_way) = app.sign_ins.take(client.address.ip()) else { return Err(busy) };
    if password.is_empty() {
        return Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "account_page.no_password"));
    }
    let (ldap, who) = (app.ldap.clone(), who.to_owned());
    let changed = app.ldap.talk(move || {
        let _under_way = under_way;
        let SuccessfulBind { mut connection, .. } = bind(ldap.connect(client)?, &who, &password)?;
        let reply = connection.extended(oids::OWN_CREDENTIALS, Some(&request))?;
        PageError::unless_success(reply.outcome.clone(), None)?;
        let generated = reply.extended.value.as_deref().and_then(decode_generated_password);
        Ok(generated.map(|text| Zeroizing::new(String::from_utf8_lossy(text).into_owned())))
    });
    changed.await.map_err(PageError::Conversation)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_value_lines_become_members() {
        let of = model(
            "self-service\ttrue\nlength-min\t8\nchanged\t\nexpires\t20270101000000Z\napplication\tmail\t\t2027\n",
        );
        let expected = json!({
            "self_service": true, "length_min": 8, "changed": null, "expires": "20270101000000Z",
            "applications": [{ "name": "mail", "ends": null, "used": "2027" }],
        });
        assert_eq!(of, expected);
        assert_eq!((model(""), model("use\tread-audit\n")), (json!({}), json!({})));
        assert_eq!(model("administrator\ttrue\nuse\tmonitor\n"), Value::Null);
    }
}
