//! Long searches on the scan threads. They return the same results as on an event loop, do not delay other clients, and
//! the memory of their waiting results is limited.

use crate::running;

use client::{ClientError, Connection};
use directory::settings::GeneralSettings;
use ldap::{
    Controls, ExtendedRequest, FilterBuf, Message, MessageId, Request, ResultCode, Scope, SearchRequest,
    SelectionBuf,
};
use running::{Folder, Running, SUFFIX, config, config_with};
use server::{Config, Opened};

/// Number of people in the directory. Searches for them run on the scan threads.
const PEOPLE: usize = 3_000;

/// Number of octets of the description of each person for a large answer. Twelve answers are larger than the buffers of
/// the sockets.
const LARGE: usize = 3_600;

/// Starts a server with people. The description of each has `text_size` octets in four values.
fn people(config: Config, text_size: usize) -> Running {
    let mut opened = Opened::open(config).unwrap();
    let values = |texts: Vec<String>| texts.into_iter().map(String::into_bytes).collect::<Vec<_>>();
    let one = |text: &str| values(vec![text.to_owned()]);
    let suffix = vec![("objectClass".to_owned(), one("domain")), ("dc".to_owned(), one("example"))];
    let person = |number: usize| {
        let text = |part: usize| format!("{part} of {number} {}", "x".repeat(text_size / 4));
        let attributes = vec![
            ("objectClass".to_owned(), one("inetOrgPerson")),
            ("cn".to_owned(), one("x")),
            ("sn".to_owned(), one(if number.is_multiple_of(2) { "even" } else { "odd" })),
            ("description".to_owned(), values((0..4).map(text).collect())),
        ];
        (format!("uid=p{number},{SUFFIX}"), attributes)
    };
    opened.load([(SUFFIX.to_owned(), suffix)].into_iter().chain((0..PEOPLE).map(person))).unwrap();
    Running::serve(opened)
}

/// Sends several equal searches in one write. The server has then received all of them before it answers the first.
fn send_searches(
    connection: &mut Connection,
    count: usize,
    filter: &str,
    attributes: &[&str],
) -> Vec<MessageId> {
    let (filter, selection) = (FilterBuf::parse(filter).unwrap(), SelectionBuf::from_iter(attributes));
    let request =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let ids: Vec<MessageId> = (0..count as i32).map(|place| MessageId(1_000 + place)).collect();
    let mut bytes = Vec::new();
    for id in &ids {
        Message { id: *id, request: Request::Search(request), controls: Controls::NONE }.encode(&mut bytes);
    }
    connection.send_bytes(&bytes).unwrap();
    ids
}

fn monitored(connection: &mut Connection, name: &str) -> u64 {
    let dn = format!("cn={name},cn=Scans,cn=monitor");
    let entry = connection.entry(&dn, &["monitorCounter"]).unwrap().unwrap();
    entry.text("monitorCounter").unwrap().parse().unwrap()
}

fn wait_until(connection: &mut Connection, name: &str, mut is_it: impl FnMut(u64) -> bool) {
    while !is_it(monitored(connection, name)) {}
}

#[test]
fn scan_threads_do_not_change_results() {
    let filters =
        ["(description=*1 of 7*)", "(sn=odd)", "(objectClass=*)", "(!(sn=odd))", "(|(sn=odd)(uid=p2))"];
    let mut answers = Vec::new();
    for scan_threads in [0, 1, 3] {
        let folder = Folder::new();
        let running = people(Config { scan_threads, ..config(&folder) }, 40);
        let mut admin = running.administrator();
        answers.push(filters.map(|filter| {
            let reply = admin.search(SUFFIX, Scope::WholeSubtree, filter, &["description", "sn"]).unwrap();
            assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
            reply.entries
        }));
        let begun = monitored(&mut admin, "Total");
        assert_eq!(begun > 0, scan_threads > 0, "{scan_threads} threads, {begun} scans");
        assert_eq!(monitored(&mut admin, "Running"), 0);
    }
    let counts = [&answers[0][0], &answers[0][1], &answers[0][2]].map(Vec::len);
    // The names that begin with 7: 7 itself, 70 to 79, and 700 to 799.
    assert_eq!(counts, [111, PEOPLE / 2, PEOPLE + 1]);
    assert!(answers[1] == answers[0] && answers[2] == answers[0]);
}

