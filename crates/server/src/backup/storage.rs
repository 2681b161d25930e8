//! Storage of backup files: a folder, or a prefix of a bucket.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::backup::name::{PARTIAL, is_left_over};
use crate::backup::{BackupError, failed};
use crate::unfinished::UnfinishedFile;

/// Name of the lock of the process that writes to a backup.
pub(crate) const LOCK: &str = "lock";

/// Name of the file that contains the name of the file that was not read back yet.
pub(crate) const UNREAD: &str = "unread";

/// Reads a new file back. Returns an error if the file is damaged or cannot be read.
pub(crate) type ReadBack<'c> = &'c mut dyn FnMut(Box<dyn Read>) -> Result<(), BackupError>;

/// Storage of named files. A file with its final name is complete.
pub(crate) trait Storage {
    /// Returns the path or address of the storage, for messages.
    fn address(&self) -> String;

    /// Returns the path or address of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Returns the names of all files and their sizes in bytes.
    fn list(&self) -> Result<Vec<(String, u64)>, BackupError>;

    /// Opens a file.
    fn open(&self, name: &str) -> Result<Box<dyn Read>, BackupError>;

    /// Begins a file, which gets its final name later.
    fn create(&self, name: &str) -> Result<Box<dyn NewFile>, BackupError>;

    /// Returns the content of a small file; `None` if it does not exist.
    fn small(&self, name: &str) -> Option<Vec<u8>>;

    /// Writes a small file. Replaces an existing one.
    fn set_small(&self, name: &str, content: &[u8]) -> Result<(), BackupError>;

    /// Returns the name of a file that is stored but was not read back. To mark it as read back, remove the file
    /// [`UNREAD`].
    fn unread(&self) -> Result<Option<String>, BackupError> {
        Ok(None)
    }

    /// Returns true if the last opened file ended with an error of the connection, which looks like damage.
    fn was_cut(&self) -> bool {
        false
    }

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<(), BackupError>;

    /// Takes the exclusive right to write until the result is dropped. Removes the remains of an interrupted process.
    fn claim(&self) -> Result<Box<dyn Claim>, BackupError>;
}

/// A file that is being written. Dropping it before [`finish`](NewFile::finish) removes it.
pub(crate) trait NewFile: Write {
    /// Stores the file durably, reads it back, and gives it its final name. Removes it if it is damaged.
    fn finish(self: Box<Self>, read_back: ReadBack<'_>) -> Result<(), BackupError>;
}

/// Exclusive right to write to a backup until it is dropped.
pub(crate) trait Claim {}

/// A folder of the file system.
pub(crate) struct LocalFolder(pub(crate) PathBuf);

impl Storage for LocalFolder {
    fn address(&self) -> String {
        self.0.display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn list(&self) -> Result<Vec<(String, u64)>, BackupError> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(failed("read", &self.0))? {
            let entry = entry.map_err(failed("read", &self.0))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // A file that another process has just removed is not an error.
            if let Ok(metadata) = entry.metadata() {
                files.push((name, metadata.len()));
            }
        }
        Ok(files)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read>, BackupError> {
        let path = self.path(name);
        Ok(Box::new(File::open(&path).map_err(failed("open", &path))?))
    }

    fn create(&self, name: &str) -> Result<Box<dyn NewFile>, BackupError> {
        let partial = UnfinishedFile::new(self.path(&format!("{name}{PARTIAL}")));
        let file = new_file(partial.path()).map_err(failed("write", partial.path()))?;
        Ok(Box::new(LocalFile { file, partial, path: self.path(name), folder: self.0.clone() }))
    }

    fn small(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path(name)).ok()
    }

    fn set_small(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        let path = self.path(name);
        let temporary = UnfinishedFile::new(self.path(&format!("{name}.{}", std::process::id())));
        let written = new_file(temporary.path()).and_then(|mut out| {
            out.write_all(content)?;
            out.sync_all()
        });
        written.and_then(|()| temporary.rename(&path)).map_err(failed("write", &path))
    }

    fn remove(&self, name: &str) -> Result<(), BackupError> {
        let path = self.path(name);
        fs::remove_file(&path).map_err(failed("remove", &path))
    }

    /// Creates the folder if it does not exist. Only its owner may access it.
    fn claim(&self) -> Result<Box<dyn Claim>, BackupError> {
        let path = &self.0;
        if !path.is_dir() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(path).map_err(failed("make", path))?;
        }
        let file = path.join(LOCK);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&file);
        let lock = opened.map_err(failed("open", &file))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let text = format!("another process is writing to {}", path.display());
                return Err(BackupError::Refused(text));
            }
            Err(error) => return Err(failed("lock", &file)(error.into())),
        }
        for (name, _) in self.list()?.iter().filter(|(name, _)| is_left_over(name)) {
            self.remove(name)?;
        }
        Ok(Box::new(LocalClaim { _lock: lock }))
    }
}

/// Creates a file that only its owner may access.
fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

struct LocalClaim {
    _lock: File,
}

impl Claim for LocalClaim {}

/// A file with a temporary name.
struct LocalFile {
    file: File,
    partial: UnfinishedFile,
    path: PathBuf,
    folder: PathBuf,
}

impl Write for LocalFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewFile for LocalFile {
    fn finish(self: Box<Self>, read_back: ReadBack<'_>) -> Result<(), BackupError> {
        let LocalFile { file, partial, path, folder } = *self;
        file.sync_all().map_err(failed("write", partial.path()))?;
        drop(file);
        let stored = File::open(partial.path()).map_err(failed("open", partial.path()))?;
        read_back(Box::new(stored))?;
        partial.rename(&path).map_err(failed("rename", &path))?;
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", &folder))
    }
}
