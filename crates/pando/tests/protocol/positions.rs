//! Positions in answers, and requests that require a minimum position, on a single server. A single server never lags,
//! so a request waits only for a future change.

use ldap::{
    Authentication, BindRequest, CompareRequest, Control, ControlsBuf, DeleteRequest, ExtendedRequest,
    PositionToken, Request, ResultCode, Scope, oids,
};
use test_support::pando::Start;
use test_support::positions::{add, at_least, position_of, read, request, send_read};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

fn unit(name: &str) -> String {
    format!("ou={name},{SUFFIX}")
}

#[test]
fn responses_contain_a_position_and_requests_can_wait_for_one() {
    let scratch = Scratch::new("positions");
    // The server has one event loop. If a waiting request could block others, it would block all of them.
    let server = Start::with_node(&scratch, "threads = 1\n").ready();
    let mut one = server.administrator();
    let root = one.search("", Scope::BaseObject, "(objectClass=*)", &["supportedControl"]).unwrap();
    let supported = root.entries[0].texts("supportedControl");
    assert!([oids::POSITION, oids::AT_LEAST].iter().all(|oid| supported.contains(&(*oid).to_owned())));
    one.add(SUFFIX, &[("objectClass", "domain"), ("dc", "example")]).unwrap();

    // Every kind of answer contains a position. The position increases only if a change is made.
    let first = position_of(&add(&mut one, &unit("a"), None));
    let second = position_of(&add(&mut one, &unit("b"), None));
    assert_eq!((second.generation, second.position), (first.generation, first.position + 1));
    let bind = Request::Bind(BindRequest {
        version: 3,
        name: ADMIN_DN,
        authentication: Authentication::Simple(ADMIN_PASSWORD.as_bytes()),
    });
    let (entry, there) = (unit("a"), unit("b"));
    let requests = [
        bind,
        Request::Delete(DeleteRequest { entry: "ou=nobody,dc=example,dc=com" }),
        Request::Compare(CompareRequest { entry: &entry, description: "ou", value: b"a" }),
        Request::Extended(ExtendedRequest { name: oids::WHO_AM_I, value: None }),
    ];
    for asked in requests {
        let reply = request(&mut one, asked, at_least(second, 0, 0));
        assert_eq!(position_of(&reply), second, "{reply:?}");
    }
    let reply = read(&mut one, &there, at_least(second, 0, 0));
    assert_eq!((reply.entries.len(), position_of(&reply)), (1, second));
    let plain = one.search(&there, Scope::BaseObject, "(objectClass=*)", &["1.1"]).unwrap();
    assert_eq!(plain.position(), None, "no one asked");

    // A request for a future position is answered with busy after the wait. The message contains the number of missing
    // changes.
    for (ahead, wait_ms) in [(1, 0), (7, 50)] {
        let reply = read(&mut one, &there, at_least(second, ahead, wait_ms));
        assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::BUSY, 0), "{reply:?}");
        assert!(reply.outcome.diagnostic.contains(&format!("{ahead} changes before")), "{reply:?}");
        assert_eq!(position_of(&reply), second, "it names its position");
    }
    let reply = add(&mut one, &unit("c"), at_least(second, 1, 0));
    assert_eq!(reply.outcome.code, ResultCode::BUSY, "a change too: {reply:?}");

    // While a request waits, other connections are served. The awaited change ends the wait.
    let mut waiting = server.administrator();
    let found = send_read(&mut waiting, &unit("c"), at_least(second, 1, 29_000));
    let behind = send_read(&mut waiting, &there, None);
    let mut gone = server.administrator();
    send_read(&mut gone, &unit("c"), at_least(second, 1, 29_000));
    drop(gone);
    assert_eq!(read(&mut one, &there, None).entries.len(), 1);
    let third = position_of(&add(&mut one, &unit("c"), None));
    assert_eq!(third.position, second.position + 1);
    let reply = waiting.reply(found).unwrap();
    assert_eq!((reply.entries.len(), position_of(&reply)), (1, third), "{reply:?}");
    assert_eq!(waiting.reply(behind).unwrap().entries.len(), 1);

    // A position of other data, and a malformed one, are refused.
    let foreign = PositionToken { generation: [1; 16], position: 1, epoch: None };
    let reply = read(&mut one, &there, at_least(foreign, 0, 0));
    assert_eq!(reply.outcome.code, ResultCode::UNWILLING_TO_PERFORM, "{reply:?}");
    let broken = Control { oid: oids::AT_LEAST, critical: false, value: Some(b"x") };
    let broken = ControlsBuf::from_iter([broken]);
    let reply = one.search_with("", Scope::BaseObject, "(ou=a)", &[], broken.as_controls()).unwrap();
    assert_eq!(reply.outcome.code, ResultCode::PROTOCOL_ERROR, "{reply:?}");

    // A bind that fails because of its position leaves the connection anonymous.
    let bind = Request::Bind(BindRequest {
        version: 3,
        name: ADMIN_DN,
        authentication: Authentication::Simple(ADMIN_PASSWORD.as_bytes()),
    });
    let reply = request(&mut one, bind, at_least(third, 1, 0));
    assert_eq!(reply.outcome.code, ResultCode::BUSY, "{reply:?}");
    let who = one.extended(oids::WHO_AM_I, None).unwrap().extended.value.unwrap();
    assert_eq!(who, b"");

    // Keys are derived from the generation that the data file contains, so tokens contain a different value in its
    // place.
    server.stop();
    let file = std::fs::read(Pando::data(&scratch).join("data.mdb")).unwrap();
    assert!(!file.windows(first.generation.len()).any(|octets| octets == first.generation));

    // After a restart, positions belong to the same data.
    let server = Start::new(&scratch).ready();
    let reply = read(&mut server.administrator(), &unit("c"), at_least(third, 0, 0));
    assert_eq!((reply.entries.len(), position_of(&reply)), (1, third));
}
