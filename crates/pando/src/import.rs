//! `pando import`: loads LDIF into a data directory.

mod foreign_schema;
mod text;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use directory::import::Refusal;
use server::import::{Imported, Importing, Input, InputData, MEMORY_DEFAULT};
use server::settings::{self, ForeignSchema, SettingsFile};
use server::values::DnText;
use server::{Arguments, Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::print;
use serde_json::{Value, json};
use text::{ChangedText, ValueFiles};

/// The options of `pando import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Settings file for a new data directory, as for `pando apply`: suffixes (if none, --suffix), indexes, schema
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Suffix to load [default: all suffixes of the directory; for a new one those of --settings, or
    /// dc=example,dc=com]
    #[arg(long, value_name = "DN")]
    suffix: Option<DnText>,
    /// Replace the entries of the suffix; other suffixes stay
    #[arg(long)]
    replace: bool,
    /// Keep the entries of the suffix, and add those of the files, such as corrected rejects
    #[arg(long, conflicts_with = "replace")]
    add: bool,
    /// Character set of the files [default: UTF-8, as LDIF requires]
    #[arg(long, value_enum, value_name = "NAME")]
    encoding: Option<Encoding>,
    /// Folder with files to which values refer by URL (`:<`); files outside are never read
    #[arg(long, value_name = "FOLDER")]
    values_below: Option<PathBuf>,
    /// File for rejected entries, with the reasons; must not exist [default: a new file in the data directory]
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Store clear passwords unchanged [default: hash them with salted SHA-512]
    #[arg(long)]
    keep_clear_passwords: bool,
    /// Attribute or object class to leave out; repeat the option for several
    #[arg(long, value_name = "NAME")]
    leave_out: Vec<String>,
    /// Attribute to rename, as OLD=NEW; repeat the option for several
    #[arg(long, value_name = "OLD=NEW", value_parser = renaming)]
    map: Vec<(String, String)>,
    /// Schema of the old server to add: a schema file, LDIF of cn=config, a folder such as slapd.d, or the URL of the
    /// server; repeat the option for several
    #[arg(long, value_name = "SOURCE")]
    schema_from: Vec<PathBuf>,
    /// Bind to the server of --schema-from as this entry [default: anonymous; over ldapi the user of the process]
    #[arg(long, value_name = "DN", requires = "schema_from")]
    bind_dn: Option<DnText>,
    /// File with the password for --bind-dn; one newline at its end is ignored [default: ask at the terminal]
    #[arg(long, value_name = "FILE", requires = "bind_dn")]
    password_file: Option<PathBuf>,
    /// File with the certificate authorities, in PEM form, for the server of --schema-from; with ldap://, use StartTLS
    #[arg(long, value_name = "FILE", requires = "schema_from")]
    tls_ca: Option<PathBuf>,
    /// Memory to use, in MiB, approximately; larger data is sorted in temporary files in the data directory
    #[arg(long, value_name = "MIB", default_value_t = MEMORY_DEFAULT >> 20)]
    memory: usize,
    /// LDIF files; .gz and .zst are decompressed; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

/// Character sets of LDIF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Encoding {
    /// UTF-8
    Utf8,
    /// ISO 8859-1
    Latin1,
}

pub(crate) fn run(arguments: ImportArguments) -> ExitCode {
    match import(arguments) {
        Err(error) => exit::failed(&error),
        Ok(imported) => {
            let is_whole = imported.rejected_count() == 0
                && imported.policy_fault.is_none()
                && imported.later_fault.is_none();
            // Problems are reported even with `--quiet`.
            if !print::form().is_quiet || !is_whole {
                eprint!("{}", summary(&imported));
            }
            if print::form().is_json {
                println!("{}", summary_json(&imported));
            }
            match is_whole {
                true => ExitCode::SUCCESS,
                false => exit::some_rejected(),
            }
        }
    }
}

fn import(arguments: ImportArguments) -> Result<Imported, ServeError> {
    let config = Config::load(&Arguments {
        suffixes: arguments.suffix.clone().into_iter().collect(),
        ..arguments.data.to_server()
    })?;
    // A replica must be refused before the schema of the other server is written to its directory.
    server::import::refuse_replica(&config)?;
    let mut settings = arguments.settings.as_deref().map(settings::read).transpose()?;
    let mut foreign = None;
    if !arguments.schema_from.is_empty() {
        let sources = foreign_schema::read(&arguments)?;
        let added = ForeignSchema::add(&config, settings.take(), &sources, &arguments.leave_out)?;
        settings = Some(added.file.clone());
        foreign = Some(added);
    }
    if let Some(suffix) = &arguments.suffix {
        settings = settings.map(|file| file.or_suffix(suffix.as_str()));
    }
    let notices = settings.iter().flat_map(SettingsFile::notices);
    notices.for_each(|notice| remark!("pando: {notice}"));
    // Open all inputs before the data directory is created, so that a wrong path has no effect.
    let changed = |input| changed(input, arguments.encoding, arguments.values_below.as_deref());
    let inputs = arguments.files.iter().map(|path| open(path).and_then(changed)).collect::<Result<_, _>>()?;
    let how = Importing {
        replace: arguments.replace,
        add: arguments.add,
        keep_clear_passwords: arguments.keep_clear_passwords,
        rejects: arguments.rejects,
        leave_out: arguments.leave_out,
        renamed: arguments.map,
        has_foreign_schema: foreign.is_some(),
        memory: arguments.memory.saturating_mul(1 << 20),
    };
    if let Some(foreign) = &foreign {
        foreign.apply(&config)?.iter().for_each(|line| remark!("pando: {line}"));
    }
    server::import::import(config, settings.as_ref(), inputs, &how)
}

/// Parses `OLD=NEW`.
fn renaming(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err("write OLD=NEW, such as employeeID=employeeNumber".to_owned()),
    }
}

