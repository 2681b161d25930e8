//! Rule readers: requesters other than the administrator that may query the access rules. A change after which no rule
//! reader is left is refused, unless a rule states that this is intended.

use schema::Schema;

use super::SettingsProblem;
use crate::catalog::Secrets;
use crate::catalog::access_rules::{AccessRules, Rule, RuleRequester};
use crate::model::access_rule::{BROWSE, EXPLAIN};
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Returns a problem if the rules in force have a rule reader, and the proposed rules would have no rule reader. The
/// first rules of a directory are never refused, nor is the removal of all rules, because without rules there is
/// nothing to query. A change is also not refused if a proposed rule denies `explain`, but not browse, to every
/// requester: such a rule states that no rule reader is intended.
///
/// # Errors
/// The store failed.
pub(super) fn lost_rule_readers(
    state: TreeState<'_>,
    (before, after): (&[String], &[String]),
    (schema, secrets): (&Schema, &Secrets),
) -> Result<Vec<SettingsProblem>> {
    if before == after || after.is_empty() || !has_rule_reader(state, &state.catalog.access_rules)? {
        return Ok(Vec::new());
    }
    let rules = AccessRules::of(after, schema, secrets);
    let is_intended = |rule: &Rule| denies_all(rule) && !rule.rights.has(BROWSE);
    if rules.rules.iter().any(is_intended) || has_rule_reader(state, &rules)? {
        return Ok(Vec::new());
    }
    let what = "only the administrator could query these rules: allow explain to another requester, or state \
                with a rule \"closed: deny explain to anyone\" that this is intended";
    Ok(vec![SettingsProblem::key("access_rules", what.to_owned())])
}

/// Returns true if a rule allows `explain` to a requester that may exist, and no rule denies this right to every
/// requester.
fn has_rule_reader(state: TreeState<'_>, rules: &AccessRules) -> Result<bool> {
    if rules.rules.iter().any(denies_all) {
        return Ok(false);
    }
    for rule in rules.rules.iter().filter(|rule| rule.is_allow && rule.rights.has(EXPLAIN)) {
        let is_there = match &rule.place {
            Some((_, name)) => exists(state, name)?,
            None => true,
        };
        for requester in rule.requesters.iter().filter(|_| is_there) {
            let may_be = match requester {
                RuleRequester::User(name) | RuleRequester::UsersIn(name) | RuleRequester::Group(name) => {
                    exists(state, name)?
                }
                RuleRequester::Anyone
                | RuleRequester::Anonymous
                | RuleRequester::Authenticated
                | RuleRequester::Itself
                | RuleRequester::UsersMatching(..)
                | RuleRequester::NamedBy(_) => true,
            };
            if may_be {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns true if a rule denies `explain` to every requester, everywhere and always.
fn denies_all(rule: &Rule) -> bool {
    let is_everywhere = rule.place.is_none() && rule.but.is_empty() && rule.filter.is_none();
    let is_always = is_everywhere && !rule.depends_on_link();
    !rule.is_allow
        && rule.rights.has(EXPLAIN)
        && is_always
        && rule.requesters.contains(&RuleRequester::Anyone)
}

fn exists(state: TreeState<'_>, name: &NormalName) -> Result<bool> {
    Ok(name.depth() == 0 || state.entry_of(name)?.is_some())
}
