//! [`Store`]: opening a data directory, creating it where it is missing, and the handles that come of it.
//!
//! A new data file is made complete under another name, synced, and renamed: a crash while it is made leaves no half store behind. An
//! existing one is asked for its format before a byte of it is changed.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{self, Space};
use crate::layout::{self, FORMAT_KEY, FORMAT_VERSION, Map, MapSpec};
use crate::lmdb::{Env, EnvOptions, Failure, PutKind, Txn, TxnKind};
use crate::shared::Shared;
use crate::{OpenError, Position, Result, StoreError, View, Writer};

/// How to open a store. The defaults fit every size of directory.
#[derive(Debug, Clone)]
pub struct Options {
    /// Free bytes on the file system below which batches are refused with `DiskFull`. Default 128 MiB.
    pub reserve_bytes: u64,
    /// Most views open at once. Default 1,024.
    pub views_max: u32,
    /// Size of the map in bytes, which the data file cannot outgrow; `None`, the default, takes it from the size of the disk. For tests.
    pub map_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { reserve_bytes: 128 << 20, views_max: 1024, map_bytes: None }
    }
}

/// An open store, to be cloned freely. The files close when the last clone, view and writer are gone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// Figures for monitoring.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of address space that the data file may grow into.
    pub map_bytes: u64,
    /// Bytes of the data file in use or free for reuse.
    pub used_bytes: u64,
    /// View slots taken at some time since the store was opened, at most [`Options::views_max`].
    pub view_slots: u32,
    /// Position of the last durable log record.
    pub position: Position,
    /// Free bytes on the file system, for an unprivileged process.
    pub disk_free_bytes: u64,
    /// Size of the file system in bytes.
    pub disk_bytes: u64,
    /// Whether a failed commit has stopped the writer.
    pub writes_stopped: bool,
}

impl Store {
    /// Opens the store in `directory`, creating the directory, the data file and the maps as needed.
    ///
    /// # Errors
    /// `InUse` while somebody else has it open; `Format`, `NotAStore`, `Map`, `File` and `Store` as [`OpenError`] says.
    pub fn open(
        directory: &Path,
        maps: &'static [MapSpec],
        options: &Options,
    ) -> std::result::Result<(Store, Writer), OpenError> {
        if let Some((name, reason)) = layout::bad_name(maps) {
            return Err(OpenError::Map { name: name.to_owned(), reason });
        }
        let in_directory =
            |action| move |source| OpenError::File { action, path: directory.to_owned(), source };
        // Only the owner may look: the store holds password hashes.
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(in_directory("create"))?;
        let lock = disk::lock(directory)?;
        let opened = File::open(directory).map_err(in_directory("open"))?;
        let data_file = directory.join(layout::DATA_FILE);
        if !data_file.try_exists().map_err(in_directory("read"))? {
            create(directory, &opened, &data_file, options)?;
        }
        let (env, map_bytes) = open_env(&data_file, &opened, maps, options, lock)?;
        let shared = Shared::new(Arc::new(env), maps, options, map_bytes, data_file, opened)?;
        let shared = Arc::new(shared);
        Ok((Store { shared: Arc::clone(&shared) }, Writer::new(shared)))
    }

    /// A new view at the newest durable position.
    ///
    /// # Errors
    /// `TooManyViews`, `Engine`.
    pub fn view(&self) -> Result<View> {
        View::begin(&self.shared)
    }

    /// Figures for monitoring. Costs some microseconds.
    ///
    /// # Errors
    /// `TooManyViews`, `DamagedRow`, `Engine`.
    pub fn facts(&self) -> Result<Facts> {
        let engine = self.shared.env.facts()?;
        let space = self.shared.space()?;
        Ok(Facts {
            map_bytes: engine.map_bytes,
            used_bytes: engine.used_bytes,
            view_slots: engine.reader_slots,
            position: self.view()?.position()?,
            disk_free_bytes: space.free_bytes,
            disk_bytes: space.total_bytes,
            writes_stopped: self.shared.writes_stopped(),
        })
    }
}

