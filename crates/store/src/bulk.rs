//! [`BulkStore`]: a new data file, written in key order, that replaces the old data file when it is complete.
//!
//! Rows that arrive in key order fill page after page. No written page is read again, so building is as fast as writing
//! a file. The engine's transaction is committed without a sync whenever enough pages are in memory. A crash may leave
//! an incomplete file, which the next open deletes. `finish` syncs the whole file once, and renames it after the sync.
//!
//! Memory: the pages of one transaction (8 MiB plus the longest row, or up to twice that), and a copy of the last key
//! of each map.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use system::RateLimit;

use crate::disk::{self, DirectoryLock, Room};
use crate::error::failed;
use crate::layout;
use crate::lmdb::{Env, Failure, Mode, PutKind, Txn, TxnKind};
use crate::maps::{self, Map, MapId, MapKind, MapSpec};
use crate::meta;
use crate::open::{self, DataDirectory, MissingMaps, Opening, engine_error};
use crate::redo::{self, Identity};
use crate::shared::{DataWriter, Shared};
use crate::{OpenError, Options, Position, Result, StoreError, View, log};

/// Bytes of rows after which a transaction is committed. The number is so small that the changed pages stay in the
/// processor's cache.
const CUT_BYTES: usize = 8 << 20;
/// Bytes of rows after which a transaction is committed if the speed is limited. A small number, because each of these
/// commits is synced, and other users of the disk wait for the sync.
const PACED_CUT_BYTES: usize = 1 << 20;
/// Bytes that a row occupies on a page in addition to its key and value: its header and its offset in the page's table.
const ROW_HEAD_LEN: usize = 10;
/// Number of bytes that a removal counts toward the size of a transaction. A removal copies the pages from the root to
/// the row, because they are already written.
const REMOVAL_LEN: usize = 4 << 12;
/// Maximum number of ids passed to the engine at once.
const IDS_AT_ONCE: usize = 16 << 10;
const ID_LEN: usize = size_of::<u64>();

/// Unfinished data file: `data.new` in the directory of the old data file, which does not change until
/// [`finish`](BulkStore::finish) replaces it.
///
/// The data directory is locked as long as this value exists. Keys must ascend within each map; rows of different maps
/// may alternate. Dropping this value before `finish` deletes the new file.
pub struct BulkStore {
    /// The current transaction. `None` after a transaction has failed.
    txn: Option<Txn>,
    env: Arc<Env>,
    /// Declared after `txn` and `env`, so that the file is closed before it is removed.
    new_file: NewFile,
    data_file: PathBuf,
    maps: &'static [MapSpec],
    options: Options,
    room: Room,
    /// The locks on the directory and on the old data file, shared with views of the old data.
    lock: Arc<(DirectoryLock, Option<File>)>,
    /// Open file of the old data, locked so that readers cannot open it. `None` if there is no old data.
    old_file: Option<File>,
    /// Identity of the old data file. `None` if there is no old data file or its identity cannot be read.
    replaced: Option<Identity>,
    /// The last key of each map, indexed by map.
    last_keys: Vec<LastKey>,
    next_position: Position,
    /// Bytes of rows in the current transaction.
    pending_bytes: usize,
    /// Bytes of rows in committed transactions.
    cut_bytes: u64,
    rate_limit: Option<RateLimit>,
    broken: Option<StoreError>,
    frame: Vec<u8>,
    id_bytes: Vec<u8>,
}

/// The highest key of a map so far; empty before the first row.
#[derive(Default)]
struct LastKey {
    key: Vec<u8>,
    /// Highest id under the key, in an id set map.
    id: u64,
}

/// Removes the file when dropped, unless it was renamed into place.
struct NewFile {
    path: PathBuf,
    in_place: bool,
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.in_place {
            // A failure cannot be reported here. The next open removes the file.
            let _ = disk::remove_if_there(&self.path);
        }
    }
}

