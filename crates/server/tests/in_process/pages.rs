//! Paged results (RFC 2696) over several connections. The server keeps no state between pages. Therefore a cookie can
//! be used on any connection, and thousands of unfinished sequences cost nothing.

use crate::running;

use client::{Connection, Entry};
use directory::settings::GeneralSettings;
use ldap::{
    Control, ControlsBuf, FilterBuf, Message, MessageId, PagedResults, Request, ResultCode, Scope,
    SearchRequest, SelectionBuf, oids,
};
use running::{Folder, Running, SUFFIX, config, config_with};
use server::{Config, Opened};

/// Number of people in the directory. Searches for them run on the scan threads.
const PEOPLE: usize = 3_000;

fn people(config: Config) -> Running {
    let mut opened = Opened::open(config).unwrap();
    let one = |text: &str| vec![text.as_bytes().to_vec()];
    let suffix = vec![("objectClass".to_owned(), one("domain")), ("dc".to_owned(), one("example"))];
    let person = |number: usize| {
        let attributes = vec![
            ("objectClass".to_owned(), one("inetOrgPerson")),
            ("cn".to_owned(), one("x")),
            ("sn".to_owned(), one(if number.is_multiple_of(2) { "even" } else { "odd" })),
            ("description".to_owned(), one(&format!("person {number}"))),
        ];
        (format!("uid=p{number},{SUFFIX}"), attributes)
    };
    opened.load([(SUFFIX.to_owned(), suffix)].into_iter().chain((0..PEOPLE).map(person))).unwrap();
    Running::serve(opened)
}

const USER: [(&str, &str); 5] =
    [("objectClass", "inetOrgPerson"), ("uid", "u"), ("cn", "u"), ("sn", "u"), ("userPassword", "secret")];

/// Adds an ordinary user, to whom the limits apply. Returns a connection that is bound as that user.
fn user(running: &Running) -> Connection {
    let dn = format!("uid=u,{SUFFIX}");
    assert!(running.administrator().add(&dn, &USER).unwrap().is_success());
    let mut user = running.connect();
    assert!(user.bind(&dn, "secret").unwrap().is_success());
    user
}

/// Returns all pages of a search below the suffix. The pages are requested over `connections` in turn.
fn pages(connections: &mut [Connection], scope: Scope, filter: &str, size: u32) -> Vec<Vec<Entry>> {
    let (mut all, mut cookie) = (Vec::new(), Vec::new());
    loop {
        let place = all.len() % connections.len();
        let page = PagedResults { size, cookie: &cookie };
        let reply = connections[place].search_page(SUFFIX, scope, filter, &["sn"], page).unwrap();
        assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
        let next = reply.page().expect("a response control").1;
        all.push(reply.entries);
        if next.is_empty() {
            return all;
        }
        cookie = next;
    }
}

#[test]
fn pages_over_several_connections_add_up_to_the_whole_result() {
    for scan_threads in [0, 2] {
        let folder = Folder::new();
        let running = people(Config { scan_threads, ..config(&folder) });
        let mut connections = [running.administrator(), running.administrator(), running.administrator()];
        // The searches: a scan with few results, a scan with many results, a search with an index, and a scan of one
        // level.
        for (scope, filter) in [
            (Scope::WholeSubtree, "(description=*99*)"),
            (Scope::WholeSubtree, "(!(sn=odd))"),
            (Scope::WholeSubtree, "(sn=odd)"),
            (Scope::SingleLevel, "(objectClass=*)"),
        ] {
            let whole = connections[0].search(SUFFIX, scope, filter, &["sn"]).unwrap();
            assert!(whole.outcome.is_success());
            for size in [7, 1_000, 1_000_000] {
                let all = pages(&mut connections, scope, filter, size);
                let full = &all[..all.len() - 1];
                assert!(full.iter().all(|page| page.len() == size as usize), "{filter} in pages of {size}");
                assert!(all.concat() == whole.entries, "{filter} in pages of {size}");
            }
        }
    }
}

#[test]
fn a_cookie_is_valid_on_other_connections_and_after_a_restart() {
    let folder = Folder::new();
    let mut running = people(config(&folder));
    let page = |connection: &mut Connection, cookie: &[u8]| {
        let page = PagedResults { size: 1_000, cookie };
        connection.search_page(SUFFIX, Scope::SingleLevel, "(objectClass=person)", &["sn"], page).unwrap()
    };
    let first = page(&mut running.administrator(), b"");
    assert_eq!(first.entries.len(), 1_000);
    let (_, cookie) = first.page().unwrap();
    running.stop();
    let running = Running::start(config(&folder));
    let mut admin = running.administrator();
    let second = page(&mut admin, &cookie);
    assert_eq!(second.entries.len(), 1_000);
    assert!(second.entries.iter().all(|entry| !first.entries.contains(entry)));
    // Another user cannot use the cookie.
    let refused = page(&mut user(&running), &cookie);
    assert_eq!(refused.outcome.code, ResultCode::UNWILLING_TO_PERFORM);
    assert!(refused.entries.is_empty() && refused.outcome.diagnostic.contains("begin again"));
}

