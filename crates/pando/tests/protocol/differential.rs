//! Compares Pando with Debian's slapd: the same operations, with the same schema, must return the same result codes,
//! matched DNs and entries with attributes and values. After every change, the two trees must be equal.
//!
//! The operations are the files in `tests/differential`, described in the README there. If Pando differs on purpose,
//! the line before the operation explains the difference. If such a difference disappears, the test fails too.

mod answer;

use answer::{Answer, Entries, Side, comparable_entries, differing_entries};
use bench::peers::Amendments;
use client::Connection;
use ldap::{PagedResults, ResultCode, Scope};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use test_support::changes::ChangeMaker;
use test_support::cluster::until;
use test_support::corpus::{self, Difference, Operation, Server};
use test_support::ds389::RunningDs389;
use test_support::filters::FilterMaker;
use test_support::opendj::RunningOpenDj;
use test_support::slapd::Slapd;
use test_support::{Pando, SUFFIX, Scratch, clients};

/// Number of random filters.
const RANDOM_FILTER_COUNT: usize = 2000;

/// One in this number of random filters is also requested in pages.
const FILTERS_PER_PAGED: usize = 4;

/// Number of random changes.
const RANDOM_CHANGE_COUNT: usize = 1000;

/// Minimum number of operations in the corpus. The corpus may only grow.
const OPERATION_COUNT_MIN: usize = 300;

/// Minimum number of operations that are compared with 389 DS or OpenDJ.
const PEER_OPERATION_COUNT_MIN: usize = 100;

#[test]
fn answers_are_those_of_slapd() {
    let scratch = Scratch::new("differential");
    let slapd = Slapd::start(&scratch, &["uid"]);
    let pando = Pando::start(&scratch);
    let mut theirs = Side::new(Connection::open(slapd.address()).unwrap());
    let mut ours = Side::new(pando.administrator());

    let operations = read_corpus();
    assert!(operations.len() >= OPERATION_COUNT_MIN, "{} operations", operations.len());
    let mut report = Report::default();
    for operation in &operations {
        report.run(operation, &mut ours, &mut theirs);
    }
    report.end();
}

/// Compares features that slapd has as overlays or settings. Each file of operations has its own two servers, with
/// equivalent settings.
#[test]
fn features_answer_as_those_of_slapd() {
    let mut report = Report::default();
    for file in ops_files("features") {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let scratch = Scratch::new(&name);
        let global = corpus::slapd_lines("global", &text);
        let rules = format!("access to * by * write\n{}", corpus::slapd_lines("database", &text));
        let amendments = Amendments { global, rules: Some(rules), ..Amendments::default() };
        let slapd = Slapd::amended(&scratch, &["uid"], amendments);
        let pando = Pando::start(&scratch);
        let mut theirs = Side::new(Connection::open(slapd.address()).unwrap());
        theirs.is_late = text.contains("overlay refint");
        let mut ours = Side::new(pando.administrator());
        for operation in &corpus::parse(&name, &text) {
            report.run(operation, &mut ours, &mut theirs);
        }
    }
    report.end();
}

/// Compares the files of operations that name 389 DS as a peer.
#[test]
#[ignore = "needs 389 DS, which ./dev test-peers installs"]
fn features_answer_as_those_of_ds389() {
    compare_features(Server::Ds389, |scratch| {
        let server = RunningDs389::start(scratch, &["uid:equality"]);
        (server.address(), Box::new(server))
    });
}

/// Compares the files of operations that name OpenDJ as a peer.
#[test]
#[ignore = "needs OpenDJ, which ./dev test-peers fetches"]
fn features_answer_as_those_of_opendj() {
    compare_features(Server::OpenDj, |scratch| {
        // OpenDJ's plug-ins need these indexes.
        let indexes = ["uid", "mail", "initials", "member", "uniqueMember"];
        let server = RunningOpenDj::with_change_log(scratch, &indexes);
        (server.address(), Box::new(server))
    });
}

/// Runs the files of operations that name a peer. Operations with a control or an extended operation that the peer does
/// not advertise run on neither server.
fn compare_features(peer: Server, start: impl Fn(&Scratch) -> (SocketAddr, Box<dyn Any>)) {
    let (mut report, mut left_out) = (Report::default(), BTreeMap::new());
    for file in ops_files("features").into_iter().chain(ops_files("peers")) {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        if !corpus::is_for(peer, &text) {
            continue;
        }
        let operations = corpus::parse_for(peer, &name, &text);
        let scratch = Scratch::new(&name);
        let (address, _running) = start(&scratch);
        let pando = Pando::start(&scratch);
        let mut theirs = Side::new(Connection::open(address).unwrap());
        let mut ours = Side::new(pando.administrator());
        (ours.is_loose, theirs.is_loose) = (true, true);
        let (own, known) = (ours.supported(), theirs.supported());
        for operation in &operations {
            match operation.uses().iter().find(|oid| own.contains(**oid) && !known.contains(**oid)) {
                Some(oid) => {
                    let Operation { place, differs, .. } = operation;
                    assert!(
                        differs.is_none(),
                        "{place}: an explanation of what does not run: the peer lacks {oid}"
                    );
                    *left_out.entry((*oid).to_owned()).or_insert(0) += 1;
                }
                None => report.run(operation, &mut ours, &mut theirs),
            }
        }
    }
    println!("operations left out, by the OID that the peer lacks: {left_out:?}");
    assert!(report.count >= PEER_OPERATION_COUNT_MIN, "{} operations", report.count);
    report.end();
}

