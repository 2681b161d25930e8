//! The state of an account: why it is locked, and what its password policy requires. The page can also lock and unlock
//! the account.

use axum::http::StatusCode;
use axum::response::Response;
use client::{ClientError, Connection};
use ldap::state_operation::{CLEAR_DISABLED, CLEAR_FAILURES, SET_DISABLED};
use ldap::{StateOperation, StateRequest, encode_password_state, oids};
use serde_json::{Value, json};

use crate::describe::readable_time;
use crate::fields::Fields;
use crate::page::{Page, SignedInRequest, Submission};
use crate::page_error::PageError;
use crate::pages::policies;
use crate::rights::Rights;
use crate::texts::url;
use crate::times;

/// Attribute whose value locks the account.
pub(super) const LOCK: &str = "pwdAccountLockedTime";

/// Attribute with the times of wrong passwords. Unlocking the account removes its values too.
const FAILURES: &str = "pwdFailureTime";

/// The facts that the page shows. Each fact has the number of the Password Policy State operation that returns it, the
/// name of its text, and its kind.
const FACTS: [(u32, &str, Kind); 15] = [
    (1, "disabled", Kind::Problem),
    (59, "failure_locked", Kind::Problem),
    (20, "unlocks_in", Kind::Seconds),
    (62, "idle_locked", Kind::Problem),
    (67, "expired", Kind::Problem),
    (56, "not_started", Kind::Problem),
    (57, "ended", Kind::Problem),
    (26, "must_change", Kind::Problem),
    (16, "failures", Kind::Times),
    (21, "failures_left", Kind::Text),
    (8, "changed", Kind::Times),
    (58, "expires", Kind::Times),
    (34, "grace_left", Kind::Text),
    (22, "last_success", Kind::Times),
    (70, "has_codes", Kind::Problem),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A boolean that is shown only if it is true.
    Problem,
    Seconds,
    Times,
    Text,
}

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = signed.notice(&fields);
    let model = signed.talk(move |connection| model(connection, fields.text("dn"))).await;
    let with_notice = |mut model: Value| {
        model["notice"] = notice;
        Page::new("account_state.html", "state.title", model)
    };
    signed.answer(model.map(with_notice))
}

fn model(connection: &mut Connection, dn: &str) -> Result<Value, PageError> {
    let state = state(connection, dn, &[])?;
    let of = |kind: u32| {
        let mut operations = state.operations.iter();
        operations.find(|(known, _)| *known == kind).map(|(_, values)| values.as_slice()).unwrap_or_default()
    };
    let is = |kind: u32| of(kind).first().is_some_and(|value| value == "true");
    let policy_dn = of(0).first().filter(|dn| !dn.is_empty());
    let policy = match policy_dn {
        Some(dn) => connection.entry(dn, &["*"])?,
        None => None,
    };
    let facts = FACTS.iter().filter_map(|(kind, name, form)| fact(name, *form, of(*kind)));
    let rights = Rights::read(connection, &state.dn, &[LOCK, FAILURES, "userPassword"])?;
    let can_lock = rights.can_write(LOCK);
    Ok(json!({
        "dn": state.dn,
        "facts": facts.collect::<Vec<_>>(),
        "can_bind": of(55).first().map(|value| value == "true"),
        "is_locked": is(1) || is(59),
        "can_lock": can_lock,
        "can_unlock": can_lock && rights.can_write(FAILURES),
        "can_reset": rights.can_write("userPassword"),
        "policy": policy_dn,
        "rules": policy.as_ref().map(policies::rules).unwrap_or_default(),
        "notice": null,
    }))
}

fn fact(name: &str, kind: Kind, values: &[String]) -> Option<Value> {
    let first = values.first()?;
    let texts: Vec<String> = match kind {
        Kind::Problem if first == "true" => Vec::new(),
        Kind::Problem => return None,
        Kind::Seconds => vec![times::span(first.parse().ok()?)],
        Kind::Times => values.iter().map(|time| readable_time(time)).collect(),
        Kind::Text => values.to_vec(),
    };
    let is_problem = kind == Kind::Problem && name != "has_codes";
    Some(json!({ "name": name, "texts": texts, "is_problem": is_problem }))
}

/// The server's answer: the DN of the account, and the values by operation.
struct State {
    dn: String,
    operations: Vec<(u32, Vec<String>)>,
}

fn state(
    connection: &mut Connection,
    dn: &str,
    operations: &[StateOperation<&str>],
) -> Result<State, PageError> {
    let malformed = || PageError::Client(ClientError::Unexpected("the state of an account".to_owned()));
    let value = encode_password_state(dn, operations);
    let reply = connection.extended(oids::PASSWORD_STATE, Some(&value))?;
    PageError::unless_success(reply.outcome, None)?;
    // An answer has the same format as a request.
    let answer = StateRequest::decode(reply.extended.value.as_deref()).ok_or_else(malformed)?;
    let text = |value: &&[u8]| String::from_utf8_lossy(value).into_owned();
    let operations = answer.operations.iter();
    Ok(State {
        dn: answer.user.to_owned(),
        operations: operations
            .map(|operation| (operation.kind, operation.values.iter().map(text).collect()))
            .collect(),
    })
}

/// Locks or unlocks an account.
pub(crate) async fn change(Submission { signed, fields }: Submission) -> Response {
    let dn = fields.text("dn").to_owned();
    let changed = signed.talk(move |connection| {
        let operation = |kind, values: &[&'static str]| StateOperation { kind, values: values.to_vec() };
        let (operations, notice) = match fields.text("action") {
            "lock" => (vec![operation(SET_DISABLED, &["true"])], "account_locked"),
            "unlock" => {
                (vec![operation(CLEAR_DISABLED, &[]), operation(CLEAR_FAILURES, &[])], "account_unlocked")
            }
            _ => return Err(PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "state.no_action")),
        };
        state(connection, fields.text("dn"), &operations)?;
        Ok(notice)
    });
    match changed.await {
        Ok(notice) => signed.go(&url("/account-state", &[("dn", &dn), ("notice", notice)])),
        Err(error) => signed.fail(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_formatted_for_people() {
        let of = |name, kind, values: &[&str]| {
            let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
            fact(name, kind, &values).map(|fact| (fact["texts"].to_string(), fact["is_problem"] == true))
        };
        assert_eq!(of("disabled", Kind::Problem, &["false"]), None);
        assert_eq!(of("disabled", Kind::Problem, &["true"]), Some(("[]".to_owned(), true)));
        assert_eq!(of("has_codes", Kind::Problem, &["true"]), Some(("[]".to_owned(), false)));
        assert_eq!(of("unlocks_in", Kind::Seconds, &["90"]).unwrap().0, "[\"1 min 30 s\"]");
        let time = of("changed", Kind::Times, &["20261127083000Z"]).unwrap().0;
        assert_eq!(time, "[\"2026-11-27 08:30:00 UTC\"]");
        assert_eq!(of("failures", Kind::Times, &[]), None);
    }
}
