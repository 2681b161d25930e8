//! Errors of using the files of a trail, and damage that a reader finds in the files.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Reason why a trail cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// A system call failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The key file with this path does not contain a key.
    #[error("{}: not a private key (Ed25519, PKCS #8)", .0.display())]
    Key(PathBuf),
    /// The folder contains no trail.
    #[error("{}: the folder contains no segment of an audit trail", .0.display())]
    NoTrail(PathBuf),
    /// The newest segment cannot be continued, because no header in the folder identifies the trail.
    #[error("{}: no segment has a header that can be read; move the folder aside", .0.display())]
    NoChain(PathBuf),
    /// The system provides no random numbers.
    #[error("the system provides no random numbers")]
    Random,
    /// Compression failed.
    #[error("a block could not be compressed: {0}")]
    Compress(io::Error),
    /// The payload with this length exceeds the limit of a block.
    #[error("{0} bytes of events do not fit into a block")]
    TooLong(usize),
}

impl AuditError {
    /// Returns a function that makes an error from a system error and this path. For use with `map_err`.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> AuditError {
        let path = path.into();
        move |error| AuditError::Io { path, error }
    }

    /// Returns true if the disk or the quota is full, or the file has reached its maximum size.
    pub fn is_full(&self) -> bool {
        matches!(self, AuditError::Io { error, .. } if matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        ))
    }
}

/// A place in a trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Number of the block; `None` for a segment header.
    pub block: Option<u64>,
    /// Offset of the first affected byte in the segment.
    pub offset: u64,
    /// Number of affected bytes; 0 if the damage is that bytes are missing.
    pub length: u64,
}

impl fmt::Display for TrailPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.segment)?;
        if let Some(block) = self.block {
            write!(f, ", block {block}")?;
        }
        write!(f, ", offset {}", self.offset)?;
        if self.length > 0 {
            write!(f, ", {} bytes", self.length)?;
        }
        Ok(())
    }
}

/// Damage that a reader finds in a trail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The header of a segment was changed, or its version is not supported.
    #[error("the header of the segment is damaged")]
    Header,
    /// The header of a segment has a different trail or a different key than the headers of earlier segments.
    #[error("the segment belongs to another trail")]
    Foreign,
    /// Segments are missing.
    #[error("segments {from} to {to} are missing")]
    MissingSegments {
        /// First missing segment.
        from: u64,
        /// Last missing segment.
        to: u64,
    },
    /// The segments up to the segment with this number are missing, and the trail contains no record of their removal.
    #[error("segments 1 to {0} are missing, and the trail does not say that retention removed them")]
    Unretired(u64),
    /// The head of a block was changed, so the length of the block is unknown. The bytes up to the next block are
    /// skipped.
    #[error("the head of a block is damaged")]
    Head,
    /// Bytes of a block were changed, so its hash is wrong.
    #[error("bytes of the block were changed: its hash does not match")]
    Hash,
    /// The link of the block is not the hash of the previous block, or, in the first block, the hash of the segment
    /// header.
    #[error(
        "the block does not follow the one before it: what stood between was changed, removed or put elsewhere"
    )]
    Link,
    /// The number of a block is not one more than the number of the previous block.
    #[error("expected block {expected}: blocks are missing, or out of order")]
    Order {
        /// Expected number.
        expected: u64,
    },
    /// The end of a segment is missing, although another segment follows.
    #[error("the last block of the segment is cut off")]
    Cut,
    /// A restart recorded the bytes that a crash had left after the last whole block. These bytes have changed after
    /// that restart.
    #[error("the torn end was changed after the restart that found it")]
    TornChanged,
    /// The payload of a block does not agree with the block's head.
    #[error("the payload does not match the head of the block")]
    Payload,
    /// An anchor's signature is invalid.
    #[error("the anchor's signature does not match the key of the trail")]
    Signature,
    /// The trail is signed with a key other than the key that the caller gave.
    #[error("the trail is signed by another key than the one given")]
    OtherKey,
    /// The trail ends before the block that the file `head` specifies.
    #[error("the trail ends before block {block}, which file head says it has: the end is cut off")]
    Shortened {
        /// Number of the last anchor's block, according to the file `head`.
        block: u64,
    },
    /// The trail lacks the block with the given number, or the hash of that block differs from the given hash.
    #[error("block {block} is not the one with the hash given")]
    AnchorMismatch {
        /// Number of the block.
        block: u64,
    },
    /// The file `head` is missing or malformed, belongs to another trail, or has an invalid signature.
    #[error("file head is damaged or missing")]
    HeadFile,
}
