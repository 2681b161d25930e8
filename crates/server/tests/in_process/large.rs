//! Entries that are larger than the send buffer. Their messages are never interleaved with other messages of the
//! connection.

use crate::running;

use ldap::{
    ChangeOperation, ChangesBuf, Controls, ExtendedRequest, FilterBuf, Message, MessageId, ModifyRequest,
    Request, ResultCode, Scope, SearchRequest, SelectionBuf,
};
use running::{Folder, Running, SUFFIX, config};
use server::{Config, Opened};

const GROUP: &str = "cn=large,dc=example,dc=com";

/// Number of members of the group. Their names occupy about 600 KB, which exceeds the maximum size of a connection's
/// unsent responses.
const MEMBERS: usize = 12_000;

fn with_large_group(config: Config) -> Running {
    let mut opened = Opened::open(config).unwrap();
    let one = |text: &str| vec![text.as_bytes().to_vec()];
    let attribute = |name: &str, values| (name.to_owned(), values);
    let suffix = vec![attribute("objectClass", one("domain")), attribute("dc", one("example"))];
    let members = (0..MEMBERS).map(|number| format!("cn=member {number:06},ou=elsewhere,dc=example,dc=com"));
    let group = vec![
        attribute("objectClass", one("groupOfNames")),
        attribute("member", members.map(String::into_bytes).collect()),
    ];
    opened.load([(SUFFIX.to_owned(), suffix), (GROUP.to_owned(), group)]).unwrap();
    Running::serve(opened)
}

fn put(out: &mut Vec<u8>, id: i32, request: Request<'_>) {
    Message { id: MessageId(id), request, controls: Controls::NONE }.encode(out);
}

#[test]
fn a_large_message_is_not_interrupted_by_other_answers() {
    const ROUNDS: i32 = 20;
    let folder = Folder::new();
    let running = with_large_group(Config { threads: 1, ..config(&folder) });
    let mut admin = running.administrator();
    let filter = FilterBuf::parse("(cn=large)").unwrap();
    let selection = SelectionBuf::from_iter(["member"]);
    let search =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let mut bytes = Vec::new();
    for round in 0..ROUNDS {
        // The answer to a change arrives when the change is committed. That may be while a large message is being sent.
        let text = format!("round {round}");
        let mut changes = ChangesBuf::new();
        changes.push(ChangeOperation::Replace, "description", [text.as_str()]);
        let modify = ModifyRequest { object: SUFFIX, changes: changes.as_changes() };
        put(&mut bytes, 1_000 + round, Request::Modify(modify));
        put(&mut bytes, 2_000 + round, Request::Search(search));
        let who_am_i = ExtendedRequest { name: "1.3.6.1.4.1.4203.1.11.3", value: None };
        put(&mut bytes, 3_000 + round, Request::Extended(who_am_i));
    }
    admin.send_bytes(&bytes).unwrap();
    for round in 0..ROUNDS {
        let reply = admin.reply(MessageId(2_000 + round)).unwrap();
        assert_eq!((reply.outcome.code, reply.entries.len()), (ResultCode::SUCCESS, 1));
        let members = reply.entries[0].texts("member");
        assert_eq!(members.len(), MEMBERS);
        assert!(members.is_sorted());
        assert!(admin.reply(MessageId(1_000 + round)).unwrap().outcome.is_success());
        assert!(admin.reply(MessageId(3_000 + round)).unwrap().outcome.is_success());
    }
}

#[test]
fn a_stopping_server_finishes_the_message_being_sent() {
    let folder = Folder::new();
    let mut running = with_large_group(config(&folder));
    let mut admin = running.administrator();
    let filter = FilterBuf::parse("(cn=large)").unwrap();
    let selection = SelectionBuf::new();
    let search =
        SearchRequest::new(SUFFIX, Scope::WholeSubtree, filter.as_filter(), selection.as_selection());
    let mut bytes = Vec::new();
    (1..=5).for_each(|id| put(&mut bytes, 100 + id, Request::Search(search)));
    admin.send_bytes(&bytes).unwrap();
    assert!(admin.receive(MessageId(101)).unwrap().outcome().is_none());
    running.stop();
    // The server first answers all requests that it has accepted, and then sends the Notice of Disconnection.
    let mut whole = 0;
    while let Ok(received) = admin.receive_any() {
        whole += usize::from(received.outcome().is_some());
    }
    assert!(whole >= 1);
}