#[test]
fn a_paged_search_returns_all_entries_in_pages_of_the_size_limit() {
    let folder = Folder::new();
    let general = GeneralSettings { size_limit: 500, ..GeneralSettings::default() };
    let running = people(config_with(&folder, general));
    let mut user = user(&running);
    let whole = user.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    assert_eq!((whole.outcome.code, whole.entries.len()), (ResultCode::SIZE_LIMIT_EXCEEDED, 500));
    let all = pages(&mut [user], Scope::WholeSubtree, "(objectClass=*)", 1_000);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [500, 500, 500, 500, 500, 500, 2]);
}

/// Returns the encoded message of a request for a page.
fn page_message(id: i32, filter: &str, value: &[u8]) -> Vec<u8> {
    let (filter, selection) = (FilterBuf::parse(filter).unwrap(), SelectionBuf::from_iter(["1.1"]));
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let control = Control { oid: oids::PAGED_RESULTS, critical: false, value: Some(value) };
    let controls = ControlsBuf::from_iter([control]);
    let mut bytes = Vec::new();
    let (request, controls) = (Request::Search(request), controls.as_controls());
    Message { id: MessageId(id), request, controls }.encode(&mut bytes);
    bytes
}

#[test]
fn one_connection_can_hold_thousands_of_paged_searches() {
    const SEQUENCES: i32 = 3_000;
    let folder = Folder::new();
    let running = people(config(&folder));
    let mut admin = running.administrator();
    let filter = |number: i32| format!("(|(uid=p{number})(uid=p{})(uid=none))", (number + 1) % SEQUENCES);
    let first = PagedResults { size: 1, cookie: b"" }.encode();
    let mut cookies = Vec::new();
    for from in (0..SEQUENCES).step_by(100) {
        for number in from..from + 100 {
            admin.send_bytes(&page_message(1_000 + number, &filter(number), &first)).unwrap();
        }
        for number in from..from + 100 {
            let reply = admin.reply(MessageId(1_000 + number)).unwrap();
            assert_eq!((reply.outcome.is_success(), reply.entries.len()), (true, 1));
            cookies.push(reply.page().unwrap().1);
        }
    }
    // All sequences can be continued, although other requests were made and entries were deleted meanwhile.
    assert!(admin.delete(&format!("uid=p2,{SUFFIX}")).unwrap().is_success());
    for (number, cookie) in (0..SEQUENCES).zip(&cookies).step_by(7) {
        let value = PagedResults { size: 9, cookie }.encode();
        admin.send_bytes(&page_message(9_000, &filter(number), &value)).unwrap();
        let reply = admin.reply(MessageId(9_000)).unwrap();
        assert!(reply.outcome.is_success(), "{number}: {:?}", reply.outcome);
        assert_eq!(reply.entries.len(), 1, "{number}");
        assert_eq!(reply.page().unwrap().1, b"");
    }
}

#[test]
fn malformed_control_values_are_refused_and_the_connection_continues() {
    let folder = Folder::new();
    let running = people(config(&folder));
    let mut admin = running.administrator();
    let mut ask = |value: &[u8]| {
        admin.send_bytes(&page_message(7, "(uid=p1)", value)).unwrap();
        admin.reply(MessageId(7)).unwrap()
    };
    for value in
        [&b""[..], b"nonsense", &[0x30, 5, 2, 1, 0xff, 4, 0], &[0x30, 9, 2, 5, 0, 0x80, 0, 0, 0, 4, 0]]
    {
        let reply = ask(value);
        assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR, "{value:02x?}");
        assert!(reply.page().is_none());
    }
    for cookie in [vec![0x41; 1 << 20], vec![0], vec![1; 33], vec![0xff; 33]] {
        let reply = ask(&PagedResults { size: 5, cookie: &cookie }.encode());
        assert_eq!(reply.outcome.code, ResultCode::UNWILLING_TO_PERFORM, "{} octets", cookie.len());
    }
    let reply = ask(&PagedResults { size: i32::MAX as u32, cookie: b"" }.encode());
    assert_eq!((reply.outcome.is_success(), reply.entries.len()), (true, 1));
    assert_eq!(reply.page(), Some((1, Vec::new())));
}
