//! Prefetch: reads the pages that a request needs, so that they are in memory when the request is carried out.
//!
//! If a directory is larger than memory, a request waits for the disk. An event loop must not wait, so another thread
//! reads the pages first, on a snapshot of its own. Prefetch sends nothing: its output is discarded, and the session
//! carries out every request itself. A refusal or a store failure during prefetch occurs again in the session, which
//! reports it.
//!
//! Most requests need no other thread. The event loop itself makes a [dry run](dry_run) over the pages that are in
//! memory and finds out whether a page is missing.

use std::hint::black_box;

use ldap::{Authentication, Message, Request};
use store::{AbsentPages, PageNumber, StoreError};

use crate::access::Requester;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::{ENTRIES, id_key};
use crate::read::controls::{ControlContext, RequestControls};
use crate::read::search::{Budget, Search, Step};
use crate::snapshot::Snapshot;
use crate::tree::Found;

/// Minimum size of a page of memory, in octets.
const PAGE_SIZE: usize = 4 << 10;

/// Reads the pages that a request needs. For a search it reads as much as the budget allows. For any other request it
/// reads the entry that the request names. Returns the total size of the results or rows that were read, in octets.
/// Clears and overwrites `scratch`.
pub fn read_ahead(
    snapshot: &Snapshot,
    requester: &Requester,
    message: &Message<'_>,
    budget: &Budget,
    scratch: &mut Vec<u8>,
) -> usize {
    traverse(snapshot, requester, message, budget, scratch).octets
}

/// Does the same as [`read_ahead`] without waiting for the disk, and returns the pages that were not in memory. If
/// all pages were in memory, the request is unlikely to wait for the disk. If the budget ended the dry run before a
/// page was missing, the result has `is_walk` set.
pub fn dry_run(
    snapshot: &Snapshot,
    requester: &Requester,
    message: &Message<'_>,
    budget: &Budget,
    scratch: &mut Vec<u8>,
) -> AbsentPages {
    let look = || traverse(snapshot, requester, message, budget, scratch);
    let (Traversal { is_over, .. }, mut absent) = snapshot.state().read.without_waiting(look);
    absent.is_walk |= !is_over && absent.pages.is_empty();
    absent
}

/// Reads absent pages into memory and returns when all are in memory. The snapshot may be [parked](Snapshot::park).
///
/// # Errors
/// The store failed.
pub fn bring_in(snapshot: &Snapshot, pages: &[PageNumber]) -> Result<(), StoreError> {
    snapshot.state().read.bring_in(pages)
}

/// Records that pages were just read into memory for `snapshot`, so that [`dry_run`] assumes that they are in
/// memory.
pub fn has_brought_in(snapshot: &Snapshot, pages: &[PageNumber]) {
    snapshot.state().read.has_brought_in(pages);
}

/// Progress of a traversal.
struct Traversal {
    /// Total size of the results or rows that were read, in octets.
    octets: usize,
    /// Whether the traversal is complete; false if the budget ended it.
    is_over: bool,
}

impl Traversal {
    /// Returns a complete traversal.
    fn complete(octets: usize) -> Traversal {
        Traversal { octets, is_over: true }
    }
}

fn traverse(
    snapshot: &Snapshot,
    requester: &Requester,
    message: &Message<'_>,
    budget: &Budget,
    scratch: &mut Vec<u8>,
) -> Traversal {
    let dn = match &message.request {
        Request::Search(request) => {
            scratch.clear();
            let controls = RequestControls::read(&message.controls, ControlContext::Search);
            // A prefetch knows neither the proxied identity nor the connection. Both may change which pages the search
            // reads.
            let controls = controls.ok().filter(|controls| !controls.proxied && !controls.listens());
            let Some(controls) = controls.filter(|_| !snapshot.depends_on_link()) else {
                return Traversal::complete(0);
            };
            let Ok(mut search) =
                Search::start(snapshot, &requester.context(), message.id, request, &controls)
            else {
                return Traversal::complete(0);
            };
            let is_over = search.run(snapshot, scratch, budget) != Step::More;
            return Traversal { octets: scratch.len(), is_over };
        }
        Request::Bind(request) if matches!(request.authentication, Authentication::Simple(_)) => request.name,
        Request::Compare(request) => request.entry,
        Request::Add(request) => request.entry,
        Request::Delete(request) => request.entry,
        Request::Modify(request) => request.object,
        Request::ModifyDn(request) => request.entry,
        Request::Bind(_) | Request::Unbind | Request::Abandon(_) | Request::Extended(_) => {
            return Traversal::complete(0);
        }
    };
    Traversal::complete(read_entry(snapshot, dn).unwrap_or(0))
}

