//! [`Store`]: opening a data directory, creating it if it is missing, and the resulting handles.
//!
//! A new data file is written completely under another name, synced, and renamed, so a crash leaves no partial store.
//! The format of an existing file is checked before the file is changed. Changes that a crash left in the redo log are
//! first written to the data file; if the disk has no room for them, they stay pending.

mod data_file;
pub(crate) mod read_only;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{self, Claim, DirectoryLock, Room};
use crate::error::failed;
use crate::layout::{self, FORMAT_KEY, FORMAT_VERSION, FORMAT_VERSION_MIN};
use crate::lmdb::{Env, EnvOptions, Failure, Mode, PutKind, Txn, TxnKind};
use crate::maps::{self, Map, MapSpec};
use crate::meta::{self, RedoFacts};
use crate::overlay::Overlay;
use crate::pending::{Pending, checkpoint};
use crate::redo::RedoLog;
use crate::shared::{DataWriter, Shared};
use crate::{OpenError, Options, Position, Read, Result, StoreError, View, Writer};

/// An open store. Clones share it. The files are closed when the last clone, view and writer are dropped.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    set_aside: Arc<[PathBuf]>,
}

/// Figures for monitoring.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of address space that are mapped: the limit of the data file's size.
    pub map_bytes: u64,
    /// Bytes of the data file, in use or free for reuse.
    pub used_bytes: u64,
    /// Bytes of the data file that are free for reuse. [`compact`](crate::compact()) returns them to the file system.
    pub free_bytes: u64,
    /// Maximum number of view slots in use at any time since the store was opened; at most [`Options::views_max`].
    pub view_slots: u32,
    /// Position of the last durable log record.
    pub position: Position,
    /// Free bytes on the file system, for an unprivileged process.
    pub disk_free_bytes: u64,
    /// Size of the file system in bytes.
    pub disk_bytes: u64,
    /// Reserve of free bytes, below which changes are refused.
    pub disk_reserve_bytes: u64,
    /// Whether a failed commit has stopped writes.
    pub writes_stopped: bool,
    /// Approximate memory of changes that are durable but not in the data file yet, in bytes.
    pub pending_bytes: u64,
}

impl Store {
    /// Opens the store in `directory`, creating the directory, the data file and the maps as needed.
    ///
    /// # Errors
    /// `InUse` while another process has the store open; `Format`, `NotAStore`, `Map`, `File` and `Store` as
    /// [`OpenError`] describes.
    pub fn open(
        directory: &Path,
        maps: &'static [MapSpec],
        options: &Options,
    ) -> Result<(Store, Writer), OpenError> {
        let own = DataDirectory::take(directory, maps)?;
        let data_file = directory.join(layout::DATA_FILE);
        if !data_file.try_exists().map_err(failed("read", directory))? {
            create(&own, &data_file, options)?;
        }
        let claim = Claim::on(&data_file).map_err(failed("read", &data_file))?;
        let claim = claim.ok_or_else(|| own_process_has(directory))?;
        let locked = disk::lock_data_file(directory, true)?;
        let room = Room::new(own.opened, directory, options.reserve_bytes);
        let opening =
            Opening { data_file: &data_file, maps, options, mode: Mode::ReadWrite, read_ahead: false };
        let (env, map_bytes) = opening.open(&room, Arc::new((own.lock, locked, claim)))?;
        let env = with_maps(env, &data_file, maps, MissingMaps::Create)?;
        let env = Arc::new(env);
        let (pending, set_aside) = recover(&env, directory, &room, maps, options)?;
        let pending = Arc::new(pending);
        let checkpointer = Pending::start(&pending).map_err(failed("start a thread for", directory))?;
        let written_by = DataWriter::Us(Arc::clone(&pending), Some(checkpointer));
        let shared = Arc::new(Shared::new(env, maps, options, map_bytes, data_file, room, written_by));
        let writer = Writer::new(Arc::clone(&shared), pending)?;
        Ok((Store { shared, set_aside }, writer))
    }

