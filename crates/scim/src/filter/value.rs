//! Tests whether a value matches the filter in the brackets of a PATCH path.

use serde_json::{Map, Value};

use super::{Filter, Operator};

/// Returns true if a value of a multi-valued attribute matches the filter. Upper and lower case of texts are the same.
pub(crate) fn matches(filter: &Filter, object: &Map<String, Value>) -> bool {
    match filter {
        Filter::And(filters) => filters.iter().all(|filter| matches(filter, object)),
        Filter::Or(filters) => filters.iter().any(|filter| matches(filter, object)),
        Filter::Not(filter) => !matches(filter, object),
        Filter::Present(path) => part(object, &path.name).is_some(),
        Filter::Compare(path, operator, value) => compare(part(object, &path.name), *operator, value),
        Filter::HasValue(..) => false,
    }
}

fn part<'o>(object: &'o Map<String, Value>, name: &str) -> Option<&'o Value> {
    object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn compare(found: Option<&Value>, operator: Operator, value: &Value) -> bool {
    let is_equal = match (found, value) {
        (Some(Value::String(found)), Value::String(value)) => found.to_lowercase() == value.to_lowercase(),
        // A boolean that is missing has the value false (RFC 7643 section 2.4 for `primary`).
        (None, Value::Bool(value)) => !value,
        (found, value) => found.unwrap_or(&Value::Null) == value,
    };
    match operator {
        Operator::Equal => return is_equal,
        Operator::NotEqual => return !is_equal,
        _ => {}
    }
    let (Some(Value::String(found)), Value::String(value)) = (found, value) else { return false };
    let (found, value) = (found.to_lowercase(), value.to_lowercase());
    match operator {
        Operator::Contains => found.contains(&value),
        Operator::StartsWith => found.starts_with(&value),
        Operator::EndsWith => found.ends_with(&value),
        Operator::Greater => found > value,
        Operator::GreaterOrEqual => found >= value,
        Operator::Less => found < value,
        Operator::LessOrEqual => found <= value,
        Operator::Equal | Operator::NotEqual => is_equal,
    }
}
