//! `pando ldif`: checks, counts and compares LDIF files without a directory.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use directory::ldif_check::check_record;
use directory::ldif_diff::{DiffError, diff};
use ldap::ldif::{LdifBody, LdifErrorKind, LdifReader};
use schema::Schema;
use serde_json::{Map, Value, json};
use server::import::InputData;
use server::{Config, ServeError};

use crate::print::{self, Report};
use crate::{exit, import};

/// Maximum size of a record, in bytes.
pub(crate) const RECORD_SIZE_MAX: usize = 4 << 30;

/// Size of the read buffer, in bytes.
const BUFFER_SIZE: usize = 1 << 20;

/// The options of `pando ldif`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct LdifArguments {
    #[command(subcommand)]
    verb: LdifVerb,
}

#[derive(Debug, Subcommand)]
enum LdifVerb {
    /// Report the errors of a file by line
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The file; .gz and .zst are decompressed; `-` is standard input
        file: PathBuf,
        #[command(flatten)]
        schema: SchemaArguments,
        /// Check only the text and the names, not attributes, values and classes
        #[arg(long, conflicts_with_all = ["schema", "settings", "data"])]
        text_only: bool,
    },
    /// Count records and values
    #[command(after_help = COUNT_HELP)]
    Count {
        /// The file; .gz and .zst are decompressed; `-` is standard input
        file: PathBuf,
    },
    /// Print the changes that turn the entries of the first file into those of the second
    #[command(after_help = DIFF_HELP)]
    Diff {
        /// File with the entries before; .gz and .zst are decompressed
        first: PathBuf,
        /// File with the entries after
        second: PathBuf,
        #[command(flatten)]
        schema: SchemaArguments,
        /// Memory for sorting, in MiB; larger data is sorted in temporary files in the system's temporary folder
        #[arg(long, value_name = "MIB", default_value_t = 128)]
        memory: usize,
    },
}

/// Options that select a schema.
#[derive(Debug, Args)]
struct SchemaArguments {
    /// A schema file; may be given several times
    #[arg(long, value_name = "FILE")]
    schema: Vec<PathBuf>,
    /// A settings file that contains the schema
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// A data directory that contains the schema
    #[arg(long, value_name = "DIR", conflicts_with = "settings")]
    data: Option<PathBuf>,
}

impl SchemaArguments {
    fn load(&self) -> Result<Arc<Schema>, ServeError> {
        let mut texts = BTreeMap::new();
        if let Some(file) = &self.settings {
            texts = server::settings::read(file)?.settings().schema.clone();
        }
        if let Some(data) = &self.data {
            texts = server::settings::of_directory(&Config::new(data))?.schema;
        }
        server::load_schema(&texts, &self.schema)
    }
}

pub(crate) fn run(arguments: &LdifArguments) -> ExitCode {
    let done = match &arguments.verb {
        LdifVerb::Check { file, schema, text_only } => {
            let schema = if *text_only { Ok(None) } else { schema.load().map(Some) };
            schema.and_then(|schema| check(file, schema.as_deref()))
        }
        LdifVerb::Count { file } => count(file),
        LdifVerb::Diff { first, second, schema, memory } => {
            schema.load().and_then(|schema| compare(&schema, first, second, *memory))
        }
    };
    done.unwrap_or_else(|error| match error {
        // An `io::Error` that is not wrapped comes only from writing the output.
        ServeError::System(error) => exit::not_written("standard output", &error),
        error => exit::failed(&error),
    })
}

/// Opens a file for reading from its beginning.
pub(crate) fn open(path: &Path) -> Result<(String, Box<dyn BufRead>), ServeError> {
    let input = import::open(path)?;
    let data: Box<dyn BufRead> = match input.data {
        InputData::File(file) => Box::new(BufReader::with_capacity(BUFFER_SIZE, file)),
        InputData::Stream(stream) => Box::new(BufReader::with_capacity(BUFFER_SIZE, stream)),
    };
    Ok((input.name, data))
}

fn check(file: &Path, schema: Option<&Schema>) -> Result<ExitCode, ServeError> {
    let (name, data) = open(file)?;
    let mut reader = LdifReader::with_record_size_max(data, RECORD_SIZE_MAX);
    let (mut records, mut findings) = (0u64, 0u64);
    let mut out = BufWriter::new(io::stdout().lock());
    loop {
        let found = match reader.next_record() {
            Ok(None) => break,
            Ok(Some(record)) => check_record(schema, &record),
            Err(error) if matches!(error.kind, LdifErrorKind::Io(_)) => {
                return Ok(exit::failure(&format!("cannot read {name}: {error}")));
            }
            Err(error) => {
                findings += 1;
                write_finding(&mut out, &name, error.line, &error.kind.to_string())?;
                continue;
            }
        };
        records += 1;
        for finding in found {
            findings += 1;
            write_finding(&mut out, &name, finding.line, &finding.text)?;
        }
    }
    out.flush()?;
    drop(out);
    let text = if findings == 0 { format!("nothing found in {records} records") } else { String::new() };
    Report::done(json!({ "findings": findings, "records": records }), text).print();
    if findings == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(exit::failure(&format!("{findings} findings, {records} records that could be read")))
}

