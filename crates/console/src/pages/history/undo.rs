//! Reversal of a change. The page shows the reverse change as LDIF before it makes this change. The reversal is refused
//! if a value is no longer the value that the change has set. Thus the reversal never overwrites a later change.

use std::collections::HashSet;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use client::Connection;
use ldap::{
    ChangeOperation, Control, HistoryChange, HistoryEffect, HistoryKind, HistoryValues, ModifyRequest,
    Request, ResultCode, Scope, filter_value, oids,
};
use schema::{AttributeType, Schema};
use serde_json::json;

use super::read;
use crate::describe::type_of;
use crate::form::{Change, ldif, request_changes, unchanged_since};
use crate::page::{Page, Submission};
use crate::page_error::PageError;
use crate::requests::{self, WholeEntry};
use crate::texts::url;

/// The change that reverses another change.
struct Reverse {
    dn: String,
    csn: Option<String>,
    changes: Vec<Change>,
}

/// Shows the reverse change. Makes it if the form contains the confirmation.
pub(crate) async fn undo(Submission { signed, fields }: Submission) -> Response {
    let fields = Arc::new(fields);
    let own = Arc::clone(&fields);
    let app = Arc::clone(&signed.app);
    let is_applied = fields.text("step") == "apply";
    let result = signed.talk(move |connection| {
        let schema = app.schema.get(connection);
        let position = own.text("position").parse().unwrap_or(0);
        let reverse = reverse(connection, &schema, own.text("dn"), position)?;
        if own.text("step") == "apply" {
            if reverse.csn.as_deref() != own.given("csn") {
                return Err(PageError::Request(StatusCode::CONFLICT, "trouble.changed_meanwhile"));
            }
            apply(connection, &reverse)?;
        } else {
            rehearse(connection, &reverse)?;
        }
        Ok(reverse)
    });
    match result.await {
        Err(error) => signed.fail(&error),
        Ok(reverse) if is_applied => {
            signed.go(&url("/history", &[("dn", &reverse.dn), ("notice", "undone")]))
        }
        Ok(Reverse { dn, csn, changes }) => {
            let fields = [("position", fields.text("position"))];
            let ldif = ldif(&dn, &changes);
            let model = json!({ "dn": dn, "csn": csn, "ldif": ldif, "fields": fields, "action": "/history" });
            signed.show(Page::new("preview.html", "history.preview", model))
        }
    }
}

fn unusable(text: &'static str) -> PageError {
    PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, text)
}

fn reverse(
    connection: &mut Connection,
    schema: &Schema,
    dn: &str,
    position: u64,
) -> Result<Reverse, PageError> {
    let entry = requests::entry(connection, dn, &["entryCSN"])?;
    let found = read(connection, &entry.dn, position.saturating_add(1), |list| !list.is_empty())?;
    let change = found.list.first().filter(|change| change.position == position);
    let change = change.filter(|change| change.kind == HistoryKind::Modify);
    let change = change.ok_or(unusable("history.no_change"))?.clone();
    // The log may have stored the replaced values with the change. Otherwise they are computed from the changes before
    // it.
    let lacks = |attribute: &str| before(attribute, &change).is_none();
    let replaced: Vec<&str> = change
        .values
        .iter()
        .filter(|values| values.fate == HistoryEffect::Replaced && lacks(&values.attribute))
        .map(|values| values.attribute.as_str())
        .collect();
    let older = match replaced.is_empty() {
        true => Vec::new(),
        false => {
            let is_known =
                |list: &[HistoryChange]| replaced.iter().all(|name| state_of(name, list).is_some());
            read(connection, &entry.dn, position, is_known)?.list
        }
    };
    let changes = reversed(schema, &change, &older)?;
    if changes.is_empty() {
        return Err(unusable("history.nothing_to_undo"));
    }
    let entry = check_replaced(connection, schema, &entry.dn, &change)?;
    let csn = entry.texts("entryCSN").into_iter().next();
    Ok(Reverse { dn: entry.dn, csn, changes })
}

/// Returns the values that an attribute had before a change. Returns `None` if the log has not stored all of these
/// values with the change.
fn before(attribute: &str, change: &HistoryChange) -> Option<Vec<Vec<u8>>> {
    let mut values = change.values.iter();
    let found =
        values.find(|values| values.fate == HistoryEffect::Before && values.attribute == attribute)?;
    found.is_whole.then(|| found.values.clone())
}

