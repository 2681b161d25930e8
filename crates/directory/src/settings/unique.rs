//! Uniqueness rules of the settings: their check, and the existing values that break them.

use schema::{Schema, TypeId};

use super::{DirectorySettings, SettingsProblem};
use crate::catalog::Secrets;
use crate::catalog::uniqueness::UniqueRule;
use crate::model::index_definition::IndexPart;
use crate::model::limits::VALUE_RULES_MAX;
use crate::model::outcome::OperationError;
use crate::model::rows::NODES;
use crate::tree::TreeState;

const KEY: &str = "unique";

/// Checks the rules by themselves. The indexes of `settings` are already checked.
pub(super) fn check(
    settings: &DirectorySettings,
    (schema, secrets): (&Schema, &Secrets),
    problems: &mut Vec<SettingsProblem>,
) {
    let texts = &settings.general.unique;
    if texts.len() > VALUE_RULES_MAX {
        let what = format!("there are {} rules, but at most {VALUE_RULES_MAX} are allowed", texts.len());
        problems.push(SettingsProblem::key(KEY, what));
        return;
    }
    let mut names: Vec<String> = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let mut refuse = |what| {
            problems.push(SettingsProblem::member(KEY, number, format!("uniqueness rule {text:?}: {what}")))
        };
        match UniqueRule::read(text, schema, secrets) {
            Ok(rule) if names.iter().any(|name| name.eq_ignore_ascii_case(&rule.name)) => {
                refuse(format!("there is another rule {:?}", rule.name));
            }
            Ok(rule) => {
                let has_index = |type_id: &&TypeId| {
                    let kinds = settings.indexes.get(schema.type_by_id(**type_id).name());
                    kinds.is_some_and(|kinds| IndexPart::Values.is_of(*kinds))
                };
                if let Some(without) = rule.types.iter().find(|type_id| !has_index(type_id)) {
                    let name = schema.type_by_id(*without).name();
                    refuse(format!("{name} has no equality index: add it to the setting indexes"));
                }
                names.push(rule.name);
            }
            Err(what) => refuse(what),
        }
    }
}

/// Finds the rules that need an index which does not have all rows yet. Without entries there is none.
///
/// # Errors
/// The store failed.
pub(super) fn check_indexes(
    state: TreeState<'_>,
    texts: &[String],
    (schema, secrets): (&Schema, &Secrets),
) -> Result<Vec<SettingsProblem>, OperationError> {
    let mut problems = Vec::new();
    if state.read.row_count(NODES)? == 0 {
        return Ok(problems);
    }
    let catalog = state.catalog;
    for (number, text) in texts.iter().enumerate() {
        let Ok(rule) = UniqueRule::read(text, schema, secrets) else { continue };
        for type_id in rule.types {
            let name = schema.type_by_id(type_id).name();
            let known =
                catalog.schema.attribute_type(name).and_then(|known| catalog.attribute_id(known.id, ""));
            if !known.is_some_and(|id| catalog.attribute(id).index.answers(IndexPart::Values)) {
                let what = format!(
                    "the index of {name} is not built yet, which uniqueness rule {text:?} needs: apply the indexes \
                     first, and the rule when they are built"
                );
                problems.push(SettingsProblem::member(KEY, number, what).unwilling());
            }
        }
    }
    Ok(problems)
}
