//! Reading ahead: going through what a request will read, for nothing but to have it in memory.
//!
//! A directory that is larger than memory makes whoever reads wait for the disk. An event loop must not wait, so
//! another thread goes the way of the request first, on a view of its own, and throws away what it finds. Whatever that
//! comes to, a refusal or a failure of the store, the request itself will meet it again and say so.
//!
//! Most requests need not be handed over: the loop itself [goes their way](look_ahead) as far as pages are in memory,
//! and learns which is the next that is not. A search that comes to its end on that way has its answer.

use std::hint::black_box;

use ldap::{Authentication, Message, Request, ResultCode};
use store::{Absent, PageNumber, StoreError};

use crate::access::{Offered, Requester};
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::{ENTRIES, id_key};
use crate::read::controls::{ControlContext, RequestControls};
use crate::read::search::{Budget, Search, Step};
use crate::snapshot::Snapshot;
use crate::tree::Found;

/// Octets from one page of memory to the next, or less.
const PAGE_SIZE: usize = 4 << 10;

/// Reads what the request will read: of a search what fits into the budget, of other requests the entry they name. Says
/// how many octets of answers or rows it came upon. What `scratch` holds is lost.
pub fn read_ahead(
    snapshot: &Snapshot,
    requester: &Requester,
    message: &Message<'_>,
    budget: &Budget,
    scratch: &mut Vec<u8>,
) -> usize {
    scratch.clear();
    go_through(snapshot, requester, Offered::default(), message, budget, scratch).octets
}

/// What came of looking ahead.
#[derive(Default)]
pub struct Looked {
    /// What was not in memory. When that is nothing, the request itself will hardly wait.
    pub absent: Absent,
    /// A search that succeeded, if its messages can be sent as the answer while the snapshot stands: they were
    /// appended. `None` for every request with controls: some of them are answered from what only the session knows
    /// (the position, the time, limits), so the session runs the search itself.
    pub search: Option<Search>,
}

/// Goes through the request as [`read_ahead`] does, but waits for no disk, and says what was not in memory. More than
/// the budget has room for is called a walk. `offered` is how one binds on the connection. Nothing is appended
/// to `out` but the messages of a search that is returned.
pub fn look_ahead(
    snapshot: &Snapshot,
    requester: &Requester,
    offered: Offered,
    message: &Message<'_>,
    budget: &Budget,
    out: &mut Vec<u8>,
) -> Looked {
    let start = out.len();
    let look = || go_through(snapshot, requester, offered, message, budget, out);
    let (Gone { is_over, search, .. }, mut absent) = snapshot.state().read.without_waiting(look);
    absent.is_walk |= !is_over && absent.pages.is_empty();
    // An explanation says how long it took, and what went wrong may go right.
    let is_good = |search: &Search| !search.explains() && search.result_code() == Some(ResultCode::SUCCESS);
    let search =
        search.filter(|search| message.controls.is_empty() && absent.is_nothing() && is_good(search));
    if search.is_none() {
        out.truncate(start);
    }
    Looked { absent, search }
}

/// Brings pages that were absent into memory, and returns when they are there. A parked snapshot will do.
///
/// # Errors
/// The store failed.
pub fn bring_in(snapshot: &Snapshot, pages: &[PageNumber]) -> Result<(), StoreError> {
    snapshot.state().read.bring_in(pages)
}

/// Takes note of pages that were brought in for `snapshot` a moment ago: [`look_ahead`] takes them to be there.
pub fn has_brought_in(snapshot: &Snapshot, pages: &[PageNumber]) {
    snapshot.state().read.has_brought_in(pages);
}

/// How far somebody has gone the way of a request.
struct Gone {
    /// Octets of answers or rows on the way.
    octets: usize,
    is_over: bool,
    /// A search that is over.
    search: Option<Search>,
}

impl Gone {
    /// All the way of something else than a search.
    fn all(octets: usize) -> Gone {
        Gone { octets, is_over: true, search: None }
    }
}

fn go_through(
    snapshot: &Snapshot,
    requester: &Requester,
    offered: Offered,
    message: &Message<'_>,
    budget: &Budget,
    out: &mut Vec<u8>,
) -> Gone {
    let dn = match &message.request {
        Request::Search(request) => {
            let controls = RequestControls::read(&message.controls, ControlContext::of(&message.request));
            // The way of whom it runs as is another, and so it may be from elsewhere, which is not known here.
            if snapshot.asks_link()
                || controls
                    .as_ref()
                    .is_ok_and(|controls| controls.proxied || controls.account_usability.is_some())
            {
                return Gone::all(0);
            }
            if controls.as_ref().is_ok_and(RequestControls::listens) {
                return Gone::all(0);
            }
            let search = controls.and_then(|controls| {
                let controls = RequestControls { offered, ..controls };
                Search::start(snapshot, requester, message.id, request, &controls)
            });
            let Ok(mut search) = search else { return Gone::all(0) };
            let start = out.len();
            let step = search.run(snapshot, out, budget);
            let octets = out.len() - start;
            return Gone {
                octets,
                is_over: step != Step::More,
                search: (step == Step::Done).then_some(search),
            };
        }
        Request::Bind(request) if matches!(request.authentication, Authentication::Simple(_)) => request.name,
        Request::Compare(request) => request.entry,
        Request::Add(request) => request.entry,
        Request::Delete(request) => request.entry,
        Request::Modify(request) => request.object,
        Request::ModifyDn(request) => request.entry,
        Request::Bind(_) | Request::Unbind | Request::Abandon(_) | Request::Extended(_) => {
            return Gone::all(0);
        }
    };
    Gone::all(read_entry(snapshot, dn).unwrap_or(0))
}

/// Finds an entry and reads its row, if there is one; where there is none, the rows beside its name.
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
    fn requests_come_upon_what_they_are_about() {
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
        let offered = Offered::default();
        for (request, expected) in cases {
            let message = Message { id: MessageId(1), request, controls: Controls::NONE };
            let octets = read_ahead(&snapshot, &requester, &message, &budget, &mut Vec::new());
            assert!(expected.contains(&octets), "{request:?}: {octets}");
            // All of it has just been read.
            let mut out = b"before".to_vec();
            let looked = look_ahead(&snapshot, &requester, offered, &message, &budget, &mut out);
            assert!(looked.absent.is_nothing(), "{request:?}: {:?}", looked.absent);
            assert_eq!(looked.search.is_some(), matches!(request, Request::Search(_)));
            let answer = out.strip_prefix(b"before").unwrap();
            if let Request::Search(request) = request {
                let mut expected = Vec::new();
                let mut search =
                    Search::start(&snapshot, &requester, message.id, &request, &RequestControls::default())
                        .unwrap();
                assert_eq!(search.run(&snapshot, &mut expected, &budget), Step::Done);
                assert_eq!(answer, expected);
            } else {
                assert_eq!(answer, b"");
            }
        }
    }

    #[test]
    fn what_goes_from_row_to_row_or_on_for_long_is_a_walk() {
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
            let (offered, mut out) = (Offered::default(), Vec::new());
            let Looked { absent, search } =
                look_ahead(&snapshot, &requester, offered, &message, &budget, &mut out);
            assert!(absent.pages.is_empty(), "{absent:?}");
            assert_eq!((search.is_none(), out.is_empty()), (absent.is_walk, absent.is_walk));
            absent.is_walk
        };
        assert!(!is_walk("(cn=7)", 10));
        assert!(is_walk("(description=*a*)", 100));
        assert!(is_walk("(sn=b)", 10));
        assert!(!is_walk("(sn=b)", 100));
    }
}
