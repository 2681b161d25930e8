//! Checks of the settings that contain rules about values, memberships or bind names. Each rule has a name, and most
//! rules need equality indexes.

use schema::{Schema, TypeId};

use super::{DirectorySettings, GeneralSettings, SettingsProblem};
use crate::catalog::Secrets;
use crate::catalog::auto_members::{AutoMemberRule, pending_joins};
use crate::catalog::bind_names::BindNameRule;
use crate::catalog::next_numbers::NextNumberRule;
use crate::catalog::sort_orders::SortOrderRule;
use crate::catalog::uniqueness::UniqueRule;
use crate::catalog::value_limits::ValueLimit;
use crate::model::index_definition::IndexPart;
use crate::model::limits::{SORT_ORDERS_MAX, VALUE_RULES_MAX};
use crate::model::outcome::OperationError;
use crate::model::pending_join::PendingJoin;
use crate::model::quoted::Quoted;
use crate::model::rows::NODES;
use crate::tree::TreeState;

/// Name of a rule, and the attribute types whose indexes the rule needs. The error describes a fault in the rule's
/// text.
type RuleNeeds = Result<(String, Vec<TypeId>), String>;

/// A setting that contains rules about values, memberships or bind names.
struct RuleSetting {
    key: &'static str,
    /// Noun for a rule of the setting in messages.
    noun: &'static str,
    texts: fn(&GeneralSettings) -> &[String],
    /// Parses a rule.
    read: fn(&str, &Schema, &Secrets) -> RuleNeeds,
    count_max: usize,
}

const SETTINGS: [RuleSetting; 6] = [
    RuleSetting {
        key: "unique",
        noun: "uniqueness rule",
        texts: |of| &of.unique,
        read: |text, schema, secrets| {
            UniqueRule::read(text, schema, secrets).map(|rule| (rule.name, rule.types))
        },
        count_max: VALUE_RULES_MAX,
    },
    RuleSetting {
        key: "next_numbers",
        noun: "range of numbers",
        texts: |of| &of.next_numbers,
        read: |text, schema, secrets| {
            NextNumberRule::read(text, schema, secrets).map(|rule| (rule.name, rule.types))
        },
        count_max: VALUE_RULES_MAX,
    },
    RuleSetting {
        key: "value_limits",
        noun: "value limit",
        texts: |of| &of.value_limits,
        read: |text, schema, secrets| {
            let needed = |rule: &ValueLimit| rule.source.iter().map(|source| source.type_id).collect();
            ValueLimit::read(text, schema, secrets).map(|rule| (rule.name.clone(), needed(&rule)))
        },
        count_max: VALUE_RULES_MAX,
    },
    RuleSetting {
        key: "sort_orders",
        noun: "sort order",
        texts: |of| &of.sort_orders,
        read: |text, schema, secrets| {
            SortOrderRule::read(text, schema, secrets).map(|rule| (rule.name, Vec::new()))
        },
        count_max: SORT_ORDERS_MAX,
    },
    RuleSetting {
        key: "auto_members",
        noun: "rule for members",
        texts: |of| &of.auto_members,
        read: |text, schema, secrets| {
            AutoMemberRule::read(text, schema, secrets).map(|rule| (rule.name, Vec::new()))
        },
        count_max: VALUE_RULES_MAX,
    },
    RuleSetting {
        key: "bind_names",
        noun: "rule for names",
        count_max: VALUE_RULES_MAX,
        texts: |of| &of.bind_names,
        read: |text, schema, secrets| {
            BindNameRule::read(text, schema, secrets).map(|rule| (rule.name, rule.types))
        },
    },
];

/// Returns a notice for each rule of `auto_members` whose group does not exist.
///
/// # Errors
/// The store failed.
pub(super) fn missing_groups(
    state: TreeState<'_>,
    settings: &DirectorySettings,
) -> Result<Vec<String>, OperationError> {
    let mut notices = Vec::new();
    for text in &settings.general.auto_members {
        // A rule that depends on a new schema is checked after the schema has come into force.
        let Ok(rule) = AutoMemberRule::read(text, &state.catalog.schema, &state.catalog.secrets) else {
            continue;
        };
        if state.entry_here(&rule.group.1)?.is_none() {
            notices.push(format!(
                "auto_members: the group {} of the rule {:?} does not exist: no entry joins it until it is added",
                Quoted(&rule.group.0),
                rule.name
            ));
        }
    }
    Ok(notices)
}

