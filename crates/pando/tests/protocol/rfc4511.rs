//! Conformance to RFC 4511, and requests from faulty or hostile clients.

use client::{ClientError, Connection};
use ldap::{
    AddRequest, AttributesBuf, Authentication, BindRequest, CompareRequest, Control, ControlsBuf,
    ExtendedRequest, FilterBuf, Message, MessageId, Request, ResultCode, Scope, SearchRequest, SelectionBuf,
    oids,
};
use test_support::clients::ldap_utility;
use test_support::pando::Start;
use test_support::tree::{add_person, person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

const WHO_AM_I: &str = "1.3.6.1.4.1.4203.1.11.3";

fn bind_request<'a>(name: &'a str, password: &'a str) -> Request<'a> {
    let authentication = Authentication::Simple(password.as_bytes());
    Request::Bind(BindRequest { version: 3, name, authentication })
}

fn who_am_i<'a>() -> Request<'a> {
    Request::Extended(ExtendedRequest { name: WHO_AM_I, value: None })
}

/// Returns a modification that replaces the password.
fn password<'a>(values: &'a [&'a str]) -> (ldap::ChangeOperation, &'a str, &'a [&'a str]) {
    (ldap::ChangeOperation::Replace, "userPassword", values)
}

fn identity(connection: &mut Connection) -> String {
    let reply = connection.extended(WHO_AM_I, None).unwrap();
    assert!(reply.outcome.is_success(), "{:?}", reply.outcome);
    String::from_utf8(reply.extended.value.unwrap_or_default()).unwrap()
}

/// Encodes a search of the whole tree.
fn search_message(id: i32, filter: &str) -> Vec<u8> {
    let (filter, selection) = (FilterBuf::parse(filter).unwrap(), SelectionBuf::from_iter(["1.1"]));
    let request = Request::Search(SearchRequest::new(
        SUFFIX,
        Scope::WholeSubtree,
        filter.as_filter(),
        selection.as_selection(),
    ));
    encode(id, request)
}

fn encode(id: i32, request: Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Message { id: MessageId(id), request, controls: ldap::Controls::NONE }.encode(&mut bytes);
    bytes
}

#[test]
fn binds_answer_as_rfc_4513_says() {
    let scratch = Scratch::new("binds");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let anna = person_dn("anna");
    let cases: &[(&str, &str, ResultCode)] = &[
        ("", "", ResultCode::SUCCESS),
        (ADMIN_DN, ADMIN_PASSWORD, ResultCode::SUCCESS),
        (ADMIN_DN, "wrong", ResultCode::INVALID_CREDENTIALS),
        (&anna, "anna-secret", ResultCode::SUCCESS),
        (&anna, "bert-secret", ResultCode::INVALID_CREDENTIALS),
        (&anna, "", ResultCode::UNWILLING_TO_PERFORM),
        (ADMIN_DN, "", ResultCode::UNWILLING_TO_PERFORM),
        ("uid=nobody,dc=example,dc=com", "x", ResultCode::INVALID_CREDENTIALS),
        ("o=elsewhere", "x", ResultCode::INVALID_CREDENTIALS),
        ("not a dn", "x", ResultCode::INVALID_DN_SYNTAX),
    ];
    for (name, password, code) in cases {
        let outcome = pando.connect().bind(name, password).unwrap();
        assert_eq!(outcome.code, *code, "bind as {name:?} with {password:?}: {outcome:?}");
    }

    let mut connection = pando.connect();
    let version_2 = BindRequest { version: 2, name: "", authentication: Authentication::Simple(b"") };
    let reply = connection.request(Request::Bind(version_2), ldap::Controls::NONE).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR);
    let sasl = Authentication::Sasl { mechanism: "X-UNKNOWN", credentials: None };
    let request = Request::Bind(BindRequest { version: 3, name: "", authentication: sasl });
    let reply = connection.request(request, ldap::Controls::NONE).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::AUTH_METHOD_NOT_SUPPORTED);
}

