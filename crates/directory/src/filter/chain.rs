//! Chains of links, for the rule inchainMatch ([MS-ADTS] section 3.1.1.3.4.4.3): an entry matches if a chain of one or
//! more links of the attribute leads from it to the asserted entry. For memberOf, each link leads from a member to its
//! group.
//!
//! Which end of a chain is cheaper to follow depends on the data: a user is in few groups, but a group may have a
//! million members or be a member of few other groups. Therefore chains are followed from both ends, always at the end
//! with fewer links to read next, until the two ends meet or one end has no more links. The links of an entry are
//! followed only once, so cycles end. Later candidates reuse the entries found from the asserted entry, and the results
//! for groups between the ends.
//!
//! Under access rules, a link is followed only if the requester may see the entry that contains the value and has the
//! right to the attribute that the operation requires. The same holds for memberOf.

mod reachable;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use foldhash::fast::RandomState;
use ldap::ResultCode;
use reachable::{ReachableEntries, ReachedEntry};
use store::{MapId, Read};

use super::memberships::GroupsOf;
use super::{Item, Subject, Test};
use crate::catalog::Catalog;
use crate::model::attribute_numbers::AttributeNumbers;
use crate::model::limits::{CHAIN_CACHED_MAX, CHAIN_LINKS_MAX};
use crate::model::outcome::OperationError;
use crate::model::rows::{
    AttrId, DANGLING, EntryId, LINKED, LINKS, VALUES, dangling_key, link_key, value_key,
};
use crate::tree::TreeState;
use crate::tree::operational::member_attributes;

type Result<T> = std::result::Result<T, OperationError>;
type Ids = HashSet<u64, RandomState>;

/// Maximum number of filter items whose chains are cached.
const CHAINS_MAX: usize = 16;

/// Number of link reads that cost as much as one check of a link against access rules.
const LINKS_PER_DECISION: u64 = 4;

/// The links that chains follow: the attributes, and the direction.
#[derive(Clone, Debug)]
pub(crate) struct ChainLinks {
    pub(crate) attributes: AttributeNumbers,
    /// Whether a step leads from an entry to the entries that name it, such as from a member to its groups. If false, a
    /// step leads from an entry to the entries that its values name.
    pub(crate) to_holders: bool,
}

impl ChainLinks {
    /// Returns the links that an item follows.
    pub(crate) fn of(item: &Item, catalog: &Catalog) -> ChainLinks {
        match item.subject {
            Subject::Virtual(_) => ChainLinks::to_groups(catalog),
            _ => ChainLinks { attributes: item.attributes.clone(), to_holders: false },
        }
    }

    /// Returns the links from members to their groups.
    pub(crate) fn to_groups(catalog: &Catalog) -> ChainLinks {
        ChainLinks { attributes: member_attributes(catalog).collect(), to_holders: true }
    }

    /// Returns the map with the links that lead from an entry toward the asserted entry.
    fn links_map(&self) -> MapId {
        if self.to_holders { LINKED } else { LINKS }
    }

    /// Returns the map with the links that lead back from the asserted entry.
    pub(crate) fn back(&self) -> MapId {
        if self.to_holders { LINKS } else { LINKED }
    }

    /// Returns the estimated number of links of an entry in the map `map`.
    pub(crate) fn count(&self, read: &Read, map: MapId, id: u64) -> Result<u64> {
        let mut count = 0;
        for attribute in self.attributes.iter() {
            count += read.ids(map, &link_key(EntryId(id), *attribute))?.estimate();
        }
        Ok(count)
    }
}

