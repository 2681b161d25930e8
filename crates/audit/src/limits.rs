//! All limits of this crate.

/// Maximum size of an event in bytes, without the preceding length.
pub const EVENT_BYTES_MAX: usize = 65_536;

/// Maximum size of a block's payload before compression, in bytes. A reader allocates no more.
pub const PAYLOAD_BYTES_MAX: usize = 4 << 20;

/// Maximum size of a payload as stored, in bytes. Data that cannot be compressed grows slightly.
pub const STORED_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 65_536;

/// Maximum time without an anchor if there are events, in microseconds.
pub const ANCHOR_MICROS: u64 = 30_000_000;

/// Maximum number of segments in a folder.
pub const SEGMENTS_MAX: usize = 1_000_000;

const _: () = assert!(EVENT_BYTES_MAX < PAYLOAD_BYTES_MAX);
