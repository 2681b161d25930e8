//! The first page: problems that an administrator should solve, and the most important figures.
//!
//! The page searches the directory. Thus it reports a failure if the directory does not answer. A user who can read
//! `cn=monitor` also sees whether the server accepts changes.

use std::sync::Arc;
use std::time::Instant;

use axum::response::Response;
use client::Connection;
use serde_json::{Value, json};

use crate::app::App;
use crate::fields::Fields;
use crate::monitor::{self, Figures};
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::requests;
use crate::times;

/// Interval in seconds at which the browser refreshes the live figures.
const REFRESH_SECONDS: u64 = 5;

/// Number of days before a certificate expires at which the page begins to report it as a problem.
const CERTIFICATE_DAYS: i64 = 14;

/// Minimum age of a backup that the page reports as late, in seconds.
const LATE_BACKUP_MIN: u64 = 600;

const MICROS_PER_DAY: i64 = 86_400 * 1_000_000;

/// The figures on the page. Each row has the name of the figure in the texts, and the entry of the figure, at or below
/// `cn=monitor`.
const FIGURES: [(&str, &str); 12] = [
    ("version", "cn=monitor"),
    ("uptime", "cn=uptime,cn=time"),
    ("connections", "cn=current,cn=connections"),
    ("waiting_changes", "cn=waiting changes,cn=log"),
    ("position", "cn=position,cn=log"),
    ("entries_sent", "cn=entries,cn=statistics"),
    ("disk_free_bytes", "cn=disk free bytes,cn=storage"),
    ("data_bytes", "cn=used bytes,cn=storage"),
    ("last_backup", "cn=last backup,cn=backup"),
    ("lag_seconds", "cn=lag seconds,cn=cluster"),
    ("replica_lag_seconds", "cn=lag seconds,cn=replica"),
    ("replicas_lag", "cn=most lag,cn=replicas"),
];

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let app = Arc::clone(&signed.app);
    let manages = signed.session.manages;
    let model = signed.talk(move |connection| model(connection, &app, manages)).await;
    let page = |mut model: Value| {
        model["refresh_seconds"] = json!(fields.given("live").map(|_| REFRESH_SECONDS));
        Page::new("overview.html", "overview.title", model)
    };
    signed.answer(model.map(page))
}

fn model(connection: &mut Connection, app: &App, manages: bool) -> Result<Value, PageError> {
    let started = Instant::now();
    let contexts = requests::contexts(connection)?;
    let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let figures = match manages.then(|| monitor::figures(connection)) {
        Some(Ok(figures)) => Some(figures),
        None | Some(Err(PageError::Refused(..))) => None,
        Some(Err(error)) => return Err(error),
    };
    let listed = figures.iter().flat_map(|figures| {
        FIGURES.iter().filter_map(|(name, place)| {
            let value = figures.get(*place)?;
            let text = match (*name, backup_age(figures)) {
                ("last_backup", Some(age)) => times::span(age),
                _ => readable(name, value),
            };
            Some(json!({ "name": name, "value": value, "text": text }))
        })
    });
    Ok(json!({
        "answers": true,
        "milliseconds": milliseconds,
        "contexts": contexts,
        "reads_monitor": figures.is_some(),
        "attention": figures.as_ref().map(attention).unwrap_or_default(),
        "building": figures.as_ref().map(building).unwrap_or_default(),
        "rates": figures.as_ref().map(|figures| app.rates.since_before(figures, started)),
        "figures": listed.collect::<Vec<_>>(),
    }))
}

/// Formats a figure for people. Sizes get a unit such as MiB, and durations are shown in their two largest units.
fn readable(name: &str, value: &str) -> String {
    let Ok(number) = value.parse::<u64>() else { return value.to_owned() };
    match name {
        name if name.ends_with("_bytes") => times::size(number),
        "uptime" => times::span(number),
        _ => value.to_owned(),
    }
}

