//! Search in the audit trail: which user made which operation on which entry, and at what time. The events are read
//! over LDAP.

mod events;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ::audit::{Event, Events, Field, Kind};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use client::{ClientError, Connection};
use ldap::{ResultCode, TrailAnswer, TrailPiece, TrailPosition, TrailRequest, oids};
use serde_json::{Value, json};

use crate::download::{Download, put_row};
use crate::fields::Fields;
use crate::limits::{EXPORT_BYTES_MAX, PAGE_BYTES_MAX};
use crate::page::{Page, SignedInRequest};
use crate::page_error::PageError;
use crate::times;

/// Maximum number of events on one page.
const EVENTS_MAX: usize = 100;

/// Maximum time for reading the audit trail for one page. If this time is not sufficient, the page shows the time up to
/// which the trail was read, and a link to continue.
const READ_TIME: Duration = Duration::from_secs(10);

/// Maximum number of damaged places that a page reports.
const DAMAGES_MAX: usize = 10;

/// The period that is searched by default.
const PERIOD: &str = "24h";

/// The kinds of events in the form. The usual kinds are first.
const KINDS: [Kind; 19] = [
    Kind::Bind,
    Kind::Add,
    Kind::Modify,
    Kind::Delete,
    Kind::ModifyDn,
    Kind::Search,
    Kind::Compare,
    Kind::Extended,
    Kind::Administration,
    Kind::Opened,
    Kind::Closed,
    Kind::Tls,
    Kind::Unbind,
    Kind::Abandon,
    Kind::Started,
    Kind::Stopped,
    Kind::Lost,
    Kind::Gap,
    Kind::Retired,
];

/// The columns of the CSV file.
const COLUMNS: [&str; 12] = [
    "time",
    "operation",
    "who",
    "acts_as",
    "network",
    "target",
    "attributes",
    "result",
    "reason",
    "detail",
    "connection",
    "position",
];

/// The response to a query: a page or a file.
enum Answer {
    Page(Value),
    File(Download),
}

pub(crate) async fn show(signed: SignedInRequest, fields: Fields) -> Response {
    let app = std::sync::Arc::clone(&signed.app);
    let answered = signed.talk(move |connection| {
        let wanted = EventFilter::of(&fields)?;
        if fields.text("as") == "csv" {
            let busy = |_| PageError::Request(StatusCode::SERVICE_UNAVAILABLE, "search.exports_busy");
            let _place = app.exports.try_acquire().map_err(busy)?;
            return file(connection, &wanted).map(Answer::File);
        }
        model(connection, &fields, &wanted).map(Answer::Page)
    });
    match answered.await {
        Err(error) => signed.fail(&error),
        Ok(Answer::Page(model)) => signed.show(Page::new("audit.html", "audit.title", model)),
        Ok(Answer::File(file)) => file.into_response(),
    }
}

/// The conditions that a selected event must meet.
struct EventFilter {
    since: u64,
    until: Option<u64>,
    who: String,
    target: String,
    operation: Operation,
    /// True selects only failures, and false only successes. `None` selects both.
    is_failure: Option<bool>,
    from: Option<TrailPosition>,
}

/// The kinds of events that are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// All events except the beginning and the end of connections.
    ButConnections,
    /// Changes of entries and settings.
    Changes,
    Any,
    One(Kind),
}

impl Operation {
    fn has(self, kind: Option<Kind>) -> bool {
        const CONNECTIONS: [Kind; 5] = [Kind::Opened, Kind::Closed, Kind::Tls, Kind::Unbind, Kind::Abandon];
        const CHANGES: [Kind; 5] =
            [Kind::Add, Kind::Modify, Kind::Delete, Kind::ModifyDn, Kind::Administration];
        let is_of = |kinds: &[Kind]| kind.is_some_and(|kind| kinds.contains(&kind));
        match self {
            Operation::ButConnections => !is_of(&CONNECTIONS),
            Operation::Changes => is_of(&CHANGES),
            Operation::Any => true,
            Operation::One(one) => kind == Some(one),
        }
    }
}

