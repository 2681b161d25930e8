//! Owner of the files that a command creates in a data directory.
//!
//! An administrator runs commands as root, but the server runs as another user. If files in the server's folder
//! belonged to root, the server could not start. Therefore a command that ends gives its files to the owner of the
//! folder.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, open, openat};

/// Guard that, when it is dropped, gives root's files in a data directory to the folder's owner. The guard also does
/// this if the command fails.
#[derive(Debug)]
pub(crate) struct FolderOwner {
    data: PathBuf,
    /// User and group that receive the files; `None` if no file must be given away.
    owner: Option<(u32, u32)>,
}

impl FolderOwner {
    /// Records the owner of the data directory, or of the folder in which it will be created. For users other than
    /// root, records no owner, because only root can give files away.
    pub(crate) fn of(data: &Path) -> FolderOwner {
        let is_root = nix::unistd::geteuid().is_root();
        let existing = data.ancestors().find_map(|folder| match folder.as_os_str().is_empty() {
            true => fs::metadata(".").ok(),
            false => fs::metadata(folder).ok(),
        });
        let owner = existing.map(|metadata| (metadata.uid(), metadata.gid()));
        FolderOwner { data: data.to_owned(), owner: owner.filter(|(user, _)| is_root && *user != 0) }
    }
}

impl Drop for FolderOwner {
    fn drop(&mut self) {
        let Some((user, group)) = self.owner else { return };
        let folder = open(&self.data, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let owner = (Uid::from_raw(user), Gid::from_raw(group));
        let given = folder.map_err(io::Error::from).and_then(|folder| give(folder.as_fd(), owner));
        if let Err(error) = given
            && error.kind() != io::ErrorKind::NotFound
        {
            let data = self.data.display();
            tracing::error!(%error, "files of {data} stay root's: chown -R {user}:{group} {data}");
            eprintln!("pando: files of {data} stay root's: {error}; chown -R {user}:{group} {data}");
        }
    }
}

/// Gives root's files in a folder and below it to `owner`.
///
/// The owner of the folder may be hostile. Therefore each name is opened once, never through a symbolic link, and the
/// open file is checked and changed. A file with a second name elsewhere, such as a hard link to a system file, still
/// belongs to root.
fn give(folder: BorrowedFd<'_>, owner: (Uid, Gid)) -> io::Result<()> {
    give_one(folder, owner)?;
    let readable = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in Dir::new(readable)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(folder, entry.file_name(), flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::Directory => give(opened.as_fd(), owner)?,
            FileType::Symlink => {}
            _ => give_one(opened.as_fd(), owner)?,
        }
    }
    Ok(())
}

fn give_one(file: BorrowedFd<'_>, (user, group): (Uid, Gid)) -> io::Result<()> {
    let status = fstat(file)?;
    let has_one_name = status.st_nlink == 1 || FileType::from_raw_mode(status.st_mode) == FileType::Directory;
    if status.st_uid == 0 && has_one_name {
        chownat(file, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}
