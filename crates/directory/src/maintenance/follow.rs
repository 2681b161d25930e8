//! Applies changes of another server to a copied tree. A change makes the local entry equal to the other server's entry
//! with the same entryUUID.
//!
//! The other server sends whole entries by content synchronization (RFC 4533). A local entry is renamed if its name
//! differs, and only attributes that differ are changed. Receiving an entry again therefore makes no record. The
//! changes are executed like requests of a client, with the rights of the administrator. Password policies do not
//! apply, because the other server has already applied them.
//!
//! Three kinds of attributes are not copied: computed attributes, the state that each server maintains itself
//! (entryCSN, failed and successful binds), and attributes of other servers that have no meaning for Pando.

mod doubtful;

use std::collections::{BTreeMap, HashSet};
use std::ops::{Bound, ControlFlow};

use ldap::{
    AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, DeleteRequest, Dn, ModifyDnRequest,
    ModifyRequest, Request, ResultCode, SyncUuid,
};
use schema::{AttributeDescription, Schema, TypeId};
use store::Direction;
use uuid::Uuid;

pub use self::doubtful::{all_doubtful, doubtful};
use super::import::vendor::{Vendor, is_disabled, left_out_name, vendor};
use crate::access::{RequestContext, Requester};
use crate::accounts::{COPIED_STATE, LOCKED_TIME};
use crate::catalog::{VirtualAttribute, is_user_password, normal_value};
use crate::database::WriteBatch;
use crate::index::IndexPart;
use crate::model::entry::EntryRow;
use crate::model::name::{NormalName, has_uid, parse_dn};
use crate::model::name_mapping::NameMapping;
use crate::model::outcome::{OperationError, Outcome};
use crate::model::rows::{ENTRIES, EntryId, INDEX, NAMES, id_key, index_key};
use crate::model::stamp::Stamp;
use crate::password::{self, StorageScheme, is_hashed};
use crate::read::bind::stored_passwords;
use crate::read::controls::RequestControls;
use crate::snapshot::Snapshot;
use crate::tree::stored_values::for_each_value;
use crate::tree::{Found, TreeState, damaged_row, entry_row};
use crate::write::relaxed::GIVEN;

/// An entry of the other server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEntry {
    /// The entryUUID.
    pub uuid: SyncUuid,
    /// The DN.
    pub dn: String,
    /// The attributes.
    pub attributes: Vec<SourceAttribute>,
}

/// An attribute of a [`SourceEntry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceAttribute {
    /// The attribute description.
    pub description: String,
    /// The values.
    pub values: Vec<Vec<u8>>,
}

/// A change of the other server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceChange {
    /// The entry was added or changed. Contains its present content.
    Entry(SourceEntry),
    /// The entry was deleted.
    Delete(SyncUuid),
}

impl SourceChange {
    /// Returns the entryUUID of the entry.
    pub fn uuid(&self) -> &SyncUuid {
        match self {
            SourceChange::Entry(entry) => &entry.uuid,
            SourceChange::Delete(uuid) => uuid,
        }
    }
}

/// Maximum number of values of an attribute that are replaced as a whole. If there are more values, only the
/// differences are added and deleted.
const REPLACED_VALUES_MAX: usize = 64;

/// Value of pwdAccountLockedTime for an account that stays locked until an administrator unlocks it.
const LOCKED_FOR_EVER: &[u8] = b"000001010000Z";

impl SourceEntry {
    /// Replaces remote names by local names in the DN, the attributes, the classes, and values that name entries.
    /// Removes attributes and classes in `leave_out`, which lists remote names. Also removes ambiguous values, and
    /// returns their number. A value is ambiguous if it names a remote entry outside of the copied tree by a DN that is
    /// also the local name of a copied entry.
    pub fn map(&mut self, schema: &Schema, mapping: &NameMapping, leave_out: &[String]) -> usize {
        if mapping.is_identity() && leave_out.is_empty() {
            return 0;
        }
        let mut ambiguous = 0;
        let is_left_out = |name: &str| leave_out.iter().any(|left| left.eq_ignore_ascii_case(name));
        if let Some(dn) = mapping.dn(schema, &self.dn) {
            self.dn = dn;
        }
        let mut mapped: Vec<SourceAttribute> = Vec::with_capacity(self.attributes.len());
        for SourceAttribute { description, mut values } in std::mem::take(&mut self.attributes) {
            let (name, options) = description.split_at(description.find(';').unwrap_or(description.len()));
            if is_left_out(name) {
                continue;
            }
            let new_name = mapping.name(name);
            if new_name.eq_ignore_ascii_case("objectClass") {
                map_classes(mapping, &mut values, &is_left_out);
            } else if names_entries(schema, new_name) {
                let before = values.len();
                values.retain_mut(|value| map_value(schema, mapping, value));
                ambiguous += before - values.len();
            }
            let description = format!("{new_name}{options}");
            match mapped.iter_mut().find(|other| other.description.eq_ignore_ascii_case(&description)) {
                // Two remote attributes have the same local name, so their values are combined.
                Some(other) => {
                    values
                        .retain(|value| !other.values.iter().any(|known| known.eq_ignore_ascii_case(value)));
                    other.values.append(&mut values);
                }
                None if values.is_empty() => {}
                None => mapped.push(SourceAttribute { description, values }),
            }
        }
        self.attributes = mapped;
        ambiguous
    }

