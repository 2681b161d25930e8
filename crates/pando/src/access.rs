//! `pando access`: explains and manages access rules.

mod explain;
mod rehearse;
mod translate;
mod versions;

use std::process::ExitCode;

use access_rules::Review;
use clap::{Args, Subcommand};
use server::{Config, ServeError};

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
    /// Explain whether an operation is allowed, which rule decides, and what would allow it
    #[command(after_help = explain::HELP)]
    Explain(ExplainArguments),
    /// Show the rights that the access rules of a settings file would change, by requester and entry
    #[command(after_help = rehearse::HELP)]
    Rehearse(RehearseArguments),
    /// Translate access rules of OpenLDAP, 389 DS and OpenDJ
    #[command(after_help = translate::HELP)]
    Translate(TranslateArguments),
    /// List the versions of the access rules in the log
    #[command(after_help = versions::HISTORY_HELP)]
    History(HistoryArguments),
    /// Put an earlier version of the access rules in force again
    #[command(after_help = versions::ROLLBACK_HELP)]
    Rollback(RollbackArguments),
}

/// Opens a data directory for a review of its access rules. A server may have the data directory open.
fn open_review(config: &Config) -> Result<Review, ServeError> {
    Ok(Review::new(server::open_read_only(config)?, &server::node_settings(config)))
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
