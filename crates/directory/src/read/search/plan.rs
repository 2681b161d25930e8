//! Choice of the source of candidates: the source with the fewest candidates is best.
//!
//! The planner learns most numbers of candidates exactly and cheaply: a posting (the set of ids under one key) has a
//! known length, and counters hold the sizes of containers and subtrees. Of the terms of an *and*, the planner chooses
//! the narrowest. If that term has many candidates, it is intersected with other terms. The remaining terms are tested
//! on each candidate. An *or* needs an index for each of its terms. A filter that no index narrows needs a scan of all
//! entries. A plan affects the cost of a search, never its results. The candidates include every entry that matches,
//! and the filter is evaluated on each candidate, except for terms that every candidate matches because of the source.

mod ahead;
mod chain_ids;
mod described;
mod pieces;
mod ranges;

use std::sync::Arc;

use ldap::Scope;
use schema::{AttributeDescription, MatchingRule};
use store::{MapId, Read};

use super::scope::SearchScope;
use crate::catalog::{AttributeDef, VirtualAttribute};
use crate::filter::{Item, Subject, Term, Test, Truth};
use crate::model::attribute_numbers::AttributeNumbers;
use crate::model::index_definition::IndexPart;
use crate::model::limits::{
    COLLECTED_IDS_MAX, INDEX_KEY_MAX, INTERSECTION_COUNT_MAX, INTERSECTION_COUNT_MIN, KEY_HASH_SIZE,
    NAME_KEY_MAX, POSTINGS_MERGED_MAX, PRESENCE_KEYS_MAX, RANGE_COUNTED_MAX, SUBTREE_WALKED_MAX,
};
use crate::model::outcome::OperationError;
use crate::model::rows::{
    AttrId, CLASSES, DANGLING, EntryId, INDEX, LINKED, LINKS, NODES, children_counter, class_key,
    dangling_key, link_key, subtree_counter, with_index_key,
};
use crate::tree::TreeState;
use crate::tree::operational::member_attributes;
use chain_ids::ChainIds;
use ranges::{Gathered, Gathering, KeyRange};

pub(super) type Result<T> = std::result::Result<T, OperationError>;

/// Number of candidates at which the planner stops looking for a better source.
pub(super) const FEW: u64 = 16;

/// Maximum length of a posting that is read during planning. A posting of this length or less need not be looked up
/// again.
const SHORT_POSTING: u64 = 64;

/// Factor by which reading an entry in a scan, in storage order, costs less than reading it alone.
const SCAN_ADVANTAGE: u64 = 2;

/// Source of the candidates.
#[derive(Debug)]
pub(crate) enum Source {
    /// The union of `ids` and `postings`. The ids ascend.
    Indexed {
        /// Ids collected in advance.
        ids: Vec<u64>,
        /// Postings that are read when the search reaches their ids.
        postings: Vec<Posting>,
    },
    /// All entries.
    Scan,
}

/// A posting: the set of ids under one key of a map.
#[derive(Debug)]
pub(crate) struct Posting {
    pub(crate) map: MapId,
    pub(crate) key: Vec<u8>,
}

/// Part of the filter that every candidate matches because of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Implied {
    /// Nothing.
    Nothing,
    /// These terms of the top-level *and*, one bit each. Terms after the 64th are always tested.
    Terms(u64),
    /// The whole filter.
    All,
}

/// Plan of a search.
#[derive(Debug)]
pub(crate) struct Plan {
    source: Source,
    /// The source that replaces `source` when several threads scan the candidates.
    shared: Option<Arc<Source>>,
    /// Ids that are still to be gathered. Together with the postings of the source they are the candidates.
    pub(crate) gathering: Option<Box<Gathering>>,
    pub(crate) implied: Implied,
    /// Upper bound of the number of candidates; an estimate if counting them would cost too much.
    pub(crate) candidate_count: u64,
    /// Whether the scope, not the filter, supplies the candidates.
    pub(crate) is_by_place: bool,
    /// Terms of the top-level *and* that supply the candidates, one bit each.
    pub(crate) chosen_terms: u64,
}

