//! Turns proposed settings into the record of the changes, or into the reasons against them.

use std::ops::Bound;

use schema::AttributeDescription;
use store::Direction;

use super::{
    CheckedSettings, Difference, DirectorySettings, SettingsProblem, SettingsRecord, check, expectations,
    rule_readers, value_rules,
};
use crate::accounts::{self, NamedPolicy};
use crate::catalog::{Allocations, AttributeAllocation, Catalog};
use crate::model::entry::EntryRow;
use crate::model::index_definition::IndexKinds;
use crate::model::open_error::OpenError;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, CLASSES, ENTRIES, EntryId, class_key, subtree_counter};
use crate::tree::{TreeState, child, damaged_row};

/// Decision about proposed settings.
#[derive(Clone, Debug)]
pub struct SettingsDecision {
    /// The changes.
    pub record: SettingsRecord,
    /// Attributes that no entry had before and that are now indexed.
    pub attributes: Vec<AttributeAllocation>,
    /// The changes as described to an administrator.
    pub differences: Vec<Difference>,
}

/// Reasons why settings are not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The settings are not valid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<SettingsProblem>),
    /// The directory failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
}

impl From<Vec<SettingsProblem>> for SettingsError {
    fn from(problems: Vec<SettingsProblem>) -> SettingsError {
        SettingsError::Problems(problems)
    }
}

impl From<store::StoreError> for SettingsError {
    fn from(error: store::StoreError) -> SettingsError {
        SettingsError::Operation(error.into())
    }
}

/// Decides the changes that lead to `proposal`. Nothing is written.
///
/// # Errors
/// The settings are not valid; existing entries prevent them; the store failed.
pub fn decide(state: TreeState<'_>, proposal: &DirectorySettings) -> Result<SettingsDecision, SettingsError> {
    let checked = check(proposal)?;
    let unfulfilled = expectations::unfulfilled(state, &checked.settings)?;
    if !unfulfilled.is_empty() {
        return Err(unfulfilled.into());
    }
    let before = DirectorySettings::of(state.catalog);
    // An existing fault of the default policy prevents no other change; `notes` reports it.
    if checked.settings.general.password_policy != before.general.password_policy {
        notes(state, &checked.settings)?;
    }
    let general = (&before.general, &checked.settings.general);
    let waiting = value_rules::check_indexes(state, general, (&checked.schema, &checked.secrets))?;
    if !waiting.is_empty() {
        return Err(waiting.into());
    }
    let rules = (&before.general.access_rules[..], &checked.settings.general.access_rules[..]);
    let lost = rule_readers::lost_rule_readers(state, rules, (&checked.schema, &checked.secrets))?;
    if !lost.is_empty() {
        return Err(lost.into());
    }
    let mut record = SettingsRecord::default();
    let with_schema;
    let catalog = if checked.settings.schema == before.schema {
        state.catalog
    } else {
        with_schema = change_schema(state, &checked)?;
        record.schema = Some(checked.settings.schema.clone());
        &with_schema
    };
    record.suffixes = change_suffixes(state, catalog, &checked)?;
    let mut allocations = Allocations::new(catalog);
    record.indexes = change_indexes(catalog, &checked, &mut allocations);
    if checked.settings.general != before.general {
        record.general = Some(checked.settings.general.clone());
    }
    let (attributes, _) = allocations.into_parts();
    let differences = Difference::between(&before, &checked.settings);
    Ok(SettingsDecision { record, attributes, differences })
}

/// Returns notices about settings in addition to their differences: the default policy, or a group
/// that entries join, does not exist yet.
///
/// # Errors
/// The default policy that they name will not come to exist without another change, or is not a policy; the store
/// failed.
pub fn notes(state: TreeState<'_>, settings: &DirectorySettings) -> Result<Vec<String>, SettingsError> {
    let name = &settings.general.password_policy;
    let mut notes = notes_of(accounts::named_policy(state, name, &settings.suffixes)?)?;
    notes.extend(value_rules::missing_groups(state, settings)?);
    Ok(notes)
}

/// Like [`notes`], for a directory without entries.
///
/// # Errors
/// See [`notes`].
pub fn notes_of_new(checked: &CheckedSettings) -> Result<Vec<String>, SettingsError> {
    let CheckedSettings { settings, schema, .. } = checked;
    let name = &settings.general.password_policy;
    notes_of(accounts::named_policy_of_new(schema, name, &settings.suffixes)?)
}

/// Returns the parts of existing password policies that cannot be applied as written, except the setting that names a
/// policy.
///
/// # Errors
/// The store failed.
pub fn policy_notices(state: TreeState<'_>) -> Result<Vec<String>, OperationError> {
    Ok(accounts::read_policies(state.read, state.catalog)?.notices)
}

fn notes_of(named: NamedPolicy) -> Result<Vec<String>, SettingsError> {
    match named {
        NamedPolicy::Valid => Ok(Vec::new()),
        NamedPolicy::NoTree(note) => Ok(vec![note]),
        NamedPolicy::Unusable(what) => Err(vec![SettingsProblem::key("password_policy", what)].into()),
    }
}

