//! Instruction counts of hot paths. `./dev bench instructions` runs each case under valgrind, which counts the
//! instructions in [`measured`]. The command then compares the counts with the baseline in `bench/instructions.txt`.
//!
//! A case measures all work of a server for one request except socket calls: decoding the message, executing it, and
//! encoding the response. Unlike times, these counts do not change on a busy machine. The counts include neither cache
//! misses nor the kernel.
//!
//! `instructions CASE` runs a case and prints the number of counted requests. Without a case, `instructions` prints
//! the names of all cases.

#![allow(clippy::unwrap_used, reason = "a bench that fails has no result")]
#![allow(dead_code, reason = "testing.rs is shared with tests that use all of it")]

mod sample;
#[path = "../src/testing.rs"]
mod testing;

use std::ops::Range;

use directory::Stamp;
use directory::bind::{BindOutcome, bind};
use directory::compare::{CompareOutcome, compare};
use directory::controls::{ControlContext, RequestControls};
use directory::password::{StorageScheme, hash};
use directory::search::{Budget, Search, Step};
use ldap::response::{LdapResult, ResponseOp, encode_result};
use ldap::{
    AddRequest, Authentication, BindRequest, ChangeOperation, ChangesBuf, CompareRequest, Control, Controls,
    ControlsBuf, DecodeLimits, DeleteRequest, FilterBuf, Message, MessageId, ModifyRequest, PagedResults,
    Request, ResultCode, Scope, SearchRequest, SelectionBuf, oids,
};
use sample::{PEOPLE, person, person_dn, sample};
use testing::{SUFFIX, TestDirectory};

const PERSON_COUNT: u32 = 2_000;

/// Number of counted requests per case. Each case first executes at least as many uncounted requests.
const COUNT: u32 = 500;

/// Size of the row cache, in bytes.
const KNOWN_BYTES: usize = 4 << 20;

/// Encodes the request about the person with this number.
type MakeRequest = fn(u32) -> Vec<u8>;

/// Case whose requests examine every entry.
const SCAN: &str = "search-scan";

/// Superior of the entries with passwords. `TEAM` is the superior of the entries that a one-level search returns.
const ACCOUNTS: &str = "ou=accounts,dc=example,dc=com";
const TEAM: &str = "ou=team,dc=example,dc=com";
const TEAM_SIZE: u32 = 100;
const PASSWORD: &str = "correct horse";

const CASES: [(&str, MakeRequest); 21] = [
    ("search-uid-dn", by_uid_dn),
    ("search-uid-all", by_uid_all),
    // In these cases the requester is a user. There are no access rules, 50 rules, or 500 rules. Five of the rules
    // depend on the entry.
    ("user-dn-rules-0", by_uid_dn),
    ("user-dn-rules-50", by_uid_dn),
    ("user-dn-rules-500", by_uid_dn),
    ("user-all-rules-0", by_uid_all),
    ("user-all-rules-50", by_uid_all),
    ("user-all-rules-500", by_uid_all),
    ("search-class-and-uid", |number| {
        let filter = format!("(&(objectClass=inetOrgPerson)(uid=user.{number}))");
        search(SUFFIX, Scope::WholeSubtree, &filter, &["cn", "mail"])
    }),
    ("search-base", |number| search(&person_dn(number), Scope::BaseObject, "(objectClass=*)", &[])),
    ("search-prefix", |number| {
        search(SUFFIX, Scope::WholeSubtree, &format!("(cn=user.{}*)", 100 + number % 100), &["1.1"])
    }),
    ("search-one-level", |_| search(TEAM, Scope::SingleLevel, "(objectClass=*)", &["cn", "mail"])),
    ("search-page", |_| {
        let value = PagedResults { size: 100, cookie: b"" }.encode();
        let control = Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&value) };
        page(PEOPLE, Scope::SingleLevel, "(objectClass=*)", &["cn", "mail"], control)
    }),
    ("search-member", |number| {
        search(SUFFIX, Scope::WholeSubtree, &format!("(member={})", person_dn(number)), &["1.1"])
    }),
    ("search-chain", |number| {
        let filter = format!("(memberOf:1.2.840.113556.1.4.1941:=cn=level 2.0,{PEOPLE})");
        search(&person_dn(number), Scope::BaseObject, &filter, &["1.1"])
    }),
    (SCAN, |number| {
        search(SUFFIX, Scope::WholeSubtree, &format!("(description=*number {number},*)"), &["1.1"])
    }),
    ("compare", |number| {
        let entry = person_dn(number);
        let value = format!("Given {}", number % 500);
        let request = CompareRequest { entry: &entry, description: "givenName", value: value.as_bytes() };
        encode(Request::Compare(request))
    }),
    ("bind-ssha", |number| {
        let authentication = Authentication::Simple(PASSWORD.as_bytes());
        let name = account_dn(number % COUNT);
        encode(Request::Bind(BindRequest { version: 3, name: &name, authentication }))
    }),
    ("modify", |number| {
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Replace, "title", [format!("new title {number}")]);
        let object = person_dn(number);
        encode(Request::Modify(ModifyRequest { object: &object, changes: changes.as_changes() }))
    }),
    ("add", |number| {
        let entry = person_dn(number + PERSON_COUNT);
        encode(Request::Add(AddRequest {
            entry: &entry,
            attributes: person(number + PERSON_COUNT).as_attributes(),
        }))
    }),
    ("delete", |number| encode(Request::Delete(DeleteRequest { entry: &person_dn(number) }))),
];

