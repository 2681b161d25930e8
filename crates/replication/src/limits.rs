//! All limits of the protocol.

/// Longest message that a node reads, in bytes. A topic's `max.message.bytes` may be lower and then applies.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Most records in a group.
pub const GROUP_RECORDS_MAX: usize = 1 << 16;

/// Most nodes whose operation ids and claims are kept.
pub const NODES_MAX: usize = 256;

/// Most nodes that ever announced themselves, including those that left.
pub const MEMBERS_MAX: usize = 4096;

/// Highest feature level that this build supports. A level covers what nodes write into the log and how they read it.
/// A level is added only for messages, records or forwarded requests that earlier builds cannot read.
pub const LEVEL_MAX: u64 = 10;

/// Lowest level at which the log may have key messages and sealed groups.
pub const KEYS_LEVEL: u64 = 2;

/// Lowest level at which nodes compare their data one slice at a time.
pub const SLICES_LEVEL: u64 = 3;

/// Lowest level at which records may delete an entry with all entries below it.
pub const TREES_LEVEL: u64 = 4;

/// Lowest level at which records of deletes replace the last value of a required attribute by the empty DN.
pub const EMPTY_DNS_LEVEL: u64 = 5;

/// Lowest level at which nodes forward transactions, and several records of a group may belong to one operation.
pub const TRANSACTIONS_LEVEL: u64 = 6;

/// Lowest level at which deleted entries are kept, and records bring them back.
pub const TOMBSTONES_LEVEL: u64 = 7;

/// Lowest level at which records of deletes have the entryUUIDs of the deleted entries.
pub const DELETE_TRACES_LEVEL: u64 = 8;

/// Lowest level at which records may give values an end.
pub const VALUE_ENDS_LEVEL: u64 = 9;

/// Lowest level at which definitions may have `X-LINK`, and records make plain values links.
pub const LINKS_LEVEL: u64 = 10;

/// Most bytes of a point between two rows, at which a slice begins or ends.
pub const POINT_BYTES_MAX: usize = 512;

/// Longest address of a node, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 160;

/// Most parts of the data in one message of digests.
pub const DIGEST_PARTS_MAX: usize = 1024;

/// Number of comparisons that are kept, the latest ones.
pub const COMPARISONS_KEPT: usize = 4;

/// Most slices of a replica's data that are kept because they differ from the supplier's.
pub const DIFFERENCES_MAX: usize = 16;

/// Number of a node's applied operation ids that are kept. A node has fewer requests outstanding than this, so that
/// the id of a retry is always known. This crate's own tests use few, so that ids are dropped.
pub const IDS_PER_NODE: usize = if cfg!(test) { 4 } else { 1024 };
