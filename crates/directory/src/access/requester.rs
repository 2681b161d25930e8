//! Decides whether an access rule applies to a requester. The entry that is accessed is not considered.

use ldap::{FilterBuf, ResultCode};

use super::sources::{EntryEffect, Sources};
use crate::catalog::Shown;
use crate::catalog::access_rules::RuleRequester;
use crate::filter::described::{base_of, compiled, describing_groups, is_in_scope};
use crate::filter::{Candidate, Compiler, Matcher, Term, Truth};
use crate::model::dynamic_groups::MemberUrl;
use crate::model::limits::REQUESTER_GROUPS_MAX;
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId};
use crate::tree::dynamic_groups::{member_url_attributes, member_urls};
use crate::tree::operational::nested_groups;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Condition, on the entry that is accessed, under which a rule applies to the requester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    /// The rule applies at the requester's own entry if `is_own`, and at entries that name the requester in one of the
    /// attributes `names`.
    AtEntry {
        is_own: bool,
        names: Vec<AttrId>,
    },
}

/// Facts about a requester, determined on demand.
pub(super) struct RequesterFacts<'s> {
    state: TreeState<'s>,
    own: Option<EntryId>,
    /// Groups of the requester, direct and nested, ascending.
    groups: Option<Vec<u64>>,
    sources: Sources,
}

