//! `pando ldif`: what can be done with LDIF files without a directory.

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
use server::import::InputData;
use server::{Config, ServeError};

use crate::{exit, import};

/// Longest record, in bytes.
const RECORD_SIZE_MAX: usize = 4 << 30;

/// Bytes of a file read at a time.
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
    /// Say what is wrong with a file, line by line
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The file; .gz and .zst are unpacked; `-` is standard input
        file: PathBuf,
        #[command(flatten)]
        schema: SchemaArguments,
        /// Look at the text and the names only, not at attributes, values and classes
        #[arg(long, conflicts_with_all = ["schema", "settings", "data"])]
        text_only: bool,
    },
    /// Count records and values
    #[command(after_help = COUNT_HELP)]
    Count {
        /// The file; .gz and .zst are unpacked; `-` is standard input
        file: PathBuf,
    },
    /// Print the changes that make the entries of the second file of those of the first
    #[command(after_help = DIFF_HELP)]
    Diff {
        /// The entries before; .gz and .zst are unpacked
        first: PathBuf,
        /// The entries after
        second: PathBuf,
        #[command(flatten)]
        schema: SchemaArguments,
        /// Memory for sorting, in MiB; what does not fit goes to temporary files in the system's folder for them
        #[arg(long, value_name = "MIB", default_value_t = 128)]
        memory: usize,
    },
}

/// Which schema, besides the one that comes with the program.
#[derive(Debug, Args)]
struct SchemaArguments {
    /// A schema file; may be given several times
    #[arg(long, value_name = "FILE")]
    schema: Vec<PathBuf>,
    /// A settings file: the schema that it makes
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// A data directory: the schema that it has
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
        // Of what these do, only writing fails by a bare `io::Error`.
        ServeError::System(error) => exit::not_written("standard output", &error),
        error => exit::failed(&error),
    })
}

/// Opens a text to be read from its beginning.
fn open(path: &Path) -> Result<(String, Box<dyn BufRead>), ServeError> {
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
                writeln!(out, "{name}:{}: {}", error.line, error.kind)?;
                continue;
            }
        };
        records += 1;
        for finding in found {
            findings += 1;
            writeln!(out, "{name}:{}: {}", finding.line, finding.text)?;
        }
    }
    out.flush()?;
    if findings == 0 {
        println!("nothing found in {records} records");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(exit::failure(&format!("{findings} findings, {records} records that could be read")))
}

/// What a text has.
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
    for (count, what) in [
        (counts.entries, "entries"),
        (counts.adds, "additions"),
        (counts.modifies, "modifications"),
        (counts.deletes, "deletions"),
        (counts.renames, "renames"),
        (counts.values, "values of entries and additions"),
        (counts.value_bytes, "bytes in them"),
        (lines, "lines"),
    ] {
        println!("{count} {what}");
    }
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
    eprintln!(
        "pando: {} added, {} modified, {} deleted, {} the same",
        summary.added, summary.modified, summary.deleted, summary.same
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
Each record is read as an import or a server would read it: the text itself, names, attributes, values by their
syntax, the rules of object classes. What only a directory can say is not checked: superiors, and entries of one
name.

Example:
  pando ldif check --schema /etc/pando/example.schema people.ldif

Exit codes:
  0  nothing found
  1  findings, or the file could not be read to its end
  2  the command line, a schema file, or the file is not there";

const COUNT_HELP: &str = "\
Example:
  pando ldif count backup.ldif.zst

Exit codes:
  0  counted
  1  the file is no LDIF; the message has the line
  2  the command line is wrong, or the file is not there";

const DIFF_HELP: &str = "\
Both files hold entries, in any order. Names and values are compared by the schema's rules; attributes that only the
server writes, such as entryUUID, are left out. A rename shows as a deletion and an addition. Additions and
modifications come first, superiors before what is below; deletions last.

Example:
  pando ldif diff yesterday.ldif.zst today.ldif.zst > changes.ldif
  ldapmodify -x -H ldap://localhost:1389 -D cn=admin -W -f changes.ldif

Exit codes:
  0  no difference
  1  differences, or they could not be written
  2  the command line, a schema file or one of the files is wrong";
