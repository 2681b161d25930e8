//! Reading the data file into memory before anybody asks for it.
//!
//! A look-up in a file that nobody has read yet waits for the disk at every page. A file that fits into memory is read
//! once, from its begin to its end, as fast as the disk gives it. The system keeps it in its cache, where the engine's
//! map finds it.

use std::fs::File;
use std::io::{self, Read};

/// What is read at a time: few calls, and soon done when it has to stop.
const PIECE: usize = 1 << 20;

/// Reads the first `len` bytes of a file for as long as `go_on` says so, and returns how many bytes that were. Nothing
/// depends on it but who waits for the disk.
///
/// # Errors
/// The disk cannot be read.
pub(crate) fn read_in(file: &File, len: u64, go_on: impl Fn() -> bool) -> io::Result<u64> {
    let mut rest = file.take(len);
    let mut piece = vec![0; PIECE];
    while go_on() && rest.read(&mut piece)? > 0 {}
    Ok(len - rest.limit())
}
