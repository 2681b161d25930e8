//! `pando export`: writes a directory as LDIF, from its files or from any LDAP server.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use client::{Connection, ContentError, LdifExport, LdifExportError, LdifExported, export_ldif};
use directory::export::{ExportError, ExportRequest, ExportSummary, export};
use directory::{OperationError, ReadOnlyDirectory};
use ldap::{FilterBuf, ResultCode, ServerUrl};
use schema::Schema;
use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::online::{ServerArguments, parse_filter, schema_of, socket_in, stored_operational};
use crate::output::{Background, Compression, Output};
use crate::progress::Elapsed;

/// The options of `pando export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Write the directory's settings instead of its entries: a file for `pando apply`
    #[arg(long, conflicts_with_all = ["base", "filter", "attributes", "operational", "url", "online"])]
    settings_only: bool,
    #[command(flatten)]
    server: ServerArguments,
    /// Export only the entry with this name and the entries below it
    #[arg(long, value_name = "DN")]
    base: Option<server::values::DnText>,
    /// Write a file without entries if the entry of --base does not exist, instead of failing
    #[arg(long, requires = "base")]
    if_exists: bool,
    /// Export only the entries that match this filter (RFC 4515)
    #[arg(long, value_name = "FILTER", value_parser = parse_filter)]
    filter: Option<FilterBuf>,
    /// Attributes to export, as in a search, separated by commas [default: all that a client may write]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    attributes: Vec<String>,
    /// Export operational attributes too: entryUUID, createTimestamp, modifiersName and so on
    #[arg(long)]
    operational: bool,
    /// Compression [default: by the name of the file (.gz, .zst)]
    #[arg(long, value_name = "HOW")]
    compress: Option<Compression>,
    /// The file to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &ExportArguments) -> ExitCode {
    let started = Instant::now();
    if let Some(url) = arguments.server.server(arguments.data.directory().as_deref()) {
        return match arguments.server.connect(&url) {
            Ok(connection) => online(arguments, connection, &url, started),
            Err(error) => exit::failure(&error.to_string()),
        };
    }
    let config = match Config::load(&arguments.data.to_server()).map_err(ServeError::from) {
        Ok(config) => config,
        Err(error) => return exit::failed(&error),
    };
    if arguments.settings_only {
        return export_settings(arguments, &config);
    }
    match server::open_read_only(&config) {
        Ok(directory) => offline(arguments, &directory, started),
        Err(error @ ServeError::Open { .. }) => {
            // The server may be able to read the files, although this process cannot.
            let url = socket_in(&config.data);
            match arguments.server.connect(&url) {
                Ok(connection) => {
                    remark!("pando: {error}; asking the server that has it");
                    online(arguments, connection, &url, started)
                }
                Err(_) => exit::failed(&error),
            }
        }
        Err(error) => exit::failed(&error),
    }
}

fn offline(arguments: &ExportArguments, directory: &ReadOnlyDirectory, started: Instant) -> ExitCode {
    let schema = &directory.state().catalog.schema;
    if let Some(unknown) = unknown_attribute(schema, &arguments.attributes) {
        return unknown_refused(unknown);
    }
    let exported = arguments.write(|output| export(directory.state(), &arguments.request(), output));
    match exported {
        Ok(ExportSummary { entries, bytes, position }) => {
            say(entries, bytes, started.elapsed(), &format!(", at log position {position}"));
            ExitCode::SUCCESS
        }
        Err(ExportError::Operation(OperationError::Refused { code, .. }))
            if arguments.if_exists && code == ResultCode::NO_SUCH_OBJECT =>
        {
            arguments.write_empty()
        }
        Err(ExportError::Operation(error @ OperationError::Refused { .. })) => {
            exit::refused(&error.to_string())
        }
        Err(ExportError::Operation(error @ OperationError::Damaged(_))) => {
            exit::damaged(&format!("{error}; run `pando verify`"))
        }
        Err(ExportError::Write(error)) => arguments.not_written(&error),
        Err(error) => exit::failure(&error.to_string()),
    }
}

fn online(
    arguments: &ExportArguments,
    mut connection: Connection,
    url: &ServerUrl,
    started: Instant,
) -> ExitCode {
    let schema = match schema_of(&mut connection) {
        Ok(schema) => schema,
        Err(error) => return exit::failure(&error.to_string()),
    };
    if let Some(unknown) = unknown_attribute(&schema, &arguments.attributes) {
        return unknown_refused(unknown);
    }
    let attributes = arguments.stored_attributes(&schema);
    // Collective values are exported with their subentry. They are exported with an entry only if their attribute is
    // requested by name.
    let asks_for_all = attributes.iter().any(|name| name == "*");
    let collective = schema.attribute_types().iter().filter(|known| known.collective && asks_for_all);
    let collective: Vec<&str> = collective.map(|known| known.name()).collect();
    let heading = format!("Pando export over LDAP from {url}");
    let request = LdifExport {
        base: arguments.base.as_ref().map(|base| base.as_str()),
        filter: arguments.filter.as_ref().map(FilterBuf::as_filter),
        attributes: &attributes,
        collective: &collective,
        heading: &heading,
    };
    match arguments.write(|output| export_ldif(&mut connection, &request, output)) {
        Ok(LdifExported { entries, bytes }) => {
            say(entries, bytes, started.elapsed(), &format!(" from {url}"));
            ExitCode::SUCCESS
        }
        Err(LdifExportError::Content(ContentError::NoBase(_))) if arguments.if_exists => {
            arguments.write_empty()
        }
        Err(error @ LdifExportError::Content(ContentError::NoBase(_))) => exit::refused(&error.to_string()),
        Err(LdifExportError::Write(error)) => arguments.not_written(&error),
        Err(error) => exit::failure(&format!("{url}: {error}")),
    }
}