#[test]
fn who_am_i_returns_the_identity_of_the_last_bind() {
    let scratch = Scratch::new("who-am-i");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let mut connection = pando.connect();
    assert_eq!(identity(&mut connection), "");
    assert!(connection.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    assert_eq!(identity(&mut connection), format!("dn:{ADMIN_DN}"));
    // Another spelling of the DN identifies the same entry. The response contains the spelling of the entry.
    assert!(connection.bind("UID=Anna, OU=people,dc=example,dc=com", "anna-secret").unwrap().is_success());
    assert_eq!(identity(&mut connection), format!("dn:{}", person_dn("anna")));
    // A failed bind leaves the connection anonymous (RFC 4513 section 4).
    assert!(!connection.bind(ADMIN_DN, "wrong").unwrap().is_success());
    assert_eq!(identity(&mut connection), "");
}

#[test]
fn anonymous_clients_see_no_entries_without_anonymous_read() {
    let scratch = Scratch::new("anonymous");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let mut anonymous = pando.connect();
    let reply = anonymous.search(SUFFIX, Scope::WholeSubtree, "(objectClass=*)", &[]).unwrap();
    assert!(reply.entries.is_empty() && !reply.outcome.is_success(), "{reply:?}");
    assert!(!anonymous.delete(&person_dn("bert")).unwrap().is_success());
    assert!(!anonymous.compare(&person_dn("bert"), "cn", "bert").unwrap().is_success());
    assert!(pando.stop().success());

    let pando = Start::new(&scratch).arguments(&["--anonymous-read"]).ready();
    let mut anonymous = pando.connect();
    let reply = anonymous.search(SUFFIX, Scope::WholeSubtree, "(uid=bert)", &[]).unwrap();
    assert_eq!(reply.entries.len(), 1);
    assert!(reply.entries[0].values("userPassword").is_empty(), "only the administrator reads passwords");
    assert_eq!(anonymous.delete(&person_dn("bert")).unwrap().code, ResultCode::STRONGER_AUTH_REQUIRED);
}

#[test]
fn users_read_entries_and_change_only_their_own_password() {
    let scratch = Scratch::new("own-password");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let mut connection = pando.connect();
    assert!(connection.bind(&anna, "anna-secret").unwrap().is_success());
    let entry = connection.entry(&bert, &["*"]).unwrap().expect("people can be read");
    assert!(entry.values("userPassword").is_empty());

    let refused = ResultCode::INSUFFICIENT_ACCESS_RIGHTS;
    assert_eq!(connection.modify(&bert, &[password(&["mine"])]).unwrap().code, refused);
    let title = (ldap::ChangeOperation::Replace, "title", &["queen"][..]);
    assert_eq!(connection.modify(&anna, &[title]).unwrap().code, refused);
    let outcome = connection.modify(&anna, &[password(&["changed"])]).unwrap();
    assert!(outcome.is_success(), "{outcome:?}");
    assert!(pando.connect().bind(&anna, "changed").unwrap().is_success());
    assert!(!pando.connect().bind(&anna, "anna-secret").unwrap().is_success());

    let stored = pando.administrator().entry(&anna, &["userPassword"]).unwrap().unwrap();
    let stored = stored.text("userPassword").unwrap();
    assert!(stored.starts_with("{ARGON2}"), "stored as {}", &stored[..stored.len().min(9)]);
    // A compare verifies a password against the stored hash.
    let mut admin = pando.administrator();
    assert_eq!(admin.compare(&anna, "userPassword", "changed").unwrap().code, ResultCode::COMPARE_TRUE);
    assert_eq!(admin.compare(&anna, "userPassword", "else").unwrap().code, ResultCode::COMPARE_FALSE);
}

#[test]
fn many_requests_outstanding_are_all_answered() {
    let scratch = Scratch::new("pipelining");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let mut bytes = Vec::new();
    for id in 100..1100 {
        let filter = if id % 2 == 0 { "(uid=anna)" } else { "(description=nothing has this)" };
        bytes.extend(search_message(id, filter));
    }
    admin.send_bytes(&bytes).unwrap();
    for id in 100..1100 {
        let reply = admin.reply(MessageId(id)).unwrap();
        assert!(reply.outcome.is_success());
        assert_eq!(reply.entries.len(), usize::from(id % 2 == 0), "message {id}");
    }
}

#[test]
fn octets_may_arrive_one_at_a_time() {
    let scratch = Scratch::new("dribble");
    let pando = Pando::start(&scratch);
    let mut connection = pando.connect();
    for octet in encode(5, who_am_i()) {
        connection.send_bytes(&[octet]).unwrap();
    }
    assert!(connection.reply(MessageId(5)).unwrap().outcome.is_success());
    // The last request of a client that closes its sending side is answered.
    connection.send_bytes(&encode(6, who_am_i())).unwrap();
    connection.finish_sending().unwrap();
    assert!(connection.reply(MessageId(6)).unwrap().outcome.is_success());
}

#[test]
fn requests_after_a_bind_wait_for_it() {
    let scratch = Scratch::new("bind-order");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let anna = person_dn("anna");
    let mut connection = pando.connect();
    // These requests are sent in one write: an anonymous request, a bind that needs a slow hash, and more requests.
    let mut bytes = encode(11, who_am_i());
    bytes.extend(encode(12, bind_request(&anna, "anna-secret")));
    bytes.extend(encode(13, who_am_i()));
    bytes.extend(encode(14, bind_request("", "")));
    bytes.extend(encode(15, who_am_i()));
    connection.send_bytes(&bytes).unwrap();
    let mut order = Vec::new();
    let mut names = Vec::new();
    for _ in 11..=15 {
        let received = connection.receive_any().unwrap();
        order.push(received.id().0);
        if let ldap::Response::Extended { value, .. } = received.message().response {
            names.push(String::from_utf8_lossy(value.unwrap_or_default()).into_owned());
        }
    }
    assert_eq!(order, [11, 12, 13, 14, 15]);
    assert_eq!(names, ["".to_owned(), format!("dn:{anna}"), "".to_owned()]);
}

#[test]
fn an_abandoned_request_leaves_the_connection_usable() {
    let scratch = Scratch::new("abandon");
    let pando = Start::new(&scratch).arguments(&["--sample"]).ready();
    let mut admin = pando.administrator();
    let mut bytes = search_message(20, "(description=*nothing*like*this*)");
    bytes.extend(search_message(21, "(objectClass=*)"));
    bytes.extend(encode(22, Request::Abandon(MessageId(21))));
    // An abandon of an unknown request, and of an abandon, is not an error and has no answer.
    bytes.extend(encode(23, Request::Abandon(MessageId(4711))));
    bytes.extend(encode(24, who_am_i()));
    admin.send_bytes(&bytes).unwrap();
    assert!(admin.reply(MessageId(20)).unwrap().outcome.is_success());
    assert!(admin.reply(MessageId(24)).unwrap().outcome.is_success());
    assert_eq!(identity(&mut admin), format!("dn:{ADMIN_DN}"));
}

/// The Cancel operation (RFC 3909).
#[test]
fn a_request_to_cancel_is_answered() {
    let scratch = Scratch::new("cancel");
    let pando = Start::new(&scratch).arguments(&["--sample"]).ready();
    let mut admin = pando.administrator();
    let mut cancel = |value: Option<&[u8]>| admin.extended(oids::CANCEL, value).unwrap().outcome.code;
    for value in [None, Some(&b""[..]), Some(&[0x30, 3, 2, 1, 0]), Some(&[0x30, 3, 2, 1, 0xff]), Some(b"1")] {
        assert_eq!(cancel(value), ResultCode::PROTOCOL_ERROR, "{value:?}");
    }
    assert_eq!(cancel(Some(&ldap::encode_cancel(MessageId(4711)))), ResultCode::NO_SUCH_OPERATION);
    // A change in the writer's queue cannot be cancelled. Requests in one write may be answered in any order.
    let person = format!("uid=cancelled,{SUFFIX}");
    let mut attributes = AttributesBuf::new();
    for (name, value) in [("objectClass", "inetOrgPerson"), ("cn", "C"), ("sn", "C")] {
        attributes.push(name, [value]);
    }
    let add = AddRequest { entry: &person, attributes: attributes.as_attributes() };
    let value = ldap::encode_cancel(MessageId(31));
    let request = ExtendedRequest { name: oids::CANCEL, value: Some(&value) };
    let mut bytes = encode(31, Request::Add(add));
    bytes.extend(encode(32, Request::Extended(request)));
    admin.send_bytes(&bytes).unwrap();
    assert_eq!(admin.reply(MessageId(32)).unwrap().outcome.code, ResultCode::TOO_LATE);
    assert!(admin.reply(MessageId(31)).unwrap().outcome.is_success());
    assert!(admin.entry(&person, &[]).unwrap().is_some());
}

/// A request in the queue of the hash pool can be cancelled. On a busy machine, the hash may be computed before Cancel
/// is read. Then Cancel is too late, and the change is made.
#[test]
fn cancel_stops_a_request_that_waits_for_a_hash() {
    let scratch = Scratch::new("cancel-hashes");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let mut stored = "anna-secret".to_owned();
    let cancel = |id: i32, of: i32| {
        let value = ldap::encode_cancel(MessageId(of));
        encode(id, Request::Extended(ExtendedRequest { name: oids::CANCEL, value: Some(&value) }))
    };
    let canceled = (ResultCode::SUCCESS, ResultCode::CANCELED);
    let (mut is_change_canceled, mut is_compare_canceled) = (false, false);
    for round in (0..1_000).step_by(10) {
        let (new, title) = (format!("secret-{round}"), format!("Title {round}"));
        let mut changes = ldap::ChangesBuf::new();
        changes.push(ldap::ChangeOperation::Replace, "userPassword", [&new]);
        let modify = ldap::ModifyRequest { object: &anna, changes: changes.as_changes() };
        let mut titled = ldap::ChangesBuf::new();
        titled.push(ldap::ChangeOperation::Replace, "title", [&title]);
        let behind = ldap::ModifyRequest { object: &anna, changes: titled.as_changes() };
        let compare = CompareRequest { entry: &anna, description: "userPassword", value: stored.as_bytes() };
        let requests = [
            encode(round + 1_001, Request::Modify(modify)),
            encode(round + 1_002, Request::Modify(behind)),
            cancel(round + 1_003, round + 1_001),
            encode(round + 1_004, Request::Compare(compare)),
            cancel(round + 1_005, round + 1_004),
        ];
        admin.send_bytes(&requests.concat()).unwrap();
        let mut code = |id: i32| admin.reply(MessageId(round + 1_000 + id)).unwrap().outcome.code;
        let (change, compare) = ((code(3), code(1)), (code(5), code(4)));
        assert_eq!(code(2), ResultCode::SUCCESS, "requests that waited for it continue");
        if change == canceled {
            is_change_canceled = true;
        } else {
            assert_eq!(change, (ResultCode::TOO_LATE, ResultCode::SUCCESS));
            stored = new;
        }
        is_compare_canceled |= compare == canceled;
        assert!(compare == canceled || compare.0 == ResultCode::NO_SUCH_OPERATION, "{compare:?}");
        assert!(pando.connect().bind(&anna, &stored).unwrap().is_success());
        assert_eq!(admin.entry(&anna, &["title"]).unwrap().unwrap().text("title"), Some(title));
        if is_change_canceled && is_compare_canceled {
            break;
        }
    }
    assert!(is_change_canceled && is_compare_canceled);
}

/// The No-Op control (draft-zeilenga-ldap-noop), as OpenLDAP's tools send it.
#[test]
fn a_no_op_change_changes_nothing() {
    let scratch = Scratch::new("no-operation");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let ask = |name: &str, code| {
        let ldif = format!("dn: {anna}\nchangetype: modify\nreplace: {name}\n{name}: new\n");
        ldap_utility("ldapmodify", pando.address(), &["-e", "!noop"], &ldif).expect_code(code)
    };
    // The exit status of the tool is the low octet of the result code.
    ask("roomNumber", 0x0e);
    ask("nonsense", 17);
    assert_eq!(admin.entry(&anna, &["roomNumber"]).unwrap().unwrap().text("roomNumber"), None);
}

#[test]
fn controls_are_refused_only_when_unknown_and_critical() {
    let scratch = Scratch::new("controls");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let compare = Request::Compare(CompareRequest { entry: &anna, description: "cn", value: b"anna" });
    for (oid, critical, code) in [
        ("1.2.3.4.5", true, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION),
        ("1.2.3.4.5", false, ResultCode::COMPARE_TRUE),
        (ldap::oids::MANAGE_DSA_IT, true, ResultCode::COMPARE_TRUE),
    ] {
        let controls = ControlsBuf::from_iter([Control { oid, critical, value: None }]);
        let reply = admin.request(compare, controls.as_controls()).unwrap();
        assert_eq!(reply.outcome.code, code, "{oid} {critical}: {:?}", reply.outcome);
    }
    // If a critical control is refused, the change is not made.
    let controls = ControlsBuf::from_iter([Control { oid: "1.2.3.4.5", critical: true, value: None }]);
    let delete = Request::Delete(ldap::DeleteRequest { entry: &anna });
    let reply = admin.request(delete, controls.as_controls()).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION);
    assert!(admin.entry(&anna, &[]).unwrap().is_some());
}

