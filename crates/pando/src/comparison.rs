//! Comparison of names and values by the schema that a server publishes.

use client::{ClientError, Connection};
pub(crate) use schema::{Comparison, EntryValues};

use crate::online::schema_of;

/// Reads the schema of a server.
pub(crate) fn comparison_of(connection: &mut Connection) -> Result<Comparison, ClientError> {
    Ok(Comparison::new(schema_of(connection)?))
}
