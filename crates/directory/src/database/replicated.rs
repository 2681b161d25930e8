//! What a node of a cluster does besides: its changes come from a log that all nodes share.
//!
//! The writer decides a batch as ever, and holds it open while its records go to the shared log
//! ([`WriteBatch::records`]); the batch is committed when the log has accepted them, or dropped. The other nodes make
//! the same rows of the same records with [`Writer::apply_group`]. What a node knows of the shared log stands in rows
//! beside them, in the same commit, and is bytes to this crate: keys and values of whoever follows the log.
//!
//! A data directory with such rows is a node. It takes no change from anybody who does not follow the log, because
//! nodes are equal only as long as they have applied the same records at the same positions.

use std::path::Path;

use ldap::ResultCode;
use store::{BulkStore, Position, Store, StoreError};

use super::{WriteBatch, Writer, check_versions};
use crate::access::Requester;
use crate::accounts;
use crate::catalog::{META_REPLICATION, is_node, log_rows};
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::record::{LastValue, Record};
use crate::model::rows::{MAPS, META};
use crate::snapshot::Directory;

/// A row of what is known of the shared log: its key, and its value or that it goes.
pub type LogRow<'a> = (&'a [u8], Option<&'a [u8]>);

/// As [`LogRow`], of rows that are there.
pub type OwnedLogRow = (Vec<u8>, Vec<u8>);

impl Directory {
    /// All rows of what is known of the shared log, ascending by key. None where the directory is no node.
    ///
    /// # Errors
    /// The store failed.
    pub fn log_rows(&self) -> Result<Vec<OwnedLogRow>, OperationError> {
        Ok(owned_rows(&self.store.view()?)?)
    }

    /// As [`copy_node`], in the process that serves the data, and no faster than so many bytes of rows a second.
    ///
    /// # Errors
    /// As there.
    pub fn copy_to(&self, to: &Path, bytes_per_second: u64) -> Result<(), OpenError> {
        if store::has_data_file(to)? {
            return Err(OpenError::HasData);
        }
        let options = store::Options { bulk_bytes_per_second: Some(bytes_per_second), ..Default::default() };
        copy_view(&self.store.view()?, to, &options)
    }
}

/// As [`Directory::log_rows`], of a data directory that is served or not. Never none.
///
/// # Errors
/// See [`OpenError`]; it is no node.
pub fn log_rows_in(data: &Path) -> Result<Vec<OwnedLogRow>, OpenError> {
    let store = Store::open_read_only(data, MAPS)?;
    let view = store.view()?;
    if check_versions(&view)? || !is_node(&view)? {
        return Err(OpenError::NoNode);
    }
    Ok(owned_rows(&view)?)
}

fn owned_rows(view: &store::View) -> Result<Vec<OwnedLogRow>, StoreError> {
    let rows = log_rows(view).map(|row| {
        let (key, value) = row?;
        Ok((key.get(META_REPLICATION.len()..).unwrap_or_default().to_vec(), value.to_vec()))
    });
    rows.collect()
}

/// As [`copy_node`], of a directory that is no node.
///
/// # Errors
/// See [`OpenError`]; `from` is a node, or `to` has data.
pub fn copy_plain(from: &Path, to: &Path, options: &store::Options) -> Result<(), OpenError> {
    if store::has_data_file(to)? {
        return Err(OpenError::HasData);
    }
    copy(from, to, options, false)
}

/// As [`copy_node`], in the place of the data that `to` has, which is lost. Nobody has it open.
///
/// # Errors
/// See [`OpenError`]; `from` is no node. The data of `to` is as it was then.
pub fn replace_node(from: &Path, to: &Path, options: &store::Options) -> Result<(), OpenError> {
    copy(from, to, options, true)
}

fn copy(from: &Path, to: &Path, options: &store::Options, of_node: bool) -> Result<(), OpenError> {
    let source = Store::open_read_only(from, MAPS)?;
    let view = source.view()?;
    check_kind(&view, of_node)?;
    copy_view(&view, to, options)
}

fn check_kind(view: &store::View, of_node: bool) -> Result<(), OpenError> {
    match (check_versions(view)?, is_node(view)?) {
        (false, is_node) if is_node == of_node => Ok(()),
        (false, true) => Err(OpenError::ChangedNode),
        _ => Err(OpenError::NoNode),
    }
}

/// Makes the copy of a node's data that [`Directory::copy_to`] wrote, in a folder on the same file system, that of the
/// new data directory `to`. The folder has it no longer.
///
/// # Errors
/// See [`OpenError`]; `from` is no node, or `to` has data. Nothing is there then.
pub fn take_copy(from: &Path, to: &Path) -> Result<(), OpenError> {
    check_kind(&Store::open_read_only(from, MAPS)?.view()?, true)?;
    if store::move_data_file(from, to, MAPS)? { Ok(()) } else { Err(OpenError::HasData) }
}