fn by_uid_dn(number: u32) -> Vec<u8> {
    search(SUFFIX, Scope::WholeSubtree, &format!("(uid=user.{number})"), &["1.1"])
}

fn by_uid_all(number: u32) -> Vec<u8> {
    search(SUFFIX, Scope::WholeSubtree, &format!("(uid=user.{number})"), &[])
}

fn main() {
    let Some(case) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) else {
        CASES.iter().for_each(|(name, _)| println!("{name}"));
        return;
    };
    let (_, make) = CASES.iter().find(|(name, _)| *name == case).expect("the name of a case");
    let mut directory = sample(PERSON_COUNT);
    add_others(&mut directory, &case);
    directory.snapshot.cache_rows(KNOWN_BYTES);
    // These changes succeed only once per person, so the counted requests use other people than the uncounted requests.
    let shift = if matches!(case.as_str(), "add" | "delete" | "modify") { COUNT } else { 0 };
    // After the uncounted requests, all lookups are in the caches, as in a running event loop.
    let (count, rounds) = match case.as_str() {
        SCAN => (COUNT / 50, 1),
        "add" | "delete" | "modify" => (COUNT, 1),
        _ => (COUNT, 12),
    };
    settle(&mut directory);
    for _ in 0..rounds {
        run(&mut directory, *make, 0..count, warm_up);
    }
    if shift > 0 {
        settle(&mut directory);
    }
    run(&mut directory, *make, shift..shift + count, measured);
    println!("{count}");
}

/// Adds the entries that only this case needs.
fn add_others(directory: &mut TestDirectory, case: &str) {
    let mut add = |dn: &str, attributes: &[(&str, &[&str])]| {
        let outcome = directory.add(dn, attributes);
        assert_eq!(outcome.code, ResultCode::SUCCESS, "{}", outcome.diagnostic);
    };
    let unit: (&str, &[&str]) = ("objectClass", &["organizationalUnit"]);
    match case {
        "search-one-level" => {
            add(TEAM, &[unit]);
            for number in 0..TEAM_SIZE {
                let (dn, mail) = (format!("cn=member {number},{TEAM}"), format!("{number}@example.com"));
                add(&dn, &[("objectClass", &["inetOrgPerson"]), ("sn", &["x"]), ("mail", &[&mail])]);
            }
        }
        "search-member" => {
            let names: Vec<_> = (0..PERSON_COUNT).map(person_dn).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            add(&format!("cn=all,{PEOPLE}"), &[("objectClass", &["groupOfNames"]), ("member", &names)]);
        }
        // Each person is in a group of 100 members, three levels below the asserted group.
        "search-chain" => {
            let mut below: Vec<String> = (0..PERSON_COUNT).map(person_dn).collect();
            for (level, group_size) in [(0, 100), (1, 10), (2, 2)] {
                let mut groups = Vec::new();
                for (number, members) in below.chunks(group_size).enumerate() {
                    let members: Vec<_> = members.iter().map(String::as_str).collect();
                    let dn = format!("cn=level {level}.{number},{PEOPLE}");
                    add(&dn, &[("objectClass", &["groupOfNames"]), ("member", &members)]);
                    groups.push(dn);
                }
                below = groups;
            }
        }
        "bind-ssha" => {
            let password = hash(StorageScheme::Ssha, PASSWORD.as_bytes(), &[7; 16]);
            let password = String::from_utf8(password).unwrap();
            add(ACCOUNTS, &[unit]);
            for number in 0..COUNT {
                let classes: (&str, &[&str]) = ("objectClass", &["person"]);
                add(&account_dn(number), &[classes, ("sn", &["x"]), ("userPassword", &[&password])]);
            }
        }
        _ => {}
    }
    if let Some((_, count)) = case.split_once("-rules-") {
        act_under_rules(directory, count.parse().unwrap());
    }
}

