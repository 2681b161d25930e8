//! The replica that the server is, if the settings say so.

use std::sync::Arc;
use std::time::Instant;

use directory::replica::{ReplicationRole, role_in};

use crate::config::Config;
use crate::error::ServeError;
use crate::session::context::Shared;
use crate::workers::replica::figures::ReplicaFigures;
use crate::workers::replica::{ReplicaParts, copy};

/// Part that a server takes in replication when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The settings are not those of a replica.
    Alone,
    Replica,
    /// It was promoted away from the supplier of the settings, and has to ask it which of both writes.
    Undecided,
}

/// Copies the supplier's data if the settings are those of a replica and the data directory contains none.
///
/// # Errors
/// The data directory cannot be read, or the supplier gives no copy.
pub(crate) fn copy_supplier(config: &Config) -> Result<(), ServeError> {
    part(config).map(drop)
}

/// Returns the part that the data directory is to take. Copies the supplier's data if it contains none.
///
/// # Errors
/// The data directory cannot be read, or contains no data and the supplier gives no copy.
pub(super) fn part(config: &Config) -> Result<Part, ServeError> {
    let Some(settings) = &config.replica else { return Ok(Part::Alone) };
    let failed = |error| ServeError::Open { path: config.data.clone(), error };
    match role_in(&config.data).map_err(failed)? {
        None => {
            copy::receive(settings, &config.data)?;
            Ok(Part::Replica)
        }
        Some(ReplicationRole::Promoted { supplier }) if supplier == settings.supplier.to_string() => {
            Ok(Part::Undecided)
        }
        Some(_) => Ok(Part::Replica),
    }
}

/// Returns the parts of the replica, or of a server that does not know yet whether it is one.
pub(super) fn parts(config: &Config, shared: &Shared) -> Option<ReplicaParts> {
    let settings = config.replica.as_ref()?;
    Some(ReplicaParts {
        settings: settings.clone(),
        directory: Arc::clone(&shared.directory),
        figures: Arc::new(ReplicaFigures::new(settings.supplier.to_string(), Instant::now())),
        read_age: shared.read_age.clone(),
    })
}