#[test]
fn unknown_extended_operations_are_protocol_errors() {
    let scratch = Scratch::new("extended");
    let pando = Pando::start(&scratch);
    let mut connection = pando.connect();
    let reply = connection.extended("1.2.3.4.5.6", Some(b"value")).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR);
    assert!(reply.outcome.diagnostic.contains("1.2.3.4.5.6"), "{:?}", reply.outcome);
    let reply = connection.extended(ldap::oids::TURN, None).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR);
    assert_eq!(reply.outcome.diagnostic, "Turn (1.3.6.1.1.19) is not supported here");
    assert_eq!(reply.extended.name, None, "RFC 4511 section 4.12: no name of what is not recognized");
    assert_eq!(identity(&mut connection), "", "the connection stays usable");
}

#[test]
fn other_protocols_end_the_connection_with_a_notice() {
    let scratch = Scratch::new("hostile");
    let pando = Pando::start(&scratch);
    let cases: &[(&str, &[u8])] = &[
        ("an HTTP request", b"GET / HTTP/1.1\r\n\r\n"),
        ("a message id of 0", &[0x30, 5, 2, 1, 0, 0x42, 0]),
        ("a negative message id", &[0x30, 5, 2, 1, 0xff, 0x42, 0]),
        ("an indefinite length", &[0x30, 0x80, 2, 1, 1, 0x42, 0, 0, 0]),
        ("a response", &[0x30, 12, 2, 1, 1, 0x65, 7, 10, 1, 0, 4, 0, 4, 0]),
        ("lengths that contradict each other", &[0x30, 6, 2, 1, 1, 0x60, 0x7f, 0]),
        ("a length of 4 GiB", &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]),
        ("a length in nine octets", &[0x30, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
    ];
    for (what, bytes) in cases {
        let mut connection = pando.connect();
        connection.send_bytes(bytes).unwrap();
        let notice = connection.closed().unwrap_or_else(|error| panic!("{what}: {error}"));
        let notice = notice.unwrap_or_else(|| panic!("{what}: closed without a notice of disconnection"));
        assert!(notice.starts_with("protocolError"), "{what}: {notice}");
    }
    assert_eq!(identity(&mut pando.connect()), "", "the server keeps running");
}

/// The server answers messages in which a few octets are changed, or closes the connection, and keeps running.
#[test]
fn mutated_messages_do_not_harm_the_server() {
    let scratch = Scratch::new("mutated");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    let mut random = fastrand::Rng::with_seed(test_support::seed());
    let (anna, nobody) = (person_dn("anna"), person_dn("nobody"));
    let compare = CompareRequest { entry: &anna, description: "cn", value: b"anna" };
    let originals = [
        encode(3, bind_request(&anna, "anna-secret")),
        search_message(4, "(&(uid=anna)(!(cn=b*r*t))(|(sn>=a)(member:dn:caseIgnoreMatch:=x)))"),
        encode(5, Request::Compare(compare)),
        encode(6, Request::Delete(ldap::DeleteRequest { entry: &nobody })),
        encode(7, who_am_i()),
        encode(8, Request::Abandon(MessageId(4))),
    ];
    for _ in 0..500 {
        let mut bytes: Vec<u8> =
            (0..3).flat_map(|_| originals[random.usize(..originals.len())].clone()).collect();
        for _ in 0..random.u8(1..5) {
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, random.u8(..)),
                2 => bytes[at] ^= 1 << random.u8(..8),
                _ => bytes[at] = random.u8(..),
            }
        }
        let mut connection = pando.connect();
        // The server may close the connection while the client writes.
        let _ = connection.send_bytes(&bytes).and_then(|()| connection.finish_sending());
        loop {
            match connection.receive_any() {
                Ok(_) => {}
                Err(ClientError::Closed { .. } | ClientError::Io(_)) => break,
                Err(error) => panic!("{error} after {bytes:02x?}"),
            }
        }
    }
    assert_eq!(identity(&mut pando.administrator()), format!("dn:{ADMIN_DN}"));
    assert_eq!(pando.administrator().entry(&anna, &["cn"]).unwrap().unwrap().texts("cn"), ["anna"]);
}

