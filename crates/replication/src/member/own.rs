//! The node's own messages, and where it has read them: an acknowledgement must agree with that.

use std::collections::VecDeque;

use crate::key::Tag;

/// How many of the last own messages are known. One group and one claim are on the way at a time.
const KEPT: usize = 16;

/// The last own messages, with the offsets at which each was read: more than one where it landed twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Own(VecDeque<(Tag, Vec<u64>)>);

impl Own {
    pub(super) fn sent(&mut self, tag: Tag) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((tag, Vec::new()));
    }

    pub(super) fn read(&mut self, tag: Tag, offset: u64) {
        if let Some((_, offsets)) = self.0.iter_mut().find(|(own, _)| *own == tag)
            && offsets.len() < KEPT
        {
            offsets.push(offset);
        }
    }

    /// Whether the message of this tag can stand at an offset that was read before: it was found there, or nobody
    /// remembers.
    pub(super) fn may_stand(&self, tag: Tag, offset: u64) -> bool {
        match self.0.iter().find(|(own, _)| *own == tag) {
            Some((_, offsets)) => offsets.contains(&offset) || offsets.len() == KEPT,
            None => true,
        }
    }
}