    /// Removes attributes that are not copied: computed attributes, and attributes without a meaning for Pando. Counts
    /// the removed values of attributes without a meaning in `left_out`, by attribute, as an import does. Hashes clear
    /// passwords. If the local entry has a hash that matches a clear password, the password is replaced by this hash.
    /// Returns true if values name other entries: see [`follow`].
    ///
    /// # Errors
    /// The store failed.
    pub fn adapt(
        &mut self,
        snapshot: &Snapshot,
        salt: &mut dyn FnMut() -> [u8; 16],
        left_out: &mut BTreeMap<&'static str, u64>,
    ) -> Result<bool> {
        let state = snapshot.state();
        let schema = &*state.catalog.schema;
        let mut is_locked = false;
        self.attributes.retain(|attribute| {
            let name = attribute.description.split(';').next().unwrap_or_default();
            match schema.parse_description(&attribute.description) {
                Ok(description) => is_copied(schema, description.type_id),
                // Other unknown attributes stay, so that the entry is refused and no data are lost silently.
                Err(_) => match vendor(name) {
                    Some(Vendor::Disabled(form)) => {
                        is_locked |= attribute.values.iter().any(|value| is_disabled(form, value));
                        false
                    }
                    Some(Vendor::LeftOut) => {
                        if let Some(name) = left_out_name(name) {
                            *left_out.entry(name).or_default() += attribute.values.len() as u64;
                        }
                        false
                    }
                    Some(_) => false,
                    None => true,
                },
            }
        });
        if is_locked {
            let (description, values) = (LOCKED_TIME.to_owned(), vec![LOCKED_FOR_EVER.to_vec()]);
            self.attributes.push(SourceAttribute { description, values });
        }
        self.hash_passwords(state, salt)?;
        let is_link = |attribute: &SourceAttribute| {
            let description = schema.parse_description(&attribute.description);
            description.is_ok_and(|description| state.catalog.type_facts(description.type_id).is_link)
        };
        Ok(self.attributes.iter().any(is_link))
    }

    fn hash_passwords(&mut self, state: TreeState<'_>, salt: &mut dyn FnMut() -> [u8; 16]) -> Result<()> {
        let schema = &*state.catalog.schema;
        let scheme = state.settings.general.password_scheme;
        if scheme == StorageScheme::Clear {
            return Ok(());
        }
        for attribute in &mut self.attributes {
            let description = schema.parse_description(&attribute.description);
            if !description.is_ok_and(|description| is_user_password(schema, description.type_id)) {
                continue;
            }
            for value in attribute.values.iter_mut().filter(|value| !is_hashed(value)) {
                let known = match entry_of(state, &self.uuid)? {
                    Some(id) => stored_passwords(state, id)?,
                    None => Vec::new(),
                };
                let known = known.into_iter().find(|stored| password::verify(stored, value));
                *value = known.unwrap_or_else(|| password::hash(scheme, value, &salt()));
            }
        }
        Ok(())
    }
}

/// Returns the identifier in a value of entryUUID, nsUniqueId or objectGUID.
pub fn identifier(value: &[u8]) -> Option<SyncUuid> {
    super::import::vendor::identifier(value).map(Uuid::into_bytes)
}

/// Formats an identifier as a value of entryUUID.
pub fn uuid_text(uuid: &SyncUuid) -> String {
    Uuid::from_bytes(*uuid).hyphenated().to_string()
}

