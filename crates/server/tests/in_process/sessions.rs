//! Connections and their requests: time limits, other limits, and turns.

use crate::running;

use std::io::{Read, Write};
use std::net::TcpStream;

use client::Connection;
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, Controls, FilterBuf, Message, MessageId, Request, ResultCode,
    Scope, SearchRequest, SelectionBuf,
};
use running::{Folder, Running, SUFFIX, config};
use server::{Config, Opened};

/// Checks the data directory. Returns what was found.
fn findings(config: &Config) -> Vec<String> {
    let mut findings = Vec::new();
    server::verify(config, &mut |finding| findings.push(finding.text.clone())).unwrap();
    findings
}

fn person_dn(name: &str) -> String {
    format!("uid={name},{SUFFIX}")
}

fn add_person(connection: &mut Connection, name: &str, description: &str) {
    let attributes = [
        ("objectClass", "inetOrgPerson"),
        ("uid", name),
        ("cn", name),
        ("sn", name),
        ("description", description),
    ];
    let outcome = connection.add(&person_dn(name), &attributes).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
}

/// Returns the encoded message of a request that adds a person.
fn add_message(id: i32, name: &str) -> Vec<u8> {
    let (dn, mut attributes) = (person_dn(name), AttributesBuf::new());
    for (description, value) in [("objectClass", "inetOrgPerson"), ("uid", name), ("cn", name), ("sn", name)]
    {
        attributes.push(description, [value]);
    }
    let request = Request::Add(AddRequest { entry: &dn, attributes: attributes.as_attributes() });
    encode(id, request)
}

fn search_message(id: i32, filter: &str) -> Vec<u8> {
    let (filter, attributes) = (FilterBuf::parse(filter).unwrap(), SelectionBuf::new());
    encode(
        id,
        Request::Search(SearchRequest::new(
            SUFFIX,
            Scope::WholeSubtree,
            filter.as_filter(),
            attributes.as_selection(),
        )),
    )
}

fn encode(id: i32, request: Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { id: MessageId(id), request, controls: Controls::NONE }.encode(&mut bytes);
    bytes
}

#[test]
fn answered_changes_are_visible_on_every_connection() {
    let folder = Folder::new();
    let running = Running::start(config(&folder));
    // The acceptor gives these connections to different event loops. Therefore the reader's loop does not receive the
    // answer to the change.
    let (mut writer, mut reader) = (running.administrator(), running.administrator());
    add_person(&mut writer, "anna", "0");
    for round in 1..=200 {
        let value = round.to_string();
        let change = (ChangeOperation::Replace, "description", &[value.as_str()][..]);
        assert!(writer.modify(&person_dn("anna"), &[change]).unwrap().is_success());
        let entry = reader.entry(&person_dn("anna"), &["description"]).unwrap().unwrap();
        assert_eq!(entry.text("description"), Some(value));
    }
}

#[test]
fn more_requests_than_may_be_outstanding_are_all_answered() {
    let folder = Folder::new();
    let mut config = config(&folder);
    config.online.outstanding_max = 2;
    let running = Running::start(config);
    let mut admin = running.administrator();
    let mut bytes = Vec::new();
    for id in 100..200 {
        bytes.extend(add_message(id, &format!("p{id}")));
    }
    bytes.extend(search_message(200, "(objectClass=*)"));
    admin.send_bytes(&bytes).unwrap();
    for id in 100..200 {
        assert_eq!(admin.reply(MessageId(id)).unwrap().outcome.code, ResultCode::SUCCESS, "{id}");
    }
    // The search does not wait for outstanding changes. It may have returned only a few of them.
    assert!(admin.reply(MessageId(200)).unwrap().outcome.is_success());
}

