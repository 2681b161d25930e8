//! `pando compare`: the differences between the entries of two servers, grouped by cause.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use client::{Connection, Content, ContentError};
use directory::content_diff::{
    AttributeDifference, Compared, ContentDifference, ContentSummary, EntryFault, EntrySorter, content_diff,
};
use ldap::{FilterBuf, SearchEntry, ServerUrl};
use schema::Schema;
use serde_json::json;
use server::values::DnText;
use store::StoreError;

use crate::exit;
use crate::online::{Identity, parse_filter, schema_of, stored_operational};
use crate::print;

/// Maximum number of names that the text output prints for each cause. JSON output has all names.
const EXAMPLES_MAX: usize = 20;

/// The options of `pando compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The first server, ldap://HOST:PORT, ldaps://HOST:PORT or ldapi://%2FPATH
    #[arg(value_name = "URL")]
    first: ServerUrl,
    /// The second server
    #[arg(value_name = "URL")]
    second: ServerUrl,
    /// Compare only the entry with this name and the entries below it [default: all that each server names as its
    /// naming contexts]
    #[arg(long, value_name = "DN")]
    base: Option<DnText>,
    /// Compare only the entries that match this filter (RFC 4515)
    #[arg(long, value_name = "FILTER", value_parser = parse_filter)]
    filter: Option<FilterBuf>,
    /// Attribute not to compare; repeat the option for several
    #[arg(long, value_name = "NAME")]
    leave_out: Vec<String>,
    /// Compare operational attributes too: entryUUID, createTimestamp, modifiersName and so on
    #[arg(long)]
    operational: bool,
    /// Bind as this entry with a password [default: the identity of the socket's user; anonymous over the network]
    #[arg(long, value_name = "DN")]
    bind_dn: Option<DnText>,
    /// File with the password for --bind-dn; one newline at its end is ignored [default: ask at the terminal]
    #[arg(long, value_name = "FILE", requires = "bind_dn")]
    password_file: Option<PathBuf>,
    /// Bind to the second server as this entry [default: the entry for the first server]
    #[arg(long, value_name = "DN", requires = "second_password_file")]
    second_bind_dn: Option<DnText>,
    /// File with the password for --second-bind-dn
    #[arg(long, value_name = "FILE", requires = "second_bind_dn")]
    second_password_file: Option<PathBuf>,
    /// File with the certificate authorities, in PEM form, that the certificates of both servers are checked against;
    /// with ldap://, use StartTLS
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Memory for sorting, in MiB; larger data is sorted in temporary files in the system's temporary folder
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory: usize,
}

/// Reason why the servers were not compared.
#[derive(Debug, thiserror::Error)]
enum CompareError {
    #[error("{0}")]
    Other(String),
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Entry(#[from] EntryFault),
    #[error(transparent)]
    Sort(#[from] StoreError),
    #[error(transparent)]
    Write(#[from] io::Error),
}

pub(crate) fn run(arguments: &CompareArguments) -> ExitCode {
    match compare(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(CompareError::Write(error)) => exit::not_written("standard output", &error),
        // Exit code 1 would mean that the servers have differences.
        Err(error) => exit::refused(&error.to_string()),
    }
}

/// Compares the servers. Returns true if they have no differences.
fn compare(arguments: &CompareArguments) -> Result<bool, CompareError> {
    let started = Instant::now();
    let (one, other) = arguments.identities();
    let mut connections = [connect(one, &arguments.first)?, connect(other, &arguments.second)?];
    let schema = schema_of_both(&mut connections)?;
    let compared = Compared::stored(&schema, arguments.operational, &arguments.leave_out);
    let [first, second] = &mut connections;
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| read(arguments, &schema, second, &arguments.second));
        let first = read(arguments, &schema, first, &arguments.first);
        let failed = |_| Err(CompareError::Other("a thread panicked".to_owned()));
        (first, second.join().unwrap_or_else(failed))
    });
    let (first, second) = (first?, second?);
    let counts = (first.count(), second.count());
    let mut out = BufWriter::new(io::stdout().lock());
    let summary = if print::form().is_json {
        let summary = content_diff(&compared, (first, second), &mut |difference| {
            Ok::<_, CompareError>(writeln!(out, "{}", json_of(&difference))?)
        })?;
        writeln!(out, "{}", json_summary(counts, &summary))?;
        summary
    } else {
        let mut causes = Causes::default();
        let summary = content_diff(&compared, (first, second), &mut |difference| {
            causes.add(&difference);
            Ok::<_, CompareError>(())
        })?;
        causes.print(arguments, &mut out)?;
        summary
    };
    out.flush()?;
    let ContentSummary { only_first, only_second, differing, same } = summary;
    remark!(
        "pando: {} and {} entries in {:.1} s: {same} the same, {differing} with other values, {only_first} only in \
         the first, {only_second} only in the second",
        counts.0,
        counts.1,
        started.elapsed().as_secs_f64()
    );
    Ok(only_first + only_second + differing == 0)
}

impl CompareArguments {
    fn identities(&self) -> (Identity<'_>, Identity<'_>) {
        let tls_ca = self.tls_ca.as_deref();
        let (bind_dn, password_file) = (self.bind_dn.as_ref(), self.password_file.as_deref());
        let first = Identity { bind_dn, password_file, tls_ca };
        let second = match &self.second_bind_dn {
            None => first,
            bind_dn => {
                let password_file = self.second_password_file.as_deref();
                Identity { bind_dn: bind_dn.as_ref(), password_file, tls_ca }
            }
        };
        (first, second)
    }
}

