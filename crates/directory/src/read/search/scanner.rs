//! A scan of candidates checks the scope, evaluates the filter and encodes the results. The same loop serves a search
//! on one thread and the parts of a search that several threads share. In a search on one thread, the [`Sink`] enforces
//! the limits; in a part, the [`Sink`] only counts.

use ldap::ControlsBuf;

use super::budget::Budget;
use super::candidates::{Candidates, ScanKind, ScannedData};
use super::dereference::Dereferencing;
use super::entry_controls::EntryControls;
use super::matched::MatchedValues;
use super::permitted::Permitted;
use super::persistent::Persistent;
use super::plan::{Implied, Plan, Source};
use super::result::ResultWriter;
use super::scope::SearchScope;
use super::sorting::Sorting;
use super::sync::Sync;
use crate::access::EffectiveRights;
use crate::filter::{Candidate, Matcher, MemberUse, Term, Truth};
use crate::model::collective::CollectiveSubentries;
use crate::model::entry::EntryRow;
use crate::model::outcome::OperationError;
use crate::model::rows::{EntryId, NodeRow};
use crate::snapshot::Snapshot;
use crate::tree::TreeState;

/// Number of index keys that cost as much as one candidate.
const KEYS_PER_ENTRY: usize = 8;

/// Number of links read that cost as much as one candidate.
const LINKS_PER_ENTRY: u64 = 8;

/// Number of filter tests that cost as much as one candidate.
const TESTS_PER_ENTRY: usize = 8;

/// Scans candidates on the snapshot that the caller passes. Copies share only the plan's ids.
pub(super) struct Scanner {
    /// Effective rights of the requester.
    pub(super) rights: EffectiveRights,
    pub(super) filter: Term,
    pub(super) scope: SearchScope,
    pub(super) plan: Plan,
    pub(super) writer: ResultWriter,
    /// Rights at the entries examined; `None` if no access rules restrict the requester.
    permitted: Option<Box<Permitted>>,
    /// Collects results instead of writing them, in the first phase of a sorted search.
    pub(super) sorting: Option<Box<Sorting>>,
    /// Controls of each result; `None` if there are none.
    pub(super) entry_controls: Option<Box<EntryControls>>,
    matcher: Matcher,
    /// Whether a scan reads entry rows and not node rows.
    pub(super) by_rows: bool,
    /// Indexes of the filter items whose attributes may come from a collective subentry, as of the plan.
    collective_items: Vec<usize>,
    /// Buffer for keys of values.
    key: Vec<u8>,
    /// Cost of a candidate in the budget. The cost grows with the number of tests in the filter.
    candidate_cost: u32,
    /// Version of the snapshot on which the plan collected the candidates.
    planned_version: u64,
    /// Version of the snapshot of the last slice.
    version: u64,
    /// Number of attributes of the catalog when the filter was prepared.
    attribute_count: usize,
    /// Whether the directory had dynamic groups when the filter was last compiled.
    has_dynamic_groups: bool,
    /// Version of the indexes when the plan was made.
    index_version: u64,
    /// Version of the schema to which the type numbers in the filter belong.
    schema_version: u64,
    /// Whether the scanner cannot make a new plan, because it examines only a part of the candidates or only entries
    /// that its caller names.
    is_part: bool,
    /// Memory of filter and selection in bytes, computed on first use.
    made_of_bytes: Option<usize>,
}

/// Counts candidates and enforces the limits.
pub(super) trait Sink {
    /// Records that a candidate is examined.
    fn examined(&mut self);

    /// Records that an examined candidate is not a result. An error ends the search.
    fn rejected(&mut self, state: TreeState<'_>, filter: &Term) -> Result<(), OperationError>;

    /// Records a result. Returns false if there is no room for the result. In that case, the search ends.
    fn accepts(&mut self) -> bool;

    /// Records that the result is written. Its message ends at offset `end` of the output.
    fn written(&mut self, id: EntryId, end: usize);
}

/// Reason why [`Scanner::examine`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// The budget is used up. Further candidates may have this id or a greater id.
    Budget(u64),
    /// The range is complete. The next candidate after it has this id.
    RangeEnd(u64),
    /// There are no more candidates in the range or after it.
    End,
    /// The sink or the sorting had no room for the result with this id.
    Full(u64),
    /// The result with this id is too large for memory. Candidates after it were not examined.
    Giant(EntryId),
}