/// Returns true if an attribute of the other server is never copied: computed attributes, and the state that each
/// server maintains itself.
pub fn is_left_out(schema: &Schema, description: &str) -> bool {
    schema.parse_description(description).is_ok_and(|known| !is_copied(schema, known.type_id))
}

fn map_classes(mapping: &NameMapping, values: &mut Vec<Vec<u8>>, is_left_out: &dyn Fn(&str) -> bool) {
    let classes = std::mem::take(values);
    for class in classes.iter().map(|class| String::from_utf8_lossy(class)) {
        let new = mapping.name(&class).as_bytes();
        if !is_left_out(&class) && !values.iter().any(|known| known.eq_ignore_ascii_case(new)) {
            values.push(new.to_vec());
        }
    }
}

/// Returns true if values of this attribute name entries.
fn names_entries(schema: &Schema, name: &str) -> bool {
    let known = schema.attribute_type(name);
    known.is_some_and(|known| schema.syntax_by_id(known.syntax).name_syntax().is_some())
}

/// Maps a value that names an entry, with or without a UID (RFC 4517 section 3.3.21). Returns false if the value is
/// ambiguous: it names a remote entry outside of the base by a DN that is also the local name of a copied entry.
fn map_value(schema: &Schema, mapping: &NameMapping, value: &mut Vec<u8>) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return true };
    let place = if has_uid(text) { text.rfind("#'") } else { None };
    let (dn, uid) = text.split_at(place.unwrap_or(text.len()));
    let Some(mapped) = mapping.dn(schema, dn) else {
        return mapping.is_identity() || mapping.inverse().dn(schema, dn).is_none();
    };
    *value = format!("{mapped}{uid}").into_bytes();
    true
}

/// Returns true if the tree at `base` is a whole naming context of the directory, and has no entries.
///
/// # Errors
/// The store failed, or the name is malformed.
pub fn is_empty_context(snapshot: &Snapshot, base: &str) -> Result<bool> {
    let state = snapshot.state();
    let name = NormalName::of(&parse_dn(base)?, &state.catalog.schema);
    let mut contexts = state.catalog.suffixes.iter();
    let is_context = contexts.any(|suffix| suffix.key == name.key);
    Ok(is_context && matches!(state.find(&name)?, Found::Missing { nearest: None }))
}

/// Returns true if two DNs name the same entry.
pub fn is_same_name(schema: &Schema, one: &str, other: &str) -> bool {
    let key = |dn| Some(NormalName::of(&parse_dn(dn).ok()?, schema).key);
    key(one).is_some_and(|one| key(other) == Some(one))
}

/// Returns true if values of a type are copied from the other server.
fn is_copied(schema: &Schema, type_id: TypeId) -> bool {
    let attribute_type = schema.type_by_id(type_id);
    let name = attribute_type.name();
    VirtualAttribute::of(attribute_type).is_none()
        && (!attribute_type.no_user_modification || GIVEN.contains(&name) || COPIED_STATE.contains(&name))
}

/// Applies a change of the other server. Returns noSuchObject if the superior of the entry is missing, and
/// notAllowedOnNonLeaf if the entry to delete has subordinates. In these cases the caller may first have to apply
/// another change.
///
/// The change is confined to the copied tree at `base`. The change never deletes an entry outside of the tree. The
/// change moves an entry into the tree only from another copied tree, whose source will report the deletion.
///
/// Sets `renames` to true if an entry was renamed. Links in local values follow a rename. A received value, however,
/// may contain a new name before the rename is applied locally. The value then names no entry, or the wrong entry.
/// After a rename, the caller must therefore compare all entries with such values with the other server again.
pub fn follow(
    batch: &mut WriteBatch<'_>,
    base: &str,
    change: &SourceChange,
    stamp: &Stamp,
    renames: &mut bool,
) -> Outcome {
    let result = match change {
        SourceChange::Entry(entry) => follow_entry(batch, base, entry, (stamp, renames)),
        SourceChange::Delete(uuid) => follow_delete(batch, base, uuid, stamp),
    };
    result.unwrap_or_else(Outcome::from)
}

type Result<T> = std::result::Result<T, OperationError>;

fn key(state: TreeState<'_>, dn: &str) -> Result<Vec<u8>> {
    Ok(NormalName::of(&parse_dn(dn)?, &state.catalog.schema).key)
}

