//! Budget and result of one slice of a search.

/// Work permitted in one slice of a search.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Maximum number of candidates to examine, whether they match or not.
    pub entries_examined_max: u32,
    /// Number of bytes to append. The slice ends after the result that reaches this number.
    pub out_bytes_max: usize,
}

/// Next step after a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Call [`Search::run`](super::Search::run) again.
    More,
    /// The client is up to date: call [`Search::run`](super::Search::run) again after another change.
    Waits,
    /// The searchResDone is written.
    Done,
    /// The search failed in the middle of a message that cannot be completed: close the connection.
    Broken,
}

/// Clock of the caller, in microseconds from any fixed point, because this crate reads no clock.
pub type Clock = Box<dyn Fn() -> u64 + Send>;
