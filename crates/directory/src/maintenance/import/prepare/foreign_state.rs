//! Attributes of other servers in a record. Their values are converted, or dropped and counted.

use std::sync::Arc;

use ldap::Dn;
use schema::AttributeDescription;
use uuid::Uuid;

use super::Preparer;
use crate::catalog::ClassSet;
use crate::maintenance::entry_uuid::ENTRY_UUID;
use crate::maintenance::import::resolved::ValueHandling;
use crate::maintenance::import::vendor::{Vendor, file_time, identifier, is_disabled};
use crate::model::csn::generalized_time;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::write::given_values::check_value;
use crate::write::schema_check::is_allowed;

/// OID of distinguishedName.
const DISTINGUISHED_NAME: &str = "2.5.4.49";

/// Value of pwdAccountLockedTime for a permanent lock (draft-behera-ldap-password-policy section 5.3.3).
const PERMANENT_LOCK: &[u8] = b"000001010000Z";

/// State of the current entry, as expressed by attributes of another server.
#[derive(Debug, Default)]
pub(in crate::maintenance::import) struct ForeignState {
    /// Whether the entry is deleted.
    pub(in crate::maintenance::import) is_deleted: bool,
    /// Whether the account is disabled.
    is_disabled: bool,
    /// Identifier of the entry.
    unique_id: Option<Uuid>,
    /// Times to store, with the names of their attributes.
    times: Vec<(&'static str, Vec<u8>)>,
    /// For each value that is left out, the place of its name in the job's list.
    left_out: Vec<usize>,
    /// Values that may repeat the RDN of the entry, each with the place of its attribute.
    names: Vec<(usize, Vec<u8>)>,
    /// Places of attributes of which ranges of values were read, but not the last range.
    parts: Vec<usize>,
}

impl ForeignState {
    /// Records the meaning of a value. Returns false if the value has no meaning, or is a second identifier.
    fn convert(&mut self, vendor: Vendor, value: &[u8]) -> bool {
        match vendor {
            Vendor::Identifier => {
                let found = identifier(value).filter(|_| self.unique_id.is_none());
                self.unique_id = self.unique_id.or(found);
                found.is_some()
            }
            Vendor::Disabled(form) => {
                let is_disabled = is_disabled(form, value);
                self.is_disabled |= is_disabled;
                is_disabled
            }
            Vendor::Time(name) => {
                let is_time = schema::generalized_micros(value).is_some();
                self.times.extend(is_time.then(|| (name, value.to_vec())));
                is_time
            }
            Vendor::FileTime(name) => {
                let seconds = file_time(value).and_then(|seconds| u64::try_from(seconds).ok());
                self.times.extend(seconds.map(|seconds| (name, generalized_time(seconds).into_bytes())));
                seconds.is_some()
            }
            Vendor::LeftOut => false,
        }
    }
}

impl Preparer<'_> {
    /// Processes a value in the form of another server. Returns the index of the attribute that must store the value,
    /// if any.
    #[cold]
    pub(super) fn foreign_value(&mut self, named: ValueHandling, value: &[u8]) -> Option<usize> {
        if let ValueHandling::Classes(place) = named {
            let name = std::str::from_utf8(value).ok();
            let left_out = name.and_then(|name| self.job.left_out_by_operator(name));
            self.foreign_state.left_out.extend(left_out);
            return left_out.is_none().then_some(place);
        }
        let state = &mut self.foreign_state;
        let statistics = &mut self.statistics;
        match named {
            ValueHandling::Stored(place)
            | ValueHandling::Classes(place)
            | ValueHandling::Ending(place, _) => return Some(place),
            ValueHandling::Part(place, is_last) => {
                self.note_part(place, is_last);
                return Some(place);
            }
            ValueHandling::Name(place) => state.names.push((place, value.to_vec())),
            ValueHandling::State(place) => {
                statistics.state_options += 1;
                return Some(place);
            }
            ValueHandling::Virtual => statistics.virtual_values += 1,
            ValueHandling::Meaningless => statistics.unusable_passwords += 1,
            ValueHandling::Deleted => statistics.deleted_values += 1,
            ValueHandling::Foreign => statistics.foreign_values += 1,
            ValueHandling::LeftOut(place) => state.left_out.push(place),
            ValueHandling::Converted(vendor, place) => {
                let is_converted = state.convert(vendor, value);
                statistics.foreign_values += u64::from(!is_converted && place.is_none());
                return place;
            }
        }
        None
    }

