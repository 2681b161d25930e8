//! The history of an entry: which user changed which values, and at what time. The history is read from the log over
//! LDAP. Changes can also be reversed.

mod undo;

use std::collections::BTreeSet;

use axum::response::Response;
use client::{ClientError, Connection};
use ldap::{HistoryAnswer, HistoryChange, HistoryEffect, HistoryKind, HistoryRequest, HistoryValues, oids};
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::rights::Rights;
use crate::times;

pub(crate) use undo::undo;

/// Maximum number of changes on one page.
const CHANGES_MAX: usize = 25;

/// Maximum number of requests for one page. A request examines a thousand records of the log.
const REQUESTS_MAX: usize = 100;

/// Maximum number of an attribute's values on a page.
const VALUES_MAX: usize = 20;

/// Maximum number of characters of a value that a page shows.
const VALUE_CHARS_MAX: usize = 300;

/// The entry whose history consists of the changes of the settings.
const CONFIG: &str = "cn=config";

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let notice = signed.notice(&fields);
    let model = signed.talk(move |connection| model(connection, &fields)).await;
    let with_notice = |mut model: Value| {
        model["notice"] = notice;
        Page::new("history.html", "history.title", model)
    };
    signed.answer(model.map(with_notice))
}

/// Changes of an entry, the newest first.
#[derive(Debug, Default)]
struct Changes {
    list: Vec<HistoryChange>,
    /// Position before which the next page continues; 0 if the log contains no older changes.
    next: u64,
}

/// Reads changes until `is_enough` returns true, the log has no older changes, or the number of requests for one page
/// is reached.
fn read(
    connection: &mut Connection,
    dn: &str,
    before: u64,
    is_enough: impl Fn(&[HistoryChange]) -> bool,
) -> Result<Changes, PageError> {
    let malformed = || PageError::Client(ClientError::Unexpected("a history".to_owned()));
    let mut changes = Changes { list: Vec::new(), next: before };
    for _ in 0..REQUESTS_MAX {
        let request = HistoryRequest { entry: dn, before: changes.next };
        let reply = connection.extended(oids::READ_HISTORY, Some(&request.encode()))?;
        PageError::unless_success(reply.outcome, None)?;
        let value = reply.extended.value.unwrap_or_default();
        let answer = HistoryAnswer::decode(&value).ok_or_else(malformed)?;
        changes.list.extend(answer.changes);
        changes.next = answer.next;
        if changes.next == 0 || is_enough(&changes.list) {
            break;
        }
    }
    Ok(changes)
}

fn model(connection: &mut Connection, fields: &Fields) -> Result<Value, PageError> {
    let dn = fields.text("dn");
    let before = fields.text("before").parse().unwrap_or(0);
    // Read one change more than the page shows, because a change of settings is compared with the previous change.
    let mut changes = read(connection, dn, before, |list| list.len() > CHANGES_MAX)?;
    let is_config = dn.eq_ignore_ascii_case(CONFIG);
    let attributes = changes.list.iter().flat_map(|change| change.values.iter().map(type_name));
    let attributes: BTreeSet<&str> = attributes.collect();
    let rights = match is_config {
        true => Rights::default(),
        false => Rights::read(connection, dn, &attributes.into_iter().collect::<Vec<_>>())?,
    };
    let mut models = Vec::new();
    for (place, change) in changes.list.iter().enumerate().take(CHANGES_MAX) {
        let older = changes.list.get(place + 1..).unwrap_or_default();
        models.push(if is_config { of_settings(change, older) } else { of_entry(change, &rights) });
    }
    if changes.list.len() > CHANGES_MAX {
        changes.next = changes.list.get(CHANGES_MAX - 1).map_or(0, |last| last.position);
    }
    Ok(json!({
        "dn": dn,
        "is_config": is_config,
        "changes": models,
        "next": Some(changes.next).filter(|next| *next > 0),
        "notice": null,
    }))
}

fn head(change: &HistoryChange, values: Vec<Value>, can_undo: bool) -> Value {
    json!({
        "position": change.position,
        "time": times::text(change.micros),
        "shown": times::readable(change.micros),
        "kind": change.kind.name(),
        "who": change.requester,
        "name": change.name,
        "can_undo": can_undo,
        "values": values,
    })
}

/// Returns the model of a change of an entry. The page offers to undo a Modify of at least one value if the requester
/// may write all attributes in it.
fn of_entry(change: &HistoryChange, rights: &Rights) -> Value {
    let may_write = change.values.iter().all(|values| rights.can_write(type_name(values)));
    let can_undo = change.kind == HistoryKind::Modify && !change.values.is_empty() && may_write;
    head(change, change.values.iter().map(values).collect(), can_undo)
}

/// Returns the attribute type of a change of values, without options.
fn type_name(values: &HistoryValues) -> &str {
    values.attribute.split(';').next().unwrap_or_default()
}

fn values(values: &HistoryValues) -> Value {
    let shown: Vec<String> = values.values.iter().take(VALUES_MAX).map(|value| text(value)).collect();
    json!({
        "attribute": values.attribute,
        "fate": values.fate.name(),
        "is_whole": values.is_whole,
        "more": values.values.len().saturating_sub(VALUES_MAX),
        "values": shown,
    })
}

fn text(octets: &[u8]) -> String {
    match std::str::from_utf8(octets) {
        Ok(text) if text.chars().count() <= VALUE_CHARS_MAX => text.to_owned(),
        Ok(text) => text.chars().take(VALUE_CHARS_MAX).chain(['…']).collect(),
        Err(_) => format!("[{} bytes]", octets.len()),
    }
}

/// Returns the model of a change of settings. The model contains each setting that differs from the previous change,
/// with its old and its new text.
fn of_settings(change: &HistoryChange, older: &[HistoryChange]) -> Value {
    let before = |key: &str| {
        let mut stated = older.iter().flat_map(|change| &change.values);
        stated.find(|setting| setting.attribute == key)
    };
    let mut differences = Vec::new();
    for setting in &change.values {
        let old = before(&setting.attribute);
        if old.is_some_and(|old| old.values == setting.values) {
            continue;
        }
        if let Some(old) = old {
            differences.push(values(&HistoryValues { fate: HistoryEffect::Before, ..old.clone() }));
        }
        differences.push(values(setting));
    }
    head(change, differences, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(position: u64, pairs: &[(&str, &str)]) -> HistoryChange {
        let values = pairs.iter().map(|(key, text)| HistoryValues {
            fate: HistoryEffect::Replaced,
            attribute: (*key).to_owned(),
            is_whole: true,
            values: vec![text.as_bytes().to_vec()],
        });
        HistoryChange {
            position,
            micros: 0,
            kind: HistoryKind::Settings,
            requester: String::new(),
            name: CONFIG.to_owned(),
            values: values.collect(),
        }
    }

    #[test]
    fn settings_are_compared_with_earlier_versions() {
        let list = [
            settings(9, &[("limits.size_limit", "5"), ("anonymous_read", "false")]),
            settings(7, &[("indexes.cn", "equality")]),
            settings(3, &[("limits.size_limit", "1000"), ("anonymous_read", "false")]),
        ];
        let model = of_settings(&list[0], &list[1..]);
        let found: Vec<_> =
            model["values"].as_array().unwrap().iter().map(|v| v["values"][0].clone()).collect();
        assert_eq!(found, ["1000", "5"]);
        assert_eq!(of_settings(&list[2], &[])["values"].as_array().unwrap().len(), 2);
    }
}
