//! Messages that the node has sent, and the offsets at which it read them back. Acknowledgements must agree with these
//! offsets.

use std::collections::VecDeque;

use crate::key::Tag;

/// Number of own messages that are stored. At most one group and one claim are in flight at a time.
const KEPT: usize = 16;

/// The last own messages, each with the offsets at which the node read it. A message that is in the log twice has two
/// offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnMessages(VecDeque<(Tag, Vec<u64>)>);

impl OwnMessages {
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

    /// Returns true if the message with this tag may be at `offset`, which this node has already read. It may be
    /// there if the node read it there, or does not store all offsets of this tag.
    pub(super) fn may_be_at(&self, tag: Tag, offset: u64) -> bool {
        match self.0.iter().find(|(own, _)| *own == tag) {
            Some((_, offsets)) => offsets.contains(&offset) || offsets.len() == KEPT,
            None => true,
        }
    }
}
