//! Exit codes, the same for every command. `docs/errors.md` lists them.

use std::process::ExitCode;

use server::{Fault, ServeError};

/// Says on standard error what went wrong, and gives the exit code for it.
pub(crate) fn failed(error: &ServeError) -> ExitCode {
    eprintln!("pando: {error}");
    ExitCode::from(match error.fault() {
        Fault::Other => 1,
        // The number that clap ends with as well.
        Fault::Settings => 2,
        Fault::InUse => 3,
        Fault::Data => 4,
        Fault::Listen => 5,
    })
}
