//! The entries that may differ between two snapshots, read from the log once for all listening searches.
//!
//! A record names the entries that it changes. Other entries change as a consequence: entries that name a renamed or
//! deleted entry, and entries below a renamed entry. The change set groups the ids of all these entries by their
//! superiors before and after the changes. Thus a search finds its relevant entries by the id of its base. Each search
//! evaluates these entries on both snapshots itself.
//!
//! If a rename affects too many entries to report one by one, the change set contains only the renamed entry and its
//! superiors. Such a rename ends the searches whose scope it affects; other searches continue.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use foldhash::{HashSet, HashSetExt};
use ldap::{Dn, Scope};
use store::Position;

use super::scope::SearchScope;
use super::sync::{read_record, touch_all, touch_sources};
use crate::access::{EntryEffect, Sources, touches};
use crate::model::limits::{
    FOLLOWED_ENTRIES_MAX, FOLLOWED_MOVED_MAX, FOLLOWED_RECORDS_MAX, FOLLOWED_VISITS_MAX, TREE_DEPTH_MAX,
};
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::record::Change;
use crate::model::rows::{
    DANGLING, EntryId, LINKED, NAMES, children_counter, dangling_key, decode_name_row, subtree_counter,
};
use crate::snapshot::Snapshot;
use crate::snapshot::shared::SharedSnapshot;
use crate::tree::{TreeState, damaged_row, node};

type Result<T> = std::result::Result<T, OperationError>;

/// Entries that may differ between two snapshots.
pub struct ChangeSet {
    /// Snapshot before the changes.
    pub(crate) before: Arc<SharedSnapshot>,
    /// Snapshot after the changes.
    pub(crate) after: Arc<SharedSnapshot>,
    /// Whether the set is complete. If it is not, every listening search ends.
    pub(crate) is_whole: bool,
    /// Whether the settings have changed in a way that affects what requesters may read.
    pub(crate) has_other_rules: bool,
    /// Whether an alias may have been added since `before`.
    pub(crate) has_aliases: bool,
    /// The sources of effective rights that the log records affect; `None` if any rights may have changed.
    touches: Option<std::collections::HashSet<EntryEffect, RandomState>>,
    /// Deleted entries.
    deleted: HashSet<u64>,
    /// Entries that were themselves renamed or moved.
    moved: HashSet<u64>,
    /// Entries that may have changed, in the order in which they are reported: entries below a moved entry follow their
    /// superior.
    changed: Vec<u64>,
    /// Depth of each entry below a moved entry, counted from the moved entry. Other changed entries are not included.
    depths: HashMap<u64, u32, RandomState>,
    /// For each superior that an entry has before or after the changes, the indexes in `changed` of the entries below
    /// that superior; `None` if not computed.
    below: Option<HashMap<u64, Vec<u32>, RandomState>>,
    /// Moves that affect too many entries to report one by one.
    wide: Vec<WideMove>,
}

/// A move that affects too many entries to report one by one.
struct WideMove {
    top: EntryId,
    /// Superiors of the moved entry, before and after the move.
    superiors: [Vec<EntryId>; 2],
}

impl ChangeSet {
    /// Returns a change set whose changes are unknown, so that it ends all searches.
    fn that_ends_all(before: Arc<SharedSnapshot>, after: Arc<SharedSnapshot>) -> ChangeSet {
        ChangeSet {
            before,
            after,
            is_whole: false,
            has_other_rules: false,
            has_aliases: false,
            touches: None,
            deleted: HashSet::new(),
            moved: HashSet::new(),
            changed: Vec::new(),
            depths: HashMap::default(),
            below: None,
            wide: Vec::new(),
        }
    }

    /// Returns true if effective rights with these sources may have changed.
    pub(crate) fn touches(&self, sources: &Sources) -> bool {
        sources.are_touched_by(self.touches.as_ref())
    }

