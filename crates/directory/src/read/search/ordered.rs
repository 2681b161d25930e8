//! Sorted results from a sort order: the search traverses the rows of the order and need not collect and sort results.
//!
//! An order can serve a search under three conditions. The order has the requested sort keys, or exactly their reverse.
//! The order contains every entry that the search may find. The requester may read the sorted values at every entry
//! that it may see, so that their order reveals nothing. The traversal examines the entries one after another, as any
//! search does, until it has found enough results. The order is chosen if its traversal is likely to cost less than
//! examining all candidates.
//!
//! To return a part of the list, the search needs the number of results before that part and the total number of
//! results. The order supplies these numbers only if its entries are exactly the results. That is so if the order has
//! the filter and the scope of the search, and the requester may see all entries of the order.

use std::ops::Bound;

use ldap::Scope;
use schema::AttributeDescription;

use super::order_traversal::{OrderTraversal, complete};
use super::permitted::filter_types;
use super::plan::Plan;
use super::scope::SearchScope;
use super::sorting::Sorting;
use crate::access::{EffectiveRights, Readable};
use crate::catalog::access_rules::TypeSet;
use crate::catalog::sort_orders::SortOrderRule;
use crate::filter::Term;
use crate::index::sort_key::sort_rule;
use crate::index::sort_orders::{ReadyOrder, rows_of};
use crate::model::outcome::OperationError;
use crate::model::rows::{CLASSES, EntryId, NODES, NodeFlags, children_counter, class_key, subtree_counter};
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Factor by which a candidate costs more in a search that sorts than in the traversal of an order. A search that sorts
/// keeps and sorts each match, and examines it again.
const WALK_ADVANTAGE: u64 = 2;

/// Facts about a search on which the choice of an order depends.
pub(super) struct OrderedSearch<'s> {
    pub(super) state: TreeState<'s>,
    pub(super) rights: &'s EffectiveRights,
    pub(super) scope: &'s SearchScope,
    pub(super) filter: &'s Term,
    pub(super) plan: &'s Plan,
    /// Maximum number of results; 0 for no limit.
    pub(super) size_limit: u32,
}

