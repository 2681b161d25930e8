//! Repeats an earlier search on the current entries, to rehearse a change of access rules. The module compares the
//! entries and values that a requester would receive under two sets of access rules, and sends nothing.

use std::collections::HashSet;
use std::sync::Arc;

use ldap::SearchRequest;
use schema::TypeId;

use super::candidates::{Candidates, ScanKind};
use super::permitted::{filter_types, is_found};
use super::plan::Plan;
use super::scope::SearchScope;
use super::selection::Selection;
use crate::access::{EffectiveRights, EntryRights, TraversalCache};
use crate::catalog::Shown;
use crate::filter::{Candidate, ChainLinks, Compiler, Matcher, MemberUse, Term, Truth, for_each_holder};
use crate::model::access_rule::{READ, SEARCH};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId};
use crate::read::controls::RequestControls;
use crate::snapshot::name_cache::NameCache;
use crate::tree::{TreeState, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Index keys read at a time.
const KEYS_AT_A_TIME: usize = 10_000;

/// Limits of a repeated search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Maximum number of candidates examined.
    pub(crate) examined_max: u64,
    /// Maximum number of candidates that match the filter.
    pub(crate) matching_max: u64,
}

/// A prepared search to repeat.
pub(crate) struct SearchAgain {
    scope: SearchScope,
    filter: Term,
    plan: Plan,
    selection: Selection,
    names: NameCache,
}

/// View of one requester under one set of rules.
pub(crate) struct RequesterView {
    pub(crate) rights: EffectiveRights,
    traversal: TraversalCache,
    matcher: Matcher,
}

/// Difference between the results of a search under two sets of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultDifference {
    /// The entry is visible under only one set of rules.
    Browse,
    /// The filter tests this type. The entry is a result under only one set of rules, because only that set grants or
    /// denies the right to search the type.
    Search(TypeId),
    /// Values of this type are returned under only one set of rules.
    Read(TypeId),
    /// The group is a value of memberOf under only one set of rules, because the rules differ in the right to
    /// `member`, the attribute that contains the group's members. The difference affects the filter if `in_filter`,
    /// otherwise the returned attributes.
    Group { group: EntryId, member: AttrId, in_filter: bool },
}

/// Attribute types of an entry that a search uses.
#[derive(Debug, Default)]
pub(crate) struct UsedTypes {
    /// Types that the filter tests.
    pub(crate) searched: Vec<TypeId>,
    /// Requested types that the entry has, if the entry is a result for the requester.
    pub(crate) read: Vec<TypeId>,
}

impl RequesterView {
    /// Creates the view for these rights; `None` if no rules restrict the requester, for example the administrator.
    pub(crate) fn of(rights: EffectiveRights) -> Option<RequesterView> {
        let matcher = rights.matcher(MemberUse::Search);
        rights.is_restricted().then(|| RequesterView {
            rights,
            traversal: TraversalCache::default(),
            matcher,
        })
    }

    pub(crate) fn rights(
        &mut self,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<Arc<EntryRights>> {
        let at = self.rights.at(state, &mut self.traversal, candidate.id, candidate.node.parent)?;
        Ok(at.unwrap_or_default())
    }
}

impl SearchAgain {
    /// Prepares a search below `base`. The limits and controls of the earlier search are unknown and are not applied.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn of(
        state: TreeState<'_>,
        base: EntryId,
        request: &SearchRequest<'_>,
    ) -> Result<SearchAgain> {
        let compiler = Compiler { catalog: state.catalog, shown: Shown::AsRulesSay, known: None };
        let mut filter = compiler.compile(request.filter);
        filter.find_targets_in(state)?;
        let scope = SearchScope::of(base, request, &RequestControls::default());
        let mut plan = Plan::choose(state, &scope, &filter)?;
        while !plan.gather(state.read, KEYS_AT_A_TIME)? {}
        let selection = Selection::of(request.attributes, state.catalog, Shown::AsRulesSay);
        Ok(SearchAgain { scope, filter, plan, selection, names: NameCache::default() })
    }

    /// Calls `each` with the differences at the entries that match the filter. Returns false if the limits ended the
    /// search before all candidates were examined.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn compare<'s>(
        &mut self,
        state: TreeState<'s>,
        extent: Extent,
        (before, after): (&mut RequesterView, &mut RequesterView),
        each: &mut dyn FnMut(&Candidate<'s>, ResultDifference) -> Result<()>,
    ) -> Result<bool> {
        self.for_each_matching(state, extent, &mut |tested, candidate| {
            compare_at(state, tested, candidate, (&mut *before, &mut *after), &mut |shift| {
                each(candidate, shift)
            })
        })
    }

    /// Calls `each` with every entry that matches the filter and is visible to the requester, with the requester's
    /// rights at the entry and the types that the search uses. Returns false if the limits ended the search before all
    /// candidates were examined.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn visit_matches<'s>(
        &mut self,
        state: TreeState<'s>,
        extent: Extent,
        view: &mut RequesterView,
        each: &mut impl FnMut(&Candidate<'s>, &Arc<EntryRights>, &UsedTypes) -> Result<()>,
    ) -> Result<bool> {
        self.for_each_matching(state, extent, &mut |(filter, selection), candidate| {
            let rights = view.rights(state, candidate)?;
            if !rights.may_browse() {
                return Ok(());
            }
            let mut uses =
                UsedTypes { searched: filter_types(filter, state.catalog).types, ..UsedTypes::default() };
            if is_found(state, filter, &rights, &mut view.matcher, candidate)? {
                for row in candidate.entry(state)?.attributes() {
                    if selection.decide(state.catalog, row.id) {
                        uses.read.push(state.catalog.attribute(row.id).description.type_id);
                    }
                }
                uses.read.extend(selection.virtual_attributes.iter().map(|(_, type_id)| *type_id));
            }
            each(candidate, &rights, &uses)
        })
    }