#[test]
fn a_malformed_request_with_a_valid_id_is_answered() {
    let scratch = Scratch::new("unreadable");
    let pando = Pando::start(&scratch);
    let mut connection = pando.connect();
    let mut bytes = search_message(7, "(uid=anna)");
    // The scope follows the base: an ENUMERATED of 2, changed to 9 here.
    let scope = bytes.windows(3).position(|window| window == [10, 1, 2]).unwrap();
    bytes[scope + 2] = 9;
    connection.send_bytes(&bytes).unwrap();
    let outcome = connection.reply(MessageId(7)).unwrap().outcome;
    assert_eq!(outcome.code, ResultCode::PROTOCOL_ERROR);
    assert!(outcome.diagnostic.contains("scope"), "{outcome:?}");
}

#[test]
fn limits_hold_before_authentication_and_are_wider_after() {
    let scratch = Scratch::new("limits");
    let pando = Pando::start(&scratch);
    let large = "x".repeat(3 << 20);
    let mut anonymous = pando.connect();
    let compare =
        Request::Compare(CompareRequest { entry: SUFFIX, description: "o", value: large.as_bytes() });
    let message = encode(3, compare);
    // The server may close the connection after the header, so the write may fail.
    let _ = anonymous.send_bytes(&message);
    match anonymous.closed() {
        Ok(notice) => assert!(notice.is_none_or(|notice| notice.starts_with("protocolError"))),
        Err(ClientError::Io(_)) => {}
        Err(error) => panic!("{error}"),
    }

    let mut admin = pando.administrator();
    plant(&mut admin);
    let compare =
        Request::Compare(CompareRequest { entry: SUFFIX, description: "o", value: large.as_bytes() });
    let reply = admin.request(compare, ldap::Controls::NONE).unwrap();
    assert!(matches!(reply.outcome.code, ResultCode::COMPARE_FALSE | ResultCode::INVALID_ATTRIBUTE_SYNTAX));

    let deep = format!("{}(uid=anna){}", "(!".repeat(60), ")".repeat(60));
    admin.send_bytes(&search_message(300, &deep)).unwrap();
    assert!(admin.reply(MessageId(300)).unwrap().outcome.is_success());
}

