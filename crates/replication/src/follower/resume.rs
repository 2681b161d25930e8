//! Whether a node may go on where its last commit left it.

use super::Follower;
use crate::key::Tag;

/// Why a node cannot go on from its last commit. It begins again from a snapshot of another node; nothing is skipped or
/// reset by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reseed {
    /// The topic was made anew, or it is another one.
    #[error("the topic is not the one that this data came from")]
    OtherTopic,
    /// The log begins behind the last accepted message: what followed it may be gone.
    #[error("the log begins at offset {start}, behind offset {offset} of the last accepted message")]
    Deleted {
        /// Of the last accepted message.
        offset: u64,
        /// Where the log begins.
        start: u64,
    },
    /// The log ends before the last accepted message: it has lost messages, or this data is from its future.
    #[error("the log ends at offset {end}, before offset {offset} of the last accepted message")]
    Shorter {
        /// Of the last accepted message.
        offset: u64,
        /// The offset that the next message gets.
        end: u64,
    },
    /// Another message stands where the last accepted one was.
    #[error("another message stands at offset {offset}, where the last accepted one was")]
    OtherMessage {
        /// Of the last accepted message.
        offset: u64,
    },
}

impl Follower {
    /// Compares the last commit with the log: its topic, the offsets of its first message and of the one to come, and
    /// the message at [`Cursor::offset`](crate::Cursor::offset), if there is one.
    ///
    /// # Errors
    /// It is not the log that this data came from, or not all of it.
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