impl OrderedSearch<'_> {
    /// Finds an order for the results, and the start of the traversal in it. Returns `None` if the results must be
    /// sorted.
    pub(super) fn find_traversal(&self, sorting: &mut Sorting) -> Result<Option<OrderTraversal>> {
        let SearchScope { kind, aliased, extras, subentries, .. } = self.scope;
        if *kind == Scope::BaseObject
            || *subentries == Some(true)
            || !aliased.is_empty()
            || !extras.is_empty()
            || self.filter.tests_collective(self.state)
            || sorting.by.iter().any(|key| key.tests_collective(self.state))
        {
            return Ok(None);
        }
        for (order, rule) in complete(self.state) {
            let Some(is_reversed) = self.direction(rule, sorting) else { continue };
            let Some(ready) = self.ready(rule)? else { continue };
            let is_exact = self.filter.is_implied_by(ready.covering.filter.as_ref())
                && self.is_whole_place(rule, &ready)?
                && self.sees_all(rule)?;
            let (number, start) = (order.number, Bound::Unbounded);
            let traversal = OrderTraversal { number, is_reversed, start, left: u64::MAX, is_exact };
            let traversal = match sorting.window.is_some() {
                true if is_exact => Some(self.part(traversal, sorting)?),
                true => None,
                false => self.beginning(traversal, sorting)?,
            };
            if traversal.is_some() {
                return Ok(traversal);
            }
        }
        Ok(None)
    }

    /// Compares the requested order with a sort order. Returns true if the requested order is the exact reverse, false
    /// if the two orders are the same, and `None` otherwise.
    fn direction(&self, rule: &SortOrderRule, sorting: &Sorting) -> Option<bool> {
        let schema = &self.state.catalog.schema;
        let is_reversed = sorting.by.first()?.is_reversed;
        let is_same = sorting.by.len() == rule.types.len()
            && sorting.by.iter().zip(&rule.types).all(|(by, type_id)| {
                let own = sort_rule(schema.type_by_id(*type_id));
                by.description == AttributeDescription::of(*type_id)
                    && own.is_some_and(|own| own.shares_key_with(by.rule))
                    && by.is_reversed == is_reversed
            });
        is_same.then_some(is_reversed)
    }

    /// Returns the order if it contains all results and its sequence of entries reveals nothing to the requester.
    fn ready(&self, rule: &SortOrderRule) -> Result<Option<ReadyOrder>> {
        let (state, base) = (self.state, self.scope.base);
        let ready = ReadyOrder::of(state, rule)?;
        let mut types = TypeSet::default();
        let sorted = rule.types.iter().flat_map(|of| state.catalog.schema.subtypes(*of));
        sorted.for_each(|type_id| types.insert(*type_id));
        let serves = self.filter.implies(ready.covering.filter.as_ref())
            && ready.covering.has_in_base(state, base)?
            && self.rights.readable(state, base, &types)? >= Readable::WhereSeen;
        Ok(serves.then_some(ready))
    }

    /// Returns the traversal from the start of the results or of the page, if the traversal costs less than sorting.
    fn beginning(&self, mut traversal: OrderTraversal, sorting: &Sorting) -> Result<Option<OrderTraversal>> {
        let count = rows_of(traversal.number).count(self.state.read)?;
        let candidates = self.plan.candidate_count;
        let wanted = match self.size_limit {
            0 => u64::MAX,
            limit => u64::from(limit) + 1,
        };
        let examined = wanted.saturating_mul(count / candidates.max(1) + 1).min(count);
        if examined > candidates.saturating_mul(WALK_ADVANTAGE) {
            return Ok(None);
        }
        if let Some(after) = &sorting.after {
            traversal.start = Bound::Excluded(traversal.turned(after));
        }
        Ok(Some(traversal))
    }

    /// Returns the traversal of the requested part of the list.
    fn part(&self, mut traversal: OrderTraversal, sorting: &mut Sorting) -> Result<OrderTraversal> {
        traversal.left = 0;
        let Some(window) = sorting.window.as_deref_mut() else { return Ok(traversal) };
        let (read, rows) = (self.state.read, rows_of(traversal.number));
        let count = rows.count(read)?;
        let part = window.place_in(count, |target| {
            let target = traversal.turned(target);
            match traversal.is_reversed {
                false => rows.rank(read, &target),
                // Even in reverse order, keys that begin with the target are not before the target.
                true => match after_all(target) {
                    Some(end) => Ok(count - rows.rank(read, &end)?),
                    None => Ok(0),
                },
            }
        })?;
        let first = if traversal.is_reversed { count.checked_sub(part.start + 1) } else { Some(part.start) };
        if let Some(first) = first.map(|first| rows.at(read, first)).transpose()?.flatten() {
            traversal.start = Bound::Included(first.to_vec());
            traversal.left = part.end.saturating_sub(part.start);
        }
        Ok(traversal)
    }

    /// Returns true if the scope of the search contains all entries of the order.
    fn is_whole_place(&self, rule: &SortOrderRule, ready: &ReadyOrder) -> Result<bool> {
        let (state, base, kind) = (self.state, self.scope.base, self.scope.kind);
        if has_signposts(state)? {
            return Ok(false);
        }
        let below = |of: EntryId| state.read.count(&subtree_counter(of));
        let is_top = match &rule.covered.base {
            Some(_) => ready.covering.has_as_base(base),
            None if base == EntryId::ROOT => true,
            None => u64::try_from(below(base)? + 1).ok() == Some(state.read.row_count(NODES)?),
        };
        let is_deep =
            kind != Scope::SingleLevel || state.read.count(&children_counter(base))? == below(base)?;
        let has_base = kind == Scope::WholeSubtree || base == EntryId::ROOT;
        Ok(is_top && is_deep && (has_base || ready.key(state, base, &mut Default::default())?.is_none()))
    }

    /// Returns true if the requester may see each entry of the order and test the filter there.
    fn sees_all(&self, rule: &SortOrderRule) -> Result<bool> {
        let tested = filter_types(self.filter, self.state.catalog);
        let mut types = rule.watched.clone();
        tested.types.iter().for_each(|type_id| types.insert(*type_id));
        let readable = self.rights.readable(self.state, self.scope.base, &types)?;
        Ok(tested.hops.is_empty() && readable == Readable::Everywhere)
    }
}

/// Returns true if the directory has aliases or referrals. Each request decides whether these entries, and the entries
/// below referrals, are results.
fn has_signposts(state: TreeState<'_>) -> Result<bool> {
    let is_signpost = |flags: NodeFlags| flags.is_alias() || flags.is_referral();
    if is_signpost(state.catalog.class_set_flags()) {
        for (id, _) in state.catalog.numbered_class_sets().filter(|(_, set)| is_signpost(set.flags)) {
            if state.read.ids(CLASSES, &class_key(id))?.estimate() > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the least key that is greater than all keys that begin with these octets; `None` if there is no such key.
fn after_all(mut beginning: Vec<u8>) -> Option<Vec<u8>> {
    while beginning.pop_if(|last| *last == u8::MAX).is_some() {}
    *beginning.last_mut()? += 1;
    Some(beginning)
}