fn follow_delete(batch: &mut WriteBatch<'_>, base: &str, uuid: &SyncUuid, stamp: &Stamp) -> Result<Outcome> {
    let state = batch.state();
    let Some(id) = entry_of(state, uuid)? else { return Ok(Outcome::success()) };
    let dn = dn(state, id)?;
    // The entry may have moved into another copied tree.
    if !key(state, &dn)?.starts_with(&key(state, base)?) {
        return Ok(Outcome::success());
    }
    Ok(execute(batch, &Request::Delete(DeleteRequest { entry: &dn }), stamp))
}

fn follow_entry(
    batch: &mut WriteBatch<'_>,
    base: &str,
    entry: &SourceEntry,
    (stamp, renames): (&Stamp, &mut bool),
) -> Result<Outcome> {
    let state = batch.state();
    let (base, name) = (key(state, base)?, key(state, &entry.dn)?);
    if !name.starts_with(&base) {
        return Err(not_followed("its name is not below the base of the copy"));
    }
    let is_base = name == base;
    let Some(id) = entry_of(state, &entry.uuid)? else {
        return in_free_place(batch, entry, is_base, (stamp, renames), &mut add);
    };
    let present = dn(state, id)?;
    let present_key = key(state, &present)?;
    if !present_key.starts_with(&base) && !is_in_copy(state, &present_key)? {
        return Err(not_followed("an entry that is in no copy here has its entryUUID"));
    }
    if present_key != name {
        let moved = in_free_place(batch, entry, is_base, (stamp, renames), &mut |batch, entry, stamp| {
            Ok(rename(batch, &present, &parse_dn(&entry.dn)?, stamp))
        })?;
        if moved.code != ResultCode::SUCCESS {
            return Ok(moved);
        }
        *renames = true;
    }
    let changes = differences(batch.state(), id, entry)?;
    if changes.as_changes().is_empty() {
        return Ok(Outcome::success());
    }
    let object = dn(batch.state(), id)?;
    let modify = ModifyRequest { object: &object, changes: changes.as_changes() };
    Ok(execute(batch, &Request::Modify(modify), stamp))
}

fn not_followed(text: &'static str) -> OperationError {
    OperationError::refused(ResultCode::UNWILLING_TO_PERFORM, text)
}