impl EventFilter {
    fn of(fields: &Fields) -> Result<EventFilter, PageError> {
        let unusable = |text| PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, text);
        let now = times::now_micros();
        let time = |text: &str| times::micros(text, now).ok_or(unusable("audit.no_time"));
        let since = time(fields.given("since").unwrap_or(PERIOD))?;
        let until = fields.given("until").map(time).transpose()?;
        let from = fields.given("page").map(|page| {
            let (segment, offset) = page.split_once('.')?;
            Some(TrailPosition { segment: segment.parse().ok()?, offset: offset.parse().ok()? })
        });
        let from = from.map(|from| from.ok_or(unusable("search.bad_page"))).transpose()?;
        Ok(EventFilter {
            since,
            until,
            who: fields.text("who").trim().to_lowercase(),
            target: fields.text("target").trim().to_lowercase(),
            operation: match fields.text("operation") {
                "" => Operation::ButConnections,
                "changes" => Operation::Changes,
                name => Kind::named(name).map_or(Operation::Any, Operation::One),
            },
            is_failure: match fields.text("result") {
                "failed" => Some(true),
                "success" => Some(false),
                _ => None,
            },
            from,
        })
    }

    fn has(&self, event: Event<'_>) -> bool {
        let time = event.number(Field::Time).unwrap_or(0);
        let text = |field| event.text(field).unwrap_or_default().to_lowercase();
        time >= self.since
            && self.until.is_none_or(|until| time < until)
            && self.operation.has(event.kind())
            && self.is_failure.is_none_or(|wanted| is_failure(event) == Some(wanted))
            && (self.who.is_empty()
                || fits(&text(Field::Who), &self.who)
                || fits(&text(Field::ActsAs), &self.who))
            && (self.target.is_empty() || fits(&text(Field::Target), &self.target))
    }
}

/// Returns true if `name` matches the text `wanted`. If `wanted` is a DN, `name` must be the same DN or a DN below it.
/// Otherwise `name` must contain `wanted`. Both texts must be in lower case.
fn fits(name: &str, wanted: &str) -> bool {
    if !wanted.contains('=') {
        return name.contains(wanted);
    }
    let plain = |text: &str| text.replace(", ", ",");
    let (name, wanted) = (plain(name), plain(wanted));
    let name = name.strip_prefix("dn:").unwrap_or(&name);
    name.strip_suffix(&wanted).is_some_and(|below| below.is_empty() || below.ends_with(','))
}

fn is_failure(event: Event<'_>) -> Option<bool> {
    const GOOD: [ResultCode; 5] = [
        ResultCode::SUCCESS,
        ResultCode::COMPARE_TRUE,
        ResultCode::COMPARE_FALSE,
        ResultCode::REFERRAL,
        ResultCode::SASL_BIND_IN_PROGRESS,
    ];
    let code = event.number(Field::Result)?;
    Some(!GOOD.iter().any(|good| u64::from(good.0) == code))
}

/// The result of reading the audit trail.
#[derive(Debug, Default)]
struct Read {
    /// Position at which the next page continues; `None` if the trail was read to its end.
    next: Option<TrailPosition>,
    /// Time of the last block that was read, in microseconds since 1970.
    until: u64,
    damages: Vec<String>,
}

