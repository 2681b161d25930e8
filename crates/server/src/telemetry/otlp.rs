//! Traces in the JSON encoding of the OpenTelemetry protocol (OTLP 1.5, `ExportTraceServiceRequest`).
//!
//! The names of the attributes follow OpenTelemetry's semantic conventions for remote procedure calls and databases.
//! Names that begin with `ldap.` or `pando.` are specific to Pando.

use data_encoding::HEXLOWER;
use directory::follow::uuid_text;
use ldap::ResultCode;
use serde_json::{Value, json};

use crate::telemetry::traces::{FORWARDING, TraceLink, TracedOperation};

/// Numbers of the span kinds `SPAN_KIND_INTERNAL`, `SPAN_KIND_SERVER` and `SPAN_KIND_CLIENT`.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;

/// Number of `STATUS_CODE_ERROR`, the status of a failed span.
const ERROR: u8 = 2;

/// Result codes that mean a fault of the server. A span with another code has not failed.
const FAULTS: [ResultCode; 4] =
    [ResultCode::OPERATIONS_ERROR, ResultCode::BUSY, ResultCode::UNAVAILABLE, ResultCode::OTHER];

/// The description of this server in a request.
pub(crate) struct Resource {
    pub(crate) service: String,
    /// Random bytes that identify this run of the server.
    pub(crate) instance: [u8; 16],
}

/// Returns a request to the receiver, with the spans of `operations`. `random` returns the random bytes for the ids of
/// traces and spans.
///
/// # Errors
/// The same as those of `random`.
pub(crate) fn request<E>(
    resource: &Resource,
    operations: &[TracedOperation],
    mut random: impl FnMut() -> Result<[u8; 16], E>,
) -> Result<String, E> {
    let mut spans = Vec::new();
    for operation in operations {
        let trace = match operation.forwarded.or(operation.received) {
            Some(link) => HEXLOWER.encode(&link.trace),
            None => HEXLOWER.encode(&random()?),
        };
        let mut id = || random().map(|bytes| HEXLOWER.encode(bytes.get(..8).unwrap_or_default()));
        let own = id()?;
        spans.push(span(operation, &trace, &own));
        for &(name, first, last) in &operation.stages {
            let forwarding = operation.forwarded.filter(|_| name == FORWARDING);
            spans.push(json!({
                "traceId": trace,
                "spanId": forwarding.map_or_else(&mut id, |link| Ok(HEXLOWER.encode(&link.span)))?,
                "parentSpanId": own,
                "name": name,
                "kind": if forwarding.is_some() { CLIENT } else { INTERNAL },
                "startTimeUnixNano": nanos(operation.started_micros.saturating_add(first)),
                "endTimeUnixNano": nanos(operation.started_micros.saturating_add(last)),
            }));
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    let instance = uuid_text(&resource.instance);
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": [
            text("service.name", &resource.service),
            text("service.version", version),
            text("service.instance.id", &instance),
        ] },
        "scopeSpans": [{ "scope": { "name": "pando", "version": version }, "spans": spans }],
    }] });
    Ok(request.to_string())
}

/// Returns the span of an operation.
fn span(operation: &TracedOperation, trace: &str, id: &str) -> Value {
    let code = ResultCode(operation.code);
    let mut attributes = vec![
        text("rpc.system.name", "ldap"),
        text("rpc.method", operation.name),
        text("rpc.response.status_code", &operation.code.to_string()),
        text("ldap.result", &code.to_string()),
    ];
    let texts = [
        ("ldap.scope", operation.scope),
        ("ldap.oid", operation.oid.as_deref()),
        ("ldap.bind_method", operation.method.as_deref()),
        ("db.query.text", operation.filter.as_deref()),
        ("pando.plan", operation.plan.as_deref()),
    ];
    attributes.extend(texts.into_iter().filter_map(|(name, value)| Some(text(name, value?))));
    let numbers = [
        ("ldap.connection", operation.connection),
        ("ldap.message_id", operation.message_id),
        ("ldap.depth", operation.depth),
        ("db.response.returned_rows", operation.entries),
        ("pando.entries_examined", operation.examined),
    ];
    attributes.extend(numbers.into_iter().filter_map(|(name, value)| Some(number(name, value?))));
    attributes.push(json!({ "key": "pando.slow", "value": { "boolValue": operation.is_slow } }));
    let is_fault = FAULTS.contains(&code);
    if is_fault {
        attributes.push(text("error.type", &code.to_string()));
    }
    let TraceLinks { parent, links } = links_of(operation);
    json!({
        "traceId": trace,
        "spanId": id,
        "parentSpanId": parent,
        "links": links,
        "name": operation.name,
        "kind": SERVER,
        "startTimeUnixNano": nanos(operation.started_micros),
        "endTimeUnixNano": nanos(operation.started_micros.saturating_add(operation.took_micros)),
        "attributes": attributes,
        "status": if is_fault { json!({ "code": ERROR }) } else { json!({}) },
    })
}

/// The parent of an operation's span, and its links to spans of other traces.
struct TraceLinks {
    /// Id of the parent span. It is empty if the span is the root of its trace.
    parent: String,
    links: Vec<Value>,
}