/// Follows the links of an entry in the direction of the chains. Calls `each` with every entry that contains such a
/// link as a value, and with the attribute of the value. If `is_nested`, also follows the links of the entries at the
/// ends of these links. After [`CHAIN_LINKS_MAX`] links, further links are omitted.
pub(crate) fn for_each_holder(
    state: TreeState<'_>,
    hops: &ChainLinks,
    (id, is_nested): (EntryId, bool),
    each: &mut dyn FnMut(EntryId, AttrId) -> Result<()>,
) -> Result<()> {
    let (mut open, mut seen, mut left) = (vec![id.0], Ids::default(), CHAIN_LINKS_MAX);
    while let Some(at) = open.pop() {
        for attribute in hops.attributes.iter() {
            let mut ends = Vec::new();
            let max = usize::try_from(left).unwrap_or(usize::MAX);
            state
                .read
                .ids(hops.links_map(), &link_key(EntryId(at), *attribute))?
                .next_block(&mut ends, max)?;
            left -= ends.len() as u64;
            if !hops.to_holders && !ends.is_empty() {
                each(EntryId(at), *attribute)?;
            }
            for end in ends {
                if hops.to_holders {
                    each(EntryId(end), *attribute)?;
                }
                if is_nested && seen.insert(end) {
                    open.push(end);
                }
            }
        }
    }
    Ok(())
}

/// Chains of links that the items of a filter follow, on one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    all: Vec<Chain>,
    /// Number of links read since the last [`take_cost`](Chains::take_cost).
    links_read: u64,
    /// The entry that was tested last, and the number of links read for it by all items of the filter.
    decided: Option<(EntryId, u64)>,
}

impl Chains {
    /// Returns true if a chain of the item leads from an entry to the asserted entry. `describing` returns the dynamic
    /// groups that describe the asserted entry, if the test accepts such groups. `describing` is called only at the
    /// first test of the item.
    pub(super) fn lead(
        &mut self,
        item: &Item,
        state: TreeState<'_>,
        requester: Option<&GroupsOf>,
        id: EntryId,
        describing: &dyn Fn() -> Result<Vec<u64>>,
    ) -> Result<bool> {
        let (start, before) = (self.links_read, self.read_for(id));
        let place = match self.all.iter().position(|chain| chain.is_of(item)) {
            Some(place) => place,
            None => {
                let mut links = Links { state, requester, read: &mut self.links_read };
                let mut chain = Chain::of(item, &mut links)?;
                if item.counts_described {
                    chain.reach_describing(&describing()?, &mut links)?;
                }
                if self.all.len() >= CHAINS_MAX {
                    self.all.clear();
                }
                self.all.push(chain);
                self.all.len() - 1
            }
        };
        let Some(chain) = self.all.get_mut(place) else { return Ok(false) };
        // A filter may have thousands of items, so all items share the limit for one entry.
        let max = CHAIN_LINKS_MAX.saturating_sub(before);
        let leads = chain.leads_from(id.0, max, &mut Links { state, requester, read: &mut self.links_read });
        self.decided = Some((id, before + (self.links_read - start)));
        leads
    }

    /// Counts `count` links of an entry as read, because a test with the rule `rule` compares the DNs of the link
    /// targets.
    ///
    /// # Errors
    /// adminLimitExceeded if the items of the filter read too many links for this entry.
    pub(super) fn compare_names(&mut self, id: EntryId, count: u64, rule: &str) -> Result<()> {
        let read = self.read_for(id) + count;
        self.links_read += count;
        self.decided = Some((id, read));
        if read > CHAIN_LINKS_MAX { Err(too_long(rule)) } else { Ok(()) }
    }

    /// Returns the number of links that were read to decide about an entry; 0 unless that entry was tested last.
    fn read_for(&self, id: EntryId) -> u64 {
        self.decided.filter(|(last, _)| *last == id).map_or(0, |(_, read)| read)
    }

    /// Adds the cost of testing which of `group_count` dynamic groups describe an entry.
    pub(super) fn add_cost(&mut self, group_count: usize) {
        self.links_read += cost_of_groups(group_count);
    }

    /// Returns the number of links read since the last call.
    pub(crate) fn take_cost(&mut self) -> u64 {
        std::mem::take(&mut self.links_read)
    }

    /// Returns the heap memory that the chains use, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Chain>() + self.all.iter().map(Chain::heap_bytes).sum::<usize>()
    }
}

/// State of the chains of one filter item.
#[derive(Debug)]
struct Chain {
    hops: ChainLinks,
    is_virtual: bool,
    target: Option<EntryId>,
    /// Normal form of the asserted name.
    name: Vec<u8>,
    /// Entries that are known to lead to the target.
    reached: Ids,
    /// Entries that lead to the target, and whose links back to further entries are not read yet. Each comes with the
    /// number of these links. The entry with the fewest links is first.
    back: BinaryHeap<Reverse<(u64, u64)>>,
    /// Cached results for other entries: true if the entry leads to the target.
    known: HashMap<u64, bool, RandomState>,
}

