//! Which copy of a request the writer decides.
//!
//! A retry of an applied operation is known by its id. A refusal leaves nothing in the log, so of a request that was
//! sent more than once only the last copy may be decided: else the client could be told of the refusal of one copy,
//! while another one is applied later.

use std::collections::BTreeMap;

use super::{Link, Request};
use crate::operation::NodeId;

/// What the writer knows of the connections of other nodes.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    newest: BTreeMap<NodeId, Link>,
}

impl Gate {
    /// That a frame came from a node on this connection.
    pub fn see(&mut self, from: NodeId, link: Link) {
        let newest = self.newest.entry(from).or_default();
        *newest = link.max(*newest);
    }

    /// Whether the writer of `epoch` may decide a request that this node sent. Asked when it is decided, not when it
    /// arrives.
    pub fn admits(&self, from: NodeId, request: &Request, epoch: u64) -> bool {
        request.epoch == epoch && self.newest.get(&from).is_none_or(|newest| request.link >= *newest)
    }
}