fn copy_view(view: &store::View, to: &Path, options: &store::Options) -> Result<(), OpenError> {
    let mut copy = BulkStore::create(to, MAPS, options)?;
    store::copy(view, MAPS, 0, &mut copy)?;
    copy.finish()?;
    Ok(())
}

/// Copies the data of a node, at its newest position, into the new data directory `to`: also beside the process that
/// serves it. The copy is a node at the same place of the log.
///
/// # Errors
/// See [`OpenError`]; `from` is no node, or `to` has data. Nothing is there then.
pub fn copy_node(from: &Path, to: &Path, options: &store::Options) -> Result<(), OpenError> {
    if store::has_data_file(to)? {
        return Err(OpenError::HasData);
    }
    copy(from, to, options, true)
}

impl Writer {
    /// Makes rows of records that were decided elsewhere, with what is known of the shared log afterwards: all of it in
    /// one commit. `first` is the position of the first record. Records that are here already are left alone, so a
    /// group may come twice.
    ///
    /// # Errors
    /// A record is of a later version, or does not follow the last one: nothing of the group is here then. The store
    /// failed.
    pub fn apply_group<'r>(
        &mut self,
        first: Position,
        records: impl IntoIterator<Item = &'r [u8]>,
        log_rows: &[LogRow<'_>],
    ) -> Result<(), OperationError> {
        let mut batch = self.begin()?;
        let known = batch.position()?;
        if first > known + 1 {
            return Err(OperationError::Damaged(format!(
                "the records of the cluster's log go on at position {first}, those here end at {known}"
            )));
        }
        for (position, bytes) in (first..).zip(records) {
            if position <= known {
                continue;
            }
            let record = Record::decode(bytes).ok_or_else(|| {
                OperationError::Damaged(format!(
                    "the record at position {position} of the cluster's log is damaged, or of a later version"
                ))
            })?;
            batch.append_encoded(&record, bytes)?;
        }
        batch.put_log_rows(log_rows)?;
        batch.commit()
    }
}

impl WriteBatch<'_> {
    /// Position of the last record, those of the batch included.
    ///
    /// # Errors
    /// The store failed.
    pub fn position(&self) -> Result<Position, StoreError> {
        self.batch.position()
    }

    /// The records behind `position`, those of the batch included.
    ///
    /// # Errors
    /// The store failed, or a record is damaged.
    pub fn records(&self, position: Position) -> Result<Vec<Vec<u8>>, StoreError> {
        self.batch.log_records(position + 1).map(|record| Ok(record?.1.to_vec())).collect()
    }

    /// From now on a change whose record has more than `bytes_max` bytes is refused without a trace, and each one that
    /// is made takes its record's bytes away from that. [`held_back`](WriteBatch::held_back) tells of a refusal.
    pub fn limit_records(&mut self, bytes_max: usize) {
        self.record_bytes_left = bytes_max;
        self.held_back = None;
    }

    /// Refuses to delete an entry with what lies below it: nodes that are to apply its record do not know such.
    pub fn refuse_trees(&mut self) {
        self.refuses_trees = true;
    }

    /// Writes records of deletes as earlier builds do, for nodes that know no other: see
    /// [`LastValue`].
    pub fn keep_deleted_dns(&mut self) {
        self.last_value = LastValue::DeletedDn;
    }

    /// The size of the last record that had no room, if any, since this was last asked.
    pub fn held_back(&mut self) -> Option<usize> {
        self.held_back.take()
    }

    /// Whether whoever asked another node may still ask: the entry is there, and no policy has locked it since.
    ///
    /// # Errors
    /// insufficientAccessRights where not; the store failed.
    pub fn check_asker(&self, requester: &Requester, now_micros: u64) -> Result<(), OperationError> {
        let Requester::User { id, .. } = requester else { return Ok(()) };
        let state = self.state();
        if state.node(*id)?.is_none() {
            let text = "the entry that the connection is bound as is gone";
            return Err(OperationError::refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text));
        }
        let now = i64::try_from(now_micros).unwrap_or(i64::MAX);
        match accounts::account(state, *id)? {
            Some(account) if account.is_locked(now) => {
                let text = "the account that the connection is bound as is locked";
                Err(OperationError::refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text))
            }
            _ => Ok(()),
        }
    }

    /// Changes what is known of the shared log.
    ///
    /// # Errors
    /// The store failed.
    pub fn put_log_rows(&mut self, log_rows: &[LogRow<'_>]) -> Result<(), OperationError> {
        self.check_failure()?;
        for (key, value) in log_rows {
            let key = [META_REPLICATION, key].concat();
            match value {
                Some(value) => self.batch.put(META, &key, value)?,
                None => drop(self.batch.delete(META, &key)?),
            }
        }
        Ok(())
    }
}
