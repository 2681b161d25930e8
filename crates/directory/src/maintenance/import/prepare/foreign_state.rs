//! Attributes of other servers in a record: values that are converted, or dropped and counted.

use schema::AttributeDescription;
use uuid::Uuid;

use super::Preparer;
use crate::maintenance::entry_uuid::ENTRY_UUID;
use crate::maintenance::import::foreign::unique_id;
use crate::maintenance::import::known::Named;
use crate::model::outcome::OperationError;
use crate::write::given_values::check_value;

/// Value of pwdAccountLockedTime for a permanent lock (draft-behera-ldap-password-policy section 5.3.3).
const PERMANENT_LOCK: &[u8] = b"000001010000Z";

/// State of an entry in the attributes of another server.
#[derive(Debug, Default)]
pub(in crate::maintenance::import) struct ForeignState {
    /// The entry is deleted.
    pub(in crate::maintenance::import) is_deleted: bool,
    /// The account is disabled.
    is_disabled: bool,
    /// nsUniqueId of the entry.
    unique_id: Option<Uuid>,
}

impl Preparer<'_> {
    /// Processes a value in the form of another server. Returns the attribute that it belongs to, if it is stored.
    #[cold]
    pub(super) fn foreign_value(&mut self, named: Named, value: &[u8]) -> Option<usize> {
        let statistics = &mut self.statistics;
        match named {
            Named::Stored(place) => return Some(place),
            Named::State(place) => {
                statistics.state_options += 1;
                return Some(place);
            }
            Named::Virtual => statistics.virtual_values += 1,
            Named::Meaningless => statistics.unusable_passwords += 1,
            Named::Deleted => statistics.deleted_values += 1,
            Named::Foreign => statistics.foreign_values += 1,
            Named::UniqueId => match unique_id(value) {
                Some(uuid) if self.foreign_state.unique_id.is_none() => {
                    self.foreign_state.unique_id = Some(uuid)
                }
                _ => statistics.foreign_values += 1,
            },
            Named::Disabled(place) => {
                let is_disabled = value.trim_ascii().eq_ignore_ascii_case(b"true");
                self.foreign_state.is_disabled |= is_disabled;
                statistics.foreign_values += u64::from(!is_disabled && place.is_none());
                return place;
            }
        }
        None
    }

    /// Adds the state that another server expressed in its own form to the entry in the draft.
    pub(super) fn apply_foreign_state(&mut self) -> Result<(), OperationError> {
        match self.foreign_state {
            ForeignState { is_disabled: false, unique_id: None, .. } => Ok(()),
            _ => self.apply_identity_and_lock(),
        }
    }

    #[cold]
    fn apply_identity_and_lock(&mut self) -> Result<(), OperationError> {
        if let Some(uuid) = self.foreign_state.unique_id {
            let is_taken = self.set_value(ENTRY_UUID, uuid.to_string().as_bytes(), false)?;
            let statistics = &mut self.statistics;
            *if is_taken { &mut statistics.unique_ids } else { &mut statistics.foreign_values } += 1;
        }
        if self.foreign_state.is_disabled && self.set_value("pwdAccountLockedTime", PERMANENT_LOCK, true)? {
            self.statistics.disabled_accounts += 1;
        }
        Ok(())
    }

    /// Adds a value to an attribute: replaces its values, or adds it only if there are none. Returns true if the
    /// entry now has the value.
    fn set_value(&mut self, name: &str, value: &[u8], replaces: bool) -> Result<bool, OperationError> {
        let Some(known) = self.job.schema.attribute_type(name) else { return Ok(false) };
        let description = AttributeDescription::of(known.id);
        let place = self.known.place(self.job, &description)?;
        if self.draft.find(place).is_some() && !replaces {
            return Ok(false);
        }
        let number = self.draft.attribute(place);
        self.draft.replace(number, &[value.to_vec()], |value, normal| {
            check_value(&self.job.schema, &description, 1, value, normal)
        })?;
        Ok(true)
    }
}
