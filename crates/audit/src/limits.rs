//! All limits of this crate.

/// Maximum size of an event in bytes, without the length that precedes it.
pub const EVENT_BYTES_MAX: usize = 65_536;

/// Maximum size of a block's payload before compression, in bytes. A reader allocates at most this size for a payload.
pub const PAYLOAD_BYTES_MAX: usize = 4 << 20;

/// Maximum size of a payload as stored, in bytes. Compression makes some data slightly larger.
pub const STORED_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 65_536;

/// Maximum time between two anchors in microseconds, if blocks are written.
pub const ANCHOR_MICROS: u64 = 30_000_000;

/// Maximum number of segments in the folder of a trail.
pub const SEGMENTS_MAX: usize = 1_000_000;

const _: () = assert!(EVENT_BYTES_MAX < PAYLOAD_BYTES_MAX);