/// Returns the problems, the most urgent first. Each problem has the path of its text and a value.
fn attention(figures: &Figures) -> Vec<Value> {
    let of = |name: &str| figures.get(name).map(String::as_str);
    let mut all = Vec::new();
    let mut push = |text: &str, value: &str| all.push(json!({ "text": text, "value": value }));
    if of("cn=writes stopped,cn=log") == Some("true") {
        push("writes_stopped", of("cn=writes stopped cause,cn=log").unwrap_or_default());
    } else if of("cn=changes refused,cn=log") == Some("true") {
        push("changes_refused", of("cn=disk free bytes,cn=storage").unwrap_or_default());
    }
    for (name, value) in figures {
        if let Some(group) = name.strip_prefix("cn=failing,cn=")
            && !["no", "false"].contains(&value.as_str())
        {
            push("failing", &format!("{group}: {value}"));
        }
    }
    for (name, text) in [("cn=lost events,cn=audit", "lost_events"), ("cn=alarms,cn=cluster", "alarms")] {
        if let Some(value) = of(name).filter(|value| *value != "0") {
            push(text, value);
        }
    }
    if let Some(age) = late_backup(figures) {
        push("late_backup", &times::span(age));
    }
    let micros = |name: &str| time_of(figures, name);
    if let (Some(now), Some(end)) = (micros("cn=current,cn=time"), micros("cn=certificate expires,cn=tls"))
        && end - now < CERTIFICATE_DAYS * MICROS_PER_DAY
    {
        push("certificate", of("cn=certificate expires,cn=tls").unwrap_or_default());
    }
    all
}

fn time_of(figures: &Figures, name: &str) -> Option<i64> {
    schema::generalized_micros(figures.get(name)?.as_bytes())
}

/// Returns the age of the last backup in seconds. Returns `None` if there is no backup.
fn backup_age(figures: &Figures) -> Option<u64> {
    let micros = time_of(figures, "cn=current,cn=time")? - time_of(figures, "cn=last backup,cn=backup")?;
    Some(u64::try_from(micros).unwrap_or(0) / 1_000_000)
}

/// Returns the number of seconds since the last backup, if it is more than [`LATE_BACKUP_MIN`] and at least two further
/// backups have become due. If there is no backup, the time counts from the start of the server.
fn late_backup(figures: &Figures) -> Option<u64> {
    let number = |name: &str| figures.get(name)?.parse::<u64>().ok();
    let interval = number("cn=interval seconds,cn=backup")?;
    let age = backup_age(figures).or_else(|| number("cn=uptime,cn=time"))?;
    (age > interval.saturating_mul(2).max(LATE_BACKUP_MIN)).then_some(age)
}

/// Returns the indexes that are currently being built or removed.
fn building(figures: &Figures) -> Vec<Value> {
    let parts = figures.iter().filter_map(|(name, value)| {
        let index = name.strip_suffix(",cn=indexes")?.strip_prefix("cn=")?;
        Some(json!({ "index": index, "value": value }))
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        let of = |name: &str, value: &str| readable(name, value);
        assert_eq!(of("data_bytes", "3481600"), "3.3 MiB");
        assert_eq!(of("disk_free_bytes", "18215886848"), "17.0 GiB");
        assert_eq!(of("uptime", "100000"), "1 d 3 h");
        assert_eq!(
            (of("uptime", "3700"), of("version", "Pando 1")),
            ("1 h 1 min".to_owned(), "Pando 1".to_owned())
        );
    }

    #[test]
    fn only_problems_are_listed_for_attention() {
        let of = |pairs: &[(&str, &str)]| {
            let figures =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let all: Vec<Value> = attention(&figures);
            all.iter().map(|item| item["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let well = [
            ("cn=writes stopped,cn=log", "false"),
            ("cn=changes refused,cn=log", "false"),
            ("cn=failing,cn=audit", "false"),
            ("cn=failing,cn=backup", "no"),
            ("cn=lost events,cn=audit", "0"),
            ("cn=current,cn=time", "20261127080000Z"),
            ("cn=certificate expires,cn=tls", "20270101000000Z"),
        ];
        assert_eq!(of(&well), Vec::<String>::new());
        let ill = [
            ("cn=certificate expires,cn=tls", "20261201000000Z"),
            ("cn=current,cn=time", "20261127080000Z"),
            ("cn=failing,cn=backup", "no space"),
            ("cn=lost events,cn=audit", "7"),
            ("cn=writes stopped,cn=log", "true"),
        ];
        assert_eq!(of(&ill), ["writes_stopped", "failing", "lost_events", "certificate"]);
        assert_eq!(of(&[("cn=changes refused,cn=log", "true")]), ["changes_refused"]);
        let backup = |last: &str| {
            of(&[
                ("cn=interval seconds,cn=backup", "900"),
                ("cn=current,cn=time", "20261127080000Z"),
                ("cn=last backup,cn=backup", last),
            ])
        };
        assert_eq!(backup("20261127073100Z"), Vec::<String>::new());
        assert_eq!(backup("20261127072900Z"), ["late_backup"]);
    }
}
