//! Persistent search (draft-ietf-ldapext-psearch) with clients that people use, and how it ends.

use crate::support;

use client::Connection;
use ldap::{
    ChangeType, Control, ControlsBuf, EntryChange, MessageId, PersistentSearch, Response, ResultCode, Scope,
    oids,
};
use support::clients::python_script;
use support::tree::{add_person, person_dn, plant};
use support::{Pando, SUFFIX, Scratch};

#[test]
fn python_ldap_and_ldap3_hear_of_changes() {
    let scratch = Scratch::new("persistent-python");
    let pando = Pando::start(&scratch);
    plant(&mut pando.administrator());
    python_script("with_psearch.py", pando.address(), &[]).expect_code(0).expect_output("all was heard");
}

fn listen(connection: &mut Connection, base: &str) -> MessageId {
    let filter = ldap::FilterBuf::parse("(objectClass=*)").unwrap();
    let all = ldap::AttributeSelection::default();
    let mut request = ldap::SearchRequest::new(base, Scope::WholeSubtree, filter.as_filter(), all);
    // The limit is for what is there.
    request.time_limit_seconds = 1;
    let asked = PersistentSearch {
        change_types: PersistentSearch::ALL_TYPES,
        changes_only: true,
        tells_changes: true,
    };
    let control = Control { oid: oids::PERSISTENT_SEARCH, critical: true, value: Some(&asked.encode()) };
    let controls: ControlsBuf = [control].into_iter().collect();
    connection.send(ldap::Request::Search(request), controls.as_controls()).unwrap()
}

/// What happened to which entry; or how the search ended.
fn hear(connection: &mut Connection, id: MessageId) -> Result<(ChangeType, String), ResultCode> {
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
fn persistent_searches_end() {
    let scratch = Scratch::new("persistent-ends");
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    let mut first = pando.administrator();
    // What is asked behind it on the connection is answered when all that is there was looked at.
    let id = listen(&mut first, SUFFIX);
    assert!(first.entry(SUFFIX, &["dc"]).unwrap().is_some());
    add_person(&mut admin, "one");
    assert_eq!(hear(&mut first, id), Ok((ChangeType::Add, person_dn("one"))));
    let value = ldap::encode_cancel(id);
    let cancel = ldap::ExtendedRequest { name: oids::CANCEL, value: Some(&value) };
    first.request(ldap::Request::Extended(cancel), ldap::Controls::NONE).unwrap();
    assert_eq!(hear(&mut first, id), Err(ResultCode::CANCELED));

    let base = person_dn("one");
    let id = listen(&mut first, &base);
    assert!(first.entry(SUFFIX, &["dc"]).unwrap().is_some());
    assert!(admin.delete(&base).unwrap().is_success());
    assert_eq!(hear(&mut first, id), Ok((ChangeType::Delete, base)));
    assert_eq!(hear(&mut first, id), Err(ResultCode::NO_SUCH_OBJECT));

    let id = listen(&mut first, SUFFIX);
    assert!(first.entry(SUFFIX, &["dc"]).unwrap().is_some());
    assert!(pando.stop().success());
    assert_eq!(hear(&mut first, id), Err(ResultCode::UNAVAILABLE));
}
