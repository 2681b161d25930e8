//! Events as lines of text, JSON objects, or rows of CSV.

use std::io::{self, Write};

use access_rules::EventPlace;
use audit::{Event, Field, Kind, Values};
use data_encoding::HEXLOWER;
use ldap::ResultCode;
use serde_json::Value;

/// Output format of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One line for each event.
    Text,
    /// One JSON object on each line.
    Json,
    /// One row of CSV for each event, after a header line.
    Csv,
    /// One JSON object on each line, after the header of a syslog message.
    Syslog,
}

/// Names of the columns, in their order.
const COLUMNS: [&str; 34] = [
    "time",
    "operation",
    "connection",
    "message_id",
    "who",
    "acts_as",
    "network",
    "target",
    "scope",
    "filter",
    "name",
    "superior",
    "method",
    "attributes",
    "result",
    "code",
    "reason",
    "entries",
    "micros",
    "position",
    "csn",
    "values",
    "tracking",
    "operation_id",
    "epoch",
    "rule",
    "explained",
    "count",
    "until",
    "segment",
    "offset",
    "hash",
    "block",
    "block_time",
];

/// Prints events.
pub(crate) struct Printer<W> {
    out: W,
    form: Form,
    has_head: bool,
}

impl<W: Write> Printer<W> {
    pub(crate) fn new(out: W, form: Form) -> Printer<W> {
        Printer { out, form, has_head: false }
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Prints an event, and the explanations of its decision if there are any.
    pub(crate) fn event(
        &mut self,
        event: Event<'_>,
        written: EventPlace,
        explained: Vec<String>,
    ) -> io::Result<()> {
        let cells = cells(event, written, explained);
        match self.form {
            Form::Text => self.text(&cells),
            Form::Json => self.json(&cells),
            Form::Csv => self.csv(&cells),
            Form::Syslog => self.syslog(&cells),
        }
    }

    fn text(&mut self, cells: &[(&str, Value)]) -> io::Result<()> {
        let mut separator = "";
        // The text form omits two columns: the code, which the name of the result implies, and the time of the block,
        // which is close to the times of its events.
        for (name, value) in cells.iter().filter(|(name, _)| !["block_time", "code"].contains(name)) {
            write!(self.out, "{separator}")?;
            match (*name, value) {
                ("time" | "operation", Value::String(text)) => write!(self.out, "{text}")?,
                (_, Value::String(text)) if is_plain(text) => write!(self.out, "{name}={text}")?,
                // Values are quoted, and control characters are escaped, so that a value cannot forge a line.
                (_, Value::String(text)) => write!(self.out, "{name}={text:?}")?,
                (_, Value::Array(list)) if list.iter().all(Value::is_string) => {
                    let texts: Vec<_> = list.iter().filter_map(Value::as_str).collect();
                    let joined = texts.join(",");
                    match is_plain(&joined) {
                        true => write!(self.out, "{name}={joined}")?,
                        false => write!(self.out, "{name}={joined:?}")?,
                    }
                }
                (_, value) => write!(self.out, "{name}={value}")?,
            }
            separator = " ";
        }
        writeln!(self.out)
    }

    fn json(&mut self, cells: &[(&str, Value)]) -> io::Result<()> {
        for (index, (name, value)) in cells.iter().enumerate() {
            write!(self.out, "{}{name:?}:{value}", if index == 0 { "{" } else { "," })?;
        }
        writeln!(self.out, "}}")
    }

    fn syslog(&mut self, cells: &[(&str, Value)]) -> io::Result<()> {
        const WARNING: u8 = 4;
        const NOTICE: u8 = 5;
        const INFORMATIONAL: u8 = 6;
        let cell = |wanted| cells.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value);
        let text = |wanted| cell(wanted).and_then(Value::as_str).unwrap_or("-");
        let code = cell("code").and_then(Value::as_u64).and_then(|code| u32::try_from(code).ok());
        let is_success = code.is_none_or(|code| super::chosen::is_success(ResultCode(code)));
        let severity = match text("operation") {
            "lost" | "gap" => WARNING,
            _ if is_success => INFORMATIONAL,
            _ => NOTICE,
        };
        write!(self.out, "{}", super::syslog::head(severity, text("time"), text("operation")))?;
        self.json(cells)
    }

    fn csv(&mut self, cells: &[(&str, Value)]) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(&mut self.out);
        if !std::mem::replace(&mut self.has_head, true) {
            writer.write_record(COLUMNS).map_err(io::Error::from)?;
        }
        let cell = |column: &&str| {
            let found = cells.iter().find(|(name, _)| name == column).map(|(_, value)| value);
            match found {
                None => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
            }
        };
        writer.write_record(COLUMNS.iter().map(cell)).map_err(io::Error::from)?;
        writer.flush()
    }
}

/// Returns true if a value needs no quotes in the text form.
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=,.:;-_/+*@#[]".contains(&byte))
}

