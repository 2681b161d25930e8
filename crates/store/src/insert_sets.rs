//! [`SetInserter`]: ids written straight to the data file, for building an index while the store serves no clients.
//!
//! Rows in key order need neither the redo log nor the overlay: each page is written once. Transactions have a few
//! megabytes each, so a process that ends before `finish` leaves some of the rows. The builder of an index must
//! therefore record in a later batch that the index is complete, and accept rows that exist already.

use crate::lmdb::{Failure, PutKind, Step, Txn, TxnKind};
use crate::maps::{Map, MapKind};
use crate::pending::checkpoint::count_write_through;
use crate::{MapId, Result, StoreError, Writer};

/// Bytes of rows after which a transaction is committed. Until then, the pages that the transaction changed are in
/// memory.
const CUT_BYTES: usize = 8 << 20;
/// Maximum number of ids passed to the engine at once.
const IDS_AT_ONCE: usize = 16 << 10;
const ID_LEN: usize = size_of::<u64>();

/// Adds ids to id sets, bypassing the redo log. If dropped without [`finish`](SetInserter::finish), some of the ids
/// remain.
pub struct SetInserter<'w> {
    writer: &'w mut Writer,
    txn: Option<Txn>,
    pending_bytes: usize,
    id_bytes: Vec<u8>,
}

impl Writer {
    /// Begins to add ids directly to the data file. Checkpoints all pending changes first.
    ///
    /// # Errors
    /// `DiskFull`, `WritesStopped`, `Engine`.
    pub fn insert_sets(&mut self) -> Result<SetInserter<'_>> {
        self.check_reserve()?;
        self.pending().check_writes()?;
        self.pending().checkpoint_all()?;
        Ok(SetInserter { writer: self, txn: None, pending_bytes: 0, id_bytes: Vec::new() })
    }
}

