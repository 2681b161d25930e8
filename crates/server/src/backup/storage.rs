//! The storage of a backup's files: a folder, or the objects below a prefix of a bucket.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::backup::name::{PARTIAL, is_left_over};
use crate::backup::{BackupError, failed};
use crate::unfinished::UnfinishedFile;

/// Name of the lock. The process that writes to the backup holds it.
pub(crate) const LOCK: &str = "lock";

/// Name of the file that contains the name of the backup file that is stored but not yet read back.
pub(crate) const UNREAD: &str = "unread";

/// Function that reads a new file back. It returns an error if the file is damaged or cannot be read.
pub(crate) type ReadBack<'c> = &'c mut dyn FnMut(Box<dyn Read>) -> Result<(), BackupError>;

/// A storage of files. If a file has its final name, it is complete.
pub(crate) trait Storage {
    /// Returns the path or address of the storage for messages.
    fn address(&self) -> String;

    /// Returns the path or address of a file for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Returns the name and the size in bytes of every file.
    fn list(&self) -> Result<Vec<(String, u64)>, BackupError>;

    /// Opens a file for reading.
    fn open(&self, name: &str) -> Result<Box<dyn Read>, BackupError>;

    /// Starts to write a file. The file receives its final name in [`finish`](NewFile::finish).
    fn create(&self, name: &str) -> Result<Box<dyn NewFile>, BackupError>;

    /// Returns the content of a small file. Returns `None` if the file does not exist or cannot be read.
    fn small(&self, name: &str) -> Option<Vec<u8>>;

    /// Writes a small file. Replaces the file if it exists.
    fn set_small(&self, name: &str, content: &[u8]) -> Result<(), BackupError>;

    /// Returns the name of the backup file that is stored but not yet read back, if there is one. After it was read
    /// back, the caller must remove the file [`UNREAD`].
    fn unread(&self) -> Result<Option<String>, BackupError> {
        Ok(None)
    }

    /// Returns true if reading of the last opened file was interrupted by an error of the connection or of the storage.
    /// Without this check, the interruption would look like damage.
    fn was_cut(&self) -> bool {
        false
    }

    /// Removes a file.
    fn remove(&self, name: &str) -> Result<(), BackupError>;

    /// Acquires the exclusive right to write, until the result is dropped. Removes files that an interrupted process
    /// has left.
    fn claim(&self) -> Result<Box<dyn Claim>, BackupError>;
}

/// A file that is being written. If it is dropped without a call of [`finish`](NewFile::finish), it is removed.
pub(crate) trait NewFile: Write {
    /// Makes the file durable, gives it its final name, and reads it back. The order of the last two steps depends on
    /// the storage. Removes the file if it is damaged.
    fn finish(self: Box<Self>, read_back: ReadBack<'_>) -> Result<(), BackupError>;
}

/// The exclusive right to write to a backup. Dropping it releases the right.
pub(crate) trait Claim {}

/// A folder of the file system as the storage of a backup.
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
            // If another process has just removed the file, that is no error.
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
        let write = || {
            let (temporary, mut out) = UnfinishedFile::create(&path)?;
            out.write_all(content)?;
            out.sync_all()?;
            temporary.rename(&path)
        };
        write().map_err(failed("write", &path))
    }

    fn remove(&self, name: &str) -> Result<(), BackupError> {
        let path = self.path(name);
        fs::remove_file(&path).map_err(failed("remove", &path))
    }

    /// Creates the folder if it does not exist. Only the owner may access it.
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

/// Creates a file that only the owner may access.
fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

struct LocalClaim {
    _lock: File,
}

impl Claim for LocalClaim {}

/// A new file. It has a temporary name until it is finished.
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