/// Reads the audit trail and passes each selected event to `take`, the oldest first. Ends with an error if `take`
/// returns an error.
fn read(
    connection: &mut Connection,
    wanted: &EventFilter,
    take: &mut dyn FnMut(Event<'_>) -> Result<(), PageError>,
) -> Result<Read, PageError> {
    let malformed = || PageError::Client(ClientError::Unexpected("a part of the audit trail".to_owned()));
    let started = Instant::now();
    let mut read = Read::default();
    let mut request = TrailRequest { since_micros: wanted.since, from: wanted.from };
    loop {
        let reply = connection.extended(oids::READ_AUDIT, Some(&request.encode()))?;
        PageError::unless_success(reply.outcome, None)?;
        let value = reply.extended.value.unwrap_or_default();
        let answer = TrailAnswer::decode(&value).ok_or_else(malformed)?;
        for piece in &answer.pieces {
            match piece {
                TrailPiece::Damage(text) if read.damages.len() < DAMAGES_MAX => {
                    read.damages.push((*text).to_owned());
                }
                TrailPiece::Damage(_) => {}
                TrailPiece::Torn(_) => {}
                TrailPiece::Block(_, micros, events) => {
                    read.until = *micros;
                    for event in Events::of(events) {
                        let event = event.map_err(|_| malformed())?;
                        if wanted.has(event) {
                            take(event)?;
                        }
                    }
                }
            }
        }
        if answer.is_end || wanted.until.is_some_and(|until| read.until > until.saturating_add(LATE_MICROS)) {
            return Ok(read);
        }
        if started.elapsed() > READ_TIME {
            read.next = Some(answer.next);
            return Ok(read);
        }
        request.from = Some(answer.next);
    }
}

/// Maximum time between an event and the writing of its block, in microseconds. A search for events before a given time
/// ends when it has read a block that was written more than `LATE_MICROS` after the given time.
const LATE_MICROS: u64 = 60_000_000;

fn model(connection: &mut Connection, fields: &Fields, wanted: &EventFilter) -> Result<Value, PageError> {
    let mut newest: VecDeque<Value> = VecDeque::new();
    let (mut bytes, mut has_older) = (0, false);
    let read = read(connection, wanted, &mut |event| {
        bytes += event.as_bytes().len();
        newest.push_front(events::model(event));
        while newest.len() > EVENTS_MAX || (bytes > PAGE_BYTES_MAX && newest.len() > 1) {
            let oldest = newest.pop_back();
            let size = oldest.and_then(|oldest| oldest["bytes"].as_u64()).unwrap_or(0);
            bytes = bytes.saturating_sub(usize::try_from(size).unwrap_or(0));
            has_older = true;
        }
        Ok(())
    })?;
    let older = newest.back().filter(|_| has_older).and_then(|oldest| oldest["time"].as_str());
    let next = read.next.map(|next| format!("{}.{}", next.segment, next.offset));
    Ok(json!({
        "who": fields.text("who"),
        "target": fields.text("target"),
        "operation": fields.text("operation"),
        "result": fields.text("result"),
        "since": fields.given("since").unwrap_or(PERIOD),
        "until": fields.text("until"),
        "kinds": KINDS.map(Kind::name),
        "older": older,
        "read_until": next.as_ref().map(|_| times::readable(read.until)),
        "next": next,
        "damages": read.damages,
        "events": newest,
    }))
}

/// Returns a CSV file with all selected events, the oldest first.
fn file(connection: &mut Connection, wanted: &EventFilter) -> Result<Download, PageError> {
    let mut content = Vec::new();
    put_row(&mut content, COLUMNS.into_iter());
    let too_large = || PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "audit.too_large");
    let read = read(connection, wanted, &mut |event| {
        let event = events::model(event);
        let cell = |column: &&str| match &event[*column] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
            other => other.to_string(),
        };
        let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
        put_row(&mut content, cells.iter().map(String::as_str));
        if content.len() > EXPORT_BYTES_MAX { Err(too_large()) } else { Ok(()) }
    })?;
    if read.next.is_some() {
        return Err(too_large());
    }
    Ok(Download { media_type: "text/csv; charset=utf-8", name: "audit.csv", content })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_by_text_or_by_subtree() {
        for (name, wanted, expected) in [
            ("uid=anna,ou=people,dc=a", "anna", true),
            ("uid=anna,ou=people,dc=a", "ou=people, dc=a", true),
            ("uid=anna,ou=people,dc=a", "uid=anna,ou=people,dc=a", true),
            ("dn:uid=anna,dc=a", "uid=anna,dc=a", true),
            ("xou=people,dc=a", "ou=people,dc=a", false),
            ("dc=a", "ou=people,dc=a", false),
            ("uid=bea,dc=a", "anna", false),
        ] {
            assert_eq!(fits(name, wanted), expected, "{name} {wanted}");
        }
    }

    #[test]
    fn every_event_kind_can_be_selected() {
        assert!(Kind::ALL.iter().all(|kind| KINDS.contains(kind)));
    }
}