    /// Checkpoints all committed changes into the data file, and waits until that is done. Calling it is optional: the
    /// store checkpoints by itself, and when it is closed.
    ///
    /// # Errors
    /// `DiskFull`: changes stay pending. `WritesStopped`.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.pending().map_or(Ok(()), |pending| pending.checkpoint_all())
    }

    /// Reads the data file into memory while `go_on` returns true, and returns the number of bytes read. Does nothing
    /// if the file has more than `bytes_max` bytes: reading the whole file would evict the pages that its readers use.
    ///
    /// # Errors
    /// `Engine`: the file cannot be read. The store is unchanged.
    pub fn warm_up(&self, bytes_max: u64, go_on: impl Fn() -> bool) -> Result<u64> {
        let used_bytes = self.shared.env.facts()?.used_bytes;
        if used_bytes > bytes_max {
            return Ok(0);
        }
        let read = self.shared.open_data_file().and_then(|file| disk::read_in(&file, used_bytes, go_on));
        read.map_err(|error| {
            let code = error.raw_os_error().unwrap_or_default();
            Failure { operation: "read the data file", code }.into()
        })
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the new paths of files that opening the store moved out of the data directory. The files belong to other
    /// data, and may be the only copy of changes.
    pub fn set_aside(&self) -> &[PathBuf] {
        &self.set_aside
    }

    /// Returns a new view at the newest durable position.
    ///
    /// # Errors
    /// `TooManyViews`, `Engine`.
    pub fn view(&self) -> Result<View> {
        View::begin(&self.shared)
    }

    /// Returns figures for monitoring. Costs some microseconds.
    ///
    /// # Errors
    /// `TooManyViews`, `DamagedRow`, `Engine`.
    pub fn facts(&self) -> Result<Facts> {
        let engine = self.shared.env.facts()?;
        let space = self.shared.room.space()?;
        let view = self.view()?;
        Ok(Facts {
            map_bytes: engine.map_bytes,
            used_bytes: engine.used_bytes,
            free_bytes: view.free_bytes()?,
            view_slots: engine.reader_slots.saturating_sub(1),
            position: view.position()?,
            disk_free_bytes: space.free_bytes,
            disk_bytes: space.total_bytes,
            disk_reserve_bytes: self.shared.room.reserve_bytes(),
            writes_stopped: self.shared.pending().is_some_and(|pending| pending.writes_stopped()),
            pending_bytes: self.shared.pending().map_or(0, |pending| pending.bytes() as u64),
        })
    }
}