    /// Records that a range of an attribute's values was read.
    pub(in crate::maintenance::import) fn note_part(&mut self, place: usize, is_last: bool) {
        self.statistics.range_options += 1;
        let parts = &mut self.foreign_state.parts;
        match is_last {
            true => parts.retain(|resolved| *resolved != place),
            false if !parts.contains(&place) => parts.push(place),
            false => {}
        }
    }

    /// Adds to the draft the values in which Active Directory may repeat the name of the entry. Omits a value that
    /// only repeats the name if the classes do not allow its attribute.
    pub(super) fn take_names(&mut self, dn: &Dn<'_>, name: &NormalName) -> Result<(), OperationError> {
        let names = std::mem::take(&mut self.foreign_state.names);
        if names.is_empty() {
            return Ok(());
        }
        // Problems with the classes are reported later.
        let classes = self.classes().ok();
        let schema = &self.job.schema;
        for (place, value) in names {
            let attribute_type = schema.type_by_id(self.resolved.at(place).def.description.type_id);
            let is_allowed = |(_, classes): &(_, Arc<ClassSet>)| is_allowed(schema, classes, attribute_type);
            let text = std::str::from_utf8(&value).unwrap_or_default();
            let is_repeated = || match attribute_type.oid.as_str() {
                DISTINGUISHED_NAME => {
                    parse_dn(text).is_ok_and(|other| NormalName::of(&other, schema).key == name.key)
                }
                _ => {
                    let rdn = dn.rdn();
                    let mut values = rdn.iter().flat_map(|rdn| rdn.avas).map(|ava| &*ava.value);
                    values.any(|own| own.eq_ignore_ascii_case(&value))
                }
            };
            if classes.as_ref().is_some_and(|classes| !is_allowed(classes)) && is_repeated() {
                self.foreign_state.left_out.extend(self.job.left_out(attribute_type.name()));
            } else {
                self.store(place, &value)?;
            }
        }
        Ok(())
    }

    /// Adds to the draft the state that the other server expressed in its own attributes.
    pub(super) fn apply_foreign_state(&mut self) -> Result<(), OperationError> {
        let ForeignState { is_disabled, unique_id, times, left_out, parts, .. } = &self.foreign_state;
        match (is_disabled, unique_id, times.is_empty(), left_out.is_empty() && parts.is_empty()) {
            (false, None, true, true) => Ok(()),
            _ => self.apply_converted(),
        }
    }

    #[cold]
    fn apply_converted(&mut self) -> Result<(), OperationError> {
        self.statistics.partial_entries += u64::from(!self.foreign_state.parts.is_empty());
        for place in std::mem::take(&mut self.foreign_state.left_out) {
            *self.left_out.entry(place).or_default() += 1;
        }
        for (name, value) in std::mem::take(&mut self.foreign_state.times) {
            let is_taken = self.set_value(name, &value, false)?;
            let statistics = &mut self.statistics;
            *if is_taken { &mut statistics.converted_times } else { &mut statistics.foreign_values } += 1;
        }
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

    /// Sets a value of an attribute. If `replaces` is true, the value replaces all other values. Otherwise the value is
    /// added only if there are no other values. Returns true if the value was set. Returns false if the schema does not
    /// define the attribute.
    fn set_value(&mut self, name: &str, value: &[u8], replaces: bool) -> Result<bool, OperationError> {
        let Some(resolved) = self.job.schema.attribute_type(name) else { return Ok(false) };
        let description = AttributeDescription::of(resolved.id);
        let place = self.resolved.place(self.job, &description)?;
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