    /// Returns true if the entry `id` is reported after the entry `other`.
    pub(crate) fn is_later(&self, id: u64, other: u64) -> bool {
        self.order_of(id) > self.order_of(other)
    }

    fn order_of(&self, id: u64) -> (u32, u64) {
        (self.depths.get(&id).copied().unwrap_or(0), id)
    }

    /// Returns the changed entries and their superiors: the possible bases of searches that the set affects.
    pub(crate) fn places(&self) -> impl Iterator<Item = u64> + '_ {
        let containers = self.below.iter().flat_map(|below| below.keys().copied());
        containers.chain(self.changed.iter().copied())
    }

    /// Returns true if the set may affect searches whose base is not one of the [`places`](ChangeSet::places).
    pub(crate) fn concerns_any_base(&self) -> bool {
        !self.is_whole || self.has_other_rules || !self.wide.is_empty()
    }

    /// Returns the changed entry at index `place` among the changed entries that a search of this scope may have to
    /// report; `None` after the last. The base comes first. The other entries follow in the order of reporting.
    pub(crate) fn changed_in(&self, scope: &SearchScope, place: usize) -> Option<u64> {
        let Some(below) = &self.below else { return self.changed.get(place).copied() };
        let base = scope.base.0;
        let order = self.order_of(base);
        let has_base = self.changed.binary_search_by_key(&order, |id| self.order_of(*id)).is_ok();
        if has_base && place == 0 {
            return Some(base);
        }
        if scope.kind == Scope::BaseObject {
            return None;
        }
        let found = below.get(&base)?.get(place - usize::from(has_base))?;
        self.changed.get(*found as usize).copied()
    }

    /// Returns true if the base of a search, or an entry above it, was deleted or renamed.
    pub(crate) fn loses(&self, base: EntryId, before: &Snapshot) -> Result<bool> {
        if base == EntryId::ROOT || (self.deleted.is_empty() && self.moved.is_empty()) {
            return Ok(false);
        }
        if self.deleted.contains(&base.0) || self.moved.contains(&base.0) {
            return Ok(true);
        }
        let Some(row) = node(before.state().read, base)? else { return Ok(true) };
        Ok(superiors(before, row.parent)?.iter().any(|above| self.moved.contains(&above.0)))
    }

    /// Returns true if a move into, out of or within the scope affects too many entries to report one by one.
    pub(crate) fn is_too_wide(&self, scope: &SearchScope) -> bool {
        let is_touched = |wide: &WideMove| match scope.kind {
            Scope::BaseObject => false,
            // The moved entry itself is reported as a changed entry. The entries below the moved entry are in scope
            // only if the moved entry is the base.
            Scope::SingleLevel => wide.top == scope.base,
            Scope::WholeSubtree | Scope::Subordinate => {
                wide.top == scope.base || wide.superiors.iter().any(|above| above.contains(&scope.base))
            }
        };
        self.wide.iter().any(is_touched)
    }
}

/// Builds a change set, slice by slice.
pub(crate) struct ChangeSetBuilder {
    set: ChangeSet,
    next: Position,
    /// Effects that have not been examined yet, of log records already read.
    work: Vec<Work>,
    changed: HashSet<u64>,
    /// Number of entries visited below moved entries. Each is visited to find the entries that name it.
    visited: usize,
    /// Whether the log was read to the end.
    is_read: bool,
    /// Number of changed entries already grouped by their superiors.
    placed: usize,
}

enum Work {
    /// An entry with this DN was deleted.
    Gone(EntryId, String),
    /// An entry with this DN was added, or an entry that had this DN was renamed.
    Named(EntryId, String),
    /// The entries below a container have new DNs. If `is_reported`, each of these entries is reported.
    Below { container: EntryId, depth: u32, is_reported: bool },
}

