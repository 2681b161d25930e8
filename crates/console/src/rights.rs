//! The requester's rights on an entry and the state of the entry's account, as the server reports them.
//!
//! Pages omit actions that the server would refuse. When a change is sent, the server decides again.

use axum::http::StatusCode;
use client::{ClientError, Connection, Entry};
use ldap::{
    AccountUsability, Control, ControlsBuf, FilterBuf, Request, Response, Scope, SearchRequest, SelectionBuf,
    encode_matched_values, oids,
};
use serde_json::{Value, json};

use crate::page_error::PageError;

/// Maximum number of attributes for which the server reports rights in one answer.
const ATTRIBUTES_MAX: usize = 100;

/// Attribute with the rights on the entry. Its letters are `v` (browse), `a` (add), `d` (delete) and `n` (rename).
const OF_ENTRY: &str = "entryLevelRights";

/// Attribute with the rights on each attribute, for example `cn:rsc, mail:rscwo`. The letters `w` and `o` mean writing.
/// `W` and `O` mean only adding or removing the requester itself.
const OF_ATTRIBUTES: &str = "attributeLevelRights";

/// Rights on an entry, and the state of its account.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    /// Whether the server reported the rights. If it did not, pages omit no action.
    is_known: bool,
    /// Letters of the rights on the entry, or the text `none`.
    entry: String,
    /// Names of the attributes that the requester may write, in lower case.
    writable: Vec<String>,
    /// Names of the attributes that the requester may read, in lower case.
    readable: Vec<String>,
    usability: Option<AccountUsability>,
}

impl Rights {
    /// Reads the requester's rights on an entry and on the attributes `names`. If the server refuses to report them,
    /// they are unknown. Blocks.
    ///
    /// # Errors
    /// The directory does not answer.
    pub(crate) fn read(connection: &mut Connection, dn: &str, names: &[&str]) -> Result<Rights, ClientError> {
        Rights::of_other(connection, dn, names, "")
    }

    /// Reads the rights of the user with this authorization identity. If the identity is empty, reads the rights of the
    /// requester. If the server refuses to report the rights, they are unknown. Blocks.
    ///
    /// # Errors
    /// The directory does not answer.
    pub(crate) fn of_other(
        connection: &mut Connection,
        dn: &str,
        names: &[&str],
        identity: &str,
    ) -> Result<Rights, ClientError> {
        let mut rights = Rights::default();
        for names in names.chunks(ATTRIBUTES_MAX) {
            rights.read_some(connection, (dn, identity), names)?;
        }
        Ok(rights)
    }

    /// Returns true if the server reported rights.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns whether the attribute may be read. Returns `None` if the server did not report the rights.
    pub(crate) fn can_read(&self, name: &str) -> Option<bool> {
        self.is_known.then(|| self.readable.contains(&name.to_ascii_lowercase()))
    }

    fn read_some(
        &mut self,
        connection: &mut Connection,
        (dn, identity): (&str, &str),
        names: &[&str],
    ) -> Result<(), ClientError> {
        let filter = FilterBuf::parse("(objectClass=*)").map_err(ClientError::Filter)?;
        let selection = SelectionBuf::from_iter(names);
        // The values of the attributes are not needed, and a group may have a million of them.
        let only_rights = FilterBuf::parse("(attributeLevelRights=*)").map_err(ClientError::Filter)?;
        let only_rights = encode_matched_values([only_rights.as_filter()]);
        let request = SearchRequest::new(dn, Scope::BaseObject, filter.as_filter(), selection.as_selection());
        let controls = ControlsBuf::from_iter([
            Control { oid: oids::EFFECTIVE_RIGHTS, critical: false, value: Some(identity.as_bytes()) },
            Control { oid: oids::ACCOUNT_USABILITY, critical: false, value: None },
            Control { oid: oids::MATCHED_VALUES, critical: false, value: Some(&only_rights) },
        ]);
        let id = connection.send(Request::Search(request), controls.as_controls())?;
        loop {
            let received = connection.receive(id)?;
            let message = received.message();
            match message.response {
                Response::SearchEntry(entry) => {
                    let state = message.controls.find(oids::ACCOUNT_USABILITY);
                    self.usability = state.and_then(|control| AccountUsability::decode(control.value?));
                    self.take(&Entry::from(&entry));
                }
                response if response.result().is_some() => return Ok(()),
                _ => {}
            }
        }
    }

