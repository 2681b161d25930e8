//! The requests of a session without a response yet, and what they hold.

use std::time::Instant;

use directory::Requester;
use directory::search::Search;
use ldap::MessageId;

use super::shared_rest::SharedRest;
use crate::limits::{HELD_BYTES_MAX, HELD_SEARCH_BYTES_MAX};
use crate::telemetry::counters::Operation;
use crate::telemetry::operation_log::OperationLine;
use crate::workers::hash_pool::HashClaim;

/// A request without a response yet.
pub(super) struct Outstanding {
    pub(super) ticket: u64,
    pub(super) id: MessageId,
    pub(super) operation: Operation,
    /// Its response is not wanted any more.
    pub(super) abandoned: bool,
    pub(super) work: Work,
    pub(super) line: Option<Box<OperationLine>>,
    /// On the hash pool's result, given up with the operation.
    _claim: Option<HashClaim>,
    /// Bytes of memory that it holds.
    bytes: usize,
}

/// What an outstanding operation waits for.
pub(super) enum Work {
    /// Its next slice, or a piece from the scan threads that look at the rest of its candidates.
    Search { search: Box<Search>, deadline: Option<Instant>, rest: Option<SharedRest> },
    /// The writer.
    Change,
    /// The hash pool's word on a password.
    Compare,
    /// The same, and then the session is this requester's.
    Bind(Requester),
}

impl Outstanding {
    /// A request that holds `bytes` besides itself; a search is asked.
    pub(super) fn new(
        ticket: u64,
        (id, operation, line): (MessageId, Operation, Option<Box<OperationLine>>),
        work: Work,
        bytes: usize,
        claim: Option<HashClaim>,
    ) -> Outstanding {
        let mut new =
            Outstanding { ticket, id, operation, abandoned: false, work, line, _claim: claim, bytes };
        new.bytes += size_of::<Outstanding>() + new.search_bytes();
        new
    }

    /// Bytes that its search holds now, where it is one.
    fn search_bytes(&mut self) -> usize {
        match &mut self.work {
            Work::Search { search, rest, .. } => {
                let parts = rest.as_ref().map_or(0, |rest| rest.scanners() * search.part_bytes());
                search.memory_bytes() + parts
            }
            Work::Change | Work::Compare | Work::Bind(_) => 0,
        }
    }

    fn is_search(&self) -> bool {
        matches!(self.work, Work::Search { .. })
    }

    pub(super) fn wants_slice(&self) -> bool {
        match &self.work {
            Work::Search { search, rest, .. } => {
                search.is_streaming() || rest.as_ref().is_none_or(SharedRest::is_ready)
            }
            Work::Change | Work::Compare | Work::Bind(_) => false,
        }
    }

    pub(super) fn is_mid_message(&self) -> bool {
        matches!(&self.work, Work::Search { search, .. } if search.is_mid_message())
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.work {
            Work::Search { deadline, .. } => deadline,
            Work::Change | Work::Compare | Work::Bind(_) => None,
        }
    }
}

/// Places for outstanding requests that an idle session keeps.
const KEPT: usize = 4;

/// The outstanding requests of a session, in the order received.
#[derive(Default)]
pub(super) struct OutstandingRequests {
    list: Vec<Outstanding>,
    /// Bytes that all of them hold.
    bytes: usize,
    /// Those of searches.
    search_bytes: usize,
}

impl std::ops::Deref for OutstandingRequests {
    type Target = [Outstanding];

    fn deref(&self) -> &[Outstanding] {
        &self.list
    }
}

impl std::ops::DerefMut for OutstandingRequests {
    fn deref_mut(&mut self) -> &mut [Outstanding] {
        &mut self.list
    }
}

impl OutstandingRequests {
    /// Bytes that all of them hold.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether they hold so much that no further one is taken.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= HELD_BYTES_MAX || self.has_full_searches()
    }

    /// Whether searches hold so much that only the oldest of them goes on.
    pub(super) fn has_full_searches(&self) -> bool {
        self.search_bytes >= HELD_SEARCH_BYTES_MAX
    }

    pub(super) fn push(&mut self, new: Outstanding) {
        self.add(new.is_search(), new.bytes);
        self.list.push(new);
    }

    pub(super) fn remove(&mut self, place: usize) -> Outstanding {
        let old = self.list.remove(place);
        self.subtract(old.is_search(), old.bytes);
        // A burst of requests is no reason to keep its memory while idle.
        if self.list.is_empty() && self.list.capacity() > KEPT {
            self.list = Vec::new();
        }
        old
    }

    pub(super) fn clear(&mut self) {
        *self = OutstandingRequests::default();
    }

    /// Asks the search at `place` anew what it holds: slices gather candidates.
    pub(super) fn count_anew(&mut self, place: usize) {
        let Some(search) = self.list.get_mut(place) else { return };
        let bytes = size_of::<Outstanding>() + search.search_bytes();
        let (is_search, before) = (search.is_search(), std::mem::replace(&mut search.bytes, bytes));
        self.subtract(is_search, before);
        self.add(is_search, bytes);
    }

    fn add(&mut self, is_search: bool, bytes: usize) {
        self.bytes += bytes;
        self.search_bytes += if is_search { bytes } else { 0 };
    }

    fn subtract(&mut self, is_search: bool, bytes: usize) {
        self.bytes -= bytes;
        self.search_bytes -= if is_search { bytes } else { 0 };
    }
}
