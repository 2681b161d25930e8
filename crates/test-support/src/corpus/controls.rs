//! Request controls of operations in the corpus.

use super::unescape;
use ldap::{Control, ControlsBuf, FilterBuf, SelectionBuf, oids};

/// A control of a request.
pub(super) struct RequestControl {
    pub(super) oid: String,
    critical: bool,
    value: Value,
}

enum Value {
    Absent,
    Octets(Vec<u8>),
    /// The identifier of the transaction that the client started last.
    Transaction,
}

/// Parses names of controls, separated by spaces. A control whose name ends with a question mark is not critical.
pub(super) fn parse(text: &str) -> Option<Vec<RequestControl>> {
    text.split_whitespace().map(parse_one).collect()
}

fn parse_one(word: &str) -> Option<RequestControl> {
    let (name, argument) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let (name, critical) = name.strip_suffix('?').map_or((name, true), |name| (name, false));
    let octets = argument.map(|text| Value::Octets(unescape(text)));
    let (oid, value) = match (name, argument) {
        ("manage", None) => (oids::MANAGE_DSA_IT, Value::Absent),
        ("relax", None) => (oids::RELAX_RULES, Value::Absent),
        ("no-op", None) => (oids::NO_OPERATION, Value::Absent),
        ("count", None) => (oids::SEARCH_NO_OP, Value::Absent),
        ("what-failed", None) => (oids::WHAT_FAILED, Value::Absent),
        ("no-copy", _) => (oids::DONT_USE_COPY, octets.unwrap_or(Value::Absent)),
        ("transaction", _) => (oids::TRANSACTION_SPECIFICATION, octets.unwrap_or(Value::Transaction)),
        ("assert", Some(filter)) => (oids::ASSERTION, assertion(filter)?),
        ("pre-read", Some(names)) => (oids::PRE_READ, selection(names)),
        ("post-read", Some(names)) => (oids::POST_READ, selection(names)),
        (oid, _) if oid.starts_with(|c: char| c.is_ascii_digit()) => (oid, octets.unwrap_or(Value::Absent)),
        _ => return None,
    };
    Some(RequestControl { oid: oid.to_owned(), critical, value })
}

fn assertion(filter: &str) -> Option<Value> {
    let mut octets = Vec::new();
    FilterBuf::parse(filter).ok()?.as_filter().encode(&mut octets);
    Some(Value::Octets(octets))
}

fn selection(names: &str) -> Value {
    let names: SelectionBuf = names.split(',').collect();
    let mut octets = Vec::new();
    ber::put_element(&mut octets, ber::Tag::SEQUENCE, names.as_selection().as_bytes());
    Value::Octets(octets)
}

/// Returns the controls for a request.
pub(super) fn encode(wanted: &[RequestControl], transaction: &[u8]) -> ControlsBuf {
    let mut controls = ControlsBuf::new();
    for RequestControl { oid, critical, value } in wanted {
        let value = match value {
            Value::Absent => None,
            Value::Octets(octets) => Some(octets.as_slice()),
            Value::Transaction => Some(transaction),
        };
        controls.push(Control { oid, critical: *critical, value });
    }
    controls
}

/// Returns true if an operation with these controls is a change in the client's transaction.
pub(super) fn are_of_transaction(wanted: &[RequestControl]) -> bool {
    wanted.iter().any(|control| control.oid == oids::TRANSACTION_SPECIFICATION)
}
