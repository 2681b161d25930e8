//! `pando verify`: compares every row of a directory with its entries. With `--repair`, it rebuilds the rows that can
//! be derived from entries.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use directory::check::CheckSummary;
use serde_json::json;
use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::print::{self, Report};
use crate::progress::Elapsed;
use crate::salvage::{self, Targets};

/// The options of `pando verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Rebuild data that can be derived from entries: names, indexes, reverse links, counts. The directory must be
    /// stopped
    #[arg(long)]
    repair: bool,
    /// Write the intact entries of a damaged directory as LDIF to a new file, and report the lost changes. The
    /// directory must be stopped, and stays unchanged
    #[arg(long, value_name = "FILE", conflicts_with = "repair")]
    salvage: Option<PathBuf>,
    /// With --salvage: write the directory's settings as well, as `pando export --settings-only` does
    #[arg(long, value_name = "FILE", requires = "salvage")]
    salvage_settings: Option<PathBuf>,
}

pub(crate) fn run(arguments: &VerifyArguments) -> ExitCode {
    let config = Config::load(&arguments.data.to_server()).map_err(ServeError::from);
    let done = config.and_then(|config| match &arguments.salvage {
        Some(ldif) => {
            salvage::run(&config, &Targets { ldif, settings: arguments.salvage_settings.as_deref() })
        }
        None if arguments.repair => repair(config),
        None => verify(&config),
    });
    done.unwrap_or_else(|error| match error.is_lost_data() {
        true => exit::failure(&error.to_string()),
        false => exit::failed(&error),
    })
}

fn verify(config: &Config) -> Result<ExitCode, ServeError> {
    let mut repairable = 0;
    let elapsed = Elapsed::start("verifying");
    let checked = server::verify(config, &mut |finding| {
        let is_repairable = !finding.fixes.is_empty();
        Report::result(
            json!({ "finding": finding.text, "repairable": is_repairable }),
            finding.text.as_str(),
        )
        .print();
        repairable += u64::from(is_repairable);
    })?;
    drop(elapsed);
    // Violations are not damage: an entry that is older than a rule of the settings may violate the rule.
    for text in server::violations(config)? {
        Report::result(json!({ "note": text }), format!("note: {text}")).print();
    }
    checked_report(&checked, "nothing found").print();
    if checked.findings == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let hint = if repairable > 0 { "; `pando verify --repair` repairs these" } else { "" };
    Ok(exit::failure(&format!(
        "{} findings, {repairable} of them in rows that follow from entries{hint}",
        checked.findings
    )))
}

/// Returns the summary of a check. The text of the summary is empty if the check has findings.
pub(crate) fn checked_report(checked: &CheckSummary, none: &str) -> Report {
    let CheckSummary { entries, rows, findings, .. } = checked;
    let text = match findings {
        0 => format!("{none} in {entries} entries and {rows} rows"),
        _ => String::new(),
    };
    Report::done(json!({ "findings": findings, "entries": entries, "rows": rows }), text)
}

fn repair(config: Config) -> Result<ExitCode, ServeError> {
    let repaired = server::repair(config, &mut |finding, is_repaired| {
        let text =
            format!("{}: {}", if is_repaired { "repaired" } else { "cannot be repaired" }, finding.text);
        Report::result(json!({ "finding": finding.text, "repaired": is_repaired }), text).print();
    })?;
    if repaired.repaired > 0 {
        print::note(&format!("{} findings repaired", repaired.repaired));
    }
    checked_report(&repaired.remaining, "nothing left").print();
    if repaired.remaining.findings == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(exit::failure(&format!(
        "{} findings cannot be repaired: what is lost with an entry comes back only from an export or a backup",
        repaired.remaining.findings
    )))
}

pub(crate) const HELP: &str = "\
Compares every row with every entry in both directions, checks every checksum, and prints every finding with its place.
Works on one moment of the directory, whether or not a server is running. Memory stays below half a gigabyte; larger
data is sorted in temporary files next to the data.

--repair, on a stopped directory, rebuilds what follows from the entries: names, class postings, indexes, reverse links,
counts. It prints what it repaired, and what it cannot repair: a damaged entry itself.

--salvage is for a directory that does not open because its redo log is damaged or incomplete. It writes the entries as
they were before the first gap as LDIF, for `pando import` into a new directory. It reports the losses: the groups that
cannot be read, and position, time, kind and name of each readable change after them. The data directory is
unchanged.

Examples:
  pando verify --data /var/lib/pando
  pando verify --data /var/lib/pando --repair
  pando verify --data /var/lib/pando --salvage saved.ldif --salvage-settings saved.toml

Exit codes:
  0  nothing found, everything repaired, or (with --salvage) nothing lost
  1  findings (with --repair: that cannot be repaired), the redo log is damaged or incomplete, changes are lost, or
     the check failed
  2  the command line or a setting is wrong, or the output file exists
  3  with --repair and --salvage: another process uses the data directory
  4  the data does not exist or cannot be read at all";