fn connect(identity: Identity<'_>, url: &ServerUrl) -> Result<Connection, CompareError> {
    identity.connect(url).map_err(|error| CompareError::Other(error.to_string()))
}

/// Returns the first usable schema that one of the servers publishes, or the shipped schema if neither publishes one.
fn schema_of_both(connections: &mut [Connection; 2]) -> Result<Arc<Schema>, CompareError> {
    let shipped = Schema::shipped();
    for connection in connections {
        let schema = schema_of(connection).map_err(ContentError::from)?;
        if !Arc::ptr_eq(&schema, &shipped) {
            return Ok(schema);
        }
    }
    Ok(shipped)
}

/// Reads and sorts the entries of one server.
fn read<'s>(
    arguments: &CompareArguments,
    schema: &'s Schema,
    connection: &mut Connection,
    url: &ServerUrl,
) -> Result<EntrySorter<'s>, CompareError> {
    let memory = arguments.memory.saturating_mul(1 << 20) / 2;
    let mut sorter = EntrySorter::new(schema, &std::env::temp_dir(), memory);
    let operational = stored_operational(schema, arguments.operational);
    let attributes: Vec<&str> = std::iter::once("*").chain(operational).collect();
    let content = Content {
        base: arguments.base.as_ref().map(DnText::as_str),
        filter: arguments.filter.as_ref().map(FilterBuf::as_filter),
        attributes: &attributes,
    };
    let read = content.bases(connection).map_err(CompareError::from).and_then(|bases| {
        content.read(connection, &bases, &mut |entry: &SearchEntry<'_>| {
            let values = entry.attributes.iter().flat_map(|attribute| {
                attribute.values.iter().map(move |value| (attribute.description, value))
            });
            Ok::<_, CompareError>(sorter.push(0, entry.object_name, values)?)
        })
    });
    match read {
        Ok(()) => Ok(sorter),
        Err(error) => Err(CompareError::Other(format!("{url}: {error}"))),
    }
}

/// Differences with the same cause: their number, and descriptions of the first [`EXAMPLES_MAX`] differences.
#[derive(Default)]
struct Cause {
    count: u64,
    examples: Vec<String>,
}

impl Cause {
    fn add(&mut self, line: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(line());
        }
    }

    fn print(&self, what: &str, out: &mut dyn Write) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        writeln!(out, "{} entries {what}", self.count)?;
        self.examples.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        match self.count - self.examples.len() as u64 {
            0 => Ok(()),
            more => writeln!(out, "  and {more} more; --json prints all"),
        }
    }
}

/// All differences, grouped by cause.
#[derive(Default)]
struct Causes {
    only_first: Cause,
    only_second: Cause,
    attributes: BTreeMap<String, Cause>,
}

impl Causes {
    fn add(&mut self, difference: &ContentDifference<'_>) {
        match difference {
            ContentDifference::OnlyFirst(dn) => self.only_first.add(|| (*dn).to_owned()),
            ContentDifference::OnlySecond(dn) => self.only_second.add(|| (*dn).to_owned()),
            ContentDifference::Values(dn, attributes) => {
                for AttributeDifference { name, first, second } in *attributes {
                    let cause = self.attributes.entry(name.clone()).or_default();
                    cause.add(|| {
                        format!("{dn}: {first} values only in the first, {second} only in the second")
                    });
                }
            }
        }
    }

    fn print(&self, arguments: &CompareArguments, out: &mut dyn Write) -> io::Result<()> {
        self.only_first.print(&format!("are only in {}", arguments.first), out)?;
        self.only_second.print(&format!("are only in {}", arguments.second), out)?;
        self.attributes.iter().try_for_each(|(name, cause)| cause.print(&format!("differ in {name}"), out))
    }
}

fn json_of(difference: &ContentDifference<'_>) -> serde_json::Value {
    match difference {
        ContentDifference::OnlyFirst(dn) => json!({ "difference": "only_first", "dn": dn }),
        ContentDifference::OnlySecond(dn) => json!({ "difference": "only_second", "dn": dn }),
        ContentDifference::Values(dn, attributes) => {
            let attributes = attributes.iter().map(|attribute| {
                let AttributeDifference { name, first, second } = attribute;
                json!({ "name": name, "only_first": first, "only_second": second })
            });
            let attributes: Vec<_> = attributes.collect();
            json!({ "difference": "values", "dn": dn, "attributes": attributes })
        }
    }
}

fn json_summary((first, second): (u64, u64), summary: &ContentSummary) -> serde_json::Value {
    let ContentSummary { only_first, only_second, differing, same } = summary;
    json!({
        "summary": {
            "first": first, "second": second, "same": same, "values": differing, "only_first": only_first,
            "only_second": only_second,
        }
    })
}

pub(crate) const HELP: &str = "\
Entries are matched by name. Names and values are compared by the matching rules of the schema that the first server
publishes, so letters in another case or other spaces may not count; the order of values never does. Passwords are
compared as they are stored, and no value is printed. Attributes that servers compute, such as memberOf, are left out;
so are operational ones, unless --operational asks for them, and always entryCSN and contextCSN. A change made during
the comparison may appear as a difference.

Examples:
  pando compare ldap://old.example.com ldap://localhost:1389 --bind-dn cn=admin --password-file secret
  pando compare ldap://a ldap://b --base ou=people,dc=example,dc=com --leave-out description --json

Exit codes:
  0  no difference
  1  differences, or they could not be written
  2  the command line is wrong, or one of the servers could not be read to the end";
