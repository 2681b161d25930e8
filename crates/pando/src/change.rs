//! `pando change`: sends the change records of LDIF files to a server, one after another.

mod record;
mod rejects;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::{ClientError, Connection};
use ldap::ldif::{LdifErrorKind, LdifReader, LdifRecord};
use ldap::{Control, ControlsBuf, ResultCode, oids};
use serde_json::json;

use crate::ldif::{self, RECORD_SIZE_MAX};
use crate::online::{TargetArguments, refusal};
use crate::print;
use crate::{exit, table};
use record::{Change, Earlier};
use rejects::Rejects;

pub(crate) const HELP: &str = "\
Asks the running server through the socket in the data directory, as the administrator, or the server at --url. Each
record is one change, which is made whole or not at all. A record without a change type adds an entry. The command stops
at the first change that is refused; the changes before it stay.

A dry run asks the server to decide each change without making it. It decides each by itself: a change of an entry that
an earlier record of the file adds, renames, changes or deletes is not checked.

Examples:
  pando change --data /var/lib/pando changes.ldif
  pando change --data /var/lib/pando --dry-run changes.ldif
  pando change --url ldap://localhost:1389 --bind-dn cn=admin --keep-going --rejects rejected.ldif changes.ldif
  pando ldif diff old.ldif new.ldif | pando change --data /var/lib/pando

Exit codes:
  0  all changes are made, or would be
  1  failed, or stopped at a change that was refused
  2  the command line is wrong, or the file is not LDIF
  6  --keep-going or --dry-run: some changes were refused";

/// The options of `pando change`.
#[derive(Debug, Args)]
pub(crate) struct ChangeArguments {
    #[command(flatten)]
    server: TargetArguments,
    /// Let the server decide each change without making it
    #[arg(long)]
    dry_run: bool,
    /// Continue after a change that is refused, or a record that is not LDIF
    #[arg(long)]
    keep_going: bool,
    /// File for the changes that were not made, with the reasons; must not exist
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    rejects: Option<PathBuf>,
    /// Change entries with referrals instead of being referred (RFC 3296)
    #[arg(long)]
    manage_dsa_it: bool,
    /// LDIF files; .gz and .zst are decompressed; `-` is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    files: Vec<PathBuf>,
}

/// Counts of the changes in a run.
#[derive(Default)]
struct Report {
    applied: u64,
    refused: u64,
    unchecked: u64,
}

/// Result of a change.
enum Decision {
    /// The change is made; in a dry run, it would be made.
    Made,
    /// The server can decide the change only after an earlier record is applied. A dry run applies no records.
    Unchecked,
    Refused(String),
}

/// Reason why a run ends early.
enum Stop {
    /// The connection failed. The server may have made the change that was sent last.
    Broken(String),
    /// A change was refused.
    Refused,
    /// A file cannot be read.
    Unreadable(ExitCode),
    /// The rejects file cannot be written.
    NotWritten(std::io::Error),
}

pub(crate) fn run(arguments: &ChangeArguments) -> ExitCode {
    let mut rejects = match arguments.rejects.as_deref().map(Rejects::create).transpose() {
        Ok(rejects) => rejects.unwrap_or_default(),
        Err(message) => return exit::refused(&message),
    };
    let mut connection = match arguments.server.connect() {
        Ok(connection) => connection,
        Err(error) => return exit::failure(&error),
    };
    let mut report = Report::default();
    let stopped = arguments.run_files(&mut connection, &mut report, &mut rejects);
    arguments.conclude(&report);
    if let Err(error) = rejects.finish() {
        return exit::not_written("the rejects file", &error);
    }
    match stopped {
        Err(Stop::Broken(message)) => exit::failure(&message),
        Err(Stop::Refused) => ExitCode::FAILURE,
        Err(Stop::Unreadable(code)) => code,
        Err(Stop::NotWritten(error)) => exit::not_written("the rejects file", &error),
        Ok(()) if report.refused > 0 => exit::some_rejected(),
        Ok(()) => ExitCode::SUCCESS,
    }
}

