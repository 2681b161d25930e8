//! Persistent search (draft-ietf-ldapext-psearch) with common clients, and the ways in which it ends.

use std::net::TcpStream;

use client::{Connection, Tls};
use ldap::{
    ChangeType, Control, ControlsBuf, EntryChange, MessageId, PersistentSearch, Response, ResultCode, Scope,
    oids,
};
use test_support::clients::python_script;
use test_support::cluster::until;
use test_support::pando::Start;
use test_support::tree::{add_person, person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

#[test]
fn python_ldap_and_ldap3_receive_changes() {
    let scratch = Scratch::new("persistent-python");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    python_script("with_psearch.py", pando.address(), &[]).expect_code(0).expect_output("all was heard");
}

fn listen(connection: &mut Connection, base: &str) -> MessageId {
    let filter = ldap::FilterBuf::parse("(objectClass=*)").unwrap();
    let all = ldap::AttributeSelection::default();
    let mut request = ldap::SearchRequest::new(base, Scope::WholeSubtree, filter.as_filter(), all);
    // The time limit applies only to existing entries, so the limit does not end the search.
    request.time_limit_seconds = 1;
    let asked = PersistentSearch {
        change_types: PersistentSearch::ALL_TYPES,
        changes_only: true,
        returns_entry_changes: true,
    };
    let control = Control { oid: oids::PERSISTENT_SEARCH, critical: true, value: Some(&asked.encode()) };
    let controls: ControlsBuf = [control].into_iter().collect();
    connection.send(ldap::Request::Search(request), controls.as_controls()).unwrap()
}

/// Returns the change type and the entry of the next notification, or the result code of the search.
fn receive_change(connection: &mut Connection, id: MessageId) -> Result<(ChangeType, String), ResultCode> {
    let received = connection.receive(id).unwrap();
    let message = received.message();
    match message.response {
        Response::SearchEntry(entry) => {
            let control = message.controls.find(oids::ENTRY_CHANGE_NOTIFICATION).unwrap();
            let change = EntryChange::decode(control.value.unwrap()).unwrap();
            Ok((change.change_type, entry.object_name.to_owned()))
        }
        Response::SearchDone(result) => Err(result.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cancel_deletion_of_the_base_and_shutdown_end_persistent_searches() {
    let scratch = Scratch::new("persistent-ends");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let mut first = pando.administrator();
    // Once a later request on the connection is answered, the search has examined all existing entries.
    let id = listen(&mut first, SUFFIX);
    assert!(first.entry(SUFFIX, &["dc"]).unwrap().is_some());
    add_person(&mut admin, "one");
    assert_eq!(receive_change(&mut first, id), Ok((ChangeType::Add, person_dn("one"))));
    let value = ldap::encode_cancel(id);
    let cancel = ldap::ExtendedRequest { name: oids::CANCEL, value: Some(&value) };
    first.request(ldap::Request::Extended(cancel), ldap::Controls::NONE).unwrap();
    assert_eq!(receive_change(&mut first, id), Err(ResultCode::CANCELED));

    let base = person_dn("one");
    let id = listen(&mut first, &base);
    assert!(first.entry(SUFFIX, &["dc"]).unwrap().is_some());
    assert!(admin.delete(&base).unwrap().is_success());
    assert_eq!(receive_change(&mut first, id), Ok((ChangeType::Delete, base)));
    assert_eq!(receive_change(&mut first, id), Err(ResultCode::NO_SUCH_OBJECT));

    let id = listen(&mut first, SUFFIX);
    assert!(first.entry(SUFFIX, &["dc"]).unwrap().is_some());
    assert!(pando.stop().success());
    assert_eq!(receive_change(&mut first, id), Err(ResultCode::UNAVAILABLE));
}

/// Returns the figure `cn=NAME,cn=Persistent Searches,cn=monitor`.
fn figure(connection: &mut Connection, name: &str) -> u64 {
    let dn = format!("cn={name},cn=Persistent Searches,cn=monitor");
    let entry = connection.entry(&dn, &["monitorCounter"]).unwrap().unwrap();
    std::str::from_utf8(&entry.attributes[0].values[0]).unwrap().parse().unwrap()
}

/// Waits until this number of persistent searches is active.
fn until_listening(connection: &mut Connection, count: u64) {
    until("as many listen as should", || (figure(connection, "Current") == count).then_some(()));
}

/// Regression test: after a client had closed its connection, the connection and its search stayed until the next
/// change, or for minutes (RFC 4511 section 5.3). The same happened to requests that waited after persistent searches.
/// It also happened with TLS, which ends its data before the socket is closed.
#[test]
fn the_end_of_input_ends_persistent_searches() {
    let scratch = Scratch::new("persistent-input-ends");
    let pando =
        Start::with_node(&scratch, "listen = [\"ldap://127.0.0.1:0\"]\n[limits]\noutstanding = 2\n").ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let begin = |count: u64, admin: &mut Connection| {
        let mut first = pando.administrator();
        let ids: Vec<_> = (0..count).map(|_| listen(&mut first, SUFFIX)).collect();
        until_listening(admin, count);
        (first, ids)
    };
    // A client that shuts down its sending side receives the end of each search, and then the end of the connection.
    let (mut half, ids) = begin(2, &mut admin);
    half.finish_sending().unwrap();
    for id in ids {
        assert_eq!(receive_change(&mut half, id), Err(ResultCode::CANCELED));
    }
    assert_eq!(half.closed().unwrap(), None);
    until_listening(&mut admin, 0);
    // Two searches are the maximum of outstanding requests, so the server reads neither the third request nor the end
    // of input.
    let (mut full, ids) = begin(2, &mut admin);
    let third = listen(&mut full, SUFFIX);
    full.finish_sending().unwrap();
    for id in ids.into_iter().chain([third]) {
        assert_eq!(receive_change(&mut full, id), Err(ResultCode::CANCELED));
    }
    // A client closes its connection without an unbind.
    let (gone, _) = begin(1, &mut admin);
    drop(gone);
    until_listening(&mut admin, 0);
    // TLS ends its data, and both sides keep the socket open.
    let tls = Tls::insecure().unwrap();
    for requests in [1, 3] {
        let stream = TcpStream::connect(pando.address()).unwrap();
        let kept = stream.try_clone().unwrap();
        let plain = Connection::over_tcp(stream).unwrap();
        let mut secured = plain.start_tls(&tls, "localhost").unwrap();
        assert!(secured.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
        for _ in 0..requests {
            listen(&mut secured, SUFFIX);
        }
        until_listening(&mut admin, requests.min(2));
        secured.finish_data().unwrap();
        until_listening(&mut admin, 0);
        drop(kept);
    }
    // Other clients still receive changes.
    let (mut first, ids) = begin(1, &mut admin);
    add_person(&mut admin, "one");
    assert_eq!(receive_change(&mut first, ids[0]), Ok((ChangeType::Add, person_dn("one"))));
}

/// Regression test: one user could use up all persistent searches.
#[test]
fn one_user_cannot_use_up_all_persistent_searches() {
    let scratch = Scratch::new("persistent-places");
    let limits = "[limits]\npersistent_searches = 32\npersistent_searches_share = 5\n";
    let pando = Start::with_node(&scratch, format!("listen = [\"ldap://127.0.0.1:0\"]\n{limits}")).ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    assert_eq!(figure(&mut admin, "Max"), 32);
    let bound = |uid: &str| {
        let mut connection = pando.connect();
        let password = format!("{uid}-secret");
        assert!(connection.bind(&person_dn(uid), &password).unwrap().is_success(), "{uid}");
        connection
    };
    let (mut greedy, mut other) = (bound("bert"), bound("anna"));
    let taken: Vec<_> = (0..20).map(|_| listen(&mut greedy, SUFFIX)).collect();
    for refused in &taken[16..] {
        assert_eq!(receive_change(&mut greedy, *refused), Err(ResultCode::ADMIN_LIMIT_EXCEEDED));
    }
    assert_eq!((figure(&mut admin, "Current"), figure(&mut admin, "Refused")), (16, 4));
    let others: Vec<_> = (0..5).map(|_| listen(&mut other, SUFFIX)).collect();
    until_listening(&mut admin, 21);
    add_person(&mut admin, "one");
    for id in others {
        assert_eq!(receive_change(&mut other, id), Ok((ChangeType::Add, person_dn("one"))));
    }
    // The administrator may use all remaining searches, including a reserve.
    let mut administrator = pando.administrator();
    let own: Vec<_> = (0..12).map(|_| listen(&mut administrator, SUFFIX)).collect();
    assert_eq!(receive_change(&mut administrator, own[11]), Err(ResultCode::BUSY));
    drop((greedy, other));
    until_listening(&mut admin, 11);
}
