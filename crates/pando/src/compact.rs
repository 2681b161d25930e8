//! `pando compact`: the data without the holes that changes have left.

use std::process::ExitCode;

use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;

pub(crate) fn run(arguments: &DataArguments) -> ExitCode {
    let config = Config::load(&arguments.to_server()).map_err(ServeError::from);
    match config.and_then(|config| server::compact(&config)) {
        Ok(compacted) => {
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            println!(
                "compacted from {:.1} MB to {:.1} MB",
                megabytes(compacted.bytes_before),
                megabytes(compacted.bytes_after)
            );
            ExitCode::SUCCESS
        }
        Err(error) => exit::failed(&error),
    }
}

pub(crate) const HELP: &str = "\
The data file never shrinks by itself: freed pages are used again. This writes its rows into a new file, syncs it, and
puts it in the old one's place; stopped at any moment, the old data or the new is there. Needs room for both, and that
nobody serves the directory.

Example:
  pando compact --data /var/lib/pando

Exit codes:
  0  done
  1  failed; the old data is as it was
  2  the command line or a setting is wrong
  3  another process has the data directory
  4  there is no data, or it cannot be read";