fn write_finding(out: &mut dyn Write, file: &str, line: u64, text: &str) -> io::Result<()> {
    match print::form().is_json {
        true => writeln!(out, "{}", json!({ "file": file, "line": line, "finding": text })),
        false => writeln!(out, "{file}:{line}: {text}"),
    }
}

/// Counts of the content of a file.
#[derive(Default)]
struct Counts {
    entries: u64,
    adds: u64,
    modifies: u64,
    deletes: u64,
    renames: u64,
    values: u64,
    value_bytes: u64,
}

fn count(file: &Path) -> Result<ExitCode, ServeError> {
    let (name, data) = open(file)?;
    let mut reader = LdifReader::with_record_size_max(data, RECORD_SIZE_MAX);
    let mut counts = Counts::default();
    loop {
        let record = match reader.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => return Ok(exit::failure(&format!("{name}: {error}"))),
        };
        match record.body {
            LdifBody::Entry(values) | LdifBody::Add(values) => {
                let is_entry = matches!(record.body, LdifBody::Entry(_));
                *(if is_entry { &mut counts.entries } else { &mut counts.adds }) += 1;
                counts.values += values.len() as u64;
                counts.value_bytes += values.iter().map(|line| line.value.len() as u64).sum::<u64>();
            }
            LdifBody::Modify(_) => counts.modifies += 1,
            LdifBody::Delete => counts.deletes += 1,
            LdifBody::ModifyDn { .. } => counts.renames += 1,
        }
    }
    let lines = reader.line_count();
    let rows = [
        (counts.entries, "entries", "entries"),
        (counts.adds, "additions", "additions"),
        (counts.modifies, "modifications", "modifications"),
        (counts.deletes, "deletions", "deletions"),
        (counts.renames, "renames", "renames"),
        (counts.values, "values", "values of entries and additions"),
        (counts.value_bytes, "value_bytes", "bytes in them"),
        (lines, "lines", "lines"),
    ];
    let object: Map<String, Value> =
        rows.iter().map(|(count, name, _)| ((*name).to_owned(), json!(count))).collect();
    let text: String = rows.iter().map(|(count, _, what)| format!("{count} {what}\n")).collect();
    Report::result(Value::Object(object), text).print();
    Ok(ExitCode::SUCCESS)
}

fn compare(schema: &Schema, first: &Path, second: &Path, memory: usize) -> Result<ExitCode, ServeError> {
    let ((_, old), (_, new)) = (open(first)?, open(second)?);
    let scratch = std::env::temp_dir();
    let mut out = BufWriter::new(io::stdout().lock());
    let compared = diff(schema, old, new, (&scratch, memory.saturating_mul(1 << 20)), &mut out);
    let summary = match compared.and_then(|summary| Ok(out.flush().map(|()| summary)?)) {
        Ok(summary) => summary,
        Err(error @ (DiffError::Ldif { .. } | DiffError::Record { .. })) => {
            return Ok(exit::refused(&error.to_string()));
        }
        Err(DiffError::Write(error)) => return Err(error.into()),
        Err(error) => return Ok(exit::failure(&error.to_string())),
    };
    remark!(
        "pando: {} added, {} modified, {} deleted, {} the same",
        summary.added,
        summary.modified,
        summary.deleted,
        summary.same
    );
    let is_same = summary.added + summary.modified + summary.deleted == 0;
    Ok(if is_same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) const HELP: &str = "\
Examples:
  pando ldif check people.ldif
  pando ldif count backup.ldif.zst
  pando ldif diff yesterday.ldif today.ldif";

const CHECK_HELP: &str = "\
Checks each record as an import or a server does: the text, names, attributes, values by their syntax, and the rules of
object classes. It does not check what depends on the directory: superiors and duplicate names.

Example:
  pando ldif check --schema /etc/pando/example.schema people.ldif

Exit codes:
  0  nothing found
  1  findings, or the file could not be read to its end
  2  the command line or a schema file is wrong, or the file does not exist";

const COUNT_HELP: &str = "\
Example:
  pando ldif count backup.ldif.zst

Exit codes:
  0  counted
  1  the file is not LDIF; the message names the line
  2  the command line is wrong, or the file does not exist";

const DIFF_HELP: &str = "\
Both files contain entries, in any order. Names and values are compared by the matching rules of the schema; attributes
that only the server writes, such as entryUUID, are left out. A rename appears as a deletion and an addition. Additions
and modifications come first, superiors before subordinates; deletions come last.

Example:
  pando ldif diff yesterday.ldif.zst today.ldif.zst > changes.ldif
  ldapmodify -x -H ldap://localhost:1389 -D cn=admin -W -f changes.ldif

Exit codes:
  0  no difference
  1  differences, or they could not be written
  2  the command line, a schema file or one of the files is wrong";
