//! Ordered maps, id sets, counters, views, batches and the log. Knows bytes, not LDAP.
#![deny(unsafe_code)]

mod batch;
mod disk;
mod error;
mod layout;
mod read;
mod view;

pub use batch::{Batch, Writer};
pub use disk::{Facts, Options, Store};
pub use error::{LogDamage, OpenError, StoreError};
pub use layout::{FORMAT_VERSION, KEY_LEN_MAX, MapId, MapKind, MapSpec, VALUE_LEN_MAX};
pub use read::{Direction, IdCursor, KeyRange, KeyScan, LogScan, Read, Scan};
pub use view::View;

/// A place in the log: 1 for the first record, one more for each that follows; 0 before the first.
pub type Position = u64;

/// Result with a [`StoreError`].
pub type Result<T> = std::result::Result<T, StoreError>;