impl ChangeSetBuilder {
    /// Begins a change set. Unless `has_places`, the entries are not grouped by superiors, and every search examines
    /// the whole set.
    pub(crate) fn begin(
        before: Arc<SharedSnapshot>,
        after: Arc<SharedSnapshot>,
        has_places: bool,
    ) -> Result<ChangeSetBuilder> {
        let (is_whole, has_other_rules, is_known, next) = {
            let (before, after) = (before.lock(), after.lock());
            let next = before.position()? + 1;
            let schema = |snapshot: &Snapshot| snapshot.state().catalog.schema_version();
            let known = |snapshot: &Snapshot| snapshot.state().catalog.attributes().len();
            let is_whole = log_covers(next, after.state())? && schema(&before) == schema(&after);
            // If the numbers of known attributes differ, any rights may have changed, because a rule may depend on a
            // new attribute.
            let is_known = known(&before) == known(&after);
            (is_whole, !after.has_reading_rules_of(&before), is_known, next)
        };
        let set = ChangeSet {
            is_whole,
            has_other_rules,
            touches: is_known.then(Default::default),
            below: has_places.then(HashMap::default),
            ..ChangeSet::that_ends_all(before, after)
        };
        Ok(ChangeSetBuilder {
            set,
            next,
            work: Vec::new(),
            changed: HashSet::new(),
            visited: 0,
            is_read: !is_whole,
            placed: 0,
        })
    }

