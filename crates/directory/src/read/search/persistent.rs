//! Persistent search (draft-ietf-ldapext-psearch-03): a search that goes on with entries as they change, and says of
//! each what happened to it. The changes themselves are found by `tree_search/follow`.

use ldap::{ChangeType, EntryChange, PersistentSearch, ResultCode};

use crate::model::outcome::OperationError;
use crate::read::controls::RequestControls;

/// What a client is told of changes.
#[derive(Clone, Debug)]
pub(super) struct Persistent {
    asked: PersistentSearch,
    /// What happened to the entry that is sent, where the client is told of that.
    change: Option<(ChangeType, Option<String>)>,
}

impl Persistent {
    /// What a request asks for, if it does.
    ///
    /// # Errors
    /// It asks for something that does not go with it.
    pub(super) fn of(controls: &RequestControls) -> Result<Option<Persistent>, OperationError> {
        let Some(asked) = controls.persistent() else { return Ok(None) };
        let refused = |code, text: &str| Err(OperationError::refused(code, text));
        if controls.sync().is_some() {
            let text = "persistent search and content synchronization are two ways to ask for one thing";
            return refused(ResultCode::PROTOCOL_ERROR, text);
        }
        if controls.page().is_some() || controls.sort().is_some() || controls.window().is_some() {
            let text = "changes are not told in pages or in an order";
            return refused(ResultCode::UNWILLING_TO_PERFORM, text);
        }
        Ok(Some(Persistent { asked, change: None }))
    }

    /// An entry is to be sent to which this happened. False where the client does not want to hear of that.
    pub(super) fn tells(&mut self, change: ChangeType, previous_dn: Option<String>) -> bool {
        self.change = self.asked.tells_changes.then_some((change, previous_dn));
        self.asked.wants(change)
    }

    /// The value of the control with which an entry is sent; `None` for one that was there, and for clients that do not
    /// ask for it.
    pub(super) fn change_value(&self) -> Option<Vec<u8>> {
        let (change_type, previous_dn) = self.change.as_ref()?;
        let previous_dn = previous_dn.as_deref();
        Some(EntryChange { change_type: *change_type, previous_dn, change_number: None }.encode())
    }
}