#[test]
fn an_id_that_is_outstanding_is_refused_for_another_request() {
    let folder = Folder::new();
    let running = Running::start(config(&folder));
    let mut admin = running.administrator();
    // All messages are in one write. Changes are sent to the writer at the end of the pass. Therefore the first change
    // is certainly outstanding when the server reads the second change.
    let bytes = [add_message(7, "first"), add_message(7, "second"), add_message(8, "third")].concat();
    admin.send_bytes(&bytes).unwrap();
    let mut codes: Vec<(i32, ResultCode)> = Vec::new();
    for _ in 0..3 {
        let received = admin.receive_any().unwrap();
        codes.push((received.id().0, received.outcome().unwrap().code));
    }
    codes.sort_unstable();
    assert_eq!(codes, [(7, ResultCode::SUCCESS), (7, ResultCode::PROTOCOL_ERROR), (8, ResultCode::SUCCESS)]);
    assert!(admin.entry(&person_dn("second"), &[]).unwrap().is_none());
}

#[test]
fn a_slow_reader_gets_everything_and_delays_no_other_client() {
    let folder = Folder::new();
    let mut config = config(&folder);
    config.threads = 1;
    let running = Running::start(config);
    let mut admin = running.administrator();
    let text = "x".repeat(900);
    for index in 0..100 {
        add_person(&mut admin, &format!("p{index}"), &text);
    }
    // A hundred searches with a hundred entries each. Their results have 10 MB, which is far more than the buffers of
    // the sockets can contain. The client does not read them yet.
    let mut slow = running.administrator();
    for id in 0..100 {
        slow.send_bytes(&search_message(1_000 + id, "(objectClass=person)")).unwrap();
    }
    // The event loop of both connections continues to serve the other connection.
    for _ in 0..50 {
        assert!(admin.entry(&person_dn("p1"), &["cn"]).unwrap().is_some());
    }
    for id in 0..100 {
        let reply = slow.reply(MessageId(1_000 + id)).unwrap();
        assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SUCCESS, 100));
    }
}

#[test]
fn refuses_too_many_connections_with_a_notice() {
    let folder = Folder::new();
    let mut config = config(&folder);
    config.online.connections_max = 1;
    let running = Running::start(config);
    let mut first = running.administrator();
    let notice = running.connect().closed().unwrap();
    assert!(notice.as_deref().is_some_and(|notice| notice.starts_with("busy")), "{notice:?}");
    assert!(first.entry(SUFFIX, &[]).unwrap().is_some());
}

#[test]
fn closes_idle_connections_with_a_notice() {
    let folder = Folder::new();
    let mut config = config(&folder);
    config.online.idle_timeout = Some(std::time::Duration::from_millis(1));
    config.online.trusted_networks = Vec::new();
    let running = Running::start(config);
    let notice = running.connect().closed().unwrap();
    assert!(notice.as_deref().is_some_and(|notice| notice.starts_with("adminLimitExceeded")), "{notice:?}");
}

/// Octets without a complete request do not extend the time limit. A client that sends a request in time stays
/// connected.
#[test]
fn the_first_request_has_a_deadline() {
    let folder = Folder::new();
    let mut config = config(&folder);
    config.online.idle_timeout = None;
    config.online.first_request_timeout = Some(std::time::Duration::from_millis(300));
    config.online.trusted_networks = Vec::new();
    let running = Running::start(config);
    let mut active = running.connect();
    assert!(active.entry("", &[]).unwrap().is_some());
    let mut slow = TcpStream::connect(running.address).unwrap();
    // Sends an incomplete message, one octet at a time, until the server closes the connection.
    let mut answer = Vec::new();
    slow.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
    for octet in [0x30_u8, 0x81, 200].into_iter().chain(std::iter::repeat(0)) {
        let is_over = slow.write_all(&[octet]).is_err();
        let mut some = [0; 512];
        match std::io::Read::read(&mut slow, &mut some) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && !is_over => {}
            Err(_) => break,
        }
    }
    assert!(String::from_utf8_lossy(&answer).contains("no request came in time"), "{answer:?}");
    let notice = running.connect().closed().unwrap();
    assert!(notice.is_some_and(|notice| notice.contains("no request came in time")));
    assert!(active.entry("", &[]).unwrap().is_some(), "this connection has sent a request");
}

/// Connects to the server from the address `source`.
fn connect_from(source: [u8; 4], running: &Running) -> Connection {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&running.address.into()).unwrap();
    Connection::over_tcp(socket.into()).unwrap()
}

