//! `pando access history` and `pando access rollback`: the versions of the access rules.

use std::process::ExitCode;

use clap::Args;
use directory::rehearse::RulesVersion;
use serde_json::json;
use server::Config;

use crate::data_arguments::DataArguments;
use crate::online::ServerArguments;
use crate::print::Report;
use crate::{exit, settings};

pub(super) const HISTORY_HELP: &str = "\
Reads the log of the directory, whether or not a server is running. Prints each version with the position of its change
in the log, its time and author, and the rules added (+) and removed (-) since the version before.

Example:
  pando access history --data /var/lib/pando

Exit codes: as `pando verify`.";

pub(super) const ROLLBACK_HELP: &str = "\
Replaces the access rules and their expectations with those of the previous version, or of the version that --to names.
The result is a new version: a second rollback reverts the first.

Examples:
  pando access rollback --data /var/lib/pando
  pando access rollback --data /var/lib/pando --to 4711

Exit codes: as `pando apply`.";

/// The options of `pando access history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArguments {
    #[command(flatten)]
    data: DataArguments,
}

/// The options of `pando access rollback`.
#[derive(Debug, Args)]
pub(crate) struct RollbackArguments {
    #[command(flatten)]
    data: DataArguments,
    #[command(flatten)]
    server: ServerArguments,
    /// Position of the version in the log, as `pando access history` prints it [default: the previous version]
    #[arg(long, value_name = "POSITION")]
    to: Option<u64>,
}

fn versions(data: &DataArguments) -> Result<(Config, Vec<RulesVersion>), ExitCode> {
    let config = Config::load(&data.to_server()).map_err(|error| exit::failed(&error.into()))?;
    let review = super::open_review(&config).map_err(|error| exit::failed(&error))?;
    let versions = review.history().map_err(|error| exit::failure(&error.to_string()))?;
    Ok((config, versions))
}

pub(super) fn history(arguments: &HistoryArguments) -> ExitCode {
    let versions = match versions(&arguments.data) {
        Ok((_, versions)) => versions,
        Err(code) => return code,
    };
    let mut before: &[String] = &[];
    for version in &versions {
        let RulesVersion { position, micros, requester, rules, .. } = version;
        let time = directory::csn::generalized_time(micros / 1_000_000);
        let who = if requester.is_empty() { "the server" } else { requester };
        let removed: Vec<&String> = before.iter().filter(|rule| !rules.contains(rule)).collect();
        let added: Vec<&String> = rules.iter().filter(|rule| !before.contains(rule)).collect();
        let mut text = format!("{position}: {time}, by {who}, {} rules\n", rules.len());
        text.extend(removed.iter().map(|rule| format!("  - {rule}\n")));
        text.extend(added.iter().map(|rule| format!("  + {rule}\n")));
        let object = json!({
            "position": position, "time": time, "requester": requester, "rules": rules.len(), "removed": removed,
            "added": added,
        });
        Report::result(object, text).print();
        before = rules;
    }
    ExitCode::SUCCESS
}

pub(super) fn rollback(arguments: &RollbackArguments) -> ExitCode {
    let (config, versions) = match versions(&arguments.data) {
        Ok(read) => read,
        Err(code) => return code,
    };
    let wanted = match arguments.to {
        Some(position) => versions.iter().find(|version| version.position == position),
        None => versions.iter().rev().nth(1),
    };
    let Some(wanted) = wanted else {
        return exit::refused("the log has no such version of the access rules: see `pando access history`");
    };
    match server::settings::with_rules(&config, wanted) {
        Ok(file) => settings::apply_file(Ok(config), &arguments.server, &file),
        Err(error) => exit::failed(&error),
    }
}
