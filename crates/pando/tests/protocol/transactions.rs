//! Transactions (RFC 5805): all changes or none are made, whatever fails and however the client ends.

use client::Connection;
use ldap::{
    Control, ControlsBuf, EndTransactionResult, ExtendedRequest, FilterBuf, MessageId, PasswordModify,
    Request, Response, ResultCode, Scope, SelectionBuf, oids,
};
use test_support::pando::Start;
use test_support::transactions::{change, delete, end, failure, send, start, with_add, with_replace};
use test_support::tree::{bind, person_dn, plant};
use test_support::{ADMIN_DN, ADMIN_PASSWORD, Pando, SUFFIX, Scratch};

const SUCCESS: ResultCode = ResultCode::SUCCESS;

fn start_with_tree(name: &str) -> (Scratch, Pando, Connection) {
    let scratch = Scratch::new(name);
    let pando = Pando::start(&scratch);
    let mut admin = pando.administrator();
    plant(&mut admin);
    (scratch, pando, admin)
}

fn add_unit(connection: &mut Connection, identifier: &[u8], name: &str) -> (MessageId, ResultCode) {
    let dn = format!("ou={name},{SUFFIX}");
    with_add(&dn, &[("objectClass", "organizationalUnit")], |add| change(connection, identifier, add))
}

fn is_there(connection: &mut Connection, name: &str) -> bool {
    connection.entry(&format!("ou={name},{SUFFIX}"), &["1.1"]).unwrap().is_some()
}

#[test]
fn a_commit_makes_all_changes_or_none() {
    let (_scratch, pando, mut admin) = start_with_tree("transactions");
    let mut other = pando.administrator();
    let root = admin.search("", Scope::BaseObject, "(objectClass=*)", &["*", "+"]).unwrap();
    let lists = |name: &str, oid: &str| root.entries[0].texts(name).contains(&oid.to_owned());
    assert!(lists("supportedExtension", oids::START_TRANSACTION));
    assert!(lists("supportedExtension", oids::END_TRANSACTION));
    assert!(lists("supportedControl", oids::TRANSACTION_SPECIFICATION));

    // A change in a transaction sees the earlier changes of the transaction. Other clients see none of these changes
    // before the commit.
    let identifier = start(&mut admin);
    assert_eq!(add_unit(&mut admin, &identifier, "one").1, SUCCESS);
    let below = format!("cn=below,ou=one,{SUFFIX}");
    let added = with_add(&below, &[("objectClass", "device")], |add| change(&mut admin, &identifier, add));
    assert_eq!(added.1, SUCCESS);
    assert_eq!(change(&mut admin, &identifier, delete(&person_dn("bert"))).1, SUCCESS);
    assert!(!is_there(&mut admin, "one") && !is_there(&mut other, "one"));
    // A change outside the transaction is made immediately.
    assert!(admin.modify(&person_dn("anna"), &[]).is_ok());
    let reply = end(&mut admin, &identifier, true);
    assert_eq!((failure(&reply), reply.extended.value.as_deref()), ((SUCCESS, None), None));
    assert!(other.entry(&below, &["1.1"]).unwrap().is_some());
    assert!(other.entry(&person_dn("bert"), &["1.1"]).unwrap().is_none());
    assert_eq!(failure(&end(&mut admin, &identifier, true)).0, ResultCode::UNWILLING_TO_PERFORM, "used up");

    // If a change fails, no change is made, and the response names the failed change.
    let identifier = start(&mut admin);
    add_unit(&mut admin, &identifier, "two");
    let failing = add_unit(&mut admin, &identifier, "one").0;
    add_unit(&mut admin, &identifier, "three");
    let reply = end(&mut admin, &identifier, true);
    assert_eq!(failure(&reply), (ResultCode::ENTRY_ALREADY_EXISTS, Some(failing)));
    assert!(!is_there(&mut other, "two") && !is_there(&mut other, "three"));

    // The client can abort a transaction. A bind and the end of the connection also abort it.
    let identifier = start(&mut admin);
    add_unit(&mut admin, &identifier, "two");
    assert_eq!(failure(&end(&mut admin, &identifier, false)), (SUCCESS, None));
    let identifier = start(&mut admin);
    add_unit(&mut admin, &identifier, "two");
    assert!(admin.bind(ADMIN_DN, ADMIN_PASSWORD).unwrap().is_success());
    assert_eq!(add_unit(&mut admin, &identifier, "two").1, ResultCode::UNWILLING_TO_PERFORM);
    assert_eq!(failure(&end(&mut admin, &identifier, true)).0, ResultCode::UNWILLING_TO_PERFORM);
    let identifier = start(&mut admin);
    add_unit(&mut admin, &identifier, "two");
    admin.unbind().unwrap();
    assert!(!is_there(&mut other, "two"));

    // A transaction may have no change. A connection can have only one transaction at a time.
    let identifier = start(&mut other);
    let second = other.extended(oids::START_TRANSACTION, None).unwrap();
    assert_eq!(second.outcome.code, ResultCode::BUSY);
    assert_eq!(failure(&end(&mut other, b"none", true)).0, ResultCode::UNWILLING_TO_PERFORM);
    assert_eq!(failure(&end(&mut other, &identifier, true)), (SUCCESS, None));
    let anonymous = pando.connect().extended(oids::START_TRANSACTION, None).unwrap();
    assert_eq!(anonymous.outcome.code, ResultCode::STRONGER_AUTH_REQUIRED);
    let with_value = other.extended(oids::START_TRANSACTION, Some(b"x")).unwrap();
    assert_eq!(with_value.outcome.code, ResultCode::PROTOCOL_ERROR);
    let malformed = other.extended(oids::END_TRANSACTION, Some(b"x")).unwrap();
    assert_eq!(malformed.outcome.code, ResultCode::PROTOCOL_ERROR);
}