/// Returns the catalogue under another schema. Definitions of attributes and classes that entries have, or ever had,
/// must stay. Rules on which normal forms depend may change only while there are no values.
fn change_schema(state: TreeState<'_>, checked: &CheckedSettings) -> Result<Catalog, SettingsError> {
    let refuse = |what: String| SettingsError::Problems(vec![SettingsProblem::key("schema", what)]);
    let changed = state.catalog.with_schema(checked.schema.clone());
    let (catalog, changed) = changed.map_err(|error| match error {
        OpenError::MissingDefinition { what, oid } => {
            let schema = &state.catalog.schema;
            let name = schema.attribute_type(&oid).map(|known| known.name());
            let name = name.or_else(|| schema.object_class(&oid).map(|known| known.name())).unwrap_or(&oid);
            let users = users(state, &oid).map_or_else(|_| "some".to_owned(), |count| count.to_string());
            refuse(format!(
                "{what} {name} is or was used by entries ({users} now) or by an index: its definition must stay"
            ))
        }
        other => refuse(other.to_string()),
    })?;
    for allocation in changed {
        let stored = state.catalog.attribute(allocation.id);
        let count = entries_with(state, &|id| id == allocation.id)?;
        if count > 0 {
            let name = &stored.name;
            return Err(refuse(format!(
                "{name} has values in {count} entries, so its syntax and its equality and ordering rules must stay \
                 unchanged: export, change the definition, and import"
            )));
        }
    }
    Ok(catalog)
}

/// Returns the number of entries that have an attribute type, or an object class or one derived from it.
fn users(state: TreeState<'_>, oid: &str) -> Result<u64, OperationError> {
    let catalog = state.catalog;
    if let Some(known) = catalog.schema.attribute_type(oid) {
        let attributes = catalog.stored_attributes_of_type(known.id);
        return entries_with(state, &|id| attributes.contains(&id));
    }
    let Some(class) = catalog.schema.object_class(oid).map(|known| known.id) else { return Ok(0) };
    let mut count = 0;
    for (id, _) in catalog.numbered_class_sets().filter(|(_, set)| set.closure.contains(&class)) {
        count += state.read.ids(CLASSES, &class_key(id))?.estimate();
    }
    Ok(count)
}

/// Counts the entries with an attribute. It reads every entry, and is called only for a definition in question.
fn entries_with(state: TreeState<'_>, is_it: &dyn Fn(AttrId) -> bool) -> Result<u64, OperationError> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut count = 0;
    for row in state.read.scan(ENTRIES, all, Direction::Forward) {
        let row = EntryRow::decode(row?.1).ok_or_else(|| damaged_row("entries", EntryId::ROOT))?;
        count += u64::from(row.attributes().any(|attribute| is_it(attribute.id)));
    }
    Ok(count)
}

fn change_suffixes(
    state: TreeState<'_>,
    catalog: &Catalog,
    checked: &CheckedSettings,
) -> Result<Option<Vec<(u32, String)>>, SettingsError> {
    let mut next = catalog.next_suffix_number();
    let mut wanted = Vec::new();
    for dn in &checked.settings.suffixes {
        let suffix = catalog
            .suffix_of(dn)
            .map_err(|error| vec![SettingsProblem::key("suffixes", error.to_string())])?;
        match catalog.suffixes.iter().find(|known| known.key == suffix.key) {
            Some(known) => wanted.push((known.number, known.dn.clone())),
            None => {
                wanted.push((next, suffix.dn));
                next += 1;
            }
        }
    }
    let is_kept = |number: u32| wanted.iter().any(|(kept, _)| *kept == number);
    let gone: Vec<_> = catalog.suffixes.iter().filter(|suffix| !is_kept(suffix.number)).collect();
    for suffix in &gone {
        if let Some((id, _)) = child(state.read, EntryId::ROOT, &suffix.key)? {
            let count = state.read.count(&subtree_counter(id))? + 1;
            let entries = if count == 1 { "an entry".to_owned() } else { format!("{count} entries") };
            let what = format!(
                "suffix {:?} has {entries} and cannot be removed: list it among the suffixes, or \
                 delete the entries first",
                suffix.dn
            );
            return Err(vec![SettingsProblem::key("suffixes", what).unwilling()].into());
        }
    }
    if gone.is_empty() && wanted.len() == catalog.suffixes.len() {
        return Ok(None);
    }
    wanted.sort_unstable();
    Ok(Some(wanted))
}

fn change_indexes(
    catalog: &Catalog,
    checked: &CheckedSettings,
    allocations: &mut Allocations<'_>,
) -> Vec<(AttrId, IndexKinds)> {
    let mut changes = Vec::new();
    let wanted = &checked.settings.indexes;
    for def in catalog.attributes().iter().filter(|def| def.id == def.base && !def.index.kinds.is_none()) {
        if !wanted.contains_key(&def.name) {
            changes.push((def.id, IndexKinds::NONE));
        }
    }
    for (name, kinds) in wanted {
        let Some(attribute_type) = checked.schema.attribute_type(name) else { continue };
        let id = allocations.attribute(&AttributeDescription::of(attribute_type.id));
        let known = catalog.attributes().get(id.0 as usize);
        if known.is_none_or(|def| def.index.kinds != *kinds) {
            changes.push((id, *kinds));
        }
    }
    changes
}