#[test]
fn an_address_is_limited_to_its_share_once_half_of_the_places_are_used() {
    let folder = Folder::new();
    let mut config = config(&folder);
    (config.online.connections_max, config.online.trusted_networks) = (16, Vec::new());
    let running = Running::start(config);
    let is_served = |connection: &mut Connection| connection.entry("", &[]).is_ok_and(|root| root.is_some());
    let greedy = [127, 0, 0, 9];
    let mut held = Vec::new();
    for number in 0..8 {
        held.push(connect_from(greedy, &running));
        assert!(is_served(&mut held[number]), "{number}: a place is free");
    }
    let notice = connect_from(greedy, &running).closed().unwrap();
    assert!(notice.is_some_and(|why| why.contains("too many connections from this address")));
    // Other sources receive their share, which is an eighth of all connections.
    for source in [[127, 0, 0, 10], [127, 0, 0, 11]] {
        for _ in 0..2 {
            held.push(connect_from(source, &running));
            assert!(is_served(held.last_mut().unwrap()), "{source:?}");
        }
        assert!(!is_served(&mut connect_from(source, &running)), "{source:?}");
    }
    // When connections are closed, new connections are accepted.
    held.clear();
    while !is_served(&mut connect_from(greedy, &running)) {}
}

#[test]
fn the_rate_of_new_connections_of_an_address_is_limited() {
    let folder = Folder::new();
    let mut config = config(&folder);
    (config.online.connects_per_second_max, config.online.trusted_networks) = (Some(1), Vec::new());
    let running = Running::start(config);
    // One connection per second is permitted, and this loop takes less than a minute.
    let served = (0..60).filter(|_| connect_from([127, 0, 0, 9], &running).entry("", &[]).is_ok()).count();
    assert!((1..60).contains(&served), "{served}");
    assert!(connect_from([127, 0, 0, 10], &running).entry("", &[]).is_ok(), "another address");
}

#[test]
fn an_oversized_message_is_refused_after_its_header() {
    let folder = Folder::new();
    let running = Running::start(config(&folder));
    let mut stream = TcpStream::connect(running.address).unwrap();
    // The first six octets of a message of 3 MiB. The rest is never sent.
    stream.write_all(&[0x30, 0x84, 0x00, 0x30, 0x00, 0x00]).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains(ldap::oids::NOTICE_OF_DISCONNECTION) && answer.contains("2097152"), "{answer}");
}

#[test]
fn a_reload_applies_online_settings_and_reports_the_rest() {
    let folder = Folder::new();
    let started = config(&folder);
    let running = Running::start(started.clone());
    assert!(running.connect().entry(SUFFIX, &[]).is_ok_and(|entry| entry.is_none()));
    let mut changed = started.clone();
    changed.anonymous_read = true;
    changed.threads = 5;
    changed.online.message_size_unauthenticated_max = 100;
    let reloaded = running.handle.reload(changed.clone()).unwrap();
    assert_eq!(reloaded.applied, ["anonymous_read", "limits or timeouts"]);
    assert_eq!(reloaded.need_restart, ["threads"]);
    assert!(running.connect().entry(SUFFIX, &[]).unwrap().is_some());
    assert_eq!(running.handle.reload(changed).unwrap().need_restart, ["threads"], "until it is restarted");
    let notice = {
        let mut connection = running.connect();
        connection.send_bytes(&search_message(1, &format!("(cn={})", "x".repeat(100)))).unwrap();
        connection.closed().unwrap()
    };
    assert!(notice.is_some_and(|notice| notice.contains("100")));
    // The reload did not contain the password, so the old password is still valid.
    running.administrator();
}

