//! `pando index`: the indexes of a directory. They are listed beside a server, and changed while nobody serves it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use directory::attribute_index::IndexKinds;
use server::{Config, IndexChange, ServeError};

use crate::arguments::DataArguments;
use crate::exit;

pub(crate) const HELP: &str = "\
`list` works while the directory is being served and while it is not.
Kinds: equality, ordering, presence, substring, approximate. docs/indexes.md says what each answers and costs.
A command that is interrupted goes on where it was when it, or the server, is started again.

Examples:
  pando index list --data /var/lib/pando
  pando index add --data /var/lib/pando description --kinds substring
  pando index drop --data /var/lib/pando givenName

Exit codes: as `pando verify`.";

/// The options of `pando index`.
#[derive(Debug, Args)]
pub(crate) struct IndexArguments {
    #[command(subcommand)]
    verb: IndexVerb,
}

#[derive(Debug, Subcommand)]
enum IndexVerb {
    /// Print the indexes and what is being done to them
    List {
        #[command(flatten)]
        data: DataArguments,
    },
    /// Let an index answer more kinds of filters, and make its rows
    Add {
        #[command(flatten)]
        data: DataArguments,
        /// The attribute type
        attribute: String,
        /// What the index is to answer, besides what it answers already
        #[arg(long, default_value = "equality")]
        kinds: IndexKinds,
    },
    /// Let an index answer fewer kinds, or none, and remove its rows
    Drop {
        #[command(flatten)]
        data: DataArguments,
        /// The attribute type
        attribute: String,
        /// What the index is no longer to answer [default: everything]
        #[arg(long)]
        kinds: Option<IndexKinds>,
    },
}

pub(crate) fn run(arguments: &IndexArguments) -> ExitCode {
    let done = match &arguments.verb {
        IndexVerb::List { data } => list(data),
        IndexVerb::Add { data, attribute, kinds } => change(data, attribute, IndexChange::Add(*kinds)),
        IndexVerb::Drop { data, attribute, kinds } => {
            let all = IndexKinds::ALL.iter().fold(IndexKinds::NONE, |all, (kind, _)| all.with(*kind));
            change(data, attribute, IndexChange::Drop(kinds.unwrap_or(all)))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failed(&error),
    }
}

fn list(data: &DataArguments) -> Result<(), ServeError> {
    let (defined, progress) = server::list_indexes(&Config::load(&data.to_server())?)?;
    for (attribute, kinds) in defined {
        println!("{attribute} {kinds}");
    }
    progress.iter().for_each(|part| println!("{}", server::progress_text(part)));
    Ok(())
}

fn change(data: &DataArguments, attribute: &str, change: IndexChange) -> Result<(), ServeError> {
    let kinds = server::change_index(Config::load(&data.to_server())?, attribute, change, |part| {
        eprintln!("{}", server::progress_text(part));
    })?;
    println!("{attribute} {kinds}");
    Ok(())
}
