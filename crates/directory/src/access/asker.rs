//! Requesters of a rule: tests on a requester that do not depend on the entry.

use std::ops::ControlFlow;

use ldap::{FilterBuf, LdapUrl, ResultCode, Scope};
use schema::AttributeDescription;

use super::sources::{Sources, Touch};
use crate::catalog::Shown;
use crate::catalog::access_rules::RuleRequester;
use crate::filter::{Candidate, Compiler, Matcher, Term, Truth};
use crate::model::limits::REQUESTER_GROUPS_MAX;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId};
use crate::tree::operational::nested_groups;
use crate::tree::stored_values::for_each_value;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// OID of memberURL, by which groupOfURLs describes its members.
const MEMBER_URL: &str = "2.16.840.1.113730.3.1.198";

/// Condition under which a rule applies to the requester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    /// If the entry is the requester's own, or names the requester in one of these attributes.
    AtEntry {
        is_own: bool,
        names: Vec<AttrId>,
    },
}

/// Facts about a requester, determined on demand.
pub(super) struct AskerFacts<'s> {
    state: TreeState<'s>,
    own: Option<EntryId>,
    /// Groups of the requester, direct and nested, ascending.
    groups: Option<Vec<u64>>,
    sources: Sources,
}

impl<'s> AskerFacts<'s> {
    pub(super) fn new(state: TreeState<'s>, own: Option<EntryId>) -> AskerFacts<'s> {
        AskerFacts { state, own, groups: None, sources: Sources::default() }
    }

    /// Returns the requester's entry, and the sources of the facts.
    pub(super) fn into_sources(self) -> (Option<EntryId>, Sources) {
        (self.own, self.sources)
    }

    /// Compiles a filter of a rule for this position of the log.
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

    /// Resolves an entry that a rule names.
    pub(super) fn entry_of(&mut self, name: &NormalName) -> Result<Option<EntryId>> {
        self.sources.entry_of(self.state, name)
    }

    /// Returns the condition under which a rule for these requesters applies to this one; `None` for never.
    pub(super) fn condition(&mut self, askers: &[RuleRequester]) -> Result<Option<Condition>> {
        let (mut is_own, mut names) = (false, Vec::new());
        for asker in askers {
            match asker {
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

    /// Returns true if these include this requester, at any entry.
    fn is(&mut self, asker: &RuleRequester) -> Result<bool> {
        let Some(own) = self.own else {
            return Ok(matches!(asker, RuleRequester::Anyone | RuleRequester::Anonymous));
        };
        Ok(match asker {
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

    /// Returns true if an entry is a direct or nested member of a group, or described by its `memberURL`.
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
        let Some(known) = self.state.catalog.schema.attribute_type(MEMBER_URL) else { return Ok(false) };
        let numbers = self.state.catalog.matching_attributes(&AttributeDescription::of(known.id));
        if numbers.is_empty() {
            return Ok(false);
        }
        self.sources.own.insert(Touch::Changed(group));
        let node = node(self.state.read, group)?.ok_or_else(|| damaged_row("nodes", group))?;
        let entry = Candidate::new(group, node).entry(self.state)?;
        let (mut attributes, mut urls) = (entry.attributes(), Vec::new());
        while let Some(row) = attributes.next_of(&numbers) {
            for_each_value(self.state, group, &row, &mut |value| {
                urls.extend(std::str::from_utf8(value).ok().and_then(|text| LdapUrl::parse(text).ok()));
                ControlFlow::Continue(())
            })?;
        }
        for url in urls.iter().filter(|url| url.host.is_none()) {
            if self.is_one_of(own, url)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a search by this URL finds the requester.
    fn is_one_of(&mut self, own: EntryId, url: &LdapUrl) -> Result<bool> {
        let Ok(dn) = parse_dn(&url.dn) else { return Ok(false) };
        let name = NormalName::of(&dn, &self.state.catalog.schema);
        let base = match name.depth() {
            0 => Some(EntryId::ROOT),
            _ => self.entry_of(&name)?,
        };
        let Some(base) = base else { return Ok(false) };
        let parent = node(self.state.read, own)?.ok_or_else(|| damaged_row("nodes", own))?.parent;
        let is_in_scope = match url.scope.unwrap_or(Scope::BaseObject) {
            Scope::BaseObject => own == base,
            Scope::SingleLevel => parent == base,
            Scope::WholeSubtree => self.state.is_at_or_below(own, base)?,
            Scope::Subordinate => own != base && self.state.is_at_or_below(own, base)?,
        };
        let filter = url.filter.as_deref().map(FilterBuf::parse);
        match filter {
            _ if !is_in_scope => Ok(false),
            None => Ok(true),
            Some(Ok(filter)) => self.matches(own, &filter),
            Some(Err(_)) => Ok(false),
        }
    }

    fn matches(&mut self, own: EntryId, filter: &FilterBuf) -> Result<bool> {
        let term = self.ready(filter)?;
        let beyond = term.asks_other_entries(self.state.catalog);
        self.sources.own.insert(if beyond { Touch::Any } else { Touch::Changed(own) });
        let node = node(self.state.read, own)?.ok_or_else(|| damaged_row("nodes", own))?;
        let candidate = Candidate::new(own, node);
        Ok(Matcher::new(Shown::Plain).truth(&term, self.state, &candidate)? == Truth::True)
    }

    fn groups(&mut self, own: EntryId) -> Result<&[u64]> {
        let groups = match self.groups.take() {
            Some(groups) => groups,
            None => {
                let groups = groups_of(self.state, own)?;
                self.sources.add_groups(own, &groups);
                groups
            }
        };
        Ok(self.groups.insert(groups))
    }
}

/// Returns true if an entry is a member of a group, in the sense of access rules.
///
/// # Errors
/// The store failed, or the entry is in too many groups.
pub(crate) fn is_member(state: TreeState<'_>, own: EntryId, group: EntryId) -> Result<bool> {
    AskerFacts::new(state, Some(own)).is_member(own, group)
}

/// Returns the groups of a requester, direct and nested, ascending.
fn groups_of(state: TreeState<'_>, own: EntryId) -> Result<Vec<u64>> {
    nested_groups(state, own, &mut |_, _| Ok(true))?.ok_or_else(|| {
        OperationError::refused(
            ResultCode::ADMIN_LIMIT_EXCEEDED,
            format!(
                "you are in more than {REQUESTER_GROUPS_MAX} groups: access rules take no more into account"
            ),
        )
    })
}
