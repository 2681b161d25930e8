//! Relax rules control (draft-zeilenga-ldap-relax): for migrations and repairs, clients may set operational attributes
//! and change the structural class.
//!
//! An add may set entryUUID. A modify may not set entryUUID, because clients that follow changes identify an entry by
//! its entryUUID. Add and modify may set creatorsName, modifiersName, createTimestamp and modifyTimestamp. The server
//! must have been able to produce the result: times are in order and not in the future, and each entryUUID is unique.
//!
//! A change copied from another server may also set the state of passwords. The times in such a change may come from
//! the other server's clock.

use ldap::{ResultCode, oids};
use schema::{AttributeDescription, AttributeType, generalized_micros};
use uuid::Uuid;

use crate::access::EffectiveRights;
use crate::accounts::COPIED_STATE;
use crate::catalog::{AttributeDef, ClassSet, check_modifiable, normal_value};
use crate::index::IndexPart;
use crate::model::outcome::OperationError;
use crate::model::rows::{INDEX, index_key};
use crate::model::usable::Uses;
use crate::read::controls::RequestControls;
use crate::tree::TreeState;
use crate::write::deciding::Deciding;
use crate::write::new_entry::NewEntry;
use crate::write::working_entry::WorkingEntry;

type Result<T> = std::result::Result<T, OperationError>;

const ENTRY_UUID: &str = "entryUUID";
const CREATE_TIMESTAMP: &str = "createTimestamp";
const MODIFY_TIMESTAMP: &str = "modifyTimestamp";

/// Attributes that a client may set with the control, in addition to entryUUID.
pub(crate) const GIVEN: [&str; 4] = ["creatorsName", CREATE_TIMESTAMP, "modifiersName", MODIFY_TIMESTAMP];

/// Checks that the requester may use the relax rules control, if the request has it.
///
/// # Errors
/// insufficientAccessRights.
pub(crate) fn check_use(controls: &RequestControls, rights: &EffectiveRights) -> Result<()> {
    if !controls.relaxes_rules() || rights.may_use(Uses::of_oid(oids::RELAX_RULES)) {
        return Ok(());
    }
    let text = "relax rules is for the administrator, and for whom a rule allows the use of relax-rules";
    Err(OperationError::refused(ResultCode::INSUFFICIENT_ACCESS_RIGHTS, text))
}

/// Checks that a request may set values of this attribute. Some attributes require the relax rules control.
///
/// # Errors
/// constraintViolation for an attribute that only the server sets.
pub(crate) fn check_attribute(
    deciding: &Deciding<'_>,
    description: &AttributeDescription,
    is_add: bool,
) -> Result<()> {
    let catalog = deciding.state.catalog;
    let attribute_type = catalog.schema.type_by_id(description.type_id);
    if deciding.controls.relaxes_rules() && description.options.is_empty() {
        let name = attribute_type.name();
        if GIVEN.contains(&name) || (name == ENTRY_UUID && is_add) {
            return Ok(());
        }
        if deciding.controls.follows_source() && COPIED_STATE.contains(&name) {
            return Ok(());
        }
        if name == ENTRY_UUID {
            let text = "entryUUID can be given only when the entry is added: consumers know the entry by it";
            return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text));
        }
    }
    check_modifiable(attribute_type, catalog.type_facts(description.type_id).virtual_attribute)
}

/// Sets the operational attributes of a new entry that the request does not set.
///
/// # Errors
/// The values that the request sets are not possible, such as a time in the future.
pub(crate) fn stamp_new(deciding: &Deciding<'_>, entry: &mut NewEntry<'_>) -> Result<()> {
    let given_uuid = described(deciding, ENTRY_UUID).filter(|(_, description)| entry.has(description));
    if let Some((attribute_type, description)) = given_uuid {
        let uuid = entry.values(&description).next().map(<[u8]>::to_ascii_lowercase).unwrap_or_default();
        check_new_uuid(deciding, attribute_type, &description, &uuid)?;
        entry.set(description, uuid);
    }
    for (description, value) in deciding.creation().chain(deciding.change()) {
        if !entry.has(&description) {
            entry.set(description, value);
        }
    }
    check_times(deciding, |description| Ok(entry.values(description).next().map(<[u8]>::to_vec)))
}

/// Sets the operational attributes of a changed entry that the request does not set.
///
/// # Errors
/// The values that the request sets are not possible, such as a time in the future.
pub(crate) fn stamp_changed(deciding: &Deciding<'_>, entry: &mut WorkingEntry<'_>) -> Result<()> {
    match deciding.controls.relaxes_rules() {
        true => stamp_relaxed(deciding, entry),
        false => entry.stamp_change(deciding),
    }
}

