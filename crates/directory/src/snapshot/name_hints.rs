//! Cache from DNs to entries. Resolving a DN in the same spelling again costs one table lookup, instead of parsing,
//! normalizing, and looking up each RDN.
//!
//! The table contains no names. A DN takes eight bytes: a part of its hash, and the entry id. A cache line holds eight
//! DNs. A hit is therefore only a hint: [`Snapshot::cached_entry`](crate::snapshot::Snapshot::cached_entry) compares
//! the entry's current DN with the requested DN. The comparison needs only the entry's row in `nodes`. Every result
//! needs this row anyway. Because hints are verified, the table is never invalidated, neither when entries are renamed,
//! moved or deleted, nor when the snapshot moves. The size is limited. Names that map to the same line evict each
//! other.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use ldap::Dn;

use crate::filter::Names;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::{EntryId, NodeFlags, NodeRow};
use crate::snapshot::Snapshot;
use crate::tree::{TreeState, damaged_row, node};

/// Number of names in a line: the associativity of the cache.
const ASSOCIATIVITY: usize = 8;

/// Number of lines in the smallest table.
const LINES_MIN: usize = 64;

/// Number of bits of an entry id in a word. The other bits are a part of the hash. A directory that adds 1,000 entries
/// a second needs 34 years to exceed these ids.
const ID_BITS: u32 = 40;

/// The words of one cache line, one for each name. Names that are requested more often move to the front. The word 0 is
/// a free place.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; ASSOCIATIVITY]);

/// Table of known names.
#[derive(Debug, Default)]
pub(crate) struct NameHints {
    /// The lines. The number of lines is a power of two, or zero.
    lines: Vec<Line>,
    line_count_max: usize,
    used: usize,
    hasher: RandomState,
}

/// Hash of a DN's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameHash(u64);

impl NameHints {
    /// Returns a table of up to `bytes_max` bytes. The table starts small and grows with use.
    pub(crate) fn new(bytes_max: usize) -> NameHints {
        let line_count_max = match bytes_max / size_of::<Line>() {
            0 => 0,
            count => 1 << count.ilog2(),
        };
        NameHints { line_count_max, ..NameHints::default() }
    }

    /// Returns the hash of a DN.
    #[inline]
    pub(crate) fn hash(&self, dn: &str) -> NameHash {
        NameHash(self.hasher.hash_one(dn.as_bytes()))
    }

    /// Returns the entries that the DN with this hash may name: usually one or none.
    #[inline]
    pub(crate) fn find(&self, hash: NameHash) -> impl Iterator<Item = EntryId> + use<> {
        let line = match self.lines.len() {
            0 => Line([0; ASSOCIATIVITY]),
            count => self.lines.get(line_of(hash, count)).map_or(Line([0; ASSOCIATIVITY]), |line| *line),
        };
        let tag = tag(hash);
        let found = line.0.into_iter().filter(move |word| word & !ID_MASK == tag && word & ID_MASK != 0);
        found.map(|word| EntryId(word & ID_MASK))
    }

    /// Inserts a name, or moves it one place to the front if it is already in the table. Does nothing if the entry id
    /// has too many bits, or if the maximum size of the table is 0.
    pub(crate) fn keep(&mut self, hash: NameHash, id: EntryId) {
        if id.0 == 0 || id.0 > ID_MASK || self.line_count_max == 0 {
            return;
        }
        self.grow_if_full();
        let line = line_of(hash, self.lines.len());
        let Some(Line(words)) = self.lines.get_mut(line) else { return };
        let word = tag(hash) | id.0;
        if let Some(slot) = words.iter().position(|entry| *entry == word) {
            words.swap(slot, slot.saturating_sub(1));
            return;
        }
        let free = words.iter().position(|entry| *entry == 0);
        self.used += usize::from(free.is_some());
        // A new name replaces only the last name of a line, so that names requested once do not evict names requested
        // often.
        if let Some(slot) = words.get_mut(free.unwrap_or(ASSOCIATIVITY - 1)) {
            *slot = word;
        }
    }

    /// Enlarges the table and drops all names, if three quarters of the places are in use.
    fn grow_if_full(&mut self) {
        let count = self.lines.len();
        if (count == 0 || self.used > count * ASSOCIATIVITY / 4 * 3) && count < self.line_count_max {
            let count = (count * 4).clamp(LINES_MIN.min(self.line_count_max), self.line_count_max);
            self.lines = vec![Line([0; ASSOCIATIVITY]); count];
            self.used = 0;
        }
    }
}

const ID_MASK: u64 = (1 << ID_BITS) - 1;

/// Returns the line of a hash. `line_count` must be a power of two.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "only the low bits count")]
fn line_of(hash: NameHash, line_count: usize) -> usize {
    hash.0 as usize & (line_count - 1)
}

/// Returns the stored part of a hash. The stored part differs from the part that selects the line.
#[inline]
fn tag(hash: NameHash) -> u64 {
    hash.0 & !ID_MASK
}

impl Names for Snapshot {
    fn cached(&self, dn: &str) -> Result<Option<EntryId>, OperationError> {
        Ok(self.cached_entry(dn)?.map(|(id, _)| id))
    }

    fn keep(&self, dn: &str, id: EntryId) {
        self.keep_name(dn, id);
    }

    fn state(&self) -> TreeState<'_> {
        Snapshot::state(self)
    }
}

