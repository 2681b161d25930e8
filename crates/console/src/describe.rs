//! Models of attributes and their values for pages. The models depend on the schema.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::Connection;
use data_encoding::BASE64;
use schema::{AttributeType, Schema, SchemaBuilder};
use serde_json::{Value, json};

use crate::requests::Values;

/// Time for which the schema is cached.
const SCHEMA_TIME: Duration = Duration::from_secs(60);

/// Syntaxes whose values contain DNs of entries.
const DN_SYNTAXES: [&str; 2] = ["1.3.6.1.4.1.1466.115.121.1.12", "1.3.6.1.4.1.1466.115.121.1.34"];
const BOOLEAN: &str = "1.3.6.1.4.1.1466.115.121.1.7";
const GENERALIZED_TIME: &str = "1.3.6.1.4.1.1466.115.121.1.24";
const POSTAL_ADDRESS: &str = "1.3.6.1.4.1.1466.115.121.1.41";

/// Attributes of the subschema subentry that contain definitions (RFC 4512 section 4.2).
const DEFINITIONS: [&str; 4] = ["ldapSyntaxes", "matchingRules", "attributeTypes", "objectClasses"];

/// The cached schema of the server.
#[derive(Default)]
pub(crate) struct SchemaCache(Mutex<Option<(Instant, Arc<Schema>)>>);

impl SchemaCache {
    /// Returns the schema, or the built-in definitions if the requester cannot read the schema. If the schema is not
    /// cached, reads it over the requester's connection. Blocks.
    pub(crate) fn get(&self, connection: &mut Connection) -> Arc<Schema> {
        let is_readable = subschema(connection, &["1.1"]).is_some();
        if !is_readable {
            return Schema::shipped();
        }
        let now = Instant::now();
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, schema)) = &*cached
            && now.saturating_duration_since(*read) < SCHEMA_TIME
        {
            return Arc::clone(schema);
        }
        let schema = read(connection).unwrap_or_else(Schema::shipped);
        *cached = Some((now, Arc::clone(&schema)));
        schema
    }
}

fn subschema(connection: &mut Connection, attributes: &[&str]) -> Option<client::Entry> {
    let root = connection.entry("", &["subschemaSubentry"]).ok()??;
    let name = root.text("subschemaSubentry")?;
    let filter = "(objectClass=subschema)";
    let reply = connection.search(&name, ldap::Scope::BaseObject, filter, attributes).ok()?;
    reply.entries.into_iter().next()
}

fn read(connection: &mut Connection) -> Option<Arc<Schema>> {
    let entry = subschema(connection, &DEFINITIONS)?;
    let mut text = String::new();
    for name in DEFINITIONS {
        for definition in entry.texts(name) {
            text.push_str(&format!("{name}: {}\n", definition.replace('\n', " ")));
        }
    }
    let built = SchemaBuilder::shipped().add_text("subschema", &text).build();
    built.inspect_err(|error| tracing::debug!("the console cannot read the published schema: {error}")).ok()
}

/// Returns the definition of the attribute type in `description`. Options are ignored.
pub(crate) fn type_of<'s>(schema: &'s Schema, description: &str) -> Option<&'s AttributeType> {
    schema.attribute_type(description.split(';').next().unwrap_or_default())
}

/// Returns the kind of form input for an attribute: `text`, `boolean`, `lines` or `dn`. Returns `none` if its values
/// cannot be edited as text.
pub(crate) fn input_of(schema: &Schema, description: &str) -> &'static str {
    let Some(found) = type_of(schema, description) else { return "text" };
    let syntax = schema.syntax_by_id(found.syntax);
    match syntax.oid.as_str() {
        _ if found.no_user_modification || found.names.iter().any(|name| name == "userPassword") => "none",
        _ if !syntax.human_readable => "none",
        BOOLEAN => "boolean",
        oid if DN_SYNTAXES.contains(&oid) => "dn",
        _ if found.names.iter().any(|name| name == "description") => "lines",
        _ => "text",
    }
}

/// Returns the model of an attribute with its name, description and values.
pub(crate) fn attribute(schema: &Schema, found: &Values) -> Value {
    let definition = type_of(schema, &found.description);
    let values: Vec<Value> =
        found.values.iter().map(|octets| value(schema, &found.description, octets)).collect();
    json!({
        "name": found.description,
        "description": definition.and_then(|definition| definition.description.as_deref()),
        "operational": definition.is_some_and(AttributeType::is_operational),
        "values": values,
        "next": found.next,
    })
}