/// Returns the values of an event, each with the name of its column.
fn cells(event: Event<'_>, written: EventPlace, explained: Vec<String>) -> Vec<(&'static str, Value)> {
    let mut cells: Vec<(&'static str, Value)> = Vec::with_capacity(16);
    let kind = event.kind();
    let name = kind.map_or_else(
        || format!("unknown-{}", event.number(Field::Kind).unwrap_or(0)),
        |kind| kind.name().to_owned(),
    );
    cells.push(("time", rfc3339(event.number(Field::Time).unwrap_or(written.micros)).into()));
    cells.push(("operation", name.into()));
    let number = |cells: &mut Vec<_>, name, field| {
        if let Some(number) = event.number(field) {
            cells.push((name, Value::from(number)));
        }
    };
    let text = |cells: &mut Vec<_>, name, field| {
        if let Some(text) = event.text(field) {
            cells.push((name, Value::from(text.into_owned())));
        }
    };
    let hex = |cells: &mut Vec<_>, name, field| {
        if let Some(bytes) = event.bytes(field) {
            cells.push((name, Value::from(HEXLOWER.encode(bytes))));
        }
    };
    number(&mut cells, "connection", Field::Connection);
    number(&mut cells, "message_id", Field::MessageId);
    text(&mut cells, "who", Field::Who);
    text(&mut cells, "acts_as", Field::ActsAs);
    text(&mut cells, "network", Field::Network);
    text(&mut cells, "target", Field::Target);
    if let Some(scope) = event.number(Field::Scope) {
        cells.push(("scope", server::scope_name(scope).into()));
    }
    if kind == Some(Kind::Search) {
        cells.push(("filter", server::logged_filter(event).into()));
    }
    text(&mut cells, "name", Field::Name);
    text(&mut cells, "superior", Field::Superior);
    text(&mut cells, "method", Field::Method);
    let attributes: Vec<_> =
        event.texts(Field::Attribute).map(|name| Value::from(name.into_owned())).collect();
    if !attributes.is_empty() {
        cells.push(("attributes", Value::Array(attributes)));
    }
    if let Some(code) = event.number(Field::Result) {
        let named = ResultCode(u32::try_from(code).unwrap_or(u32::MAX));
        cells.push(("result", named.to_string().into()));
        cells.push(("code", code.into()));
    }
    text(&mut cells, "reason", Field::Reason);
    number(&mut cells, "entries", Field::Entries);
    number(&mut cells, "micros", Field::Took);
    number(&mut cells, "position", Field::Position);
    text(&mut cells, "csn", Field::Csn);
    let values: Vec<_> = event.all(Field::Values).filter_map(Values::parse).map(printed_values).collect();
    if !values.is_empty() {
        cells.push(("values", Value::Array(values)));
    }
    let tracking = tracking(event);
    if !tracking.is_empty() {
        cells.push(("tracking", Value::Array(tracking)));
    }
    hex(&mut cells, "operation_id", Field::OperationId);
    number(&mut cells, "epoch", Field::Epoch);
    text(&mut cells, "rule", Field::Rule);
    if !explained.is_empty() {
        cells.push(("explained", explained.into()));
    }
    number(&mut cells, "count", Field::Count);
    number(&mut cells, "until", Field::Until);
    number(&mut cells, "segment", Field::Segment);
    number(&mut cells, "offset", Field::Offset);
    hex(&mut cells, "hash", Field::Hash);
    cells.push(("block", written.block.into()));
    cells.push(("block_time", rfc3339(written.micros).into()));
    cells
}

/// Returns the values of the session tracking controls in an event, in their order.
fn tracking(event: Event<'_>) -> Vec<Value> {
    let texts = |field| event.texts(field);
    let parts = texts(Field::TrackingAddress)
        .zip(texts(Field::TrackingName))
        .zip(texts(Field::TrackingFormat))
        .zip(texts(Field::TrackingIdentifier));
    let shown = parts.map(|(((address, name), format), identifier)| {
        serde_json::json!({"address": address, "name": name, "format": format, "identifier": identifier})
    });
    shown.collect()
}

/// Returns the values of a changed attribute. If a value is not UTF-8, each of its octets is written as a backslash and
/// two hexadecimal digits (RFC 4514 section 2.4).
fn printed_values(values: Values<'_>) -> Value {
    let shown = |value: &[u8]| match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().map(|byte| format!("\\{byte:02x}")).collect(),
    };
    let list: Vec<_> = values.iter().map(|value| Value::from(shown(value))).collect();
    serde_json::json!({
        "attribute": String::from_utf8_lossy(values.attribute),
        "fate": values.fate.name(),
        "values": list,
    })
}

/// Formats a time by RFC 3339, in UTC.
pub(crate) fn rfc3339(micros: u64) -> String {
    let text = directory::csn::rfc3339(micros / 1_000_000);
    format!("{}.{:06}Z", text.trim_end_matches('Z'), micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use audit::EventWriter;

    use super::*;

    fn print_event(form: Form) -> String {
        let mut fields = Vec::new();
        EventWriter::new(&mut fields)
            .kind(Kind::Bind)
            .number(Field::Time, 1_795_507_200_000_001)
            .text(Field::Target, "cn=a b,\"\n")
            .number(Field::Result, 49);
        let written = EventPlace { block: 7, micros: 0 };
        let mut printer = Printer::new(Vec::new(), form);
        let event = Event::parse(&fields).unwrap();
        printer.event(event, written, Vec::new()).unwrap();
        printer.event(event, written, Vec::new()).unwrap();
        String::from_utf8(printer.out).unwrap()
    }

    #[test]
    fn an_event_is_a_line_in_each_form() {
        let line =
            "2026-11-24T08:00:00.000001Z bind target=\"cn=a b,\\\"\\n\" result=invalidCredentials block=7\n";
        assert_eq!(print_event(Form::Text), line.repeat(2));
        let json = print_event(Form::Json);
        for line in json.lines() {
            let object: Value = serde_json::from_str(line).unwrap();
            assert_eq!(object["target"], "cn=a b,\"\n");
            assert_eq!((&object["code"], &object["block"]), (&Value::from(49), &Value::from(7)));
        }
        let csv = print_event(Form::Csv);
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        assert_eq!(reader.headers().unwrap(), COLUMNS.as_slice());
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!((rows.len(), &rows[0][7]), (2, "cn=a b,\"\n"));
    }
}