/// Candidates of a filter or a part of it.
#[derive(Debug, Default)]
pub(super) struct Narrowed {
    pub(super) ids: Vec<u64>,
    pub(super) postings: Vec<Posting>,
    /// Ranges of index keys whose ids are not read yet.
    pub(super) ranges: Vec<KeyRange>,
    /// Chains of links whose ids are not all read yet.
    pub(super) chains: Vec<ChainIds>,
    /// Upper bound of the number of candidates; an entry in two postings counts twice.
    pub(super) count: u64,
    /// Whether all candidates match.
    pub(super) is_exact: bool,
}

impl Plan {
    /// Returns the plan that scans all entries. It is valid for any filter.
    pub(crate) fn scan(entry_count: u64) -> Plan {
        Plan {
            source: Source::Scan,
            shared: None,
            gathering: None,
            implied: Implied::Nothing,
            candidate_count: entry_count,
            is_by_place: false,
            chosen_terms: 0,
        }
    }

    /// Chooses the cheapest source of the entries in `scope` that match `filter`.
    pub(crate) fn choose(state: TreeState<'_>, scope: &SearchScope, filter: &Term) -> Result<Plan> {
        if scope.kind == Scope::BaseObject {
            return Ok(Plan::ids(vec![scope.base.0]));
        }
        let entry_count = state.read.row_count(NODES)?;
        let planner = Planner { state, entry_count, is_of_member_url: false };
        let worth_it = entry_count / SCAN_ADVANTAGE + FEW;
        let (narrowed, implied, chosen_terms) = planner.narrow_top(filter, worth_it)?;
        let count = narrowed.as_ref().map_or(worth_it, |narrowed| narrowed.count);
        if count > FEW
            && let Some(plan) = planner.narrow_by_place(scope, count)?
        {
            return Ok(plan);
        }
        match narrowed {
            Some(narrowed) => Ok(Plan::narrowed(narrowed, implied, worth_it, chosen_terms)),
            None => Ok(Plan::scan(entry_count)),
        }
    }

    fn narrowed(narrowed: Narrowed, implied: Implied, ids_max: u64, chosen_terms: u64) -> Plan {
        let Narrowed { mut ids, postings, ranges, chains, count: candidate_count, .. } = narrowed;
        let mut gathering = None;
        if ranges.is_empty() && chains.is_empty() {
            if ids.len() > 1 {
                ids.sort_unstable();
                ids.dedup();
            }
        } else {
            let ids = std::mem::take(&mut ids);
            gathering = Some(Box::new(Gathering::new((ranges, chains), ids, ids_max)));
        }
        let source = Source::Indexed { ids, postings };
        Plan { source, shared: None, gathering, implied, candidate_count, is_by_place: false, chosen_terms }
    }

    /// Returns a plan with these ids, which must ascend.
    pub(super) fn ids(ids: Vec<u64>) -> Plan {
        let count = ids.len() as u64;
        let plan =
            Plan::narrowed(Narrowed { ids, count, ..Narrowed::default() }, Implied::Nothing, 0, u64::MAX);
        Plan { is_by_place: true, ..plan }
    }

    /// Returns a plan with these ids in this order. A search must examine its candidates from the first to the last,
    /// because the ids need not ascend.
    pub(super) fn in_order(ids: Vec<u64>) -> Plan {
        let candidate_count = ids.len() as u64;
        Plan { source: Source::Indexed { ids, postings: Vec::new() }, ..Plan::scan(candidate_count) }
    }

    /// Returns the source of the candidates.
    #[inline]
    pub(crate) fn source(&self) -> &Source {
        self.shared.as_deref().unwrap_or(&self.source)
    }

