//! `pando access`: who may do what, by which rule.

mod explain;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use explain::ExplainArguments;

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
}

pub(crate) fn run(arguments: &AccessArguments) -> ExitCode {
    match &arguments.verb {
        Verb::Explain(arguments) => explain::run(arguments),
    }
}