impl Scanner {
    /// Creates a scanner. The function is inlined so that the large return value is built in its final place.
    #[inline(always)]
    pub(super) fn new(
        snapshot: &Snapshot,
        rights: EffectiveRights,
        filter: Term,
        scope: SearchScope,
        plan: Plan,
        writer: ResultWriter,
    ) -> Scanner {
        let catalog = snapshot.state().catalog;
        let permitted = rights.is_restricted().then(Box::default);
        let matcher = rights.matcher(MemberUse::Search);
        let collective_items = filter.collective_items(scope.seen_in(snapshot.state()));
        Scanner {
            permitted,
            matcher,
            rights,
            candidate_cost: u32::try_from(filter.test_count() / TESTS_PER_ENTRY).unwrap_or(u32::MAX).max(1),
            by_rows: filter.is_decided_by_rows() && collective_items.is_empty(),
            collective_items,
            key: Vec::new(),
            filter,
            scope,
            plan,
            writer,
            sorting: None,
            entry_controls: None,
            planned_version: snapshot.version(),
            version: snapshot.version(),
            attribute_count: catalog.attributes().len(),
            has_dynamic_groups: !catalog.dynamic_groups.is_empty(),
            index_version: catalog.index_version(),
            schema_version: catalog.schema_version(),
            is_part: false,
            made_of_bytes: None,
        }
    }

    /// Returns the memory that the scanner uses, without itself, in bytes. The part that does not change is computed
    /// only once.
    pub(super) fn heap_bytes(&mut self) -> usize {
        let (filter, selection) = (&self.filter, &self.writer.selection);
        let made_of = *self.made_of_bytes.get_or_insert_with(|| filter.heap_bytes() + selection.heap_bytes());
        made_of
            + self.plan.heap_bytes()
            + self.scope.heap_bytes()
            + self.writer.buffer_bytes()
            + self.matcher.heap_bytes()
            + self.entry_controls.as_ref().map_or(0, |controls| controls.memory_bytes())
            + self.key.capacity()
            + self.collective_items.capacity() * size_of::<usize>()
    }

    /// Returns the memory that each [`copy`](Scanner::copy) uses, without the shared plan, in bytes.
    pub(super) fn copy_bytes(&mut self) -> usize {
        size_of::<Scanner>() + self.heap_bytes() - self.plan.heap_bytes()
    }

    /// Returns a copy that scans the same candidates or a part of them.
    pub(super) fn copy(&mut self) -> Scanner {
        Scanner {
            rights: self.rights.clone(),
            filter: self.filter.clone(),
            scope: self.scope.clone(),
            plan: self.plan.share(),
            writer: self.writer.copy(),
            permitted: self.permitted.as_ref().map(|_| Box::default()),
            sorting: None,
            entry_controls: self.entry_controls.as_ref().map(|controls| Box::new(controls.copy())),
            matcher: self.rights.matcher(MemberUse::Search),
            by_rows: self.by_rows,
            collective_items: self.collective_items.clone(),
            key: Vec::new(),
            candidate_cost: self.candidate_cost,
            planned_version: self.planned_version,
            version: self.version,
            attribute_count: self.attribute_count,
            has_dynamic_groups: self.has_dynamic_groups,
            index_version: self.index_version,
            schema_version: self.schema_version,
            is_part: true,
            made_of_bytes: self.made_of_bytes,
        }
    }

    /// Drops the plan. From now on the search examines single entries that its caller names.
    pub(super) fn examine_single_entries(&mut self) {
        self.plan = Plan::scan(0);
        self.is_part = true;
    }

    /// Stops the gathering of ids. From now on the search examines entries that its caller names, and the plan serves
    /// only as an estimate.
    pub(super) fn examine_given_entries(&mut self) {
        self.plan.gathering = None;
        self.is_part = true;
    }

    /// Continues to gather the ids of candidates. Returns true when all are gathered, or when a scan replaces the
    /// gathering.
    pub(super) fn gather(&mut self, state: TreeState<'_>, budget: u32) -> Result<bool, OperationError> {
        self.plan.gather(state.read, budget as usize * KEYS_PER_ENTRY)
    }

