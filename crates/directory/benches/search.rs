//! Cost of a search without sockets. The searches are for random people among 100,000 below `ou=people`.
//!
//! Run the bench with `cargo bench -p directory --bench search`. Each result is the best of several rounds, to reduce
//! the effect of a busy machine. The database fits in memory.

#![allow(clippy::unwrap_used, reason = "a bench that fails has no result")]
#![allow(dead_code, reason = "testing.rs is shared with tests that use all of it")]

mod sample;
#[path = "../src/testing.rs"]
mod testing;

use std::time::Instant;

use directory::controls::RequestControls;
use directory::search::{Budget, Search, Step};
use fastrand::Rng;
use ldap::{FilterBuf, MessageId, Scope, SearchRequest, SelectionBuf};
use sample::{PEOPLE, sample};
use testing::{SUFFIX, TestDirectory};

const PERSON_COUNT: u32 = 100_000;
/// Size of the row cache in bytes, see `View::cache_rows`.
const KNOWN_BYTES: usize = 128 << 20;
const ROUNDS: usize = 7;

fn main() {
    let mut directory = sample(PERSON_COUNT);
    println!("| search | ns | entries |");
    println!("|---|---|---|");
    let person = |rng: &mut Rng| format!("(uid=user.{})", rng.u32(0..PERSON_COUNT));
    let subtree = Scope::WholeSubtree;
    measure(&directory, "(uid=x), DN only", 20_000, SUFFIX, subtree, &["1.1"], person);
    let class_and_uid =
        |rng: &mut Rng| format!("(&(objectClass=person)(uid=user.{}))", rng.u32(0..PERSON_COUNT));
    measure(
        &directory,
        "(&(objectClass=person)(uid=x)), DN only",
        20_000,
        SUFFIX,
        subtree,
        &["1.1"],
        class_and_uid,
    );
    measure(&directory, "(uid=x), all attributes", 20_000, SUFFIX, subtree, &[], person);
    directory.snapshot.cache_rows(KNOWN_BYTES);
    for number in (0..PERSON_COUNT).chain(0..PERSON_COUNT).chain(0..PERSON_COUNT) {
        let filter = FilterBuf::parse(&format!("(uid=user.{number})")).unwrap();
        search_once(&directory, SUFFIX, subtree, &filter, &SelectionBuf::new(), &mut Vec::new());
    }
    measure(&directory, "(uid=x), DN only, look-ups known", 20_000, SUFFIX, subtree, &["1.1"], person);
    measure(&directory, "(uid=x), all attributes, look-ups known", 20_000, SUFFIX, subtree, &[], person);
    measure(&directory, "(uid=x), three attributes", 20_000, SUFFIX, subtree, &["cn", "sn", "mail"], person);
    let any = |_: &mut Rng| "(objectClass=*)".to_owned();
    measure(&directory, "base of ou=people, DN only", 20_000, PEOPLE, Scope::BaseObject, &["1.1"], any);
    let prefix = |rng: &mut Rng| format!("(cn=user.{}*)", rng.u32(1_000..9_999));
    measure(&directory, "(cn=prefix*), 11 entries, DN only", 2_000, SUFFIX, subtree, &["1.1"], prefix);
    let class = |_: &mut Rng| "(objectClass=person)".to_owned();
    measure(&directory, "(objectClass=person), all, DN only", 1, SUFFIX, subtree, &["1.1"], class);
    let not_class = |_: &mut Rng| "(!(objectClass=person))".to_owned();
    measure(&directory, "(!(objectClass=person)), a scan", 1, SUFFIX, subtree, &["1.1"], not_class);
    let unindexed = |rng: &mut Rng| format!("(employeeNumber={})", rng.u32(0..PERSON_COUNT));
    measure(&directory, "(employeeNumber=x), a scan", 1, SUFFIX, subtree, &["1.1"], unindexed);
    let inner = |rng: &mut Rng| format!("(description=*number {}*)", rng.u32(0..PERSON_COUNT));
    measure(&directory, "(description=*x*), a scan", 1, SUFFIX, subtree, &["1.1"], inner);
    let book = |rng: &mut Rng| {
        let part = rng.u32(PERSON_COUNT..2 * PERSON_COUNT);
        ["cn", "sn", "mail", "givenName"].map(|name| format!("({name}=*{part}*)")).concat()
    };
    let book = |rng: &mut Rng| format!("(|{})", book(rng));
    measure(&directory, "four substrings of an or, a scan", 1, SUFFIX, subtree, &["1.1"], book);
}

fn measure(
    directory: &TestDirectory,
    what: &str,
    count: usize,
    base: &str,
    scope: Scope,
    attributes: &[&str],
    filter: impl Fn(&mut Rng) -> String,
) {
    // `cargo bench ... -- uid` measures only the cases with `uid` in their name.
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if wanted.is_some_and(|wanted| !what.contains(&wanted)) {
        return;
    }
    let mut selection = SelectionBuf::new();
    attributes.iter().for_each(|attribute| selection.push(attribute));
    let mut rng = Rng::with_seed(7);
    let (mut best, mut entries) = (u128::MAX, 0);
    for _ in 0..ROUNDS {
        let filters: Vec<FilterBuf> =
            (0..count).map(|_| FilterBuf::parse(&filter(&mut rng)).unwrap()).collect();
        let mut out = Vec::with_capacity(1 << 20);
        let started = Instant::now();
        entries = 0;
        for filter in &filters {
            entries += search_once(directory, base, scope, filter, &selection, &mut out);
        }
        best = best.min(started.elapsed().as_nanos() / count as u128);
    }
    println!("| {what} | {best} | {} |", entries / count as u64);
}

/// Executes one search and returns the number of entries found.
fn search_once(
    directory: &TestDirectory,
    base: &str,
    scope: Scope,
    filter: &FilterBuf,
    selection: &SelectionBuf,
    out: &mut Vec<u8>,
) -> u64 {
    let budget = Budget { entries_examined_max: 1_000, out_bytes_max: 64 * 1024 };
    let request = SearchRequest::new(base, scope, filter.as_filter(), selection.as_selection());
    let controls = RequestControls::default();
    let (snapshot, requester) = (&directory.snapshot, &directory.requester);
    let mut search =
        Search::start(snapshot, &requester.context(), MessageId(1), &request, &controls).unwrap();
    out.clear();
    while search.run(snapshot, out, &budget) == Step::More {
        out.clear();
    }
    search.entries_sent()
}
