//! All limits of the protocol.

/// Longest message that a node reads, in bytes. A topic's `max.message.bytes` may be lower and then applies.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Maximum number of records in a group.
pub const GROUP_RECORDS_MAX: usize = 1 << 16;

/// Maximum number of nodes for which operation ids and claims are stored.
pub const NODES_MAX: usize = 256;

/// Maximum number of nodes that ever announced themselves, including those that have left.
pub const MEMBERS_MAX: usize = 4096;

/// Highest feature level that this build supports. A level determines what nodes may write to the log and how they read
/// it. A new level is needed only for messages, records or forwarded requests that earlier builds cannot read.
pub const LEVEL_MAX: u64 = 10;

/// Lowest level at which the log may contain key messages and sealed groups.
pub const KEYS_LEVEL: u64 = 2;

/// Lowest level at which nodes compare their data one slice at a time.
pub const SLICES_LEVEL: u64 = 3;

/// Lowest level at which records may delete an entry with all entries below it.
pub const TREES_LEVEL: u64 = 4;

/// Lowest level at which records of deletes replace the last value of a required attribute by the empty DN.
pub const EMPTY_DNS_LEVEL: u64 = 5;

/// Lowest level at which nodes forward transactions, and several records of a group may belong to one operation.
pub const TRANSACTIONS_LEVEL: u64 = 6;

/// Lowest level at which deleted entries are kept as tombstones, and records may restore them.
pub const TOMBSTONES_LEVEL: u64 = 7;

/// Lowest level at which delete records contain the entryUUIDs of the deleted entries.
pub const DELETE_TRACES_LEVEL: u64 = 8;

/// Lowest level at which records may limit the lifetime of values.
pub const VALUE_ENDS_LEVEL: u64 = 9;

/// Lowest level at which definitions may have `X-LINK`, and records may convert plain values to links.
pub const LINKS_LEVEL: u64 = 10;

/// Maximum length of a point, in bytes. A point lies between two rows and is the beginning or end of a slice.
pub const POINT_BYTES_MAX: usize = 512;

/// Maximum length of a node's address, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 160;

/// Maximum number of parts of the data in one message of digests.
pub const DIGEST_PARTS_MAX: usize = 1024;

/// Number of comparisons that are stored; older comparisons are dropped.
pub const COMPARISONS_KEPT: usize = 4;

/// Maximum number of stored slices in which a replica differs from its supplier.
pub const DIFFERENCES_MAX: usize = 16;

/// Number of applied operation ids stored per node. A node has fewer outstanding requests than this, so the id of a
/// retry is always stored. In tests of this crate the number is small, so that ids are dropped.
pub const IDS_PER_NODE: usize = if cfg!(test) { 4 } else { 1024 };