    /// Returns the state in which this search reads entries: with or without collective attributes.
    #[inline]
    pub(super) fn state_of<'s>(&self, snapshot: &'s Snapshot) -> TreeState<'s> {
        self.scope.seen_in(snapshot.state())
    }

    /// Examines the candidates with ids in `from..end`, and appends results to `out`. The caller must call
    /// [`Scanner::catch_up`] first.
    pub(super) fn examine(
        &mut self,
        snapshot: &Snapshot,
        (from, end): (u64, u64),
        budget: &Budget,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<Reached, OperationError> {
        let state = self.state_of(snapshot);
        let names = &mut *snapshot.names();
        let out_end = out.len().saturating_add(budget.out_bytes_max);
        let mut left = budget.entries_examined_max.max(1);
        let candidate_cost = self.candidate_cost.saturating_add(cost_of_merging(state));
        let implied = if self.version == self.planned_version { self.plan.implied } else { Implied::Nothing };
        let source = self.plan.source();
        let scans_rows = self.by_rows && matches!(source, Source::Scan);
        let guard = if scans_rows { self.filter.guard() } else { None };
        let kind = if scans_rows { ScanKind::Rows(guard) } else { ScanKind::Nodes };
        // If the guard tests the whole filter, rows that pass it need no second test.
        let needs_rows = guard.is_none_or(|guard| guard.is_part);
        let mut candidates = Candidates::open(state, source, from, kind)?;
        let mut next_id = from;
        while let Some((id, at_hand)) = candidates.next()? {
            if id.0 >= end {
                return Ok(Reached::RangeEnd(id.0));
            }
            if left == 0 || out.len() >= out_end {
                return Ok(Reached::Budget(next_id));
            }
            left = left.saturating_sub(candidate_cost.saturating_add(cost_of_links(&mut self.matcher)));
            next_id = id.0 + 1;
            sink.examined();
            let is_refused = match &at_hand {
                ScannedData::Refusal => true,
                ScannedData::Row(bytes) if needs_rows => {
                    let row = EntryRow::unchecked(bytes);
                    let truth =
                        row.and_then(|row| self.filter.row_truth(&state.catalog.schema, &row, &mut self.key));
                    truth.is_some_and(|truth| truth != Truth::True)
                }
                ScannedData::Nothing | ScannedData::Node(_) | ScannedData::Row(_) => false,
            };
            if is_refused {
                sink.rejected(state, &self.filter)?;
                continue;
            }
            let Some(candidate) = at_hand.candidate(state, id)? else { continue };
            if !self.scope.admits(id, candidate.node.flags)
                || !self.scope.contains(state, names, id, &candidate.node)?
                || truth(&mut self.matcher, &self.filter, implied, state, &candidate)? != Truth::True
                || !is_permitted(
                    (&mut self.permitted, &self.rights),
                    state,
                    &self.filter,
                    (&mut self.matcher, &mut self.writer),
                    &candidate,
                )?
            {
                sink.rejected(state, &self.filter)?;
                continue;
            }
            if let Some(sorting) = &mut self.sorting {
                match sorting.keep(state, &candidate, self.writer.selection.rights.as_deref())? {
                    Some(cost) => {
                        left = left.saturating_sub(cost);
                        continue;
                    }
                    None => return Ok(Reached::Full(id.0)),
                }
            }
            if !sink.accepts() {
                return Ok(Reached::Full(id.0));
            }
            let is_whole = match &mut self.entry_controls {
                None => self.writer.put_entry(out, state, names, &candidate)?,
                Some(controls) => {
                    let cost = controls.put_entry(&mut self.writer, out, state, names, &candidate)?;
                    left = left.saturating_sub(cost.unwrap_or(0));
                    cost.is_some()
                }
            };
            if !is_whole {
                return Ok(Reached::Giant(id));
            }
            sink.written(id, out.len());
        }
        Ok(Reached::End)
    }

    /// Returns the filters for returned values; `None` to return all values.
    pub(super) fn matched_values(&self) -> Option<&MatchedValues> {
        self.entry_controls.as_ref()?.matched.as_ref()
    }

    /// Returns the synchronization state, if the client synchronizes.
    pub(super) fn sync(&self) -> Option<&Sync> {
        self.entry_controls.as_ref()?.sync.as_ref()
    }

    /// Returns the synchronization state, to be changed.
    pub(super) fn sync_mut(&mut self) -> Option<&mut Sync> {
        self.entry_controls.as_mut()?.sync.as_mut()
    }

    /// Returns the persistent search state, if there is one.
    pub(super) fn persistent_mut(&mut self) -> Option<&mut Persistent> {
        self.entry_controls.as_mut()?.persistent.as_mut()
    }

    /// Builds the controls that report the change of an entry or reference.
    pub(super) fn controls_of_name<'s>(
        &self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<ControlsBuf, OperationError> {
        self.entry_controls.as_ref().map_or(Ok(ControlsBuf::new()), |own| own.of_name(state, candidate))
    }

    /// Builds the controls of a result that is sent because of a change, without the dereference control.
    pub(super) fn controls_of_result<'s>(
        &self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<ControlsBuf, OperationError> {
        let selection = &self.writer.selection;
        let own = self.entry_controls.as_ref();
        own.map_or(Ok(ControlsBuf::new()), |own| own.of_result(state, candidate, selection))
    }

    /// Returns the dereference request, if there is one.
    pub(super) fn dereferencing(&self) -> Option<&Dereferencing> {
        self.entry_controls.as_ref()?.dereferencing.as_ref()
    }

    /// Writes a result with its controls. Returns false if the result is too large for memory, or if results have no
    /// controls.
    pub(super) fn put_result<'s>(
        &mut self,
        snapshot: &'s Snapshot,
        candidate: &Candidate<'s>,
        out: &mut Vec<u8>,
    ) -> Result<bool, OperationError> {
        let (state, names) = (self.state_of(snapshot), &mut *snapshot.names());
        let Some(controls) = &mut self.entry_controls else { return Ok(false) };
        Ok(controls.put_entry(&mut self.writer, out, state, names, candidate)?.is_some())
    }

    /// Returns true if the snapshot has the schema whose type numbers this search uses.
    pub(super) fn has_same_schema(&self, snapshot: &Snapshot) -> bool {
        snapshot.state().catalog.schema_version() == self.schema_version
    }

    /// Refuses to continue after a change of the schema. Such a change is so rare that the client can simply retry.
    ///
    /// # Errors
    /// busy.
    pub(super) fn check_schema(&self, snapshot: &Snapshot) -> Result<(), OperationError> {
        if self.has_same_schema(snapshot) {
            return Ok(());
        }
        let text = "the schema was changed while this search ran: ask again";
        Err(OperationError::refused(ldap::ResultCode::BUSY, text))
    }

    /// Returns true if an entry is a result. The caller must call [`Scanner::catch_up`] first.
    #[inline(never)]
    pub(super) fn passes<'s>(
        &mut self,
        snapshot: &'s Snapshot,
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        let state = self.state_of(snapshot);
        Ok(self.scope.admits(candidate.id, candidate.node.flags)
            && self.scope.contains(state, &mut snapshot.names(), candidate.id, &candidate.node)?
            && self.matcher.truth(&self.filter, state, candidate)? == Truth::True
            && is_permitted(
                (&mut self.permitted, &self.rights),
                state,
                &self.filter,
                (&mut self.matcher, &mut self.writer),
                candidate,
            )?)
    }

    /// Adapts the scanner to the snapshot, if it differs from the snapshot of the last slice.
    #[inline]
    pub(super) fn catch_up(&mut self, snapshot: &Snapshot) -> Result<(), OperationError> {
        self.check_schema(snapshot)?;
        if snapshot.version() == self.version { Ok(()) } else { self.catch_up_to(snapshot) }
    }

    /// Sets the current effective rights of the requester.
    pub(super) fn permit(&mut self, rights: &EffectiveRights) {
        self.rights = rights.clone();
        self.matcher = rights.matcher(MemberUse::Search);
        self.forget_rights();
        if self.writer.groups.is_some() {
            self.writer.groups = rights.groups(MemberUse::Read);
        }
        if let Some(ranges) = &mut self.writer.ranges {
            ranges.permit(rights);
        }
        if let Some(controls) = &mut self.entry_controls {
            controls.permit(rights);
        }
    }

    /// Drops the cached rights at entries, because they belong to another snapshot.
    fn forget_rights(&mut self) {
        if let Some(permitted) = &mut self.permitted {
            **permitted = Permitted::default();
        }
    }

    /// Returns true if the search sends a continuation reference in place of this entry, because the entry leads to
    /// another server.
    pub(super) fn is_reference(
        &mut self,
        snapshot: &Snapshot,
        id: EntryId,
        row: &NodeRow<'_>,
    ) -> Result<bool, OperationError> {
        let scope = &mut self.scope;
        Ok(row.flags.is_referral()
            && !scope.manages
            && scope.contains(snapshot.state(), &mut snapshot.names(), id, row)?)
    }

    /// Returns true if the requester may see the entry, even if it does not match the filter. In that case, prepares to
    /// write the entry's readable attributes.
    pub(super) fn permits<'s>(
        &mut self,
        state: TreeState<'s>,
        candidate: &Candidate<'s>,
    ) -> Result<bool, OperationError> {
        match &mut self.permitted {
            None => Ok(true),
            Some(permitted) => permitted.shows(state, &self.rights, candidate, &mut self.writer),
        }
    }

    #[inline(never)]
    fn catch_up_to(&mut self, snapshot: &Snapshot) -> Result<(), OperationError> {
        self.version = snapshot.version();
        let state = self.state_of(snapshot);
        self.scope.last = None;
        self.forget_rights();
        self.matcher.forget();
        self.filter.find_targets_anew(snapshot)?;
        if let Some(controls) = &mut self.entry_controls {
            controls.catch_up(state)?;
        }
        let has_dynamic_groups = !state.catalog.dynamic_groups.is_empty();
        let gets_dynamic_groups = has_dynamic_groups != self.has_dynamic_groups;
        if state.catalog.attributes().len() != self.attribute_count || gets_dynamic_groups {
            self.attribute_count = state.catalog.attributes().len();
            self.has_dynamic_groups = has_dynamic_groups;
            self.filter.find_attributes(state.catalog, self.rights.shown())?;
        }
        let collective_items = self.filter.collective_items(state);
        self.by_rows &= !gets_dynamic_groups || self.filter.is_decided_by_rows();
        // The plan must be renewed in two cases. First, an index that the plan uses may have been dropped. A dropped
        // index no longer follows changes. Second, a new collective subentry may give entries an attribute of the
        // filter. In that case, neither indexes nor stored rows show which entries match.
        if state.catalog.index_version() != self.index_version || collective_items != self.collective_items {
            self.index_version = state.catalog.index_version();
            self.by_rows = self.filter.is_decided_by_rows() && collective_items.is_empty();
            self.collective_items = collective_items;
            self.plan = if self.is_part {
                Plan::scan(self.plan.candidate_count)
            } else {
                Plan::choose(state, &self.scope, &self.filter)?
            };
            self.planned_version = self.version;
        }
        Ok(())
    }
}

