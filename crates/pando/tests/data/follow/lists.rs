//! Copies of sources that have a list of changes instead of content synchronization.
//!
//! The exchanges with Active Directory, the retro change log and OpenDJ are scripted, according to MS-ADTS, the
//! documentation of 389 DS, and what OpenDJ 5.0.3 answered: none of these servers runs in these tests.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use ldap::response::{self, SearchEntryLens};
use ldap::{
    Control, Controls, ControlsBuf, DecodeLimits, DirSyncRequest, LdapResult, Message, PagedResults, Request,
    ResponseOp, oids,
};

use super::*;
use test_support::sync_source::read_message;

type Values = Vec<(&'static str, Vec<Vec<u8>>)>;

/// Answer of the source to the next search that has this base and whose filter contains this text.
struct Answer {
    base: &'static str,
    filter: &'static str,
    entries: Vec<(&'static str, Values)>,
    /// Control of the last message of the answer.
    control: Option<(&'static str, Vec<u8>)>,
    code: ResultCode,
    /// OID and expected value of a control of the request.
    expected: Option<(&'static str, Vec<u8>)>,
}

/// A source that gives its answers in order. A search that does not match the next answer returns no entries. The root
/// DSE and the suffix entry can always be read, except if `is_hidden` is true.
#[derive(Clone)]
struct ListSource {
    address: SocketAddr,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    root: Arc<Mutex<Values>>,
    is_hidden: Arc<AtomicBool>,
}

fn text(value: &str) -> Vec<Vec<u8>> {
    vec![value.as_bytes().to_vec()]
}

fn texts(values: &[&str]) -> Vec<Vec<u8>> {
    values.iter().map(|value| value.as_bytes().to_vec()).collect()
}

fn answer(base: &'static str, filter: &'static str, entries: Vec<(&'static str, Values)>) -> Answer {
    Answer { base, filter, entries, control: None, code: ResultCode::SUCCESS, expected: None }
}

impl ListSource {
    fn start(root: Values, answers: Vec<Answer>) -> ListSource {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let (root, is_hidden) = (Arc::new(Mutex::new(root)), Arc::new(AtomicBool::new(false)));
        let source = ListSource { address, answers, root, is_hidden };
        let shared = source.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = shared.clone();
                std::thread::spawn(move || serve(stream.unwrap(), &shared));
            }
        });
        source
    }

    /// Sets the first and the last number of the retro change log.
    fn set_numbers(&self, first: &str, last: &str) {
        let numbers = [("firstChangeNumber", text(first)), ("lastChangeNumber", text(last))];
        *self.root.lock().unwrap() =
            [("changelog", text("cn=changelog"))].into_iter().chain(numbers).collect();
    }

    /// Adds several answers in one step, because the copy may search at any time.
    fn push<const N: usize>(&self, answers: [Answer; N]) {
        self.answers.lock().unwrap().extend(answers);
    }

    fn wait_for_all_answers(&self) {
        until("all answers", || self.answers.lock().unwrap().is_empty().then_some(()));
    }
}

fn serve(mut stream: TcpStream, source: &ListSource) {
    let mut input = Vec::new();
    while read_message(&mut stream, &mut input) {
        let message = Message::decode(&input, &DecodeLimits::default()).unwrap();
        let (id, mut out) = (message.id, Vec::new());
        let success = LdapResult::new(ResultCode::SUCCESS, "");
        match message.request {
            Request::Bind(_) => response::encode_bind_response(&mut out, id, &success, None, Controls::NONE),
            Request::Search(search) => {
                let filter = search.filter.to_string();
                let given = if search.base_object.is_empty() {
                    Some(answer("", "", vec![("", source.root.lock().unwrap().clone())]))
                } else if search.scope == Scope::BaseObject && search.base_object == SUFFIX {
                    let entries =
                        if source.is_hidden.load(Relaxed) { vec![] } else { vec![(SUFFIX, vec![])] };
                    Some(answer("", "", entries))
                } else {
                    let mut answers = source.answers.lock().unwrap();
                    let is_next = answers
                        .front()
                        .is_some_and(|next| next.base == search.base_object && filter.contains(next.filter));
                    if is_next { answers.pop_front() } else { None }
                };
                let given = given.unwrap_or_else(|| answer("", "", Vec::new()));
                if let Some((oid, expected)) = &given.expected {
                    let control = message.controls.find(oid).and_then(|control| control.value);
                    assert_eq!(control, Some(&expected[..]), "{filter}");
                }
                for (dn, values) in &given.entries {
                    put_entry(&mut out, id, dn, values);
                }
                let mut control = given.control.clone();
                let sync = message.controls.find(oids::DIR_SYNC).and_then(|control| control.value);
                if let (None, Some(value)) = (&control, sync) {
                    // There are no changes, so return the same cookie: the last octet of the value.
                    control = Some((oids::DIR_SYNC, dir_sync(false, &value[value.len() - 1..])));
                }
                let controls = control.as_ref().map(|(oid, value)| {
                    let value = Some(&value[..]);
                    Control { oid, critical: false, value }
                });
                let controls = ControlsBuf::from_iter(controls);
                let result = LdapResult::new(given.code, "");
                response::encode_result(
                    &mut out,
                    id,
                    ResponseOp::SearchDone,
                    &result,
                    controls.as_controls(),
                );
            }
            _ => return,
        }
        if stream.write_all(&out).is_err() {
            return;
        }
        input.clear();
    }
}

fn put_entry(out: &mut Vec<u8>, id: ldap::MessageId, dn: &str, attributes: &Values) {
    let values_len = |values: &[Vec<u8>]| values.iter().map(|value| response::value_len(value.len())).sum();
    let attribute_len =
        |(name, values): &(&str, Vec<Vec<u8>>)| response::attribute_len(name.len(), values_len(values));
    let attributes_len = attributes.iter().map(attribute_len).sum();
    response::put_search_entry_header(
        out,
        id,
        SearchEntryLens { dn_len: dn.len(), attributes_len, controls_len: 0 },
    );
    out.extend_from_slice(dn.as_bytes());
    response::put_attributes_header(out, attributes_len);
    for (name, values) in attributes {
        response::put_attribute_header(out, name, values_len(values));
        values.iter().for_each(|value| response::put_value(out, value));
    }
    response::put_controls(out, Controls::NONE);
}

fn dir_sync(has_more: bool, cookie: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = ber::Writer::new(&mut out);
    let value = writer.begin(ber::Tag::SEQUENCE);
    writer.integer(has_more.into());
    writer.integer(0);
    writer.octet_string(cookie);
    writer.end(value);
    out
}

/// Returns an objectGUID. The text form has the first octets in reverse order, because they are little-endian.
fn guid(number: u8) -> Vec<Vec<u8>> {
    vec![[&[number, 0, 0, 0][..], &[7; 12]].concat()]
}

fn domain() -> (&'static str, Values) {
    (
        SUFFIX,
        vec![("objectClass", texts(&["top", "domain"])), ("dc", text("example")), ("objectGUID", guid(1))],
    )
}

fn person(
    dn: &'static str,
    cn: &'static str,
    number: u8,
    identifier: &'static str,
) -> (&'static str, Values) {
    let classes = texts(&["top", "person", "organizationalPerson", "inetOrgPerson"]);
    let mut values = vec![("objectClass", classes), ("cn", text(cn)), ("sn", text(cn))];
    values.push(match identifier {
        "objectGUID" => (identifier, guid(number)),
        "entryUUID" => (identifier, text(&format!("{number:08x}-0707-0707-0707-070707070707"))),
        _ => (identifier, text(&format!("{number:08x}-07070707-07070707-07070707"))),
    });
    (dn, values)
}

const ANNA: &str = "cn=Anna,dc=example,dc=com";
const BERT: &str = "cn=Bert,dc=example,dc=com";

#[test]
fn a_copy_follows_active_directory_by_dir_sync() {
    let root = vec![
        ("supportedControl", texts(&[oids::DIR_SYNC, oids::PAGED_RESULTS])),
        ("defaultNamingContext", text(SUFFIX)),
    ];
    let sync = |cookie: &[u8]| Some((oids::DIR_SYNC, DirSyncRequest { bytes_max: 1 << 20, cookie }.encode()));
    let cookie = |has_more, cookie: &[u8]| Some((oids::DIR_SYNC, dir_sync(has_more, cookie)));
    let members = |range: &'static str, names: &[&str]| (range, texts(names));
    let group = |range| {
        let classes = ("objectClass", texts(&["top", "groupOfNames"]));
        let guid = ("objectGUID", guid(9));
        ("cn=Team,dc=example,dc=com", vec![classes, ("cn", text("Team")), guid, members(range, &[ANNA])])
    };
    let anna = || person(ANNA, "Anna", 2, "objectGUID");
    let first = || vec![domain(), anna(), group("member;range=0-0")];
    let everything = || answer(SUFFIX, "(objectClass=*)", first());
    // The start of the copy requests a cookie and the entries. The group is too long for one answer, so the start
    // leaves the first copy to the thread that follows the source. That thread requests the cookie and the entries
    // again.
    let cookies = || {
        [
            Answer { control: cookie(true, b"0"), expected: sync(b""), ..answer(SUFFIX, "", vec![anna()]) },
            Answer { control: cookie(false, b"1"), expected: sync(b"0"), ..answer(SUFFIX, "", vec![]) },
        ]
    };
    let rest = answer(
        "cn=Team,dc=example,dc=com",
        "",
        vec![("cn=Team,dc=example,dc=com", vec![members("member;range=1-*", &[BERT])])],
    );
    let answers = cookies()
        .into_iter()
        .chain([everything()])
        .chain(cookies())
        .chain([everything(), answer(SUFFIX, "(objectGUID=\\09", vec![group("member;range=0-0")]), rest])
        .collect();
    let (scratch, source) = (Scratch::new("follow-dirsync"), ListSource::start(root, answers));
    let copy = follower(&scratch, source.address);
    until("the copy", || (figure(&copy, "State") == "following").then_some(()));
    let values = |dn: &str, name: &str| Some(copy.administrator().entry(dn, &[name]).unwrap()?.texts(name));
    assert_eq!(values(ANNA, "entryUUID"), Some(vec!["00000002-0707-0707-0707-070707070707".to_owned()]));
    assert_eq!(values("cn=Team,dc=example,dc=com", "member"), Some(vec![ANNA.to_owned(), BERT.to_owned()]));
    // DirSync sends a change and a delete, both as entries without a usable name.
    let changed = |number| ("cn=x,cn=Deleted Objects,dc=example,dc=com", vec![("objectGUID", guid(number))]);
    let changes = vec![changed(2), changed(3)];
    source.push([
        Answer { control: cookie(false, b"2"), expected: sync(b"1"), ..answer(SUFFIX, "", changes) },
        answer(SUFFIX, "(&(|(objectGUID=\\02", vec![person(BERT, "Bert", 3, "objectGUID")]),
        answer(BERT, "", vec![person(BERT, "Bert", 3, "objectGUID")]),
    ]);
    source.wait_for_all_answers();
    until("a new entry", || values(BERT, "cn"));
    until("a delete", || values(ANNA, "cn").is_none().then_some(()));
    assert_eq!(figure(&copy, "Rejected"), "0", "{}", copy.log());
}

/// Returns the suffix entry of a server with a retro change log.
fn retro_top() -> (&'static str, Values) {
    let (dn, mut values) = domain();
    values[2] = ("nsUniqueId", text("00000001-07070707-07070707-07070707"));
    (dn, values)
}

fn retro_person(dn: &'static str, cn: &'static str, number: u8) -> (&'static str, Values) {
    person(dn, cn, number, "nsUniqueId")
}

fn retro_unit() -> (&'static str, Values) {
    let classes = ("objectClass", texts(&["organizationalUnit"]));
    let id = ("nsUniqueId", text("00000005-07070707-07070707-07070707"));
    ("ou=later,dc=example,dc=com", vec![classes, ("ou", text("later")), id])
}

fn retro_change(number: &'static str, kind: &'static str, id: u8) -> (&'static str, Values) {
    let id = text(&format!("{id:08x}-07070707-07070707-07070707"));
    ("", vec![("changeNumber", text(number)), ("changeType", text(kind)), ("targetUniqueId", id)])
}

/// Starts a copy of a server with these entries, whose retro change log contains the changes up to number 41.
fn retro(scratch: &Scratch, entries: Vec<(&'static str, Values)>) -> (ListSource, Pando) {
    let source = ListSource::start(Vec::new(), vec![answer(SUFFIX, "(objectClass=*)", entries)]);
    source.set_numbers("1", "41");
    let copy = follower(scratch, source.address);
    (source, copy)
}

#[test]
fn a_copy_follows_a_retro_change_log() {
    let scratch = Scratch::new("follow-retro");
    let (source, copy) = retro(&scratch, vec![retro_top(), retro_person(ANNA, "Anna", 2)]);
    assert!(copy.log().contains("the first copy is made"), "{}", copy.log());
    let values = |copy: &Pando, dn: &str, name: &str| {
        Some(copy.administrator().entry(dn, &[name]).unwrap()?.texts(name))
    };
    // A rename arrives before the entry that becomes the new superior.
    let moved = "cn=Ann,ou=later,dc=example,dc=com";
    source.set_numbers("1", "43");
    source.push([
        answer("cn=changelog", "(changeNumber>=42)", vec![retro_change("42", "modrdn", 2)]),
        answer(SUFFIX, "(nsUniqueId=00000002-", vec![retro_person(moved, "Ann", 2)]),
        // The renamed entry waits, and is read again.
        answer(SUFFIX, "(nsUniqueId=00000002-", vec![retro_person(moved, "Ann", 2)]),
        answer("cn=changelog", "(changeNumber>=43)", vec![retro_change("43", "add", 5)]),
        answer(SUFFIX, "(nsUniqueId=00000005-", vec![retro_unit()]),
    ]);
    source.wait_for_all_answers();
    until("the renamed entry", || values(&copy, moved, "cn"));
    assert_eq!(figure(&copy, "Rejected"), "0", "{}", copy.log());
    until("the stored cookie", || (figure(&copy, "Cookie") == "number 43").then_some(()));
    // After a kill, the copy continues at the stored number. If the log was trimmed, the copy compares everything.
    copy.kill();
    let refused = |code| Answer { code, ..answer("cn=changelog", "(changeNumber>=44)", vec![]) };
    let content = answer(SUFFIX, "(objectClass=*)", vec![retro_top(), retro_unit()]);
    source.push([refused(ResultCode::UNWILLING_TO_PERFORM), content]);
    let copy = follower(&scratch, source.address);
    source.wait_for_all_answers();
    until("a delete", || values(&copy, moved, "cn").is_none().then_some(()));
    assert!(copy.log().contains("the whole content is compared"), "{}", copy.log());
}

#[test]
fn a_retro_change_log_that_lacks_changes_makes_the_copy_compare_everything() {
    let scratch = Scratch::new("follow-retro-trimmed");
    let (source, copy) = retro(&scratch, vec![retro_top(), retro_person(ANNA, "Anna", 2)]);
    let is_there = |dn| copy.administrator().entry(dn, &["1.1"]).unwrap().is_some();
    // The log was trimmed: without an error, the search returns only newer changes.
    source.push([answer(SUFFIX, "(objectClass=*)", vec![retro_top(), retro_person(BERT, "Bert", 3)])]);
    source.set_numbers("60", "70");
    source.wait_for_all_answers();
    until("the content", || (is_there(BERT) && !is_there(ANNA)).then_some(()));
    until("the new cookie", || (figure(&copy, "Cookie") == "number 70").then_some(()));
    // The log was recreated, and starts again at 1.
    source.push([answer(SUFFIX, "(objectClass=*)", vec![retro_top(), retro_person(ANNA, "Anna", 2)])]);
    source.set_numbers("1", "5");
    source.wait_for_all_answers();
    until("the content", || (is_there(ANNA) && !is_there(BERT)).then_some(()));
    until("the new cookie", || (figure(&copy, "Cookie") == "number 5").then_some(()));
}

#[test]
fn a_source_without_visible_entries_deletes_nothing_in_the_copy() {
    let scratch = Scratch::new("follow-hidden");
    let (source, copy) = retro(&scratch, vec![retro_top(), retro_person(ANNA, "Anna", 2)]);
    let is_there = |dn| copy.administrator().entry(dn, &["1.1"]).unwrap().is_some();
    let changes = || vec![retro_change("42", "modify", 1), retro_change("43", "modify", 2)];
    let listed = || answer("cn=changelog", "(changeNumber>=42)", changes());
    source.is_hidden.store(true, Relaxed);
    source.set_numbers("1", "43");
    // At first the suffix entry and the person are invisible. Later only the person is missing.
    source.push([listed(), answer(SUFFIX, "(&(|(nsUniqueId=00000001-", vec![])]);
    until("a message", || copy.log().contains("the source shows no entry at all").then_some(()));
    source.wait_for_all_answers();
    assert!(is_there(SUFFIX) && is_there(ANNA));
    source.is_hidden.store(false, Relaxed);
    source.push([listed(), answer(SUFFIX, "(&(|(nsUniqueId=00000001-", vec![retro_top()])]);
    until("a delete", || (!is_there(ANNA)).then_some(()));
    assert!(is_there(SUFFIX));
}

#[test]
fn entries_without_their_base_are_not_imported() {
    let scratch = Scratch::new("follow-no-base");
    let content = |top: Vec<_>| {
        answer(SUFFIX, "(objectClass=*)", top.into_iter().chain([retro_person(ANNA, "Anna", 2)]).collect())
    };
    // The first copy fails, because the first content lacks the base. The thread that follows the source then compares
    // the second content, which has the base.
    let source = ListSource::start(Vec::new(), vec![content(vec![]), content(vec![retro_top()])]);
    source.set_numbers("1", "41");
    let copy = follower(&scratch, source.address);
    assert!(copy.log().contains("but not the one at the base"), "{}", copy.log());
    assert!(!copy.log().contains("the first copy is made"), "{}", copy.log());
    until("the copy", || copy.administrator().entry(ANNA, &["1.1"]).unwrap());
}

#[test]
fn an_interrupted_comparison_deletes_nothing_in_the_copy() {
    let scratch = Scratch::new("follow-breaks-off");
    let (source, copy) =
        retro(&scratch, vec![retro_top(), retro_person(ANNA, "Anna", 2), retro_person(BERT, "Bert", 3)]);
    let is_there = |dn| copy.administrator().entry(dn, &["1.1"]).unwrap().is_some();
    // The second page of the comparison returns noSuchObject.
    let page = PagedResults { size: 0, cookie: b"next" }.encode();
    source.push([
        Answer {
            control: Some((oids::PAGED_RESULTS, page)),
            ..answer(SUFFIX, "(objectClass=*)", vec![retro_top()])
        },
        Answer { code: ResultCode::NO_SUCH_OBJECT, ..answer(SUFFIX, "(objectClass=*)", vec![]) },
        answer(SUFFIX, "(objectClass=*)", vec![retro_top(), retro_person(BERT, "Bert", 3)]),
    ]);
    source.set_numbers("60", "70");
    until("a message", || copy.log().contains("the source refuses the search for entries").then_some(()));
    until("a delete", || (!is_there(ANNA)).then_some(()));
    assert!(is_there(BERT));
}

/// Of large entries that one search returns, the first is kept, and the others are read again one by one.
#[test]
fn large_entries_are_read_one_by_one() {
    let scratch = Scratch::new("follow-large");
    let (source, copy) = retro(&scratch, vec![retro_top()]);
    let large = |dn, cn, number| {
        let (dn, mut values) = retro_person(dn, cn, number);
        values.push(("jpegPhoto", vec![vec![0xff; 9 << 20]]));
        (dn, values)
    };
    let changes = vec![retro_change("42", "add", 2), retro_change("43", "add", 3)];
    source.set_numbers("1", "43");
    source.push([
        answer("cn=changelog", "(changeNumber>=42)", changes),
        answer(SUFFIX, "(&(|(nsUniqueId=00000002-", vec![large(ANNA, "Anna", 2), large(BERT, "Bert", 3)]),
        answer(SUFFIX, "(&(nsUniqueId=00000003-", vec![large(BERT, "Bert", 3)]),
    ]);
    source.wait_for_all_answers();
    for dn in [ANNA, BERT] {
        until("a large entry", || copy.administrator().entry(dn, &["1.1"]).unwrap());
    }
    assert_eq!(figure(&copy, "Rejected"), "0", "{}", copy.log());
}

/// Regression test, found with OpenDJ: after a kill, its change log lacked the newest deletes.
#[test]
fn deletes_that_a_killed_opendj_has_lost_are_found() {
    let root = vec![
        ("supportedControl", texts(&[oids::CHANGE_LOG_COOKIE, oids::PAGED_RESULTS])),
        ("changelog", text("cn=changelog")),
        ("lastExternalChangelogCookie", text("dc=example,dc=com:1;")),
    ];
    let people =
        || [(ANNA, "Anna", 2), (BERT, "Bert", 3)].map(|(dn, cn, id)| person(dn, cn, id, "entryUUID"));
    let (top, mut values) = domain();
    values[2] = ("entryUUID", text("00000001-0707-0707-0707-070707070707"));
    let content = || {
        let entries = [(top, values.clone())].into_iter().chain(people());
        answer(SUFFIX, "(objectClass=*)", entries.collect())
    };
    let started = |time| answer("cn=monitor", "", vec![("cn=monitor", vec![("startTime", text(time))])]);
    let refused = || Answer { code: ResultCode::BUSY, ..answer("cn=changelog", "", vec![]) };
    let source = ListSource::start(root, vec![content(), started("20261129085132Z"), content()]);
    let scratch = Scratch::new("follow-opendj-lost");
    let copy = follower(&scratch, source.address);
    let is_there = |dn| copy.administrator().entry(dn, &["1.1"]).unwrap().is_some();
    source.wait_for_all_answers();
    until("the copy", || (figure(&copy, "State") == "following").then_some(()));
    // After a lost connection to the same process, the entries are not compared again.
    let change = ("changeLogCookie", text("dc=example,dc=com:2;"));
    let uuid = ("targetEntryUUID", text("00000003-0707-0707-0707-070707070707"));
    let changes = vec![("", vec![change, uuid, ("changeType", text("modify"))])];
    let [_, bert] = people();
    source.push([
        refused(),
        started("20261129085132Z"),
        answer("cn=changelog", "", changes),
        answer(SUFFIX, "(entryUUID=00000003-", vec![bert.clone()]),
    ]);
    source.wait_for_all_answers();
    until("the cookie", || figure(&copy, "Cookie").ends_with(":2;").then_some(()));
    assert!(is_there(ANNA) && is_there(BERT));
    // After a restart, they are compared.
    let rest = answer(SUFFIX, "(objectClass=*)", vec![(top, values.clone()), bert]);
    source.push([
        refused(),
        started("20261129090000Z"),
        rest,
        answer(SUFFIX, "(entryUUID=00000002-", vec![]),
    ]);
    source.wait_for_all_answers();
    until("a delete", || (!is_there(ANNA)).then_some(()));
    assert!(is_there(SUFFIX) && is_there(BERT));
    assert_eq!(figure(&copy, "Rejected"), "0", "{}", copy.log());
}
