//! Long searches in parts: the results equal those of a search on one thread, even while entries change.

use ldap::{FilterBuf, MessageId, PagedResults, ResultCode, Scope, SearchRequest, SelectionBuf};

use super::add;
use crate::access::Requester;
use crate::model::settings::GeneralSettings;
use crate::read::controls::RequestControls;
use crate::read::page_request::PageRequest;
use crate::read::search::{Budget, PartScanner, Piece, PieceEnd, Search, Step};
use crate::testing::{Found, SUFFIX, TestDirectory, received};

/// Some of the filters need a scan; indexes narrow the others.
const FILTERS: [&str; 6] = [
    "(description=*keep*)",
    "(&(objectClass=person)(!(description=*drop*)))",
    "(sn=kept)",
    "(|(sn=kept)(sn=dropped))",
    "(objectClass=*)",
    "(createTimestamp>=20000101000000Z)",
];

const PEOPLE: usize = 60;

fn person(number: usize) -> String {
    format!("uid=p{number},{SUFFIX}")
}

/// Returns a directory with people. Every third person is deleted again, so that ids have gaps. Every fourth person
/// does not match.
fn people(settings: GeneralSettings) -> TestDirectory {
    let mut directory = TestDirectory::with_settings(settings);
    add(&mut directory, SUFFIX, &[("objectClass", &["domain"]), ("dc", &["example"])]);
    for number in 0..PEOPLE {
        let kept = number % 4 != 1;
        let text = [format!("to {}, number {number}", if kept { "keep" } else { "drop" })];
        let attributes: [(&str, &[&str]); 5] = [
            ("objectClass", &["inetOrgPerson"]),
            ("cn", &["x"]),
            ("sn", if kept { &["kept"] } else { &["dropped"] }),
            ("description", &[&text[0]]),
            ("employeeNumber", &["7"]),
        ];
        add(&mut directory, &person(number), &attributes);
    }
    for number in (0..PEOPLE).step_by(3) {
        assert_eq!(directory.delete(&person(number)).code, ResultCode::SUCCESS);
    }
    directory
}

/// Number of requested results.
#[derive(Clone, Copy, Debug)]
enum ResultLimit {
    /// Size limit; 0 for all.
    Limit(u32),
    /// Page size.
    Page(u32),
}

fn start(directory: &TestDirectory, filter: &str, wanted: ResultLimit) -> Search {
    let filter = FilterBuf::parse(filter).unwrap();
    let selection = SelectionBuf::from_iter(["uid", "description"]);
    let plain = SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let (size_limit, page) = match wanted {
        ResultLimit::Limit(limit) => (limit, None),
        ResultLimit::Page(size) => (0, Some(PageRequest::of(PagedResults { size, cookie: b"" }))),
    };
    let request = SearchRequest { size_limit, ..plain };
    let mut controls = RequestControls::default();
    controls.seldom.get_or_insert_default().page = page;
    Search::start(&directory.snapshot, &directory.requester.context(), MessageId(3), &request, &controls)
        .unwrap()
}

fn run_alone(directory: &TestDirectory, filter: &str, wanted: ResultLimit) -> (Vec<u8>, u64) {
    let mut search = start(directory, filter, wanted);
    let mut out = Vec::new();
    let budget = Budget { entries_examined_max: 5, out_bytes_max: 700 };
    while search.run(&directory.snapshot, &mut out, &budget) == Step::More {}
    (out, search.entries_examined())
}

/// Computes pieces in random order, as threads of varying speed would. Each piece is computed on the snapshot that is
/// current at that time.
struct Threads {
    rng: fastrand::Rng,
    scanners: Vec<PartScanner>,
    /// Ranges that were not scanned yet.
    open: Vec<(u64, u64)>,
    done: Vec<(u64, Piece)>,
    next_id: u64,
    ended: bool,
}

impl Threads {
    fn new(seed: u64, (mut scanner, from): (PartScanner, u64)) -> Threads {
        let copies = (0..2).map(|_| scanner.copy()).collect();
        let rng = fastrand::Rng::with_seed(seed);
        Threads { rng, scanners: copies, open: Vec::new(), done: Vec::new(), next_id: from, ended: false }
    }

