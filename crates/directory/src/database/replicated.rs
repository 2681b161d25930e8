//! Replication of a cluster node, which receives its changes from a log that all nodes share.
//!
//! The writer executes the changes of a batch as usual, and keeps the batch open while its records are sent to the
//! shared log ([`WriteBatch::records`]). When the log has accepted the records, the writer commits the batch.
//! Otherwise the writer drops the batch. The other nodes apply the same records with [`Writer::apply_group`]. Rows of
//! the same commit store the node's state of the shared log. The keys and values of these rows are opaque to this
//! crate.
//!
//! A data directory with such rows is a node. Only the follower of the log may change a node, because nodes stay equal
//! only if they apply the same records at the same positions.

use std::path::Path;

use ldap::ResultCode;
use store::{BulkStore, Position, Store, StoreError};

use super::record_limit::RecordLimit;
use super::{RecordRoom, WriteBatch, Writer, check_versions};
use crate::access::Requester;
use crate::accounts;
use crate::catalog::{META_REPLICATION, is_node, log_rows};
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::record::{LastValue, Record};
use crate::model::rows::{MAPS, META};
use crate::snapshot::Directory;

/// Change of a row with state of the shared log: key and value. The value `None` deletes the row.
pub type LogRow<'a> = (&'a [u8], Option<&'a [u8]>);

/// Key and value of a row with state of the shared log.
pub type OwnedLogRow = (Vec<u8>, Vec<u8>);

impl Directory {
    /// Returns all rows with state of the shared log, ascending by key. The result is empty if the directory is not a
    /// node.
    ///
    /// # Errors
    /// The store failed.
    pub fn log_rows(&self) -> Result<Vec<OwnedLogRow>, OperationError> {
        Ok(owned_rows(&self.store.view()?)?)
    }

    /// Like [`copy_node`], but in the process that serves the data. Copies at most `bytes_per_second` bytes of rows per
    /// second.
    ///
    /// # Errors
    /// See [`copy_node`].
    pub fn copy_to(&self, to: &Path, bytes_per_second: u64) -> Result<(), OpenError> {
        if store::has_data_file(to)? {
            return Err(OpenError::HasData);
        }
        let options = store::Options { bulk_bytes_per_second: Some(bytes_per_second), ..Default::default() };
        copy_view(&self.store.view()?, to, &options)
    }
}

/// Like [`Directory::log_rows`], for a data directory that another process may serve. The result is never empty.
///
/// # Errors
/// See [`OpenError`]; or the directory is not a node.
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

/// Like [`copy_node`], for a directory that is not a node.
///
/// # Errors
/// See [`OpenError`]; or `from` is a node, or `to` contains data.
pub fn copy_plain(from: &Path, to: &Path, options: &store::Options) -> Result<(), OpenError> {
    if store::has_data_file(to)? {
        return Err(OpenError::HasData);
    }
    copy(from, to, options, false)
}

/// Like [`copy_node`], but replaces the data of `to`. The data of `to` must not be open.
///
/// # Errors
/// See [`OpenError`]; or `from` is not a node. The data of `to` is then unchanged.
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

/// Moves a copy of a node, which [`Directory::copy_to`] wrote to the directory `from`, to the new data directory `to`.
/// Both directories must be on the same file system.
///
/// # Errors
/// See [`OpenError`]; or `from` is not a node, or `to` contains data. `to` is then unchanged.
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

/// Copies the data of a node, at its newest position, to the new data directory `to`. Another process may serve the
/// data meanwhile. The copy is a node at the same position of the log.
///
/// # Errors
/// See [`OpenError`]; or `from` is not a node, or `to` contains data. `to` is then unchanged.
pub fn copy_node(from: &Path, to: &Path, options: &store::Options) -> Result<(), OpenError> {
    if store::has_data_file(to)? {
        return Err(OpenError::HasData);
    }
    copy(from, to, options, true)
}

