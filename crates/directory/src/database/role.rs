//! Role of a data directory in replication without a shared log, and the row that stores it.

use store::Read;

use crate::catalog::META_ROLE;
use crate::model::outcome::OperationError;
use crate::model::rows::META;

/// Role of a data directory in replication without a shared log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReplicationRole {
    /// The directory executes the changes of clients. Every new directory has this role.
    #[default]
    Writer,
    /// The directory applies the records of its supplier.
    Replica,
    /// Another server has begun a new epoch and is the writer now. This server must not write.
    Replaced {
        /// Identifier of the new epoch.
        epoch: [u8; 16],
    },
    /// The directory executes the changes of clients. The directory was a replica until it was promoted.
    Promoted {
        /// URL of the former supplier.
        supplier: String,
    },
}

/// Row of [`ReplicationRole::Replica`].
pub(super) const REPLICA_ROW: [u8; 1] = [1];

impl ReplicationRole {
    /// Returns true if the directory may execute changes of clients.
    pub fn may_write(&self) -> bool {
        matches!(self, ReplicationRole::Writer | ReplicationRole::Promoted { .. })
    }

    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        match self {
            ReplicationRole::Writer => None,
            ReplicationRole::Replica => Some(REPLICA_ROW.to_vec()),
            ReplicationRole::Replaced { epoch } => Some([&[2], &epoch[..]].concat()),
            ReplicationRole::Promoted { supplier } => Some([&[3], supplier.as_bytes()].concat()),
        }
    }

    fn decode(row: Option<&[u8]>) -> Option<ReplicationRole> {
        match row.map(<[u8]>::split_first) {
            None => Some(ReplicationRole::Writer),
            Some(Some((1, []))) => Some(ReplicationRole::Replica),
            Some(Some((2, epoch))) => Some(ReplicationRole::Replaced { epoch: epoch.try_into().ok()? }),
            Some(Some((3, supplier))) => {
                Some(ReplicationRole::Promoted { supplier: String::from_utf8(supplier.to_vec()).ok()? })
            }
            Some(_) => None,
        }
    }
}

/// Returns the role of a directory.
///
/// # Errors
/// The store failed, or the row is damaged.
pub(super) fn role(read: &Read) -> Result<ReplicationRole, OperationError> {
    let role = ReplicationRole::decode(read.get(META, META_ROLE)?);
    role.ok_or_else(|| OperationError::Damaged("role in replication".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_round_trip_and_invalid_rows_are_rejected() {
        for role in [
            ReplicationRole::Writer,
            ReplicationRole::Replica,
            ReplicationRole::Replaced { epoch: [7; 16] },
            ReplicationRole::Promoted { supplier: "ldaps://one.example.com".to_owned() },
        ] {
            assert_eq!(ReplicationRole::decode(role.encode().as_deref()), Some(role));
        }
        for row in [&b""[..], b"\x01\x01", b"\x02\x00", b"\x04", b"\x03\xff"] {
            assert_eq!(ReplicationRole::decode(Some(row)), None, "{row:?}");
        }
    }
}