impl ChangeArguments {
    fn run_files(
        &self,
        connection: &mut Connection,
        report: &mut Report,
        rejects: &mut Rejects,
    ) -> Result<(), Stop> {
        let (mut earlier, mut stop) = (Earlier::default(), None);
        for file in &self.files {
            if stop.is_some() && self.rejects.is_none() {
                break;
            }
            let (name, data) = match ldif::open(file) {
                Ok(opened) => opened,
                Err(error) => {
                    stop.get_or_insert(Stop::Unreadable(exit::failed(&error)));
                    let reason = error.to_string();
                    rejects.malformed(&reason, std::iter::empty()).map_err(Stop::NotWritten)?;
                    continue;
                }
            };
            let mut reader = LdifReader::with_record_size_max(data, RECORD_SIZE_MAX);
            loop {
                let record = match reader.next_record() {
                    Ok(None) => break,
                    Ok(Some(record)) => record,
                    Err(error) => {
                        let place = format!("{name}:{}: {}", error.line, error.kind);
                        // After such an error, the file has no more records.
                        let is_last =
                            matches!(error.kind, LdifErrorKind::Io(_) | LdifErrorKind::RecordTooLong { .. });
                        let code = exit::refused(&place);
                        if is_last || !(self.keep_going || self.dry_run) {
                            stop.get_or_insert(Stop::Unreadable(code));
                        } else {
                            report.refused += 1;
                        }
                        let lines = (!is_last).then(|| reader.record_lines()).into_iter().flatten();
                        rejects.malformed(&place, lines).map_err(Stop::NotWritten)?;
                        if is_last || stop.is_some() && self.rejects.is_none() {
                            break;
                        }
                        continue;
                    }
                };
                // After a stop, the remaining records are not sent, but written to the rejects file.
                if stop.is_some() {
                    rejects.record(&record, None).map_err(Stop::NotWritten)?;
                    continue;
                }
                stop = self.record(connection, &name, &record, &mut earlier, report, rejects).err();
                if stop.is_some() && self.rejects.is_none() {
                    return stop.map_or(Ok(()), Err);
                }
            }
        }
        stop.map_or(Ok(()), Err)
    }

    /// Sends one record and reports its result.
    fn record(
        &self,
        connection: &mut Connection,
        name: &str,
        record: &LdifRecord<'_>,
        earlier: &mut Earlier,
        report: &mut Report,
        rejects: &mut Rejects,
    ) -> Result<(), Stop> {
        let decision = if self.dry_run && earlier.decides(record) {
            Decision::Unchecked
        } else {
            match self.send(connection, record) {
                Ok(decision) => decision,
                Err(error) => {
                    let reason = format!("no answer, so this may have been made: {error}");
                    rejects.record(record, Some(&reason)).map_err(Stop::NotWritten)?;
                    return Err(Stop::Broken(format!("{name}:{}: {}: {reason}", record.line, record.dn)));
                }
            }
        };
        if self.dry_run {
            earlier.note(record);
        }
        self.say(report, name, record, &decision);
        let Decision::Refused(reason) = decision else { return Ok(()) };
        rejects.record(record, Some(&reason)).map_err(Stop::NotWritten)?;
        if self.keep_going || self.dry_run { Ok(()) } else { Err(Stop::Refused) }
    }

    fn send(&self, connection: &mut Connection, record: &LdifRecord<'_>) -> Result<Decision, ClientError> {
        let mut controls: ControlsBuf = record.controls.iter().collect();
        if self.manage_dsa_it {
            controls.push(Control { oid: oids::MANAGE_DSA_IT, critical: true, value: None });
        }
        if self.dry_run {
            controls.push(Control { oid: oids::NO_OPERATION, critical: true, value: None });
        }
        let outcome = Change::of(record).send(connection, record, controls.as_controls())?;
        Ok(match outcome.code {
            ResultCode::SUCCESS | ResultCode::NO_OPERATION => Decision::Made,
            ResultCode::REFERRAL => {
                Decision::Refused(format!("the server refers to {}", outcome.referrals.join(" ")))
            }
            code => Decision::Refused(refusal(code, &outcome.diagnostic)),
        })
    }

    fn say(&self, report: &mut Report, name: &str, record: &LdifRecord<'_>, decision: &Decision) {
        let operation = record::operation(record);
        let (count, result, reason) = match decision {
            Decision::Made if self.dry_run => (&mut report.applied, "would be made", None),
            Decision::Made => (&mut report.applied, "made", None),
            Decision::Unchecked => (&mut report.unchecked, "not checked", None),
            Decision::Refused(reason) => (&mut report.refused, "refused", Some(reason)),
        };
        *count += 1;
        let form = print::form();
        let dn = table::printable(record.dn);
        match reason {
            Some(reason) => eprintln!("pando: {name}:{}: {operation} {dn}: {reason}", record.line),
            None if form.is_json || form.is_quiet => {}
            None if *result == *"made" => println!("{operation} {dn}"),
            None => println!("{operation} {dn}: {result}"),
        }
        if form.is_json {
            let object = json!({
                "file": name, "line": record.line, "dn": record.dn, "operation": operation, "result": result,
                "reason": reason,
            });
            println!("{object}");
        }
    }

    fn conclude(&self, report: &Report) {
        let Report { applied, refused, unchecked } = report;
        match (print::form().is_quiet, self.dry_run) {
            (true, _) => {}
            (false, true) => eprintln!(
                "pando: {applied} changes would be made, {refused} refused, {unchecked} not checked: they follow others"
            ),
            (false, false) => eprintln!("pando: {applied} changes made, {refused} refused"),
        }
    }
}