/// Returns the input converted to UTF-8. Values given by URL are replaced by the content of their files.
fn changed(
    Input { name, data }: Input,
    encoding: Option<Encoding>,
    values_below: Option<&Path>,
) -> Result<Input, ServeError> {
    let is_latin_1 = encoding == Some(Encoding::Latin1);
    if !is_latin_1 && values_below.is_none() {
        return Ok(Input { name, data });
    }
    let files = values_below.map(ValueFiles::open).transpose().map_err(|error| ServeError::Text {
        name: values_below.map(|folder| folder.display().to_string()).unwrap_or_default(),
        error,
    })?;
    let stream: Box<dyn Read + Send> = match data {
        InputData::File(file) => Box::new(file),
        InputData::Stream(stream) => stream,
    };
    let data = InputData::Stream(Box::new(ChangedText::new(stream, &name, is_latin_1, files)));
    Ok(Input { name, data })
}

/// Opens a file. Decompresses it if its name ends in .gz or .zst. `-` is standard input.
pub(crate) fn open(path: &Path) -> Result<Input, ServeError> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    match open_data(path) {
        Ok(data) => Ok(Input { name, data }),
        Err(error) => Err(ServeError::Text { name, error }),
    }
}

fn open_data(path: &Path) -> io::Result<InputData> {
    if path == Path::new("-") {
        return Ok(InputData::Stream(Box::new(io::stdin())));
    }
    let file = File::open(path)?;
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    Ok(match extension.to_ascii_lowercase().as_str() {
        "gz" => InputData::Stream(Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(file)))),
        "zst" => InputData::Stream(Box::new(zstd::Decoder::new(file)?)),
        _ if file.metadata()?.is_file() => InputData::File(file),
        _ => InputData::Stream(Box::new(file)),
    })
}

fn summary_json(imported: &Imported) -> Value {
    let Imported {
        entries,
        carried_over,
        bytes,
        micros,
        rejects_file,
        policy_fault,
        later_fault,
        left_out,
        ..
    } = imported;
    let rejects_file = rejects_file.as_deref().map(Path::to_string_lossy);
    json!({
        "entries": entries, "records": imported.statistics.records, "kept": carried_over, "bytes": bytes,
        "micros": micros, "rejected": imported.rejected_count(), "rejects_file": rejects_file,
        "values_left_out": left_out, "unverifiable_passwords": imported.unverifiable, "policy_fault": policy_fault,
        "later_fault": later_fault,
    })
}

