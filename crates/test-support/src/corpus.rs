//! The operations in `tests/differential`: their text form, which the README there describes, and their requests.

mod controls;

use super::SUFFIX;
use client::{Connection, Reply};
use controls::RequestControl;
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, CompareRequest, DeleteRequest, DerefAliases,
    EndTransaction, ExtendedRequest, FilterBuf, MessageId, ModifyDnRequest, ModifyRequest, RefreshRequest,
    Request, Scope, SearchRequest, SelectionBuf, oids,
};

/// An operation, with its annotations in the corpus.
pub struct Operation {
    /// File and line, for messages.
    pub place: String,
    /// The line of the corpus.
    pub text: String,
    /// Pando's answer and the reason, if Pando differs from the peer on purpose.
    pub differs: Option<Difference>,
    /// Whether the operation may have changed the tree.
    pub writes: bool,
    /// The only server that receives the operation, if it is preparation rather than a comparison.
    pub only: Option<Server>,
    kind: Kind,
    controls: Vec<RequestControl>,
}

/// Pando, or a peer that it is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Pando.
    Pando,
    /// OpenLDAP's slapd.
    Slapd,
    /// 389 DS.
    Ds389,
    /// OpenDJ.
    OpenDj,
}

impl Server {
    fn named(name: &str) -> Option<Server> {
        Some(match name {
            "pando" => Server::Pando,
            "slapd" => Server::Slapd,
            "ds389" => Server::Ds389,
            "opendj" => Server::OpenDj,
            _ => return None,
        })
    }
}

/// A connection to a server, and the transaction state that later operations refer to.
pub struct Client {
    /// The connection.
    pub connection: Connection,
    /// The identifier of the last transaction.
    transaction: Vec<u8>,
    /// The changes of the last transaction.
    pub changes: Vec<MessageId>,
}

/// A justified difference.
pub struct Difference {
    /// Pando's result code by name, or `entries`.
    pub answer: String,
    /// Reason for the difference.
    pub reason: String,
}

enum Kind {
    Add {
        entry: String,
        attributes: AttributesBuf,
    },
    Search {
        base: String,
        scope: Scope,
        filter: FilterBuf,
        selection: SelectionBuf,
        options: SearchOptions,
    },
    Compare {
        entry: String,
        description: String,
        value: Vec<u8>,
    },
    Modify {
        object: String,
        changes: ChangesBuf,
    },
    Rename {
        entry: String,
        new_rdn: String,
        delete_old_rdn: bool,
        new_superior: Option<String>,
    },
    Delete {
        entry: String,
    },
    Bind {
        name: String,
        password: String,
    },
    /// An extended operation.
    Extended {
        name: &'static str,
        value: Option<Vec<u8>>,
    },
    /// The end of a transaction: of the client's last transaction, or of the transaction with this identifier.
    End {
        commits: bool,
        identifier: Option<Vec<u8>>,
    },
}

struct SearchOptions {
    deref_aliases: DerefAliases,
    size_limit: u32,
    types_only: bool,
}

/// Reads the text of one file, for a comparison with slapd.
///
/// # Panics
/// A line has none of the forms in the README.
pub fn parse(file: &str, text: &str) -> Vec<Operation> {
    parse_for(Server::Slapd, file, text)
}

/// Reads the text of one file, without the lines for servers other than Pando and `peer`.
///
/// # Panics
/// The same as for [`parse`].
pub fn parse_for(peer: Server, file: &str, text: &str) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut differs = None;
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{file}:{}", index + 1);
        let line = line.replace('%', SUFFIX);
        let fields: Vec<&str> = line.split(" |").map(str::trim).collect();
        let (only, fields) = match (Server::named(fields[0]), &fields[..]) {
            // An explanation that names no server applies to slapd.
            (server, ["differs", answer, reason] | [_, "differs", answer, reason])
                if server.unwrap_or(Server::Slapd) == peer =>
            {
                differs = Some(Difference { answer: answer.to_string(), reason: reason.to_string() });
                continue;
            }
            (None, ["differs" | "peers", ..]) | (_, [_, "global" | "database" | "differs", ..]) => continue,
            (Some(only), _) if only != peer && only != Server::Pando => continue,
            (only @ Some(_), [_, fields @ ..]) => (only, fields),
            (_, fields) => (None, fields),
        };
        let parsed = parse_fields(fields);
        let (kind, controls) = parsed.unwrap_or_else(|| panic!("{place}: cannot read {line:?}"));
        let writes = !matches!(kind, Kind::Search { .. } | Kind::Compare { .. } | Kind::Bind { .. });
        let text = line.clone();
        operations.push(Operation { place, text, differs: differs.take(), writes, only, kind, controls });
    }
    operations
}