impl BulkStore {
    /// Begins a new data file in `directory`, which is created if it is missing. Deletes the leftovers of an earlier
    /// attempt.
    ///
    /// # Errors
    /// The same as [`Store::open`](crate::Store::open); also `InUse` while another process reads the store
    /// ([`Store::open_read_only`](crate::Store::open_read_only)).
    pub fn create(
        directory: &Path,
        maps: &'static [MapSpec],
        options: &Options,
    ) -> Result<BulkStore, OpenError> {
        let own = DataDirectory::take(directory, maps)?;
        let old_file = disk::hold_data_file(directory, true)?;
        let locked = old_file.as_ref().map(|_| disk::lock_data_file(directory, false)).transpose()?;
        let room = Room::new(own.opened, directory, options.reserve_bytes);
        room.check_reserve()?;
        let data_file = directory.join(layout::DATA_FILE);
        let replaced = old_file.as_ref().and_then(|_| identity_of(&data_file, options, &room));
        let path = directory.join(layout::NEW_DATA_FILE);
        let new_file = NewFile { path, in_place: false };
        let opening =
            Opening { data_file: &new_file.path, maps, options, mode: Mode::Making, read_ahead: false };
        let (mut env, _) = opening.open(&room, Arc::new(()))?;
        let prepared = (|| {
            env.open_maps(&[Map::META.spec], true)?;
            env.open_maps(&maps::other_maps(maps), true)?;
            let env = Arc::new(env);
            let mut txn = Txn::begin(&env, TxnKind::Write)?;
            open::put_format(&mut txn)?;
            replaced.map_or(Ok(()), |replaced| meta::put_replaced(&mut txn, replaced))?;
            meta::put_map_names(&mut txn, maps)?;
            Ok((env, txn))
        })();
        let (env, txn) = prepared.map_err(|failure| engine_error(failure, &new_file.path))?;
        Ok(BulkStore {
            txn: Some(txn),
            env,
            new_file,
            data_file,
            maps,
            options: options.clone(),
            room,
            lock: Arc::new((own.lock, locked)),
            old_file,
            replaced,
            last_keys: (0..maps::map_count(maps)).map(|_| LastKey::default()).collect(),
            next_position: 1,
            pending_bytes: 0,
            cut_bytes: 0,
            rate_limit: options.bulk_bytes_per_second.map(RateLimit::new),
            broken: None,
            frame: Vec::new(),
            id_bytes: Vec::new(),
        })
    }

