//! Membership in dynamic groups (decision 0180).
//!
//! A dynamic group describes an entry if a search with one of the group's URLs finds the entry. Under access rules, the
//! requester must have the right to use the URL, and the search has the requester's rights. Thus a membership reveals
//! nothing that the requester could not find with that search. Tests of memberOf and member inside a URL consider only
//! stored members, so that no group depends on itself.

use std::ops::ControlFlow;

use ldap::Scope;

use super::{Candidate, Chains, GroupsOf, Item, Matcher, Term, Truth};
use crate::catalog::{Secrecy, Shown, VirtualAttribute};
use crate::filter::Compiler;
use crate::model::dynamic_groups::{DynamicGroup, MemberUrl};
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::record::Value;
use crate::model::rows::{AttrId, EntryId, NodeRow};
use crate::tree::collective::subentries_of;
use crate::tree::operational::for_each_group;
use crate::tree::{TreeState, dn_of, value_ends};

type Result<T> = std::result::Result<T, OperationError>;

/// An entry that dynamic groups may describe.
pub(crate) struct Described<'a> {
    state: TreeState<'a>,
    groups: Option<&'a GroupsOf>,
    id: EntryId,
    node: NodeRow<'a>,
    /// The last base that was resolved. The URLs of a directory often share their base.
    base: Option<(&'a NormalName, Option<EntryId>)>,
}

impl<'a> Described<'a> {
    /// Prepares tests on one entry. `groups` is the requester's view of groups; `None` if no groups are hidden from the
    /// requester.
    pub(crate) fn new(
        state: TreeState<'a>,
        (id, node): (EntryId, &NodeRow<'a>),
        groups: Option<&'a GroupsOf>,
    ) -> Described<'a> {
        Described { state, groups, id, node: *node, base: None }
    }

    /// Returns true if a group describes the entry.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn by(&mut self, group: &'a DynamicGroup) -> Result<bool> {
        for url in &group.urls {
            if self.is_in_scope(url)?
                && self.groups.map_or(Ok(true), |groups| groups.shows(self.state, group.id, url.attribute))?
                && self.matches(url)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the entry is in the scope of one of a group's URLs.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn is_in_a_scope(&mut self, group: &'a DynamicGroup) -> Result<bool> {
        for url in &group.urls {
            if self.is_in_scope(url)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_in_scope(&mut self, url: &'a MemberUrl) -> Result<bool> {
        let base = match self.base {
            Some((known, base)) if *known == url.base => base,
            _ => {
                let base = base_of(self.state, url)?;
                self.base = Some((&url.base, base));
                base
            }
        };
        match base {
            Some(base) => is_in_scope(self.state, (self.id, self.node.parent), (base, url.scope)),
            None => Ok(false),
        }
    }

    fn matches(&self, url: &MemberUrl) -> Result<bool> {
        let state = self.state.as_stored();
        let mut term = compiled(state, url)?;
        if let Some(groups) = self.groups {
            match groups.view.permitted(state, self.id, &term)? {
                Some(permitted) => term = permitted,
                None => return Ok(false),
            }
        }
        let candidate = Candidate::new(self.id, self.node);
        let mut matcher = Matcher::of_member_url(self.groups.cloned());
        Ok(matcher.truth(&term, state, &candidate)? == Truth::True)
    }
}

/// Returns the base entry of a URL, if the entry exists. The base entry of the empty DN is the root of the tree.
///
/// # Errors
/// The store failed.
pub(crate) fn base_of(state: TreeState<'_>, url: &MemberUrl) -> Result<Option<EntryId>> {
    match url.base.depth() {
        0 if url.base.failure.is_none() => Ok(Some(EntryId::ROOT)),
        _ => state.entry_of(&url.base),
    }
}

/// Returns true if the entry `id`, whose superior is `parent`, is in the scope of a search.
///
/// # Errors
/// The store failed.
pub(crate) fn is_in_scope(
    state: TreeState<'_>,
    (id, parent): (EntryId, EntryId),
    (base, scope): (EntryId, Scope),
) -> Result<bool> {
    match scope {
        Scope::BaseObject => Ok(id == base),
        Scope::SingleLevel => Ok(parent == base),
        Scope::WholeSubtree => state.is_at_or_below(id, base),
        Scope::Subordinate => Ok(id != base && state.is_at_or_below(id, base)?),
    }
}

/// Compiles the filter of a URL. The filter never tests secrets, whatever the rights of the requester.
///
/// # Errors
/// The store failed.
pub(crate) fn compiled(state: TreeState<'_>, url: &MemberUrl) -> Result<Term> {
    let compiler = Compiler { catalog: state.catalog, shown: Shown::Plain, known: None };
    let mut term = compiler.compile(url.filter.as_filter());
    term.count_stored_only();
    term.find_targets_in(state)?;
    Ok(term)
}

/// Returns the dynamic groups whose members are members of the group that an item asserts. These are the asserted group
/// itself and, if nested groups count, the groups from which a chain of stored members leads to the asserted group.
///
/// # Errors
/// The store failed, or the chain of a group is too long.
pub(crate) fn groups_toward<'a>(
    state: TreeState<'a>,
    item: &Item,
    is_nested: bool,
) -> Result<Vec<&'a DynamicGroup>> {
    let Some(target) = item.target.as_ref().and_then(|target| target.entry) else { return Ok(Vec::new()) };
    let (mut chains, mut all) = (Chains::default(), Vec::new());
    for group in state.catalog.dynamic_groups.iter() {
        if group.id == target
            || (is_nested && chains.lead(item, state, None, group.id, &|| Ok(Vec::new()))?)
        {
            all.push(group);
        }
    }
    Ok(all)
}

