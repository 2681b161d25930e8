//! Persistent search (draft-ietf-ldapext-psearch-03): sends changed entries with their change types.
//! `tree_search/follow` finds the changes.

use ldap::{ChangeType, EntryChange, PersistentSearch, ResultCode};

use crate::model::outcome::OperationError;
use crate::read::controls::RequestControls;

/// State of a persistent search.
#[derive(Clone, Debug)]
pub(super) struct Persistent {
    control: PersistentSearch,
    /// Change type to report with the entry, if the client asked for entry change notifications.
    change: Option<(ChangeType, Option<String>)>,
}

impl Persistent {
    /// Creates the state of a persistent search; `None` if the request has no persistent search control.
    ///
    /// # Errors
    /// The request combines persistent search with an incompatible control.
    pub(super) fn of(controls: &RequestControls) -> Result<Option<Persistent>, OperationError> {
        let Some(control) = controls.persistent() else { return Ok(None) };
        let refused = |code, text: &str| Err(OperationError::refused(code, text));
        if controls.sync().is_some() {
            let text = "persistent search and content synchronization are two ways to ask for one thing";
            return refused(ResultCode::PROTOCOL_ERROR, text);
        }
        if controls.page().is_some() || controls.sort().is_some() || controls.window().is_some() {
            let text = "changes cannot be sent in pages or in an order";
            return refused(ResultCode::UNWILLING_TO_PERFORM, text);
        }
        Ok(Some(Persistent { control, change: None }))
    }

    /// Sets the change to report with the next entry. Returns false if the client did not subscribe to this change
    /// type.
    pub(super) fn set_change(&mut self, change: ChangeType, previous_dn: Option<String>) -> bool {
        self.change = self.control.returns_entry_changes.then_some((change, previous_dn));
        self.control.wants(change)
    }

    /// Returns the value of the entry change notification control; `None` for an initial result, or if the client did
    /// not request the control.
    pub(super) fn change_value(&self) -> Option<Vec<u8>> {
        let (change_type, previous_dn) = self.change.as_ref()?;
        let previous_dn = previous_dn.as_deref();
        Some(EntryChange { change_type: *change_type, previous_dn, change_number: None }.encode())
    }
}
