//! `pando backup recover`: brings a subtree or an entry of a backup back into the running server.
//!
//! The backup is restored into a temporary directory, and its entries are compared with those of the server. Missing
//! entries are added with their entryUUID and times (relax rules control), superiors first. Entries that differ receive
//! the values of the backup. Finally, other entries whose values named an added entry in the backup, such as groups,
//! receive these values again.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use client::{Connection, Entry, Outcome};
use directory::ReadOnlyDirectory;
use directory::backup::Until;
use directory::export::{ExportError, ExportRequest, export};
use ldap::ldif::{LdifBody, LdifReader, LdifRecord};
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, Control, ControlsBuf, FilterBuf, ModifyRequest,
    Request, ResultCode, Scope, filter_value, oids,
};
use serde_json::json;
use server::values::DnText;
use server::{BackupPlace, Restored, RestoredCopy, ServeError, scratch_folder, time_text};

use crate::comparison::{Comparison, EntryValues, comparison_of};
use crate::data_arguments::IdentityArguments;
use crate::exit;
use crate::ldif::RECORD_SIZE_MAX;
use crate::named::{Named, parse};
use crate::online::{TargetArguments, refusal, stored_operational};
use crate::print;
use crate::table::printable;
use crate::time::Time;

/// Operational attributes that an add with the relax rules control may contain.
const GIVEN: [&str; 5] = ["entryUUID", "creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp"];

/// Attributes whose values are DNs of other entries.
const LINKS: [&str; 7] =
    ["member", "uniqueMember", "owner", "manager", "secretary", "seeAlso", "roleOccupant"];

/// Filter that every entry matches.
const ANY: &str = "(objectClass=*)";

pub(crate) const HELP: &str = "\
Restores the moment into a temporary folder, and sends the changes to the running server. Entries that are missing are
added with their entryUUID and the times of their first and last change; entries that differ get the values that they
had; entries that are new since stay. Groups and other entries elsewhere that named an added entry then name it again.
Passwords come back in their stored form. The identity must be allowed to relax rules, as the administrator is.

Examples:
  pando backup recover --data /var/lib/pando --until 2026-01-31T12:00:00Z /var/backups/pando ou=Sales,dc=example,dc=com
  pando backup recover --data /var/lib/pando --dry-run /var/backups/pando uid=anna,ou=people,dc=example,dc=com

Exit codes:
  0  done, or nothing differs
  1  failed
  2  the command line is wrong, the backup has no such moment or no such entry, or it is encrypted and the identity is
     missing or another
  4  a file of the backup is damaged or missing
  6  some changes were refused";

