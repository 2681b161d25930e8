//! `pando index`: lists and changes the indexes of a directory, in its files or, if a server is running, as entries
//! below `cn=config`.

mod advise;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use client::{ClientError, Connection};
use directory::index::IndexKinds;
use directory::index::sizes::{IndexSize, IndexSizes};
use ldap::{ChangeOperation, Scope};
use serde_json::json;
use server::{Config, Fault, IndexChange, Indexes, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::online::{ServerArguments, schema_of, socket_in};
use crate::print::{self, Report};
use crate::progress::Progress;

pub(crate) const HELP: &str = "\
Works whether or not a server is running. A running server is asked through the socket in the data directory. It
continues to serve while it builds or removes rows; the command waits until that is done.
Kinds: equality, ordering, presence, substring, approximate; docs/explanation/indexes.md describes what each answers and
costs. If the command is interrupted, a running server continues at once; otherwise the work continues when the command
or the server is started again.

Examples:
  pando index list --data /var/lib/pando --sizes
  pando index add --data /var/lib/pando description --kinds substring
  pando index drop --data /var/lib/pando givenName
  pando index advise --data /var/lib/pando

Exit codes: as `pando verify`.";

/// The options of `pando index`.
#[derive(Debug, Args)]
pub(crate) struct IndexArguments {
    #[command(subcommand)]
    verb: IndexVerb,
}

#[derive(Debug, Subcommand)]
enum IndexVerb {
    /// List the indexes and their state
    List {
        #[command(flatten)]
        data: DataArguments,
        /// Show rows, keys and bytes of each index, estimated from a sample of 1,000 entries
        #[arg(long)]
        sizes: bool,
    },
    /// Add kinds to an index, or a new index, and build its rows
    Add {
        #[command(flatten)]
        data: DataArguments,
        /// The attribute type
        attribute: String,
        /// Kinds to add
        #[arg(long, default_value = "equality")]
        kinds: IndexKinds,
    },
    /// List indexes that searches of the running server lacked, with their size and gain; changes nothing
    Advise {
        #[command(flatten)]
        data: DataArguments,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Remove kinds from an index, or the whole index, and its rows
    Drop {
        #[command(flatten)]
        data: DataArguments,
        /// The attribute type
        attribute: String,
        /// Kinds to remove [default: all]
        #[arg(long)]
        kinds: Option<IndexKinds>,
    },
}

pub(crate) fn run(arguments: &IndexArguments) -> ExitCode {
    let done = match &arguments.verb {
        IndexVerb::List { data, sizes } => list(data, *sizes),
        IndexVerb::Add { data, attribute, kinds } => change(data, attribute, IndexChange::Add(*kinds)),
        IndexVerb::Advise { data, server } => advise(data, server),
        IndexVerb::Drop { data, attribute, kinds } => {
            let all = IndexKinds::ALL.iter().fold(IndexKinds::NONE, |all, (kind, _)| all.with(*kind));
            change(data, attribute, IndexChange::Drop(kinds.unwrap_or(all)))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(ChangeFailure::Offline(error)) => exit::failed(&error),
        Err(ChangeFailure::Online(why)) => exit::failure(&why),
    }
}

/// Reason why a change failed or is incomplete.
enum ChangeFailure {
    /// Error of the files of the directory.
    Offline(ServeError),
    /// Error of the running server.
    Online(String),
}

impl<E: Into<ServeError>> From<E> for ChangeFailure {
    fn from(error: E) -> ChangeFailure {
        ChangeFailure::Offline(error.into())
    }
}

fn list(data: &DataArguments, with_sizes: bool) -> Result<(), ChangeFailure> {
    let Indexes { defined, progress, sizes } =
        server::list_indexes(&Config::load(&data.to_server())?, with_sizes)?;
    let size_of = |attribute: &str| sizes.as_ref().and_then(|sizes| sizes.by_attribute.get(attribute));
    if print::form().is_json {
        for (attribute, kinds) in defined {
            let kinds = kinds.to_string();
            let kinds: Vec<&str> = kinds.split(',').collect();
            let work = progress.iter().filter(|part| part.attribute == attribute);
            let work: Vec<String> = work.map(server::progress_text).collect();
            let mut line = json!({ "attribute": attribute, "kinds": kinds, "work": work });
            if let Some(size) = size_of(&attribute) {
                line["size"] = json!({ "rows": size.rows, "keys": size.keys, "bytes": size.bytes });
            }
            println!("{line}");
        }
        return Ok(());
    }
    for (attribute, kinds) in &defined {
        match size_of(attribute) {
            Some(IndexSize { rows, keys, bytes }) => {
                println!("{attribute} {kinds} rows {rows} keys {keys} bytes {bytes}");
            }
            None => println!("{attribute} {kinds}"),
        }
    }
    progress.iter().for_each(|part| println!("{}", server::progress_text(part)));
    if let Some(IndexSizes { entries, sampled, .. }) = sizes
        && sampled < entries
    {
        println!("the sizes are estimates from {sampled} of {entries} entries");
    }
    Ok(())
}

/// Prints the index proposals of the server that the options name, or of the server of the data directory.
fn advise(data: &DataArguments, server: &ServerArguments) -> Result<(), ChangeFailure> {
    let url = match server.server(None) {
        Some(url) => url,
        None => socket_in(&Config::load(&data.to_server())?.data),
    };
    let connection = server.connect(&url);
    let mut connection = connection.map_err(|error| ChangeFailure::Online(error.to_string()))?;
    advise::advise(&mut connection).map_err(ChangeFailure::Online)
}

fn change(data: &DataArguments, attribute: &str, change: IndexChange) -> Result<(), ChangeFailure> {
    let config = Config::load(&data.to_server())?;
    let socket = socket_in(&config.data);
    let mut progress = Progress::start();
    let changed = server::change_index(config, attribute, change, |part| {
        progress.show(&server::progress_text(part), Instant::now());
    });
    drop(progress);
    match changed {
        Ok(kinds) => report_kinds(attribute, kinds),
        Err(error) if error.fault() == Fault::InUse => match ServerArguments::default().connect(&socket) {
            Ok(connection) => change_online(connection, attribute, change).map_err(ChangeFailure::Online)?,
            // If the process that uses the directory is not a server, report the original error.
            Err(_) => return Err(error.into()),
        },
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Changes the entry of an index. Waits until the server has built or removed the rows.
fn change_online(mut connection: Connection, attribute: &str, change: IndexChange) -> Result<(), String> {
    let failed = |error: ClientError| error.to_string();
    let schema = schema_of(&mut connection).map_err(failed)?;
    let name = schema.attribute_type(attribute).map_or(attribute, |known| known.name());
    let dn = format!("cn={},cn=indexes,cn=config", ldap::escaped_value(name.as_bytes()));
    let defined = connection.entry(&dn, &[KIND]).map_err(failed)?;
    let known = match &defined {
        None => IndexKinds::NONE,
        Some(entry) => entry.texts(KIND).join(",").parse().map_err(|error| format!("{dn}: {error}"))?,
    };
    let kinds = match change {
        IndexChange::Add(kinds) => known.with(kinds),
        IndexChange::Drop(kinds) => known.without(kinds),
    };
    let texts = kinds.to_string();
    let values: Vec<&str> = texts.split(',').collect();
    let outcome = match (defined, kinds.is_none()) {
        (None, true) => None,
        (Some(_), true) => Some(connection.delete(&dn)),
        (Some(_), false) => {
            Some(connection.modify(&dn, &[(ChangeOperation::Replace, KIND, values.as_slice())]))
        }
        (None, false) => {
            let class = [("objectClass", "pandoIndex")];
            let attributes: Vec<_> =
                class.into_iter().chain(values.iter().map(|value| (KIND, *value))).collect();
            Some(connection.add(&dn, &attributes))
        }
    };
    match outcome.transpose().map_err(failed)? {
        Some(outcome) if !outcome.is_success() => {
            return Err(format!("{}: {}", outcome.code, outcome.diagnostic));
        }
        _ => wait_for_rows(&mut connection, name).map_err(failed)?,
    }
    report_kinds(attribute, kinds);
    Ok(())
}

fn report_kinds(attribute: &str, kinds: IndexKinds) {
    let text = kinds.to_string();
    let names: Vec<&str> = text.split(',').filter(|_| !kinds.is_none()).collect();
    Report::done(json!({ "attribute": attribute, "kinds": names }), format!("{attribute} {text}")).print();
}

/// Attribute that contains the kinds of an index.
const KIND: &str = "pandoIndexKind";

/// Interval between two requests for the progress of an index.
const POLL: Duration = Duration::from_millis(250);

/// Waits until the server has built or removed the rows of an index, and shows the progress.
fn wait_for_rows(connection: &mut Connection, attribute: &str) -> Result<(), ClientError> {
    let mut shown = Progress::start();
    loop {
        let progress = connection.search(
            "cn=Indexes,cn=monitor",
            Scope::SingleLevel,
            "(cn=*)",
            &["cn", "monitoredInfo"],
        )?;
        let of_this = |entry: &&client::Entry| {
            entry.text("cn").is_some_and(|cn| cn.split(' ').next() == Some(attribute))
        };
        let Some(part) = progress.entries.iter().find(of_this) else { return Ok(()) };
        let text = format!(
            "{}: {}",
            part.text("cn").unwrap_or_default(),
            part.text("monitoredInfo").unwrap_or_default()
        );
        shown.show(&text, Instant::now());
        std::thread::sleep(POLL);
    }
}