/// Reads links that the requester may follow.
struct Links<'s, 'a> {
    state: TreeState<'s>,
    requester: Option<&'a GroupsOf>,
    /// Number of links read.
    read: &'a mut u64,
}

impl Links<'_, '_> {
    fn may_follow(&self, holder: u64, attribute: AttrId) -> Result<bool> {
        self.requester.map_or(Ok(true), |requester| requester.shows(self.state, EntryId(holder), attribute))
    }

    /// Returns the entries at the ends of those links that the requester may follow. The caller has read the links of
    /// the entry `id` and passes them in `links`.
    fn ends_of(
        &mut self,
        hops: &ChainLinks,
        id: u64,
        links: impl Iterator<Item = (u64, AttrId)>,
    ) -> Result<Vec<u64>> {
        let mut all = Vec::new();
        for (end, attribute) in links {
            let may_follow = self.may_follow(if hops.to_holders { end } else { id }, attribute)?;
            *self.read += match (hops.to_holders, self.requester) {
                (true, Some(_)) => 1 + LINKS_PER_DECISION,
                _ => u64::from(may_follow),
            };
            if may_follow {
                all.push(end);
            }
        }
        Ok(all)
    }

    /// Reads the links of an entry in a map. Returns the entries at the ends of the links that the requester may
    /// follow.
    fn ends(&mut self, hops: &ChainLinks, map: MapId, id: u64) -> Result<Vec<u64>> {
        let (mut all, is_holder) = (Vec::new(), map == LINKS);
        for attribute in hops.attributes.iter() {
            if is_holder && !self.may_follow(id, *attribute)? {
                continue;
            }
            let start = all.len();
            let key = link_key(EntryId(id), *attribute);
            self.state.read.ids(map, &key)?.next_block(&mut all, usize::MAX)?;
            *self.read += (all.len() - start) as u64;
            if !is_holder && self.requester.is_some() {
                let found = all.split_off(start);
                *self.read += found.len() as u64 * LINKS_PER_DECISION;
                for holder in found {
                    if self.may_follow(holder, *attribute)? {
                        all.push(holder);
                    }
                }
            }
        }
        Ok(all)
    }
}

impl Chain {
    fn of(item: &Item, links: &mut Links<'_, '_>) -> Result<Chain> {
        let state = links.state;
        let mut chain = Chain {
            hops: ChainLinks::of(item, state.catalog),
            is_virtual: matches!(item.subject, Subject::Virtual(_)),
            target: item.target.as_ref().and_then(|target| target.entry),
            name: asserted(item).to_vec(),
            reached: Ids::default(),
            back: BinaryHeap::new(),
            known: HashMap::default(),
        };
        if let Some(target) = chain.target {
            let count = chain.hops.count(state.read, chain.hops.back(), target.0)?;
            chain.back.push(Reverse((count, target.0)));
        } else if !chain.hops.to_holders {
            for holder in holders_of_text(item, &chain.hops, &chain.name, state)? {
                if links.may_follow(holder.0, holder.1)? {
                    chain.reach(holder.0, links)?;
                }
            }
        }
        Ok(chain)
    }

    /// Records that these dynamic groups lead to the target, because they describe the target. Omits groups whose
    /// members the requester may not use.
    #[cold]
    fn reach_describing(&mut self, groups: &[u64], links: &mut Links<'_, '_>) -> Result<()> {
        *links.read += cost_of_groups(links.state.catalog.dynamic_groups.len());
        for group in groups {
            let mut is_usable = self.hops.attributes.is_empty();
            for attribute in self.hops.attributes.iter() {
                is_usable |= links.may_follow(*group, *attribute)?;
            }
            if is_usable {
                self.reach(*group, links)?;
            }
        }
        Ok(())
    }

    fn is_of(&self, item: &Item) -> bool {
        let is_virtual = matches!(item.subject, Subject::Virtual(_));
        self.is_virtual == is_virtual
            && self.target == item.target.as_ref().and_then(|target| target.entry)
            && (is_virtual || *self.hops.attributes == *item.attributes)
            && asserted(item) == self.name
    }

