//! Requests of transactions (RFC 5805).

use client::{Connection, Reply};
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, Control, Controls, ControlsBuf, DeleteRequest,
    EndTransaction, EndTransactionResult, ExtendedRequest, MessageId, ModifyRequest, Request, ResultCode,
    oids,
};

/// Starts a transaction, and returns its identifier.
#[track_caller]
pub fn start(connection: &mut Connection) -> Vec<u8> {
    let reply = connection.extended(oids::START_TRANSACTION, None).unwrap();
    assert!(reply.outcome.is_success(), "{reply:?}");
    reply.extended.value.as_deref().expect("an identifier").to_vec()
}

/// Returns the control for this transaction, followed by other controls.
pub fn part_of<'c>(identifier: &'c [u8], others: &[Control<'c>]) -> ControlsBuf {
    let oid = oids::TRANSACTION_SPECIFICATION;
    let own = Control { oid, critical: true, value: Some(identifier) };
    std::iter::once(own).chain(others.iter().copied()).collect()
}

/// Sends a change in a transaction. Returns its message id without waiting.
pub fn send(
    connection: &mut Connection,
    identifier: &[u8],
    request: Request<'_>,
    others: &[Control<'_>],
) -> MessageId {
    connection.send(request, part_of(identifier, others).as_controls()).unwrap()
}

/// Sends a change in a transaction, and waits for its answer.
pub fn change(
    connection: &mut Connection,
    identifier: &[u8],
    request: Request<'_>,
) -> (MessageId, ResultCode) {
    let id = send(connection, identifier, request, &[]);
    (id, connection.reply(id).unwrap().outcome.code)
}

/// Calls `run` with a request to add an entry.
pub fn with_add<T>(entry: &str, attributes: &[(&str, &str)], run: impl FnOnce(Request<'_>) -> T) -> T {
    let mut values = AttributesBuf::new();
    attributes.iter().for_each(|(name, value)| values.push(name, [value]));
    run(Request::Add(AddRequest { entry, attributes: values.as_attributes() }))
}

/// Calls `run` with a request to replace an attribute.
pub fn with_replace<T>(object: &str, name: &str, value: &str, run: impl FnOnce(Request<'_>) -> T) -> T {
    let mut changes = ChangesBuf::new();
    changes.push(ChangeOperation::Replace, name, [value]);
    run(Request::Modify(ModifyRequest { object, changes: changes.as_changes() }))
}

/// Returns a request to delete an entry.
pub fn delete(entry: &str) -> Request<'_> {
    Request::Delete(DeleteRequest { entry })
}

/// Ends a transaction.
pub fn end(connection: &mut Connection, identifier: &[u8], commits: bool) -> Reply {
    let value = EndTransaction { commits, identifier }.encode();
    let request = ExtendedRequest { name: oids::END_TRANSACTION, value: Some(&value) };
    connection.request(Request::Extended(request), Controls::NONE).unwrap()
}

/// Returns the result code of the end of a transaction, and the message id of the change that failed.
pub fn failure(reply: &Reply) -> (ResultCode, Option<MessageId>) {
    let value = reply
        .extended
        .value
        .as_deref()
        .map(|value| EndTransactionResult::decode(value).expect("a well formed value"));
    (reply.outcome.code, value.and_then(|value| value.failed))
}