#[test]
fn filters_beyond_the_limits_are_refused() {
    let scratch = Scratch::new("filter-limits");
    let pando = Pando::start(&scratch);
    let mut connection = pando.administrator();
    plant(&mut connection);
    // The filter is nested deeper than the text form allows, so it is encoded by hand: NOT of NOT of ...
    // (objectClass=*).
    let mut filter = vec![0x87, 1, b'o'];
    for _ in 0..2000 {
        let mut outer = vec![0xa2];
        ber_length(&mut outer, filter.len());
        outer.append(&mut filter);
        filter = outer;
    }
    connection.send_bytes(&search_around(8, &filter)).unwrap();
    match connection.reply(MessageId(8)) {
        Ok(reply) => assert!(!reply.outcome.is_success(), "{:?}", reply.outcome),
        Err(ClientError::Closed { notice }) => assert!(notice.is_some()),
        Err(error) => panic!("{error}"),
    }
    let mut wide = Vec::new();
    (0..10_000).for_each(|_| wide.extend([0x87, 1, b'o']));
    let mut filter = vec![0xa1];
    ber_length(&mut filter, wide.len());
    filter.append(&mut wide);
    let mut connection = pando.administrator();
    connection.send_bytes(&search_around(9, &filter)).unwrap();
    match connection.reply(MessageId(9)) {
        Ok(reply) => assert!(!reply.outcome.is_success(), "{:?}", reply.outcome),
        Err(ClientError::Closed { notice }) => assert!(notice.is_some()),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(identity(&mut pando.connect()), "", "the server keeps running");
}

/// Encodes a search request with an encoded filter.
fn search_around(id: u8, filter: &[u8]) -> Vec<u8> {
    let mut request = vec![4, 0, 10, 1, 2, 10, 1, 0, 2, 1, 0, 2, 1, 0, 1, 1, 0];
    request.extend_from_slice(filter);
    request.extend([0x30, 0]);
    let mut message = vec![2, 1, id, 0x63];
    ber_length(&mut message, request.len());
    message.append(&mut request);
    let mut bytes = vec![0x30];
    ber_length(&mut bytes, message.len());
    bytes.append(&mut message);
    bytes
}

fn ber_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            out.push(0x84);
            out.extend((length as u32).to_be_bytes());
        }
    }
}