#[test]
fn scan_threads_observe_the_search_limits() {
    let folder = Folder::new();
    let general =
        GeneralSettings { size_limit: 2_500, unindexed_examined_max: 2_600, ..GeneralSettings::default() };
    let running = people(config_with(&folder, general), 40);
    let mut admin = running.administrator();
    assert!(admin.add(&format!("uid=u,{SUFFIX}"), &USER).unwrap().is_success());
    let mut user = running.connect();
    assert!(user.bind(&format!("uid=u,{SUFFIX}"), "secret").unwrap().is_success());
    let reply = user.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &["1.1"]).unwrap();
    assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SIZE_LIMIT_EXCEEDED, 2_500));
    // No index can answer this search. Therefore it is refused after it has examined too many entries.
    let reply = user.search(SUFFIX, Scope::WholeSubtree, "(!(objectClass=*))", &["1.1"]).unwrap();
    assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SUCCESS, 0), "no entry is examined");
    let reply = user.search(SUFFIX, Scope::WholeSubtree, "(!(description=*of*))", &["1.1"]).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::UNWILLING_TO_PERFORM);
    assert!(reply.outcome.diagnostic.starts_with("2602 entries to look at"), "{:?}", reply.outcome);
    // The suffix entry has no description. Therefore it is the only result.
    assert_eq!(reply.entries.len(), 1);
}

#[test]
fn a_user_that_scans_continuously_is_limited_to_its_share() {
    let folder = Folder::new();
    let general = GeneralSettings { scan_share_percent: 1, ..GeneralSettings::default() };
    // There are no scan threads here, because they may get little processor time while other tests run.
    let running = people(Config { scan_threads: 0, ..config_with(&folder, general) }, 40);
    let mut admin = running.administrator();
    for name in ["u", "v"] {
        assert!(admin.add(&format!("uid={name},{SUFFIX}"), &USER).unwrap().is_success());
    }
    let bound = |name: &str| {
        let mut user = running.connect();
        assert!(user.bind(&format!("uid={name},{SUFFIX}"), "secret").unwrap().is_success());
        user
    };
    let mut greedy = bound("u");
    let search = |connection: &mut Connection, filter: &str| {
        connection.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).unwrap()
    };
    let unindexed = "(description=*1 of 7*)";
    let refused = loop {
        let reply = search(&mut greedy, unindexed);
        if !reply.outcome.is_success() {
            break reply.outcome;
        }
        assert_eq!(reply.entries.len(), 111);
    };
    assert_eq!(refused.code, ResultCode::ADMIN_LIMIT_EXCEEDED);
    for part in [
        "have taken 1 % of the scan threads' time for a minute (limits.scan_share, or limit.scan_share of",
        "missing: a substring index on description (indexes.description = [\"substring\"])",
    ] {
        assert!(refused.diagnostic.contains(part), "{}", refused.diagnostic);
    }
    assert!(monitored(&mut admin, "Refused") > 0);
    // Searches with an index, and searches of clients that have not used up their share, are still answered.
    let indexed = search(&mut greedy, "(uid=p7)");
    assert_eq!((indexed.outcome.code, indexed.entries.len()), (ResultCode::SUCCESS, 1));
    for connection in [&mut bound("v"), &mut admin] {
        let reply = search(connection, unindexed);
        assert_eq!(
            (reply.outcome.code, reply.entries.len()),
            (ResultCode::SUCCESS, 111),
            "{:?}",
            reply.outcome
        );
    }
}

