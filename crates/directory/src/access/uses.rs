//! Permission to use controls and extended operations. If no rule names a control or operation, all requesters may use
//! it. Some operations are an exception: no requester may use them without a rule. If an `allow` rule names a control
//! or operation, only the requesters of such rules may use it. If a `deny` rule names a control or operation, the
//! requesters of that rule may not use it. The administrator may use all controls and operations.

use super::requester::RequesterFacts;
use crate::catalog::access_rules::{AccessRules, Rule};
use crate::model::access_rule::USE;
use crate::model::client_link::ClientLink;
use crate::model::outcome::OperationError;
use crate::model::usable::Uses;

/// Effect that a rule about controls and extended operations has on a requester.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleEffect {
    Allows,
    Denies,
    /// The rule allows the use only to other requesters, and thus refuses it to this requester.
    AllowsOthers,
}

/// Returns the rules that affect the requester's use of controls and operations, each with its index, uses and effect.
///
/// # Errors
/// The store failed.
pub(super) fn affecting_rules(
    rules: &AccessRules,
    requester: &mut RequesterFacts<'_>,
    link: Option<&ClientLink>,
) -> Result<Vec<(usize, Uses, RuleEffect)>, OperationError> {
    let mut affecting = Vec::new();
    let about = |(_, rule): &(usize, &Rule)| rule.rights.has(USE);
    for (place, rule) in rules.rules.iter().enumerate().filter(about) {
        let is_for = rule.holds_over(link) && requester.condition(&rule.requesters)?.is_some();
        match (rule.is_allow, is_for) {
            (true, true) => affecting.push((place, rule.uses, RuleEffect::Allows)),
            (true, false) => affecting.push((place, rule.uses, RuleEffect::AllowsOthers)),
            (false, true) => affecting.push((place, rule.uses, RuleEffect::Denies)),
            (false, false) => {}
        }
    }
    Ok(affecting)
}

/// Returns the controls and extended operations that the requester may not use.
///
/// # Errors
/// The store failed.
pub(super) fn refused(
    rules: &AccessRules,
    requester: &mut RequesterFacts<'_>,
    link: Option<&ClientLink>,
) -> Result<Uses, OperationError> {
    if rules.is_broken {
        return Ok(Uses::ALL);
    }
    if !rules.cover_uses() {
        return Ok(Uses::BY_NAME);
    }
    let affecting = affecting_rules(rules, requester, link)?;
    let all = |what: RuleEffect| {
        let of_kind = affecting.iter().filter(|(.., says)| *says == what);
        of_kind.fold(Uses::default(), |all, (_, uses, _)| all.and(*uses))
    };
    let kept = all(RuleEffect::AllowsOthers).and(Uses::BY_NAME);
    Ok(kept.without(all(RuleEffect::Allows)).and(all(RuleEffect::Denies)))
}
