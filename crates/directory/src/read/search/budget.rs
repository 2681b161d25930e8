//! Slices of a search: their budget and their result.

/// Work permitted in one slice of a search.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Candidates to examine, whether they match or not.
    pub entries_examined_max: u32,
    /// Bytes to append; the slice ends with the result that reaches this limit.
    pub out_bytes_max: usize,
}

/// Next step after a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call [`Search::run`](super::Search::run) again.
    More,
    /// The client is up to date: call it again after another change.
    Waits,
    /// The searchResDone is written.
    Done,
    /// The search failed in the middle of a message, which cannot be completed: close the connection.
    Broken,
}

/// Microseconds since some point, as the caller of a search measures them: this crate reads no clock.
pub type Clock = Box<dyn Fn() -> u64 + Send>;
