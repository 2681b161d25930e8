//! The entries that chains of links reach from a candidate.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use foldhash::fast::RandomState;
use store::{MapId, Read};

use super::{ChainLinks, Result};
use crate::model::rows::{AttrId, EntryId, link_key};

/// Maximum number of links per entry that [`ReachableEntries::count`] caches. Most entries have fewer links, because
/// they are in few groups.
const FEW_LINKS: u64 = 16;

/// Minimum number of reached entries at which a hash table is used to find an entry.
const MET_HASHED: usize = 16;

/// Entries that chains of links reach from a candidate.
#[derive(Default)]
pub(super) struct ReachableEntries {
    /// The entries, starting with the candidate.
    pub(super) reached: Vec<ReachedEntry>,
    /// Index of each entry in `reached`; empty while `reached` has few entries.
    seen: HashMap<u64, usize, RandomState>,
    /// Indexes of the entries whose links are not followed yet. Each comes with the number of links of its entry. The
    /// entry with the fewest links is first.
    pub(super) open: BinaryHeap<Reverse<(u64, usize)>>,
    /// Entries at the ends of the cached links. `attributes` contains the attribute of each link at the same index.
    ends: Vec<u64>,
    attributes: Vec<AttrId>,
}

/// An entry that a chain of links reaches from a candidate.
#[derive(Clone)]
pub(super) struct ReachedEntry {
    pub(super) id: u64,
    /// Index of the previous entry on the chain. For the candidate this is its own index.
    pub(super) before: usize,
    /// Range of the entry's links in [`ReachableEntries::ends`]; `None` if these links are not cached.
    pub(super) ends: Option<Range<usize>>,
}

impl ReachableEntries {
    /// Returns the index of an entry; `None` if the entry was not reached.
    pub(super) fn place(&self, id: u64) -> Option<usize> {
        if self.seen.is_empty() {
            return self.reached.iter().position(|reached| reached.id == id);
        }
        self.seen.get(&id).copied()
    }

    /// Adds an entry that was not reached before. `before` is the index of the previous entry on the chain.
    pub(super) fn add(&mut self, id: u64, before: usize) {
        self.reached.push(ReachedEntry { id, before, ends: None });
        if self.reached.len() == MET_HASHED {
            self.seen.extend(self.reached.iter().zip(0..).map(|(reached, place)| (reached.id, place)));
        } else if self.reached.len() > MET_HASHED {
            self.seen.insert(id, self.reached.len() - 1);
        }
    }

    /// Counts the links of an entry in a map. If there are few links, caches the entries at their ends in `ends` and
    /// also returns their range.
    pub(super) fn count(
        &mut self,
        hops: &ChainLinks,
        read: &Read,
        map: MapId,
        id: u64,
    ) -> Result<(u64, Option<Range<usize>>)> {
        let (mut count, start) = (0, self.ends.len());
        for attribute in hops.attributes.iter() {
            let mut cursor = read.ids(map, &link_key(EntryId(id), *attribute))?;
            let own = cursor.estimate();
            count += own;
            if own > 0 && count <= FEW_LINKS {
                cursor.next_block(&mut self.ends, usize::MAX)?;
                self.attributes.resize(self.ends.len(), *attribute);
            }
        }
        if count > FEW_LINKS {
            self.ends.truncate(start);
            self.attributes.truncate(start);
            return Ok((count, None));
        }
        Ok((count, Some(start..self.ends.len())))
    }

    /// Returns the cached ends in a range, each with the attribute of its link.
    pub(super) fn cached_ends(&self, ends: Range<usize>) -> impl Iterator<Item = (u64, AttrId)> {
        let attributes = self.attributes.get(ends.clone()).unwrap_or_default();
        self.ends.get(ends).unwrap_or_default().iter().copied().zip(attributes.iter().copied())
    }
}