fn stamp_relaxed(deciding: &Deciding<'_>, entry: &mut WorkingEntry<'_>) -> Result<()> {
    let is_touched =
        GIVEN.map(|name| described(deciding, name).is_some_and(|(of, _)| entry.has_touched(of.id)));
    let is_copied = deciding.controls.follows_source();
    if is_touched == [false; 4] && !is_copied {
        return entry.stamp_change(deciding);
    }
    for name in ["creatorsName", CREATE_TIMESTAMP] {
        if let Some((_, description)) = described(deciding, name)
            && entry.value_count(&description)? == 0
        {
            let text = format!("{name} can be replaced, not deleted");
            return Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, text));
        }
    }
    for (description, value) in deciding.change() {
        // A copied change that does not set these attributes keeps their values, because the values came from the
        // other server.
        let name = deciding.state.catalog.schema.type_by_id(description.type_id).name();
        let is_given = entry.has_touched(description.type_id) || (is_copied && GIVEN.contains(&name));
        if !(is_given && entry.value_count(&description)? > 0) {
            entry.set_by_server(&description, value)?;
        }
    }
    check_times(deciding, |description| Ok(entry.values(description)?.into_iter().next()))
}

/// Checks that a change of the classes does not turn the entry into an alias, a referral or a subentry, or the reverse.
/// The structural class may change.
///
/// # Errors
/// objectClassModsProhibited for an entry that becomes, or is no longer, an alias, a referral or a subentry, and for
/// classes without a structural class.
pub(crate) fn check_same_kind(before: &ClassSet, after: &ClassSet) -> Result<()> {
    if before.flags == after.flags && after.structural.is_some() {
        return Ok(());
    }
    let text =
        "an entry becomes no alias, referral or subentry, and ceases to be none: delete it and add it again";
    Err(OperationError::refused(ResultCode::OBJECT_CLASS_MODS_PROHIBITED, text))
}

fn described<'a>(deciding: &Deciding<'a>, name: &str) -> Option<(&'a AttributeType, AttributeDescription)> {
    let attribute_type = deciding.state.catalog.schema.attribute_type(name)?;
    Some((attribute_type, AttributeDescription::of(attribute_type.id)))
}

/// Checks that entryUUID has an index, and that no entry has this entryUUID.
fn check_new_uuid(
    deciding: &Deciding<'_>,
    attribute_type: &AttributeType,
    description: &AttributeDescription,
    uuid: &[u8],
) -> Result<()> {
    let state = deciding.state;
    let Some(id) = state.catalog.attribute_id(description.type_id, "") else { return Ok(()) };
    let def = state.catalog.attribute(id);
    if !def.index.answers(IndexPart::Values) {
        let text = format!("{} needs an index for equality, to be given", attribute_type.name());
        return Err(OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text));
    }
    check_unindexed(state, def, uuid)
}

/// Checks that no entry has this entryUUID. Checks nothing if entryUUID has no index, because clients cannot set an
/// entryUUID without the index.
///
/// # Errors
/// constraintViolation.
pub(crate) fn check_free_uuid(state: TreeState<'_>, uuid: &[u8; 16]) -> Result<()> {
    let type_id = state.catalog.schema.attribute_type(ENTRY_UUID).map(|known| known.id);
    let Some(id) = type_id.and_then(|id| state.catalog.attribute_id(id, "")) else { return Ok(()) };
    let def = state.catalog.attribute(id);
    if !def.index.answers(IndexPart::Values) {
        return Ok(());
    }
    let text = Uuid::from_bytes(*uuid).hyphenated().to_string();
    check_unindexed(state, def, text.as_bytes())
}

fn check_unindexed(state: TreeState<'_>, def: &AttributeDef, uuid: &[u8]) -> Result<()> {
    let normal = normal_value(&state.catalog.schema, def, uuid);
    let mut others = Vec::new();
    state.read.ids(INDEX, &index_key(def.id, &normal))?.next_block(&mut others, 1)?;
    if others.is_empty() {
        return Ok(());
    }
    Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, "another entry has this entryUUID"))
}

/// Checks that the entry's last change is not before its creation, and that neither time is in the future. Accepts
/// every time in a change that was copied from another server.
fn check_times(
    deciding: &Deciding<'_>,
    mut value: impl FnMut(&AttributeDescription) -> Result<Option<Vec<u8>>>,
) -> Result<()> {
    if deciding.controls.follows_source() {
        return Ok(());
    }
    let mut time = |name: &str| -> Result<i64> {
        let Some((_, description)) = described(deciding, name) else { return Ok(0) };
        Ok(value(&description)?.and_then(|value| generalized_micros(&value)).unwrap_or_default())
    };
    let (created, modified) = (time(CREATE_TIMESTAMP)?, time(MODIFY_TIMESTAMP)?);
    let now = i64::try_from(deciding.csn.micros).unwrap_or(i64::MAX);
    let problem = if modified > now || created > now {
        "createTimestamp and modifyTimestamp cannot be in the future"
    } else if created > modified {
        "createTimestamp cannot be after modifyTimestamp: give both"
    } else {
        return Ok(());
    };
    Err(OperationError::refused(ResultCode::CONSTRAINT_VIOLATION, problem))
}
