//! Exit codes, the same for every command. `docs/reference/errors.md` lists them.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use server::{Fault, ServeError};

/// Says on standard error what went wrong, and gives the exit code for it.
pub(crate) fn failed(error: &ServeError) -> ExitCode {
    let code = match error.fault() {
        Fault::Other => 1,
        // The number that clap ends with as well.
        Fault::Settings => 2,
        Fault::InUse => 3,
        Fault::Data => 4,
        Fault::Listen => 5,
    };
    end(&error.to_string(), code)
}

/// The command could not do what it was to do.
pub(crate) fn failure(message: &str) -> ExitCode {
    end(message, 1)
}

/// What was asked for could not be written whole. A reader that closed its pipe wants no message; the exit code keeps a
/// cut export from passing for a whole one.
pub(crate) fn not_written(target: impl Display, error: &io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => failure(&format!("cannot write {target}: {error}")),
    }
}

/// The command line, or a file that it names, is wrong.
pub(crate) fn refused(message: &str) -> ExitCode {
    end(message, 2)
}

/// The data cannot be used as it is.
pub(crate) fn damaged(message: &str) -> ExitCode {
    end(message, 4)
}

/// It is done, but for what a file says.
pub(crate) fn some_rejected() -> ExitCode {
    ExitCode::from(6)
}

/// It is measured, but for what a server could not do or did wrong.
pub(crate) fn some_failed() -> ExitCode {
    ExitCode::from(7)
}

/// The answer is no.
pub(crate) fn denied() -> ExitCode {
    ExitCode::from(8)
}

fn end(message: &str, code: u8) -> ExitCode {
    eprintln!("pando: {message}");
    ExitCode::from(code)
}
