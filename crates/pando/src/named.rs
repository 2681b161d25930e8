//! Lookup and change of entries that have short names, such as users and groups.

use std::process::ExitCode;

use clap::Args;
use client::{Connection, Outcome};
use ldap::{
    AttributesBuf, ChangeOperation, Controls, Dn, FilterBuf, Response, ResultCode, Scope, SearchEntry,
    SearchRequest, SelectionBuf, filter_value,
};
use serde_json::json;
use server::values::DnText;

use crate::exit;
use crate::online::{TargetArguments, refusal};
use crate::print::{self, Report};
use crate::search::results::{Form, Results};

/// Kind of entries with short names.
pub(crate) struct Kind {
    /// Name of the kind in messages.
    pub(crate) word: &'static str,
    /// Attribute that contains the short name.
    pub(crate) attribute: &'static str,
    /// Filter that selects entries of this kind.
    pub(crate) filter: &'static str,
    /// RDN of the container below a suffix to which new entries are added.
    pub(crate) container: &'static str,
}

/// Users: people with a uid.
pub(crate) const USER: Kind =
    Kind { word: "user", attribute: "uid", filter: "(objectClass=person)", container: "ou=people" };

/// Arguments that name the entry of a command.
#[derive(Debug, Args)]
pub(crate) struct NamedArguments {
    #[command(flatten)]
    pub(crate) server: TargetArguments,
    /// Short name, or DN
    pub(crate) name: String,
}

/// Arguments of a list: its selection and form.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    server: TargetArguments,
    /// List only those at or below this entry [default: the whole directory]
    #[arg(long, value_name = "DN")]
    base: Option<DnText>,
    /// List only those that match this filter (RFC 4515)
    #[arg(long, value_name = "FILTER", value_parser = crate::online::parse_filter)]
    filter: Option<FilterBuf>,
}

/// A connection that looks up entries by short names.
pub(crate) struct Named {
    pub(crate) connection: Connection,
    pub(crate) suffixes: Vec<String>,
}

impl Named {
    pub(crate) fn connect(server: &TargetArguments) -> Result<Named, String> {
        let mut connection = server.connect()?;
        let root = connection.entry("", &["namingContexts"]).map_err(|error| error.to_string())?;
        let suffixes = root.map(|root| root.texts("namingContexts")).unwrap_or_default();
        Ok(Named { connection, suffixes })
    }

    /// Calls `each` with the entries at or below `base` that match the filter. Without `base`, searches below all
    /// suffixes.
    pub(crate) fn each(
        &mut self,
        base: Option<&str>,
        filter: &FilterBuf,
        attributes: &[&str],
        each: &mut dyn FnMut(&SearchEntry<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let bases = base.map_or_else(|| self.suffixes.clone(), |base| vec![base.to_owned()]);
        let selection = SelectionBuf::from_iter(attributes);
        for place in &bases {
            let (filter, selection) = (filter.as_filter(), selection.as_selection());
            let request = SearchRequest::new(place, Scope::WholeSubtree, filter, selection);
            let ended = self
                .connection
                .search_each(request, Controls::NONE, |entry| each(entry).map_err(Interrupted::Each));
            let ended = match ended {
                Ok(ended) => ended,
                Err(Interrupted::Client(error)) => return Err(error.to_string()),
                Err(Interrupted::Each(error)) => return Err(error),
            };
            if let Response::SearchDone(result) = ended.message().response
                && result.code != ResultCode::SUCCESS
                && (base.is_some() || result.code != ResultCode::NO_SUCH_OBJECT)
            {
                return Err(refusal(result.code, result.diagnostic));
            }
        }
        Ok(())
    }

    /// Returns the DN of the entry with a short name. Fails unless exactly one entry has the name. A name that is a DN
    /// is returned unchanged.
    pub(crate) fn dn(&mut self, kind: &Kind, name: &str) -> Result<String, String> {
        if name.contains('=') && Dn::parse(name).is_ok() {
            return Ok(name.to_owned());
        }
        let filter = parse(&format!("(&{}({}={}))", kind.filter, kind.attribute, filter_value(name)))?;
        let mut found = Vec::new();
        self.each(None, &filter, &["1.1"], &mut |entry| {
            found.push(entry.object_name.to_owned());
            Ok(())
        })?;
        match found.as_slice() {
            [] => Err(format!("there is no {} {name}", kind.word)),
            [dn] => Ok(dn.clone()),
            [first, second, ..] => Err(format!("{name} is the name of {first} and {second}: give a DN")),
        }
    }

    /// Returns the DN of the entry below which new entries of this kind are added.
    pub(crate) fn parent(&mut self, kind: &Kind, given: Option<&DnText>) -> Result<String, String> {
        if let Some(given) = given {
            return Ok(given.as_str().to_owned());
        }
        let usual: Vec<String> =
            self.suffixes.iter().map(|suffix| format!("{},{suffix}", kind.container)).collect();
        let mut found = Vec::new();
        for dn in usual {
            let entry = self.connection.entry(&dn, &["1.1"]).map_err(|error| error.to_string())?;
            found.extend(entry.map(|entry| entry.dn));
        }
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(format!("there is no entry {} below a suffix: give --parent DN", kind.container)),
            _ => Err(format!("there are {}: give --parent DN", found.join(" and "))),
        }
    }

