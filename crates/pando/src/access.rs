//! `pando access`: who may do what, by which rule.

mod explain;
mod rehearse;
mod translate;
mod versions;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use explain::ExplainArguments;
use rehearse::RehearseArguments;
use translate::TranslateArguments;
use versions::{HistoryArguments, RollbackArguments};

/// The options of `pando access`.
#[derive(Debug, Args)]
pub(crate) struct AccessArguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say whether somebody may do something, which rule decides, and what would be needed
    #[command(after_help = explain::HELP)]
    Explain(ExplainArguments),
    /// Say what the access rules of a settings file would change, for whom, at which entries
    #[command(after_help = rehearse::HELP)]
    Rehearse(RehearseArguments),
    /// Turn access rules of OpenLDAP, 389 DS and OpenDJ into ours
    #[command(after_help = translate::HELP)]
    Translate(TranslateArguments),
    /// List the versions of the access rules that the log has
    #[command(after_help = versions::HISTORY_HELP)]
    History(HistoryArguments),
    /// Put the version before, or another, of the access rules in force again
    #[command(after_help = versions::ROLLBACK_HELP)]
    Rollback(RollbackArguments),
}

pub(crate) fn run(arguments: &AccessArguments) -> ExitCode {
    match &arguments.verb {
        Verb::Explain(arguments) => explain::run(arguments),
        Verb::Rehearse(arguments) => rehearse::run(arguments),
        Verb::Translate(arguments) => translate::run(arguments),
        Verb::History(arguments) => versions::history(arguments),
        Verb::Rollback(arguments) => versions::rollback(arguments),
    }
}