/// Opens the redo log and writes its pending groups to the data file, then updates the data file's facts about the redo
/// log.
fn recover(
    env: &Arc<Env>,
    directory: &Path,
    room: &Room,
    maps: &'static [MapSpec],
    options: &Options,
) -> Result<(Pending, Arc<[PathBuf]>), OpenError> {
    let clone_room = || room.try_clone().map_err(failed("open", directory));
    let mut read = Read::new(Txn::begin(env, TxnKind::Read).map_err(StoreError::from)?, maps);
    let facts = RedoFacts::read(&read.txn)?;
    let (redo, mut replay) = RedoLog::open(directory, clone_room()?, &facts.owner)?;
    let set_aside = redo.set_aside().into();
    facts.replay(&mut read, &mut replay)?;
    let mut overlay = read.overlay.take().map(Arc::unwrap_or_clone);
    drop((read, replay));
    let mut checkpointed = facts.owner.checkpointed;
    if let Some(pending) = &overlay {
        let last = redo.last_sequence();
        match checkpoint::checkpoint(env, &pending.active, last, &mut ()) {
            Ok(()) => {
                (overlay, checkpointed) = (None, last);
                match redo.trim(last) {
                    // The disk is full. The segments remain, and a later open releases them.
                    Ok(()) | Err(StoreError::DiskFull { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(failure) => match room.full(failure) {
                // The disk is full. The changes stay pending and can be read, and writes continue once the disk has
                // room.
                Some(_) if facts.has_maps_of(maps) => {}
                Some(error) => return Err(error.into()),
                None => return Err(StoreError::from(failure).into()),
            },
        }
    }
    if !facts.has_maps_of(maps) {
        let written = env.write(|txn| meta::put_map_names(txn, maps));
        written.map_err(|failure| room.write_error(failure))?;
    }
    if redo.has_mark() && !facts.owner.is_marked {
        match env.write(|txn| meta::put_marked(txn, true)) {
            Ok(()) => {}
            // The disk is full. The data file then does not require the mark, and nothing else depends on this row.
            Err(failure) if room.full(failure).is_some() => {}
            Err(failure) => return Err(StoreError::from(failure).into()),
        }
    }
    let map_count = maps::map_count(maps) as usize;
    let overlay = overlay.unwrap_or_else(|| Overlay::new(map_count));
    let pending =
        Pending::new(Arc::clone(env), clone_room()?, redo, map_count, options, overlay, checkpointed)?;
    Ok((pending, set_aside))
}

/// A data directory that this process has locked.
pub(crate) struct DataDirectory<'a> {
    pub(crate) path: &'a Path,
    pub(crate) opened: File,
    pub(crate) lock: DirectoryLock,
}

impl DataDirectory<'_> {
    /// Checks the names of the maps. Then creates the directory if it is missing, locks it, and removes the files that
    /// a crash left in the directory.
    pub(crate) fn take<'a>(path: &'a Path, maps: &'static [MapSpec]) -> Result<DataDirectory<'a>, OpenError> {
        maps::check_names(maps)?;
        make_data_directory(path)?;
        let lock = disk::lock(path)?;
        has_data_file(path)?;
        disk::remove_left_over(path).map_err(failed("clear", path))?;
        let opened = File::open(path).map_err(failed("open", path))?;
        Ok(DataDirectory { path, opened, lock })
    }
}

/// Creates a data directory if it is missing; its parent must exist.
///
/// # Errors
/// `File`.
pub fn make_data_directory(path: &Path) -> Result<(), OpenError> {
    disk::make_directory(path).map_err(failed("create", path))
}

/// Returns true if a directory contains a data file.
///
/// # Errors
/// `DataFileMissing`: there is none, but there are files of its redo log. `File`.
pub fn has_data_file(directory: &Path) -> Result<bool, OpenError> {
    if directory.join(layout::DATA_FILE).try_exists().map_err(failed("read", directory))? {
        return Ok(true);
    }
    let mut files = Vec::new();
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        entries => {
            for entry in entries.map_err(failed("read", directory))? {
                let name = entry.map_err(failed("read", directory))?.file_name();
                if layout::is_of_redo_log(&name) {
                    files.push(name.to_string_lossy().into_owned());
                }
            }
        }
    }
    files.sort_unstable();
    if files.is_empty() {
        return Ok(false);
    }
    Err(OpenError::DataFileMissing { directory: directory.to_owned(), files })
}

/// Moves a data file into a directory without one, on the same file system. The store in `from` must be closed and have
/// no redo log, so a [`BulkStore`](crate::BulkStore) must have written it, and since then it must have been opened only
/// for reading. Returns false if `to` has a data file.
///
/// # Errors
/// The same as [`Store::open`], or the file cannot be moved.
pub fn move_data_file(from: &Path, to: &Path, maps: &'static [MapSpec]) -> Result<bool, OpenError> {
    let directory = DataDirectory::take(to, maps)?;
    let (source, target) = (from.join(layout::DATA_FILE), to.join(layout::DATA_FILE));
    if has_data_file(to)? {
        return Ok(false);
    }
    fs::rename(&source, &target).map_err(failed("move", &source))?;
    directory.opened.sync_all().map_err(failed("sync the directory of", &target))?;
    Ok(true)
}

pub(crate) fn own_process_has(directory: &Path) -> OpenError {
    OpenError::InUse { directory: directory.to_owned(), pid: Some(std::process::id()) }
}

/// Options for opening a data file.
pub(crate) struct Opening<'a> {
    pub(crate) data_file: &'a Path,
    pub(crate) maps: &'static [MapSpec],
    pub(crate) options: &'a Options,
    pub(crate) mode: Mode,
    pub(crate) read_ahead: bool,
}

impl Opening<'_> {
    /// Opens the LMDB environment, but none of its tables. Returns the environment, and the size of the memory into
    /// which the data file is mapped. `held` is dropped when the environment closes.
    pub(crate) fn open<H: Send + Sync + 'static>(
        &self,
        room: &Room,
        held: Arc<H>,
    ) -> Result<(Env, usize), OpenError> {
        // In the mode `Making`, the file is unfinished and may have any length.
        if self.mode != Mode::Making {
            data_file::check_length(self.data_file)?;
        }
        let mut map_bytes = match self.options.map_bytes {
            Some(bytes) => bytes,
            None => disk::map_bytes(room.space()?.total_bytes),
        };
        loop {
            let env_options = EnvOptions {
                data_file: self.data_file,
                map_bytes: usize::try_from(map_bytes).unwrap_or(usize::MAX),
                readers_max: self.options.readers_max(),
                maps_max: maps::map_count(self.maps),
                mode: self.mode,
                read_ahead: self.read_ahead,
            };
            // A failed attempt drops its argument, so each attempt gets its own clone of `held`.
            match Env::open(&env_options, Box::new(Arc::clone(&held))) {
                Ok(env) => return Ok((env, env_options.map_bytes)),
                Err(failure) if disk::is_out_of_memory(failure.code) => match disk::smaller_map(map_bytes) {
                    Some(smaller) => map_bytes = smaller,
                    None => return Err(engine_error(failure, self.data_file)),
                },
                Err(failure) => return Err(engine_error(failure, self.data_file)),
            }
        }
    }
}