impl Snapshot {
    /// Returns the entry whose DN has exactly this spelling, if the DN is cached. The entry may be an alias, a referral
    /// or a subentry.
    #[inline]
    pub(crate) fn cached_entry(&self, dn: &str) -> Result<Option<(EntryId, NodeRow<'_>)>, OperationError> {
        let state = self.state();
        let names = &mut *self.names();
        let hash = names.hints.hash(dn);
        for (nth, id) in names.hints.find(hash).enumerate() {
            let Some(row) = node(state.read, id)? else { continue };
            let Some(above) = dn.as_bytes().strip_prefix(row.rdn) else { continue };
            let container = names.container(state, row.parent)?;
            let is_its_name = match (names.dn(container), above) {
                ([], above) => above.is_empty(),
                (container, [b',', above @ ..]) => above == container,
                _ => false,
            };
            if is_its_name {
                if nth > 0 {
                    names.hints.keep(hash, id);
                }
                return Ok(Some((id, row)));
            }
        }
        Ok(None)
    }

    /// Returns the entry with this DN, if the superior of the DN is cached. Only one RDN then needs a lookup. The entry
    /// may be an alias, a referral or a subentry.
    pub(crate) fn entry_below_cached(
        &self,
        dn: &Dn<'_>,
    ) -> Result<Option<(EntryId, NodeFlags)>, OperationError> {
        let Some(rdn) = dn.rdn() else { return Ok(None) };
        let Some((parent, _)) = self.names().base(dn.text_from(1)) else { return Ok(None) };
        let (state, mut normal) = (self.state(), Vec::with_capacity(64));
        if state.catalog.schema.normalize_rdn(&rdn, &mut normal).is_err() {
            return Ok(None);
        }
        let found = state.child(parent, &normal)?;
        if let Some((id, _)) = found {
            self.keep_name(dn.text(), id);
        }
        Ok(found)
    }

    /// Caches the entry that a DN names.
    pub(crate) fn keep_name(&self, dn: &str, id: EntryId) {
        let names = &mut *self.names();
        let hash = names.hints.hash(dn);
        names.hints.keep(hash, id);
    }

    /// Caches the entry that a DN names, and its superior. The entry must have been found without following an alias.
    pub(crate) fn keep_entry(&self, dn: &Dn<'_>, id: EntryId) -> Result<(), OperationError> {
        let state = self.state();
        let row = node(state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
        self.keep_name(dn.text(), id);
        let names = &mut *self.names();
        if row.parent != EntryId::ROOT {
            let flags = names.container(state, row.parent)?.flags;
            names.keep_base(dn.text_from(1), (row.parent, flags));
        }
        Ok(())
    }

    /// Returns the entry with the administrator's DN; `None` if it does not exist.
    pub(crate) fn administrator_entry(&self) -> Result<Option<EntryId>, OperationError> {
        let state = self.state();
        if let Some((dn, entry)) = &self.names().administrator
            && **dn == *state.settings.node.admin_dn
        {
            return Ok(*entry);
        }
        let name = NormalName::of(&parse_dn(&state.settings.node.admin_dn)?, &state.catalog.schema);
        let entry = state.entry_of(&name)?;
        self.names().administrator = Some((state.settings.node.admin_dn.as_str().into(), entry));
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &NameHints, dn: &str) -> Vec<u64> {
        names.find(names.hash(dn)).map(|id| id.0).collect()
    }

    #[test]
    fn finds_names_that_were_inserted() {
        let mut names = NameHints::new(1 << 20);
        assert_eq!(found(&names, "cn=1"), []);
        for number in 1..=100 {
            names.keep(names.hash(&format!("cn={number}")), EntryId(number));
        }
        for number in 1..=100 {
            assert!(found(&names, &format!("cn={number}")).contains(&number), "{number}");
        }
        assert_eq!(found(&names, "cn=101"), []);
    }

    #[test]
    fn requested_names_move_to_the_front() {
        let mut names = NameHints::new(1 << 20);
        names.keep(names.hash("cn=7"), EntryId(7));
        // Another entry takes over the name. The new entry takes the second place of the line.
        let hash = names.hash("cn=7");
        names.keep(hash, EntryId(700));
        assert_eq!(found(&names, "cn=7"), [7, 700]);
        names.keep(hash, EntryId(700));
        assert_eq!(found(&names, "cn=7"), [700, 7]);
    }

    #[test]
    fn memory_is_bounded_and_ids_that_are_too_large_are_left_out() {
        let mut names = NameHints::new(4 * size_of::<Line>());
        for number in 1..=1_000 {
            names.keep(names.hash(&format!("cn={number}")), EntryId(number));
        }
        assert_eq!(names.lines.len(), 4);
        let mut none = NameHints::new(10);
        none.keep(none.hash("cn=1"), EntryId(1));
        assert_eq!(found(&none, "cn=1"), []);
        let mut names = NameHints::new(1 << 20);
        for id in [0, ID_MASK + 1] {
            names.keep(names.hash("cn=1"), EntryId(id));
            assert_eq!(found(&names, "cn=1"), []);
        }
    }

    #[test]
    fn the_table_grows_with_use() {
        let mut names = NameHints::new(1 << 20);
        for number in 1..=10_000 {
            names.keep(names.hash(&format!("cn={number}")), EntryId(number));
        }
        assert!(names.lines.len() > LINES_MIN);
        assert_eq!(found(&names, "cn=10000"), [10_000]);
    }
}
