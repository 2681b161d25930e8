//! Ordered maps, id sets, counters, views, batches and the log. Knows bytes, not LDAP.
#![deny(unsafe_code)]

mod batch;
mod disk;
mod error;
mod ids;
mod layout;
mod lmdb;
mod log;
mod open;
mod read;
mod scan;
mod shared;
mod view;

pub use batch::{Batch, Writer};
pub use error::{LogDamage, OpenError, StoreError};
pub use ids::IdCursor;
pub use layout::{FORMAT_VERSION, KEY_LEN_MAX, MapId, MapKind, MapSpec, VALUE_LEN_MAX};
pub use log::LogScan;
pub use open::{Facts, Options, Store};
pub use read::Read;
pub use scan::{Direction, KeyRange, KeyScan, Scan};
pub use view::View;

/// A place in the log: 1 for the first record, one more for each that follows; 0 before the first.
pub type Position = u64;

/// Result with a [`StoreError`].
pub type Result<T> = std::result::Result<T, StoreError>;