    /// Returns the memory that the builder uses, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<ChangeSetBuilder>()
            + (self.changed.capacity() + self.set.changed.capacity()) * 2 * size_of::<u64>()
    }

    /// Continues as long as `budget` lasts. Returns true when the change set is complete. The snapshots must be those
    /// of [`begin`](ChangeSetBuilder::begin).
    pub(crate) fn step(&mut self, before: &Snapshot, after: &Snapshot, budget: &mut u32) -> Result<bool> {
        while !self.is_read {
            if *budget == 0 {
                return Ok(false);
            }
            *budget -= 1;
            if let Some(work) = self.work.pop() {
                self.examine(work, before, after)?;
            } else if !self.read_record(before, after)? {
                self.end_reading();
            }
            if self.changed.len() > FOLLOWED_ENTRIES_MAX || self.visited > FOLLOWED_VISITS_MAX {
                self.set.is_whole = false;
            }
            if !self.set.is_whole {
                self.is_read = true;
            }
        }
        if !self.set.is_whole {
            self.set.changed = Vec::new();
            return Ok(true);
        }
        while self.set.below.is_some() && self.placed < self.set.changed.len() {
            if *budget == 0 {
                return Ok(false);
            }
            *budget -= 1;
            self.place(before, after)?;
        }
        Ok(true)
    }

    /// Returns the snapshots of [`begin`](ChangeSetBuilder::begin).
    pub(crate) fn snapshots(&self) -> (Arc<SharedSnapshot>, Arc<SharedSnapshot>) {
        (Arc::clone(&self.set.before), Arc::clone(&self.set.after))
    }

    /// Returns the complete change set. Leaves a change set that ends all searches.
    pub(crate) fn take_set(&mut self) -> ChangeSet {
        let (before, after) = self.snapshots();
        std::mem::replace(&mut self.set, ChangeSet::that_ends_all(before, after))
    }

    /// Turns the change set into a set that ends all searches, because the changes cannot be determined.
    pub(crate) fn give_up(&mut self) {
        (self.set.is_whole, self.is_read) = (false, true);
    }

    fn end_reading(&mut self) {
        self.is_read = true;
        let mut changed: Vec<u64> = std::mem::take(&mut self.changed).into_iter().collect();
        changed.sort_unstable_by_key(|id| self.set.order_of(*id));
        self.set.changed = changed;
    }

    /// Reads the next record of the log. Returns false if there is none.
    fn read_record(&mut self, before: &Snapshot, after: &Snapshot) -> Result<bool> {
        let now = after.state();
        let Some(found) = now.read.log_records(self.next).next() else { return Ok(false) };
        let (position, bytes) = found?;
        let record = read_record(position, bytes)?;
        self.next = position + 1;
        match (touches(&record), &mut self.set.touches) {
            (Some(touched), Some(all)) => all.extend(touched),
            (None, all) => *all = None,
            (_, None) => {}
        }
        match record.change {
            // These records add no changed entries. Changes of settings are found by comparing the two snapshots, and
            // the entry of a new naming context has a record of its own.
            Change::Settings(_)
            | Change::Suffix { .. }
            | Change::Administrator { .. }
            | Change::Joins(_)
            | Change::Links(_)
            | Change::Purge { .. } => {}
            Change::Modify(modify) => {
                self.set.has_aliases |= modify.flags.is_alias();
                self.changed.insert(modify.id.0);
            }
            Change::Add(add) => {
                self.set.has_aliases |= add.flags.is_alias();
                self.work.push(Work::Named(add.id, add.dn));
            }
            Change::Undelete(undelete) => {
                for id in undelete.entries {
                    // If the entry no longer exists, a later record reports its deletion.
                    if let (Some(row), Some(dn)) = (node(now.read, id)?, now.dn(id)?) {
                        self.set.has_aliases |= row.flags.is_alias();
                        self.work.push(Work::Named(id, dn));
                    }
                }
            }
            Change::Delete(delete) => self.work.push(Work::Gone(delete.id, delete.dn)),
            Change::DeleteTree(tree) => {
                self.work.extend(tree.entries().into_iter().map(|(id, dn)| Work::Gone(id, dn)));
            }
            Change::ModifyDn(rename) => {
                self.set.moved.insert(rename.id.0);
                self.set.has_aliases |= node(now.read, rename.id)?.is_some_and(|row| row.flags.is_alias());
                self.add_move(rename.id, before, after)?;
                self.work.push(Work::Named(rename.id, rename.old_dn));
            }
        }
        Ok(true)
    }

    /// Adds the effects of a rename or move of the entry `top` on the entries below `top`. An entry that another change
    /// moved out of that subtree has its own record.
    fn add_move(&mut self, top: EntryId, before: &Snapshot, after: &Snapshot) -> Result<()> {
        let now = after.state();
        let count = now.read.count(&subtree_counter(top))?;
        if count <= 0 {
            return Ok(());
        }
        let is_reported = count <= FOLLOWED_MOVED_MAX as i64;
        if !is_reported {
            let above = |snapshot: &Snapshot| match node(snapshot.state().read, top)? {
                Some(row) => superiors(snapshot, row.parent),
                None => Ok(Vec::new()),
            };
            self.set.wide.push(WideMove { top, superiors: [above(before)?, above(after)?] });
        }
        if is_reported || has_names(before.state())? || has_names(now)? {
            self.work.push(Work::Below { container: top, depth: 1, is_reported });
        }
        Ok(())
    }

    fn examine(&mut self, work: Work, before: &Snapshot, after: &Snapshot) -> Result<()> {
        let (then, now) = (before.state(), after.state());
        match work {
            Work::Gone(id, dn) => {
                self.set.deleted.insert(id.0);
                touch_sources(then, id, (&mut self.changed, FOLLOWED_ENTRIES_MAX))?;
                self.changed.insert(id.0);
                touch_text(then, &dn, &mut self.changed)
            }
            // Other entries may have values with this DN as text. If an entry with the DN was added, the text becomes a
            // link. If the entry was renamed or deleted, the text changes or is removed.
            Work::Named(id, dn) => {
                touch_sources(now, id, (&mut self.changed, FOLLOWED_ENTRIES_MAX))?;
                self.changed.insert(id.0);
                touch_text(then, &dn, &mut self.changed)
            }
            Work::Below { container, depth, is_reported } => {
                self.examine_below(container, (depth, is_reported), then, now)
            }
        }
    }

    fn examine_below(
        &mut self,
        container: EntryId,
        (depth, is_reported): (u32, bool),
        then: TreeState<'_>,
        now: TreeState<'_>,
    ) -> Result<()> {
        for row in now.read.scan_below(NAMES, &container.0.to_be_bytes()) {
            let (_, value) = row?;
            let (id, _) = decode_name_row(value).ok_or_else(|| damaged_row("names", container))?;
            self.visited += 1;
            if self.visited > FOLLOWED_VISITS_MAX || self.changed.len() > FOLLOWED_ENTRIES_MAX {
                return Ok(());
            }
            touch_sources(now, id, (&mut self.changed, FOLLOWED_ENTRIES_MAX))?;
            if has_text(then)?
                && let Some(dn) = then.dn(id)?
            {
                touch_text(then, &dn, &mut self.changed)?;
            }
            if is_reported {
                self.changed.insert(id.0);
                let known = self.set.depths.entry(id.0).or_default();
                *known = depth.max(*known);
            }
            if now.read.count(&children_counter(id))? > 0 {
                self.work.push(Work::Below { container: id, depth: depth.saturating_add(1), is_reported });
            }
        }
        Ok(())
    }

    /// Adds the next changed entry to the groups of its superiors before and after the changes.
    fn place(&mut self, before: &Snapshot, after: &Snapshot) -> Result<()> {
        let (Some(id), Some(below)) = (self.set.changed.get(self.placed), &mut self.set.below) else {
            return Ok(());
        };
        let place = u32::try_from(self.placed).unwrap_or(u32::MAX);
        self.placed += 1;
        for snapshot in [before, after] {
            let Some(row) = node(snapshot.state().read, EntryId(*id))? else { continue };
            for container in superiors(snapshot, row.parent)? {
                let places = below.entry(container.0).or_default();
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
        }
        Ok(())
    }
}