#[test]
fn index_advice_contains_no_values_of_searches() {
    let folder = Folder::new();
    let running = people(Config { scan_threads: 1, ..config(&folder) }, 40);
    let mut admin = running.administrator();
    let ask = |admin: &mut Connection, filter: &str| {
        let reply = admin.search(SUFFIX, Scope::WholeSubtree, filter, &["1.1"]).unwrap();
        assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
    };
    for text in ["1 of 7", "secret"] {
        ask(&mut admin, &format!("(description=*{text}*)"));
    }
    ask(&mut admin, "(&(objectClass=person)(|(description=*secret*)(cn=*secret*)))");
    ask(&mut admin, "(sn=odd)");
    ask(&mut admin, "(!(description=*secret*))");
    let advice = |admin: &mut Connection| -> Vec<(String, server::IndexProposal)> {
        let reply = admin.search("cn=Index Advice,cn=monitor", Scope::SingleLevel, "(cn=*)", &[]).unwrap();
        let texts = reply.entries.iter().map(|entry| (entry.text("cn"), entry.text("monitoredInfo")));
        texts.map(|(cn, info)| (cn.unwrap(), info.unwrap().parse().unwrap())).collect()
    };
    let all = advice(&mut admin);
    assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["cn", "description"]);
    let (_, description) = &all[1];
    assert_eq!(description.setting, "indexes.description = [\"substring\"]");
    assert_eq!(
        description.filters,
        ["(description=*?*)", "(&(objectClass=person)(|(description=*?*)(cn=*?*)))"]
    );
    let costs = description.costs;
    let examined = 2 * (PEOPLE as u64 + 1) + PEOPLE as u64;
    assert_eq!((costs.searches, costs.refused, costs.returned), (3, 0, 111));
    assert!((examined..=examined + 1).contains(&costs.examined), "{costs:?}");
    // After the index was defined, it is no longer proposed.
    let dn = "cn=description,cn=indexes,cn=config";
    let kinds = [("objectClass", "pandoIndex"), ("pandoIndexKind", "substring")];
    assert!(admin.add(dn, &kinds).unwrap().is_success());
    let left = advice(&mut admin);
    assert_eq!(left.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["cn"]);
    // Other users cannot read the advice.
    let reply = running.connect().search("cn=Index Advice,cn=monitor", Scope::SingleLevel, "(cn=*)", &[]);
    assert_eq!(reply.unwrap().outcome.code, ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
}

const USER: [(&str, &str); 5] =
    [("objectClass", "inetOrgPerson"), ("uid", "u"), ("cn", "u"), ("sn", "u"), ("userPassword", "secret")];

#[test]
fn a_slow_reader_stops_only_its_own_scan() {
    const SEARCHES: usize = 12;
    let folder = Folder::new();
    let running = people(Config { threads: 1, scan_threads: 2, ..config(&folder) }, LARGE);
    let (mut slow, mut admin) = (running.administrator(), running.administrator());
    let ids = send_searches(&mut slow, SEARCHES, "(objectClass=person)", &[]);
    wait_until(&mut admin, "Total", |begun| begun == SEARCHES as u64);
    // Searches that pause do not delay other clients. The pool works on one range of each search in turn. Without a
    // pause, each of the twelve searches would finish all of its ranges while the pool runs the two searches below.
    for _ in 0..2 {
        let found = admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=person)", &[]).unwrap();
        assert_eq!((found.outcome.code, found.entries.len()), (ResultCode::SUCCESS, PEOPLE));
    }
    // The client has read nothing of the 130 MB. The buffers of the sockets and the waiting results contain less than
    // half of them.
    assert!(monitored(&mut admin, "Entries Examined") < ((SEARCHES / 2 + 2) * PEOPLE) as u64);
    assert_eq!(monitored(&mut admin, "Running"), SEARCHES as u64);
    for id in ids {
        let reply = slow.reply(id).unwrap();
        assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SUCCESS, PEOPLE));
    }
    wait_until(&mut admin, "Running", |running| running == 0);
}

fn who_am_i() -> Request<'static> {
    Request::Extended(ExtendedRequest { name: "1.3.6.1.4.1.4203.1.11.3", value: None })
}

#[test]
fn an_abandoned_scan_ends() {
    const SEARCHES: usize = 12;
    let folder = Folder::new();
    let running = people(Config { scan_threads: 2, ..config(&folder) }, LARGE);
    let (mut connection, mut admin) = (running.administrator(), running.administrator());
    let ids = send_searches(&mut connection, SEARCHES, "(objectClass=person)", &[]);
    assert!(connection.receive_any().unwrap().outcome().is_none());
    for id in ids {
        connection.send(Request::Abandon(id), Controls::NONE).unwrap();
    }
    // The answer to the next request shows that the searches were abandoned. All of their results would not fit into
    // the buffers of the sockets. Therefore at least one search was still running.
    let last = connection.send(who_am_i(), Controls::NONE).unwrap();
    let (mut entries, mut done) = (1, 0);
    loop {
        let received = connection.receive_any().unwrap();
        match (received.id() == last, received.outcome()) {
            (true, Some(outcome)) => break assert!(outcome.is_success()),
            (false, Some(_)) => done += 1,
            (_, None) => entries += 1,
        }
    }
    assert!(done < SEARCHES && entries < SEARCHES * PEOPLE, "{done} done, {entries} entries");
    assert_eq!(monitored(&mut admin, "Running"), 0);
}

