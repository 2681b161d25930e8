//! The operations in `tests/differential/*.ops`: their text form, which the README there describes, and their requests.

use super::SUFFIX;
use client::Connection;
use client::Reply;
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, CompareRequest, Control, ControlsBuf,
    DeleteRequest, DerefAliases, FilterBuf, ModifyDnRequest, ModifyRequest, Request, Scope, SearchRequest,
    SelectionBuf,
};

/// An operation, with its annotations in the corpus.
pub struct Operation {
    /// File and line, for messages.
    pub place: String,
    /// The line of the corpus.
    pub text: String,
    /// Pando's answer and the reason, if Pando differs on purpose.
    pub differs: Option<Difference>,
    /// Whether the operation may have changed the tree.
    pub writes: bool,
    kind: Kind,
    manage: bool,
}

/// A justified difference.
pub struct Difference {
    /// Pando's result code by name, or `entries`.
    pub answer: String,
    /// Reason for the difference.
    pub reason: String,
}

enum Kind {
    Add { entry: String, attributes: AttributesBuf },
    Search { base: String, scope: Scope, filter: FilterBuf, selection: SelectionBuf, options: SearchOptions },
    Compare { entry: String, description: String, value: Vec<u8> },
    Modify { object: String, changes: ChangesBuf },
    Rename { entry: String, new_rdn: String, delete_old_rdn: bool, new_superior: Option<String> },
    Delete { entry: String },
    Bind { name: String, password: String },
}

struct SearchOptions {
    deref_aliases: DerefAliases,
    size_limit: u32,
    types_only: bool,
}

/// Reads the text of one file.
///
/// # Panics
/// On a line that is none of the forms in the README.
pub fn parse(file: &str, text: &str) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut differs = None;
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{file}:{}", index + 1);
        let line = line.replace('%', SUFFIX);
        let fields: Vec<&str> = line.split(" |").map(str::trim).collect();
        if let ["differs", answer, reason] = fields[..] {
            differs = Some(Difference { answer: answer.to_owned(), reason: reason.to_owned() });
            continue;
        }
        let (kind, manage) = parse_fields(&fields).unwrap_or_else(|| panic!("{place}: cannot read {line:?}"));
        let writes = !matches!(kind, Kind::Search { .. } | Kind::Compare { .. } | Kind::Bind { .. });
        operations.push(Operation { place, text: line, differs: differs.take(), writes, kind, manage });
    }
    operations
}

fn parse_fields(fields: &[&str]) -> Option<(Kind, bool)> {
    let manage = fields.len() > 2 && fields.last() == Some(&"manage");
    let fields = if manage { &fields[..fields.len() - 1] } else { fields };
    let kind = match fields {
        ["add", entry, attributes @ ..] => {
            let mut list = AttributesBuf::new();
            for attribute in attributes {
                let (description, values) = attribute.split_once(':')?;
                list.push(description, parse_values(values));
            }
            Kind::Add { entry: entry.to_string(), attributes: list }
        }
        ["search", base, scope, filter, rest @ ..] => {
            let scope = parse_scope(scope)?;
            let filter = FilterBuf::parse(filter).ok()?;
            let selection = rest.first().unwrap_or(&"").split_whitespace().collect();
            let options = parse_search_options(rest.get(1).unwrap_or(&""))?;
            Kind::Search { base: base.to_string(), scope, filter, selection, options }
        }
        ["compare", entry, description, value] => Kind::Compare {
            entry: entry.to_string(),
            description: description.to_string(),
            value: unescape(value),
        },
        ["modify", object, changes @ ..] => {
            let mut list = ChangesBuf::new();
            for change in changes {
                let operation = parse_change_operation(change)?;
                let (description, values) = change[1..].split_once(':')?;
                let values = if values.is_empty() { Vec::new() } else { parse_values(values) };
                list.push(operation, description, values);
            }
            Kind::Modify { object: object.to_string(), changes: list }
        }
        ["rename", entry, new_rdn, keep_or_drop, rest @ ..] => Kind::Rename {
            entry: entry.to_string(),
            new_rdn: new_rdn.to_string(),
            delete_old_rdn: *keep_or_drop == "drop",
            new_superior: rest.first().filter(|dn| !dn.is_empty()).map(|dn| dn.to_string()),
        },
        ["delete", entry] => Kind::Delete { entry: entry.to_string() },
        ["bind", name, password] => Kind::Bind { name: name.to_string(), password: password.to_string() },
        _ => return None,
    };
    Some((kind, manage))
}