    fn heap_bytes(&self) -> usize {
        let pair = size_of::<(u64, u64)>();
        self.hops.attributes.heap_bytes()
            + self.name.capacity()
            + self.reached.capacity() * size_of::<u64>()
            + (self.back.capacity() + self.known.capacity()) * pair
    }

    /// Records that an entry leads to the target. Returns false if this was already known.
    fn reach(&mut self, id: u64, links: &mut Links<'_, '_>) -> Result<bool> {
        let is_new = self.reached.insert(id);
        if is_new && Some(EntryId(id)) != self.target {
            *links.read += 1;
            let count = self.hops.count(links.state.read, self.hops.back(), id)?;
            if count > 0 {
                self.back.push(Reverse((count, id)));
            }
        }
        Ok(is_new)
    }

    /// Returns true if a chain leads from an entry to the target.
    ///
    /// # Errors
    /// adminLimitExceeded if the answer requires reading more than `max` links; the store failed.
    fn leads_from(&mut self, id: u64, max: u64, links: &mut Links<'_, '_>) -> Result<bool> {
        if self.reached.contains(&id) {
            return Ok(true);
        }
        if self.back.is_empty() {
            return Ok(false);
        }
        if let Some(known) = self.known.get(&id) {
            return Ok(*known);
        }
        let (start, mut reachable) = (*links.read, ReachableEntries::default());
        if self.add_reached(id, 0, &mut reachable, links)? {
            self.keep_path(&reachable, 0);
            return Ok(true);
        }
        loop {
            let Some(Reverse((ahead, place))) = reachable.open.peek().copied() else {
                reachable.reached.iter().for_each(|reached| self.keep(reached.id, false));
                return Ok(false);
            };
            let back = match self.back.peek() {
                None => return Ok(self.reached.contains(&id)),
                Some(_) if self.reached.len() >= CHAIN_CACHED_MAX => u64::MAX,
                Some(Reverse((back, _))) => *back,
            };
            if *links.read - start + ahead.min(back) > max {
                return Err(too_long("inchainMatch"));
            }
            let reached = match back <= ahead {
                true => self.step_back(&reachable, links)?,
                false => self.step_on(place, &mut reachable, links)?,
            };
            if let Some(place) = reached {
                self.keep_path(&reachable, place);
                return Ok(true);
            }
        }
    }

    /// Follows the links back from the entry with the fewest links in `back`. If a link reaches an entry of
    /// `reachable`, the traversals from the two ends have met, and the result is the index of that entry.
    fn step_back(
        &mut self,
        reachable: &ReachableEntries,
        links: &mut Links<'_, '_>,
    ) -> Result<Option<usize>> {
        let Some(Reverse((_, id))) = self.back.pop() else { return Ok(None) };
        let mut reached = None;
        for end in links.ends(&self.hops, self.hops.back(), id)? {
            if self.reach(end, links)? {
                reached = reached.or_else(|| reachable.place(end));
            }
        }
        Ok(reached)
    }

    /// Follows the links onward from the entry at index `place`. If a link reaches an entry that leads to the target,
    /// returns the index of that entry.
    fn step_on(
        &mut self,
        place: usize,
        reachable: &mut ReachableEntries,
        links: &mut Links<'_, '_>,
    ) -> Result<Option<usize>> {
        reachable.open.pop();
        let Some(ReachedEntry { id, ends, .. }) = reachable.reached.get(place).cloned() else {
            return Ok(None);
        };
        let ends = match ends {
            Some(kept) => links.ends_of(&self.hops, id, reachable.cached_ends(kept))?,
            None => links.ends(&self.hops, self.hops.links_map(), id)?,
        };
        for end in ends {
            if reachable.place(end).is_none() && self.add_reached(end, place, reachable, links)? {
                return Ok(Some(reachable.reached.len() - 1));
            }
        }
        Ok(None)
    }