#[test]
fn a_cancelled_scan_ends_with_the_result_canceled() {
    const SEARCHES: usize = 12;
    let folder = Folder::new();
    let running = people(Config { scan_threads: 2, ..config(&folder) }, LARGE);
    let (mut connection, mut admin) = (running.administrator(), running.administrator());
    let ids = send_searches(&mut connection, SEARCHES, "(objectClass=person)", &[]);
    assert!(connection.receive_any().unwrap().outcome().is_none());
    let mut cancel = |id| {
        let value = ldap::encode_cancel(id);
        let request = ExtendedRequest { name: ldap::oids::CANCEL, value: Some(&value) };
        connection.send(Request::Extended(request), Controls::NONE).unwrap()
    };
    let cancels: Vec<MessageId> = ids.iter().map(|id| cancel(*id)).collect();
    let mut codes = std::collections::HashMap::new();
    while codes.len() < 2 * SEARCHES {
        let received = connection.receive_any().unwrap();
        if let Some(outcome) = received.outcome() {
            assert_eq!(codes.insert(received.id(), outcome.code), None, "each is answered once");
        }
    }
    for (search, cancel) in ids.iter().zip(&cancels) {
        match codes[cancel] {
            ResultCode::SUCCESS => assert_eq!(codes[search], ResultCode::CANCELED),
            code => assert_eq!((code, codes[search]), (ResultCode::NO_SUCH_OPERATION, ResultCode::SUCCESS)),
        }
    }
    assert!(codes.values().any(|code| *code == ResultCode::CANCELED), "{codes:?}");
    assert_eq!(monitored(&mut admin, "Running"), 0);
}

#[test]
fn closing_a_connection_ends_its_scans() {
    let folder = Folder::new();
    let running = people(Config { scan_threads: 2, ..config(&folder) }, LARGE);
    let (mut connection, mut admin) = (running.administrator(), running.administrator());
    send_searches(&mut connection, 12, "(objectClass=person)", &[]);
    wait_until(&mut admin, "Total", |begun| begun == 12);
    drop(connection);
    wait_until(&mut admin, "Running", |running| running == 0);
}

#[test]
fn the_time_limit_ends_a_scan_that_waits_for_its_client() {
    const SEARCHES: usize = 12;
    let folder = Folder::new();
    let general = GeneralSettings { time_limit_seconds: 1, size_limit: 0, ..GeneralSettings::default() };
    let running = people(config_with(&folder, general), LARGE);
    let mut admin = running.administrator();
    assert!(admin.add(&format!("uid=u,{SUFFIX}"), &USER).unwrap().is_success());
    let mut user = running.connect();
    assert!(user.bind(&format!("uid=u,{SUFFIX}"), "secret").unwrap().is_success());
    let ids = send_searches(&mut user, SEARCHES, "(objectClass=person)", &["description"]);
    wait_until(&mut admin, "Total", |begun| begun == SEARCHES as u64);
    wait_until(&mut admin, "Running", |running| running == 0);
    let codes: Vec<ResultCode> = ids.iter().map(|id| user.reply(*id).unwrap().outcome.code).collect();
    assert!(codes.contains(&ResultCode::TIME_LIMIT_EXCEEDED), "{codes:?}");
}

#[test]
fn more_scans_than_the_pool_takes_are_all_answered() {
    let folder = Folder::new();
    let running = people(Config { scan_threads: 2, ..config(&folder) }, 40);
    let mut admin = running.administrator();
    let ids = send_searches(&mut admin, 200, "(description=* of 2999 *)", &["1.1"]);
    for id in ids {
        let reply = admin.reply(id).unwrap();
        assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SUCCESS, 1));
    }
}

#[test]
fn a_stop_waits_for_scans() {
    let folder = Folder::new();
    let mut running = people(Config { scan_threads: 1, ..config(&folder) }, 40);
    let (mut connection, mut admin) = (running.administrator(), running.administrator());
    let ids = send_searches(&mut connection, 20, "(description=* of 2999 *)", &["1.1"]);
    wait_until(&mut admin, "Total", |begun| begun > 0);
    running.stop();
    for id in ids {
        match connection.reply(id) {
            Ok(reply) => assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SUCCESS, 1)),
            // The server stopped before it read this request, and has closed the connection.
            Err(ClientError::Closed { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
}
