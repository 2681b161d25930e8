//! Memory hints to the processor and the operating system.

/// Size of a cache line in octets.
pub const CACHE_LINE_LEN: usize = 64;

/// Minimum size of a table in octets for which huge pages are requested.
const HUGE_PAGES_LEN_MIN: usize = 4 << 20;

const PAGE_LEN: usize = 4096;

/// Makes the processor load `values` into its cache. Does not wait until they are loaded.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    let (start, len) = (values.as_ptr().cast::<u8>(), size_of_val(values));
    (0..len).step_by(CACHE_LINE_LEN).for_each(|offset| prefetch_line(start.wrapping_add(offset)));
    // The last value may extend into one more cache line.
    prefetch_line(start.wrapping_add(len.saturating_sub(1)));
}

#[inline]
fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, which reads nothing and affects only caches.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Requests huge pages for a large table that is accessed randomly. With pages of 4 KiB the processor would need an
/// address translation for almost every access. The system may ignore the request.
pub fn ask_for_huge_pages(table: &mut [u64]) {
    let table = table.as_mut_ptr_range();
    let start = table.start.map_addr(|address| address.next_multiple_of(PAGE_LEN));
    let len = table.end.addr().saturating_sub(start.addr()) & !(PAGE_LEN - 1);
    if len >= HUGE_PAGES_LEN_MIN {
        // SAFETY: the range is whole pages of the slice's own memory, and the advice changes no content.
        unsafe { libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE) };
    }
}
