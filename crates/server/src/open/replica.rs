//! The replica that the server is, if the settings say so.

use std::sync::Arc;
use std::time::Instant;

use directory::replica::{ReplicationRole, role_in};

use crate::config::Config;
use crate::error::ServeError;
use crate::session::context::Shared;
use crate::workers::replica::figures::ReplicaFigures;
use crate::workers::replica::{ReplicaParts, copy};

/// Copies the supplier's data if the settings are those of a replica and the data directory contains none.
///
/// # Errors
/// The data directory cannot be read, or the supplier gives no copy.
pub(crate) fn copy_supplier(config: &Config) -> Result<(), ServeError> {
    is_one(config).map(drop)
}

/// Returns true if the data directory is to be a replica. Copies the supplier's data if it contains none. A directory
/// that was promoted away from the supplier of the settings stays the writer, so that a restart with an old node file
/// does not undo the promotion.
///
/// # Errors
/// The data directory cannot be read, or contains no data and the supplier gives no copy.
pub(super) fn is_one(config: &Config) -> Result<bool, ServeError> {
    let Some(settings) = &config.replica else { return Ok(false) };
    let failed = |error| ServeError::Open { path: config.data.clone(), error };
    match role_in(&config.data).map_err(failed)? {
        None => {
            copy::receive(settings, &config.data)?;
            Ok(true)
        }
        Some(ReplicationRole::Promoted { supplier }) if supplier == settings.supplier.to_string() => {
            Ok(false)
        }
        Some(_) => Ok(true),
    }
}

/// Returns the parts of the replica.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn parts(config: &Config, shared: &Shared) -> Result<Option<ReplicaParts>, ServeError> {
    let Some(settings) = &config.replica else { return Ok(None) };
    let role = shared.directory.replication_role()?;
    if let ReplicationRole::Promoted { supplier } = &role {
        tracing::warn!(
            "this server was promoted and is no replica of {supplier} any longer: remove the table [replica]"
        );
    }
    if role.may_write() {
        return Ok(None);
    }
    Ok(Some(ReplicaParts {
        settings: settings.clone(),
        directory: Arc::clone(&shared.directory),
        figures: Arc::new(ReplicaFigures::new(settings.supplier.to_string(), Instant::now())),
        read_age: shared.read_age.clone(),
    }))
}
