//! Selection of the copy of a request that the writer decides.
//!
//! A retry of an applied operation is recognized by its id, but a refusal leaves nothing in the log. If a request is
//! sent more than once, the writer therefore decides only the last copy. Otherwise a client could receive the refusal
//! of one copy, and another copy could be applied later.

use std::collections::BTreeMap;

use super::{Link, Request};
use crate::operation::NodeId;

/// Newest connection of each other node.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    newest: BTreeMap<NodeId, Link>,
}

impl Gate {
    /// Records the connection on which a node has sent a frame.
    pub fn see(&mut self, from: NodeId, link: Link) {
        let newest = self.newest.entry(from).or_default();
        *newest = link.max(*newest);
    }

    /// Returns true if the writer of `epoch` may decide a request that the node `from` sent. The writer calls this
    /// when it decides the request, not when the request arrives.
    pub fn admits(&self, from: NodeId, request: &Request, epoch: u64) -> bool {
        request.epoch == epoch && self.newest.get(&from).is_none_or(|newest| request.link >= *newest)
    }
}
