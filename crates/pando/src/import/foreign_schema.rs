//! Schemas of other servers for `--schema-from`. They are read from files, or from the definitions that a server
//! publishes.

use std::fmt::Write as _;
use std::path::Path;

use client::{ClientError, Connection};
use ldap::ServerUrl;
use server::ServeError;
use server::settings::SchemaFrom;

use super::ImportArguments;
use crate::online::Identity;

/// Attributes of the subschema subentry that are read (RFC 4512 section 4.2). Syntaxes and matching rules are not read,
/// because Pando implements its own.
const DEFINITIONS: [&str; 6] =
    ["ldapSyntaxes", "attributeTypes", "objectClasses", "dITContentRules", "nameForms", "dITStructureRules"];

/// Reads the schemas that the options name.
pub(super) fn read(arguments: &ImportArguments) -> Result<Vec<SchemaFrom>, ServeError> {
    arguments.schema_from.iter().map(|source| from(arguments, source)).collect()
}

fn from(arguments: &ImportArguments, source: &Path) -> Result<SchemaFrom, ServeError> {
    let text = source.to_str().unwrap_or_default();
    if !["ldap://", "ldaps://", "ldapi://"].iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(SchemaFrom::Path(source.to_owned()));
    }
    let failed = |what: String| ServeError::Text {
        name: format!("the schema of {text}"),
        error: std::io::Error::other(what),
    };
    let url: ServerUrl =
        text.parse().map_err(|error: <ServerUrl as std::str::FromStr>::Err| failed(error.to_string()))?;
    let identity = Identity {
        bind_dn: arguments.bind_dn.as_ref(),
        password_file: arguments.password_file.as_deref(),
        tls_ca: arguments.tls_ca.as_deref(),
    };
    let mut connection = identity.connect(&url).map_err(|error| failed(error.to_string()))?;
    let published = published(&mut connection).map_err(|error| failed(error.to_string()))?;
    let Some(published) = published else {
        return Err(failed("it is not readable for this identity; --bind-dn names another".to_owned()));
    };
    Ok(SchemaFrom::Server { url: text.to_owned(), text: published })
}

/// Returns the definitions that a server publishes, as LDIF. Returns `None` if the server publishes none.
fn published(connection: &mut Connection) -> Result<Option<String>, ClientError> {
    let root = connection.entry("", &["subschemaSubentry"])?;
    let Some(name) = root.and_then(|root| root.texts("subschemaSubentry").into_iter().next()) else {
        return Ok(None);
    };
    let Some(entry) = connection.entry(&name, &DEFINITIONS)? else { return Ok(None) };
    let mut text = String::new();
    for attribute in DEFINITIONS {
        for definition in entry.texts(attribute) {
            let _ = writeln!(text, "{attribute}: {}", definition.replace(['\r', '\n'], " "));
        }
    }
    Ok((!text.is_empty()).then_some(text))
}