/// The response to the end of a transaction contains the entries of the pre-read and post-read controls, each with the
/// message id of its change. An assertion is evaluated at its place in the sequence of changes.
#[test]
fn controls_of_changes_apply_in_the_transaction() {
    let (_scratch, _pando, mut admin) = start_with_tree("transaction-controls");
    let anna = person_dn("anna");
    let mut selection = Vec::new();
    let names = SelectionBuf::from_iter(["title"]);
    ber::put_element(&mut selection, ber::Tag::SEQUENCE, names.as_selection().as_bytes());
    let pre_read = Control { oid: oids::PRE_READ, critical: true, value: Some(&selection) };
    let post_read = Control { oid: oids::POST_READ, critical: true, value: Some(&selection) };
    let asserts = |text: &str| {
        let mut bytes = Vec::new();
        FilterBuf::parse(text).unwrap().as_filter().encode(&mut bytes);
        bytes
    };
    let identifier = start(&mut admin);
    let first =
        with_replace(&anna, "title", "one", |replace| send(&mut admin, &identifier, replace, &[post_read]));
    let filter = asserts("(title=one)");
    let holds = Control { oid: oids::ASSERTION, critical: true, value: Some(&filter) };
    let second = with_replace(&anna, "title", "two", |replace| {
        send(&mut admin, &identifier, replace, &[holds, pre_read, post_read])
    });
    for id in [first, second] {
        let reply = admin.reply(id).unwrap();
        assert!(
            reply.outcome.is_success() && reply.last.as_ref().unwrap().message().controls.is_empty(),
            "{reply:?}"
        );
    }
    let reply = end(&mut admin, &identifier, true);
    let result = EndTransactionResult::decode(reply.extended.value.as_deref().unwrap()).unwrap();
    assert_eq!((reply.outcome.code, result.failed), (SUCCESS, None));
    let [(one, of_one), (two, of_two)] = &result.controls[..] else { panic!("{result:?}") };
    assert_eq!((*one, *two), (first, second));
    let has = |controls: &ldap::Controls<'_>, oid, value: &str| {
        let copy = controls.find(oid).and_then(|control| control.value).unwrap();
        assert!(String::from_utf8_lossy(copy).contains(value), "{copy:02x?}");
    };
    has(of_one, oids::POST_READ, "one");
    has(of_two, oids::PRE_READ, "one");
    has(of_two, oids::POST_READ, "two");

    let identifier = start(&mut admin);
    with_replace(&anna, "title", "three", |replace| change(&mut admin, &identifier, replace));
    let filter = asserts("(title=two)");
    let fails = Control { oid: oids::ASSERTION, critical: true, value: Some(&filter) };
    let id = with_replace(&anna, "title", "four", |replace| send(&mut admin, &identifier, replace, &[fails]));
    assert!(admin.reply(id).unwrap().outcome.is_success());
    let reply = end(&mut admin, &identifier, true);
    assert_eq!(failure(&reply), (ResultCode::ASSERTION_FAILED, Some(id)));
    assert_eq!(admin.entry(&anna, &["title"]).unwrap().unwrap().text("title").as_deref(), Some("two"));
}

