//! Memory hints to the processor and the system.

/// Bytes that come from memory together.
pub const CACHE_LINE_LEN: usize = 64;

/// Bytes of memory from which on huge pages are worth asking for.
const HUGE_PAGES_LEN_MIN: usize = 4 << 20;

const PAGE_LEN: usize = 4096;

/// Has the processor fetch what is about to be read, without waiting for it.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    let (start, len) = (values.as_ptr().cast::<u8>(), size_of_val(values));
    (0..len).step_by(CACHE_LINE_LEN).for_each(|offset| prefetch_line(start.wrapping_add(offset)));
    // Values seldom begin where a line does, so they end in one more.
    prefetch_line(start.wrapping_add(len.saturating_sub(1)));
}

#[inline]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction is part of every x86-64, reads nothing and has no effect but on caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for huge pages for a table of megabytes that is read all over: with pages of 4 KiB the processor would look up
/// an address besides for each place. No harm if the system declines.
pub fn ask_for_huge_pages(table: &mut [u64]) {
    let table = table.as_mut_ptr_range();
    let start = table.start.map_addr(|address| address.next_multiple_of(PAGE_LEN));
    let len = table.end.addr().saturating_sub(start.addr()) & !(PAGE_LEN - 1);
    if len >= HUGE_PAGES_LEN_MIN {
        // SAFETY: the range is whole pages of the slice's own memory, and the advice changes no content.
        unsafe { libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE) };
    }
}
