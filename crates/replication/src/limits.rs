//! Every bound of the protocol, in one place.

/// Longest message in bytes that is looked at. A topic's `max.message.bytes` may be lower and then holds.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Most records in a group.
pub const GROUP_RECORDS_MAX: usize = 1 << 16;

/// Most nodes that the state knows.
pub const NODES_MAX: usize = 256;

/// Most nodes that were ever heard of, those that left included.
pub const MEMBERS_MAX: usize = 4096;

/// The highest feature level that this build knows. A level stands for what nodes write into the log and make of it;
/// there is more than one only where a build began to write something that those before cannot read.
pub const LEVEL_MAX: u64 = 5;

/// The level from which on the log may have keys and sealed groups.
pub const KEYS_LEVEL: u64 = 2;

/// The level from which on nodes compare their data a slice at a time.
pub const SLICES_LEVEL: u64 = 3;

/// The level from which on records may delete an entry with all that lies below.
pub const TREES_LEVEL: u64 = 4;

/// The level from which on records of deletes leave the empty DN in place of the last value of a required attribute.
pub const EMPTY_DNS_LEVEL: u64 = 5;

/// Longest point between two rows, where a slice begins or ends.
pub const POINT_BYTES_MAX: usize = 512;

/// Longest address of a node, in bytes.
pub const ADDRESS_BYTES_MAX: usize = 160;

/// Most parts that digests are told of.
pub const DIGEST_PARTS_MAX: usize = 1024;

/// How many of the last comparisons are kept.
pub const COMPARISONS_KEPT: usize = 4;

/// How many of a node's applied operation ids are remembered. A node keeps fewer requests outstanding than this, so
/// that a retry always finds its id.
/// Few in this crate's own tests, whose nodes are to forget.
pub const IDS_PER_NODE: usize = if cfg!(test) { 4 } else { 1024 };
