//! `pando compact`: rewrites the data file without unused pages.

use serde_json::json;
use std::process::ExitCode;

use server::{Config, ServeError};

use crate::data_arguments::DataArguments;
use crate::exit;
use crate::print::Report;

pub(crate) fn run(arguments: &DataArguments) -> ExitCode {
    let config = Config::load(&arguments.to_server()).map_err(ServeError::from);
    match config.and_then(|config| server::compact(&config)) {
        Ok(compacted) => {
            let megabytes = |bytes: u64| bytes as f64 / 1e6;
            let (before, after) = (compacted.bytes_before, compacted.bytes_after);
            let text = format!("compacted from {:.1} MB to {:.1} MB", megabytes(before), megabytes(after));
            Report::done(json!({ "bytes_before": before, "bytes_after": after }), text).print();
            ExitCode::SUCCESS
        }
        Err(error) => exit::failed(&error),
    }
}

pub(crate) const HELP: &str = "\
The data file never shrinks by itself: freed pages are reused. This command writes the rows to a new file, syncs it and
replaces the old file. If it is interrupted, either the old or the new file is complete. It needs room for both, and the
directory must be stopped.

Example:
  pando compact --data /var/lib/pando

Exit codes:
  0  done
  1  failed; the old data is unchanged
  2  the command line or a setting is wrong
  3  another process uses the data directory
  4  the data does not exist or cannot be read";