/// Returns the pending rules of `auto_members` under the new settings: rules that are new or changed, and rules that
/// were pending before and remain. New and changed rules are not pending in a directory without entries. Returns `None`
/// if the list does not change.
///
/// # Errors
/// The store failed.
pub(super) fn joins(
    state: TreeState<'_>,
    (before, after): (&GeneralSettings, &GeneralSettings),
) -> Result<Option<Vec<PendingJoin>>, OperationError> {
    let (old, new) = (&before.auto_members, &after.auto_members);
    if old == new {
        return Ok(None);
    }
    let pending = pending_joins(state.read)?.list;
    let mut joins = pending.clone();
    joins.retain(|join| new.contains(&join.rule));
    if state.read.row_count(NODES)? > 0 {
        joins.extend(new.iter().filter(|rule| !old.contains(rule)).cloned().map(PendingJoin::new));
    }
    Ok((joins != pending).then_some(joins))
}

/// Checks the rules without entries. The indexes of `settings` must already be checked.
pub(super) fn check(
    settings: &DirectorySettings,
    types: (&Schema, &Secrets),
    problems: &mut Vec<SettingsProblem>,
) {
    SETTINGS.iter().for_each(|setting| check_setting(setting, settings, types, problems));
}

fn check_setting(
    RuleSetting { key, noun, texts, read, count_max }: &RuleSetting,
    settings: &DirectorySettings,
    (schema, secrets): (&Schema, &Secrets),
    problems: &mut Vec<SettingsProblem>,
) {
    let texts = texts(&settings.general);
    if texts.len() > *count_max {
        let what = format!("there are {} rules, but at most {count_max} are allowed", texts.len());
        problems.push(SettingsProblem::key(*key, what));
        return;
    }
    let mut names: Vec<String> = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let mut refuse =
            |what| problems.push(SettingsProblem::member(key, number, format!("{noun} {text:?}: {what}")));
        match read(text, schema, secrets) {
            Ok((name, _)) if names.iter().any(|known| known.eq_ignore_ascii_case(&name)) => {
                refuse(format!("there is another rule {name:?}"));
            }
            Ok((name, types)) => {
                let has_index = |type_id: &&TypeId| {
                    let kinds = settings.indexes.get(schema.type_by_id(**type_id).name());
                    kinds.is_some_and(|kinds| IndexPart::Values.is_of(*kinds))
                };
                if let Some(without) = types.iter().find(|type_id| !has_index(type_id)) {
                    let name = schema.type_by_id(*without).name();
                    refuse(format!("{name} has no equality index: add it to the setting indexes"));
                }
                names.push(name);
            }
            Err(what) => refuse(what),
        }
    }
}

/// Finds rules in changed settings that need an index whose rows are not complete. In a directory without entries, does
/// nothing.
///
/// # Errors
/// The store failed.
pub(super) fn check_indexes(
    state: TreeState<'_>,
    (before, after): (&GeneralSettings, &GeneralSettings),
    (schema, secrets): (&Schema, &Secrets),
) -> Result<Vec<SettingsProblem>, OperationError> {
    let mut problems = Vec::new();
    let changed = SETTINGS.iter().filter(|setting| (setting.texts)(before) != (setting.texts)(after));
    let changed: Vec<&RuleSetting> = changed.collect();
    if changed.is_empty() || state.read.row_count(NODES)? == 0 {
        return Ok(problems);
    }
    let catalog = state.catalog;
    for RuleSetting { key, noun, texts, read, .. } in changed {
        for (number, text) in texts(after).iter().enumerate() {
            for type_id in read(text, schema, secrets).map(|(_, types)| types).unwrap_or_default() {
                let name = schema.type_by_id(type_id).name();
                let known = catalog.schema.attribute_type(name);
                let known = known.and_then(|known| catalog.attribute_id(known.id, ""));
                if !known.is_some_and(|id| catalog.attribute(id).index.answers(IndexPart::Values)) {
                    let what = format!(
                        "the index of {name} is not built yet, which the {noun} {text:?} needs: apply the indexes \
                         first, and the rule when they are built"
                    );
                    problems.push(SettingsProblem::member(key, number, what).unwilling());
                }
            }
        }
    }
    Ok(problems)
}