/// Returns the parent and the links of an operation's span. A replica of a replica forwards an operation that was
/// forwarded to it, so the operation belongs to two traces. The span of such an operation is the root of the trace in
/// which it is forwarded, and has a link to its parent span in the trace in which it was received.
fn links_of(operation: &TracedOperation) -> TraceLinks {
    let Some(TraceLink { trace, span }) = &operation.received else {
        return TraceLinks { parent: String::new(), links: Vec::new() };
    };
    let (trace, span) = (HEXLOWER.encode(trace), HEXLOWER.encode(span));
    match operation.forwarded {
        None => TraceLinks { parent: span, links: Vec::new() },
        Some(_) => {
            TraceLinks { parent: String::new(), links: vec![json!({ "traceId": trace, "spanId": span })] }
        }
    }
}

/// Returns the number of spans that the receiver refused, and the receiver's reason (`ExportTracePartialSuccess`).
/// Returns `None` if the receiver refused no span.
pub(crate) fn refused(answer: &[u8]) -> Option<(u64, String)> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let partial = answer.get("partialSuccess")?;
    let count = partial.get("rejectedSpans")?;
    // The JSON mapping of Protocol Buffers writes 64-bit numbers as strings. Receivers must also accept numbers.
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok()).filter(|count| *count > 0)?;
    let reason = partial.get("errorMessage").and_then(Value::as_str).unwrap_or_default();
    Some((count, reason.to_owned()))
}

fn text(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

fn number(name: &str, value: u64) -> Value {
    json!({ "key": name, "value": { "intValue": value.to_string() } })
}

fn nanos(micros: u64) -> String {
    (u128::from(micros) * 1_000).to_string()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn an_operation_becomes_a_span_with_its_stages() {
        let operation = TracedOperation {
            name: "search",
            started_micros: 1_000,
            took_micros: 500,
            code: 51,
            filter: Some("(cn=?)".to_owned()),
            entries: Some(2),
            stages: vec![("plan", 0, 20)],
            ..TracedOperation::default()
        };
        let resource = Resource { service: "directory".to_owned(), instance: [1; 16] };
        let mut count = 0;
        let random = || {
            count += 1;
            Ok::<_, Infallible>([count; 16])
        };
        let text = request(&resource, &[operation], random).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let spans = &value["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let (whole, stage) = (&spans[0], &spans[1]);
        assert_eq!((whole["traceId"].as_str(), whole["kind"].as_u64()), (Some(&*"01".repeat(16)), Some(2)));
        assert_eq!(
            (whole["startTimeUnixNano"].as_str(), whole["endTimeUnixNano"].as_str()),
            (Some("1000000"), Some("1500000"))
        );
        assert_eq!(whole["status"]["code"].as_u64(), Some(2));
        assert!(text.contains(r#"{"key":"db.response.returned_rows","value":{"intValue":"2"}}"#), "{text}");
        assert_eq!((&stage["parentSpanId"], &stage["traceId"]), (&whole["spanId"], &whole["traceId"]));
        assert_eq!(stage["spanId"].as_str(), Some(&*"03".repeat(8)));
        let instance = &value["resourceSpans"][0]["resource"]["attributes"][2]["value"]["stringValue"];
        assert_eq!(instance.as_str(), Some("01010101-0101-0101-0101-010101010101"));
    }

    #[test]
    fn a_forwarded_operation_is_one_trace_on_two_servers() {
        let link = |octet| TraceLink { trace: [octet; 16], span: [octet; 8] };
        let spans = |received, forwarded| -> Vec<Value> {
            let stages = vec![("wait to be forwarded", 0, 5), (FORWARDING, 5, 20)];
            let operation =
                TracedOperation { name: "add", received, forwarded, stages, ..TracedOperation::default() };
            let resource = Resource { service: "directory".to_owned(), instance: [1; 16] };
            let text = request(&resource, &[operation], || Ok::<_, Infallible>([9; 16])).unwrap();
            let value: Value = serde_json::from_str(&text).unwrap();
            value["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
        };
        let (here, there) = (spans(None, Some(link(7))), spans(Some(link(7)), None));
        assert_eq!(here[0]["traceId"], there[0]["traceId"]);
        assert_eq!(there[0]["parentSpanId"], here[2]["spanId"]);
        assert_eq!((here[2]["kind"].as_u64(), here[1]["kind"].as_u64()), (Some(3), Some(1)));
        assert_eq!((&here[0]["parentSpanId"], &here[1]["spanId"]), (&"".into(), &"09".repeat(8).into()));
        let between = spans(Some(link(7)), Some(link(8)));
        assert_eq!(between[0]["traceId"], "08".repeat(16));
        assert_eq!(between[0]["links"][0]["traceId"], "07".repeat(16));
    }

    #[test]
    fn refused_spans_are_read_from_an_answer() {
        let answer = br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#;
        assert_eq!(refused(answer), Some((3, "too old".to_owned())));
        assert_eq!(refused(br#"{"partialSuccess":{"rejectedSpans":2}}"#), Some((2, String::new())));
        assert_eq!(
            (refused(b"{}"), refused(b"<html>"), refused(br#"{"partialSuccess":{}}"#)),
            (None, None, None)
        );
    }
}
