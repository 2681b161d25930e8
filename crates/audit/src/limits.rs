//! Every bound of the crate.

/// Longest event, without the length before it.
pub const EVENT_BYTES_MAX: usize = 65_536;

/// Longest payload of a block before compression. A reader makes room for no more.
pub const PAYLOAD_BYTES_MAX: usize = 4 << 20;

/// Longest payload as stored: what cannot be compressed grows a little.
pub const STORED_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 65_536;

/// Longest time without an anchor while there are events, in microseconds.
pub const ANCHOR_MICROS: u64 = 30_000_000;

/// Most segments of a folder that are looked at.
pub const SEGMENTS_MAX: usize = 1_000_000;

const _: () = assert!(EVENT_BYTES_MAX < PAYLOAD_BYTES_MAX);