    /// Returns the memory that the plan uses, without itself, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let source = match self.source() {
            Source::Indexed { ids, postings } => {
                let keys: usize = postings.iter().map(|posting| posting.key.capacity()).sum();
                ids.capacity() * size_of::<u64>() + postings.capacity() * size_of::<Posting>() + keys
            }
            Source::Scan => 0,
        };
        source
            + self.gathering.as_ref().map_or(0, |gathering| size_of::<Gathering>() + gathering.heap_bytes())
    }

    /// Returns a second plan for the same candidates. All of their ids must have been gathered. Both plans share the
    /// ids, because there may be a million of them.
    pub(crate) fn share(&mut self) -> Plan {
        let source = &mut self.source;
        let shared = self.shared.get_or_insert_with(|| Arc::new(std::mem::replace(source, Source::Scan)));
        Plan {
            source: Source::Scan,
            shared: Some(Arc::clone(shared)),
            gathering: None,
            implied: self.implied,
            candidate_count: self.candidate_count,
            is_by_place: self.is_by_place,
            chosen_terms: self.chosen_terms,
        }
    }

    /// Returns true if a page of `size` entries is cheaper by a scan than by gathering ids. Each page would gather the
    /// ids again, whereas a scan continues after the previous page. At least one in `share_min` entries must be a
    /// candidate, so that the scan for one page does not become too long.
    pub(crate) fn is_better_scanned(&self, size: u64, entry_count: u64, share_min: u64) -> bool {
        let entries_per_candidate = entry_count / self.candidate_count.max(1) + 1;
        self.gathering.is_some()
            && entries_per_candidate <= share_min
            && size.saturating_mul(entries_per_candidate) < self.candidate_count
    }

    /// Returns the ids of the candidates that are examined first, if they are known.
    #[inline]
    pub(crate) fn first_few(&self) -> &[u64] {
        match &self.source {
            Source::Indexed { ids, postings } if postings.is_empty() => {
                ids.get(..to_usize(FEW)).unwrap_or(ids)
            }
            _ => &[],
        }
    }

    /// Continues to gather ids. Returns true when all are gathered, or when a scan replaces the gathering.
    pub(crate) fn gather(&mut self, read: &Read, keys_max: usize) -> Result<bool> {
        let Some(gathering) = &mut self.gathering else { return Ok(true) };
        match (gathering.go_on(read, keys_max)?, &mut self.source) {
            (Gathered::Partly, _) => return Ok(false),
            (Gathered::All(gathered), Source::Indexed { ids, .. }) => *ids = gathered,
            _ => *self = Plan::scan(read.row_count(NODES)?),
        }
        self.gathering = None;
        Ok(true)
    }
}

pub(super) struct Planner<'a> {
    pub(super) state: TreeState<'a>,
    pub(super) entry_count: u64,
    /// Whether the filter comes from the URL of a dynamic group. In such a filter, only stored members count as members
    /// of a group.
    pub(super) is_of_member_url: bool,
}