#[test]
fn a_stopping_server_answers_and_keeps_all_accepted_changes() {
    let folder = Folder::new();
    let mut running = Running::start(config(&folder));
    let mut admin = running.administrator();
    let mut bytes = Vec::new();
    for id in 100..400 {
        bytes.extend(add_message(id, &format!("p{id}")));
    }
    admin.send_bytes(&bytes).unwrap();
    // When the first change is answered, each other change is outstanding or done. All of them are answered.
    assert!(admin.reply(MessageId(100)).unwrap().outcome.is_success());
    running.stop();
    let mut answered = vec![100];
    for id in 101..400 {
        match admin.reply(MessageId(id)) {
            Ok(reply) if reply.outcome.is_success() => answered.push(id),
            Ok(reply) => panic!("{:?}", reply.outcome),
            Err(_) => break,
        }
    }
    let running = Running::start(config(&folder));
    let mut admin = running.administrator();
    for id in answered {
        assert!(admin.entry(&person_dn(&format!("p{id}")), &[]).unwrap().is_some(), "p{id} was answered");
    }
}

#[test]
fn the_monitor_counts_operations_connections_and_memory() {
    let folder = Folder::new();
    let running = Running::start(config(&folder));
    let mut admin = running.administrator();
    add_person(&mut admin, "anna", "x");
    for _ in 0..3 {
        assert!(admin.entry(&person_dn("nobody"), &[]).unwrap().is_none());
    }
    // The request contains no list of attributes. The figures are returned because they are user attributes.
    let mut number = |dn: &str, attribute: &str| -> u64 {
        let entry = admin.entry(dn, &[]).unwrap().unwrap_or_else(|| panic!("no {dn}"));
        entry
            .text(attribute)
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("no {attribute} in {dn}"))
    };
    assert_eq!(number("cn=noSuchObject,cn=search,cn=Operations,cn=monitor", "monitorCounter"), 3);
    assert_eq!(number("cn=add,cn=Operations,cn=monitor", "monitorOpCompleted"), 1);
    assert_eq!(number("cn=Current,cn=Connections,cn=monitor", "monitorCounter"), 1);
    assert!(number("cn=Position,cn=Log,cn=monitor", "monitorCounter") >= 2);
    assert!(number("cn=Private Memory Bytes,cn=Process,cn=monitor", "monitorCounter") > 0);
}

#[test]
fn builds_an_index_between_the_changes_of_clients() {
    const LOADED: usize = 2_000;
    let folder = Folder::new();
    let mut opened = Opened::open(config(&folder)).unwrap();
    let values = |text: String| vec![text.into_bytes()];
    let person = |number: usize| {
        let attributes = [
            ("objectClass", "inetOrgPerson".to_owned()),
            ("cn", "x".to_owned()),
            ("sn", "x".to_owned()),
            ("description", format!("Sits in room {number} and likes it")),
        ];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), values(value)));
        (person_dn(&format!("p{number}")), attributes.to_vec())
    };
    let suffix = [("objectClass", "domain"), ("dc", "example")];
    let suffix = suffix.map(|(name, value)| (name.to_owned(), values(value.to_owned())));
    let people = (0..LOADED).map(person);
    opened.load([(SUFFIX.to_owned(), suffix.to_vec())].into_iter().chain(people)).unwrap();
    opened.define_index("description", "substring".parse().unwrap()).unwrap();
    let mut running = Running::serve(opened);
    let mut admin = running.administrator();
    let mut added = 0;
    loop {
        let work = admin.search("cn=Indexes,cn=monitor", Scope::SingleLevel, "(objectClass=*)", &["1.1"]);
        let is_done = work.unwrap().entries.is_empty();
        let found = admin.search(SUFFIX, Scope::WholeSubtree, "(description=*the sea*)", &["1.1"]).unwrap();
        assert_eq!(found.entries.len(), added);
        let found =
            admin.search(SUFFIX, Scope::WholeSubtree, "(description=*room 1999 *)", &["1.1"]).unwrap();
        assert_eq!(found.entries.len(), 1);
        if is_done {
            break;
        }
        add_person(&mut admin, &format!("new{added}"), "Looks at the sea");
        added += 1;
        assert!(added < 10_000, "the index is never finished");
    }
    running.stop();
    assert_eq!(findings(&config(&folder)), Vec::<String>::new());
    let indexes = server::list_indexes(&config(&folder), false).unwrap();
    assert!(indexes.progress.is_empty() && indexes.defined.iter().any(|(name, _)| name == "description"));
}