/// Returns the model of a value. The model contains the `kind` of the value, and its text or its octets in base64.
pub(crate) fn value(schema: &Schema, description: &str, octets: &[u8]) -> Value {
    let syntax = type_of(schema, description).map(|found| schema.syntax_by_id(found.syntax));
    let syntax_oid = syntax.map(|syntax| syntax.oid.as_str()).unwrap_or_default();
    let text = std::str::from_utf8(octets).ok().filter(|text| is_text(text));
    if let Some(media_type) = image(octets) {
        return json!({
            "kind": "image", "bytes": octets.len(), "media_type": media_type, "base64": BASE64.encode(octets),
        });
    }
    match text.filter(|_| syntax.is_none_or(|syntax| syntax.human_readable) || octets.is_ascii()) {
        Some(text) if DN_SYNTAXES.contains(&syntax_oid) => {
            let dn = schema::split_name_and_uid(text.as_bytes()).0;
            json!({ "kind": "dn", "text": text, "dn": String::from_utf8_lossy(dn) })
        }
        Some(text) if syntax_oid == GENERALIZED_TIME => {
            json!({ "kind": "time", "text": text, "shown": readable_time(text) })
        }
        Some(text) if syntax_oid == POSTAL_ADDRESS => {
            json!({ "kind": "lines", "text": text, "lines": text.split('$').map(str::trim).collect::<Vec<_>>() })
        }
        Some(text) => json!({ "kind": "text", "text": text }),
        None => binary(octets),
    }
}

/// Returns the text of `subject`, the subject of a certificate. OIDs that the built-in schema contains are replaced by
/// their names.
pub(crate) fn subject_text(subject: &str) -> String {
    let schema = Schema::shipped();
    let name_of = |number| schema.attribute_type(number).map_or(number, |known| known.name());
    match ldap::Dn::parse(subject) {
        Ok(parsed) => parsed.normal_text(name_of),
        Err(_) => subject.to_owned(),
    }
}

fn binary(octets: &[u8]) -> Value {
    match schema::certificate_facts(octets) {
        Ok(facts) => json!({
            "kind": "certificate", "bytes": octets.len(), "subject": subject_text(&facts.subject),
            "issuer": subject_text(&facts.issuer), "serial": facts.serial, "algorithm": facts.signature_algorithm,
            "not_before": seconds_text(facts.not_before), "not_after": seconds_text(facts.not_after),
            "base64": BASE64.encode(octets),
        }),
        Err(_) => json!({ "kind": "binary", "bytes": octets.len(), "base64": BASE64.encode(octets) }),
    }
}

/// Formats a time. `seconds` is the time since 1970.
fn seconds_text(seconds: i64) -> String {
    let time = time::OffsetDateTime::from_unix_timestamp(seconds).ok();
    time.map_or_else(
        || seconds.to_string(),
        |time| {
            let (hour, minute, second) = time.to_hms();
            format!("{} {hour:02}:{minute:02}:{second:02} UTC", time.date())
        },
    )
}

/// Returns true if a page can show the text. The text must contain no control characters other than line breaks and
/// tabs.
fn is_text(text: &str) -> bool {
    text.chars().all(|char| !char.is_control() || matches!(char, '\n' | '\r' | '\t'))
}

/// Returns the media type of an image that browsers can show. Returns `None` for SVG, because it can contain scripts.
pub(crate) fn image(octets: &[u8]) -> Option<&'static str> {
    match octets {
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        _ => None,
    }
}

/// Formats a generalized time as `2026-11-27 08:30:00 UTC`. Returns the text unchanged if it is not a generalized time
/// in UTC.
pub(crate) fn readable_time(text: &str) -> String {
    let digits =
        |from: usize, to: usize| text.get(from..to).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let parts = || {
        Some((digits(0, 4)?, digits(4, 6)?, digits(6, 8)?, digits(8, 10)?, digits(10, 12)?, digits(12, 14)?))
    };
    match parts() {
        Some((year, month, day, hour, minute, second)) if text.ends_with('Z') => {
            format!("{year}-{month}-{day} {hour}:{minute}:{second} UTC")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_value_follows_from_its_syntax_and_octets() {
        let schema = Schema::shipped();
        let kind = |description: &str, octets: &[u8]| {
            value(&schema, description, octets)["kind"].as_str().unwrap().to_owned()
        };
        assert_eq!(kind("cn", b"Ana"), "text");
        assert_eq!(kind("cn", b"A\x1b[0m"), "binary", "control characters");
        assert_eq!(kind("member", b"cn=a,dc=b"), "dn");
        assert_eq!(kind("jpegPhoto", b"\xff\xd8\xff\xe0"), "image");
        assert_eq!(kind("jpegPhoto", b"<svg onload=alert(1)>"), "text");
        assert_eq!(kind("cn", b"\xff"), "binary");
        assert_eq!(kind("unknown", "ü".as_bytes()), "text");
        assert_eq!(value(&schema, "createTimestamp", b"20261127083000Z")["shown"], "2026-11-27 08:30:00 UTC");
        assert_eq!(input_of(&schema, "userPassword"), "none");
        assert_eq!(input_of(&schema, "manager"), "dn");
        assert_eq!(input_of(&schema, "jpegPhoto"), "none");
    }
}
