//! Requests with the position controls: one requests the position of the answer, the other requires at least a
//! position.

use client::{Connection, Reply};
use ldap::{
    AddRequest, AtLeast, AttributesBuf, Control, ControlsBuf, FilterBuf, PositionToken, Request, Scope,
    SearchRequest, SelectionBuf, oids,
};

/// Returns the control that requests the answer's position and, if `requested` is given, the control that waits for a
/// position.
pub fn controls(requested: Option<AtLeast>) -> ControlsBuf {
    let mut controls = ControlsBuf::new();
    controls.push(Control { oid: oids::POSITION, critical: true, value: None });
    if let Some(requested) = requested {
        controls.push(Control { oid: oids::AT_LEAST, critical: true, value: Some(&requested.encode()) });
    }
    controls
}

/// Returns a requirement for the position of a token plus `ahead`, with the maximum wait.
pub fn at_least(token: PositionToken, ahead: u64, wait_ms: u32) -> Option<AtLeast> {
    Some(AtLeast { token: PositionToken { position: token.position + ahead, ..token }, wait_ms })
}

/// Sends a request with the controls of [`controls`], and waits for the reply.
pub fn request(connection: &mut Connection, request: Request<'_>, requested: Option<AtLeast>) -> Reply {
    connection.request(request, controls(requested).as_controls()).unwrap()
}

/// Adds an organizational unit.
pub fn add(connection: &mut Connection, entry: &str, requested: Option<AtLeast>) -> Reply {
    let mut attributes = AttributesBuf::new();
    attributes.push("objectClass", ["organizationalUnit"]);
    request(connection, Request::Add(AddRequest { entry, attributes: attributes.as_attributes() }), requested)
}

/// Reads an entry.
pub fn read(connection: &mut Connection, dn: &str, requested: Option<AtLeast>) -> Reply {
    let id = send_read(connection, dn, requested);
    connection.reply(id).unwrap()
}

/// Sends a read without waiting for the reply.
pub fn send_read(connection: &mut Connection, dn: &str, requested: Option<AtLeast>) -> ldap::MessageId {
    let filter = FilterBuf::parse("(objectClass=*)").unwrap();
    let selection = SelectionBuf::from_iter(["1.1"]);
    let search = SearchRequest::new(dn, Scope::BaseObject, filter.as_filter(), selection.as_selection());
    connection.send(Request::Search(search), controls(requested).as_controls()).unwrap()
}

/// Returns the position in a reply.
#[track_caller]
pub fn position_of(reply: &Reply) -> PositionToken {
    reply.position().unwrap_or_else(|| panic!("no position: {reply:?}"))
}