/// Compares the results of random filters, generated from the attribute types and values of the tree.
#[test]
fn random_filters_find_what_slapd_finds() {
    let scratch = Scratch::new("random-filters");
    let slapd = Slapd::start(&scratch, &["uid"]);
    let pando = Pando::start(&scratch);
    let mut theirs = Side::new(Connection::open(slapd.address()).unwrap());
    let mut ours = Side::new(pando.administrator());
    for operation in read_corpus().iter().filter(|operation| operation.place.starts_with("01-tree")) {
        assert!(
            ours.run(operation).code == ResultCode::SUCCESS
                && theirs.run(operation).code == ResultCode::SUCCESS
        );
    }
    let mut filters = FilterMaker::new(test_support::seed_or(1));
    let mut failures = Vec::new();
    let mut found = 0;
    for round in 0..RANDOM_FILTER_COUNT {
        let filter = filters.make(3);
        let search = |side: &mut Side| {
            let reply =
                side.client.connection.search(SUFFIX, Scope::WholeSubtree, &filter, &["1.1"]).unwrap();
            (reply.outcome.code, comparable_entries(&reply.entries))
        };
        let (our_answer, their_answer) = (search(&mut ours), search(&mut theirs));
        found += our_answer.1.len();
        if round % FILTERS_PER_PAGED == 0 {
            let size = 1 + (round / FILTERS_PER_PAGED % 9) as u32;
            for (side, whole) in [(&mut ours, &our_answer), (&mut theirs, &their_answer)] {
                assert!(paged(side, &filter, size) == whole.1, "{filter} in pages of {size}");
            }
        }
        if our_answer != their_answer {
            let difference = differing_entries(&our_answer.1, &their_answer.1);
            failures.push(format!("{filter}: {}, {}\n{difference}", our_answer.0, their_answer.0));
        }
    }
    assert!(failures.is_empty(), "{} filters differ:\n{}", failures.len(), failures.join("\n"));
    assert!(found > RANDOM_FILTER_COUNT, "filters that find nothing prove little");
}

/// Returns the entries of a search in pages (RFC 2696).
fn paged(side: &mut Side, filter: &str, size: u32) -> Entries {
    let (mut entries, mut cookie) = (Vec::new(), Vec::new());
    loop {
        let page = PagedResults { size, cookie: &cookie };
        let reply =
            side.client.connection.search_page(SUFFIX, Scope::WholeSubtree, filter, &["1.1"], page).unwrap();
        let is_full = reply.entries.len() == size as usize;
        let (_, next) = reply.page().expect("a page says that it is one");
        assert!(reply.outcome.is_success() && (is_full || next.is_empty()), "{filter}: {:?}", reply.outcome);
        entries.extend(reply.entries);
        if next.is_empty() {
            return comparable_entries(&entries);
        }
        cookie = next;
    }
}

/// Compares the effects of random changes: both servers must make a change, or both must refuse it, and the trees must
/// stay equal.
#[test]
fn random_changes_leave_the_same_tree_as_in_slapd() {
    let scratch = Scratch::new("random-changes");
    let slapd = Slapd::start(&scratch, &[]);
    let pando = Pando::start(&scratch);
    let mut theirs = Side::new(Connection::open(slapd.address()).unwrap());
    let mut ours = Side::new(pando.administrator());
    let tree = "add | % | objectClass: dcObject ; organization | dc: example | o: Example\n\
                add | ou=people,% | objectClass: organizationalUnit | ou: people\n\
                add | ou=sales,ou=people,% | objectClass: organizationalUnit | ou: sales";
    let mut changes = ChangeMaker::new(test_support::seed_or(1));
    let lines: Vec<String> = (0..RANDOM_CHANGE_COUNT).map(|_| changes.make()).collect();
    let mut report = Report::default();
    let mut successes = 0;
    for operation in corpus::parse("tree", tree).iter().chain(&corpus::parse("random", &lines.join("\n"))) {
        let our_answer = ours.run(operation);
        let mut their_answer = theirs.run(operation);
        let both_refuse = our_answer.code != ResultCode::SUCCESS && their_answer.code != ResultCode::SUCCESS;
        if both_refuse {
            // If both servers refuse a change, several errors may apply, and either code is correct.
            their_answer.code = our_answer.code;
            their_answer.matched_dn.clone_from(&our_answer.matched_dn);
        }
        successes += usize::from(our_answer.code == ResultCode::SUCCESS);
        report.compare(operation, &our_answer, &their_answer);
    }
    let failures = report.failures.len();
    assert!(failures == 0, "{failures} answers differ:\n{}", report.failures.join("\n"));
    assert!(successes > RANDOM_CHANGE_COUNT / 10, "changes that are all refused prove little");
}