#[test]
fn users_have_limits_and_the_administrator_has_none() {
    let scratch = Scratch::new("size-limits");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    // The changes are pipelined, so that one group commit contains them.
    let mut ids = Vec::new();
    for index in 0..1005 {
        let (dn, uid) = (person_dn(&format!("p{index}")), format!("p{index}"));
        let mut list = ldap::AttributesBuf::new();
        list.push("objectClass", ["account"]);
        list.push("uid", [&uid]);
        let request = Request::Add(ldap::AddRequest { entry: &dn, attributes: list.as_attributes() });
        ids.push(admin.send(request, ldap::Controls::NONE).unwrap());
    }
    for id in ids {
        assert!(admin.reply(id).unwrap().outcome.is_success());
    }
    let all = admin.search(SUFFIX, Scope::WholeSubtree, "(objectClass=account)", &["1.1"]).unwrap();
    assert_eq!((all.entries.len(), all.outcome.code), (1005, ResultCode::SUCCESS));

    add_person(&mut admin, "carl");
    let mut user = pando.connect();
    assert!(user.bind(&person_dn("carl"), "carl-secret").unwrap().is_success());
    let some = user.search(SUFFIX, Scope::WholeSubtree, "(objectClass=account)", &["1.1"]).unwrap();
    assert_eq!((some.entries.len(), some.outcome.code), (1000, ResultCode::SIZE_LIMIT_EXCEEDED));
    let text = &some.outcome.diagnostic;
    assert!(text.starts_with("the server's size limit of 1000 (limits.size_limit) is reached"), "{text}");
}