impl SetInserter<'_> {
    /// Adds ids under a key. The ids must ascend. The method is fastest if keys ascend and have no ids yet.
    ///
    /// # Errors
    /// `EmptyKey`, `KeyTooLong`, `WrongMapKind`, `OutOfOrder` if the ids do not ascend; `DiskFull`, `WritesStopped`,
    /// `Engine`: the ids added since the last committed transaction are lost.
    pub fn insert(&mut self, map: MapId, key: &[u8], ids: &[u64]) -> Result<()> {
        let map = Map::users(self.writer.maps(), map).of_kind(MapKind::IdSet)?;
        map.check_key(key)?;
        if !ids.is_sorted_by(|one, next| one < next) {
            return Err(StoreError::OutOfOrder { map: map.spec.name });
        }
        let written = self.put(map, key, ids);
        written.map_err(|failure| self.failed(failure))?;
        self.pending_bytes += key.len() + size_of_val(ids);
        if self.pending_bytes >= CUT_BYTES { self.cut() } else { Ok(()) }
    }

    /// Makes the remaining ids durable. All ids are in the data file when it returns.
    ///
    /// # Errors
    /// The same as [`insert`](SetInserter::insert).
    pub fn finish(mut self) -> Result<()> {
        self.cut()
    }

    fn put(&mut self, map: Map, key: &[u8], ids: &[u64]) -> Result<(), Failure> {
        let txn = match &mut self.txn {
            Some(txn) => txn,
            none => none.insert(Txn::begin(&self.writer.shared().env, TxnKind::Write)?),
        };
        if txn.get(map.index, key)?.is_some() {
            // Some of the ids may exist already, and the engine appends blocks only above all existing ids.
            return ids
                .iter()
                .try_for_each(|id| txn.put(map.index, key, &id.to_be_bytes(), PutKind::Insert).map(drop));
        }
        let mut is_last = match txn.cursor(map.index)?.step(Step::Last)? {
            Some((last, _)) => last < key,
            None => true,
        };
        for ids in ids.chunks(IDS_AT_ONCE) {
            self.id_bytes.clear();
            self.id_bytes.extend(ids.iter().flat_map(|id| id.to_be_bytes()));
            txn.append_values(map.index, key, &self.id_bytes, ID_LEN, is_last)?;
            is_last = false;
        }
        Ok(())
    }

    /// Commits the current transaction.
    fn cut(&mut self) -> Result<()> {
        self.pending_bytes = 0;
        let Some(mut txn) = self.txn.take() else { return Ok(()) };
        count_write_through(&mut txn).and_then(|()| txn.commit()).map_err(|failure| self.failed(failure))?;
        self.writer.pending().written_through()?;
        self.writer.check_reserve()
    }

    fn failed(&mut self, failure: Failure) -> StoreError {
        self.txn = None;
        self.writer.pending().write_failed(failure)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound::Unbounded;

    use crate::scratch::{ROWS, SETS, Scratch};
    use crate::{Direction, Read, StoreError};

    fn sets(read: &Read) -> BTreeMap<Vec<u8>, Vec<u64>> {
        let mut all = BTreeMap::new();
        for row in read.scan_keys(SETS, (Unbounded, Unbounded), Direction::Forward) {
            let (key, count) = row.unwrap();
            let mut ids = Vec::new();
            let mut cursor = read.ids(SETS, key).unwrap();
            while cursor.next_block(&mut ids, 1_000).unwrap() > 0 {}
            assert_eq!(ids.len() as u64, count);
            all.insert(key.to_vec(), ids);
        }
        all
    }

    #[test]
    fn ids_are_added_to_existing_ones() {
        let scratch = Scratch::new();
        let (store, mut writer) = scratch.open();
        let mut expected: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        let mut batch = writer.begin().unwrap();
        // Add keys before the insertion: some below, some among and some above the keys to insert. One of these keys
        // has a single id, which is inserted again. Another key has many ids.
        for (key, ids) in [("a", 7..8), ("k00500", 3..4), ("k00501", 0..2_000), ("z", 1..3)] {
            for id in ids.clone() {
                batch.insert_id(SETS, key.as_bytes(), id).unwrap();
            }
            expected.insert(key.into(), ids.collect());
        }
        batch.put(ROWS, b"row", b"pending").unwrap();
        batch.commit().unwrap();
        let mut before = store.view().unwrap();

        let mut inserter = writer.insert_sets().unwrap();
        for number in 0..1_000u64 {
            let key = format!("k{number:05}").into_bytes();
            // One key has more ids than are passed to the engine at once.
            let ids: Vec<u64> =
                (0..if number == 700 { 50_000 } else { 1 + number % 40 }).map(|id| id * 3).collect();
            inserter.insert(SETS, &key, &ids).unwrap();
            let all = expected.entry(key).or_default();
            all.extend(&ids);
            all.sort_unstable();
            all.dedup();
        }
        let refused = inserter.insert(SETS, b"key", &[2, 1]);
        assert!(matches!(refused, Err(StoreError::OutOfOrder { .. })), "{refused:?}");
        assert!(matches!(inserter.insert(ROWS, b"key", &[1]), Err(StoreError::WrongMapKind { .. })));
        inserter.finish().unwrap();

        assert_eq!(sets(&before).len(), 4, "a view does not move");
        before.renew().unwrap();
        assert_eq!(sets(&before), expected);
        let mut batch = writer.begin().unwrap();
        assert!(
            batch.insert_id(SETS, b"k00000", 1).unwrap() && !batch.insert_id(SETS, b"k00000", 0).unwrap()
        );
        batch.commit().unwrap();
        expected.insert(b"k00000".to_vec(), vec![0, 1]);
        drop((before, store, writer));

        let (store, _writer) = scratch.open();
        let view = store.view().unwrap();
        assert_eq!(sets(&view), expected);
        assert_eq!(view.get(ROWS, b"row").unwrap(), Some(&b"pending"[..]));
    }
}