/// Returns a summary of the import for display.
fn summary(imported: &Imported) -> String {
    let seconds = (imported.micros as f64 / 1e6).max(0.001);
    let megabytes = imported.bytes as f64 / 1e6;
    let mut text = format!(
        "pando: imported {} entries of {} records, {megabytes:.1} MB in {seconds:.1} s ({:.0} entries/s, {:.1} MB/s)\n",
        imported.entries,
        imported.statistics.records,
        imported.entries as f64 / seconds,
        megabytes / seconds
    );
    let mut tell = |count: u64, what: &str| {
        if count > 0 {
            text.push_str(&format!("pando: {count} {what}\n"));
        }
    };
    tell(imported.carried_over, "entries kept that were there before");
    tell(imported.statistics.hashed_passwords, "clear passwords hashed");
    tell(
        imported.statistics.virtual_values,
        "values left out that the server makes itself, such as memberOf",
    );
    tell(
        imported.statistics.unusable_passwords,
        "values left out of attributes of passwords, under options that no bind uses",
    );
    let foreign = &imported.statistics;
    tell(foreign.state_options, "values without the options of 389 DS's replication state that they had");
    tell(foreign.deleted_values, "values left out that 389 DS has deleted and keeps for replication");
    tell(foreign.range_options, "values without the option range of Active Directory that they had");
    tell(
        foreign.partial_entries,
        "entries of which Active Directory gave only a part of the values (range=0-1499): export the rest",
    );
    tell(foreign.deleted_entries, "entries left out that 389 DS has deleted and keeps for replication");
    tell(foreign.unique_ids, "identifiers of another server, such as nsUniqueId, kept as entryUUID");
    tell(
        foreign.converted_times,
        "times of another server kept, such as whenCreated as createTimestamp and lastLoginTime as pwdLastSuccess",
    );
    tell(
        foreign.foreign_values,
        "values of another server left out that add nothing, such as nsUniqueId if there is an entryUUID",
    );
    for (name, count) in &imported.left_out {
        tell(*count, &format!("values of {name} left out"));
    }
    tell(
        foreign.disabled_accounts,
        "disabled accounts locked (pwdAccountLockedTime): `pando account unlock` opens one",
    );
    for (form, count) in &imported.unverifiable {
        tell(*count, &format!("passwords of the form {form}, which cannot be verified: reset them"));
    }
    for (name, count) in &imported.other_secrets {
        tell(*count, &format!("values of {name} kept, which no bind uses: these are not passwords for LDAP"));
    }
    tell(foreign.empty_groups, "groups without members");
    tell(imported.dangling, "links to entries that are not there, kept as text");
    tell(imported.repeated_values, "values given more than once, kept once");
    for (refusal, what) in [
        (Refusal::Malformed, "rejected: no LDIF"),
        (Refusal::Bad, "rejected: not as the schema or the rules have it"),
        (Refusal::Outside, "rejected: not below the suffix"),
        (Refusal::Duplicate, "rejected: an entry of the name came before"),
        (Refusal::Orphan, "rejected: the superior is not there"),
        (Refusal::SameUuid, "rejected: an entry before has the same entryUUID"),
    ] {
        tell(imported.rejected.get(&refusal).copied().unwrap_or(0), what);
    }
    for notice in imported.policy_notices.iter().chain(&imported.violations) {
        text.push_str(&format!("pando: {notice}\n"));
    }
    let later = imported.later_fault.iter().map(|fault| format!("loaded, but what follows failed: {fault}"));
    for fault in imported.policy_fault.iter().cloned().chain(later) {
        text.push_str(&format!("pando: error: {fault}\n"));
    }
    if let Some(file) = &imported.rejects_file {
        text.push_str(&format!("pando: the rejected records, with reasons: {}\n", file.display()));
    }
    text
}

pub(crate) const HELP: &str = "\
The data directory is created if it does not exist; no other process may use it.

Entries may appear in any order: subordinates before superiors, groups before members. The new data replaces the old at
the very end, so an interrupted import changes nothing. Rejected entries are written to the rejects file with the reason
and the line; the rest is loaded. Operational attributes of the file, such as entryUUID and createTimestamp, are kept.

Examples:
  pando import --data /var/lib/pando --suffix dc=example,dc=org people.ldif
  pando import --data /var/lib/pando --suffix dc=example,dc=org --replace backup.ldif.zst
  pando import --data /var/lib/pando --settings settings.toml people.ldif
  pando import --data /var/lib/pando --suffix dc=example,dc=org --add mended-rejects.ldif
  pando import --data /var/lib/pando --suffix dc=example,dc=org --schema-from /etc/ldap/slapd.d export.ldif
  slapcat | pando import --data /var/lib/pando --suffix dc=example,dc=org --rejects rejects.ldif -

Exit codes:
  0  everything is loaded
  1  the import failed; nothing is changed, except that the schema of --schema-from may be there
  2  the command line, a setting or a file to import cannot be used; nothing is changed, except as for 1
  3  another process uses the data directory: stop the server first
  4  the data directory cannot be used as it is
  6  loaded except for the entries in the rejects file, or the settings name a password policy that does not exist, or
     the checks or the sort orders after the load failed";
