//! Changes that bring entries to the declared state, and the requests for them.

use client::{ClientError, Connection, Outcome};
use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, Control, ControlsBuf, DeleteRequest,
    ModifyRequest, Request, filter_value, oids,
};

use super::file::DeclaredValue;
use crate::named::parse;

/// Attribute that contains the owner of an entry.
pub(super) const OWNER: &str = "pandoOwner";

/// Attribute that contains the names of the declared attributes of an entry.
pub(super) const OWNED: &str = "pandoOwnedAttribute";

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Add,
    Change,
    Delete,
}

impl Kind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Kind::Add => "add",
            Kind::Change => "change",
            Kind::Delete => "delete",
        }
    }
}

/// Change of one entry, made by one request.
#[derive(Debug)]
pub(super) struct EntryChange {
    pub(super) kind: Kind,
    pub(super) dn: String,
    /// File and line of the declaration; `None` if the entry is no longer declared.
    pub(super) place: Option<String>,
    pub(super) attributes: Vec<AttributeChange>,
    /// The entry's entryCSN when the change was computed.
    pub(super) csn: Option<String>,
    /// Reason why the change cannot be made.
    pub(super) refusal: Option<String>,
}

/// Change of the values of an attribute.
#[derive(Debug, Default)]
pub(super) struct AttributeChange {
    pub(super) name: String,
    pub(super) added: Vec<DeclaredValue>,
    pub(super) removed: Vec<Vec<u8>>,
    /// All values after the change, if the change replaces all values of the attribute.
    pub(super) replacement: Option<Vec<DeclaredValue>>,
    /// Whether the removed values are only counted and not printed, because they may be secret.
    pub(super) hides_removed: bool,
}

impl AttributeChange {
    /// Returns true if the attribute marks an entry as declared.
    pub(super) fn is_mark(&self) -> bool {
        [OWNER, OWNED].contains(&self.name.as_str())
    }
}

impl EntryChange {
    /// Sends the change. If the entry's CSN is known, an assertion control (RFC 4528) requires that the entry is
    /// unchanged since the plan was computed. If `dry` is true, the server only decides whether it would make the
    /// change.
    pub(super) fn send(&self, connection: &mut Connection, dry: bool) -> Result<Outcome, ClientError> {
        let mut controls = ControlsBuf::new();
        let mut condition = Vec::new();
        if let Some(csn) = &self.csn
            && let Ok(filter) = parse(&format!("(entryCSN={})", filter_value(csn)))
        {
            filter.as_filter().encode(&mut condition);
            controls.push(Control { oid: oids::ASSERTION, critical: true, value: Some(&condition) });
        }
        if dry {
            controls.push(Control { oid: oids::NO_OPERATION, critical: true, value: None });
        }
        let controls = controls.as_controls();
        let dn = self.dn.as_str();
        let reply = match self.kind {
            Kind::Add => {
                let mut attributes = AttributesBuf::new();
                for attribute in &self.attributes {
                    attributes.push(&attribute.name, attribute.added.iter().map(|value| &value.bytes));
                }
                let request = AddRequest { entry: dn, attributes: attributes.as_attributes() };
                connection.request(Request::Add(request), controls)
            }
            Kind::Change => {
                let changes = self.modifications();
                let request = ModifyRequest { object: dn, changes: changes.as_changes() };
                connection.request(Request::Modify(request), controls)
            }
            Kind::Delete => connection.request(Request::Delete(DeleteRequest { entry: dn }), controls),
        };
        Ok(reply?.outcome)
    }

    fn modifications(&self) -> ChangesBuf {
        let mut changes = ChangesBuf::new();
        for AttributeChange { name, added, removed, replacement, .. } in &self.attributes {
            if let Some(values) = replacement {
                changes.push(ChangeOperation::Replace, name, values.iter().map(|value| &value.bytes));
                continue;
            }
            if !removed.is_empty() {
                changes.push(ChangeOperation::Delete, name, removed);
            }
            if !added.is_empty() {
                changes.push(ChangeOperation::Add, name, added.iter().map(|value| &value.bytes));
            }
        }
        changes
    }
}