/// The options of `pando backup recover`.
#[derive(Debug, Args)]
pub(crate) struct RecoverArguments {
    #[command(flatten)]
    server: TargetArguments,
    /// The folder of the backup, or s3://BUCKET/PREFIX
    #[arg(value_name = "PLACE")]
    place: BackupPlace,
    #[command(flatten)]
    identity: IdentityArguments,
    /// Entry to bring back, with the entries below it
    #[arg(value_name = "DN")]
    dn: DnText,
    /// Moment to restore from: 2026-01-31T12:00:00Z, or 30m, 12h, 7d ago [default: the newest in the backup]
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// Bring back the state after the change at this position of the log
    #[arg(long, value_name = "NUMBER", conflicts_with = "until")]
    position: Option<u64>,
    /// Bring back the entry without those below it
    #[arg(long)]
    entry_only: bool,
    /// Add only missing entries, and leave existing ones as they are
    #[arg(long)]
    missing_only: bool,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// New folder for the restored data, removed afterwards [default: in the backup's folder; for a bucket or with
    /// --identity, in TMPDIR or /var/tmp]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// Reason why the recovery stopped.
#[derive(Debug, thiserror::Error)]
enum RecoverError {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Refused(String),
    #[error("cannot write temporary data: {0}")]
    Scratch(#[from] io::Error),
}

impl From<client::ClientError> for RecoverError {
    fn from(error: client::ClientError) -> RecoverError {
        RecoverError::Failed(format!("{error}; the last change may have been made"))
    }
}

pub(crate) fn run(arguments: &RecoverArguments) -> ExitCode {
    match recover(arguments) {
        Ok(counts) if counts.refused > 0 => exit::some_rejected(),
        Ok(_) => ExitCode::SUCCESS,
        Err(RecoverError::Serve(error)) => exit::failed(&error),
        Err(RecoverError::Refused(message)) => exit::refused(&message),
        Err(error) => exit::failure(&error.to_string()),
    }
}

fn recover(arguments: &RecoverArguments) -> Result<Counts, RecoverError> {
    let identities = arguments.identity.read()?;
    let mut named = Named::connect(&arguments.server).map_err(RecoverError::Failed)?;
    let comparison = comparison_of(&mut named.connection)?;
    let scratch = arguments.scratch.clone();
    let scratch = match scratch {
        Some(scratch) => scratch,
        None => scratch_folder(&arguments.place, &identities, "recover")?,
    };
    let until = Until {
        position: arguments.position.unwrap_or(Until::END.position),
        micros: arguments.until.map_or(Until::END.micros, |Time(micros)| micros),
    };
    let copy = RestoredCopy::make(&arguments.place, &identities, &scratch, until)?;
    let directory = copy.open()?;
    let mut recovery = Recovery {
        arguments,
        named,
        comparison,
        text: copy.folder().join("recovered.ldif"),
        added: HashSet::new(),
        counts: Counts::default(),
    };
    recovery.entries(&directory)?;
    recovery.links(&directory)?;
    let Counts { added, changed, linked, refused } = recovery.counts;
    let form = print::form();
    if !form.is_quiet && !form.is_json {
        let time = time_text(copy.restored().micros);
        let would = if arguments.dry_run { "would be " } else { "" };
        let rest = later_changes(&copy.restored(), arguments.until.is_some());
        println!(
            "as of {time}: {added} entries {would}added, {changed} {would}changed, {linked} named again elsewhere; \
             refused: {refused}{rest}"
        );
    }
    Ok(recovery.counts)
}

/// Returns the end of a message about a restored moment, which states whether the backup has later changes. `is_chosen`
/// is true if the user named a time. That time can be later than the end of the backup.
pub(crate) fn later_changes(restored: &Restored, is_chosen: bool) -> &'static str {
    match (restored.has_later, is_chosen) {
        (true, _) => "; the backup has later changes",
        (false, true) => "; the backup has no later change",
        (false, false) => "",
    }
}

/// Numbers of changes, by kind.
#[derive(Clone, Copy, Default)]
struct Counts {
    added: u64,
    changed: u64,
    linked: u64,
    refused: u64,
}

/// Kind of a change, for the output.
#[derive(Clone, Copy)]
enum Kind {
    Add,
    Change,
    Link,
}

struct Recovery<'a> {
    arguments: &'a RecoverArguments,
    named: Named,
    comparison: Comparison,
    /// Temporary file for entries of the backup.
    text: PathBuf,
    /// Normal forms of the DNs of the entries that were added.
    added: HashSet<Vec<u8>>,
    counts: Counts,
}

