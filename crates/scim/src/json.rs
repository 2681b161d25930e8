//! Parser for the bodies of requests, which are JSON. The depth is limited, and a name may occur only once in an
//! object.
//!
//! The names of attributes are case-insensitive (RFC 7643 section 2.1). Therefore `userName` and `USERNAME` are the
//! same name.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::{Result, ScimError};
use crate::limits::JSON_DEPTH_MAX;

/// Parses a body. It must consist of one JSON object.
///
/// # Errors
/// invalidSyntax. The text of the error contains the position in the body.
pub(crate) fn parse_object(body: &[u8]) -> Result<Map<String, Value>> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let invalid = |error: serde_json::Error| ScimError::syntax(format!("the body is no valid JSON: {error}"));
    let value = Bounded(JSON_DEPTH_MAX).deserialize(&mut deserializer).map_err(invalid)?;
    deserializer.end().map_err(invalid)?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(ScimError::syntax("the body is no JSON object")),
    }
}

/// Deserializes a value of at most this depth.
struct Bounded(usize);

impl<'de> DeserializeSeed<'de> for Bounded {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Bounded {
    fn below<E: Error>(&self) -> std::result::Result<usize, E> {
        self.0.checked_sub(1).ok_or_else(|| E::custom(format!("more than {JSON_DEPTH_MAX} levels")))
    }
}

impl<'de> Visitor<'de> for Bounded {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> std::result::Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> std::result::Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Value, A::Error> {
        let depth = self.below()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Bounded(depth))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Value, A::Error> {
        let depth = self.below()?;
        let (mut object, mut names) = (Map::new(), HashSet::new());
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Bounded(depth))?;
            if !names.insert(name.to_ascii_lowercase()) {
                return Err(A::Error::custom(format!("{:?} is given twice", ldap::Excerpt(&name))));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_bounded_and_unambiguous() {
        let deep = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let at_limit = deep(JSON_DEPTH_MAX);
        assert!(parse_object(at_limit.as_bytes()).is_ok());
        for body in [
            &deep(JSON_DEPTH_MAX + 1),
            &deep(100_000),
            &"[".repeat(100_000),
            r#"{"userName":"a","USERNAME":"b"}"#,
            r#"{"a":1e999}"#,
            r#"{"a":1} x"#,
            "[]",
            "",
            "\u{feff}{}",
            r#"{"a":"\ud800"}"#,
        ] {
            let error = parse_object(body.as_bytes()).unwrap_err();
            assert_eq!((error.status, error.scim_type), (400, Some("invalidSyntax")), "{error:?}");
        }
    }
}