fn parse_scope(text: &str) -> Option<Scope> {
    Some(match text {
        "base" => Scope::BaseObject,
        "one" => Scope::SingleLevel,
        "sub" => Scope::WholeSubtree,
        "children" => Scope::Subordinate,
        _ => return None,
    })
}

fn parse_search_options(text: &str) -> Option<SearchOptions> {
    let mut options = SearchOptions { deref_aliases: DerefAliases::Never, size_limit: 0, types_only: false };
    for option in text.split_whitespace() {
        match option.split_once('=').unwrap_or((option, "")) {
            ("deref", "search") => options.deref_aliases = DerefAliases::InSearching,
            ("deref", "find") => options.deref_aliases = DerefAliases::FindingBase,
            ("deref", "always") => options.deref_aliases = DerefAliases::Always,
            ("size", number) => options.size_limit = number.parse().ok()?,
            ("types", _) => options.types_only = true,
            _ => return None,
        }
    }
    Some(options)
}

fn parse_change_operation(change: &str) -> Option<ChangeOperation> {
    Some(match change.as_bytes().first()? {
        b'+' => ChangeOperation::Add,
        b'-' => ChangeOperation::Delete,
        b'=' => ChangeOperation::Replace,
        b'#' => ChangeOperation::Increment,
        _ => return None,
    })
}

fn parse_values(text: &str) -> Vec<Vec<u8>> {
    text.trim().split(" ; ").map(unescape).collect()
}

/// Decodes text with `\HH` for octets.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let octet = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, octet) {
            (b'\\', Some(octet)) => {
                out.push(octet);
                rest = &tail[2..];
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

impl Operation {
    /// Runs the operation: a bind on a connection of its own, any other on `connection`.
    ///
    /// # Panics
    /// The connection breaks or the server does not answer.
    pub fn run(&self, connection: &mut Connection) -> Reply {
        let mut controls = ControlsBuf::new();
        if self.manage {
            controls.push(Control { oid: ldap::oids::MANAGE_DSA_IT, critical: true, value: None });
        }
        let request = match &self.kind {
            Kind::Add { entry, attributes } => {
                Request::Add(AddRequest { entry, attributes: attributes.as_attributes() })
            }
            Kind::Search { base, scope, filter, selection, options } => Request::Search(SearchRequest {
                base_object: base,
                scope: *scope,
                deref_aliases: options.deref_aliases,
                size_limit: options.size_limit,
                time_limit_seconds: 0,
                types_only: options.types_only,
                filter: filter.as_filter(),
                attributes: selection.as_selection(),
            }),
            Kind::Compare { entry, description, value } => {
                Request::Compare(CompareRequest { entry, description, value })
            }
            Kind::Modify { object, changes } => {
                Request::Modify(ModifyRequest { object, changes: changes.as_changes() })
            }
            Kind::Rename { entry, new_rdn, delete_old_rdn, new_superior } => {
                Request::ModifyDn(ModifyDnRequest {
                    entry,
                    new_rdn,
                    delete_old_rdn: *delete_old_rdn,
                    new_superior: new_superior.as_deref(),
                })
            }
            Kind::Delete { entry } => Request::Delete(DeleteRequest { entry }),
            Kind::Bind { name, password } => {
                let mut own = Connection::open(connection.peer()).expect("a second connection");
                let outcome =
                    own.bind(name, password).unwrap_or_else(|error| panic!("{}: {error}", self.place));
                return Reply::from_outcome(outcome);
            }
        };
        connection
            .request(request, controls.as_controls())
            .unwrap_or_else(|error| panic!("{}: {}: {error}", self.place, self.text))
    }
}
