//! Rights to attributes that are the same at all entries of a subtree, determined from the rules without reading
//! entries.
//!
//! A sort order contains the values of all entries. A search may use a sort order only if the requester may read these
//! values at each entry that the requester may see. Otherwise the position of an entry in the results would reveal a
//! hidden value.

use super::{Result, RuleRights};
use crate::access::requester::Condition;
use crate::catalog::access_rules::TypeSet;
use crate::model::access_rule::{BROWSE, READ, Reach, SEARCH};
use crate::model::rows::EntryId;
use crate::tree::TreeState;

/// Entries of a subtree at which the requester may read all values of some types and use them in filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Readable {
    /// Unknown, because the rights differ from entry to entry.
    Somewhere,
    /// At each entry that the requester may see. Some entries may be hidden.
    WhereSeen,
    /// At each entry. No entry is hidden from the requester.
    Everywhere,
}

impl RuleRights {
    /// Determines from the rules alone, without reading entries, whether the requester may read all values of these
    /// types in the subtree of `base`.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn readable(&self, state: TreeState<'_>, base: EntryId, types: &TypeSet) -> Result<Readable> {
        let (mut is_granted, mut may_hide, mut goes_with_sight) = (false, false, true);
        for applicable in &self.applicable {
            let Some(rule) = self.rules.rules.get(applicable.rule) else { continue };
            if applicable.is_deny {
                may_hide |= rule.rights.has(BROWSE);
                let takes = rule.rights.has(READ.with(SEARCH)) && !rule.types.and(types).is_empty();
                if takes && !rule.rights.has(BROWSE) {
                    return Ok(Readable::Somewhere);
                }
                continue;
            }
            let is_whole = applicable.values.is_none() && rule.rights.has(READ) && rule.types.has_all(types);
            let is_everywhere = applicable.but.is_empty()
                && applicable.filter.is_none()
                && applicable.condition == Condition::Always
                && match applicable.place {
                    None => true,
                    Some((Reach::In, top)) => state.is_at_or_below(base, top)?,
                    Some((Reach::Below, top)) => base != top && state.is_at_or_below(base, top)?,
                    Some((Reach::At | Reach::Children, _)) => false,
                };
            is_granted |= is_whole && is_everywhere;
            goes_with_sight &= is_whole || !rule.rights.has(BROWSE);
        }
        Ok(match (is_granted, may_hide) {
            (true, false) => Readable::Everywhere,
            (true, true) => Readable::WhereSeen,
            (false, _) if goes_with_sight => Readable::WhereSeen,
            (false, _) => Readable::Somewhere,
        })
    }
}