/// Returns the cost of the links read since the last call, as a number of candidates.
#[inline]
fn cost_of_links(matcher: &mut Matcher) -> u32 {
    u32::try_from(matcher.take_cost() / LINKS_PER_ENTRY).unwrap_or(u32::MAX)
}

/// Returns the cost of merging collective attributes into an entry, as a number of candidates.
#[inline]
fn cost_of_merging(state: TreeState<'_>) -> u32 {
    state.collective.map_or(0, CollectiveSubentries::cost)
}

/// Returns true if access rules permit a matching candidate as a result.
#[inline]
fn is_permitted<'s>(
    (permitted, rights): (&mut Option<Box<Permitted>>, &EffectiveRights),
    state: TreeState<'s>,
    filter: &Term,
    writers: (&mut Matcher, &mut ResultWriter),
    candidate: &Candidate<'s>,
) -> Result<bool, OperationError> {
    match permitted {
        None => Ok(true),
        Some(permitted) => permitted.admits(state, rights, filter, writers, candidate),
    }
}

/// Evaluates the filter on a candidate, except for the part that every candidate matches because of the source.
#[inline]
fn truth<'s>(
    matcher: &mut Matcher,
    filter: &Term,
    implied: Implied,
    state: TreeState<'s>,
    candidate: &Candidate<'s>,
) -> Result<Truth, OperationError> {
    match (implied, filter) {
        (Implied::All, _) => Ok(Truth::True),
        (Implied::Terms(implied), Term::And(terms)) => {
            for (place, term) in terms.iter().enumerate() {
                if (place >= 64 || implied & 1 << place == 0)
                    && matcher.truth(term, state, candidate)? != Truth::True
                {
                    return Ok(Truth::False);
                }
            }
            Ok(Truth::True)
        }
        _ => matcher.truth(filter, state, candidate),
    }
}