#[test]
fn a_load_is_all_or_nothing() {
    let folder = Folder::new();
    let mut opened = Opened::open(config(&folder)).unwrap();
    let class = |name: &str| ("objectClass".to_owned(), vec![name.as_bytes().to_vec()]);
    let good = (SUFFIX.to_owned(), vec![class("domain"), ("dc".to_owned(), vec![b"example".to_vec()])]);
    let bad = (person_dn("anna"), vec![class("inetOrgPerson")]);
    let error = opened.load([good, bad]).unwrap_err().to_string();
    assert!(error.contains("uid=anna") && error.contains("objectClassViolation"), "{error}");
    assert!(opened.directory().is_empty().unwrap());
}

#[test]
fn the_administrator_s_password_is_generated_once() {
    let folder = Folder::new();
    let first = Opened::open(Config { admin_password: None, ..config(&folder) }).unwrap();
    let password = first.generated_password().unwrap().to_owned();
    drop(first);
    let opened = Opened::open(Config { admin_password: None, ..config(&folder) }).unwrap();
    assert_eq!(opened.generated_password(), None);
    let server = opened.start().unwrap();
    let mut connection = Connection::open(server.addresses()[0]).unwrap();
    assert!(connection.bind("cn=admin", &password).unwrap().is_success());
    server.handle().stop();
    server.wait().unwrap();
}

#[test]
fn a_check_finds_nothing_in_a_sound_directory_and_creates_no_data() {
    let folder = Folder::new();
    let missing = folder.path().join("missing");
    assert!(server::verify(&Config::new(&missing), &mut |_| {}).is_err());
    assert!(!missing.exists());
    let mut running = Running::start(config(&folder));
    // A process cannot check the data that it serves.
    assert!(server::verify(&config(&folder), &mut |_| {}).is_err());
    running.stop();
    assert_eq!(findings(&config(&folder)), Vec::<String>::new());
}

/// Regression test. Diagnostic messages contained the whole text of a client, even two megabytes.
#[test]
fn diagnostic_messages_repeat_only_excerpts_of_client_input() {
    let folder = Folder::new();
    let running = Running::start(config(&folder));
    let mut admin = running.administrator();
    let long = "x".repeat(900_000);
    let (name, description) = (format!("cn={long},{SUFFIX}"), format!("{long}-type"));
    let filter = format!("({long}=1)");
    let mut outcomes = vec![
        admin.add(&long, &[("objectClass", "device")]).unwrap(),
        admin.add(&name, &[("objectClass", long.as_str())]).unwrap(),
        admin.add(&name, &[("objectClass", "device"), (description.as_str(), "1")]).unwrap(),
        admin.modify(&name, &[(ChangeOperation::Add, "cn", &["1"])]).unwrap(),
        admin.modify(SUFFIX, &[(ChangeOperation::Add, description.as_str(), &["1"])]).unwrap(),
        admin.modify(SUFFIX, &[(ChangeOperation::Replace, "objectClass", &[long.as_str()])]).unwrap(),
        admin.modify(SUFFIX, &[(ChangeOperation::Add, "createTimestamp", &[long.as_str()])]).unwrap(),
        admin.modify_dn(SUFFIX, &long, None).unwrap(),
        admin.modify_dn(&name, "cn=a", Some(&long)).unwrap(),
        admin.delete(&name).unwrap(),
        admin.compare(&name, "cn", "1").unwrap(),
        admin.compare(SUFFIX, &description, "1").unwrap(),
        admin.compare(SUFFIX, "objectClass", &long).unwrap(),
        admin.extended(&long, None).unwrap().outcome,
        admin.bind(&long, "wrong").unwrap(),
    ];
    let mut connection = running.connect();
    for base in [long.as_str(), name.as_str()] {
        outcomes.push(connection.search(base, Scope::BaseObject, &filter, &[]).unwrap().outcome);
    }
    let too_long: Vec<_> = outcomes.iter().filter(|outcome| outcome.diagnostic.len() > 1_000).collect();
    assert!(too_long.is_empty(), "{too_long:?}");
    assert!(outcomes.iter().any(|outcome| outcome.diagnostic.contains('…')), "{outcomes:?}");
}