    fn take(&mut self, entry: &Entry) {
        for letters in entry.texts(OF_ENTRY) {
            self.is_known = true;
            self.entry = letters;
        }
        for list in entry.texts(OF_ATTRIBUTES) {
            let parts = list.split(',').filter_map(|part| part.trim().rsplit_once(':'));
            let readable = parts.clone().filter(|(_, letters)| letters.contains('r') && *letters != "none");
            self.readable.extend(readable.map(|(name, _)| name.to_ascii_lowercase()));
            let writable =
                parts.filter(|(_, letters)| letters.contains(['w', 'o', 'W', 'O']) && *letters != "none");
            self.writable.extend(writable.map(|(name, _)| name.to_ascii_lowercase()));
        }
    }

    /// Returns true if the requester has this right on the entry: `a` (add entries below it), `d` (delete it) or `n`
    /// (rename it). Also returns true if the server did not report the rights.
    pub(crate) fn allows(&self, right: char) -> bool {
        !self.is_known || (self.entry != "none" && self.entry.contains(right))
    }

    /// Returns an error with the text "You have no right to do this" if the server reports that the requester lacks
    /// this right on the entry: `d` (delete it) or `n` (rename it). Blocks.
    ///
    /// # Errors
    /// The requester lacks the right, or the directory does not answer.
    pub(crate) fn require(connection: &mut Connection, dn: &str, right: char) -> Result<(), PageError> {
        let rights = Rights::read(connection, dn, &["objectClass"])?;
        if rights.allows(right) { Ok(()) } else { Err(no_right()) }
    }

    /// Returns an error like [`require`](Rights::require) if the server reports that the requester may not write this
    /// attribute of the entry. Blocks.
    ///
    /// # Errors
    /// The requester lacks the right, or the directory does not answer.
    pub(crate) fn require_write(connection: &mut Connection, dn: &str, name: &str) -> Result<(), PageError> {
        let rights = Rights::read(connection, dn, &[name])?;
        if rights.can_write(name) { Ok(()) } else { Err(no_right()) }
    }

    /// Returns true if the requester may write this attribute. Also returns true if the server did not report the
    /// rights.
    pub(crate) fn can_write(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        !self.is_known || self.writable.contains(&name)
    }

    /// Returns the reasons why the user of the entry cannot sign in. Each reason has the key of a text, and may have a
    /// number: the seconds until a lock ends, or the remaining grace logins of an expired password. Returns an empty
    /// list if the user can sign in, or if the requester cannot read the state.
    pub(crate) fn account(&self) -> Vec<Value> {
        let Some(AccountUsability::Unusable(state)) = self.usability else { return Vec::new() };
        let mut all = Vec::new();
        let mut push = |is_so: bool, text: &str, number: Option<u32>| {
            if is_so {
                all.push(json!({ "text": text, "number": number }));
            }
        };
        push(state.is_inactive, "inactive", None);
        push(state.locked.is_some(), "locked", state.locked.flatten());
        push(state.is_expired, "expired", state.grace_left);
        push(state.is_reset, "reset", None);
        all
    }
}

fn no_right() -> PageError {
    PageError::Request(StatusCode::FORBIDDEN, "trouble.no_right")
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Attribute;
    use ldap::Unusable;

    #[test]
    fn reported_rights_are_parsed() {
        let attribute = |description: &str, value: &str| Attribute {
            description: description.to_owned(),
            values: vec![value.as_bytes().to_vec()],
        };
        let mut rights = Rights::default();
        assert!(rights.allows('d') && rights.can_write("cn"), "unknown");
        let attributes = vec![
            attribute("cn", "Anna"),
            attribute("entryLevelRights", "vdn"),
            attribute("attributeLevelRights", "cn:rsc, mail:rscwo, member:rscW, sn:none"),
        ];
        rights.take(&Entry { dn: String::new(), attributes });
        assert!(rights.allows('d') && rights.allows('n') && !rights.allows('a'));
        assert!(rights.can_write("Mail") && rights.can_write("member"));
        assert!(!rights.can_write("cn") && !rights.can_write("sn") && !rights.can_write("uid"));
        rights.take(&Entry { dn: String::new(), attributes: vec![attribute("entryLevelRights", "none")] });
        assert!(!rights.allows('n'));
        assert!(rights.account().is_empty());
        rights.usability =
            Some(AccountUsability::Unusable(Unusable { locked: Some(Some(30)), ..Unusable::default() }));
        assert_eq!(rights.account(), [json!({ "text": "locked", "number": 30 })]);
    }
}
