//! What the system and the allocator offer that no library does safely: one place for such calls.

mod available_memory;
mod deferred_accept;
mod file_lock;
pub mod gss;
mod memory;
mod rate_limit;
mod scheduling;

pub use available_memory::available_memory_bytes;
pub use deferred_accept::defer_accept;
pub use file_lock::try_lock_first_byte;
pub use memory::{CACHE_LINE_LEN, ask_for_huge_pages, prefetch};
pub use rate_limit::RateLimit;
pub use scheduling::{CooperativeYield, set_thread_niceness};

/// The allocator of the program.
pub use mimalloc::MiMalloc as Allocator;

/// Gives memory that this thread has freed back to the system, where the program's allocator is [`Allocator`]. It keeps
/// freed memory for a while and gives it back when it is next asked for some, which a thread that sleeps never does.
/// Takes a fraction of a millisecond.
pub fn give_back_memory() {
    // SAFETY: the call takes no pointer and may be made by any thread at any time; it only looks at the allocator's own
    // lists.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