impl<'s> RequesterFacts<'s> {
    pub(super) fn new(state: TreeState<'s>, own: Option<EntryId>) -> RequesterFacts<'s> {
        RequesterFacts { state, own, groups: None, sources: Sources::default() }
    }

    /// Returns the requester's entry, and the sources on which the facts depend.
    pub(super) fn into_sources(self) -> (Option<EntryId>, Sources) {
        (self.own, self.sources)
    }

    /// Compiles a filter of a rule for the present state of the directory.
    pub(super) fn ready(&mut self, filter: &FilterBuf) -> Result<Term> {
        let state = self.state;
        let compiler = Compiler { catalog: state.catalog, shown: Shown::Plain, known: None };
        let mut term = compiler.compile(filter.as_filter());
        for name in term.names() {
            self.entry_of(name)?;
        }
        term.find_targets_in(state)?;
        Ok(term)
    }

    /// Resolves the name of an entry in a rule.
    pub(super) fn entry_of(&mut self, name: &NormalName) -> Result<Option<EntryId>> {
        self.sources.entry_of(self.state, name)
    }

    /// Returns the condition under which a rule for `requesters` applies to this requester; `None` if the rule never
    /// applies to this requester.
    pub(super) fn condition(&mut self, requesters: &[RuleRequester]) -> Result<Option<Condition>> {
        let (mut is_own, mut names) = (false, Vec::new());
        for requester in requesters {
            match requester {
                RuleRequester::Itself => is_own = self.own.is_some(),
                RuleRequester::NamedBy(type_id) if self.own.is_some() => {
                    names.extend_from_slice(self.state.catalog.stored_attributes_of_type(*type_id));
                }
                other if self.is(other)? => return Ok(Some(Condition::Always)),
                _ => {}
            }
        }
        Ok((is_own || !names.is_empty()).then_some(Condition::AtEntry { is_own, names }))
    }

    /// Returns true if `requester` describes this requester, whatever entry is accessed.
    fn is(&mut self, requester: &RuleRequester) -> Result<bool> {
        let Some(own) = self.own else {
            return Ok(matches!(requester, RuleRequester::Anyone | RuleRequester::Anonymous));
        };
        Ok(match requester {
            RuleRequester::Anyone | RuleRequester::Authenticated => true,
            RuleRequester::User(name) => self.entry_of(name)? == Some(own),
            RuleRequester::UsersIn(name) => self.is_in(own, name)?,
            RuleRequester::UsersMatching(place, filter) => {
                let is_there = match place {
                    Some(name) => self.is_in(own, name)?,
                    None => true,
                };
                is_there && self.matches(own, filter)?
            }
            RuleRequester::Group(name) => match self.entry_of(name)? {
                Some(group) => self.is_member(own, group)?,
                None => false,
            },
            RuleRequester::Anonymous | RuleRequester::Itself | RuleRequester::NamedBy(_) => false,
        })
    }

    /// Returns true if an entry is a direct or nested member of a group, or matches a `memberURL` of the group.
    fn is_member(&mut self, own: EntryId, group: EntryId) -> Result<bool> {
        Ok(self.groups(own)?.binary_search(&group.0).is_ok() || self.is_described(own, group)?)
    }

    fn is_in(&mut self, own: EntryId, name: &NormalName) -> Result<bool> {
        match self.entry_of(name)? {
            Some(base) => self.state.is_at_or_below(own, base),
            None => Ok(false),
        }
    }

    /// Returns true if a `memberURL` of the group matches the requester.
    fn is_described(&mut self, own: EntryId, group: EntryId) -> Result<bool> {
        if member_url_attributes(self.state.catalog).is_empty() {
            return Ok(false);
        }
        self.sources.own.insert(EntryEffect::Changed(group));
        let known;
        let group = match self.state.catalog.dynamic_groups.of(group) {
            Some(group) => group,
            None => {
                known = member_urls(self.state.read, self.state.catalog, group)?;
                &known
            }
        };
        for url in &group.urls {
            if self.is_one_of(own, url)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a search with this URL would find the requester's entry.
    fn is_one_of(&mut self, own: EntryId, url: &MemberUrl) -> Result<bool> {
        let base = match url.base.depth() {
            0 => base_of(self.state, url)?,
            _ => self.entry_of(&url.base)?,
        };
        let Some(base) = base else { return Ok(false) };
        let parent = node(self.state.read, own)?.ok_or_else(|| damaged_row("nodes", own))?.parent;
        Ok(is_in_scope(self.state, (own, parent), (base, url.scope))? && self.matches(own, &url.filter)?)
    }

    fn matches(&mut self, own: EntryId, filter: &FilterBuf) -> Result<bool> {
        let term = self.ready(filter)?;
        let beyond = term.depends_on_other_entries(self.state.catalog);
        self.sources.own.insert(if beyond { EntryEffect::Any } else { EntryEffect::Changed(own) });
        let node = node(self.state.read, own)?.ok_or_else(|| damaged_row("nodes", own))?;
        let candidate = Candidate::new(own, node);
        Ok(Matcher::new(Shown::Plain).truth(&term, self.state.as_stored(), &candidate)? == Truth::True)
    }

    fn groups(&mut self, own: EntryId) -> Result<&[u64]> {
        let groups = match self.groups.take() {
            Some(groups) => groups,
            None => {
                let described = self.describing_groups(own)?;
                let groups = groups_of(self.state, own, &described)?;
                self.sources.add_groups(own, &groups);
                groups
            }
        };
        Ok(self.groups.insert(groups))
    }

    /// Returns the dynamic groups that describe the requester. A change of a dynamic group creates a new catalog. A
    /// new catalog invalidates all cached rights.
    fn describing_groups(&mut self, own: EntryId) -> Result<Vec<u64>> {
        let state = self.state;
        if state.catalog.dynamic_groups.is_empty() {
            return Ok(Vec::new());
        }
        self.sources.own.insert(EntryEffect::Changed(own));
        for url in state.catalog.dynamic_groups.iter().flat_map(|group| &group.urls) {
            if compiled(state, url)?.depends_on_other_entries(state.catalog) {
                self.sources.own.insert(EntryEffect::Any);
            }
        }
        let node = node(state.read, own)?.ok_or_else(|| damaged_row("nodes", own))?;
        describing_groups(state, (own, &node), None)
    }
}

/// Returns true if an entry is a member of a group, in the sense of access rules: directly, through other groups, or by
/// a `memberURL`.
///
/// # Errors
/// The store failed, or the entry is in too many groups.
pub(crate) fn is_member(state: TreeState<'_>, own: EntryId, group: EntryId) -> Result<bool> {
    RequesterFacts::new(state, Some(own)).is_member(own, group)
}

/// Returns the groups of a requester, direct and nested, ascending.
fn groups_of(state: TreeState<'_>, own: EntryId, described: &[u64]) -> Result<Vec<u64>> {
    nested_groups(state, own, described, &mut |_, _| Ok(true))?.ok_or_else(|| {
        OperationError::refused(
            ResultCode::ADMIN_LIMIT_EXCEEDED,
            format!(
                "you are in more than {REQUESTER_GROUPS_MAX} groups: access rules take no more into account"
            ),
        )
    })
}