    /// Computes one piece of one of the ranges.
    fn work(&mut self, directory: &TestDirectory) {
        while !self.ended && self.open.len() < 3 {
            let end = self.next_id + self.rng.u64(1..25);
            self.open.push((self.next_id, end));
            self.next_id = end;
        }
        if self.open.is_empty() {
            return;
        }
        let (from, end) = self.open.swap_remove(self.rng.usize(..self.open.len()));
        let budget =
            Budget { entries_examined_max: self.rng.u32(1..9), out_bytes_max: self.rng.usize(1..900) };
        let number = self.rng.usize(..self.scanners.len());
        let piece = self.scanners[number].examine(&directory.snapshot, from, end, &budget);
        match piece.end() {
            PieceEnd::Cut(next) => self.open.push((next, end)),
            PieceEnd::Complete(next) => self.next_id = self.next_id.max(next),
            PieceEnd::Last | PieceEnd::Failed => self.ended = true,
        }
        self.done.push((from, piece));
    }

    /// Returns the next piece in order of ids, if it is computed already.
    fn next(&mut self) -> Option<Piece> {
        let first_open = self.open.iter().map(|(from, _)| *from).min().unwrap_or(self.next_id);
        let place = (0..self.done.len()).min_by_key(|place| self.done[*place].0)?;
        (self.done[place].0 < first_open).then(|| self.done.swap_remove(place).1)
    }
}

/// Runs a search in parts, either from the first candidate on or after one slice on one thread. Calls `change` between
/// pieces.
fn run_in_parts(
    directory: &mut TestDirectory,
    (filter, wanted, seed): (&str, ResultLimit, u64),
    mut change: impl FnMut(&mut TestDirectory, &mut fastrand::Rng),
) -> (Vec<u8>, u64) {
    let mut search = start(directory, filter, wanted);
    let mut out = Vec::new();
    if seed.is_multiple_of(2) {
        let budget = Budget { entries_examined_max: 4, out_bytes_max: 1 << 20 };
        if search.run(&directory.snapshot, &mut out, &budget) == Step::Done {
            return (out, search.entries_examined());
        }
    }
    while search.candidates_left().is_none() {
        assert_eq!(
            search.run(
                &directory.snapshot,
                &mut out,
                &Budget { entries_examined_max: 1, out_bytes_max: 1 << 20 }
            ),
            Step::More
        );
    }
    let mut threads = Threads::new(seed, search.split().unwrap());
    loop {
        threads.work(directory);
        let mut rng = threads.rng.clone();
        change(directory, &mut rng);
        threads.rng = rng;
        while let Some(piece) = threads.next() {
            if search.take(&directory.snapshot, piece, &mut out) == Step::Done {
                return (out, search.entries_examined());
            }
        }
    }
}

#[test]
fn parts_return_the_same_bytes_as_one_search() {
    let mut directory = people(GeneralSettings::default());
    for filter in FILTERS {
        // For a page, the cookies must be equal too, because the cookie names the end of the page.
        let limits = [0, 1, 7, 30, 31, 40, 41].map(ResultLimit::Limit);
        for wanted in limits.into_iter().chain([1, 7, 30, 31, 40].map(ResultLimit::Page)) {
            let expected = run_alone(&directory, filter, wanted);
            for seed in 0..12 {
                let found = run_in_parts(&mut directory, (filter, wanted, seed), |_, _| {});
                assert!(found.0 == expected.0, "{filter}, {wanted:?}, seed {seed}");
                assert_eq!(found.1, expected.1, "{filter}, {wanted:?}, seed {seed}");
            }
        }
    }
}

#[test]
fn the_limit_on_candidates_ends_scans_at_the_same_entry() {
    for max in [1, 5, 12, 39, 41] {
        let settings =
            GeneralSettings { unindexed_examined_max: max, size_limit: 0, ..GeneralSettings::default() };
        let mut directory = people(settings);
        directory.requester = Requester::User { id: crate::model::rows::EntryId(1), dn: SUFFIX.to_owned() };
        // Neither filter has a missing index that could be named, so both searches are refused only while they run.
        for filter in ["(|(employeeNumber<=0)(cn:dn:=keeper))", "(!(description=*keep*))"] {
            let expected = run_alone(&directory, filter, ResultLimit::Limit(0));
            for seed in 0..12 {
                let found = run_in_parts(&mut directory, (filter, ResultLimit::Limit(0), seed), |_, _| {});
                assert!(found.0 == expected.0, "{filter}, max {max}, seed {seed}: {:?}", received(&found.0));
                assert_eq!(found.1, expected.1, "{filter}, max {max}, seed {seed}");
            }
        }
    }
}

