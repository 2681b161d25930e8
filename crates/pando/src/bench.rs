//! `pando bench`: measuring directory servers. What it does is in the `bench` crate.

mod peers;
mod report;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use self::peers::PeersArguments;
use self::report::ReportArguments;

/// The options of `pando bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    verb: BenchVerb,
}

#[derive(Debug, Subcommand)]
enum BenchVerb {
    /// Measure Pando beside OpenLDAP, 389 DS and OpenDJ on this machine: same data, same indexes, same load, in turn
    #[command(after_help = peers::HELP)]
    Peers(PeersArguments),
    /// Make one page from results: who is faster, by how much, at which latency, and whether anything was wrong
    #[command(after_help = report::HELP)]
    Report(ReportArguments),
}

pub(crate) fn run(arguments: BenchArguments) -> ExitCode {
    match arguments.verb {
        BenchVerb::Peers(arguments) => peers::run(&arguments),
        BenchVerb::Report(arguments) => report::run(&arguments),
    }
}
