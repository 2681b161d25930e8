//! Chains of links as sources of candidates: the entries from which chains lead to the asserted entry.
//!
//! Chains are followed back from the asserted entry, in slices. Most entries reached are users, from which no links
//! lead further back. Therefore only the few entries with links to follow are kept in memory. An entry whose chain
//! changes between slices may be missed.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use store::Read;

use super::{Narrowed, Planner, Result, to_usize};
use crate::filter::{ChainLinks, Item, Test, holders_of_text};
use crate::model::limits::CHAIN_PLANNED_MAX;
use crate::model::rows::{AttrId, EntryId, link_key};

/// Number of index keys that cost as much as one link, because the entry at the end of each link is looked up.
const KEYS_PER_LINK: usize = 4;

/// Ids of the entries from which a chain leads to one entry.
#[derive(Debug)]
pub(crate) struct ChainIds {
    hops: ChainLinks,
    /// Entries whose links are still to be followed back; the entry being read is last.
    open: Vec<u64>,
    /// Attributes of the entry being read that are still to be read; the attribute being read is last. `from` is the
    /// first id that is not read yet in the last attribute.
    attributes: Vec<AttrId>,
    from: u64,
    /// All entries that are or were in `open`.
    seen: HashSet<u64, RandomState>,
    /// Estimated number of links of the entries in `open` that are not read yet.
    links_left: u64,
}

impl ChainIds {
    /// Returns the memory that the chains use, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        let ids = self.open.capacity() + 2 * self.seen.capacity();
        size_of::<ChainIds>() + ids * size_of::<u64>()
    }

    fn open(&mut self, read: &Read, id: u64) -> Result<()> {
        let count = self.hops.count(read, self.hops.back(), id)?;
        if count > 0 && self.seen.insert(id) {
            self.links_left += count;
            self.open.push(id);
        }
        Ok(())
    }

    /// Appends ids at a cost of up to `keys_left` keys, and deducts the cost. Returns true when the chains are
    /// exhausted. Stops when there are more than `ids_max` ids.
    pub(super) fn go_on(
        &mut self,
        read: &Read,
        keys_left: &mut usize,
        ids_max: usize,
        ids: &mut Vec<u64>,
    ) -> Result<bool> {
        loop {
            let Some(attribute) = self.attributes.last().copied() else {
                if self.open.is_empty() {
                    return Ok(true);
                }
                self.attributes.extend_from_slice(&self.hops.attributes);
                continue;
            };
            let links_max = *keys_left / KEYS_PER_LINK;
            if links_max == 0 || ids.len() > ids_max {
                return Ok(false);
            }
            let Some(id) = self.open.last().copied() else { return Ok(true) };
            let mut cursor = read.ids(self.hops.back(), &link_key(EntryId(id), attribute))?;
            if self.from > 0 {
                cursor.seek(self.from)?;
            }
            let start = ids.len();
            let count = cursor.next_block(ids, links_max)?;
            *keys_left = keys_left.saturating_sub((count + 1) * KEYS_PER_LINK);
            self.links_left = self.links_left.saturating_sub(count as u64);
            self.from = ids.last().map_or(0, |last| last + 1);
            if count < links_max {
                self.from = 0;
                self.attributes.pop();
                if self.attributes.is_empty() {
                    self.open.pop();
                }
            }
            self.open_all(read, ids.get(start..).unwrap_or_default())?;
        }
    }

    /// Adds entries to be followed. The entry being read stays at the end of `open`.
    fn open_all(&mut self, read: &Read, ids: &[u64]) -> Result<()> {
        let present = if self.attributes.is_empty() { None } else { self.open.pop() };
        for id in ids {
            self.open(read, *id)?;
        }
        self.open.extend(present);
        Ok(())
    }
}

impl Planner<'_> {
    /// Follows the chains of an item if they are short. If the chains are long, leaves the rest to be gathered later.
    pub(super) fn narrow_chain(&self, item: &Item, limit: u64) -> Result<Option<Narrowed>> {
        let key: &[u8] = if let Test::InChain(key) = &item.test { key } else { &[] };
        let read = self.state.read;
        let mut chain = ChainIds {
            hops: ChainLinks::of(item, self.state.catalog),
            open: Vec::new(),
            attributes: Vec::new(),
            from: 0,
            seen: HashSet::default(),
            links_left: 0,
        };
        let mut all = Narrowed { is_exact: true, ..Narrowed::default() };
        match item.target.as_ref().and_then(|target| target.entry) {
            Some(target) => chain.open(read, target.0)?,
            None if chain.hops.to_holders => {}
            None => {
                for (holder, _) in holders_of_text(item, &chain.hops, key, self.state)? {
                    all.ids.push(holder);
                    chain.open(read, holder)?;
                }
            }
        }
        if item.counts_described {
            let start = all.ids.len();
            self.add_describing(&mut all, item)?;
            for group in all.ids.get(start..).unwrap_or_default() {
                chain.open(read, *group)?;
            }
        }
        if chain.links_left < limit {
            let ids_max = to_usize(limit);
            let mut keys_left = CHAIN_PLANNED_MAX * KEYS_PER_LINK;
            if chain.go_on(read, &mut keys_left, ids_max, &mut all.ids)? {
                all.count = all.ids.len() as u64;
                return Ok(all.within(limit));
            }
        }
        all.count = all.ids.len() as u64 + chain.links_left;
        all.chains.push(chain);
        Ok(all.within(limit))
    }
}
