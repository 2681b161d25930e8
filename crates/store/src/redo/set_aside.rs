//! Segments of other data. If the data file has replaced that data, the segments are removed. Otherwise they are set
//! aside, because they may be the only copy of acknowledged changes.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use super::frame::{self, BLOCK_LEN, Header, Identity};
use super::segment;
use crate::disk::{self, Room};
use crate::layout::SET_ASIDE_DIRECTORY;

/// Moves files to the directory for files set aside, below the data directory `directory`, and returns their new paths.
/// The moves are durable on return. No existing file is overwritten.
pub(crate) fn set_aside(directory: &Path, room: &Room, files: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let aside = directory.join(SET_ASIDE_DIRECTORY);
    match DirBuilder::new().mode(0o700).create(&aside) {
        Ok(()) => room.sync_directory()?,
        Err(_) if aside.is_dir() => {}
        Err(error) => return Err(error),
    }
    let mut moved = Vec::with_capacity(files.len());
    for file in files {
        let target = free_name(&aside, file)?;
        fs::rename(file, &target)?;
        moved.push(target);
    }
    // The new names are synced first, so that a power cut cannot remove both names.
    File::open(&aside)?.sync_all()?;
    room.sync_directory()?;
    Ok(moved)
}

/// Returns a free name for `file` in `aside`: if the file's own name is taken, a number is appended. The lock on the
/// data directory excludes other processes.
fn free_name(aside: &Path, file: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_os_string();
    let mut target = aside.join(&name);
    let mut number = 0_u64;
    loop {
        match fs::symlink_metadata(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(target),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        number += 1;
        let mut numbered = name.clone();
        numbered.push(format!(".{number}"));
        target = aside.join(numbered);
    }
}

/// Removes the segments of the data of `identity`. The data must have been replaced.
pub(crate) fn remove_replaced(directory: &Path, identity: Identity) -> io::Result<()> {
    for (_, path) in segment::list(directory)? {
        let mut block = [0; BLOCK_LEN];
        let read = File::open(&path).and_then(|file| file.read_exact_at(&mut block, 0));
        let header = read.ok().and_then(|()| frame::parse_header(&block));
        if matches!(header, Some(Header::Of(life)) if life.identity == identity) {
            disk::remove_if_there(&path)?;
        }
    }
    Ok(())
}
