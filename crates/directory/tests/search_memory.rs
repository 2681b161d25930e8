//! Tests that a search reports the memory that it holds. The server limits the memory of requests by these reports.
//!
//! The allocator of this test counts the memory that each thread has allocated and not freed.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../src/testing.rs"]
#[allow(dead_code)]
mod testing;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use directory::controls::RequestControls;
use directory::search::{Budget, Search, Step};
use ldap::{FilterBuf, MessageId, Scope, SearchRequest, SelectionBuf};
use testing::{SUFFIX, TestDirectory};

struct Counting;

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends frees memory without counting it.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + bytes));
}

// SAFETY: all methods call the system allocator; counting does not access allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PEOPLE: u32 = 3_000;

fn sample() -> TestDirectory {
    let mut directory = TestDirectory::with_suffix_entry();
    for number in 0..PEOPLE {
        let dn = format!("cn=person {number},{SUFFIX}");
        directory.add(&dn, &[("objectClass", &["person"]), ("sn", &[&format!("sn {number}")])]);
    }
    directory
}

/// Returns the memory that a search holds after `slices` slices: first as the search reports it, then as the allocator
/// counts it.
fn memory_of(directory: &TestDirectory, filter: &str, attributes: &[&str], slices: usize) -> (usize, usize) {
    let filter = FilterBuf::parse(filter).unwrap();
    let mut selection = SelectionBuf::new();
    attributes.iter().for_each(|attribute| selection.push(attribute));
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let controls = RequestControls::default();
    let (snapshot, requester) = (&directory.snapshot, &directory.requester);
    let start = || Search::start(snapshot, &requester.context(), MessageId(1), &request, &controls).unwrap();
    // Fills the snapshot's cache of names. This cache does not count as memory of the search.
    drop(start());
    let before = ALLOCATED.get();
    let mut search = Box::new(start());
    let mut out = Vec::with_capacity(1 << 20);
    let own_before = out.capacity() as isize;
    let budget = Budget { entries_examined_max: 10, out_bytes_max: 64 << 10 };
    for _ in 0..slices {
        if search.run(snapshot, &mut out, &budget) == Step::Done {
            break;
        }
    }
    let counted = ALLOCATED.get() - before - own_before;
    (search.memory_bytes(), usize::try_from(counted).unwrap())
}

#[test]
fn a_search_reports_the_memory_that_it_holds() {
    let directory = sample();
    let many = |term: &dyn Fn(usize) -> String, count: usize| {
        format!("(|{})", (0..count).map(term).collect::<String>())
    };
    let filters = [
        "(cn=x)".to_owned(),
        "(&(objectClass=person)(|(cn=*a*b*)(sn=a*)(description=*long words, one after the other, and more*)))"
            .to_owned(),
        many(&|n| format!("(cn=*q{n}*)"), 2_040),
        many(&|n| format!("(cn=* q{n} *)"), 500),
        many(&|n| format!("(description=*{}*)", "x".repeat(40 + n % 9)), 500),
        many(&|n| format!("(sn~=person {n})"), 300),
        many(&|n| format!("(employeeNumber>={n})"), 300),
        many(&|n| format!("(member=cn=missing {n},{SUFFIX})"), 300),
        many(&|n| format!("(:caseExactMatch:={n})"), 300),
        many(&|n| format!("(cn;lang-en;lang-de;x-{n}=a)"), 300),
        "(sn=sn*)".to_owned(),
    ];
    for filter in &filters {
        for slices in [0, 1, 20] {
            let (reported, allocated) =
                memory_of(&directory, filter, &["cn", "+", "mail;lang-en", "unknown"], slices);
            let what = &filter[..filter.len().min(60)];
            // The counts may differ, because vectors double their capacity as they grow and because the search leaves a
            // few words out of its report.
            assert!(
                reported + reported / 8 + 256 >= allocated,
                "{what} after {slices}: {reported} reported, {allocated} allocated"
            );
            assert!(
                reported <= allocated + allocated / 4 + 512,
                "{what} after {slices}: {reported} reported, {allocated} allocated"
            );
        }
    }
}

#[test]
fn a_compiled_substring_term_takes_a_fraction_of_a_kilobyte() {
    let directory = sample();
    let filter = format!("(|{})", (0..2_040).map(|n| format!("(cn=*q{n}*)")).collect::<String>());
    let (_, counted) = memory_of(&directory, &filter, &[], 0);
    assert!(counted / 2_040 <= 240, "{} bytes a term", counted / 2_040);
}