/// Returns the lines of a file for one part of slapd.conf, `global` or `database`.
pub fn slapd_lines(part: &str, text: &str) -> String {
    let start = format!("slapd | {part} | ");
    let lines = text.lines().filter_map(|line| line.strip_prefix(&start));
    lines.map(|line| line.replace('%', SUFFIX) + "\n").collect()
}

/// Returns true if the text of a file also applies to this peer.
pub fn is_for(peer: Server, text: &str) -> bool {
    let names = text.lines().filter_map(|line| line.strip_prefix("peers | ")).flat_map(str::split_whitespace);
    names.filter_map(Server::named).any(|named| named == peer)
}

fn parse_fields(fields: &[&str]) -> Option<(Kind, Vec<RequestControl>)> {
    let (fields, controls) = match fields {
        [fields @ .., last] if last.starts_with("with ") => {
            (fields, controls::parse(&last["with ".len()..])?)
        }
        fields => (fields, Vec::new()),
    };
    let kind = match fields {
        ["start"] => Kind::Extended { name: oids::START_TRANSACTION, value: None },
        ["commit" | "abort", rest @ ..] => Kind::End {
            commits: fields.first() == Some(&"commit"),
            identifier: rest.first().map(|identifier| unescape(identifier)),
        },
        ["refresh", entry, seconds] => {
            let value = RefreshRequest { entry, ttl_seconds: seconds.parse().ok()? }.encode();
            Kind::Extended { name: oids::REFRESH, value: Some(value) }
        }
        fields => parse_operation(fields)?,
    };
    Some((kind, controls))
}

fn parse_operation(fields: &[&str]) -> Option<Kind> {
    Some(match fields {
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
    })
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

impl Client {
    /// Returns the client without a transaction.
    pub fn new(connection: Connection) -> Client {
        Client { connection, transaction: Vec::new(), changes: Vec::new() }
    }
}

impl Operation {
    /// Returns true for the start of a transaction.
    pub fn starts_transaction(&self) -> bool {
        matches!(self.kind, Kind::Extended { name: oids::START_TRANSACTION, .. })
    }

    /// Returns the OIDs of the controls of this operation, and its OID if it is an extended operation.
    pub fn uses(&self) -> Vec<&str> {
        let name = match &self.kind {
            Kind::Extended { name, .. } => Some(*name),
            Kind::End { .. } => Some(oids::END_TRANSACTION),
            _ => None,
        };
        self.controls.iter().map(|control| control.oid.as_str()).chain(name).collect()
    }

    /// Returns true for the end of a transaction.
    pub fn ends_transaction(&self) -> bool {
        matches!(self.kind, Kind::End { .. })
    }

    /// Runs the operation. A bind runs on a new connection, and any other operation on the connection of `client`.
    ///
    /// # Panics
    /// The connection breaks or the server does not answer.
    pub fn run(&self, client: &mut Client) -> Reply {
        if let Kind::Bind { name, password } = &self.kind {
            let mut own = Connection::open(client.connection.peer()).expect("a second connection");
            return Reply::from_outcome(self.expect(own.bind(name, password)));
        }
        let end = match &self.kind {
            Kind::End { commits, identifier } => {
                let identifier = identifier.as_deref().unwrap_or(&client.transaction);
                EndTransaction { commits: *commits, identifier }.encode()
            }
            _ => Vec::new(),
        };
        let controls = controls::encode(&self.controls, &client.transaction);
        let id = self.expect(client.connection.send(self.request(&end), controls.as_controls()));
        if controls::are_of_transaction(&self.controls) {
            client.changes.push(id);
        }
        let reply = self.expect(client.connection.reply(id));
        if let (true, Some(identifier)) = (self.starts_transaction(), &reply.extended.value) {
            client.transaction.clone_from(identifier);
            client.changes.clear();
        }
        reply
    }

    fn expect<T>(&self, result: Result<T, client::ClientError>) -> T {
        result.unwrap_or_else(|error| panic!("{}: {}: {error}", self.place, self.text))
    }

    fn request<'r>(&'r self, end: &'r [u8]) -> Request<'r> {
        match &self.kind {
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
            Kind::Extended { name, value } => {
                Request::Extended(ExtendedRequest { name, value: value.as_deref() })
            }
            Kind::End { .. } => {
                Request::Extended(ExtendedRequest { name: oids::END_TRANSACTION, value: Some(end) })
            }
            Kind::Bind { .. } => unreachable!("a bind has a connection of its own"),
        }
    }
}