#[test]
fn unbind_and_shutdown_close_connections() {
    let scratch = Scratch::new("goodbye");
    let pando = Pando::start(&scratch);
    pando.connect().unbind().unwrap();
    let mut idle = pando.administrator();
    assert!(pando.stop().success(), "SIGTERM is a regular end");
    // When the server ends, an open connection receives a notice or is closed.
    if let Some(notice) = idle.closed().unwrap() {
        assert!(notice.starts_with("unavailable"), "{notice}");
    }
}

#[test]
fn a_password_is_changed_by_deleting_the_old_and_adding_the_new() {
    use ldap::ChangeOperation::{Add, Delete, Replace};
    let scratch = Scratch::new("password-change");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let anna = person_dn("anna");
    let binds = |password: &str| pando.connect().bind(&anna, password).unwrap().is_success();
    let change = |connection: &mut Connection, old: &str, new: &str| {
        let changes = [(Delete, "userPassword", &[old][..]), (Add, "userPassword", &[new][..])];
        connection.modify(&anna, &changes).unwrap().code
    };
    let mut own = pando.connect();
    assert!(own.bind(&anna, "anna-secret").unwrap().is_success());
    assert_eq!(change(&mut own, "wrong", "new-secret"), ResultCode::NO_SUCH_ATTRIBUTE);
    assert!(binds("anna-secret") && !binds("new-secret"));
    assert_eq!(change(&mut own, "anna-secret", "new-secret"), ResultCode::SUCCESS);
    assert!(binds("new-secret") && !binds("anna-secret"));
    // The same change also works with fast hashes, with several values, and for the administrator.
    let several = ["{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "second", "third"];
    assert!(admin.modify(&anna, &[(Replace, "userPassword", &several)]).unwrap().is_success());
    assert_eq!(change(&mut admin, "second", "fourth"), ResultCode::SUCCESS);
    assert!(binds("third") && binds("fourth") && !binds("second"));
    let mut bert = pando.connect();
    assert!(bert.bind(&person_dn("bert"), "bert-secret").unwrap().is_success());
    assert_eq!(change(&mut bert, "third", "fifth"), ResultCode::INSUFFICIENT_ACCESS_RIGHTS);
    let stored = admin.entry(&anna, &["userPassword"]).unwrap().unwrap();
    let stored = stored.texts("userPassword");
    assert_eq!(stored.len(), 3);
    assert!(stored.iter().all(|value| value.starts_with('{')), "{stored:?}");
}