/// Returns the values that an attribute has after `changes`. The first element of `changes` is the newest change.
/// Returns `None` if the changes do not determine all values.
fn state_of(attribute: &str, changes: &[HistoryChange]) -> Option<Vec<Vec<u8>>> {
    let states_all = |change: &HistoryChange| {
        let of_attribute =
            |fate| change.values.iter().any(|values| values.fate == fate && values.attribute == attribute);
        change.kind == HistoryKind::Add || of_attribute(HistoryEffect::Replaced)
    };
    let base = changes.iter().position(states_all)?;
    let mut state: Vec<Vec<u8>> = Vec::new();
    for change in changes.get(..=base)?.iter().rev() {
        for values in change.values.iter().filter(|values| values.attribute == attribute) {
            if !values.is_whole {
                return None;
            }
            match values.fate {
                HistoryEffect::Replaced => state.clone_from(&values.values),
                HistoryEffect::Added => state.extend(values.values.iter().cloned()),
                HistoryEffect::Removed => state.retain(|value| !values.values.contains(value)),
                HistoryEffect::Before | HistoryEffect::Until => {}
            }
        }
    }
    Some(state)
}

/// Returns the changes that reverse `change`. `older` contains the changes that precede `change`, the newest first.
fn reversed(
    schema: &Schema,
    change: &HistoryChange,
    older: &[HistoryChange],
) -> Result<Vec<Change>, PageError> {
    let mut changes: Vec<Change> = Vec::new();
    // Reverse the parts of the change in reverse order.
    for values in change.values.iter().rev() {
        let description = values.attribute.clone();
        let known = type_of(schema, &description);
        if values.fate == HistoryEffect::Before || known.is_some_and(AttributeType::is_operational) {
            continue;
        }
        // Removing the added values also removes their expiry, so the expiry needs no change of its own.
        let is_added = || {
            let mut added = change.values.iter().filter(|added| added.fate == HistoryEffect::Added);
            added.any(|added| added.attribute == description)
        };
        if values.fate == HistoryEffect::Until && is_added() {
            continue;
        }
        let is_lacking = !values.is_whole && values.fate != HistoryEffect::Replaced;
        if is_lacking || values.fate == HistoryEffect::Until {
            return Err(unusable("history.left_out"));
        }
        let (operation, values) = match values.fate {
            HistoryEffect::Added => (ChangeOperation::Delete, values.values.clone()),
            HistoryEffect::Removed => (ChangeOperation::Add, values.values.clone()),
            _ => {
                let known = before(&description, change).or_else(|| state_of(&description, older));
                (ChangeOperation::Replace, known.ok_or(unusable("history.unknown_before"))?)
            }
        };
        if operation == ChangeOperation::Replace || !values.is_empty() {
            changes.push(Change { operation, description, values });
        }
    }
    Ok(changes)
}

/// Reads the entry with all values of the attributes that the change replaced. Fails if the present values differ from
/// the values that the change has set. Values that the change added or removed need no check here, because the server
/// checks them when it makes the reverse change.
fn check_replaced(
    connection: &mut Connection,
    schema: &Schema,
    dn: &str,
    change: &HistoryChange,
) -> Result<WholeEntry, PageError> {
    let is_replaced = |values: &&HistoryValues| {
        let is_operational = type_of(schema, &values.attribute).is_some_and(AttributeType::is_operational);
        values.fate == HistoryEffect::Replaced && !is_operational
    };
    let replaced: Vec<&HistoryValues> = change.values.iter().filter(is_replaced).collect();
    let selection: Vec<&str> =
        ["entryCSN"].into_iter().chain(replaced.iter().map(|values| values.attribute.as_str())).collect();
    let entry = requests::whole_entry(connection, dn, &selection)?;
    for values in replaced {
        if !values.is_whole {
            return Err(unusable("history.left_out"));
        }
        let present =
            entry.attributes.iter().find(|of| of.description.eq_ignore_ascii_case(&values.attribute));
        let present = present.map(|of| of.values.as_slice()).unwrap_or_default();
        if !is_same(connection, schema, &entry.dn, values, present)? {
            let now: Vec<String> =
                present.iter().take(super::VALUES_MAX).map(|value| super::text(value)).collect();
            return Err(PageError::ValuesChanged(format!("{}: {}", values.attribute, now.join(", "))));
        }
    }
    Ok(entry)
}

/// Returns true if the present values are equal to those that the change has set. The order of the values does not
/// matter. If the attribute has an equality rule, the server compares the values by this rule.
fn is_same(
    connection: &mut Connection,
    schema: &Schema,
    dn: &str,
    left: &HistoryValues,
    present: &[Vec<u8>],
) -> Result<bool, PageError> {
    let has_equality = type_of(schema, &left.attribute).is_some_and(|found| found.equality.is_some());
    if left.values.len() != present.len() {
        return Ok(false);
    }
    let present: HashSet<&Vec<u8>> = present.iter().collect();
    let missing: Vec<_> = left.values.iter().filter(|value| !present.contains(value)).collect();
    if missing.is_empty() || !has_equality {
        return Ok(missing.is_empty());
    }
    let terms = missing.iter().map(|value| match std::str::from_utf8(value) {
        Ok(value) => Some(format!("({}={})", left.attribute, filter_value(value))),
        Err(_) => None,
    });
    let Some(terms) = terms.collect::<Option<String>>() else { return Ok(false) };
    let found = connection.search(dn, Scope::BaseObject, &format!("(&{terms})"), &["1.1"])?;
    Ok(found.entries.len() == 1)
}