impl Planner<'_> {
    fn narrow_top(&self, filter: &Term, limit: u64) -> Result<(Option<Narrowed>, Implied, u64)> {
        if let Term::And(terms) = filter {
            let best = self.narrowest(terms, limit)?;
            let (implied, places) = best.as_ref().map_or((0, 0), |best| (best.implied, best.places));
            return Ok((best.map(|best| best.narrowed), Implied::Terms(implied), places));
        }
        let narrowed = self.narrow(filter, limit)?;
        let is_exact = narrowed.as_ref().is_some_and(|narrowed| narrowed.is_exact);
        Ok((narrowed, if is_exact { Implied::All } else { Implied::Nothing }, u64::MAX))
    }

    /// Finds the narrowest term of an *and*. Tries cheap lookups first. Ranges are used only if they are narrower than
    /// these lookups.
    fn narrowest(&self, terms: &[Term], limit: u64) -> Result<Option<Best>> {
        let mut best: Option<Best> = None;
        for rank in 0..=LAST_RANK {
            if rank == LAST_RANK {
                self.narrow_between(terms, limit, &mut best)?;
            }
            for (place, term) in terms.iter().enumerate().filter(|(_, term)| rank_of(term) == rank) {
                let limit = best.as_ref().map_or(limit, |best| best.narrowed.count);
                if limit <= FEW && best.is_some() {
                    return Ok(best);
                }
                if let Some(narrowed) = self.narrow(term, limit)? {
                    best = Some(Best::of(narrowed, bit(place)));
                }
            }
        }
        match best {
            Some(best) if best.narrowed.count > INTERSECTION_COUNT_MIN => {
                self.intersect(terms, best).map(Some)
            }
            best => Ok(best),
        }
    }

    /// Combines a lower and an upper bound on a single-valued attribute into one range. The combined range is narrower
    /// than the range of either bound.
    fn narrow_between(&self, terms: &[Term], limit: u64, best: &mut Option<Best>) -> Result<()> {
        let items = || terms.iter().enumerate().filter_map(|(place, term)| Some((place, single(term)?)));
        for (low_place, low) in items() {
            let Test::AtLeast(rule, low_key) = &low.test else { continue };
            for (high_place, high) in items() {
                let Test::AtMost(_, high_key) = &high.test else { continue };
                if *low.attributes != *high.attributes
                    || !self.has_single_value(low)
                    || low.tests_collective(self.state)
                {
                    continue;
                }
                let limit = best.as_ref().map_or(limit, |best| best.narrowed.count);
                let (low_head, high_head) = (head(low_key), head(high_key));
                let is_cut = high_head.len() < high_key.len();
                let is_exact = !is_cut && low_head.len() == low_key.len();
                let narrowed = self.narrow_range(low, Some(*rule), is_exact, limit, |base| {
                    KeyRange::between(base, low_head, high_head, is_cut)
                })?;
                if let Some(narrowed) = narrowed {
                    *best = Some(Best::of(narrowed, bit(low_place) | bit(high_place)));
                }
            }
        }
        Ok(())
    }

    /// Returns true if an entry has at most one value of the item's attribute, because the attribute is single-valued
    /// and the item tests no subtypes or options of it.
    fn has_single_value(&self, item: &Item) -> bool {
        let [only] = &*item.attributes else { return false };
        let def = self.state.catalog.attribute(*only);
        def.id == def.base && self.state.catalog.schema.type_by_id(def.description.type_id).single_value
    }

    /// Intersects the candidates of `best` with the candidates of other terms, as long as an intersection saves more
    /// than it costs.
    fn intersect(&self, terms: &[Term], mut best: Best) -> Result<Best> {
        let mut ids: Option<Vec<u64>> = None;
        for (place, term) in terms.iter().enumerate() {
            let count = ids.as_ref().map_or(best.narrowed.count, |ids| ids.len() as u64);
            if count <= INTERSECTION_COUNT_MIN || count > INTERSECTION_COUNT_MAX {
                break;
            }
            // A posting that contains most entries would remove few candidates.
            let limit = INTERSECTION_COUNT_MAX.min(count * 8).min(self.entry_count / 2);
            if best.places & bit(place) != 0 {
                continue;
            }
            let Some(other) = self.narrow(term, limit)? else { continue };
            let other_is_exact = other.is_exact;
            let Some(others) = self.ids_of(&other)? else { continue };
            let own = match ids.take() {
                Some(ids) => ids,
                None => match self.ids_of(&best.narrowed)? {
                    Some(ids) => ids,
                    None => return Ok(best),
                },
            };
            ids = Some(own.into_iter().filter(|id| others.binary_search(id).is_ok()).collect());
            best.places |= bit(place);
            if other_is_exact {
                best.implied |= bit(place);
            }
        }
        if let Some(ids) = ids {
            let count = ids.len() as u64;
            best.narrowed = Narrowed { ids, count, ..Narrowed::default() };
        }
        Ok(best)
    }

    /// Returns the ids of all candidates, ascending; `None` if there are too many to read at once.
    fn ids_of(&self, narrowed: &Narrowed) -> Result<Option<Vec<u64>>> {
        let max = to_usize(INTERSECTION_COUNT_MAX);
        if narrowed.count > INTERSECTION_COUNT_MAX || !narrowed.chains.is_empty() {
            return Ok(None);
        }
        let mut ids = narrowed.ids.clone();
        for posting in &narrowed.postings {
            self.state.read.ids(posting.map, &posting.key)?.next_block(&mut ids, usize::MAX)?;
        }
        for range in &narrowed.ranges {
            let mut range = range.clone();
            let key_count = range.gather(self.state.read, max, max, &mut ids)?;
            if key_count == max || ids.len() > max {
                return Ok(None);
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(Some(ids))
    }

    /// Returns candidates that include every entry that matches `term`. Returns `None` if there are `limit` or more
    /// candidates, or if no index narrows the term.
    pub(super) fn narrow(&self, term: &Term, limit: u64) -> Result<Option<Narrowed>> {
        match term {
            Term::Constant(Truth::True) | Term::Not(_) => Ok(None),
            Term::Constant(_) => Ok(Some(Narrowed { is_exact: true, ..Narrowed::default() })),
            Term::And(terms) => {
                let best = self.narrowest(terms, limit)?;
                Ok(best.map(|best| Narrowed { is_exact: false, ..best.narrowed }))
            }
            Term::Or(terms) => {
                let mut all = Narrowed { is_exact: true, ..Narrowed::default() };
                for term in terms {
                    let Some(narrowed) = self.narrow(term, limit - all.count.min(limit))? else {
                        return Ok(None);
                    };
                    all.add(narrowed);
                    if all.ids.len() > COLLECTED_IDS_MAX {
                        return Ok(None);
                    }
                }
                Ok(all.within(limit))
            }
            Term::Class(class) => self.class_sets(limit, |set| set.closure.contains(class)),
            Term::StructuralClass(class) => self.class_sets(limit, |set| set.structural == Some(*class)),
            Term::Item(item) if item.dn_attributes || item.tests_collective(self.state) => Ok(None),
            Term::Item(item) => self.narrow_item(item, limit),
        }
    }

    fn class_sets(
        &self,
        limit: u64,
        has_class: impl Fn(&crate::catalog::ClassSet) -> bool,
    ) -> Result<Option<Narrowed>> {
        let mut all = Narrowed { is_exact: true, ..Narrowed::default() };
        for (id, _) in self.state.catalog.numbered_class_sets().filter(|(_, set)| has_class(set)) {
            self.add_posting(&mut all, CLASSES, &class_key(id))?;
            if all.count >= limit && all.count > 0 {
                return Ok(None);
            }
        }
        Ok(all.within(limit))
    }

    fn narrow_item(&self, item: &Item, limit: u64) -> Result<Option<Narrowed>> {
        if matches!(item.test, Test::InChain(_)) {
            let narrowed = self.narrow_chain(item, limit)?;
            return match &item.subject {
                Subject::Virtual(_) => self.with_described(narrowed, item, (true, limit)),
                _ => Ok(narrowed),
            };
        }
        let description = match &item.subject {
            Subject::Any => return Ok(None),
            Subject::Virtual(attribute) => return self.narrow_virtual(*attribute, item, limit),
            Subject::Attribute(description) => description,
        };
        let has_links = item.attributes.iter().any(|id| self.state.catalog.attribute(*id).is_link);
        match &item.test {
            Test::Equal(_, _) if has_links || item.counts_described => self.narrow_links(item, limit),
            Test::Equal(rule, key) => self.narrow_equal(item, description, *rule, key, limit),
            // A value too long for a key is indexed by its head, so a bound is cut to the length of the head.
            Test::AtLeast(rule, key) => {
                let low = head(key);
                let is_exact = key.len() <= WHOLE_HEAD && description.options.is_empty();
                self.narrow_range(item, Some(*rule), is_exact, limit, |base| KeyRange::at_least(base, low))
            }
            Test::AtMost(rule, key) => {
                let high = head(key);
                let is_cut = key.len() > WHOLE_HEAD;
                let is_exact = !is_cut && description.options.is_empty();
                self.narrow_range(item, Some(*rule), is_exact, limit, |base| {
                    KeyRange::at_most(base, high, is_cut)
                })
            }
            Test::Substring(rule, assertion) => {
                let by_prefix = match assertion.prefix() {
                    Some(prefix) => {
                        let is_exact = assertion.is_prefix_only()
                            && prefix.len() <= WHOLE_HEAD
                            && description.options.is_empty();
                        self.narrow_range(item, Some(*rule), is_exact, limit, |base| {
                            KeyRange::with_prefix(base, head(prefix))
                        })?
                    }
                    None => None,
                };
                let limit = by_prefix.as_ref().map_or(limit, |narrowed| narrowed.count);
                if limit <= FEW && by_prefix.is_some() {
                    return Ok(by_prefix);
                }
                Ok(self.narrow_grams(item, *rule, assertion, limit)?.or(by_prefix))
            }
            Test::Sounds(codes) => self.narrow_sounds(item, codes, limit),
            Test::Present if has_links => Ok(None),
            Test::Present => {
                let is_exact = description.options.is_empty();
                if let Some(narrowed) = self.narrow_presence(item, is_exact, limit)? {
                    return Ok(Some(narrowed));
                }
                let limit = limit.min(PRESENCE_KEYS_MAX);
                self.narrow_range(item, None, is_exact, limit, KeyRange::of_attribute)
            }
            Test::Extensible(..) | Test::InChain(_) | Test::Visible(_) => Ok(None),
        }
    }

    fn narrow_virtual(
        &self,
        attribute: VirtualAttribute,
        item: &Item,
        limit: u64,
    ) -> Result<Option<Narrowed>> {
        let (Test::Equal(..), Some(target)) = (&item.test, &item.target) else { return Ok(None) };
        if attribute.is_nested(self.state) {
            return self.with_described(self.narrow_chain(item, limit)?, item, (true, limit));
        }
        let mut all = Narrowed { is_exact: true, ..Narrowed::default() };
        let Some(entry) = target.entry else { return Ok(Some(all)) };
        if attribute == VirtualAttribute::EntryDn {
            all.ids.push(entry.0);
            all.count = 1;
        } else {
            for member in member_attributes(self.state.catalog) {
                self.add_posting(&mut all, LINKS, &link_key(entry, member))?;
            }
            return self.with_described(all.within(limit), item, (false, limit));
        }
        Ok(all.within(limit))
    }

    fn narrow_equal(
        &self,
        item: &Item,
        description: &AttributeDescription,
        rule: MatchingRule,
        key: &[u8],
        limit: u64,
    ) -> Result<Option<Narrowed>> {
        let Some(bases) = self.indexed_bases(item, Some(rule)) else { return Ok(None) };
        // A posting contains the entries that have the value in the attribute, with or without options.
        let is_exact = description.options.is_empty() && key.len() <= INDEX_KEY_MAX;
        let mut all = Narrowed { is_exact, ..Narrowed::default() };
        for &base in bases.iter() {
            with_index_key(base, key, |key| self.add_posting(&mut all, INDEX, key))?;
        }
        Ok(all.within(limit))
    }

    fn narrow_links(&self, item: &Item, limit: u64) -> Result<Option<Narrowed>> {
        // A value without a target, such as a uniqueMember with a UID, is stored as text and is not indexed.
        let Some(target) = &item.target else { return Ok(None) };
        if item.attributes.iter().any(|id| !self.state.catalog.attribute(*id).is_link) {
            return Ok(None);
        }
        let is_exact = target.name.as_ref().is_none_or(|name| name.key.len() <= NAME_KEY_MAX);
        let mut all = Narrowed { is_exact, ..Narrowed::default() };
        for attribute in item.attributes.iter() {
            if let Some(target) = target.entry {
                self.add_posting(&mut all, LINKED, &link_key(target, *attribute))?;
            }
            if let Some(name) = &target.name {
                self.add_posting(&mut all, DANGLING, &dangling_key(*attribute, &name.key))?;
            }
        }
        if item.counts_described {
            self.add_describing(&mut all, item)?;
        }
        Ok(all.within(limit))
    }

    /// Narrows to the entries in a range of index keys of an item's attributes.
    fn narrow_range(
        &self,
        item: &Item,
        rule: Option<MatchingRule>,
        is_exact: bool,
        limit: u64,
        range: impl Fn(AttrId) -> KeyRange,
    ) -> Result<Option<Narrowed>> {
        let Some(bases) = self.indexed_bases(item, rule) else { return Ok(None) };
        let sorts = matches!(item.test, Test::AtLeast(..) | Test::AtMost(..));
        if sorts && rule.is_some_and(|rule| !rule.is_order_preserving()) {
            return Ok(None);
        }
        let mut all = Narrowed { is_exact, ..Narrowed::default() };
        for &base in bases.iter() {
            self.add_range(&mut all, limit, || range(base))?;
        }
        Ok(all.within(limit))
    }

    /// Adds the ids in a range of keys. A short range is read at once; the ids of a longer range are gathered later.
    pub(super) fn add_range(
        &self,
        all: &mut Narrowed,
        limit: u64,
        range: impl Fn() -> KeyRange,
    ) -> Result<()> {
        if self.gather_short(range(), all)? {
            return Ok(());
        }
        let range = range();
        let counted = range.count(self.state.read, limit.min(RANGE_COUNTED_MAX))?;
        // If the range is too long to count, the number is a guess. Gathering stops as soon as a scan is cheaper.
        all.count += counted.unwrap_or_else(|| RANGE_COUNTED_MAX.max(self.entry_count / 4));
        all.ranges.push(range);
        Ok(())
    }

    /// If a range has few keys and ids, adds the ids and returns true. Otherwise adds nothing and returns false.
    fn gather_short(&self, mut range: KeyRange, all: &mut Narrowed) -> Result<bool> {
        let before = all.ids.len();
        let ids = &mut all.ids;
        let keys_max = to_usize(SHORT_POSTING);
        let ids_max = before + keys_max;
        ids.reserve(to_usize(FEW));
        let key_count = range.gather(self.state.read, keys_max, ids_max, ids)?;
        let is_short = key_count < keys_max && ids.len() <= ids_max;
        if is_short {
            all.count += (ids.len() - before) as u64;
        } else {
            ids.truncate(before);
        }
        Ok(is_short)
    }

    /// Returns the attributes that an item tests, with options removed. Returns `None` unless all of them have an index
    /// of values with the keys of `rule`.
    fn indexed_bases(&self, item: &Item, rule: Option<MatchingRule>) -> Option<AttributeNumbers> {
        self.bases(item, |def| {
            let shares_keys =
                rule.is_none_or(|rule| def.equality.is_some_and(|own| own.shares_key_with(rule)));
            def.index.answers(IndexPart::Values) && shares_keys
        })
    }

    /// Returns the attributes that an item tests, with options removed. Returns `None` if one of these attributes lacks
    /// the required index.
    pub(super) fn bases(
        &self,
        item: &Item,
        is_indexed: impl Fn(&AttributeDef) -> bool,
    ) -> Option<AttributeNumbers> {
        let mut bases = Vec::new();
        for id in item.attributes.iter() {
            let def = self.state.catalog.attribute(*id);
            if !is_indexed(def) {
                return None;
            }
            if item.attributes.len() == 1 {
                return Some(AttributeNumbers::One([def.base]));
            }
            if !bases.contains(&def.base) {
                bases.push(def.base);
            }
        }
        Some(AttributeNumbers::Several(bases))
    }

    pub(super) fn add_posting(&self, all: &mut Narrowed, map: MapId, key: &[u8]) -> Result<()> {
        let mut cursor = self.state.read.ids(map, key)?;
        let count = cursor.estimate();
        all.count += count;
        if count > SHORT_POSTING {
            all.postings.push(Posting { map, key: key.to_vec() });
        } else if count > 0 {
            if all.ids.is_empty() {
                all.ids = Vec::with_capacity(to_usize(count));
            }
            cursor.next_block(&mut all.ids, to_usize(count))?;
        }
        Ok(())
    }

    /// Returns a plan whose candidates are the children or the subtree of the base, if there are fewer than `limit`
    /// candidates.
    fn narrow_by_place(&self, scope: &SearchScope, limit: u64) -> Result<Option<Plan>> {
        let (counter, limit) = match scope.kind {
            Scope::SingleLevel => (children_counter(scope.base), limit.min(COLLECTED_IDS_MAX as u64)),
            _ if !scope.aliased.is_empty() || scope.base == EntryId::ROOT => return Ok(None),
            // A subtree is traversed in one step, because between slices a branch could move to a place that the
            // traversal has already passed.
            _ => (subtree_counter(scope.base), limit.min(SUBTREE_WALKED_MAX)),
        };
        let count = self.state.read.count(&counter)? as u64 + scope.extras.len() as u64 + 1;
        if count >= limit {
            return Ok(None);
        }
        let mut ids: Vec<u64> = scope.extras.iter().map(|id| id.0).collect();
        if scope.kind == Scope::SingleLevel {
            let ranges = vec![KeyRange::children(scope.base)];
            let narrowed = Narrowed { ids, ranges, count, ..Narrowed::default() };
            let plan = Plan::narrowed(narrowed, Implied::Nothing, limit, u64::MAX);
            return Ok(Some(Plan { is_by_place: true, ..plan }));
        }
        self.add_subtree(scope.base, &mut ids)?;
        Ok(Some(Plan::ids(ids)))
    }

    /// Adds the ids of an entry and of all entries below it, in one step.
    fn add_subtree(&self, base: EntryId, ids: &mut Vec<u64>) -> Result<()> {
        let mut walked = ids.len();
        ids.push(base.0);
        while let Some(&parent) = ids.get(walked) {
            KeyRange::children(EntryId(parent)).gather(self.state.read, usize::MAX, usize::MAX - 1, ids)?;
            walked += 1;
        }
        Ok(())
    }
}

/// Returns the rank of a term in an *and*. Terms are tried in the order of their ranks: single lookups first, then sets
/// of lookups, then ranges.
fn rank_of(term: &Term) -> u8 {
    match term {
        Term::Constant(_) => 0,
        Term::Item(item) if matches!(item.test, Test::Equal(..)) => 0,
        Term::Class(_) | Term::StructuralClass(_) => 1,
        Term::And(_) | Term::Or(_) | Term::Not(_) => 2,
        Term::Item(_) => LAST_RANK,
    }
}

const LAST_RANK: u8 = 3;

/// Maximum length of a normal value that is an index key as a whole. Longer values are indexed by their head of this
/// length.
const WHOLE_HEAD: usize = INDEX_KEY_MAX - KEY_HASH_SIZE;

/// Returns the part of a normal value by which the index is ordered.
fn head(key: &[u8]) -> &[u8] {
    key.get(..WHOLE_HEAD).unwrap_or(key)
}

/// Converts a number of values in memory, which always fits into a `usize`.
fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Returns the bit for the term at index `place`; 0 if the index is 64 or greater.
fn bit(place: usize) -> u64 {
    if place < 64 { 1 << place } else { 0 }
}

/// Returns the item of a term, if it tests an attribute without options and has no `dnAttributes`.
fn single(term: &Term) -> Option<&Item> {
    let Term::Item(item) = term else { return None };
    let is_plain = matches!(&item.subject, Subject::Attribute(description) if description.options.is_empty());
    (is_plain && !item.dn_attributes).then_some(item)
}

/// Narrowest term of an *and* found so far.
struct Best {
    narrowed: Narrowed,
    /// Terms that supply the candidates, one bit each.
    places: u64,
    /// The terms among `places` that all candidates match, one bit each.
    implied: u64,
}

impl Best {
    fn of(narrowed: Narrowed, places: u64) -> Best {
        let implied = if narrowed.is_exact { places } else { 0 };
        Best { narrowed, places, implied }
    }
}

impl Narrowed {
    fn add(&mut self, mut other: Narrowed) {
        self.ids.append(&mut other.ids);
        self.postings.append(&mut other.postings);
        self.ranges.append(&mut other.ranges);
        self.chains.append(&mut other.chains);
        self.count += other.count;
        self.is_exact &= other.is_exact;
    }

    pub(super) fn within(self, limit: u64) -> Option<Narrowed> {
        let is_worth_it = self.count < limit || self.count == 0;
        (is_worth_it && self.postings.len() <= POSTINGS_MERGED_MAX).then_some(self)
    }
}