/// Makes a user the requester and defines `count` access rules. Five of the rules depend on the entry. Of the other
/// rules, a third are for everyone, a third are for groups that the requester is not in, and a third are for a part of
/// the tree.
fn act_under_rules(directory: &mut TestDirectory, count: usize) {
    let groups = "ou=groups,dc=example,dc=com";
    directory.add(groups, &[("objectClass", &["organizationalUnit"])]);
    let types = ["homePhone", "mobile", "pager", "roomNumber", "title", "carLicense"];
    let mut rules = vec!["users: allow read to authenticated".to_owned()];
    for (name, right) in [("own", "self"), ("manager", "named by manager"), ("owner", "named by owner")] {
        rules.push(format!("{name}: allow write of description to {right}"));
    }
    rules.push("secretary: allow write of roomNumber to named by secretary".to_owned());
    rules.push("private: deny read of homePostalAddress to self, named by seeAlso".to_owned());
    for number in rules.len()..count {
        let named = types[number % types.len()];
        let group = format!("cn=group {number},{groups}");
        rules.push(match number % 3 {
            0 => format!("rule {number}: deny read of {named} to users in 'ou=elsewhere,dc=example,dc=com'"),
            1 => {
                let class: (&str, &[&str]) = ("objectClass", &["groupOfNames"]);
                directory.add(&group, &[class, ("member", &[&person_dn(1_999)])]);
                format!("rule {number}: allow write of {named} in '{PEOPLE}' to group '{group}'")
            }
            _ => format!("rule {number}: allow write of {named} in '{groups}' to authenticated"),
        });
    }
    rules.truncate(count);
    directory.change_settings(|settings| settings.general.access_rules = rules);
    let identified = directory::identity::identify(&directory.snapshot, &format!("dn:{}", person_dn(0)));
    directory.requester = identified.unwrap().unwrap().requester;
}

fn account_dn(number: u32) -> String {
    format!("cn=account.{number},{ACCOUNTS}")
}

fn run(
    directory: &mut TestDirectory,
    make: MakeRequest,
    numbers: Range<u32>,
    carry_out: fn(&mut TestDirectory, &[Vec<u8>], &[Stamp]) -> usize,
) {
    // 7 and the number of people are coprime, so no person is requested twice.
    let messages: Vec<_> = numbers.map(|number| make(number * 7 % PERSON_COUNT)).collect();
    let stamps: Vec<_> = messages.iter().map(|_| directory.stamp()).collect();
    assert_eq!(carry_out(directory, &messages, &stamps), messages.len(), "requests that succeeded");
}

/// Writes all pending rows into the data file and moves the snapshot to the new state. As long as nothing changes, the
/// snapshot then keeps its cached rows. Moving to another state during the measurement might drop these rows, depending
/// on the load of the machine.
fn settle(directory: &mut TestDirectory) {
    directory.directory.checkpoint().unwrap();
    directory.snapshot.renew().unwrap();
}

/// Runs the requests that valgrind counts.
#[inline(never)]
fn measured(directory: &mut TestDirectory, messages: &[Vec<u8>], stamps: &[Stamp]) -> usize {
    carry_out(directory, messages, stamps)
}