/// Returns the ids of the dynamic groups that describe an entry and are visible to the requester, ascending.
///
/// # Errors
/// The store failed.
#[inline]
pub(crate) fn describing_groups(
    state: TreeState<'_>,
    entry: (EntryId, &NodeRow<'_>),
    groups: Option<&GroupsOf>,
) -> Result<Vec<u64>> {
    match state.catalog.dynamic_groups.is_empty() {
        true => Ok(Vec::new()),
        false => some_describing_groups(state, entry, groups),
    }
}

#[cold]
#[inline(never)]
fn some_describing_groups(
    state: TreeState<'_>,
    entry: (EntryId, &NodeRow<'_>),
    groups: Option<&GroupsOf>,
) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    let mut described = Described::new(state, entry, groups);
    for group in state.catalog.dynamic_groups.iter() {
        if described.by(group)? {
            all.push(group.id.0);
        }
    }
    Ok(all)
}

/// Returns true if a dynamic group that is visible to the requester describes an entry.
///
/// # Errors
/// The store failed.
fn is_described(
    state: TreeState<'_>,
    entry: (EntryId, &NodeRow<'_>),
    groups: Option<&GroupsOf>,
) -> Result<bool> {
    let mut described = Described::new(state, entry, groups);
    for group in state.catalog.dynamic_groups.iter() {
        if described.by(group)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if an entry is a direct member of a group that is visible to the requester. Membership in dynamic
/// groups counts if `with_described`.
pub(crate) fn is_in_a_group(
    state: TreeState<'_>,
    (id, node): (EntryId, &NodeRow<'_>),
    groups: Option<&GroupsOf>,
    with_described: bool,
) -> Result<bool> {
    let is_stored = match groups {
        None => VirtualAttribute::MemberOf.is_present(state, id, node)?,
        Some(groups) => {
            let mut is_stored = false;
            let mut shows = |group, member| groups.shows(state, group, member);
            for_each_group(state, (id, false), &[], &mut shows, &mut |_| {
                is_stored = true;
                ControlFlow::Break(())
            })?;
            is_stored
        }
    };
    Ok(is_stored || (with_described && is_described(state, (id, node), groups)?))
}

/// Calls `each` with the visible values of a virtual attribute of an entry, until `each` breaks. If `groups` is `None`,
/// all values are visible. The groups of an entry include the dynamic groups that describe the entry. If nested groups
/// count, the groups of an entry also include the groups that contain these dynamic groups.
pub(crate) fn for_each_visible(
    state: TreeState<'_>,
    attribute: VirtualAttribute,
    groups: Option<&GroupsOf>,
    (id, node): (EntryId, &NodeRow<'_>),
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    match attribute {
        VirtualAttribute::ValueEnd => return for_each_end(state, id, groups, each),
        VirtualAttribute::MembershipEnd => return for_each_membership_end(state, id, groups, each),
        VirtualAttribute::CollectiveAttributeSubentries => {
            return for_each_giving(state, (id, node), groups, each);
        }
        _ if !attribute.is_membership() => return attribute.for_each_value(state, id, node, each),
        _ => {}
    }
    let described = describing_groups(state, (id, node), groups)?;
    for_each_stored(state, attribute, groups, (id, &described), each)
}

/// Returns true if a link of an entry has an end (expiration time) that the requester may see.
pub(crate) fn has_visible_end(
    state: TreeState<'_>,
    attribute: VirtualAttribute,
    groups: Option<&GroupsOf>,
    entry: (EntryId, &NodeRow<'_>),
) -> Result<bool> {
    let mut has_any = false;
    for_each_visible(state, attribute, groups, entry, &mut |_| {
        has_any = true;
        ControlFlow::Break(())
    })?;
    Ok(has_any)
}

/// Calls `each` with the ends (expiration times) of those values of an entry that the requester may read.
#[cold]
#[inline(never)]
fn for_each_end(
    state: TreeState<'_>,
    id: EntryId,
    groups: Option<&GroupsOf>,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    value_ends::for_each(state.read, id, None, &mut |attribute, value, until| {
        if !shows_values(state, groups, id, attribute)? {
            return Ok(ControlFlow::Continue(()));
        }
        let value = value_ends::value_text(state, attribute, &value)?;
        Ok(each(&value_ends::text(state.catalog, attribute, until, &value)))
    })
}

/// Calls `each` with the ends (expiration times) of the links to an entry. Links that the requester may not read are
/// omitted.
#[cold]
#[inline(never)]
fn for_each_membership_end(
    state: TreeState<'_>,
    id: EntryId,
    groups: Option<&GroupsOf>,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    value_ends::for_each_of_target(state.read, id, &mut |attribute, source, until| {
        if !shows_values(state, groups, source, attribute)? {
            return Ok(ControlFlow::Continue(()));
        }
        let dn = value_ends::value_text(state, attribute, &Value::Link(source))?;
        Ok(each(&value_ends::text(state.catalog, attribute, until, &dn)))
    })
}

/// Calls `each` with the DNs of the subentries that give collective attributes to an entry. Subentries that the
/// requester may not see are omitted.
#[cold]
#[inline(never)]
fn for_each_giving(
    state: TreeState<'_>,
    entry: (EntryId, &NodeRow<'_>),
    groups: Option<&GroupsOf>,
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let any = Term::Constant(Truth::True);
    for subentry in subentries_of(state, entry)? {
        let is_visible = match groups {
            None => true,
            Some(groups) => groups.view.permitted(state, subentry, &any)?.is_some(),
        };
        if is_visible
            && let Some(dn) = dn_of(state.read, subentry)?
            && each(dn.as_bytes()).is_break()
        {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns true if the requester may read the values of a link attribute of the entry `source`.
fn shows_values(
    state: TreeState<'_>,
    groups: Option<&GroupsOf>,
    source: EntryId,
    attribute: AttrId,
) -> Result<bool> {
    let is_open = state.catalog.attribute(attribute).secrecy == Secrecy::Open;
    Ok(is_open && groups.map_or(Ok(true), |groups| groups.shows(state, source, attribute))?)
}

/// Does the same as [`for_each_visible`], but only for attributes that contain groups. `described` has the ids of the
/// dynamic groups that describe the entry.
pub(super) fn for_each_stored(
    state: TreeState<'_>,
    attribute: VirtualAttribute,
    groups: Option<&GroupsOf>,
    (id, described): (EntryId, &[u64]),
    each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let of = (id, attribute.is_nested(state));
    let mut shows = |group, member| groups.map_or(Ok(true), |groups| groups.shows(state, group, member));
    for_each_group(state, of, described, &mut shows, each)
}