/// A refused change prevents the commit, because the client may have sent the end of the transaction before it read the
/// refusal.
#[test]
fn a_refused_change_prevents_the_commit() {
    let (_scratch, _pando, mut admin) = start_with_tree("transaction-refusals");
    let unit = format!("ou=new,{SUFFIX}");
    let proxied = b"dn:uid=anna,ou=people,dc=example,dc=com";
    let others = [
        (oids::PROXIED_AUTHORIZATION, Some(&proxied[..]), ResultCode::PROTOCOL_ERROR),
        (oids::NO_OPERATION, None, ResultCode::UNWILLING_TO_PERFORM),
        ("1.2.3.4", None, ResultCode::UNAVAILABLE_CRITICAL_EXTENSION),
        (oids::TRANSACTION_SPECIFICATION, Some(b"0"), ResultCode::PROTOCOL_ERROR),
    ];
    for (oid, value, code) in others {
        let identifier = start(&mut admin);
        add_unit(&mut admin, &identifier, "first");
        let other = Control { oid, critical: true, value };
        let id = with_add(&unit, &[("objectClass", "organizationalUnit")], |add| {
            send(&mut admin, &identifier, add, &[other])
        });
        let answered = admin.reply(id).unwrap().outcome;
        let ended = failure(&end(&mut admin, &identifier, true));
        match oid {
            // The writer decides these controls at the commit.
            "1.2.3.4" | oids::TRANSACTION_SPECIFICATION => assert_eq!(ended, (code, Some(id)), "{oid}"),
            _ => {
                assert_eq!(answered.code, code, "{oid}: {answered:?}");
                assert_eq!(ended, (ResultCode::UNWILLING_TO_PERFORM, Some(id)), "{oid}");
            }
        }
        assert!(!is_there(&mut admin, "first"), "{oid}");
    }
    // The transaction specification control is supported for changes only.
    let identifier = start(&mut admin);
    let who = Request::Extended(ExtendedRequest { name: oids::WHO_AM_I, value: None });
    let code = ResultCode::UNAVAILABLE_CRITICAL_EXTENSION;
    assert_eq!(change(&mut admin, &identifier, who).1, code);
    let filter = FilterBuf::parse("(objectClass=*)").unwrap();
    let names = SelectionBuf::from_iter(["1.1"]);
    let search =
        ldap::SearchRequest::new(SUFFIX, Scope::BaseObject, filter.as_filter(), names.as_selection());
    assert_eq!(change(&mut admin, &identifier, Request::Search(search)).1, code);
    assert_eq!(failure(&end(&mut admin, &identifier, true)), (SUCCESS, None));

    // A transaction with too many changes is refused.
    let identifier = start(&mut admin);
    let anna = person_dn("anna");
    let ids: Vec<_> = (0..1_001)
        .map(|number| {
            let title = number.to_string();
            with_replace(&anna, "title", &title, |replace| send(&mut admin, &identifier, replace, &[]))
        })
        .collect();
    let codes: Vec<_> = ids.iter().map(|id| admin.reply(*id).unwrap().outcome.code).collect();
    assert!(codes[..1_000].iter().all(|code| *code == SUCCESS));
    assert_eq!(codes[1_000], ResultCode::ADMIN_LIMIT_EXCEEDED);
    let ended = failure(&end(&mut admin, &identifier, true));
    assert_eq!(ended, (ResultCode::UNWILLING_TO_PERFORM, Some(ids[1_000])));
}