impl Recovery<'_> {
    /// Brings back the subtree, or with `--entry-only` only the entry.
    fn entries(&mut self, directory: &ReadOnlyDirectory) -> Result<(), RecoverError> {
        let base = self.arguments.dn.as_str();
        let only = self.arguments.entry_only.then(|| parse(&format!("(entryDN={})", filter_value(base))));
        let only = only.transpose().map_err(RecoverError::Failed)?;
        let request = ExportRequest {
            base: Some(base),
            filter: only.as_ref().map(FilterBuf::as_filter),
            attributes: &[],
            operational: true,
        };
        self.each_exported(directory, &request, Recovery::entry)
    }

    /// Writes entries of the backup to the temporary file, then calls `each` with each entry.
    fn each_exported(
        &mut self,
        directory: &ReadOnlyDirectory,
        request: &ExportRequest<'_>,
        each: fn(&mut Self, &LdifRecord<'_>) -> Result<(), RecoverError>,
    ) -> Result<(), RecoverError> {
        let mut file = BufWriter::new(new_private_file(&self.text)?);
        export(directory.state(), request, &mut file).map_err(|error| match error {
            ExportError::Operation(directory::OperationError::Refused { code, .. })
                if code == ResultCode::NO_SUCH_OBJECT =>
            {
                RecoverError::Refused(format!(
                    "the backup of that moment has no entry {}",
                    self.arguments.dn.as_str()
                ))
            }
            error => RecoverError::Failed(error.to_string()),
        })?;
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        let mut reader = LdifReader::with_record_size_max(BufReader::new(file), RECORD_SIZE_MAX);
        while let Some(record) =
            reader.next_record().map_err(|error| RecoverError::Failed(error.to_string()))?
        {
            each(self, &record)?;
        }
        Ok(fs::remove_file(&self.text)?)
    }

    /// Compares an entry of the backup with the entry of the server. Adds a missing entry. Corrects the values of an
    /// existing entry, unless `--missing-only` is given.
    fn entry(&mut self, record: &LdifRecord<'_>) -> Result<(), RecoverError> {
        let then = self.values_of(record);
        let operational = stored_operational(self.comparison.schema(), false).map(str::to_owned);
        let selection: Vec<String> =
            ["*", "entryUUID", "entryCSN"].map(str::to_owned).into_iter().chain(operational).collect();
        let selection: Vec<&str> = selection.iter().map(String::as_str).collect();
        let scope = Scope::BaseObject;
        let reply = self.named.connection.search_managing(record.dn, scope, ANY, &selection)?;
        let Outcome { code, diagnostic, .. } = &reply.outcome;
        if !matches!(*code, ResultCode::SUCCESS | ResultCode::NO_SUCH_OBJECT) {
            let reason = format!("cannot be read: {}", refusal(*code, diagnostic));
            return self.decided(Kind::Change, record.dn, String::new(), Err(reason));
        }
        let Some(now) = reply.entries.into_iter().next() else {
            return self.addition(record.dn, &then);
        };
        if self.arguments.missing_only {
            return Ok(());
        }
        let uuid = then.get("entryUUID").and_then(|values| values.first());
        if uuid.is_some() && now.values("entryUUID").first() != uuid {
            let reason = "the server has another entry of this name, with another entryUUID".to_owned();
            return self.decided(Kind::Change, record.dn, String::new(), Err(reason));
        }
        self.correction(&then, &now)
    }

    /// Returns the values of a record that a client can write.
    fn values_of(&self, record: &LdifRecord<'_>) -> EntryValues {
        let mut values = EntryValues::new();
        if let LdifBody::Entry(lines) = record.body {
            for line in lines.iter() {
                let name = self.comparison.canonical(line.description);
                if self.comparison.is_writable(&name) || GIVEN.contains(&name.as_str()) {
                    values.entry(name).or_default().push(line.value.to_vec());
                }
            }
        }
        values
    }

    fn addition(&mut self, dn: &str, then: &EntryValues) -> Result<(), RecoverError> {
        if let Some(uuid) = then.get("entryUUID").and_then(|values| values.first())
            && let Some(moved) = self.entry_of(uuid)?
        {
            let reason = format!("the entry exists under another name: {}", moved.dn);
            return self.decided(Kind::Add, dn, String::new(), Err(reason));
        }
        let mut attributes = AttributesBuf::new();
        then.iter().for_each(|(name, values)| attributes.push(name, values));
        let request = AddRequest { entry: dn, attributes: attributes.as_attributes() };
        let done = self.send(Request::Add(request), oids::RELAX_RULES)?;
        if done.is_ok() {
            self.added.insert(self.comparison.dn_key(dn));
        }
        self.decided(Kind::Add, dn, String::new(), done)
    }

    /// Returns the server's entry with this entryUUID.
    fn entry_of(&mut self, uuid: &[u8]) -> Result<Option<Entry>, RecoverError> {
        let filter = format!("(entryUUID={})", filter_value(&String::from_utf8_lossy(uuid)));
        for suffix in &self.named.suffixes {
            let scope = Scope::WholeSubtree;
            let reply = self.named.connection.search_managing(suffix, scope, &filter, &["1.1"])?;
            let Outcome { code, diagnostic, .. } = &reply.outcome;
            if !matches!(*code, ResultCode::SUCCESS | ResultCode::NO_SUCH_OBJECT) {
                return Err(RecoverError::Failed(refusal(*code, diagnostic)));
            }
            if let Some(entry) = reply.entries.into_iter().next() {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Gives an entry the values that it had in the backup.
    fn correction(&mut self, then: &EntryValues, now: &Entry) -> Result<(), RecoverError> {
        let attributes = now.attributes.iter();
        let stored = attributes
            .map(|attribute| (self.comparison.canonical(&attribute.description), attribute.values.clone()));
        let (mut changes, mut changed) = (ChangesBuf::new(), Vec::new());
        for correction in self.comparison.corrections(then, &stored.collect()) {
            changes.push(correction.operation, &correction.name, &correction.values);
            changed.push(correction.name);
        }
        changed.dedup();
        if changed.is_empty() {
            return Ok(());
        }
        let request = ModifyRequest { object: &now.dn, changes: changes.as_changes() };
        let done = self.send(Request::Modify(request), oids::RELAX_RULES)?;
        self.decided(Kind::Change, &now.dn, changed.join(", "), done)
    }

    /// Restores references to the added entries: adds to other entries the values that name an added entry in the
    /// backup.
    fn links(&mut self, directory: &ReadOnlyDirectory) -> Result<(), RecoverError> {
        if self.added.is_empty() {
            return Ok(());
        }
        let present: String = LINKS.iter().map(|name| format!("({name}=*)")).collect();
        let filter = parse(&format!("(|{present})")).map_err(RecoverError::Failed)?;
        let attributes: Vec<String> =
            LINKS.iter().chain(&["entryUUID"]).map(|name| (*name).to_owned()).collect();
        let request = ExportRequest {
            base: None,
            filter: Some(filter.as_filter()),
            attributes: &attributes,
            operational: false,
        };
        self.each_exported(directory, &request, Recovery::linked)
    }

    fn linked(&mut self, record: &LdifRecord<'_>) -> Result<(), RecoverError> {
        let LdifBody::Entry(lines) = record.body else { return Ok(()) };
        // An added entry already has these values.
        if self.added.contains(&self.comparison.dn_key(record.dn)) {
            return Ok(());
        }
        let (mut names, mut uuid) = (BTreeMap::<String, Vec<Vec<u8>>>::new(), None);
        for line in lines.iter() {
            let name = self.comparison.canonical(line.description);
            if name == "entryUUID" {
                uuid = Some(line.value.to_vec());
            } else if self.added.contains(&self.comparison.dn_key(&String::from_utf8_lossy(line.value))) {
                names.entry(name).or_default().push(line.value.to_vec());
            }
        }
        let Some(uuid) = uuid.filter(|_| !names.is_empty()) else { return Ok(()) };
        let Some(entry) = self.entry_of(&uuid)? else { return Ok(()) };
        let mut changes = ChangesBuf::new();
        names.iter().for_each(|(name, values)| changes.push(ChangeOperation::Add, name, values));
        let request = ModifyRequest { object: &entry.dn, changes: changes.as_changes() };
        let done = self.send(Request::Modify(request), oids::PERMISSIVE_MODIFY)?;
        let count: usize = names.values().map(Vec::len).sum();
        let what = format!("{count} values of {}", names.into_keys().collect::<Vec<_>>().join(", "));
        self.decided(Kind::Link, &entry.dn, what, done)
    }

    /// Sends a change with a critical control, and with ManageDsaIT. In a dry run, sends nothing. Returns the reason if
    /// the server refuses the change.
    fn send(&mut self, request: Request<'_>, control: &str) -> Result<Result<(), String>, RecoverError> {
        if self.arguments.dry_run {
            return Ok(Ok(()));
        }
        // Without ManageDsaIT, a change of a referral entry is answered with a referral (RFC 3296 section 3).
        let controls = [control, oids::MANAGE_DSA_IT].map(|oid| Control { oid, critical: true, value: None });
        let controls = ControlsBuf::from_iter(controls);
        let connection: &mut Connection = &mut self.named.connection;
        let Outcome { code, diagnostic, .. } = connection.request(request, controls.as_controls())?.outcome;
        Ok(if code == ResultCode::SUCCESS { Ok(()) } else { Err(refusal(code, &diagnostic)) })
    }

    /// Counts a change, and prints its result.
    fn decided(
        &mut self,
        kind: Kind,
        dn: &str,
        what: String,
        done: Result<(), String>,
    ) -> Result<(), RecoverError> {
        let (word, count) = match kind {
            Kind::Add => ("add", &mut self.counts.added),
            Kind::Change => ("change", &mut self.counts.changed),
            Kind::Link => ("name again in", &mut self.counts.linked),
        };
        match done {
            Ok(()) => *count += 1,
            Err(_) => self.counts.refused += 1,
        }
        if print::form().is_json {
            let word = word.split(' ').next().unwrap_or_default();
            println!("{}", json!({ "change": word, "dn": dn, "attributes": what, "refused": done.err() }));
            return Ok(());
        }
        let dn = printable(dn);
        match done {
            Err(reason) => eprintln!("pando: {word} {dn}: {reason}"),
            Ok(()) if print::form().is_quiet => {}
            Ok(()) if what.is_empty() => println!("{word} {dn}"),
            Ok(()) => println!("{word} {dn}: {what}"),
        }
        Ok(())
    }
}

/// Creates a file that no other user can read, because the values include passwords.
fn new_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_private_file_is_created_new_with_mode_600() {
        let path = std::env::temp_dir().join(format!("pando-private-{}", std::process::id()));
        let file = new_private_file(&path).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(new_private_file(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(path).unwrap();
    }
}