impl Writer {
    /// Applies records of another node, and stores the state that the shared log has after these records, in one
    /// commit. `first` is the position of the first record. Records that are already applied are skipped, so a group
    /// may arrive twice.
    ///
    /// # Errors
    /// A record has a later version, or does not follow the last record, or the store failed. Nothing of the group is
    /// then applied.
    pub fn apply_group<'r>(
        &mut self,
        first: Position,
        records: impl IntoIterator<Item = &'r [u8]>,
        log_rows: &[LogRow<'_>],
    ) -> Result<(), OperationError> {
        let mut batch = self.begin()?;
        batch.append_group(first, records)?;
        batch.put_log_rows(log_rows)?;
        batch.commit()
    }
}

impl WriteBatch<'_> {
    /// Applies records of another server. `first` is the position of the first record. Records that are already
    /// applied are skipped.
    pub(super) fn append_group<'r>(
        &mut self,
        first: Position,
        records: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), OperationError> {
        let known = self.position()?;
        if first > known + 1 {
            return Err(OperationError::Damaged(format!(
                "the next records of the log begin at position {first}, but this server ends at position {known}"
            )));
        }
        for (position, bytes) in (first..).zip(records) {
            if position <= known {
                continue;
            }
            let record = Record::decode(bytes).ok_or_else(|| {
                OperationError::Damaged(format!(
                    "the record at position {position} of the log is damaged, or of a later version"
                ))
            })?;
            self.append_encoded(&record, bytes)?;
        }
        Ok(())
    }

    /// Returns the position of the last record, including records of the batch.
    ///
    /// # Errors
    /// The store failed.
    pub fn position(&self) -> Result<Position, StoreError> {
        self.batch.position()
    }

    /// Returns the records after `position`, including records of the batch.
    ///
    /// # Errors
    /// The store failed, or a record is damaged.
    pub fn records(&self, position: Position) -> Result<Vec<Vec<u8>>, StoreError> {
        self.batch.log_records(position + 1).map(|record| Ok(record?.1.to_vec())).collect()
    }

    /// Limits the number and the total size of further records. Each record counts with its own size and with
    /// `overhead` bytes. A change whose records do not fit is refused without effect.
    /// [`take_rejected_room`](WriteBatch::take_rejected_room) then returns the room that the refused change needs.
    pub fn limit_records(&mut self, room: RecordRoom, overhead: usize) {
        self.record_limit = RecordLimit::new(room, overhead);
    }

    /// Refuses deletes of trees, because some nodes of the cluster do not support their records.
    pub fn refuse_trees(&mut self) {
        self.refuses_trees = true;
    }

    /// Writes delete records in the form of earlier builds, because some nodes of the cluster support no other: see
    /// [`LastValue`].
    pub fn keep_deleted_dns(&mut self) {
        self.last_value = LastValue::DeletedDn;
    }

    /// Makes deletes keep no tombstones, because some nodes of the cluster do not support them.
    pub fn keep_none(&mut self) {
        self.may_keep_deleted = false;
    }

    /// Writes delete records without a [trace](crate::record::DeleteTrace), because some nodes of the cluster do not
    /// support traces.
    pub fn omit_delete_traces(&mut self) {
        self.may_trace_deletes = false;
    }

    /// Refuses changes that set end times of values, because some nodes of the cluster do not support their records.
    pub fn refuse_ends(&mut self) {
        self.may_end_values = false;
    }

    /// Refuses definitions with `X-LINK`, because some nodes of the cluster do not support it.
    pub fn refuse_links(&mut self) {
        self.may_link = false;
    }

    /// Returns and clears the room that the last rejected change needs for its records, up to the first record that did
    /// not fit. Returns `None` if no change was rejected since the last call.
    pub fn take_rejected_room(&mut self) -> Option<RecordRoom> {
        self.record_limit.rejected.take()
    }

    /// Checks that a requester at another node may still make changes: the entry exists, and the account is not locked.
    ///
    /// # Errors
    /// insufficientAccessRights, or the store failed.
    pub fn check_requester(&self, requester: &Requester, now_micros: u64) -> Result<(), OperationError> {
        let Requester::User { id, .. } = requester else { return Ok(()) };
        let state = self.state();
        if state.node(*id)?.is_none() {
            let text = "the entry that the connection is bound as has been deleted";
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

    /// Updates the rows with state of the shared log.
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
