//! Permission to use controls and extended operations. If no rule names a control or operation, all requesters may use
//! it. Some operations are an exception: no requester may use them without a rule. If an `allow` rule names it, only
//! the requesters of that rule may use it. If a `deny` rule names it, the requesters of that rule may not use it.

use super::asker::AskerFacts;
use crate::catalog::access_rules::{AccessRules, Rule};
use crate::model::access_rule::USE;
use crate::model::client_link::ClientLink;
use crate::model::outcome::OperationError;
use crate::model::usable::Uses;

/// Effect that a rule about controls and extended operations has on a requester.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Allows,
    Denies,
    /// The rule allows the use only to other requesters, and thus refuses it to this requester.
    AllowsOthers,
}

/// Returns the rules that affect the requester's use of controls and operations, each with its index, uses and effect.
///
/// # Errors
/// The store failed.
pub(super) fn said(
    rules: &AccessRules,
    asker: &mut AskerFacts<'_>,
    link: Option<&ClientLink>,
) -> Result<Vec<(usize, Uses, Says)>, OperationError> {
    let mut said = Vec::new();
    let about = |(_, rule): &(usize, &Rule)| rule.rights.has(USE);
    for (place, rule) in rules.rules.iter().enumerate().filter(about) {
        let is_for = rule.holds_over(link) && asker.condition(&rule.requesters)?.is_some();
        match (rule.is_allow, is_for) {
            (true, true) => said.push((place, rule.uses, Says::Allows)),
            (true, false) => said.push((place, rule.uses, Says::AllowsOthers)),
            (false, true) => said.push((place, rule.uses, Says::Denies)),
            (false, false) => {}
        }
    }
    Ok(said)
}

/// Returns the controls and extended operations that the requester may not use.
///
/// # Errors
/// The store failed.
pub(super) fn refused(
    rules: &AccessRules,
    asker: &mut AskerFacts<'_>,
    link: Option<&ClientLink>,
) -> Result<Uses, OperationError> {
    if rules.is_broken {
        return Ok(Uses::ALL);
    }
    if !rules.ask_uses() {
        return Ok(Uses::BY_NAME);
    }
    let said = said(rules, asker, link)?;
    let all = |what: Says| {
        let of_kind = said.iter().filter(|(.., says)| *says == what);
        of_kind.fold(Uses::default(), |all, (_, uses, _)| all.and(*uses))
    };
    let kept = all(Says::AllowsOthers).and(Uses::BY_NAME);
    Ok(kept.without(all(Says::Allows)).and(all(Says::Denies)))
}