/// Finds an entry and reads its row. If no entry has that name, reads only the rows that the lookup of the name needs.
fn read_entry(snapshot: &Snapshot, dn: &str) -> Result<usize, OperationError> {
    let state = snapshot.state();
    let name = NormalName::of(&parse_dn(dn)?, &state.catalog.schema);
    let Found::Entry(id, _) = state.find(&name)? else { return Ok(0) };
    let row = state.read.get(ENTRIES, &id_key(id))?.unwrap_or_default();
    for octet in row.iter().step_by(PAGE_SIZE).chain(row.last()) {
        black_box(octet);
    }
    Ok(row.len())
}

#[cfg(test)]
mod tests {
    use ldap::{
        CompareRequest, Controls, DeleteRequest, FilterBuf, MessageId, Scope, SearchRequest, SelectionBuf,
    };

    use super::*;
    use crate::testing::{SUFFIX, TestDirectory};

    #[test]
    fn traverses_the_entry_or_the_results() {
        let mut directory = TestDirectory::with_suffix_entry();
        let text = "x".repeat(300);
        let values: [(&str, &[&str]); 4] =
            [("objectClass", &["person"]), ("cn", &["a"]), ("sn", &["b"]), ("description", &[&text])];
        directory.add("cn=a,dc=example,dc=com", &values);
        let snapshot = directory.directory.snapshot().unwrap();
        let filter = FilterBuf::parse("(cn=a)").unwrap();
        let (all, none) = (SelectionBuf::from_iter(["*"]), SelectionBuf::from_iter(["1.1"]));
        let search = |selection| {
            Request::Search(SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection))
        };
        let compare = |entry| Request::Compare(CompareRequest { entry, description: "cn", value: b"a" });
        let delete = |entry| Request::Delete(DeleteRequest { entry });
        let (there, missing) = ("cn=a,dc=example,dc=com", "cn=b,dc=example,dc=com");
        let cases: [(Request<'_>, std::ops::Range<usize>); 8] = [
            (search(all.as_selection()), 300..600),
            (search(none.as_selection()), 20..100),
            (compare(there), 300..600),
            (compare(missing), 0..1),
            (compare("cn=a,"), 0..1),
            (delete(there), 300..600),
            (delete(missing), 0..1),
            (Request::Unbind, 0..1),
        ];
        let budget = Budget { entries_examined_max: 10, out_bytes_max: 1_000 };
        let requester = Requester::Administrator { dn: "cn=admin".to_owned() };
        for (request, expected) in cases {
            let message = Message { id: MessageId(1), request, controls: Controls::NONE };
            let octets = read_ahead(&snapshot, &requester, &message, &budget, &mut Vec::new());
            assert!(expected.contains(&octets), "{request:?}: {octets}");
            // All pages have just been read.
            let absent = dry_run(&snapshot, &requester, &message, &budget, &mut Vec::new());
            assert!(absent.is_nothing(), "{request:?}: {absent:?}");
        }
    }

    #[test]
    fn a_search_of_many_entries_counts_as_a_traversal() {
        let mut directory = TestDirectory::with_suffix_entry();
        for number in 0..20 {
            let (dn, name) = (format!("cn={number},{SUFFIX}"), format!("{number}"));
            directory.add(&dn, &[("objectClass", &["person"]), ("cn", &[&name]), ("sn", &["b"])]);
        }
        let snapshot = directory.directory.snapshot().unwrap();
        let requester = Requester::Administrator { dn: "cn=admin".to_owned() };
        let all = SelectionBuf::from_iter(["*"]);
        let is_walk = |filter: &str, entries_examined_max| {
            let filter = FilterBuf::parse(filter).unwrap();
            let request =
                SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), all.as_selection());
            let request = Request::Search(request);
            let message = Message { id: MessageId(1), request, controls: Controls::NONE };
            let budget = Budget { entries_examined_max, out_bytes_max: 100_000 };
            let absent = dry_run(&snapshot, &requester, &message, &budget, &mut Vec::new());
            assert!(absent.pages.is_empty(), "{absent:?}");
            absent.is_walk
        };
        assert!(!is_walk("(cn=7)", 10));
        assert!(is_walk("(description=*a*)", 100));
        assert!(is_walk("(sn=b)", 10));
        assert!(!is_walk("(sn=b)", 100));
    }
}