/// Opens the data file with all its maps. Also returns the size of the map.
fn open_env(
    data_file: &Path,
    directory: &File,
    maps: &'static [MapSpec],
    options: &Options,
    lock: File,
) -> std::result::Result<(Env, usize), OpenError> {
    let space = Space::of(directory).map_err(|code| Failure { operation: "fstatvfs", code });
    let mut map_bytes = match options.map_bytes {
        Some(bytes) => bytes,
        None => disk::map_bytes(space.map_err(StoreError::from)?.total_bytes),
    };
    // A failed environment lets go of what it holds, so all of them share the lock.
    let lock = Arc::new(lock);
    loop {
        let env_options = EnvOptions {
            data_file,
            map_bytes: usize::try_from(map_bytes).unwrap_or(usize::MAX),
            readers_max: options.views_max,
            maps_max: layout::map_count(maps),
            frozen: false,
        };
        match Env::open(&env_options, Box::new(Arc::clone(&lock))) {
            Ok(env) => return Ok((with_maps(env, data_file, maps)?, env_options.map_bytes)),
            Err(failure) if disk::is_out_of_memory(failure.code) => match disk::smaller_map(map_bytes) {
                Some(smaller) => map_bytes = smaller,
                None => return Err(engine_error(failure, data_file)),
            },
            Err(failure) => return Err(engine_error(failure, data_file)),
        }
    }
}

/// Checks the format and only then opens, and creates, the other maps.
fn with_maps(env: Env, data_file: &Path, maps: &[MapSpec]) -> std::result::Result<Env, OpenError> {
    let mut env = env;
    let not_a_store =
        |reason: &str| OpenError::NotAStore { file: data_file.to_owned(), reason: reason.to_owned() };
    match env.open_maps(&layout::meta_map(), false) {
        Ok(None) => {}
        Err(failure) if failure.code != Failure::NOT_FOUND => return Err(engine_error(failure, data_file)),
        Ok(Some(_)) | Err(_) => return Err(not_a_store("it was not written by this program")),
    }
    let env_with_meta = Arc::new(env);
    let found = format_of(&env_with_meta).map_err(|failure| engine_error(failure, data_file))?;
    env = Arc::into_inner(env_with_meta).ok_or_else(|| not_a_store("it is in use"))?;
    match found {
        Some(FORMAT_VERSION) => {}
        Some(found) => return Err(OpenError::Format { found, supported: FORMAT_VERSION }),
        None => return Err(not_a_store("it does not say its format")),
    }
    match env.open_maps(&layout::other_maps(maps), true) {
        Ok(None) => Ok(env),
        Ok(Some(name)) => {
            Err(OpenError::Map { name: name.to_owned(), reason: "it exists with the other kind" })
        }
        Err(failure) => Err(engine_error(failure, data_file)),
    }
}

/// The format version in the meta map, `None` if there is no such row.
fn format_of(env: &Arc<Env>) -> std::result::Result<Option<u32>, Failure> {
    let txn = Txn::begin(env, TxnKind::Read)?;
    let value = txn.get(Map::META.index, FORMAT_KEY)?;
    Ok(value.and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes))
}

/// Makes an empty data file, complete or not at all.
fn create(
    directory: &Path,
    opened: &File,
    data_file: &Path,
    options: &Options,
) -> std::result::Result<(), OpenError> {
    let new_file = directory.join(layout::NEW_DATA_FILE);
    let new_readers = directory.join(format!("{}{}", layout::NEW_DATA_FILE, layout::READERS_SUFFIX));
    let failed = |action, path: &Path| {
        let path: PathBuf = path.to_owned();
        move |source| OpenError::File { action, path, source }
    };
    // What a crash has left.
    remove_if_there(&new_file).map_err(failed("remove", &new_file))?;
    let env_options = EnvOptions {
        data_file: &new_file,
        map_bytes: 1 << 20,
        readers_max: options.views_max,
        maps_max: layout::map_count(&[]),
        frozen: false,
    };
    write_format(&env_options).map_err(|failure| engine_error(failure, &new_file))?;
    File::open(&new_file).and_then(|file| file.sync_all()).map_err(failed("sync", &new_file))?;
    fs::rename(&new_file, data_file).map_err(failed("rename", &new_file))?;
    remove_if_there(&new_readers).map_err(failed("remove", &new_readers))?;
    disk::sync_directory(opened).map_err(failed("sync", directory))
}

fn write_format(env_options: &EnvOptions<'_>) -> std::result::Result<(), Failure> {
    let mut env = Env::open(env_options, Box::new(()))?;
    env.open_maps(&layout::meta_map(), true)?;
    let mut txn = Txn::begin(&Arc::new(env), TxnKind::Write)?;
    txn.put(Map::META.index, FORMAT_KEY, &FORMAT_VERSION.to_be_bytes(), PutKind::Set)?;
    txn.commit()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn engine_error(failure: Failure, data_file: &Path) -> OpenError {
    match failure.code {
        Failure::INVALID | Failure::VERSION_MISMATCH | Failure::CORRUPTED => {
            OpenError::NotAStore { file: data_file.to_owned(), reason: failure.message() }
        }
        code if code > 0 => OpenError::File {
            action: "open",
            path: data_file.to_owned(),
            source: io::Error::from_raw_os_error(code),
        },
        _ => OpenError::Store(failure.into()),
    }
}