    /// Adds the entry at the end of a link from the entry at index `before`. Returns true if the added entry is known
    /// to lead to the target.
    fn add_reached(
        &mut self,
        id: u64,
        before: usize,
        reachable: &mut ReachableEntries,
        links: &mut Links<'_, '_>,
    ) -> Result<bool> {
        let place = reachable.reached.len();
        reachable.add(id, before);
        *links.read += 1;
        match self.known.get(&id) {
            Some(true) => return Ok(true),
            // The entry is known not to lead to the target, so its links are not followed.
            Some(false) => return Ok(false),
            None if self.reached.contains(&id) => return Ok(true),
            None => {}
        }
        let (count, ends) = reachable.count(&self.hops, links.state.read, self.hops.links_map(), id)?;
        let is_linked = match &ends {
            Some(ends) => self.has_link(id, reachable.cached_ends(ends.clone()), links)?,
            None => self.is_linked(id, links)?,
        };
        if is_linked {
            return Ok(true);
        }
        if let Some(reached) = reachable.reached.last_mut() {
            reached.ends = ends;
        }
        if count > 0 {
            reachable.open.push(Reverse((count, place)));
        }
        Ok(false)
    }

    /// Returns true if one of an entry's links leads to the target and the requester may follow it.
    fn has_link(
        &self,
        id: u64,
        mut ends: impl Iterator<Item = (u64, AttrId)>,
        links: &Links<'_, '_>,
    ) -> Result<bool> {
        let Some(target) = self.target else { return Ok(false) };
        let holder = if self.hops.to_holders { target.0 } else { id };
        ends.try_fold(false, |found, (end, attribute)| {
            Ok(found || (end == target.0 && links.may_follow(holder, attribute)?))
        })
    }

    /// Returns true if a link leads from an entry directly to the target. Unlike [`has_link`](Chain::has_link), does
    /// not read all links of the entry.
    fn is_linked(&self, id: u64, links: &Links<'_, '_>) -> Result<bool> {
        let Some(target) = self.target else { return Ok(false) };
        let (holder, named) = if self.hops.to_holders { (target, id) } else { (EntryId(id), target.0) };
        for attribute in self.hops.attributes.iter() {
            if links.state.read.contains_id(LINKS, &link_key(holder, *attribute), named)?
                && links.may_follow(holder.0, *attribute)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn keep(&mut self, id: u64, leads: bool) {
        if self.known.len() >= CHAIN_CACHED_MAX {
            self.known.clear();
        }
        self.known.insert(id, leads);
    }

    /// Records that all entries on the chain from the candidate to the entry at index `place` lead to the target.
    fn keep_path(&mut self, reachable: &ReachableEntries, mut place: usize) {
        while let Some(ReachedEntry { id, before, .. }) = reachable.reached.get(place) {
            self.keep(*id, true);
            if place == *before {
                break;
            }
            place = *before;
        }
    }
}

/// Returns the normal form of the asserted name. For an equality test of nested groups the result is empty, because
/// that test needs only the id of the asserted entry.
fn asserted(item: &Item) -> &[u8] {
    match &item.test {
        Test::InChain(name) => name,
        _ => &[],
    }
}

/// Returns the entries that contain the asserted name as text. A name is stored as text only if no entry has this name.
/// Each entry comes with the attribute that contains the text.
pub(crate) fn holders_of_text(
    item: &Item,
    hops: &ChainLinks,
    key: &[u8],
    state: TreeState<'_>,
) -> Result<Vec<(u64, AttrId)>> {
    let mut all = Vec::new();
    let Some(name) = item.target.as_ref().and_then(|target| target.name.as_ref()) else { return Ok(all) };
    for attribute in hops.attributes.iter() {
        let mut holders = Vec::new();
        let dangling = dangling_key(*attribute, &name.key);
        state.read.ids(DANGLING, &dangling)?.next_block(&mut holders, usize::MAX)?;
        for holder in holders {
            // The key of a long name is shortened in the index, so the value itself must be compared.
            if state.read.get(VALUES, &value_key(EntryId(holder), *attribute, key))?.is_some() {
                all.push((holder, *attribute));
            }
        }
    }
    Ok(all)
}

fn cost_of_groups(group_count: usize) -> u64 {
    group_count as u64 * LINKS_PER_DECISION
}

fn too_long(rule: &str) -> OperationError {
    OperationError::refused(
        ResultCode::ADMIN_LIMIT_EXCEEDED,
        format!("{rule} would read more than {CHAIN_LINKS_MAX} links to decide about one entry"),
    )
}