/// Sends the reverse change with the No-Op control (draft-zeilenga-ldap-noop). The server checks the change and does
/// not make it.
fn rehearse(connection: &mut Connection, reverse: &Reverse) -> Result<(), PageError> {
    let no_operation = Control { oid: oids::NO_OPERATION, critical: true, value: None };
    match modify(connection, reverse, &[no_operation]) {
        // If the server does not permit the control, it checks the reverse change only when the change is to be made.
        Err(PageError::Refused(outcome, _))
            if [ResultCode::NO_OPERATION, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION]
                .contains(&outcome.code) =>
        {
            Ok(())
        }
        done => done,
    }
}

fn apply(connection: &mut Connection, reverse: &Reverse) -> Result<(), PageError> {
    let value = unchanged_since(reverse.csn.as_deref())?;
    let assertion =
        value.as_deref().map(|value| Control { oid: oids::ASSERTION, critical: true, value: Some(value) });
    modify(connection, reverse, assertion.as_slice())
}

fn modify(connection: &mut Connection, reverse: &Reverse, controls: &[Control<'_>]) -> Result<(), PageError> {
    let list = request_changes(&reverse.changes);
    let request = Request::Modify(ModifyRequest { object: &reverse.dn, changes: list.as_changes() });
    match requests::change(connection, request, controls) {
        // A value that the change added was removed later, or a value that the change removed was added again.
        Err(PageError::Refused(outcome, _))
            if [ResultCode::NO_SUCH_ATTRIBUTE, ResultCode::ATTRIBUTE_OR_VALUE_EXISTS]
                .contains(&outcome.code) =>
        {
            Err(PageError::ValuesChanged(outcome.diagnostic))
        }
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use ldap::HistoryValues;

    use super::*;

    fn change(kind: HistoryKind, parts: &[(HistoryEffect, &str, &[&str])]) -> HistoryChange {
        let values = parts.iter().map(|(fate, attribute, values)| HistoryValues {
            fate: *fate,
            attribute: (*attribute).to_owned(),
            is_whole: true,
            values: values.iter().map(|value| value.as_bytes().to_vec()).collect(),
        });
        HistoryChange {
            position: 1,
            micros: 0,
            kind,
            requester: String::new(),
            name: String::new(),
            values: values.collect(),
        }
    }

    fn texts(changes: &[Change]) -> Vec<(ChangeOperation, String, String)> {
        let text = |values: &[Vec<u8>]| String::from_utf8(values.join(&b'|')).unwrap();
        changes
            .iter()
            .map(|change| (change.operation, change.description.clone(), text(&change.values)))
            .collect()
    }

    #[test]
    fn a_change_is_reversed_from_its_end() {
        use HistoryEffect::{Added, Before, Removed, Replaced};
        let schema = Schema::shipped();
        let result = change(
            HistoryKind::Modify,
            &[(Removed, "member", &["cn=a"]), (Added, "member", &["cn=b"]), (Replaced, "title", &["Dr"])],
        );
        let older = [
            change(HistoryKind::Modify, &[(Added, "title", &["y"]), (Removed, "title", &["x"])]),
            change(HistoryKind::Modify, &[(Replaced, "title", &["x", "z"])]),
            change(HistoryKind::Add, &[(Replaced, "title", &["never"])]),
        ];
        let expected = [
            (ChangeOperation::Replace, "title".to_owned(), "z|y".to_owned()),
            (ChangeOperation::Delete, "member".to_owned(), "cn=b".to_owned()),
            (ChangeOperation::Add, "member".to_owned(), "cn=a".to_owned()),
        ];
        assert_eq!(texts(&reversed(&schema, &result, &older).unwrap()), expected);
        assert!(reversed(&schema, &result, &older[..1]).is_err(), "nothing states all titles");
        let change_of_title =
            change(HistoryKind::Modify, &[(Replaced, "title", &["Dr"]), (Before, "title", &["Ms"])]);
        assert_eq!(texts(&reversed(&schema, &change_of_title, &[]).unwrap())[0].2, "Ms");
        // The entry was added without this attribute.
        let first = change(HistoryKind::Modify, &[(Replaced, "title", &["Dr"])]);
        let add = [change(HistoryKind::Add, &[(Replaced, "cn", &["a"])])];
        assert_eq!(texts(&reversed(&schema, &first, &add).unwrap())[0].2, "");
    }

    #[test]
    fn omitted_values_are_not_guessed() {
        let schema = Schema::shipped();
        let mut result = change(HistoryKind::Modify, &[(HistoryEffect::Removed, "userPassword", &[])]);
        result.values[0].is_whole = false;
        assert!(reversed(&schema, &result, &[]).is_err());
        let stamps = change(HistoryKind::Modify, &[(HistoryEffect::Replaced, "pwdChangedTime", &["x"])]);
        assert!(reversed(&schema, &stamps, &[]).unwrap().is_empty(), "the server sets it");
    }
}
