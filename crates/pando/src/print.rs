//! What commands print. `println!` and its kin of the standard library panic when nobody reads any more, as in
//! `pando index list | head -1`; those of this crate go on in silence, so that what a command does, and its exit
//! code, depend on no reader. Long output, which nobody should make for nothing, goes through a writer instead and
//! ends with [`exit::not_written`](crate::exit::not_written).
//!
//! `SIGPIPE` stays ignored, as Rust starts a program: its default would end a command between two of its changes, and
//! a server with the first client that goes away.

use std::fmt;
use std::io::{self, Write};

/// Takes the place of the standard library's macro in this crate.
macro_rules! print {
    ($($text:tt)*) => { $crate::print::to_output(format_args!($($text)*)) };
}

/// Takes the place of the standard library's macro in this crate.
macro_rules! println {
    ($($text:tt)*) => { $crate::print::to_output(format_args!("{}\n", format_args!($($text)*))) };
}

/// Takes the place of the standard library's macro in this crate.
macro_rules! eprint {
    ($($text:tt)*) => { $crate::print::to_errors(format_args!($($text)*)) };
}

/// Takes the place of the standard library's macro in this crate.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::print::to_errors(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints on standard output. Ends the process when that fails for another reason than that nobody reads: a full disk
/// must not pass for success.
pub(crate) fn to_output(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        to_errors(format_args!("pando: cannot write standard output: {error}\n"));
        std::process::exit(1);
    }
}

/// Prints on standard error, if anybody reads it.
pub(crate) fn to_errors(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}