    /// Opens the unfinished file once more, so that a caller can flush its pages while rows are appended.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn new_file(&self) -> std::io::Result<File> {
        File::open(&self.new_file.path)
    }

    /// Returns a view of the data to be replaced, including changes that a crash left in the redo log. Use the view to
    /// copy parts of the old data. Returns `None` if there is no old data. The directory remains locked until the view
    /// is dropped, even after [`finish`](BulkStore::finish).
    ///
    /// # Errors
    /// The same as [`Store::open`](crate::Store::open); `Map` if the old data lacks one of the maps.
    pub fn old_view(&self) -> Result<Option<View>, OpenError> {
        if self.old_file.is_none() {
            return Ok(None);
        }
        let (data_file, maps, options) = (&self.data_file, self.maps, &self.options);
        let opening = Opening { data_file, maps, options, mode: Mode::Frozen, read_ahead: true };
        let room = self.room.try_clone().map_err(failed("open the directory of", data_file))?;
        let (env, map_bytes) = opening.open(&room, Arc::clone(&self.lock))?;
        let env = Arc::new(open::with_maps(env, data_file, maps, MissingMaps::Refuse)?);
        let directory = data_file.parent().unwrap_or(Path::new("."));
        let written_by = DataWriter::Others(directory.to_owned());
        let shared = Shared::new(env, maps, options, map_bytes, data_file.clone(), room, written_by);
        Ok(Some(View::begin(&Arc::new(shared))?))
    }

    /// Adds a row to a plain map. `key` must be above all earlier keys of the map.
    ///
    /// # Errors
    /// `OutOfOrder`, `EmptyKey`, `KeyTooLong`, `ValueTooLong`, `WrongMapKind`: the row is refused, and others may
    /// follow. `DiskFull`, `Engine`: no more rows are accepted.
    pub fn append(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<()> {
        self.append_row(Map::users(self.maps, map).of_kind(MapKind::Plain)?, key, value)
    }

    /// Removes a row of a plain map. Returns true if the row existed. Use this method if a row turns out to be wrong
    /// after other rows have been appended. The row's space on its page is not reused.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `DiskFull`, `Engine`.
    pub fn remove(&mut self, map: MapId, key: &[u8]) -> Result<bool> {
        let map = Map::users(self.maps, map).of_kind(MapKind::Plain)?;
        self.check_intact()?;
        map.check_key(key)?;
        let Some(txn) = &mut self.txn else { return Ok(false) };
        let mut was_there = false;
        let removed = txn.delete(map.index, key, None).map(|found| was_there = found);
        self.written(removed, map, REMOVAL_LEN)?;
        Ok(was_there)
    }

    /// Adds ids under a key of an id set map. The key must be either above all earlier keys of the map, or the last key
    /// again, with higher ids. `ids` must ascend. An empty slice adds no key.
    ///
    /// # Errors
    /// The same as [`append`](BulkStore::append).
    #[expect(clippy::indexing_slicing, reason = "every open map has a last key")]
    pub fn append_ids(&mut self, map: MapId, key: &[u8], ids: &[u64]) -> Result<()> {
        let map = Map::users(self.maps, map).of_kind(MapKind::IdSet)?;
        self.check_intact()?;
        map.check_key(key)?;
        let (Some(&lowest), Some(&highest)) = (ids.first(), ids.last()) else { return Ok(()) };
        let last = &mut self.last_keys[map.index];
        let is_new = *key > *last.key;
        let follows = is_new || (*key == *last.key && lowest > last.id);
        if !follows || !ids.is_sorted_by(|one, next| one < next) {
            return Err(StoreError::OutOfOrder { map: map.spec.name });
        }
        last.set(key, highest);
        for (index, ids) in ids.chunks(IDS_AT_ONCE).enumerate() {
            self.id_bytes.clear();
            self.id_bytes.extend(ids.iter().flat_map(|id| id.to_be_bytes()));
            let bytes = &self.id_bytes;
            let is_new = is_new && index == 0;
            let written = match (&mut self.txn, is_new && ids.len() == 1) {
                (Some(txn), true) => txn.put(map.index, key, bytes, PutKind::Append).map(drop),
                (Some(txn), false) => txn.append_values(map.index, key, bytes, ID_LEN, is_new),
                (None, _) => Ok(()),
            };
            let row_len = bytes.len() + if is_new { key.len() + ROW_HEAD_LEN } else { 0 };
            self.written(written, map, row_len)?;
        }
        Ok(())
    }

    /// Sets a counter. `key` must be above the keys of all earlier counters. A count of 0 occupies no space.
    ///
    /// # Errors
    /// The same as [`append`](BulkStore::append).
    pub fn append_counter(&mut self, key: &[u8], count: i64) -> Result<()> {
        if count == 0 {
            return self.check_next(Map::COUNTS, key);
        }
        self.append_row(Map::COUNTS, key, &count.to_be_bytes())
    }

    /// Sets the position of the first record, which is 1 by default.
    ///
    /// # Errors
    /// `OutOfOrder` if the position is 0, or a record has been appended already.
    #[expect(clippy::indexing_slicing, reason = "every open map has a last key")]
    pub fn start_log_at(&mut self, position: Position) -> Result<()> {
        if position == 0 || !self.last_keys[Map::LOG.index].key.is_empty() {
            return Err(StoreError::OutOfOrder { map: Map::LOG.spec.name });
        }
        self.next_position = position;
        Ok(())
    }

    /// Adds a record to the log and returns its position.
    ///
    /// # Errors
    /// The same as [`append`](BulkStore::append).
    pub fn append_record(&mut self, record: &[u8]) -> Result<Position> {
        let position = self.next_position;
        let mut frame = std::mem::take(&mut self.frame);
        log::frame(position, record, &mut frame);
        let outcome = self.append_row(Map::LOG, &position.to_be_bytes(), &frame);
        self.frame = frame;
        outcome?;
        self.next_position += 1;
        Ok(position)
    }

    /// Makes the new data file durable, with one sync, and renames it over the old data file: at any time the directory
    /// contains exactly one of the two files. Then unlocks the directory, unless a view of the old data still exists.
    ///
    /// # Errors
    /// The error of an earlier failed append; `DiskFull`, `Engine`. The old data is unchanged and the new data is
    /// discarded. If only the sync of the directory failed, the directory may contain either the old or the new data
    /// file.
    pub fn finish(mut self) -> Result<()> {
        self.check_intact()?;
        let committed = self.txn.take().map_or(Ok(()), Txn::commit).and_then(|()| self.env.sync());
        committed.map_err(|failure| self.room.write_error(failure))?;
        let BulkStore { env, mut new_file, data_file, room, replaced, .. } = self;
        drop(env);
        new_file.put_in_place(&room, &data_file)?;
        if let (Some(directory), Some(replaced)) = (data_file.parent(), replaced) {
            // A failure has no effect: the new data file records the identity of the replaced data file, so the next
            // open removes the remaining segments of the replaced file's redo log.
            let _ = redo::remove_replaced(directory, replaced);
        }
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "every open map has a last key")]
    fn append_row(&mut self, map: Map, key: &[u8], value: &[u8]) -> Result<()> {
        map.check_value(value)?;
        self.check_next(map, key)?;
        self.last_keys[map.index].set(key, 0);
        let Some(txn) = &mut self.txn else { return Ok(()) };
        let written = txn.put(map.index, key, value, PutKind::Append).map(drop);
        self.written(written, map, key.len() + value.len() + ROW_HEAD_LEN)
    }

    /// Checks that a row with this key may be appended next.
    #[expect(clippy::indexing_slicing, reason = "every open map has a last key")]
    fn check_next(&self, map: Map, key: &[u8]) -> Result<()> {
        self.check_intact()?;
        map.check_key(key)?;
        if *key > *self.last_keys[map.index].key {
            return Ok(());
        }
        Err(StoreError::OutOfOrder { map: map.spec.name })
    }

    fn check_intact(&self) -> Result<()> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Counts a row of `row_len` bytes whose write returned `written`, and commits the transaction if it has become
    /// large. After a failure, no more rows are accepted.
    fn written(&mut self, written: Result<(), Failure>, map: Map, row_len: usize) -> Result<()> {
        self.pending_bytes += row_len;
        let outcome = match written {
            Ok(()) if self.pending_bytes < self.cut_bytes_max() => return Ok(()),
            Ok(()) => self.cut(),
            Err(Failure { code: Failure::KEY_EXISTS, .. }) => {
                Err(StoreError::OutOfOrder { map: map.spec.name })
            }
            Err(failure) => Err(self.room.write_error(failure)),
        };
        if let Err(error) = &outcome {
            self.txn = None;
            self.broken = Some(error.clone());
        }
        outcome
    }

    fn cut_bytes_max(&self) -> usize {
        if self.rate_limit.is_some() { PACED_CUT_BYTES } else { CUT_BYTES }
    }

    /// Commits the transaction, which writes its pages, and begins another transaction.
    #[cold]
    fn cut(&mut self) -> Result<()> {
        self.cut_bytes += self.pending_bytes as u64;
        self.pending_bytes = 0;
        let renewed = self.txn.take().map_or(Ok(()), Txn::commit);
        let renewed = renewed.and_then(|()| self.keep_pace());
        let renewed = renewed.and_then(|()| Txn::begin(&self.env, TxnKind::Write));
        self.txn = Some(renewed.map_err(|failure| self.room.write_error(failure))?);
        self.room.check_reserve()
    }

    /// If the speed is limited, syncs the written rows and waits.
    fn keep_pace(&self) -> Result<(), Failure> {
        let Some(rate_limit) = self.rate_limit else { return Ok(()) };
        self.env.sync()?;
        rate_limit.wait(self.cut_bytes);
        Ok(())
    }
}

/// Returns the identity of a data file, if it can be read.
fn identity_of(data_file: &Path, options: &Options, room: &Room) -> Option<Identity> {
    let opening = Opening { data_file, maps: &[], options, mode: Mode::Frozen, read_ahead: false };
    let (mut env, _) = opening.open(room, Arc::new(())).ok()?;
    env.open_maps(&[Map::META.spec], false).ok()?;
    let txn = Txn::begin(&Arc::new(env), TxnKind::Read).ok()?;
    Some(meta::RedoFacts::read(&txn).ok()?.owner.identity)
}

impl LastKey {
    fn set(&mut self, key: &[u8], id: u64) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.id = id;
    }
}

impl NewFile {
    fn put_in_place(&mut self, room: &Room, data_file: &Path) -> Result<()> {
        let failed = |operation| move |error: io::Error| room.io_error(operation, &error);
        fs::rename(&self.path, data_file).map_err(failed("rename the new data file"))?;
        self.in_place = true;
        room.sync_directory().map_err(failed("sync the data directory"))
    }
}