/// Makes one change, between pieces, to a person in the upper two thirds. The people in the lowest third stay
/// unchanged.
fn change(directory: &mut TestDirectory, rng: &mut fastrand::Rng) {
    use ldap::ChangeOperation::Replace;
    let dn = person(rng.usize(PEOPLE / 3..PEOPLE));
    match rng.u32(0..5) {
        0 => drop(directory.delete(&dn)),
        1 => {
            drop(directory.modify(&dn, &[(Replace, "sn", &["dropped"]), (Replace, "description", &["drop"])]))
        }
        2 => drop(directory.modify(&dn, &[(Replace, "sn", &["kept"]), (Replace, "description", &["keep"])])),
        3 => drop(directory.modify_dn(&dn, &format!("uid=moved{}", rng.u32(..)), true, None)),
        _ => {
            let new = format!("uid=new{},{SUFFIX}", rng.u32(..));
            let classes: &[&str] = &["inetOrgPerson"];
            drop(directory.add(&new, &[("objectClass", classes), ("cn", &["x"]), ("sn", &["kept"])]));
        }
    }
}

fn uids(found: &Found) -> Vec<String> {
    found.entries.iter().filter_map(|entry| entry.texts("uid").pop()).collect()
}

#[test]
fn entries_that_match_throughout_are_returned_exactly_once() {
    for seed in 0..5 {
        for filter in FILTERS {
            let mut directory = people(GeneralSettings::default());
            let stays = |uid: &String| {
                uid.strip_prefix('p').is_some_and(|number| number.parse::<usize>().unwrap() < PEOPLE / 3)
            };
            let before: Vec<String> =
                uids(&received(&run_alone(&directory, filter, ResultLimit::Limit(0)).0))
                    .into_iter()
                    .filter(stays)
                    .collect();
            assert!(before.len() > 5, "{filter}");
            let (out, _) = run_in_parts(&mut directory, (filter, ResultLimit::Limit(0), seed), change);
            let found = received(&out);
            assert_eq!(found.code, ResultCode::SUCCESS);
            let mut all = uids(&found);
            let staying: Vec<String> = all.iter().filter(|uid| stays(uid)).cloned().collect();
            assert_eq!(staying, before, "{filter}, seed {seed}");
            // All DNs differ. An entry that was returned twice without a rename in between would have one DN twice.
            let count = all.len();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count, "{filter}, seed {seed}: {all:?}");
        }
    }
}

#[test]
fn an_index_dropped_during_a_search_does_not_change_the_results() {
    for seed in 0..4 {
        let mut directory = people(GeneralSettings::default());
        let expected = run_alone(&directory, "(sn=kept)", ResultLimit::Limit(0));
        let mut pieces = 0;
        let (out, _) =
            run_in_parts(&mut directory, ("(sn=kept)", ResultLimit::Limit(0), seed), |directory, _| {
                pieces += 1;
                if pieces == 2 {
                    directory.define_index("sn", "none");
                    directory.finish_indexes();
                }
            });
        assert!(out == expected.0, "seed {seed}");
    }
}

#[test]
fn searches_outside_the_tree_are_not_split() {
    let directory = people(GeneralSettings::default());
    let filter = FilterBuf::parse("(objectClass=*)").unwrap();
    let selection = SelectionBuf::new();
    let request = SearchRequest::new("", Scope::BaseObject, filter.as_filter(), selection.as_selection());
    let controls = RequestControls::default();
    let (snapshot, requester) = (&directory.snapshot, &directory.requester);
    let mut search =
        Search::start(snapshot, &requester.context(), MessageId(3), &request, &controls).unwrap();
    assert!(search.split().is_none() && search.candidates_left().is_none());
}
