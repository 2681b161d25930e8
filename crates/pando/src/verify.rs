//! `pando verify`: every row against every entry, and with `--repair` what can be mended.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::salvage::{self, Targets};

/// The options of `pando verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Mend what follows from the entries: names, indexes, links backwards, counts. The directory must not be served
    #[arg(long)]
    repair: bool,
    /// Write what is whole of a damaged directory as LDIF into a new file, and say which changes are lost. The
    /// directory must not be served, and stays as it is
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
    let mut mendable = 0;
    let checked = server::verify(config, &mut |finding| {
        println!("{}", finding.text);
        mendable += u64::from(!finding.fixes.is_empty());
    })?;
    if checked.findings == 0 {
        println!("nothing found in {} entries and {} rows", checked.entries, checked.rows);
        return Ok(ExitCode::SUCCESS);
    }
    let hint = if mendable > 0 { "; `pando verify --repair` mends these" } else { "" };
    Ok(exit::failure(&format!(
        "{} findings, {mendable} of them in rows that follow from entries{hint}",
        checked.findings
    )))
}

fn repair(config: Config) -> Result<ExitCode, ServeError> {
    let repaired = server::repair(config, &mut |finding, is_mended| {
        println!("{}: {}", if is_mended { "mended" } else { "cannot be mended" }, finding.text);
    })?;
    if repaired.repaired > 0 {
        println!("{} findings mended", repaired.repaired);
    }
    if repaired.remaining.findings == 0 {
        println!(
            "nothing left in {} entries and {} rows",
            repaired.remaining.entries, repaired.remaining.rows
        );
        return Ok(ExitCode::SUCCESS);
    }
    Ok(exit::failure(&format!(
        "{} findings cannot be mended: what is lost with an entry comes back only from an export or a backup",
        repaired.remaining.findings
    )))
}

pub(crate) const HELP: &str = "\
Every row is compared with every entry, both ways, every checksum looked at, and every finding printed: what is
wrong and where. Works while the directory is being served, on one moment of it. Memory stays below half a gigabyte;
what does not fit is sorted in temporary files beside the data.

With --repair, on a directory that is not being served, what follows from the entries is made anew: names, class
postings, indexes, links backwards, counts. What was mended is printed, and what cannot be: a damaged entry itself.

With --salvage, on a directory that does not open because its redo log is damaged or a part of it is missing: the
entries as they were before the first gap are written as LDIF, for `pando import` into a new directory, and what is
lost is printed: the groups that cannot be read, and of each change behind them that can be read position, time,
kind and name. The data directory stays as it is.

Examples:
  pando verify --data /var/lib/pando
  pando verify --data /var/lib/pando --repair
  pando verify --data /var/lib/pando --salvage saved.ldif --salvage-settings saved.toml

Exit codes:
  0  nothing found, everything mended, or (with --salvage) nothing lost
  1  findings (with --repair: that cannot be mended), the redo log is damaged or lacks changes, something is lost, or
     the check failed
  2  the command line or a setting is wrong, or the file to be written is there already
  3  with --repair and --salvage: another process has the data directory
  4  there is no data, or it cannot be read at all";
