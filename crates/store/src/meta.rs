//! Facts about the redo log, stored in `store.meta`. Also builds an overlay from the redo log: when a store is opened
//! after a crash, and for every view of a process that does not write.

use crate::layout::{
    CHECKPOINTED_KEY, FORMAT_KEY, FORMAT_VERSION, IDENTITY_KEY, MAP_NAMES_KEY, MARKED_KEY, REPLACED_KEY,
    THROUGH_KEY,
};
use crate::lmdb::{Failure, PutKind, Txn};
use crate::maps::{self, Map, MapSpec};
use crate::read::changes::unknown_map;
use crate::redo::{Identity, Owner, Replay};
use crate::{Read, Result, StoreError};

/// Facts about the redo log, stored in the data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedoFacts {
    pub(crate) owner: Owner,
    /// Number of batches that were written to the data file without the redo log.
    written_through: u64,
    /// Names of the maps, in the order of their numbers in the log, as encoded by [`map_names`].
    map_names: Vec<u8>,
}

impl RedoFacts {
    pub(crate) fn read(txn: &Txn) -> Result<RedoFacts> {
        let damaged = || StoreError::DamagedRow { map: Map::META.spec.name };
        let identity = txn.get(Map::META.index, IDENTITY_KEY)?.ok_or_else(damaged)?;
        let identity = identity.try_into().map_err(|_| damaged())?;
        let replaced = txn.get(Map::META.index, REPLACED_KEY)?;
        let replaced = replaced.map(|bytes| bytes.try_into().map_err(|_| damaged())).transpose()?;
        let number = |key: &[u8]| -> Result<u64> {
            let Some(bytes) = txn.get(Map::META.index, key)? else { return Ok(0) };
            Ok(u64::from_be_bytes(bytes.try_into().map_err(|_| damaged())?))
        };
        let (checkpointed, written_through) = (number(CHECKPOINTED_KEY)?, number(THROUGH_KEY)?);
        let map_names = txn.get(Map::META.index, MAP_NAMES_KEY)?.unwrap_or_default().to_vec();
        let is_marked = txn.get(Map::META.index, MARKED_KEY)?.is_some();
        let owner = Owner { identity, replaced, checkpointed, is_marked };
        Ok(RedoFacts { owner, written_through, map_names })
    }

    /// Returns true if the log numbers the maps as this program does.
    pub(crate) fn has_maps_of(&self, maps: &[MapSpec]) -> bool {
        self.map_names == map_names(maps)
    }

    /// Applies the changes of the redo groups to the overlay of `read`.
    pub(crate) fn replay(&self, read: &mut Read, replay: &mut Replay) -> Result<()> {
        let maps = read.maps;
        let names = self.map_names.split(|byte| *byte == 0);
        let numbered: Vec<Option<Map>> = names.map(|name| Map::named(maps, name)).collect();
        let map_of = |number: u16| {
            numbered.get(usize::from(number)).copied().flatten().ok_or_else(|| unknown_map(number))
        };
        while let Some(group) = replay.next_group()? {
            for change in group.changes() {
                read.make(change?, &map_of)?;
            }
        }
        Ok(())
    }
}

/// Returns the names of all maps in the order of their numbers, each terminated by a zero byte.
fn map_names(maps: &[MapSpec]) -> Vec<u8> {
    maps::all_names(maps).into_iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect()
}

/// Gives a data file a new identity.
pub(crate) fn put_identity(txn: &mut Txn) -> Result<(), Failure> {
    let mut identity: Identity = [0; 16];
    getrandom::fill(&mut identity).map_err(|error| Failure {
        operation: "getrandom",
        code: error.raw_os_error().unwrap_or(Failure::INVALID),
    })?;
    txn.put(Map::META.index, IDENTITY_KEY, &identity, PutKind::Set).map(drop)
}

/// Records the identity of the data file that this data file replaces. Segments with that identity may be removed.
pub(crate) fn put_replaced(txn: &mut Txn, replaced: Identity) -> Result<(), Failure> {
    txn.put(Map::META.index, REPLACED_KEY, &replaced, PutKind::Set).map(drop)
}

/// Records whether the redo log must have a mark from now on. If so, also raises the file's format version, so that
/// programs that do not support marks refuse the file.
pub(crate) fn put_marked(txn: &mut Txn, is_marked: bool) -> Result<(), Failure> {
    if is_marked {
        txn.put(Map::META.index, FORMAT_KEY, &FORMAT_VERSION.to_be_bytes(), PutKind::Set)?;
        txn.put(Map::META.index, MARKED_KEY, &[1], PutKind::Set).map(drop)
    } else {
        txn.delete(Map::META.index, MARKED_KEY, None).map(drop)
    }
}

/// Records how the redo log numbers maps from now on.
pub(crate) fn put_map_names(txn: &mut Txn, maps: &[MapSpec]) -> Result<(), Failure> {
    txn.put(Map::META.index, MAP_NAMES_KEY, &map_names(maps), PutKind::Set).map(drop)
}