/// Treatment of declared maps that are not in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingMaps {
    Create,
    Refuse,
}

/// Opens the meta map, checks the format version, and then opens the other maps.
pub(crate) fn with_maps(
    env: Env,
    data_file: &Path,
    maps: &[MapSpec],
    missing: MissingMaps,
) -> Result<Env, OpenError> {
    let mut env = env;
    let not_a_store =
        |reason: &str| OpenError::NotAStore { file: data_file.to_owned(), reason: reason.to_owned() };
    match env.open_maps(&[Map::META.spec], false) {
        Ok(None) => {}
        Err(failure) if failure.code != Failure::NOT_FOUND => return Err(engine_error(failure, data_file)),
        Ok(Some(_)) | Err(_) => return Err(not_a_store("it was not written by this program")),
    }
    let env_with_meta = Arc::new(env);
    let found = format_of(&env_with_meta).map_err(|failure| engine_error(failure, data_file))?;
    if !found.is_some_and(|found| (FORMAT_VERSION_MIN..=FORMAT_VERSION).contains(&found)) {
        return Err(match found {
            Some(found) => OpenError::Format { found, supported: FORMAT_VERSION },
            None => not_a_store("it does not say its format"),
        });
    }
    if missing == MissingMaps::Refuse {
        let txn = Txn::begin(&env_with_meta, TxnKind::Read);
        let names =
            txn.and_then(|txn| txn.map_names()).map_err(|failure| engine_error(failure, data_file))?;
        let is_there = |map: &&MapSpec| names.iter().any(|name| name == map.name.as_bytes());
        if let Some(map) = maps.iter().find(|map| !is_there(map)) {
            return Err(OpenError::Map {
                name: map.name.to_owned(),
                reason: "the store does not have it yet",
            });
        }
    }
    env = Arc::into_inner(env_with_meta).ok_or_else(|| not_a_store("it is in use"))?;
    match env.open_maps(&maps::other_maps(maps), missing == MissingMaps::Create) {
        Ok(None) => Ok(env),
        Ok(Some(name)) => {
            Err(OpenError::Map { name: name.to_owned(), reason: "it exists with the other kind" })
        }
        Err(failure) => Err(engine_error(failure, data_file)),
    }
}

/// Returns the format version in the meta map, `None` if there is no such row.
fn format_of(env: &Arc<Env>) -> Result<Option<u32>, Failure> {
    let txn = Txn::begin(env, TxnKind::Read)?;
    let value = txn.get(Map::META.index, FORMAT_KEY)?;
    Ok(value.and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes))
}

/// Creates an empty data file, completely or not at all.
fn create(own: &DataDirectory<'_>, data_file: &Path, options: &Options) -> Result<(), OpenError> {
    let new_file = own.path.join(layout::NEW_DATA_FILE);
    let env_options = EnvOptions {
        data_file: &new_file,
        map_bytes: 1 << 20,
        readers_max: options.readers_max(),
        maps_max: maps::map_count(&[]),
        mode: Mode::Making,
        read_ahead: false,
    };
    write_format(&env_options).map_err(|failure| engine_error(failure, &new_file))?;
    put_in_place(&own.opened, &new_file, data_file)
}

fn write_format(env_options: &EnvOptions<'_>) -> Result<(), Failure> {
    let mut env = Env::open(env_options, Box::new(()))?;
    env.open_maps(&[Map::META.spec], true)?;
    Arc::new(env).write(put_format)
}

/// Writes this program's format version into the file.
pub(crate) fn put_format(txn: &mut Txn) -> Result<(), Failure> {
    txn.put(Map::META.index, FORMAT_KEY, &FORMAT_VERSION.to_be_bytes(), PutKind::Set)?;
    meta::put_identity(txn)
}

/// Syncs a complete data file and renames it to `data_file`, replacing an existing file.
fn put_in_place(directory: &File, new_file: &Path, data_file: &Path) -> Result<(), OpenError> {
    File::open(new_file).and_then(|file| file.sync_all()).map_err(failed("sync", new_file))?;
    fs::rename(new_file, data_file).map_err(failed("rename", new_file))?;
    directory.sync_all().map_err(failed("sync the directory of", data_file))
}

pub(crate) fn engine_error(failure: Failure, data_file: &Path) -> OpenError {
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
