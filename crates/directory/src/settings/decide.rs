//! Builds the record of proposed settings, or returns the reasons against the changes.

use schema::AttributeDescription;

use super::{
    CheckedSettings, Difference, DirectorySettings, SettingsProblem, SettingsRecord, check, definitions,
    expectations, rule_readers, value_rules,
};
use crate::accounts::{self, NamedPolicy};
use crate::catalog::{Allocations, AttributeAllocation, Catalog};
use crate::model::index_definition::IndexKinds;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, subtree_counter};
use crate::tree::{TreeState, child};

/// Decision about proposed settings.
#[derive(Clone, Debug)]
pub struct SettingsDecision {
    /// The changes.
    pub record: SettingsRecord,
    /// Allocations for attributes that become indexed although no entry has had them.
    pub attributes: Vec<AttributeAllocation>,
    /// The changes, described for an administrator.
    pub differences: Vec<Difference>,
}

/// Reasons why settings cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The settings are invalid, or existing entries prevent them.
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

/// Returns the changes from the settings in force to `proposal`. Writes nothing.
///
/// # Errors
/// The settings are invalid, existing entries prevent the change, or the store failed.
pub fn decide(state: TreeState<'_>, proposal: &DirectorySettings) -> Result<SettingsDecision, SettingsError> {
    let checked = check(proposal)?;
    let unfulfilled = expectations::unfulfilled(state, &checked.settings)?;
    if !unfulfilled.is_empty() {
        return Err(unfulfilled.into());
    }
    let before = DirectorySettings::of(state.catalog);
    // A fault that the default policy in force already has does not prevent other changes. `notes` reports such a
    // fault.
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
        with_schema = definitions::change(state, &checked)??;
        record.schema = Some(checked.settings.schema.clone());
        &with_schema
    };
    let early = definitions::early_rules(catalog, &checked);
    if !early.is_empty() {
        return Err(early.into());
    }
    record.suffixes = change_suffixes(state, catalog, &checked)?;
    let mut allocations = Allocations::new(catalog);
    record.indexes = change_indexes(catalog, &checked, &mut allocations);
    if checked.settings.general != before.general {
        record.general = Some(checked.settings.general.clone());
        record.joins = value_rules::joins(state, (&before.general, &checked.settings.general))?;
    }
    let (attributes, _) = allocations.into_parts();
    let differences = Difference::between(&before, &checked.settings);
    Ok(SettingsDecision { record, attributes, differences })
}

/// Returns notices about proposed settings, in addition to their differences. These notices report values that a new
/// definition compares by other rules. The notices also report a default policy or a group of `auto_members` that does
/// not exist yet.
///
/// # Errors
/// The default policy cannot be used: its entry is not a policy, or can exist only after another change of the
/// settings; or the store failed.
pub fn notes(state: TreeState<'_>, settings: &DirectorySettings) -> Result<Vec<String>, SettingsError> {
    let name = &settings.general.password_policy;
    let mut notes = notes_of(accounts::named_policy(state, name, &settings.suffixes)?)?;
    notes.extend(value_rules::missing_groups(state, settings)?);
    notes.extend(definitions::notes(state, settings)?);
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

/// Returns notices about the rules of existing password policies that cannot be applied as written. Does not check the
/// setting that names the default policy.
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
    let removed: Vec<_> = catalog.suffixes.iter().filter(|suffix| !is_kept(suffix.number)).collect();
    for suffix in &removed {
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
    if removed.is_empty() && wanted.len() == catalog.suffixes.len() {
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
