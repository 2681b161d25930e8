//! Compares Pando with Debian's slapd: the same operations, with the same schema, must return the same result codes,
//! matched DNs and entries with attributes and values. After every change, the two trees must be equal.
//!
//! The operations are the files in `tests/differential`, described in the README there. If Pando differs on purpose,
//! the line before the operation explains the difference. If such a difference disappears, the test fails too.
//!
//! Octets are compared, with these exceptions:
//! - The order of values and entries is undefined (RFC 4511 section 4.5.2), so both are compared as sets.
//! - slapd normalizes DNs and Pando keeps the given spelling, so they are compared as DNs. Links (member, manager ...)
//!   are compared without regard to case, because Pando returns the present names of their entries.
//! - slapd rewrites names of object classes to the schema's spelling, so they are compared without regard to case.
//! - Pando stores a hash of a password that arrives in clear, so values of userPassword are only counted.

use client::{Connection, Entry, Reply};
use ldap::{Dn, PagedResults, ResultCode, Scope};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use test_support::changes::ChangeMaker;
use test_support::corpus::{self, Difference, Operation};
use test_support::filters::FilterMaker;
use test_support::slapd::Slapd;
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch, clients};

/// Attributes whose values are DNs.
const DN_ATTRIBUTES: &[&str] = &[
    "member",
    "owner",
    "manager",
    "secretary",
    "seeAlso",
    "roleOccupant",
    "documentAuthor",
    "aliasedObjectName",
    "entryDN",
    "creatorsName",
    "modifiersName",
    "subschemaSubentry",
];

/// Number of random filters.
const RANDOM_FILTER_COUNT: usize = 2000;

/// One in this number of random filters is also requested in pages.
const FILTERS_PER_PAGED: usize = 4;

/// Number of random changes.
const RANDOM_CHANGE_COUNT: usize = 1000;

/// Minimum number of operations in the corpus, which may only grow.
const OPERATION_COUNT_MIN: usize = 300;

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
        let our_answer = ours.run(operation);
        let their_answer = theirs.run(operation);
        report.compare(operation, &our_answer, &their_answer);
    }
    println!("{} operations, {} differ on purpose:", operations.len(), report.justified.len());
    report.justified.iter().for_each(|line| println!("  {line}"));
    let failures = report.failures.len();
    assert!(
        failures == 0,
        "{failures} of {} answers differ:\n\n{}",
        operations.len(),
        report.failures.join("\n")
    );
}

/// The same comparison for random filters, generated from the attribute types and values of the tree.
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
            let reply = side.connection.search(SUFFIX, Scope::WholeSubtree, &filter, &["1.1"]).unwrap();
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
        let reply = side.connection.search_page(SUFFIX, Scope::WholeSubtree, filter, &["1.1"], page).unwrap();
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

/// The same comparison for random changes: both servers make a change, or both refuse it, and the trees stay equal.
#[test]
fn random_changes_leave_what_slapd_has() {
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
    let folder = clients::repository().join("crates/pando/tests/differential");
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<_> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "ops")).collect();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        corpus::parse(&name, &std::fs::read_to_string(path).unwrap())
    };
    files.iter().flat_map(read).collect()
}

/// One of the two servers.
struct Side {
    connection: Connection,
}

/// Comparable result of an operation.
struct Answer {
    code: ResultCode,
    matched_dn: String,
    diagnostic: String,
    entries: Entries,
    references: BTreeSet<String>,
    /// The whole tree after a change.
    tree: Option<Entries>,
}

/// Values by attribute description, by DN.
type Entries = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

impl Side {
    fn new(mut connection: Connection) -> Side {
        assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        Side { connection }
    }

    fn run(&mut self, operation: &Operation) -> Answer {
        let reply = operation.run(&mut self.connection);
        let tree = operation.writes.then(|| self.tree());
        Answer::new(reply, tree)
    }

    fn tree(&mut self) -> Entries {
        let attributes = ["*", "structuralObjectClass", "hasSubordinates"];
        let reply = self
            .connection
            .search_managing(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &attributes)
            .unwrap();
        comparable_entries(&reply.entries)
    }
}

