//! Replication of a directory without a shared log: access to the log, to the records of a supplier, to the lineage of
//! the data, and to the role of this server.
//!
//! The lineage lists the servers that were allowed to write, each with its first position. The lineage is opaque to
//! this crate. The role belongs to the data directory, not to the data, so the receiver of copied data sets its own
//! role. Unless the role permits other changes, only a caller that follows a supplier may change the directory.

use std::path::Path;

use store::{Position, Store, StoreError};

pub use super::role::ReplicationRole;
use super::role::role;
use super::{WriteBatch, Writer, check_versions};
use crate::catalog::{META_LINEAGE, META_ROLE, is_node};
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{MAPS, META};
use crate::snapshot::{Directory, Snapshot};

/// Returns the role of a data directory that is not open. Returns `None` if the data directory contains no data.
///
/// # Errors
/// See [`OpenError`]; the directory is a node of a cluster.
pub fn role_in(data: &Path) -> Result<Option<ReplicationRole>, OpenError> {
    if !store::has_data_file(data)? {
        return Ok(None);
    }
    let store = Store::open_read_only(data, MAPS)?;
    let view = store.view()?;
    if check_versions(&view)? {
        return Ok(None);
    }
    if is_node(&view)? {
        return Err(OpenError::ChangedNode);
    }
    Ok(Some(role(&view)?))
}

/// Moves the received copy of a supplier's data from the directory `from` to the new data directory `to`. Both
/// directories must be on the same file system.
///
/// # Errors
/// See [`OpenError`]; or `from` is a node of a cluster, or `to` contains data. `to` is then unchanged.
pub fn take_copy(from: &Path, to: &Path) -> Result<(), OpenError> {
    if role_in(from)?.is_none() {
        return Err(OpenError::damaged("copy"));
    }
    if store::move_data_file(from, to, MAPS)? { Ok(()) } else { Err(OpenError::HasData) }
}

impl Snapshot {
    /// Returns the encoded records from position `from` on, each with its position, without gaps. If the log was
    /// trimmed, the first position may be higher.
    pub fn log_records(
        &self,
        from: Position,
    ) -> impl Iterator<Item = Result<(Position, &[u8]), StoreError>> + '_ {
        self.state().read.log_records(from)
    }

    /// Returns the position of the oldest record in the log; `None` if the log is empty.
    ///
    /// # Errors
    /// The store failed.
    pub fn first_log_position(&self) -> Result<Option<Position>, StoreError> {
        self.state().read.first_position()
    }

    /// Returns the lineage of the data; empty before the first promotion.
    ///
    /// # Errors
    /// The store failed.
    pub fn lineage(&self) -> Result<&[u8], StoreError> {
        Ok(self.state().read.get(META, META_LINEAGE)?.unwrap_or_default())
    }
}

impl Snapshot {
    /// Returns true if the directory receives its data from a log, because it is a node of a cluster or a replica.
    ///
    /// # Errors
    /// The store failed.
    pub fn is_copy(&self) -> Result<bool, OperationError> {
        Ok(self.is_node()? || !role(self.state().read)?.may_write())
    }
}

impl Directory {
    /// Returns the role of this directory in replication.
    ///
    /// # Errors
    /// The store failed, or the row is damaged.
    pub fn replication_role(&self) -> Result<ReplicationRole, OperationError> {
        let view = self.store.view()?;
        role(&view)
    }

    /// Returns the newest visible position, and the lineage of the data at that position.
    ///
    /// # Errors
    /// The store failed.
    pub fn newest_place(&self) -> Result<(Position, Vec<u8>), StoreError> {
        let view = self.store.view()?;
        Ok((view.position()?, view.get(META, META_LINEAGE)?.unwrap_or_default().to_vec()))
    }
}

impl Writer {
    /// Applies records of the supplier in one commit, and stores `lineage`, if given: the lineage after these records.
    /// `first` is the position of the first record. Skips records that are already applied. Returns the time of the
    /// last change, in microseconds since 1970.
    ///
    /// # Errors
    /// A record has a later version, or does not follow the last record, or the store failed. No record is then
    /// applied.
    pub fn apply_records<'r>(
        &mut self,
        first: Position,
        records: impl IntoIterator<Item = &'r [u8]>,
        lineage: Option<&[u8]>,
    ) -> Result<u64, OperationError> {
        let mut batch = self.begin()?;
        batch.append_group(first, records)?;
        if let Some(lineage) = lineage {
            batch.put_lineage(lineage)?;
        }
        let last = crate::catalog::last_csn(&batch.batch)?.micros;
        batch.commit()?;
        Ok(last)
    }

    /// Returns the role of the directory.
    ///
    /// # Errors
    /// The store failed, or the row is damaged.
    pub fn replication_role(&self) -> Result<ReplicationRole, OperationError> {
        self.directory().replication_role()
    }

    /// Returns the position of the last record, and the lineage of the data.
    ///
    /// # Errors
    /// The store failed.
    pub fn place_in_lineage(&self) -> Result<(Position, Vec<u8>), OperationError> {
        let snapshot = self.directory().snapshot()?;
        Ok((snapshot.position()?, snapshot.lineage()?.to_vec()))
    }

    /// Makes this directory the writer of the data. The directory must have been a replica of `supplier`. Stores the
    /// role, and the lineage with the new writer's epoch. Durable on return. From then on, this server executes the
    /// changes of clients.
    ///
    /// # Errors
    /// The store failed.
    pub fn promote(&mut self, lineage: &[u8], supplier: &str) -> Result<(), OperationError> {
        self.allow_changes();
        let mut batch = self.begin()?;
        batch.put_lineage(lineage)?;
        batch.put_role(&ReplicationRole::Promoted { supplier: supplier.to_owned() })?;
        batch.commit()
    }

    /// Gives this directory another role. The directory must have been the writer. Durable on return. From then on, the
    /// directory executes no changes of clients.
    ///
    /// # Errors
    /// The store failed.
    pub fn resign(&mut self, role: &ReplicationRole) -> Result<(), OperationError> {
        let mut batch = self.begin()?;
        batch.put_role(role)?;
        batch.commit()?;
        self.is_of_supplier();
        Ok(())
    }
}

impl WriteBatch<'_> {
    /// Stores the lineage of the data.
    ///
    /// # Errors
    /// The store failed.
    pub fn put_lineage(&mut self, lineage: &[u8]) -> Result<(), OperationError> {
        self.check_failure()?;
        Ok(self.batch.put(META, META_LINEAGE, lineage)?)
    }

    /// Returns the lineage of the data.
    ///
    /// # Errors
    /// The store failed.
    pub fn lineage(&self) -> Result<Vec<u8>, OperationError> {
        Ok(self.batch.get(META, META_LINEAGE)?.unwrap_or_default().to_vec())
    }

    /// Stores the role of this directory.
    ///
    /// # Errors
    /// The store failed.
    pub fn put_role(&mut self, role: &ReplicationRole) -> Result<(), OperationError> {
        self.check_failure()?;
        match role.encode() {
            Some(row) => self.batch.put(META, META_ROLE, &row)?,
            None => drop(self.batch.delete(META, META_ROLE)?),
        }
        Ok(())
    }

    /// Returns the role of this directory.
    ///
    /// # Errors
    /// The store failed, or the row is damaged.
    pub fn replication_role(&self) -> Result<ReplicationRole, OperationError> {
        role(&self.batch)
    }
}
