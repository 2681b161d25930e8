//! `pando access rehearse`: access rules before they are in force.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use directory::rehearse::Rehearsal;
use server::{Config, ExplainError, settings};

use super::explain::identity;
use crate::arguments::DataArguments;
use crate::exit;

pub(super) const HELP: &str = "\
Reads the data file, beside a server at work or without one, and changes nothing. Each line is an asker, an entry, and
what that one may no more, or may now. Of attributes those are told that the entry has.

Examples:
  pando access rehearse --data /var/lib/pando settings.toml
  pando access rehearse --data /var/lib/pando --as uid=anna,ou=people,dc=example,dc=com --as anonymous settings.toml

Exit codes: as `pando plan`.";

/// The options of `pando access rehearse`.
#[derive(Debug, Args)]
pub(crate) struct RehearseArguments {
    #[command(flatten)]
    data: DataArguments,
    /// Who would ask: a DN, u:NAME, or anonymous; may be given several times [default: anonymous, and users among the
    /// entries]
    #[arg(long = "as", value_name = "WHO")]
    askers: Vec<String>,
    /// How many users where none are named
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    askers_max: usize,
    /// How many entries, spread evenly over all
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    entries_max: u64,
    /// The settings file (TOML)
    file: PathBuf,
}

pub(super) fn run(arguments: &RehearseArguments) -> ExitCode {
    let read = settings::read(&arguments.file)
        .and_then(|file| Ok((file, Config::load(&arguments.data.to_server())?)));
    let (file, config) = match read {
        Ok(read) => read,
        Err(error) => return exit::failed(&error),
    };
    let rehearsal = Rehearsal {
        askers: arguments.askers.iter().map(|asker| identity(asker)).collect(),
        askers_max: arguments.askers_max,
        entries_max: arguments.entries_max,
    };
    match server::rehearse_access(&config, &file, &rehearsal, &mut |change| println!("{change}")) {
        Ok(rehearsed) => {
            println!(
                "{} askers at {} entries: {} would change",
                rehearsed.askers, rehearsed.entries, rehearsed.changes
            );
            ExitCode::SUCCESS
        }
        Err(ExplainError::Serve(error)) => exit::failed(&error),
        Err(error) => exit::failure(&error.to_string()),
    }
}
