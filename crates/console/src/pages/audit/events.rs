//! Models of events of the audit trail for pages.

use ::audit::{Event, Field, Kind, Values};
use ldap::{DecodeLimits, Filter, ResultCode};
use serde_json::{Value, json};

use crate::times;

/// Maximum number of characters of a value that a page shows.
const VALUE_CHARS_MAX: usize = 200;

/// Maximum number of an attribute's values that a page shows.
const VALUES_MAX: usize = 10;

/// Returns the model of an event.
pub(super) fn model(event: Event<'_>) -> Value {
    let text = |field| event.text(field).map(|text| text.into_owned());
    let time = event.number(Field::Time).unwrap_or(0);
    let code = event.number(Field::Result);
    let named = code.map(|code| ResultCode(u32::try_from(code).unwrap_or(u32::MAX)));
    let attributes: Vec<String> = event.texts(Field::Attribute).map(|name| name.into_owned()).collect();
    let values: Vec<Value> = event.all(Field::Values).filter_map(Values::parse).map(values).collect();
    json!({
        "time": exact(time),
        "shown": times::readable(time),
        "operation": event.kind().map(Kind::name),
        "who": text(Field::Who),
        "acts_as": text(Field::ActsAs),
        "network": text(Field::Network),
        "target": text(Field::Target),
        "attributes": attributes,
        "values": values,
        "code": code,
        "result": named.map(|code| code.to_string()),
        "failed": super::is_failure(event),
        "reason": text(Field::Reason),
        "rule": text(Field::Rule),
        "detail": detail(event),
        "entries": event.number(Field::Entries),
        "connection": event.number(Field::Connection),
        "position": event.number(Field::Position),
        "bytes": event.as_bytes().len(),
    })
}

/// Formats a time with microseconds. The form of the search accepts this format.
fn exact(micros: u64) -> String {
    format!("{}.{:06}Z", times::text(micros).trim_end_matches('Z'), micros % 1_000_000)
}

/// Returns the additional detail in an event: a filter, a new name, the method of a bind, or the name of an extended
/// operation.
fn detail(event: Event<'_>) -> Option<String> {
    let text = |field| event.text(field).map(|text| text.into_owned());
    match event.kind()? {
        Kind::Search => match event.bytes(Field::Filter) {
            Some(bytes) => {
                let filter = Filter::from_bytes(bytes, &DecodeLimits::AUTHENTICATED).ok()?;
                Some(cut(&filter.to_string()))
            }
            None => text(Field::FilterText),
        },
        Kind::ModifyDn => {
            let parts = [text(Field::Name), text(Field::Superior)];
            Some(parts.into_iter().flatten().collect::<Vec<_>>().join(","))
        }
        Kind::Extended => {
            let oid = text(Field::Name)?;
            Some(ldap::oids::extended_operation_name(&oid).map_or(oid, str::to_owned))
        }
        Kind::Bind | Kind::Tls => {
            let parts = [text(Field::Method), text(Field::Name)];
            Some(parts.into_iter().flatten().collect::<Vec<_>>().join(" ")).filter(|parts| !parts.is_empty())
        }
        _ => text(Field::Name),
    }
}

fn values(values: Values<'_>) -> Value {
    let shown: Vec<String> = values.iter().take(VALUES_MAX).map(value).collect();
    json!({
        "attribute": String::from_utf8_lossy(values.attribute),
        "fate": values.fate.name(),
        "more": values.iter().count().saturating_sub(VALUES_MAX),
        "values": shown,
    })
}

fn value(octets: &[u8]) -> String {
    std::str::from_utf8(octets).map_or_else(|_| format!("[{} bytes]", octets.len()), cut)
}

fn cut(text: &str) -> String {
    match text.chars().count() > VALUE_CHARS_MAX {
        true => text.chars().take(VALUE_CHARS_MAX).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ::audit::EventWriter;

    use super::*;

    #[test]
    fn an_event_has_words_for_people_and_numbers_for_programs() {
        let mut fields = Vec::new();
        EventWriter::new(&mut fields)
            .kind(Kind::Bind)
            .number(Field::Time, 1_795_767_000_000_007)
            .text(Field::Target, "uid=anna")
            .text(Field::Method, "simple")
            .number(Field::Result, 49)
            .text(Field::Reason, "wrong password");
        let model = model(Event::parse(&fields).unwrap());
        assert_eq!(model["time"], "2026-11-27T08:10:00.000007Z");
        assert_eq!(model["failed"], true);
        assert_eq!((&model["operation"], &model["detail"]), (&json!("bind"), &json!("simple")));
        assert_eq!((&model["code"], &model["reason"]), (&json!(49), &json!("wrong password")));
    }
}