fn read_corpus() -> Vec<Operation> {
    let read = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        corpus::parse(&name, &std::fs::read_to_string(path).unwrap())
    };
    ops_files("").iter().flat_map(read).collect()
}

/// Returns the files of operations in a folder of `tests/differential`, in the order of their names.
fn ops_files(folder: &str) -> BTreeSet<PathBuf> {
    let folder = clients::repository().join("crates/pando/tests/differential").join(folder);
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_ops = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ops");
    entries.filter(is_ops).collect()
}

/// Differences found so far.
#[derive(Default)]
struct Report {
    /// Number of operations.
    count: usize,
    failures: Vec<String>,
    justified: Vec<String>,
    /// The last difference between the trees, so that a change that causes a difference is reported only once.
    tree_difference: String,
}

impl Report {
    /// Runs an operation on both servers and compares the answers. If the operation is for one server only, runs it
    /// there.
    fn run(&mut self, operation: &Operation, ours: &mut Side, theirs: &mut Side) {
        self.count += 1;
        if let Some(only) = operation.only {
            let side = if only == Server::Pando { &mut *ours } else { &mut *theirs };
            // Pando refuses rules whose index is not ready.
            until(&operation.text, || (side.run(operation).code == ResultCode::SUCCESS).then_some(()));
            self.tree_difference = differing_entries(&ours.tree(), &theirs.tree());
            return;
        }
        let our_answer = ours.run(operation);
        let mut their_answer = theirs.run(operation);
        theirs.complete(&mut their_answer, &our_answer);
        self.compare(operation, &our_answer, &their_answer);
    }

    /// Prints the justified differences.
    ///
    /// # Panics
    /// Some differences are not justified.
    fn end(self) {
        println!("{} operations, {} differ on purpose:", self.count, self.justified.len());
        self.justified.iter().for_each(|line| println!("  {line}"));
        let (count, failures) = (self.count, self.failures);
        assert!(
            failures.is_empty(),
            "{} of {count} answers differ:\n\n{}",
            failures.len(),
            failures.join("\n")
        );
    }

    fn compare(&mut self, operation: &Operation, ours: &Answer, theirs: &Answer) {
        let difference = self.difference(ours, theirs);
        match (difference, &operation.differs) {
            (None, None) => {}
            (Some((answer, _)), Some(differs)) if answer == differs.answer => {
                self.justified.push(format!("{}: {answer}: {}", operation.text, differs.reason));
            }
            (Some((answer, detail)), _) => {
                let Operation { place, text, .. } = operation;
                self.failures.push(format!("{place}: {text}\n    Pando: {answer}\n{detail}"));
            }
            (None, Some(differs)) => {
                let Operation { place, text, .. } = operation;
                let Difference { answer, .. } = differs;
                self.failures.push(format!("{place}: {text}\n    no longer differs by {answer}\n"));
            }
        }
    }

    /// Returns the first difference, as Pando's result code or the part that differs, and a description of all
    /// differences.
    fn difference(&mut self, ours: &Answer, theirs: &Answer) -> Option<(String, String)> {
        let mut detail = String::new();
        let mut answer = None;
        if ours.code != theirs.code {
            answer = Some(ours.code.to_string());
        }
        if ours.code != theirs.code || ours.matched_dn != theirs.matched_dn {
            let line = |side: &Answer| format!("{} {:?} {:?}", side.code, side.matched_dn, side.diagnostic);
            let _ = writeln!(detail, "    ours:   {}\n    theirs: {}", line(ours), line(theirs));
            answer = answer.or(Some("matched".to_owned()));
        }
        let mut found = differing_entries(&ours.entries, &theirs.entries);
        for other in ours.others.symmetric_difference(&theirs.others) {
            let whose = if ours.others.contains(other) { "only ours" } else { "only theirs" };
            let _ = writeln!(found, "    {whose}: {other}");
        }
        if let (Some(our_tree), Some(their_tree)) = (&ours.tree, &theirs.tree) {
            let tree_difference = differing_entries(our_tree, their_tree);
            if tree_difference != self.tree_difference && !tree_difference.is_empty() {
                let _ = write!(found, "    the tree after it:\n{tree_difference}");
            }
            self.tree_difference = tree_difference;
        }
        if !found.is_empty() {
            detail += &found;
            answer = answer.or(Some("entries".to_owned()));
        }
        answer.map(|answer| (answer, detail))
    }
}
