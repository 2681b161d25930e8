//! The state of the cluster, of followed servers and of the backup, as `cn=monitor` contains it.

use axum::response::Response;
use client::Connection;
use serde_json::{Value, json};

use crate::monitor;
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::pages::manage;
use crate::times;

/// The groups of figures on the page. Each row has the name of a text and the name of the group.
const GROUPS: [(&str, &str); 3] = [("cluster", "Cluster"), ("follow", "Follow"), ("backup", "Backup")];

pub(crate) async fn show(signed: SignedInRequest) -> Response {
    let model = signed.talk(model).await;
    signed.answer(model.map(|model| Page::new("nodes.html", "nodes.title", model)))
}

fn model(connection: &mut Connection) -> Result<Value, PageError> {
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
    let mut moments = monitor::group(connection, "Backup Moments")?;
    moments.reverse();
    let moments: Vec<Value> =
        moments.iter().filter_map(|figure| moments_of(&figure.name, &figure.value)).collect();
    Ok(json!({ "groups": groups, "moments": moments }))
}

/// Parses the first and the last time to which a chain of backup files can restore the directory. `name` is for example
/// `2026-11-27T08:00:00Z position 5`, and `text` is `until ...Z; positions 5 to 9; files 2; bytes 4096; verified no`.
fn moments_of(name: &str, text: &str) -> Option<Value> {
    let from = name.split(' ').next()?;
    let mut parts = text.split("; ");
    let mut part = |key: &str| parts.next()?.strip_prefix(key)?.strip_prefix(' ');
    let (until, positions) = (part("until")?, part("positions")?);
    let (files, bytes) = (part("files")?.parse::<u64>().ok()?, part("bytes")?.parse::<u64>().ok()?);
    let verified = part("verified").filter(|verified| *verified != "no");
    let (verified, verified_to) = match verified.and_then(|verified| verified.split_once(" up to ")) {
        Some((time, position)) => (Some(moment(time)), Some(position)),
        None => (None, None),
    };
    let (first, last) = positions.split_once(" to ")?;
    Some(json!({
        "from": moment(from),
        "until": moment(until),
        "first_position": first.parse::<u64>().ok()?,
        "last_position": last.parse::<u64>().ok()?,
        "files": files,
        "bytes": bytes,
        "size": times::size(bytes),
        "verified": verified,
        "is_whole_verified": verified_to.is_some_and(|position| position == last),
    }))
}

/// Formats a time such as `2026-11-27T08:00:00Z` for people.
fn moment(text: &str) -> String {
    text.trim_end_matches('Z').replacen('T', " ", 1) + " UTC"
}

/// Formats a value for people. If the value is a generalized time, formats the time.
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
        let of = |verified: &str| {
            let text = "until 2026-11-27T09:00:00Z; positions 5 to 9; files 2; bytes 4096; verified ";
            moments_of("2026-11-27T08:00:00Z position 5", &format!("{text}{verified}")).unwrap()
        };
        let moments = of("no");
        assert_eq!(
            (&moments["from"], &moments["size"]),
            (&"2026-11-27 08:00:00 UTC".into(), &"4.0 KiB".into())
        );
        assert_eq!((&moments["verified"], &moments["last_position"]), (&Value::Null, &9.into()));
        assert_eq!(of("2026-11-27T10:00:00Z up to 9")["is_whole_verified"], true);
        assert_eq!(of("2026-11-27T10:00:00Z up to 7")["is_whole_verified"], false);
        assert_eq!((readable("17"), readable("no")), ("17".to_owned(), "no".to_owned()));
    }
}
