//! `pando man`: the manual pages, generated from the definitions that `--help` uses.

use std::path::Path;
use std::process::ExitCode;

use crate::arguments::CommandLine;
use crate::exit;

/// Writes a page for the program and one for each command into the folder.
pub(crate) fn run(folder: &Path) -> ExitCode {
    let command = CommandLine::with_all_options().disable_help_subcommand(true);
    match clap_mangen::generate_to(command, folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(&format!("cannot write manual pages into {}: {error}", folder.display())),
    }
}