/// Returns the entry `container` and its superiors, up to the root.
fn superiors(snapshot: &Snapshot, container: EntryId) -> Result<Vec<EntryId>> {
    let (state, names) = (snapshot.state(), &mut *snapshot.names());
    let (mut found, mut at) = (Vec::new(), container);
    for _ in 0..TREE_DEPTH_MAX {
        found.push(at);
        if at == EntryId::ROOT {
            return Ok(found);
        }
        at = names.container(state, at)?.parent;
    }
    Err(OperationError::Damaged(format!("the parents of entry {} do not end", container.0)))
}

/// Returns true if the log contains all records from `next` on and there are not too many of them.
fn log_covers(next: Position, now: TreeState<'_>) -> Result<bool> {
    let last = now.read.position()?;
    let is_there = last < next || now.read.first_position()?.is_some_and(|first| first <= next);
    Ok(is_there && last.saturating_sub(next) < FOLLOWED_RECORDS_MAX)
}

/// Returns true if any entry names another, by a link or as text.
fn has_names(state: TreeState<'_>) -> Result<bool> {
    Ok(state.read.row_count(LINKED)? > 0 || has_text(state)?)
}

/// Returns true if any entry has a dangling link, stored as text, to a DN that an added entry could have.
fn has_text(state: TreeState<'_>) -> Result<bool> {
    Ok(state.read.row_count(DANGLING)? > 0)
}

/// Adds the entries that have a value with this DN as text.
fn touch_text(state: TreeState<'_>, dn: &str, touched: &mut HashSet<u64>) -> Result<()> {
    if !has_text(state)? {
        return Ok(());
    }
    let name = parsed(state, dn)?;
    touch_all(state, DANGLING, (touched, FOLLOWED_ENTRIES_MAX), |attribute| {
        dangling_key(attribute, &name.key)
    })
}

/// Parses a DN of the directory into its normal form.
pub(crate) fn parsed(state: TreeState<'_>, dn: &str) -> Result<NormalName> {
    let damaged = |error: ldap::DnError| OperationError::Damaged(format!("DN {dn:?}: {error}"));
    Ok(NormalName::of(&Dn::parse(dn).map_err(damaged)?, &state.catalog.schema))
}
