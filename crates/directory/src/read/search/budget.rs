//! Slices of a search: how much each may do, and what becomes of it.

/// How much one slice of a search may do.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Candidates looked at, whether they pass or not.
    pub entries_examined_max: u32,
    /// Bytes appended; the slice ends with the result that reaches it.
    pub out_bytes_max: usize,
}

/// Whether a search wants another slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call [`Search::run`](super::Search::run) again.
    More,
    /// All is told until there is another change: call it again then.
    Waits,
    /// The searchResDone is written.
    Done,
    /// The search failed in the middle of a message, which cannot be finished: the connection is of no more use.
    Broken,
}

/// Microseconds since some point, as the caller of a search measures them: this crate reads no clock.
pub type Clock = Box<dyn Fn() -> u64 + Send>;