/// Returns true if the name is in any copied tree.
fn is_in_copy(state: TreeState<'_>, name: &[u8]) -> Result<bool> {
    for tree in &state.settings.node.followed {
        if name.starts_with(&key(state, tree.base())?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn dn(state: TreeState<'_>, id: EntryId) -> Result<String> {
    state.dn(id)?.ok_or_else(|| damaged_row("nodes", id))
}

fn execute(batch: &mut WriteBatch<'_>, request: &Request<'_>, stamp: &Stamp) -> Outcome {
    let requester = Requester::Administrator { dn: batch.state().settings.node.admin_dn.clone() };
    let context = RequestContext::new(&requester, None);
    batch.execute(&context, request, &RequestControls::of_follower(), stamp)
}

type Step<'s> = &'s mut dyn FnMut(&mut WriteBatch<'_>, &SourceEntry, &Stamp) -> Result<Outcome>;

/// Executes `step`. The step adds or renames `entry`. If another entry already has the new DN, renames that entry and
/// repeats the step. The source later reports the correct DN of the other entry, or its deletion. If `entry` is the
/// base of the copied tree, the other entry keeps its DN, because a new name would move it out of the tree.
fn in_free_place(
    batch: &mut WriteBatch<'_>,
    entry: &SourceEntry,
    is_base: bool,
    (stamp, renames): (&Stamp, &mut bool),
    step: Step<'_>,
) -> Result<Outcome> {
    let outcome = step(batch, entry, stamp)?;
    if outcome.code != ResultCode::ENTRY_ALREADY_EXISTS || is_base || !set_aside(batch, &entry.dn, stamp)? {
        return Ok(outcome);
    }
    *renames = true;
    step(batch, entry, stamp)
}

/// Renames the entry with this name to an unused name. Returns false if the entry cannot be renamed.
fn set_aside(batch: &mut WriteBatch<'_>, name: &str, stamp: &Stamp) -> Result<bool> {
    let parsed = parse_dn(name)?;
    let Some(attribute) = parsed.rdn().and_then(|rdn| rdn.avas.first().map(|ava| ava.attribute.to_owned()))
    else {
        return Ok(false);
    };
    let rdn = format!("{attribute}={}", Uuid::from_bytes(stamp.uuid).hyphenated());
    let superior = parsed.text_from(1);
    let rename =
        ModifyDnRequest { entry: name, new_rdn: &rdn, delete_old_rdn: true, new_superior: Some(superior) };
    Ok(execute(batch, &Request::ModifyDn(rename), stamp).code == ResultCode::SUCCESS)
}

/// Renames an entry. Keeps the values of the old RDN if possible. If the other server no longer has these values, a
/// later step removes them with the other differences.
fn rename(batch: &mut WriteBatch<'_>, entry: &str, to: &Dn<'_>, stamp: &Stamp) -> Outcome {
    let superior = to.text_from(1);
    let own = to.text().strip_suffix(superior).unwrap_or(to.text()).trim_end_matches(' ');
    let new_rdn = own.strip_suffix([',', ';']).unwrap_or(own);
    let request = |delete_old_rdn| ModifyDnRequest {
        entry,
        new_rdn,
        delete_old_rdn,
        new_superior: (!superior.is_empty()).then_some(superior),
    };
    let outcome = execute(batch, &Request::ModifyDn(request(false)), stamp);
    match outcome.code {
        ResultCode::SUCCESS | ResultCode::NO_SUCH_OBJECT | ResultCode::ENTRY_ALREADY_EXISTS => outcome,
        _ => execute(batch, &Request::ModifyDn(request(true)), stamp),
    }
}

fn add(batch: &mut WriteBatch<'_>, entry: &SourceEntry, stamp: &Stamp) -> Result<Outcome> {
    let mut attributes = AttributesBuf::new();
    let uuid = uuid_text(&entry.uuid);
    attributes.push(ENTRY_UUID, [uuid]);
    for SourceAttribute { description, values } in &entry.attributes {
        attributes.push(description, values);
    }
    let request = AddRequest { entry: &entry.dn, attributes: attributes.as_attributes() };
    Ok(execute(batch, &Request::Add(request), stamp))
}

const ENTRY_UUID: &str = "entryUUID";

/// Returns the changes that make the attributes of the entry `id` equal to the attributes of `entry`.
fn differences(state: TreeState<'_>, id: EntryId, entry: &SourceEntry) -> Result<ChangesBuf> {
    let schema = &*state.catalog.schema;
    let mut changes = ChangesBuf::new();
    let row = entry_row(state.read, id)?;
    let parsed: Vec<Option<AttributeDescription>> = entry
        .attributes
        .iter()
        .map(|attribute| schema.parse_description(&attribute.description).ok())
        .collect();
    for stored in row.attributes() {
        let own = &state.catalog.attribute(stored.id).description;
        let place = parsed.iter().position(|other| other.as_ref() == Some(own));
        let Some(given) = place.and_then(|place| entry.attributes.get(place)) else {
            let name = schema.type_by_id(own.type_id).name();
            if is_copied(schema, own.type_id) && !GIVEN.contains(&name) {
                let none: [&[u8]; 0] = [];
                changes.push(ChangeOperation::Replace, &own.returned_name(schema), none);
            }
            continue;
        };
        let mut present = Vec::new();
        for_each_value(state, id, &stored, &mut |value| {
            present.push(value.to_vec());
            ControlFlow::Continue(())
        })?;
        change_values(state, own, (&present, given), &mut changes);
    }
    for (attribute, description) in entry.attributes.iter().zip(&parsed) {
        let is_stored = description.as_ref().is_some_and(|description| {
            let known = state.catalog.attribute_id(description.type_id, &description.options);
            known.is_some_and(|known| row.find(known).is_some())
        });
        if !is_stored {
            changes.push(ChangeOperation::Replace, &attribute.description, &attribute.values);
        }
    }
    Ok(changes)
}

fn change_values(
    state: TreeState<'_>,
    description: &AttributeDescription,
    (present, given): (&[Vec<u8>], &SourceAttribute),
    changes: &mut ChangesBuf,
) {
    let name = &given.description;
    let (before, after): (HashSet<&[u8]>, HashSet<&[u8]>) =
        (present.iter().map(Vec::as_slice).collect(), given.values.iter().map(Vec::as_slice).collect());
    if before == after {
        return;
    }
    if before.len().max(after.len()) <= REPLACED_VALUES_MAX {
        return changes.push(ChangeOperation::Replace, name, &given.values);
    }
    let Some(id) = state.catalog.attribute_id(description.type_id, &description.options) else { return };
    let (def, schema) = (state.catalog.attribute(id), &*state.catalog.schema);
    let keys = |values: &HashSet<&[u8]>| -> HashSet<Vec<u8>> {
        values.iter().map(|value| normal_value(schema, def, value)).collect()
    };
    let (old_keys, new_keys) = (keys(&before), keys(&after));
    let lacking = |values: &HashSet<&[u8]>, keys: &HashSet<Vec<u8>>| -> Vec<Vec<u8>> {
        let lacking = values.iter().filter(|value| !keys.contains(&normal_value(schema, def, value)));
        lacking.map(|value| value.to_vec()).collect()
    };
    let (removed, added) = (lacking(&before, &new_keys), lacking(&after, &old_keys));
    if !removed.is_empty() {
        changes.push(ChangeOperation::Delete, name, removed);
    }
    if !added.is_empty() {
        changes.push(ChangeOperation::Add, name, added);
    }
}

/// Returns the id of the entry with this entryUUID.
fn entry_of(state: TreeState<'_>, uuid: &SyncUuid) -> Result<Option<EntryId>> {
    let type_id = state.catalog.schema.attribute_type(ENTRY_UUID).map(|known| known.id);
    let Some(id) = type_id.and_then(|id| state.catalog.attribute_id(id, "")) else { return Ok(None) };
    let def = state.catalog.attribute(id);
    if !def.index.answers(IndexPart::Values) {
        let text = "entryUUID needs an index for equality, to follow another server";
        return Err(OperationError::refused(ResultCode::UNAVAILABLE, text));
    }
    let text = uuid_text(uuid);
    let normal = normal_value(&state.catalog.schema, def, text.as_bytes());
    let mut found = Vec::new();
    state.read.ids(INDEX, &index_key(def.id, &normal))?.next_block(&mut found, 1)?;
    Ok(found.first().copied().map(EntryId))
}

/// Returns the entryUUIDs of the entries at or below `base` for which `is_known` returns false, the youngest entry
/// first.
///
/// # Errors
/// The store failed.
pub fn others_below(
    snapshot: &Snapshot,
    base: &str,
    is_known: &dyn Fn(&SyncUuid) -> bool,
) -> Result<Vec<SyncUuid>> {
    let state = snapshot.state();
    let type_id = state.catalog.schema.attribute_type(ENTRY_UUID).map(|known| known.id);
    let Some(attribute) = type_id.and_then(|id| state.catalog.attribute_id(id, "")) else {
        return Ok(Vec::new());
    };
    let name = NormalName::of(&parse_dn(base)?, &state.catalog.schema);
    let Found::Entry(base, _) = state.find(&name)? else { return Ok(Vec::new()) };
    let mut others = Vec::new();
    let all = (Bound::Unbounded, Bound::Unbounded);
    for row in state.read.scan(ENTRIES, all, Direction::Forward) {
        let (key, value) = row?;
        let id = EntryId(u64::from_be_bytes(key.try_into().unwrap_or_default()));
        let row = EntryRow::decode(value).ok_or_else(|| damaged_row("entries", id))?;
        let Some(uuid) = row.uuid(attribute) else { continue };
        if !is_known(&uuid) && state.is_at_or_below(id, base)? {
            others.push(uuid);
        }
    }
    others.reverse();
    Ok(others)
}

/// Returns true if there is an entry with this entryUUID.
///
/// # Errors
/// The store failed.
pub fn has_entry(snapshot: &Snapshot, uuid: &SyncUuid) -> Result<bool> {
    Ok(entry_of(snapshot.state(), uuid)?.is_some())
}

/// Returns the entryUUIDs of an entry at or below `base` and of all entries below it, the youngest entry first.
///
/// # Errors
/// The store failed.
pub fn at_and_below(snapshot: &Snapshot, base: &str, uuid: &SyncUuid) -> Result<Vec<SyncUuid>> {
    let state = snapshot.state();
    let name = NormalName::of(&parse_dn(base)?, &state.catalog.schema);
    let (Some(id), Found::Entry(base, _)) = (entry_of(state, uuid)?, state.find(&name)?) else {
        return Ok(Vec::new());
    };
    if !state.is_at_or_below(id, base)? {
        return Ok(Vec::new());
    }
    match state.read.scan_below(NAMES, &id_key(id)).next().is_none() {
        true => Ok(vec![*uuid]),
        false => others_below(snapshot, &dn(state, id)?, &|_| false),
    }
}

#[cfg(test)]
mod tests;
