//! Calls to the operating system and the allocator that need `unsafe`, wrapped in safe functions.

mod available_memory;
mod deferred_accept;
mod file_lock;
pub mod gss;
mod inherited_sockets;
mod memory;
mod rate_limit;
mod scheduling;

pub use available_memory::available_memory_bytes;
pub use deferred_accept::defer_accept;
pub use file_lock::try_lock_first_byte;
pub use inherited_sockets::inherited_sockets;
pub use memory::{CACHE_LINE_LEN, ask_for_huge_pages, prefetch};
pub use rate_limit::RateLimit;
pub use scheduling::{CooperativeYield, lower_priority, set_thread_niceness};

/// The memory allocator of the program.
pub use mimalloc::MiMalloc as Allocator;

/// Returns this thread's freed memory to the system, if the program's allocator is [`Allocator`]. The allocator would
/// return it only at one of the thread's next allocations, which an idle thread does not make. The call takes a
/// fraction of a millisecond.
pub fn give_back_memory() {
    // SAFETY: the call takes no pointer, may be made by any thread at any time, and accesses only the allocator's own
    // lists.
    unsafe { libmimalloc_sys::mi_collect(true) };
}