fn export_settings(arguments: &ExportArguments, config: &Config) -> ExitCode {
    let text = match server::settings::export(config) {
        Ok(text) => text,
        Err(error) => return exit::failed(&error),
    };
    let compression = arguments.compress.or_else(|| Compression::of_name(&arguments.output));
    let written = Output::create(Some(&arguments.output), compression).and_then(|mut output| {
        output.write_all(text.as_bytes())?;
        output.finish()
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::not_written(arguments.output.display(), &error),
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

    /// Returns the attributes to request from a server. They exclude computed attributes.
    fn stored_attributes(&self, schema: &Schema) -> Vec<String> {
        let mut names: Vec<String> = if self.attributes.is_empty() {
            vec!["*".to_owned()]
        } else {
            self.attributes.iter().filter(|name| *name != "+").cloned().collect()
        };
        let all = self.operational || self.attributes.iter().any(|name| name == "+");
        if all || self.attributes.is_empty() {
            names.extend(stored_operational(schema, all).map(str::to_owned));
        }
        names
    }

    /// Starts a thread that writes the file, and calls `make` to produce the content.
    fn write<T, E: From<io::Error>>(
        &self,
        make: impl FnOnce(&mut dyn Write) -> Result<T, E>,
    ) -> Result<T, E> {
        let compression = self.compress.or_else(|| Compression::of_name(&self.output));
        let mut output = Output::create(Some(&self.output), compression).and_then(Background::start)?;
        // If the export goes to standard output, no progress is shown, because both may be the same terminal.
        let elapsed = (self.output.as_os_str() != "-").then(|| Elapsed::start("exporting"));
        let outcome = make(&mut output);
        drop(elapsed);
        output.finish(outcome)
    }

    /// Writes a file without entries.
    fn write_empty(&self) -> ExitCode {
        let heading = "version: 1\n# Pando export: the entry to begin at does not exist\n";
        match self.write(|output| output.write_all(heading.as_bytes())) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => self.not_written(&error),
        }
    }

    fn not_written(&self, error: &io::Error) -> ExitCode {
        exit::not_written(self.output.display(), error)
    }
}

/// Returns the first name that the schema does not define. Without this check, an export would silently lack the
/// attribute.
fn unknown_attribute<'a>(schema: &Schema, names: &'a [String]) -> Option<&'a str> {
    let is_known = |name: &str| match name.strip_prefix('@') {
        Some(class) => schema.object_class(class.split(';').next().unwrap_or_default()).is_some(),
        None => matches!(name, "*" | "+" | "1.1") || schema.parse_description(name).is_ok(),
    };
    names.iter().map(String::as_str).find(|name| !is_known(name))
}

fn unknown_refused(name: &str) -> ExitCode {
    exit::refused(&format!("--attributes: {name:?} is not in the schema"))
}

fn say(entries: u64, bytes: u64, elapsed: Duration, more: &str) {
    let seconds = elapsed.as_secs_f64();
    let megabytes = bytes as f64 / 1e6;
    let speed = megabytes / seconds.max(0.001);
    remark!("pando: exported {entries} entries, {megabytes:.1} MB in {seconds:.1} s ({speed:.0} MB/s){more}");
}

pub(crate) const HELP: &str = "\
The export shows one moment, whether or not a server is running: it contains no change made meanwhile. Entries appear in
the order in which they were added, superiors first; the same data gives the same text. Passwords are exported in stored
form, so only the owner of the file may read it. The file gets its name when it is complete and durable.

--online asks the server of the directory instead of reading its files; --url asks any LDAP server. An entry that
changes meanwhile then appears as before or after the change, and the server determines the speed.

Examples:
  pando export --data /var/lib/pando --operational -o backup.ldif.zst
  pando export --data /var/lib/pando --base ou=people,dc=example,dc=com --attributes cn,mail
  pando export --data /var/lib/pando --settings-only -o settings.toml
  pando export --data /var/lib/pando --filter '(objectClass=groupOfNames)' | less
  pando export --url ldap://ldap.example.com --bind-dn cn=admin --password-file secret -o copy.ldif

Exit codes:
  0  exported
  1  the export could not be written, or the server did not answer
  2  the command line is wrong: a filter, an attribute, or a base that does not exist or
     is not visible
  4  the data does not exist or cannot be read";