    /// Adds an entry below `parent`, and returns its DN.
    pub(crate) fn add(
        &mut self,
        kind: &Kind,
        parent: &str,
        name: &str,
        attributes: &[(String, String)],
    ) -> Result<String, String> {
        let dn = format!("{}={},{parent}", kind.attribute, ldap::escaped_value(name.as_bytes()));
        let list: Vec<(&str, &str)> = attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
        done(self.connection.add(&dn, &list))?;
        Ok(dn)
    }

    /// Replaces the values of attributes. An empty value removes the attribute.
    pub(crate) fn set(&mut self, dn: &str, assignments: &[Assignment]) -> Result<(), String> {
        let mut changes: Vec<(&str, Vec<&str>)> = Vec::new();
        for Assignment(name, value) in assignments {
            let values = match changes.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
                Some((_, values)) => values,
                None => {
                    changes.push((name, Vec::new()));
                    &mut changes.last_mut().ok_or("no change")?.1
                }
            };
            values.extend(Some(value.as_str()).filter(|value| !value.is_empty()));
        }
        let changes: Vec<(ChangeOperation, &str, &[&str])> = changes
            .iter()
            .map(|(name, values)| (ChangeOperation::Replace, *name, values.as_slice()))
            .collect();
        done(self.connection.modify(dn, &changes))
    }

    pub(crate) fn delete(&mut self, dn: &str) -> Result<(), String> {
        done(self.connection.delete(dn))
    }
}

/// Reason why a search was not read to its end.
enum Interrupted {
    Client(client::ClientError),
    Each(String),
}

impl From<client::ClientError> for Interrupted {
    fn from(error: client::ClientError) -> Interrupted {
        Interrupted::Client(error)
    }
}

/// Prints a table of the entries that match. The table has a column for each attribute.
pub(crate) fn list(kind: &Kind, arguments: &ListArguments, attributes: &[&str]) -> ExitCode {
    ended(list_entries(kind, arguments, attributes))
}

/// Prints the error, if the command failed, and returns the exit code. The command has already printed its results.
pub(crate) fn ended(result: Result<(), String>) -> ExitCode {
    result.map_or_else(|error| exit::failure(&error), |()| ExitCode::SUCCESS)
}

fn list_entries(kind: &Kind, arguments: &ListArguments, attributes: &[&str]) -> Result<(), String> {
    let mut named = Named::connect(&arguments.server)?;
    let filter = match &arguments.filter {
        Some(filter) => parse(&format!("(&{}{})", kind.filter, filter.as_filter()))?,
        None => parse(kind.filter)?,
    };
    let form = if print::form().is_json { Form::Json } else { Form::Table };
    let columns: Vec<String> = attributes.iter().map(|name| (*name).to_owned()).collect();
    let written = |error: std::io::Error| exit::unwritten(&error);
    let mut results = Results::new(form, &columns).map_err(written)?;
    let base = arguments.base.as_ref().map(DnText::as_str);
    named.each(base, &filter, attributes, &mut |entry| results.entry(entry).map_err(written))?;
    results.finish().map_err(written)
}

/// Prints all user attributes of an entry, and the attributes in `attributes`.
pub(crate) fn show(kind: &Kind, named: &NamedArguments, attributes: &[&str]) -> ExitCode {
    ended(show_entry(kind, named, attributes))
}

fn show_entry(kind: &Kind, named: &NamedArguments, attributes: &[&str]) -> Result<(), String> {
    let mut connected = Named::connect(&named.server)?;
    let dn = connected.dn(kind, &named.name)?;
    let written = |error: std::io::Error| exit::unwritten(&error);
    let form = if print::form().is_json { Form::Json } else { Form::Ldif };
    let mut results = Results::new(form, &[]).map_err(written)?;
    let filter = parse("(objectClass=*)")?;
    let all: Vec<&str> = ["*"].into_iter().chain(attributes.iter().copied()).collect();
    let (selection, mut count) = (SelectionBuf::from_iter(&all), 0);
    let request = SearchRequest::new(&dn, Scope::BaseObject, filter.as_filter(), selection.as_selection());
    let ended = connected.connection.search_each(request, Controls::NONE, |entry| {
        count += 1;
        let attributes = without_hashes(entry);
        let shown = SearchEntry { attributes: attributes.as_attributes(), ..*entry };
        results.entry(&shown).map_err(client::ClientError::Io)
    });
    let ended = ended.map_err(|error| error.to_string())?;
    match ended.outcome() {
        Some(outcome) if !outcome.is_success() => return Err(refusal(outcome.code, &outcome.diagnostic)),
        _ if count == 0 => return Err(format!("{dn} is not visible to this identity")),
        _ => {}
    }
    results.finish().map_err(written)
}

