//! Cluster, followed server and backup, as `cn=monitor` shows them.

use axum::response::Response;
use client::Connection;
use serde_json::{Value, json};

use crate::monitor;
use crate::page::{Page, Signed};
use crate::pages::manage;
use crate::times;
use crate::trouble::Trouble;

/// Groups of the page, each with a text.
const GROUPS: [(&str, &str); 3] = [("cluster", "Cluster"), ("follow", "Follow"), ("backup", "Backup")];

pub(crate) async fn show(signed: Signed) -> Response {
    let model = signed.talk(model).await;
    signed.answer(model.map(|model| Page::new("nodes.html", "nodes.title", model)))
}

fn model(connection: &mut Connection) -> Result<Value, Trouble> {
    let mut groups = Vec::new();
    for (name, group) in GROUPS {
        let figures = monitor::group(connection, group).map_err(manage::only_for_administrators)?;
        let figure = |figure: &monitor::Figure| {
            let is_fault = ["Failing", "Log"].contains(&figure.name.as_str())
                && !["no", "false", "reachable"].contains(&figure.value.as_str());
            json!({
                "name": figure.name, "value": figure.value, "text": readable(&figure.value), "help": figure.help,
                "is_fault": is_fault,
            })
        };
        groups.push(json!({ "name": name, "figures": figures.iter().map(figure).collect::<Vec<_>>() }));
    }
    Ok(json!({ "groups": groups }))
}

/// Returns a value as people read it: a generalized time as a time.
fn readable(value: &str) -> String {
    match schema::generalized_micros(value.as_bytes()).and_then(|micros| u64::try_from(micros).ok()) {
        Some(micros) if value.ends_with('Z') => times::readable(micros),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        assert_eq!(readable("20261127081000Z"), "2026-11-27 08:10:00 UTC");
        assert_eq!((readable("17"), readable("no")), ("17".to_owned(), "no".to_owned()));
    }
}
