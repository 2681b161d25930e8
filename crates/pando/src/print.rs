//! Macros for the output of commands. Those of the standard library panic if the reader has closed the pipe, as in
//! `pando index list | head -1`; those of this crate ignore that, so that a command and its exit code do not depend on
//! the reader. Long output goes through a writer instead and ends with
//! [`exit::not_written`](crate::exit::not_written).
//!
//! `SIGPIPE` stays ignored, Rust's default. Otherwise it would end a command between two of its changes, and a server
//! with the first client that disconnects.

use std::fmt;
use std::io::{self, Write};

/// Replaces the standard library's macro in this crate.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::to_output(format_args!($($text)*)) };
}

/// Replaces the standard library's macro in this crate.
macro_rules! println {
    ($($text:tt)*) => { $crate::print::to_output(format_args!("{}\n", format_args!($($text)*))) };
}

/// Replaces the standard library's macro in this crate.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::print::to_errors(format_args!($($text)*)) };
}

/// Replaces the standard library's macro in this crate.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::print::to_errors(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints on standard output. Exits the process if that fails, except for a closed pipe: a full disk must not look like
/// success.
pub(crate) fn to_output(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        to_errors(format_args!("pando: cannot write standard output: {error}\n"));
        std::process::exit(1);
    }
}

/// Prints on standard error, and ignores a closed pipe.
pub(crate) fn to_errors(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}