/// Runs requests that are not counted.
#[inline(never)]
fn warm_up(directory: &mut TestDirectory, messages: &[Vec<u8>], stamps: &[Stamp]) -> usize {
    std::hint::black_box(carry_out(directory, messages, stamps))
}

/// Executes messages. Changes share one batch. Returns the number of successful requests.
#[inline(always)]
fn carry_out(directory: &mut TestDirectory, messages: &[Vec<u8>], stamps: &[Stamp]) -> usize {
    let mut out = Vec::with_capacity(1 << 20);
    let mut succeeded = 0;
    // Other requests run outside the batch, because a server never searches in an open batch.
    let is_change = |bytes: &[u8]| {
        let request = Message::decode(bytes, &DecodeLimits::AUTHENTICATED).unwrap().request;
        matches!(request, Request::Add(_) | Request::Modify(_) | Request::Delete(_))
    };
    let mut batch = is_change(&messages[0]).then(|| directory.writer.begin().unwrap());
    for (bytes, stamp) in messages.iter().zip(stamps) {
        out.clear();
        let message = Message::decode(bytes, &DecodeLimits::AUTHENTICATED).unwrap();
        let controls = match message.controls.is_empty() {
            true => RequestControls::default(),
            false => RequestControls::read(&message.controls, ControlContext::Search).unwrap(),
        };
        let code = match &message.request {
            Request::Search(request) => {
                let budget = Budget { entries_examined_max: u32::MAX, out_bytes_max: usize::MAX };
                let (snapshot, requester) = (&directory.snapshot, &directory.requester);
                let mut search =
                    Search::start(snapshot, &requester.context(), message.id, request, &controls).unwrap();
                while search.run(snapshot, &mut out, &budget) == Step::More {}
                if search.entries_sent() > 0 { ResultCode::SUCCESS } else { ResultCode::NO_SUCH_OBJECT }
            }
            Request::Compare(request) => {
                match compare(&directory.snapshot, &directory.requester.context(), request, &controls) {
                    CompareOutcome::Done(outcome) if outcome.code == ResultCode::COMPARE_TRUE => {
                        ResultCode::SUCCESS
                    }
                    _ => ResultCode::OTHER,
                }
            }
            Request::Bind(request) => match bind(&directory.snapshot, request) {
                BindOutcome::Verify { verification, .. }
                    if verification.run_quick(PASSWORD.as_bytes()) == Some(true) =>
                {
                    ResultCode::SUCCESS
                }
                _ => ResultCode::INVALID_CREDENTIALS,
            },
            request => {
                let batch = batch.as_mut().unwrap();
                batch.execute(&directory.requester.context(), request, &controls, stamp).code
            }
        };
        if out.is_empty() {
            encode_result(
                &mut out,
                message.id,
                ResponseOp::SearchDone,
                &LdapResult::new(code, ""),
                Controls::NONE,
            );
        }
        succeeded += usize::from(code == ResultCode::SUCCESS);
    }
    if let Some(batch) = batch {
        batch.commit().unwrap();
    }
    succeeded
}

fn search(base: &str, scope: Scope, filter: &str, attributes: &[&str]) -> Vec<u8> {
    let filter = FilterBuf::parse(filter).unwrap();
    let selection = SelectionBuf::from_iter(attributes);
    encode(Request::Search(SearchRequest::new(base, scope, filter.as_filter(), selection.as_selection())))
}

/// Encodes a search request with one control.
fn page(base: &str, scope: Scope, filter: &str, attributes: &[&str], control: Control<'_>) -> Vec<u8> {
    let filter = FilterBuf::parse(filter).unwrap();
    let selection = SelectionBuf::from_iter(attributes);
    let request = SearchRequest::new(base, scope, filter.as_filter(), selection.as_selection());
    encode_with(Request::Search(request), ControlsBuf::from_iter([control]).as_controls())
}

fn encode(request: Request<'_>) -> Vec<u8> {
    encode_with(request, Controls::NONE)
}

fn encode_with(request: Request<'_>, controls: Controls<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    Message { id: MessageId(1), request, controls }.encode(&mut out);
    out
}
