//! What a search says that it holds is what it holds: the server bounds requests by it.
//!
//! Counted by an allocator of the test's own, which knows what each thread has asked for and not given back.
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
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends gives back without counting.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: everything is the system allocator's; counting touches no memory that it hands out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise.
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

/// What a search of that filter holds, by its own word and by the allocator's, after `slices` slices.
fn held(directory: &TestDirectory, filter: &str, attributes: &[&str], slices: usize) -> (usize, usize) {
    let filter = FilterBuf::parse(filter).unwrap();
    let mut selection = SelectionBuf::new();
    attributes.iter().for_each(|attribute| selection.push(attribute));
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let controls = RequestControls::default();
    let (snapshot, requester) = (&directory.snapshot, &directory.requester);
    let start = || Search::start(snapshot, requester, MessageId(1), &request, &controls).unwrap();
    // What the snapshot remembers of names is not the search's.
    drop(start());
    let before = HELD.get();
    let mut search = Box::new(start());
    let mut out = Vec::with_capacity(1 << 20);
    let own_before = out.capacity() as isize;
    let budget = Budget { entries_examined_max: 10, out_bytes_max: 64 << 10 };
    for _ in 0..slices {
        if search.run(snapshot, &mut out, &budget) == Step::Done {
            break;
        }
    }
    let counted = HELD.get() - before - own_before;
    (search.memory_bytes(), usize::try_from(counted).unwrap())
}

#[test]
fn a_search_says_what_it_holds() {
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
        many(&|n| format!("(member=cn=nobody {n},{SUFFIX})"), 300),
        many(&|n| format!("(:caseExactMatch:={n})"), 300),
        many(&|n| format!("(cn;lang-en;lang-de;x-{n}=a)"), 300),
        "(sn=sn*)".to_owned(),
    ];
    for filter in &filters {
        for slices in [0, 1, 20] {
            let (said, counted) = held(&directory, filter, &["cn", "+", "mail;lang-en", "unknown"], slices);
            let what = &filter[..filter.len().min(60)];
            // Vectors grow by doubling while they are made, and a few words are not worth counting.
            assert!(said + said / 8 + 256 >= counted, "{what} after {slices}: {said} said, {counted} held");
            assert!(
                said <= counted + counted / 4 + 512,
                "{what} after {slices}: {said} said, {counted} held"
            );
        }
    }
}

#[test]
fn a_compiled_substring_term_takes_a_fraction_of_a_kilobyte() {
    let directory = sample();
    let filter = format!("(|{})", (0..2_040).map(|n| format!("(cn=*q{n}*)")).collect::<String>());
    let (_, counted) = held(&directory, &filter, &[], 0);
    assert!(counted / 2_040 <= 240, "{} bytes a term", counted / 2_040);
}