/// Returns the storage scheme of a stored password.
pub(crate) fn scheme(stored: &[u8]) -> String {
    let text = String::from_utf8_lossy(stored);
    match text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((scheme, _)) if !scheme.is_empty() => scheme.to_uppercase(),
        _ => "in clear".to_owned(),
    }
}

/// Returns the attributes of an entry. Replaces each password by the name of its storage scheme, such as `{SSHA512}`.
/// If this text is imported as a password, no password matches it.
fn without_hashes(entry: &SearchEntry<'_>) -> AttributesBuf {
    let mut shown = AttributesBuf::new();
    for attribute in entry.attributes.iter() {
        let base = attribute.description.split(';').next().unwrap_or_default();
        if base.eq_ignore_ascii_case("userPassword") {
            let schemes = attribute.values.iter().map(|value| format!("{{{}}}", scheme(value)));
            shown.push(attribute.description, schemes);
        } else {
            shown.push(attribute.description, attribute.values.iter());
        }
    }
    shown
}

/// An attribute and its value on the command line, `NAME=VALUE`.
#[derive(Clone, Debug)]
pub(crate) struct Assignment(pub(crate) String, pub(crate) String);

impl std::str::FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Assignment, String> {
        match text.split_once('=') {
            Some((name, _)) if name.trim().to_ascii_lowercase().starts_with("userpassword") => {
                Err("other users can read arguments: `pando user reset` sets a password".to_owned())
            }
            Some((name, value)) if !name.is_empty() => {
                Ok(Assignment(name.trim().to_owned(), value.to_owned()))
            }
            _ => Err("write ATTRIBUTE=VALUE, such as mail=anna@example.com".to_owned()),
        }
    }
}

/// Returns the attributes of the command line, and the defaults for attributes that the command line does not name. The
/// default object classes are always included. An empty value on the command line only suppresses the default.
pub(crate) fn with_defaults(given: &[Assignment], defaults: Vec<(String, String)>) -> Vec<(String, String)> {
    let is_given = |name: &str| given.iter().any(|Assignment(other, _)| other.eq_ignore_ascii_case(name));
    let default_values = defaults.into_iter().filter(|(name, _)| name == "objectClass" || !is_given(name));
    let own = given.iter().filter(|Assignment(_, value)| !value.is_empty());
    default_values.chain(own.map(|Assignment(name, value)| (name.clone(), value.clone()))).collect()
}

/// Calls `act` with the DN of the entry that the arguments name.
pub(crate) fn with<T>(
    kind: &Kind,
    named: &NamedArguments,
    act: impl FnOnce(&mut Named, &str) -> Result<T, String>,
) -> Result<T, String> {
    let NamedArguments { server, name } = named;
    let mut named = Named::connect(server)?;
    let dn = named.dn(kind, name)?;
    act(&mut named, &dn)
}

/// Replaces attributes of an entry.
pub(crate) fn set(kind: &Kind, named: &NamedArguments, assignments: &[Assignment]) -> Result<Report, String> {
    with(kind, named, |named, dn| {
        named.set(dn, assignments)?;
        Ok(Report::done(json!({ "dn": dn, "changed": true }), format!("{dn} is changed")))
    })
}

/// Deletes an entry.
pub(crate) fn delete(kind: &Kind, named: &NamedArguments) -> Result<Report, String> {
    with(kind, named, |named, dn| {
        named.delete(dn)?;
        Ok(Report::done(json!({ "dn": dn, "deleted": true }), format!("{dn} is deleted")))
    })
}

/// Parses a filter that this program has built.
pub(crate) fn parse(filter: &str) -> Result<FilterBuf, String> {
    FilterBuf::parse(filter).map_err(|error| format!("filter: {error}"))
}

/// Returns the reason as an error if the server did not make the change.
pub(crate) fn done(answered: Result<Outcome, client::ClientError>) -> Result<(), String> {
    match answered.map_err(|error| error.to_string())? {
        outcome if outcome.is_success() => Ok(()),
        outcome => Err(refusal(outcome.code, &outcome.diagnostic)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read() {
        let Assignment(name, value) = "mail=a=b".parse().unwrap();
        assert_eq!((name.as_str(), value.as_str()), ("mail", "a=b"));
        for bad in ["mail", "=x", "userPassword=x", "userpassword;x-app-mail=x"] {
            assert!(bad.parse::<Assignment>().is_err(), "{bad}");
        }
    }
}