#[test]
fn passwords_and_rights_are_checked_for_each_change() {
    let (_scratch, pando, mut admin) = start_with_tree("transaction-passwords");
    let (anna, bert) = (person_dn("anna"), person_dn("bert"));
    let identifier = start(&mut admin);
    // All requests are pipelined: the end waits until the passwords are hashed.
    let new = [("objectClass", "inetOrgPerson"), ("cn", "n"), ("sn", "n"), ("userPassword", "new-secret")];
    with_add(&person_dn("new"), &new, |add| send(&mut admin, &identifier, add, &[]));
    with_replace(&anna, "userPassword", "changed", |replace| send(&mut admin, &identifier, replace, &[]));
    let generated = PasswordModify { user_identity: Some(bert.as_bytes()), ..PasswordModify::default() };
    let value = generated.encode();
    let modify = Request::Extended(ExtendedRequest { name: oids::MODIFY_PASSWORD, value: Some(&value) });
    let generating = send(&mut admin, &identifier, modify, &[]);
    assert_eq!(failure(&end(&mut admin, &identifier, true)), (SUCCESS, None));
    let reply = admin.reply(generating).unwrap();
    let password = ldap::decode_generated_password(reply.extended.value.as_deref().unwrap()).unwrap();
    assert_eq!(bind(&pando, "new", "new-secret"), SUCCESS);
    assert_eq!(bind(&pando, "anna", "changed"), SUCCESS);
    assert_eq!(bind(&pando, "bert", std::str::from_utf8(password).unwrap()), SUCCESS);

    // A user may change only the description of the user's own entry.
    let mut user = pando.connect();
    assert!(user.bind(&anna, "changed").unwrap().is_success());
    let identifier = start(&mut user);
    let own = with_replace(&anna, "userPassword", "again", |replace| change(&mut user, &identifier, replace));
    let failing = with_replace(&bert, "sn", "x", |replace| change(&mut user, &identifier, replace)).0;
    assert_eq!(own.1, SUCCESS);
    let reply = end(&mut user, &identifier, true);
    assert_eq!(failure(&reply), (ResultCode::INSUFFICIENT_ACCESS_RIGHTS, Some(failing)));
    assert_eq!((bind(&pando, "anna", "changed"), bind(&pando, "anna", "again").0 != 0), (SUCCESS, true));

    // The transaction uses the identity with which it was started.
    let mut proxied = ControlsBuf::new();
    let identity = format!("dn:{anna}");
    let oid = oids::PROXIED_AUTHORIZATION;
    proxied.push(Control { oid, critical: true, value: Some(identity.as_bytes()) });
    let request = Request::Extended(ExtendedRequest { name: oids::START_TRANSACTION, value: None });
    let reply = admin.request(request, proxied.as_controls()).unwrap();
    let identifier = reply.extended.value.as_deref().unwrap().to_vec();
    let failing = with_replace(&bert, "sn", "x", |replace| change(&mut admin, &identifier, replace)).0;
    let reply = end(&mut admin, &identifier, true);
    assert_eq!(failure(&reply), (ResultCode::INSUFFICIENT_ACCESS_RIGHTS, Some(failing)));
    let who = admin.extended(oids::WHO_AM_I, None).unwrap();
    assert_eq!(
        who.extended.value.as_deref(),
        Some(format!("dn:{ADMIN_DN}").as_bytes()),
        "the connection keeps its own"
    );
}

#[test]
fn a_transaction_that_is_not_ended_in_time_is_aborted_with_a_notice() {
    let scratch = Scratch::new("transaction-timeout");
    let pando = Start::with_node(&scratch, "transaction_timeout_seconds = 1\n").ready();
    let mut admin = pando.administrator();
    plant(&mut admin);
    let identifier = start(&mut admin);
    assert_eq!(add_unit(&mut admin, &identifier, "late").1, SUCCESS);
    let notice = admin.receive(MessageId::UNSOLICITED).unwrap();
    let Response::Extended { result, name, value } = notice.message().response else { panic!("{notice:?}") };
    assert_eq!(
        (result.code, name),
        (ResultCode::TIME_LIMIT_EXCEEDED, Some(oids::ABORTED_TRANSACTION_NOTICE))
    );
    assert_eq!(value, Some(&identifier[..]));
    assert_eq!(failure(&end(&mut admin, &identifier, true)).0, ResultCode::UNWILLING_TO_PERFORM);
    assert!(!is_there(&mut admin, "late"));
    let identifier = start(&mut admin);
    assert_eq!(add_unit(&mut admin, &identifier, "late").1, SUCCESS);
    assert_eq!(failure(&end(&mut admin, &identifier, true)), (SUCCESS, None));
}
