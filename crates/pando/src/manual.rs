//! `pando man`: writes the manual pages, which are generated from the same definitions as `--help`.

use std::path::Path;
use std::process::ExitCode;

use crate::arguments::CommandLine;
use crate::exit;

/// Writes a manual page for the program and one for each command into the directory.
pub(crate) fn run(folder: &Path) -> ExitCode {
    let command = CommandLine::with_all_options().disable_help_subcommand(true);
    match clap_mangen::generate_to(command, folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(&format!("cannot write manual pages into {}: {error}", folder.display())),
    }
}
