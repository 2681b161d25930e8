//! The role of the server in replication.

use std::sync::Arc;
use std::time::Instant;

use directory::replica::{ReplicationRole, role_in};

use crate::config::Config;
use crate::error::ServeError;
use crate::session::context::Shared;
use crate::workers::replica::figures::ReplicaFigures;
use crate::workers::replica::{ReplicaParts, copy};

/// Role of a server in replication at the time when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The settings have no supplier.
    Alone,
    Replica,
    /// The settings have a supplier, but this server was promoted to replace it. This server must ask the supplier
    /// which of the two is the writer.
    Undecided,
}

/// Copies the supplier's data if the settings contain a supplier and the data directory is empty.
///
/// # Errors
/// The data directory cannot be read, or the supplier sends no copy.
pub(crate) fn copy_supplier(config: &Config) -> Result<(), ServeError> {
    part(config).map(drop)
}

/// Returns the role of the server. First copies the supplier's data if the settings contain a supplier and the data
/// directory is empty.
///
/// # Errors
/// The data directory cannot be read, or the supplier sends no copy.
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

/// Returns the parts that a replica needs; `None` if the settings have no supplier. A server in the role
/// [`Undecided`](Part::Undecided) needs the same parts.
pub(super) fn parts(config: &Config, shared: &Shared) -> Option<ReplicaParts> {
    let settings = config.replica.as_ref()?;
    Some(ReplicaParts {
        settings: settings.clone(),
        directory: Arc::clone(&shared.directory),
        figures: Arc::new(ReplicaFigures::new(settings.supplier.to_string(), Instant::now())),
        read_age: shared.read_age.clone(),
    })
}
