//! Who but the administrator may ask which access rules hold: a change after which nobody could is refused, unless a
//! rule says that this is meant.

use schema::Schema;

use super::SettingsProblem;
use crate::catalog::Secrets;
use crate::catalog::access_rules::{AccessRules, Rule, RuleAsker};
use crate::model::access_rule::{BROWSE, EXPLAIN};
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// What is wrong with rules that take from everybody what somebody has. The first rules of a directory take nothing,
/// and where there are no rules there is nothing to ask for.
///
/// # Errors
/// The store failed.
pub(super) fn lost(
    state: TreeState<'_>,
    (before, after): (&[String], &[String]),
    (schema, secrets): (&Schema, &Secrets),
) -> Result<Vec<SettingsProblem>> {
    if before == after || after.is_empty() || !is_somebody(state, &state.catalog.access_rules)? {
        return Ok(Vec::new());
    }
    let rules = AccessRules::of(after, schema, secrets);
    let is_meant = |rule: &Rule| denies_all(rule) && !rule.rights.has(BROWSE);
    if rules.rules.iter().any(is_meant) || is_somebody(state, &rules)? {
        return Ok(Vec::new());
    }
    let what = "nobody but the administrator could ask for these rules any more: allow somebody to explain, or say \
                that this is meant by a rule \"nobody: deny explain to anyone\"";
    Ok(vec![SettingsProblem::key("access_rules", what.to_owned())])
}

/// Whether a rule lets somebody who may be there explain at some entry, and no other takes that from everybody.
fn is_somebody(state: TreeState<'_>, rules: &AccessRules) -> Result<bool> {
    if rules.rules.iter().any(denies_all) {
        return Ok(false);
    }
    for rule in rules.rules.iter().filter(|rule| rule.is_allow && rule.rights.has(EXPLAIN)) {
        let is_there = match &rule.place {
            Some((_, name)) => exists(state, name)?,
            None => true,
        };
        for asker in rule.askers.iter().filter(|_| is_there) {
            let may_be = match asker {
                RuleAsker::User(name) | RuleAsker::UsersIn(name) | RuleAsker::Group(name) => {
                    exists(state, name)?
                }
                RuleAsker::Anyone
                | RuleAsker::Anonymous
                | RuleAsker::Authenticated
                | RuleAsker::Itself
                | RuleAsker::UsersMatching(..)
                | RuleAsker::NamedBy(_) => true,
            };
            if may_be {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a rule denies everybody to explain, everywhere and always.
fn denies_all(rule: &Rule) -> bool {
    let is_everywhere = rule.place.is_none() && rule.but.is_empty() && rule.filter.is_none();
    let is_always = is_everywhere && !rule.asks_link();
    !rule.is_allow && rule.rights.has(EXPLAIN) && is_always && rule.askers.contains(&RuleAsker::Anyone)
}

fn exists(state: TreeState<'_>, name: &NormalName) -> Result<bool> {
    Ok(name.depth() == 0 || state.entry_of(name)?.is_some())
}
