//! Rights of a requester to entries and attributes under access rules.
//!
//! [`RuleRights`] are a part of the effective rights of one requester: rules for other requesters are left out, and the
//! names in the remaining rules are resolved to entries. The rights at an entry depend on the entry's place, on whether
//! the entry is the requester's own, on whether the entry names the requester, and on whether the entry matches the
//! filters of rules. The rules that apply at an entry are represented as a set of bits, and the [`EntryRights`] are
//! computed once for each set. A right is granted if at least one rule allows it and no rule denies it. Everything else
//! is denied. The administrator has no [`RuleRights`], because no rule applies to the administrator.

mod throughout;

use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use ldap::{Filter, FilterBuf};

use super::Requester;
use super::allowed_values::AllowedValues;
use super::entry_rights::EntryRights;
use super::requester::{Condition, RequesterFacts};
use super::sources::{EntryEffect, Sources};
use super::uses;
use crate::catalog::Shown;
use crate::catalog::access_rules::{AccessRules, Rule};
use crate::filter::{Candidate, Compiler, InMemory, Matcher, MemberUse, Memberships, Term, Truth, ValueRule};
use crate::model::access_rule::{EXPLAIN, Reach, SEARCH, USE};
use crate::model::client_link::ClientLink;
use crate::model::limits::{ENTRIES_NAMING_REQUESTER_MAX, RIGHTS_CACHED_MAX, TREE_DEPTH_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::{AttrId, EntryId, LINKED, LINKS, link_key};
use crate::model::usable::Uses;
use crate::tree::{TreeState, damaged_row, node};
pub(crate) use throughout::Readable;

/// Hash map with the fast hasher. The fast hasher is safe here, because clients cannot choose the keys, which are ids
/// and sets of rules.
type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

type Result<T> = std::result::Result<T, OperationError>;

/// Rights of one requester under the rules.
#[derive(Debug)]
pub(crate) struct RuleRights {
    rules: Arc<AccessRules>,
    applicable: Vec<ApplicableRule>,
    own: Option<EntryId>,
    /// Controls and extended operations that the requester may not use.
    refused_uses: Uses,
    /// Whether the rights are the same at every entry.
    is_uniform: bool,
    /// Special entries, ascending. The rights at a special entry may differ from the rights at other entries in the
    /// same container. Special entries are the entries that rules name, the requester's own entry, and the entries that
    /// name the requester.
    special: Vec<u64>,
    /// Whether `special` is incomplete, because too many entries name the requester. If so, every entry is treated as a
    /// special entry.
    tests_entries: bool,
    /// Sources on which the rights depend.
    sources: Sources,
    /// The rules with a filter on entries: one bit for each rule, by its index in `applicable`.
    filtered: Vec<u64>,
    /// Cached rights at the entries of a container, except special entries. `None` if a rule with a filter applies in
    /// the container.
    below: Mutex<HashMap<EntryId, Option<Arc<EntryRights>>>>,
    /// Cached rights, by the set of rules that apply.
    known: Mutex<HashMap<Box<[u64]>, Arc<EntryRights>>>,
}

/// A rule that may apply to the requester.
#[derive(Debug)]
struct ApplicableRule {
    /// Index of the rule among all rules.
    rule: usize,
    place: Option<(Reach, EntryId)>,
    /// Places that the rule excludes.
    but: Vec<(Reach, EntryId)>,
    condition: Condition,
    /// Filter that the entry must match.
    filter: Option<Term>,
    /// Number of attributes in the catalog when the filter was compiled.
    attribute_count: usize,
    /// Restriction of the rule to single values.
    values: Option<Arc<ValueRule>>,
    /// Whether the rule denies. A deny rule applies if its filter is Undefined.
    is_deny: bool,
}

impl ApplicableRule {
    /// Returns true if the rule has no filter or its filter matches the entry.
    fn matches<'s, 'a>(
        &self,
        state: TreeState<'s>,
        subject: &mut Option<Subject<'s, 'a>>,
        id: EntryId,
        newcomer: NewEntryFacts<'a>,
    ) -> Result<bool> {
        let Some(filter) = &self.filter else { return Ok(true) };
        let subject = match subject {
            Some(known) => known,
            None => subject.insert(Subject::of(state, id, newcomer)?),
        };
        // An attribute of the filter may have been added to the catalog after the filter was compiled.
        let renewed = (state.catalog.attributes().len() != self.attribute_count)
            .then(|| self.with_new_attributes(state, filter))
            .transpose()?;
        let filter = renewed.as_ref().unwrap_or(filter);
        let mut matcher = Matcher::new(Shown::Plain);
        let truth = match subject {
            Subject::Unknown => Truth::Undefined,
            Subject::Stored(candidate) => matcher.truth(filter, state.as_stored(), candidate)?,
            Subject::Given(given) => matcher.truth_in_memory(filter, state.catalog, given),
        };
        Ok(truth == Truth::True || (self.is_deny && truth == Truth::Undefined))
    }

    #[cold]
    fn with_new_attributes(&self, state: TreeState<'_>, filter: &Term) -> Result<Term> {
        let mut filter = filter.clone();
        filter.find_attributes(state.catalog, Shown::Plain)?;
        Ok(filter)
    }

    /// Returns true if the entry is at a place that the rule excludes. This check is needed only for entries that the
    /// rule itself names. For other entries, [`note_inherited`](RuleRights::note_inherited) has already excluded the
    /// rule for the whole container.
    fn leaves_out(&self, state: TreeState<'_>, id: EntryId, parent: EntryId) -> Result<bool> {
        for (reach, base) in &self.but {
            let is_out = match reach {
                Reach::In | Reach::At if *base == id => true,
                Reach::In | Reach::Below => state.is_at_or_below(parent, *base)?,
                Reach::Children => *base == parent,
                Reach::At => false,
            };
            if is_out {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// State that a traversal on one snapshot caches from entry to entry.
#[derive(Debug, Default)]
pub(crate) struct TraversalCache {
    /// Sets of the rules whose places cover the entries of a container, by container.
    below: HashMap<EntryId, Box<[u64]>>,
    holding: Vec<u64>,
    last: Option<(Box<[u64]>, Arc<EntryRights>)>,
    /// Container of the last entry, and the rights at the entries of that container.
    last_below: Option<(EntryId, Option<Arc<EntryRights>>)>,
}

impl<'s, 'a> Subject<'s, 'a> {
    fn of(state: TreeState<'s>, id: EntryId, newcomer: NewEntryFacts<'a>) -> Result<Subject<'s, 'a>> {
        let id = match newcomer {
            NewEntryFacts::Given(given) => return Ok(Subject::Given(given)),
            NewEntryFacts::Moved(moved) => moved,
            NewEntryFacts::Unknown if id == EntryId::ROOT => return Ok(Subject::Unknown),
            NewEntryFacts::Unknown => id,
        };
        let node = node(state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
        Ok(Subject::Stored(Candidate::new(id, node)))
    }
}

/// Facts that are known about a new entry.
#[derive(Clone, Copy)]
pub(crate) enum NewEntryFacts<'a> {
    /// Only the place of the entry is known.
    Unknown,
    /// An existing entry is moved to the place.
    Moved(EntryId),
    /// The request contains all attributes of the entry.
    Given(&'a InMemory<'a>),
}

/// Entry on which the filters of rules are evaluated.
enum Subject<'s, 'a> {
    Stored(Candidate<'s>),
    Given(&'a InMemory<'a>),
    Unknown,
}

impl RuleRights {
    /// Computes the rights of a requester under these rules; `None` for the administrator.
    ///
    /// # Errors
    /// adminLimitExceeded for a user in more than
    /// [`REQUESTER_GROUPS_MAX`](crate::model::limits::REQUESTER_GROUPS_MAX) groups; the store failed.
    pub(super) fn of(
        rules: &Arc<AccessRules>,
        state: TreeState<'_>,
        requester: &Requester,
        link: Option<&ClientLink>,
    ) -> Result<Option<RuleRights>> {
        let own = match requester {
            Requester::Administrator { .. } => return Ok(None),
            Requester::Anonymous => None,
            Requester::User { id, .. } => Some(*id),
        };
        let mut facts = RequesterFacts::new(state, own);
        let mut applicable = Vec::new();
        // A rule for a place makes rights non-uniform even if there is no entry at the place. Otherwise the rights at
        // other entries would reveal whether the entry exists.
        let mut is_uniform = true;
        if !rules.is_broken {
            for (number, rule) in rules.rules.iter().enumerate() {
                if rule.rights.has(USE) || !rule.holds_over(link) {
                    continue;
                }
                let Some(condition) = facts.condition(&rule.requesters)? else { continue };
                let place = match &rule.place {
                    None => None,
                    // The empty DN is above every entry, so a rule for the subtree of the empty DN applies everywhere.
                    Some((Reach::In | Reach::Below, name)) if name.depth() == 0 => None,
                    Some((reach, name)) => {
                        is_uniform = false;
                        match facts.entry_of(name)? {
                            Some(id) => Some((*reach, id)),
                            None => continue,
                        }
                    }
                };
                let mut but = Vec::new();
                for (reach, name) in &rule.but {
                    is_uniform = false;
                    if name.depth() == 0 && matches!(reach, Reach::In | Reach::Below) {
                        but.push((Reach::Below, EntryId::ROOT));
                    } else if let Some(id) = facts.entry_of(name)? {
                        but.push((*reach, id));
                    }
                }
                let filter = rule.filter.as_ref().map(|filter| facts.ready(filter)).transpose()?;
                is_uniform &= filter.is_none();
                let values = rule.values.as_ref().map(|filter| Arc::new(value_rule(state, rule, filter)));
                let is_deny = !rule.is_allow;
                let attribute_count = state.catalog.attributes().len();
                applicable.push(ApplicableRule {
                    rule: number,
                    place,
                    but,
                    condition,
                    filter,
                    attribute_count,
                    values,
                    is_deny,
                });
            }
        }
        is_uniform &= applicable.iter().all(|of| of.condition == Condition::Always);
        let refused_uses = uses::refused(rules, &mut facts, link)?;
        let (special, tests_entries) = special(state, own, &applicable)?;
        let mut filtered = vec![0; applicable.len().div_ceil(64)];
        for (place, _) in applicable.iter().enumerate().filter(|(_, of)| of.filter.is_some()) {
            if let Some(bits) = filtered.get_mut(place / 64) {
                *bits |= 1 << (place % 64);
            }
        }
        let sources = sources(facts, &applicable);
        Ok(Some(RuleRights {
            rules: Arc::clone(rules),
            applicable,
            own,
            refused_uses,
            is_uniform,
            special,
            tests_entries,
            filtered,
            sources,
            below: Mutex::default(),
            known: Mutex::default(),
        }))
    }

    /// Returns octets that identify the requester, the rules that may apply to the requester, and the conditions under
    /// which these rules apply at an entry. As long as the octets stay equal, the rights at an entry change only if one
    /// of these entries changes: the entry itself, one of its superiors, or an entry on which the
    /// [`filters`](RuleRights::filters) depend.
    pub(super) fn identity(&self) -> Vec<u8> {
        let mut octets = Vec::new();
        octets.extend(self.own.map_or(0, |own| own.0).to_be_bytes());
        for applicable in &self.applicable {
            octets.extend((applicable.rule as u64).to_be_bytes());
            let Condition::AtEntry { is_own, names } = &applicable.condition else {
                octets.push(0);
                continue;
            };
            octets.extend([1, u8::from(*is_own), u8::try_from(names.len()).unwrap_or(u8::MAX)]);
            names.iter().for_each(|name| octets.extend(u64::from(name.0).to_be_bytes()));
        }
        octets
    }

    /// Returns the filters that entries must match for rules to apply.
    pub(super) fn filters(&self) -> impl Iterator<Item = Filter<'_>> {
        let rules = self.applicable.iter().filter_map(|applicable| self.rules.rules.get(applicable.rule));
        rules.filter_map(|rule| rule.filter.as_ref().map(FilterBuf::as_filter))
    }

    /// Returns the requester's rights at an entry of the tree. `traversal` caches state from entry to entry.
    ///
    /// # Errors
    /// The store failed.
    #[inline]
    pub(super) fn at(
        &self,
        state: TreeState<'_>,
        traversal: &mut TraversalCache,
        id: EntryId,
        parent: EntryId,
    ) -> Result<Arc<EntryRights>> {
        if self.tests_entries || self.special.binary_search(&id.0).is_ok() {
            return self.at_special(state, traversal, (id, parent), NewEntryFacts::Unknown);
        }
        if let Some((last, rights)) = &traversal.last_below
            && (*last == parent || self.is_uniform)
        {
            return match rights {
                Some(rights) => Ok(Arc::clone(rights)),
                None => self.at_special(state, traversal, (id, parent), NewEntryFacts::Unknown),
            };
        }
        let rights = self.in_container(state, traversal, parent)?;
        traversal.last_below = Some((parent, rights.clone()));
        match rights {
            Some(rights) => Ok(rights),
            None => self.at_special(state, traversal, (id, parent), NewEntryFacts::Unknown),
        }
    }

    /// Returns the rights at the entries of a container, except special entries; `None` if the rights differ from
    /// entry to entry.
    fn in_container(
        &self,
        state: TreeState<'_>,
        traversal: &mut TraversalCache,
        parent: EntryId,
    ) -> Result<Option<Arc<EntryRights>>> {
        let known = |below: &HashMap<EntryId, Option<Arc<EntryRights>>>| below.get(&parent).cloned();
        if let Some(rights) = known(&self.below.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(rights);
        }
        self.note_inherited(state, traversal, parent)?;
        let is_filtered = traversal.holding.iter().zip(&self.filtered).any(|(holds, asks)| holds & asks != 0);
        // The id of the root stands for any entry that is not special, because no condition on single entries holds for
        // the root.
        let rights = match is_filtered {
            true => None,
            false => {
                Some(self.at_special(state, traversal, (EntryId::ROOT, parent), NewEntryFacts::Unknown)?)
            }
        };
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        if below.len() >= RIGHTS_CACHED_MAX {
            below.clear();
        }
        below.insert(parent, rights.clone());
        Ok(rights)
    }

    /// Computes the rights at an entry by testing every rule. The entry may be special.
    fn at_special(
        &self,
        state: TreeState<'_>,
        traversal: &mut TraversalCache,
        (id, parent): (EntryId, EntryId),
        newcomer: NewEntryFacts<'_>,
    ) -> Result<Arc<EntryRights>> {
        self.note_inherited(state, traversal, parent)?;
        let mut subject = None;
        for (place, applicable) in self.applicable.iter().enumerate() {
            let reaches = match applicable.place {
                Some((Reach::In | Reach::At, base)) if base == id => true,
                Some((Reach::At, _)) => false,
                _ => traversal.holding.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 != 0),
            };
            let holds = reaches
                && !applicable.leaves_out(state, id, parent)?
                && self.is_met(state, &applicable.condition, id)?
                && applicable.matches(state, &mut subject, id, newcomer)?;
            if let Some(bits) = traversal.holding.get_mut(place / 64) {
                *bits = *bits & !(1 << (place % 64)) | u64::from(holds) << (place % 64);
            }
        }
        if let Some((holding, rights)) = &traversal.last
            && **holding == *traversal.holding
        {
            return Ok(Arc::clone(rights));
        }
        let rights = self.rights(state, &traversal.holding);
        traversal.last = Some((traversal.holding.as_slice().into(), Arc::clone(&rights)));
        Ok(rights)
    }

    /// Returns the requester's rights at a new entry below `parent`.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn below(
        &self,
        state: TreeState<'_>,
        parent: EntryId,
        newcomer: NewEntryFacts<'_>,
    ) -> Result<Arc<EntryRights>> {
        // The id of the root stands for the new entry, because no condition on single entries holds for the root.
        self.at_special(state, &mut TraversalCache::default(), (EntryId::ROOT, parent), newcomer)
    }

    /// Returns true if rules have filters on entries.
    pub(super) fn has_entry_filters(&self) -> bool {
        self.filtered.iter().any(|bits| *bits != 0)
    }

    /// Returns the rights at an entry that is known to exist.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn at_entry(&self, state: TreeState<'_>, id: EntryId) -> Result<Arc<EntryRights>> {
        let node = state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
        self.at(state, &mut TraversalCache::default(), id, node.parent)
    }

    /// Returns the requester's entry; `None` if the requester has no entry.
    pub(super) fn own(&self) -> Option<EntryId> {
        self.own
    }

    /// Returns true if the requester may not use at least one of these controls and extended operations.
    pub(super) fn may_not_use(&self, uses: Uses) -> bool {
        self.refused_uses.has(uses)
    }

    /// Returns the sources of these rights. A change of any source invalidates the rights.
    pub(super) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the indexes of the rules that apply to the requester at an entry.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn holding(&self, state: TreeState<'_>, id: EntryId, parent: EntryId) -> Result<Vec<usize>> {
        let mut traversal = TraversalCache::default();
        self.at_special(state, &mut traversal, (id, parent), NewEntryFacts::Unknown)?;
        let holds = |place: &usize| {
            traversal.holding.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 != 0)
        };
        let applicable = self.applicable.iter().enumerate().filter(|(place, _)| holds(place));
        Ok(applicable.map(|(_, applicable)| applicable.rule).collect())
    }

    /// Returns true if the rights are the same at every entry.
    pub(super) fn is_uniform(&self) -> bool {
        self.is_uniform
    }

    /// Returns the rules.
    pub(super) fn rules(&self) -> &AccessRules {
        &self.rules
    }

    /// Returns true if a rule may allow `explain` to the requester at some entry.
    pub(super) fn may_explain_some(&self) -> bool {
        let rules = self.applicable.iter().filter_map(|applicable| self.rules.rules.get(applicable.rule));
        rules.into_iter().any(|rule| rule.is_allow && rule.rights.has(EXPLAIN))
    }

    /// Determines which rules cover the entries of a container because of the container's place in the tree. Stores
    /// these rules in `traversal`.
    fn note_inherited(
        &self,
        state: TreeState<'_>,
        traversal: &mut TraversalCache,
        parent: EntryId,
    ) -> Result<()> {
        traversal.holding.clear();
        if let Some(known) = traversal.below.get(&parent) {
            traversal.holding.extend_from_slice(known);
            return Ok(());
        }
        let mut above = Vec::new();
        let mut at = parent;
        while at != EntryId::ROOT && above.len() < TREE_DEPTH_MAX {
            above.push(at);
            at = state.node(at)?.ok_or_else(|| damaged_row("nodes", at))?.parent;
        }
        traversal.holding.resize(self.applicable.len().div_ceil(64), 0);
        let reaches = |(reach, base): &(Reach, EntryId)| match reach {
            Reach::In | Reach::Below => *base == EntryId::ROOT || above.contains(base),
            Reach::Children => *base == parent,
            Reach::At => false,
        };
        for (place, applicable) in self.applicable.iter().enumerate() {
            let holds = applicable.place.as_ref().is_none_or(reaches) && !applicable.but.iter().any(reaches);
            if let (true, Some(bits)) = (holds, traversal.holding.get_mut(place / 64)) {
                *bits |= 1 << (place % 64);
            }
        }
        if traversal.below.len() >= RIGHTS_CACHED_MAX {
            traversal.below.clear();
        }
        traversal.below.insert(parent, traversal.holding.as_slice().into());
        Ok(())
    }

    fn is_met(&self, state: TreeState<'_>, condition: &Condition, id: EntryId) -> Result<bool> {
        let (Condition::AtEntry { is_own, names }, Some(own)) = (condition, self.own) else {
            return Ok(*condition == Condition::Always);
        };
        if *is_own && own == id {
            return Ok(true);
        }
        for attribute in names {
            if state.read.contains_id(LINKS, &link_key(id, *attribute), own.0)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the rights that a set of rules grants. The rights are computed once for each set.
    fn rights(&self, state: TreeState<'_>, holding: &[u64]) -> Arc<EntryRights> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rights) = known.get(holding) {
            return Arc::clone(rights);
        }
        let holds = |place: usize| holding.get(place / 64).is_some_and(|bits| bits >> (place % 64) & 1 != 0);
        let applicable = self.applicable.iter().enumerate().filter(|(place, _)| holds(*place));
        let rules: Vec<_> = applicable
            .filter_map(|(_, applicable)| {
                Some((self.rules.rules.get(applicable.rule)?, applicable.values.as_ref()))
            })
            .collect();
        let rights = EntryRights::of(&rules, state.catalog, self.is_uniform);
        if known.len() >= RIGHTS_CACHED_MAX {
            known.clear();
        }
        let rights = Arc::new(rights);
        known.insert(holding.into(), Arc::clone(&rights));
        rights
    }
}

impl Memberships for RuleRights {
    /// Returns true if the requester may see the group and use its members for the purpose `by`.
    fn shows_member(
        &self,
        state: TreeState<'_>,
        (group, member): (EntryId, AttrId),
        by: MemberUse,
    ) -> Result<bool> {
        let rights = self.at_entry(state, group)?;
        let type_id = state.catalog.attribute(member).description.type_id;
        Ok(rights.may_browse()
            && match by {
                MemberUse::Compare => rights.may_compare(type_id),
                MemberUse::Search => rights.may_search(type_id),
                MemberUse::Read => rights.may_read(type_id),
            })
    }

    fn permitted(&self, state: TreeState<'_>, entry: EntryId, filter: &Term) -> Result<Option<Term>> {
        let rights = self.at_entry(state, entry)?;
        let allowed = AllowedValues { rights: &rights, right: SEARCH };
        Ok(rights.may_browse().then(|| allowed.left_of(filter, state.catalog)))
    }
}

/// Compiles the restriction of a rule to single values. The filter contains no DNs to resolve.
fn value_rule(state: TreeState<'_>, rule: &Rule, filter: &FilterBuf) -> ValueRule {
    let compiler = Compiler { catalog: state.catalog, shown: Shown::Plain, known: None };
    ValueRule {
        is_allow: rule.is_allow,
        rights: rule.rights,
        types: rule.types.clone(),
        text: filter.to_string(),
        filter: compiler.compile(filter.as_filter()),
    }
}

/// Returns all sources of the rights. An entry that ceases to name the requester need not be a source, because each
/// access tests whether the entry names the requester.
fn sources(facts: RequesterFacts<'_>, applicable: &[ApplicableRule]) -> Sources {
    let (own, mut sources) = facts.into_sources();
    sources.own.extend(own.map(EntryEffect::Gone));
    let names_asker =
        |of: &ApplicableRule| matches!(&of.condition, Condition::AtEntry { names, .. } if !names.is_empty());
    sources.own.extend(own.filter(|_| applicable.iter().any(names_asker)).map(EntryEffect::Named));
    sources
}

/// Returns the special entries, ascending, and whether the list is incomplete: see [`RuleRights::special`].
fn special(
    state: TreeState<'_>,
    own: Option<EntryId>,
    applicable: &[ApplicableRule],
) -> Result<(Vec<u64>, bool)> {
    let (mut ids, mut attributes) = (Vec::new(), Vec::new());
    for of in applicable {
        ids.extend(of.place.iter().chain(&of.but).map(|(_, base)| base.0));
        if let Condition::AtEntry { is_own, names } = &of.condition {
            ids.extend(own.filter(|_| *is_own).map(|own| own.0));
            attributes.extend_from_slice(names);
        }
    }
    attributes.sort_unstable();
    attributes.dedup();
    for attribute in own.iter().flat_map(|own| attributes.iter().map(|attribute| link_key(*own, *attribute)))
    {
        state.read.ids(LINKED, &attribute)?.next_block(&mut ids, ENTRIES_NAMING_REQUESTER_MAX + 1)?;
        if ids.len() > ENTRIES_NAMING_REQUESTER_MAX {
            return Ok((Vec::new(), true));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok((ids, false))
}
