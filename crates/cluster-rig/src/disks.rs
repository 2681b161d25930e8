//! Small disks that can be filled: file systems in memory, which only root may mount.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::Result;

/// Size of each disk in bytes.
const BYTES: u64 = 256 << 20;
/// Name of the file that fills a disk.
const FILLER: &str = "filler";

/// All disks. They are unmounted when this struct is dropped, so processes that use them must end before that.
#[derive(Default)]
pub(crate) struct Disks(Mutex<Vec<PathBuf>>);

impl Disks {
    /// Mounts a disk on an empty folder. If mounting is not permitted, the folder remains an ordinary folder.
    pub(crate) fn make(&self, folder: &Path) -> io::Result<()> {
        let options = format!("size={BYTES},mode=700");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder)
            .stderr(Stdio::null())
            .status();
        if mount.is_ok_and(|status| status.success()) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(folder.to_owned());
        }
        Ok(())
    }

    /// Returns true if the folder is one of the disks.
    pub(crate) fn has(&self, folder: &Path) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|disk| disk == folder)
    }

    /// Returns the paths of the disks. They remain mounted when this struct is dropped.
    pub(crate) fn keep(&self) -> Vec<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.drain(..).map(|folder| folder.display().to_string()).collect()
    }

    /// Fills a disk completely.
    pub(crate) fn fill(&self, folder: &Path) -> Result<()> {
        if !self.has(folder) {
            return Err(format!("{} is no disk of its own", folder.display()).into());
        }
        let mut filler = File::create(folder.join(FILLER))?;
        let mut part = vec![0; 1 << 20];
        loop {
            match filler.write_all(&part) {
                Ok(()) => {}
                Err(error) if error.kind() != io::ErrorKind::StorageFull => return Err(error.into()),
                Err(_) if part.len() == 1 => return Ok(()),
                Err(_) => part.truncate(part.len() / 4),
            }
        }
    }

    /// Removes the file that fills a disk.
    pub(crate) fn clear(&self, folder: &Path) -> Result<()> {
        Ok(std::fs::remove_file(folder.join(FILLER))?)
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for folder in self.0.get_mut().unwrap_or_else(PoisonError::into_inner) {
            let _ = Command::new("umount").arg(folder).status();
        }
    }
}
