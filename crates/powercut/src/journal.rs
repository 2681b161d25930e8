//! The journal of a power cut, and its application to the files.
//!
//! ```text
//! "PWRCUT1\n", then for each file, all numbers u64 in the machine's byte order:
//!   path length, path, size when last synced, sector count,
//!   and for each sector: its index, its 512 bytes when last synced
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"PWRCUT1\n";
const SECTOR_LEN: usize = 512;
const SECTORS_PER_PAGE: u64 = 8;

/// Result of [`discard_unsynced`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Number of sectors that were not synced at the power cut.
    pub unsynced_sectors: usize,
    /// Number of sectors that were reverted to their old bytes.
    pub discarded_sectors: usize,
}

struct Unsynced<'a> {
    path: PathBuf,
    durable_size: u64,
    /// Index of each sector, and its bytes when last synced.
    sectors: Vec<(u64, &'a [u8])>,
}

/// Reverts writes that were not synced at the power cut: all of them, none, or some, chosen by `seed`. The same
/// journal, files and seed give the same result.
///
/// # Errors
/// The journal, or a file that it names, cannot be read or written; `InvalidData` if the journal is malformed.
pub fn discard_unsynced(journal: &Path, seed: u64) -> io::Result<Discarded> {
    let bytes = fs::read(journal)?;
    let files =
        parse(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a power cut journal"))?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut discarded = Discarded::default();
    for file in &files {
        discarded.unsynced_sectors += file.sectors.len();
        discarded.discarded_sectors += discard(file, &mut random)?;
    }
    Ok(discarded)
}

/// Fate of one page on the disk.
#[derive(Clone, Copy)]
enum Fate {
    Lost,
    Written,
    Torn,
}

fn discard(file: &Unsynced<'_>, random: &mut fastrand::Rng) -> io::Result<usize> {
    let on_disk = OpenOptions::new().read(true).write(true).open(&file.path)?;
    let size = on_disk.metadata()?.len();
    let fates: &[Fate] = match random.u32(0..5) {
        0 => &[Fate::Lost],
        1 => &[Fate::Written],
        2 => &[Fate::Lost, Fate::Written],
        _ => &[Fate::Lost, Fate::Written, Fate::Torn],
    };
    if size < file.durable_size {
        // A truncation is atomic: it either happened or did not.
        if !random.bool() {
            return Ok(0);
        }
        on_disk.set_len(file.durable_size)?;
        return restore(&on_disk, &file.sectors, |_| true);
    }
    let seed = random.u64(..);
    let restored = restore(&on_disk, &file.sectors, |index| {
        // The decision depends only on the page, so all sectors of a page get the same decision, in whatever order they
        // are restored.
        let mut of_page =
            fastrand::Rng::with_seed(seed ^ (index / SECTORS_PER_PAGE).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        match fates[of_page.usize(..fates.len())] {
            Fate::Lost => true,
            Fate::Written => false,
            Fate::Torn => random.bool(),
        }
    })?;
    // If the size has changed since the last sync, the new size may be lost too.
    on_disk.set_len(match random.u32(0..4) {
        0 => file.durable_size,
        1 => random.u64(file.durable_size..=size),
        _ => size,
    })?;
    on_disk.sync_all()?;
    Ok(restored)
}

/// Restores the old bytes of the sectors for which `lost` returns true. Returns the number of restored sectors.
fn restore(file: &File, sectors: &[(u64, &[u8])], mut lost: impl FnMut(u64) -> bool) -> io::Result<usize> {
    let mut restored = 0;
    for (index, before) in sectors {
        if lost(*index) {
            file.write_all_at(before, index * SECTOR_LEN as u64)?;
            restored += 1;
        }
    }
    Ok(restored)
}

fn parse(bytes: &[u8]) -> Option<Vec<Unsynced<'_>>> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut files = Vec::new();
    while !rest.is_empty() {
        let path_len = usize::try_from(number(&mut rest)?).ok()?;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(take(&mut rest, path_len)?));
        let durable_size = number(&mut rest)?;
        let count = number(&mut rest)?;
        let sectors = (0..count)
            .map(|_| Some((number(&mut rest)?, take(&mut rest, SECTOR_LEN)?)))
            .collect::<Option<Vec<_>>>()?;
        files.push(Unsynced { path, durable_size, sectors });
    }
    Some(files)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (bytes, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(bytes)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (bytes, left) = rest.split_first_chunk::<8>()?;
    *rest = left;
    Some(u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_journal_is_invalid() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&1u64.to_ne_bytes());
        bytes.extend_from_slice(b"a");
        bytes.extend_from_slice(&600u64.to_ne_bytes());
        bytes.extend_from_slice(&1u64.to_ne_bytes());
        bytes.extend_from_slice(&0u64.to_ne_bytes());
        bytes.extend_from_slice(&[7; SECTOR_LEN]);
        let files = parse(&bytes).unwrap();
        assert_eq!((files.len(), files[0].durable_size, files[0].sectors.len()), (1, 600, 1));
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]).is_some(), length == MAGIC.len(), "{length} bytes");
        }
    }
}
