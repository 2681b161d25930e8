//! Macros for the output of commands.
//!
//! The macros of the standard library panic if the reader has closed the pipe, as in `pando index list | head -1`. The
//! macros of this module ignore this error, so that a command and its exit code do not depend on the reader. Long
//! output uses a writer instead, and reports an error with [`exit::not_written`](crate::exit::not_written).
//!
//! The signal `SIGPIPE` stays ignored, which is Rust's default. Otherwise it could end a command between two of its
//! changes, and it would end a server when a client disconnects.

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

use serde_json::Value;

/// Replaces the macro of the standard library in this crate: prints on standard output.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::to_output(format_args!($($text)*)) };
}

/// Replaces the macro of the standard library in this crate: prints a line on standard output.
macro_rules! println {
    ($($text:tt)*) => { $crate::print::to_output(format_args!("{}\n", format_args!($($text)*))) };
}

/// Replaces the macro of the standard library in this crate: prints on standard error.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::print::to_errors(format_args!($($text)*)) };
}

/// Replaces the macro of the standard library in this crate: prints a line on standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::print::to_errors(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line about progress on standard error, unless `--quiet` is given.
macro_rules! remark {
    ($($text:tt)*) => {
        if !$crate::print::form().is_quiet {
            $crate::print::to_errors(format_args!("{}\n", format_args!($($text)*)));
        }
    };
}

/// Form of the output, selected by `--json` and `--quiet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) is_json: bool,
    pub(crate) is_quiet: bool,
}

/// Output form of this process, which is set once.
static FORM: OnceLock<Form> = OnceLock::new();

/// Sets the output form of this process.
pub(crate) fn choose(form: Form) {
    let _ = FORM.set(form);
}

/// Returns the output form of this process.
pub(crate) fn form() -> Form {
    FORM.get().copied().unwrap_or_default()
}

/// Output of a command as text and as JSON.
#[must_use]
#[derive(Debug)]
pub(crate) struct Report {
    json: Value,
    text: String,
    is_result: bool,
}

impl Report {
    /// Returns a report of a result, which is printed even with `--quiet`.
    pub(crate) fn result(json: Value, text: impl Into<String>) -> Report {
        Report { json, text: text.into(), is_result: true }
    }

    /// Returns a report of changes that were made. With `--quiet`, the report is printed only if `--json` is also
    /// given.
    pub(crate) fn done(json: Value, text: impl Into<String>) -> Report {
        Report { json, text: text.into(), is_result: false }
    }

    /// Prints one line of JSON with `--json`, otherwise the text with a newline at its end. With `--quiet`, does not
    /// print the text of changes that were made.
    pub(crate) fn print(self) {
        let Form { is_json, is_quiet } = form();
        let newline = if self.text.is_empty() || self.text.ends_with('\n') { "" } else { "\n" };
        match is_json {
            true => println!("{}", self.json),
            false if self.is_result || !is_quiet => print!("{}{newline}", self.text),
            false => {}
        }
    }
}

/// Prints an explanation on standard output, unless `--json` or `--quiet` is given.
pub(crate) fn note(text: &str) {
    if form() == Form::default() {
        println!("{text}");
    }
}

/// Prints on standard output. Ignores a closed pipe. Any other error, such as a full disk, ends the process with exit
/// code 1, so that the command does not seem to have succeeded.
pub(crate) fn to_output(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        to_errors(format_args!("pando: cannot write standard output: {error}\n"));
        std::process::exit(1);
    }
}

/// Prints on standard error. Ignores a closed pipe.
pub(crate) fn to_errors(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}
