//! Check whether a node can continue after its last commit.

use super::Follower;
use crate::key::Tag;

/// Reason why a node cannot continue after its last commit. The node must start over from a snapshot of another node.
/// The node never skips or resets anything by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reseed {
    /// The topic was created again, or is a different topic.
    #[error("the topic is not the one that this data came from")]
    OtherTopic,
    /// The log begins after the last accepted message, so later messages may have been deleted.
    #[error("the log begins at offset {start}, after offset {offset} of the last accepted message")]
    Deleted {
        /// Offset of the last accepted message.
        offset: u64,
        /// First offset of the log.
        start: u64,
    },
    /// The log ends before the last accepted message: the log lost messages, or this data is newer than the log.
    #[error("the log ends at offset {end}, before offset {offset} of the last accepted message")]
    Shorter {
        /// Offset of the last accepted message.
        offset: u64,
        /// Offset that the next message will get.
        end: u64,
    },
    /// The log has a different message at the offset of the last accepted message.
    #[error("the message at offset {offset} is not the last one that this node accepted")]
    OtherMessage {
        /// Offset of the last accepted message.
        offset: u64,
    },
}

impl Follower {
    /// Checks that a node can continue after its last commit. The arguments describe the log: its topic, its first
    /// offset, its next offset, and its message at [`Cursor::offset`](crate::Cursor::offset), if there is one.
    ///
    /// # Errors
    ///
    /// This data does not come from that log, or the log is incomplete.
    pub fn check_start(
        &self,
        topic: [u8; 16],
        start: u64,
        end: u64,
        message: Option<&[u8]>,
    ) -> Result<(), Reseed> {
        let offset = self.cursor.offset;
        if topic != self.cursor.topic {
            return Err(Reseed::OtherTopic);
        }
        if start > offset {
            return Err(Reseed::Deleted { offset, start });
        }
        if end <= offset {
            return Err(Reseed::Shorter { offset, end });
        }
        match message.and_then(Tag::of_message) {
            Some(tag) if tag == self.cursor.message => Ok(()),
            _ => Err(Reseed::OtherMessage { offset }),
        }
    }
}