    fn for_each_matching<'s>(
        &mut self,
        state: TreeState<'s>,
        extent: Extent,
        each: &mut impl FnMut((&Term, &mut Selection), &Candidate<'s>) -> Result<()>,
    ) -> Result<bool> {
        let mut plain = Matcher::new(Shown::AsRulesSay);
        let (mut examined, mut matching) = (0, 0);
        let mut candidates = Candidates::open(state, self.plan.source(), 0, ScanKind::Nodes)?;
        while let Some((id, _)) = candidates.next()? {
            if examined == extent.examined_max || matching == extent.matching_max {
                return Ok(false);
            }
            examined += 1;
            let Some(node) = node(state.read, id)? else { continue };
            if !self.scope.admits(id, node.flags)
                || !self.scope.contains(state, &mut self.names, id, &node)?
            {
                continue;
            }
            let candidate = Candidate::new(id, node);
            if plain.truth(&self.filter, state, &candidate)? != Truth::True {
                continue;
            }
            matching += 1;
            each((&self.filter, &mut self.selection), &candidate)?;
        }
        Ok(true)
    }
}

fn compare_at<'s>(
    state: TreeState<'s>,
    (filter, selection): (&Term, &mut Selection),
    candidate: &Candidate<'s>,
    (before, after): (&mut RequesterView, &mut RequesterView),
    each: &mut dyn FnMut(ResultDifference) -> Result<()>,
) -> Result<()> {
    let (old, new) = (before.rights(state, candidate)?, after.rights(state, candidate)?);
    let tested = filter_types(filter, state.catalog);
    let tests_groups = !tested.hops.is_empty();
    let is_same = Arc::ptr_eq(&old, &new) || *old == *new;
    let groups_read = selection.virtual_attributes.iter().any(|(attribute, _)| attribute.is_membership());
    if is_same && (!old.may_browse() || (!tests_groups && !groups_read)) {
        return Ok(());
    }
    let was_found = old.may_browse() && is_found(state, filter, &old, &mut before.matcher, candidate)?;
    let is_found = new.may_browse() && is_found(state, filter, &new, &mut after.matcher, candidate)?;
    if was_found != is_found && old.may_browse() != new.may_browse() {
        return each(ResultDifference::Browse);
    }
    if was_found != is_found {
        for type_id in tested.types {
            if old.extent(SEARCH, Some(type_id)) != new.extent(SEARCH, Some(type_id)) {
                each(ResultDifference::Search(type_id))?;
            }
        }
        let by = (MemberUse::Search, true);
        return tested
            .hops
            .iter()
            .try_for_each(|hops| compare_links(state, (candidate.id, hops), by, (&*before, &*after), each));
    }
    if !is_found {
        return Ok(());
    }
    let mut reported = Vec::new();
    for row in candidate.entry(state)?.attributes() {
        let type_id = state.catalog.attribute(row.id).description.type_id;
        let differs = old.extent(READ, Some(type_id)) != new.extent(READ, Some(type_id));
        // The entry may have several attributes of one type, with different options. The type is reported once.
        if differs && !reported.contains(&type_id) && selection.decide(state.catalog, row.id) {
            reported.push(type_id);
            each(ResultDifference::Read(type_id))?;
        }
    }
    for (attribute, type_id) in &selection.virtual_attributes {
        match (old.may_read(*type_id), new.may_read(*type_id)) {
            (true, true) if attribute.is_membership() => {
                let hops = ChainLinks::to_groups(state.catalog);
                let by = (MemberUse::Read, attribute.is_nested(state));
                compare_links(state, (candidate.id, &hops), by, (&*before, &*after), each)?;
            }
            (was, is) if was != is => each(ResultDifference::Read(*type_id))?,
            _ => {}
        }
    }
    Ok(())
}

/// Follows the links from an entry to groups. Calls `each` for each group whose membership the requester may see
/// under only one set of rules. If `is_nested`, also follows the links of these groups. A membership that differs may
/// explain a different result of the filter.
fn compare_links(
    state: TreeState<'_>,
    (id, hops): (EntryId, &ChainLinks),
    (by, is_nested): (MemberUse, bool),
    (before, after): (&RequesterView, &RequesterView),
    each: &mut dyn FnMut(ResultDifference) -> Result<()>,
) -> Result<()> {
    let mut compared = HashSet::new();
    for_each_holder(state, hops, (id, is_nested), &mut |group, member| {
        let place = (group, member);
        if !compared.insert(place) {
            return Ok(());
        }
        let is_shown = |view: &RequesterView| view.rights.shows_member(state, place, by);
        if is_shown(before)? != is_shown(after)? {
            each(ResultDifference::Group { group, member, in_filter: matches!(by, MemberUse::Search) })?;
        }
        Ok(())
    })
}
