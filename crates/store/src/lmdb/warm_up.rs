//! Reading the data file into memory before anybody asks for it.
//!
//! A look-up in a file that nobody has read yet waits for the disk at every page; in one that was read piece by piece it costs a fault for each
//! piece, and from then on the processor translates the address of every page of 4 KiB by itself. So a file that fits into memory is read once, from its begin to its end, and in
//! pages of 2 MiB where the system makes such ([`Advice::LinuxHugepage`], Linux 6.8 and file systems that have large folios). The engine's own map cannot be told
//! to: then a fault brings in 2 MiB for ever, which is far too much where the data does not fit. A map of a piece for a moment can; the pages stay in the system's cache
//! and the engine's map finds them there.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::ptr;

use rustix::mm::{self, Advice, MapFlags, ProtFlags};

/// What is mapped at a time: few calls, and soon done when it has to stop.
const PIECE: usize = 32 << 20;

/// Reads `len` bytes of a file into the system's cache, for as long as `go_on` says so, and returns how many bytes that were. Nothing depends on it but who waits for the disk.
///
/// # Errors
/// The disk cannot be read, or the file cannot be mapped.
pub(crate) fn read_in(file: &File, len: u64, go_on: impl Fn() -> bool) -> io::Result<u64> {
    let mut offset = 0;
    while offset < len && go_on() {
        let piece = usize::try_from(len - offset).map_or(PIECE, |left| left.min(PIECE));
        read_piece(file, offset, piece)?;
        offset += piece as u64;
    }
    Ok(offset)
}

fn read_piece(file: &File, offset: u64, len: usize) -> rustix::io::Result<()> {
    // SAFETY: a new map at a place that the system chooses, which nobody reads: not even a file that is cut meanwhile does harm.
    let start =
        unsafe { mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), offset)? };
    // SAFETY: the map from above. Advice for reading changes nothing in it; a system without huge pages refuses it, and reads the small ones.
    let populated = unsafe {
        let _ = mm::madvise(start, len, Advice::LinuxHugepage);
        mm::madvise(start, len, Advice::LinuxPopulateRead)
    };
    // SAFETY: the map from above, of which nobody has an address.
    let unmapped = unsafe { mm::munmap(start, len) };
    match populated {
        // Before Linux 5.14: the system reads on its own, as far as it likes.
        Err(rustix::io::Errno::INVAL) => rustix::fs::fadvise(
            file,
            offset,
            std::num::NonZeroU64::new(len as u64),
            rustix::fs::Advice::WillNeed,
        ),
        populated => populated.and(unmapped),
    }
}
