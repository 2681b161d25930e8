//! Access for servers that replicate a directory without a shared log: reading the log, and the lineage of the data.
//!
//! The lineage says which servers were allowed to write, and from which position on. It is opaque bytes to this crate.

use store::{Position, StoreError};

use crate::catalog::META_LINEAGE;
use crate::model::rows::META;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// Returns the encoded records from position `from` on, each with its position, without gaps. They begin later if
    /// the log was trimmed.
    pub fn log_records(
        &self,
        from: Position,
    ) -> impl Iterator<Item = Result<(Position, &[u8]), StoreError>> + '_ {
        self.state().read.log_records(from)
    }

    /// Returns the position of the oldest record that is still in the log, `None` if there is none.
    ///
    /// # Errors
    /// The store failed.
    pub fn first_log_position(&self) -> Result<Option<Position>, StoreError> {
        self.state().read.first_position()
    }

    /// Returns the lineage of the data, empty before the first promotion.
    ///
    /// # Errors
    /// The store failed.
    pub fn lineage(&self) -> Result<&[u8], StoreError> {
        Ok(self.state().read.get(META, META_LINEAGE)?.unwrap_or_default())
    }
}
