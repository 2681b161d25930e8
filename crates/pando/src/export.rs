//! `pando export`: a directory as LDIF, served or not.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use directory::export::{ExportError, ExportRequest, ExportSummary, export};
use directory::{OperationError, ReadOnlyDirectory};
use ldap::FilterBuf;
use server::{Config, ServeError};

use crate::arguments::DataArguments;
use crate::exit;
use crate::output::{Background, Compression, Output};

/// The options of `pando export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Export the entry of this name and everything below it, instead of everything
    #[arg(long, value_name = "DN")]
    base: Option<server::values::DnText>,
    /// Export only entries that match (RFC 4515)
    #[arg(long, value_name = "FILTER", value_parser = parse_filter)]
    filter: Option<FilterBuf>,
    /// Attributes to export, as in a search; a comma between two [default: all that a client may write]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    attributes: Vec<String>,
    /// Export what only the server writes too: entryUUID, createTimestamp, modifiersName and so on
    #[arg(long)]
    operational: bool,
    /// Compress what is written; taken from the file's name (.gz, .zst) if not given
    #[arg(long, value_name = "HOW")]
    compress: Option<Compression>,
    /// The file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

fn parse_filter(text: &str) -> Result<FilterBuf, ldap::FilterError> {
    FilterBuf::parse(text)
}

pub(crate) fn run(arguments: &ExportArguments) -> ExitCode {
    let started = Instant::now();
    let config = Config::load(&arguments.data.to_server()).map_err(ServeError::from);
    let directory = match config.and_then(|config| server::open_read_only(&config)) {
        Ok(directory) => directory,
        Err(error) => return exit::failed(&error),
    };
    if let Some(unknown) = unknown_attribute(&directory, &arguments.attributes) {
        return exit::refused(&format!("--attributes: {unknown:?} is not in the schema"));
    }
    let compression = arguments.compress.or_else(|| Compression::of_name(&arguments.output));
    let begun = Output::create(Some(&arguments.output), compression).and_then(Background::start);
    let exported = begun.map_err(ExportError::from).and_then(|mut output| {
        let exported = export(directory.state(), &arguments.request(), &mut output);
        output.finish(exported)
    });
    match exported {
        Ok(summary) => {
            say(&summary, started.elapsed());
            ExitCode::SUCCESS
        }
        Err(ExportError::Operation(error @ OperationError::Refused { .. })) => {
            exit::refused(&error.to_string())
        }
        Err(ExportError::Operation(error @ OperationError::Damaged(_))) => {
            exit::damaged(&format!("{error}; `pando verify` says more"))
        }
        Err(ExportError::Write(error)) => {
            exit::failure(&format!("cannot write {}: {error}", arguments.output.display()))
        }
        Err(error) => exit::failure(&error.to_string()),
    }
}

impl ExportArguments {
    fn request(&self) -> ExportRequest<'_> {
        ExportRequest {
            base: self.base.as_ref().map(|base| base.as_str()),
            filter: self.filter.as_ref().map(FilterBuf::as_filter),
            attributes: &self.attributes,
            operational: self.operational,
        }
    }
}

/// A name that would silently export nothing.
fn unknown_attribute<'a>(directory: &ReadOnlyDirectory, names: &'a [String]) -> Option<&'a str> {
    let schema = &directory.state().catalog.schema;
    let is_known = |name: &str| match name.strip_prefix('@') {
        Some(class) => schema.object_class(class.split(';').next().unwrap_or_default()).is_some(),
        None => matches!(name, "*" | "+" | "1.1") || schema.parse_description(name).is_ok(),
    };
    names.iter().map(String::as_str).find(|name| !is_known(name))
}

fn say(summary: &ExportSummary, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    let megabytes = summary.bytes as f64 / 1e6;
    eprintln!(
        "pando: exported {} entries, {megabytes:.1} MB in {seconds:.1} s ({:.0} MB/s), at log position {}",
        summary.entries,
        megabytes / seconds.max(0.001),
        summary.position
    );
}

pub(crate) const HELP: &str = "\
Works while the directory is being served and while it is not, and shows one moment: changes that are made meanwhile are
not in it. Entries come in the order in which they were added, superiors first; the same data gives the same text.
Passwords are exported in stored form, so the file is readable by its owner alone. It gets its name when it is
complete and on the disk.

Examples:
  pando export --data /var/lib/pando --operational -o backup.ldif.zst
  pando export --data /var/lib/pando --base ou=people,dc=example,dc=com --attributes cn,mail
  pando export --data /var/lib/pando --filter '(objectClass=groupOfNames)' | less

Exit codes:
  0  exported
  1  the export could not be written
  2  the command line is wrong: a filter, an attribute, a base that is not there
  4  there is no data, or it cannot be read";