impl Answer {
    fn new(reply: Reply, tree: Option<Entries>) -> Answer {
        let referrals = reply.outcome.referrals.into_iter().map(|url| format!("referral {url}"));
        let references = reply.references.into_iter().map(|mut urls| {
            urls.sort();
            format!("reference {}", urls.join(" "))
        });
        Answer {
            code: reply.outcome.code,
            matched_dn: comparable_dn(&reply.outcome.matched_dn).to_lowercase(),
            diagnostic: reply.outcome.diagnostic,
            entries: comparable_entries(&reply.entries),
            references: referrals.chain(references).collect(),
            tree,
        }
    }
}

fn comparable_entries(entries: &[Entry]) -> Entries {
    let mut comparable = Entries::new();
    for entry in entries {
        let attributes = entry.attributes.iter().map(|attribute| {
            let values = attribute.values.iter().enumerate();
            let values = values.map(|(index, value)| comparable_value(&attribute.description, index, value));
            (attribute.description.clone(), values.collect())
        });
        let double = comparable.insert(comparable_dn(&entry.dn), attributes.collect());
        assert!(double.is_none(), "{} was returned twice", entry.dn);
    }
    comparable
}

fn comparable_value(description: &str, index: usize, value: &[u8]) -> String {
    let text = std::str::from_utf8(value);
    match text {
        _ if description == "userPassword" => format!("password {index}"),
        Ok(dn) if DN_ATTRIBUTES.contains(&description) => comparable_dn(dn).to_lowercase(),
        Ok(dn) if description == "uniqueMember" => match dn.rsplit_once('#') {
            Some((dn, uid)) => format!("{}#{uid}", comparable_dn(dn).to_lowercase()),
            None => comparable_dn(dn).to_lowercase(),
        },
        Ok(class) if description == "objectClass" => class.to_lowercase(),
        Ok(text) => text.to_owned(),
        Err(_) => format!("{value:02x?}"),
    }
}

/// Normalizes a DN: types in lower case, the values of an RDN in order, one form of escaping.
fn comparable_dn(text: &str) -> String {
    let Ok(dn) = Dn::parse(text) else { return format!("not a DN: {text}") };
    let rdns = dn.rdns().map(|rdn| {
        let avas = rdn.avas.iter().map(|ava| {
            let value = String::from_utf8_lossy(&ava.value).into_owned();
            format!("{}={}", ava.attribute.to_lowercase(), ldap::escaped_value(value.as_bytes()))
        });
        avas.collect::<BTreeSet<String>>().into_iter().collect::<Vec<_>>().join("+")
    });
    rdns.collect::<Vec<_>>().join(",")
}

/// Differences found so far.
#[derive(Default)]
struct Report {
    failures: Vec<String>,
    justified: Vec<String>,
    /// The last difference between the trees, so that a change that causes one is reported only once.
    tree_difference: String,
}

impl Report {
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
        for reference in ours.references.symmetric_difference(&theirs.references) {
            let whose = if ours.references.contains(reference) { "only ours" } else { "only theirs" };
            let _ = writeln!(found, "    {whose}: {reference}");
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

fn differing_entries(ours: &Entries, theirs: &Entries) -> String {
    let mut lines = String::new();
    for dn in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        match (ours.get(dn), theirs.get(dn)) {
            (Some(_), None) => _ = writeln!(lines, "    only ours: {dn}"),
            (None, Some(_)) => _ = writeln!(lines, "    only theirs: {dn}"),
            (Some(our_entry), Some(their_entry)) => {
                for description in our_entry.keys().chain(their_entry.keys()).collect::<BTreeSet<_>>() {
                    let (our_values, their_values) =
                        (our_entry.get(description), their_entry.get(description));
                    if our_values != their_values {
                        let _ = writeln!(
                            lines,
                            "    {dn} {description}: ours {our_values:?}, theirs {their_values:?}"
                        );
                    }
                }
            }
            (None, None) => unreachable!("the name comes from one of the two"),
        }
    }
    lines
}
