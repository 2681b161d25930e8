//! Conversion of LDIF records to requests.

use std::collections::HashSet;

use client::{ClientError, Connection, Outcome};
use ldap::ldif::{LdifBody, LdifRecord};
use ldap::{
    AddRequest, AttributesBuf, ChangesBuf, Controls, DeleteRequest, Dn, ModifyDnRequest, ModifyRequest,
    Request,
};

/// Parts of a request that cannot be borrowed from an LDIF record.
pub(super) enum Change {
    Add(AttributesBuf),
    Modify(ChangesBuf),
    Other,
}

impl Change {
    pub(super) fn of(record: &LdifRecord<'_>) -> Change {
        match record.body {
            LdifBody::Entry(values) | LdifBody::Add(values) => {
                let mut attributes = AttributesBuf::new();
                values.append_to(&mut attributes);
                Change::Add(attributes)
            }
            LdifBody::Modify(modifications) => {
                let mut changes = ChangesBuf::new();
                for part in modifications.iter() {
                    changes.push(part.operation, part.description, part.values.iter().map(|line| line.value));
                }
                Change::Modify(changes)
            }
            LdifBody::Delete | LdifBody::ModifyDn { .. } => Change::Other,
        }
    }

    pub(super) fn send(
        &self,
        connection: &mut Connection,
        record: &LdifRecord<'_>,
        controls: Controls<'_>,
    ) -> Result<Outcome, ClientError> {
        let dn = record.dn;
        let request = match (self, record.body) {
            (Change::Add(attributes), _) => {
                Request::Add(AddRequest { entry: dn, attributes: attributes.as_attributes() })
            }
            (Change::Modify(changes), _) => {
                Request::Modify(ModifyRequest { object: dn, changes: changes.as_changes() })
            }
            (Change::Other, LdifBody::ModifyDn { new_rdn, delete_old_rdn, new_superior }) => {
                Request::ModifyDn(ModifyDnRequest { entry: dn, new_rdn, delete_old_rdn, new_superior })
            }
            (Change::Other, _) => Request::Delete(DeleteRequest { entry: dn }),
        };
        Ok(connection.request(request, controls)?.outcome)
    }
}

/// Returns the change type of a record (RFC 2849).
pub(super) fn operation(record: &LdifRecord<'_>) -> &'static str {
    match record.body {
        LdifBody::Entry(_) | LdifBody::Add(_) => "add",
        LdifBody::Delete => "delete",
        LdifBody::Modify(_) => "modify",
        LdifBody::ModifyDn { .. } => "modrdn",
    }
}

/// Names of entries that earlier records of a dry run would change. The server does not know of these changes.
#[derive(Default)]
pub(super) struct Earlier(HashSet<String>);

impl Earlier {
    /// Returns true if an earlier record would change the entry, its new superior, or an entry above one of them. The
    /// server then cannot decide this record.
    pub(super) fn decides(&self, record: &LdifRecord<'_>) -> bool {
        let mut names = vec![record.dn];
        if let LdifBody::ModifyDn { new_superior, .. } = record.body {
            names.extend(new_superior);
        }
        !self.0.is_empty() && names.iter().any(|name| self.has_at_or_above(name))
    }

    fn has_at_or_above(&self, name: &str) -> bool {
        let Ok(dn) = Dn::parse(name) else { return false };
        (0..dn.len()).any(|count| self.0.contains(&key(&dn.ancestor(count))))
    }

    pub(super) fn note(&mut self, record: &LdifRecord<'_>) {
        let Ok(dn) = Dn::parse(record.dn) else { return };
        self.0.insert(key(&dn));
        if let LdifBody::ModifyDn { new_rdn, new_superior, .. } = record.body {
            let superior = new_superior.unwrap_or_else(|| dn.text_from(1));
            let renamed =
                if superior.is_empty() { new_rdn.to_owned() } else { format!("{new_rdn},{superior}") };
            self.0.extend(Dn::parse(&renamed).map(|renamed| key(&renamed)));
        }
    }
}

/// Returns a DN in lower case and without optional spaces, as a key of the set.
fn key(dn: &Dn<'_>) -> String {
    dn.to_string().to_lowercase()
}
