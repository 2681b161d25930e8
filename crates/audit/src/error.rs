//! What goes wrong with files, and what a reader finds wrong in them.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a trail cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The key file is no key.
    #[error("{}: this is no private key (Ed25519, PKCS #8)", .0.display())]
    Key(PathBuf),
    /// There is no trail.
    #[error("{}: no segment of an audit trail is here", .0.display())]
    NoTrail(PathBuf),
    /// The newest segment cannot be gone on from.
    #[error("{}: no segment has a header that can be read; move the folder aside", .0.display())]
    NoChain(PathBuf),
    /// The system makes no random numbers.
    #[error("the system makes no random numbers")]
    Random,
    /// Compression failed.
    #[error("a block could not be compressed: {0}")]
    Compress(io::Error),
    /// More than fits into one block.
    #[error("{0} bytes of events do not fit into a block")]
    TooLong(usize),
}

impl AuditError {
    /// An error of the system about a path.
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> AuditError {
        let path = path.into();
        move |error| AuditError::Io { path, error }
    }

    /// Whether the disk has no room.
    pub fn is_full(&self) -> bool {
        matches!(self, AuditError::Io { error, .. } if matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        ))
    }
}

/// Where in a trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Number of the block; `None` in a header of a segment.
    pub block: Option<u64>,
    /// Offset of the first byte that is meant, in the segment.
    pub offset: u64,
    /// How many bytes are meant; 0 where something is missing.
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

/// What a reader finds wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The header of a segment was changed, or is of another version.
    #[error("the header of the segment is damaged")]
    Header,
    /// The header names another trail or another key than the segments before.
    #[error("the segment belongs to another trail")]
    Foreign,
    /// Segments are not there.
    #[error("segments {from} to {to} are missing")]
    MissingSegments {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// Segments are not there and no retention is on record.
    #[error("segments 1 to {0} are missing, and the trail does not say that retention removed them")]
    Unretired(u64),
    /// The head of a block was changed, so its length is not known; the bytes up to the next block are skipped.
    #[error("the head of a block is damaged")]
    Head,
    /// Bytes of a block were changed.
    #[error("bytes of the block were changed: its hash is another")]
    Hash,
    /// The block does not follow the one before it.
    #[error(
        "the block does not follow the one before it: what stood between was changed, removed or put elsewhere"
    )]
    Link,
    /// A number is not the one that comes next.
    #[error("block {expected} should stand here: blocks are missing, or in another order")]
    Order {
        /// The one that should stand there.
        expected: u64,
    },
    /// The end of a segment that others follow is cut off, or was never written.
    #[error("the last block of the segment is cut off")]
    Cut,
    /// The bytes that a crash left behind the last whole block are not those that the restart saw.
    #[error("the torn end was changed after the restart that found it")]
    TornChanged,
    /// The payload is not what its head says.
    #[error("the payload is not what the head of the block says")]
    Payload,
    /// An anchor's signature is not the node's.
    #[error("the signature of the anchor is not by the key of the trail")]
    Signature,
    /// The signatures are by another key than the one given.
    #[error("the trail is signed by another key than the one given")]
    OtherKey,
    /// The trail ends before what its head says it has.
    #[error("the trail ends before block {block}, which file head says it has: the end is cut off")]
    Shortened {
        /// The block of the last anchor.
        block: u64,
    },
    /// A block that was noted down elsewhere is not there or is another.
    #[error("block {block} is not the one with the hash given")]
    NotAsNoted {
        /// Its number.
        block: u64,
    },
    /// The file `head` cannot be right.
    #[error("file head is damaged or missing")]
    HeadFile,
}
