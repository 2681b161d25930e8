//! Exit codes, which mean the same for every command. `docs/reference/errors.md` lists them.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use server::{Fault, ServeError};

use crate::print::Report;

/// Prints an error on standard error, and returns its exit code.
pub(crate) fn failed(error: &ServeError) -> ExitCode {
    let code = match error.fault() {
        Fault::Other => 1,
        // clap uses the same exit code for errors of the command line.
        Fault::Settings => 2,
        Fault::InUse => 3,
        Fault::Data => 4,
        Fault::Listen => 5,
    };
    end(&error.to_string(), code)
}

/// Returns the message for a failed write to standard output. The message is empty if the reader closed the pipe.
pub(crate) fn unwritten(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::BrokenPipe => String::new(),
        _ => format!("cannot write standard output: {error}"),
    }
}

/// Prints the message unless it is empty. Returns the exit code for failure.
pub(crate) fn failure(message: &str) -> ExitCode {
    if message.is_empty() {
        return ExitCode::FAILURE;
    }
    end(message, 1)
}

/// Prints the result of a command, or the reason why it failed. Returns the exit code.
pub(crate) fn finish(result: Result<Report, String>) -> ExitCode {
    match result {
        Ok(report) => {
            report.print();
            ExitCode::SUCCESS
        }
        Err(error) => failure(&error),
    }
}

/// Reports that output could not be written completely. Returns the exit code. If the reader closed the pipe, prints no
/// message.
pub(crate) fn not_written(target: impl Display, error: &io::Error) -> ExitCode {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => failure(&format!("cannot write {target}: {error}")),
    }
}

/// Reports an error in the command line or in a file that it names. Returns the exit code.
pub(crate) fn refused(message: &str) -> ExitCode {
    end(message, 2)
}

/// Reports that the data are damaged, or cannot be used as they are. Returns the exit code.
pub(crate) fn damaged(message: &str) -> ExitCode {
    end(message, 4)
}

/// Returns the exit code of a command that omitted something: records in the rejects file, or entries beyond a limit.
pub(crate) fn some_rejected() -> ExitCode {
    ExitCode::from(6)
}

/// Reports that the output contains only a part of the result. Returns the exit code.
pub(crate) fn incomplete(message: &str) -> ExitCode {
    end(message, 6)
}

/// Returns the exit code of a measurement with failures.
pub(crate) fn some_failed() -> ExitCode {
    ExitCode::from(7)
}

/// Returns the exit code for a denied operation.
pub(crate) fn denied() -> ExitCode {
    ExitCode::from(8)
}

fn end(message: &str, code: u8) -> ExitCode {
    eprintln!("pando: {message}");
    ExitCode::from(code)
}
