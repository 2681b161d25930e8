//! A search in the tree. It sends the references to other servers first, and then the results, in ascending id unless
//! they are sorted. Either one thread scans the candidates, or several threads scan parts of them. The limits of the
//! search apply in both cases.

mod follow;
mod sorted;

use std::sync::Arc;

use ldap::response::encode_search_reference;
use ldap::{Controls, ResultCode, Scope};

use super::SearchInputs;
use super::attribute_stream::Room;
use super::budget::{Budget, Clock};
use super::change_set::ChangeSet;
use super::effective::RightsReport;
use super::entry_controls::EntryControls;
use super::explain::{self, StepTimes};
use super::feed::{Feed, ListenerKey};
use super::parts::{PartScanner, Piece, PieceEnd};
use super::plan::Plan;
use super::result::ResultWriter;
use super::scanner::{Reached, Scanner, Sink};
use super::scope::{OtherServer, SearchScope};
use super::selection::Selection;
use super::sorting::Sorting;
use super::stream::EntryStream;
use super::value_ranges::ValueRanges;
use crate::access::EffectiveRights;
use crate::catalog::VirtualAttribute;
use crate::filter::{Candidate, MemberUse, Term};
use crate::model::limits::{PAGE_NODES_SHARE_MIN, PAGE_SCAN_SHARE_MIN, STREAMED_PER_ENTRY};
use crate::model::outcome::OperationError;
use crate::model::rows::{ENTRIES, EntryId, NODES, children_counter, subtree_counter};
use crate::read::identity::is_client_of;
use crate::snapshot::Snapshot;
use crate::snapshot::name_cache::NameCache;
use crate::tree::{TreeState, node};
use follow::Follow;

/// A search in the tree.
pub(super) struct TreeSearch {
    pub(super) scanner: Scanner,
    /// Referrals in scope that are still to be sent, before the results. The last referral is sent next.
    referrals: Vec<OtherServer>,
    /// Lowest id that is not examined yet. At the end of a full page, this is the id of the first result that did not
    /// fit.
    pub(super) next_id: u64,
    /// Whether a scan replaces the chosen plan, because a scan costs less for pages.
    pub(super) scans_for_page: bool,
    /// Whether other threads scan the candidates in parts.
    is_split: bool,
    /// The base as the client wrote it; set if access rules restrict the requester and no entry below the base is
    /// known to be visible. While this field is set, a hidden base is reported as missing.
    base_text: Option<Box<str>>,
    /// A large result that is sent as a stream before the search continues.
    stream: Option<Box<EntryStream>>,
    /// Sends later changes; `None` if the search ends with its results, as most do.
    follow: Option<Box<Follow>>,
    /// Sorts the results; `None` if they are sent in ascending id.
    sorting: Option<Box<Sorting>>,
    pub(super) tally: Tally,
    /// Whether the searchResDone explains the plan.
    pub(super) explains: bool,
    pub(super) clock: Option<Clock>,
    pub(super) times: StepTimes,
}

/// Counts of a search, and their limits.
#[derive(Debug)]
pub(super) struct Tally {
    /// Maximum number of entries to return; 0 for no limit.
    size_limit: u32,
    /// Maximum number of candidates that may be examined without being results.
    rejected_max: u64,
    /// Whether access rules restrict the requester, so that refusals contain no numbers.
    is_bound: bool,
    pub(super) entries_sent: u64,
    /// Number of candidates examined.
    pub(super) examined_count: u64,
    /// Number of examined candidates that are not results.
    rejected_count: u64,
}

/// Returns the compiled filter: `filter` if it was compiled ahead, otherwise the filter of the request. If the search
/// returns deleted entries, all DNs in the filter have normal forms.
fn prepared_filter(
    inputs: &SearchInputs<'_>,
    filter: Option<Result<Term, OperationError>>,
) -> Result<Term, OperationError> {
    let SearchInputs { snapshot, rights, request, controls, .. } = *inputs;
    let mut filter = filter.unwrap_or_else(|| Term::prepared(snapshot, rights.shown(), request.filter))?;
    if controls.shows_deleted().is_some() {
        filter.complete_names(&snapshot.state().catalog.schema);
    }
    Ok(filter)
}

impl TreeSearch {
    pub(super) fn start(
        inputs: &SearchInputs<'_>,
        base: EntryId,
        scans_for_page: bool,
        filter: Option<Result<Term, OperationError>>,
    ) -> Result<Box<TreeSearch>, OperationError> {
        let SearchInputs { snapshot, rights, id, request, controls, .. } = *inputs;
        let mut scope = SearchScope::of(base, request, controls);
        let state = scope.seen_in(snapshot.state());
        let referrals = scope.prepare(snapshot, rights)?;
        let filter = prepared_filter(inputs, filter)?;
        let mut selection = Selection::of(request.attributes, state.catalog, rights.shown());
        let clients = &state.settings.general.member_of_clients;
        if !clients.is_empty() && selection.is_all_user() && is_client_of(snapshot, inputs.context, clients) {
            selection.add_member_of(state.catalog);
        }
        if controls.count().is_some() {
            selection.clear();
        } else if let Some(origin) = controls.origin() {
            selection.keep_origin(origin);
        }
        let ranges = match selection.unknown.is_empty() {
            true => None,
            false => ValueRanges::of(&mut selection, state.catalog, rights),
        };
        let plan = if scans_for_page {
            Plan::scan(state.read.row_count(NODES)?)
        } else {
            let plan = Plan::choose(state, &scope, &filter)?;
            if !controls.persistent().is_some_and(|asked| asked.changes_only) {
                check_cost(state, rights, &filter, &plan)?;
            }
            plan
        };
        // The processor fetches these rows while the search is being built.
        for candidate in plan.first_few() {
            state.read.prefetch(NODES, *candidate);
            if selection.selects_stored() {
                state.read.prefetch(ENTRIES, *candidate);
            }
        }
        let groups =
            if selection.virtual_attributes.is_empty() { None } else { rights.groups(MemberUse::Read) };
        let is_based = rights.is_restricted() && base != EntryId::ROOT;
        let base_text = is_based.then(|| request.base_object.into());
        let own_rights = rights.clone();
        // The search is built in its box, because each move would copy about a kilobyte.
        let mut search = Box::write(
            Box::new_uninit(),
            TreeSearch {
                scanner: Scanner::new(
                    snapshot,
                    own_rights,
                    filter,
                    scope,
                    plan,
                    ResultWriter::new(id, request.types_only, selection, groups)
                        .with(ranges, inputs.context.now),
                ),
                referrals,
                next_id: 0,
                scans_for_page,
                is_split: false,
                base_text,
                stream: None,
                follow: None,
                sorting: None,
                tally: Tally {
                    size_limit: rights.size_limit(request.size_limit),
                    rejected_max: rights.examined_max(),
                    is_bound: rights.is_restricted(),
                    entries_sent: 0,
                    examined_count: 0,
                    rejected_count: 0,
                },
                explains: controls.explain,
                clock: None,
                times: StepTimes::default(),
            },
        );
        if controls.may_add_response_controls() {
            search.add_controls(inputs)?;
        }
        Ok(search)
    }

    /// Prepares features that few requests use: the effective rights control, the response controls of each result,
    /// and the sending of later changes.
    #[cold]
    #[inline(never)]
    fn add_controls(&mut self, inputs: &SearchInputs<'_>) -> Result<(), OperationError> {
        let Scanner { writer, scope, entry_controls, .. } = &mut self.scanner;
        if let Some(asked) = inputs.controls.effective_rights() {
            writer.effective = Some(Box::new(RightsReport::of(inputs, asked)?));
        }
        if inputs.controls.sync().is_some() {
            // Synchronization sends whole attributes, not ranges of values.
            writer.ranges = None;
            writer
                .selection
                .virtual_attributes
                .retain(|(attribute, _)| *attribute == VirtualAttribute::StructuralObjectClass);
        }
        if !inputs.controls.listens() {
            *entry_controls = EntryControls::of(inputs)?;
            return Ok(());
        }
        let follow = Follow::begin(inputs, scope)?;
        if let Some(shared) = follow.client_state() {
            let inputs = SearchInputs { snapshot: &shared.lock(), rights: follow.rights(), ..*inputs };
            *entry_controls = EntryControls::of(&inputs)?;
        }
        self.scanner.permit(follow.rights());
        self.follow = Some(follow);
        Ok(())
    }

    /// Limits the number of results.
    pub(super) fn limit_to(&mut self, size_limit: u32) {
        self.tally.size_limit = size_limit;
    }

    /// Limits the search to a page of up to `room` entries, starting at the id `from`. The first page includes the
    /// references to other servers.
    pub(super) fn turn_to(
        &mut self,
        from: u64,
        room: u32,
        state: TreeState<'_>,
    ) -> Result<(), OperationError> {
        self.next_id = from;
        if from > 0 {
            self.begins_later();
        }
        self.tally.size_limit = room;
        let scanner = &mut self.scanner;
        if !self.scans_for_page {
            let is_decided_by_nodes = scanner.plan.is_by_place && !scanner.by_rows;
            let share_min = if is_decided_by_nodes { PAGE_NODES_SHARE_MIN } else { PAGE_SCAN_SHARE_MIN };
            let entry_count = state.read.row_count(NODES)?;
            if scanner.plan.is_better_scanned(u64::from(room), entry_count, share_min) {
                scanner.plan = Plan::scan(entry_count);
                self.scans_for_page = true;
            }
        }
        if self.scans_for_page {
            // The scan rejects more candidates than the plan that it replaces, so the limit on rejected candidates does
            // not apply to the scan.
            self.tally.rejected_max = u64::MAX;
        }
        Ok(())
    }

    /// Prepares a page after the first. The first page has already sent the references and checked that the base is
    /// visible.
    fn begins_later(&mut self) {
        self.referrals.clear();
        self.base_text = None;
    }

    /// Returns an estimate of the number of results of the whole search. Returns 0 if the number cannot be estimated
    /// without examining candidates, or if access rules restrict the requester.
    pub(super) fn estimate(&self, snapshot: &Snapshot) -> Result<u64, OperationError> {
        let Scanner { filter, plan, scope, rights, .. } = &self.scanner;
        // An estimate would also count entries that the requester may not see.
        if rights.is_restricted() {
            return Ok(0);
        }
        if explain::is_unindexed(filter, plan) || !scope.aliased.is_empty() || !scope.extras.is_empty() {
            return Ok(0);
        }
        let count = |counter: &[u8]| Ok::<_, OperationError>(snapshot.state().read.count(counter)? as u64);
        let in_scope = match scope.kind {
            Scope::BaseObject => 1,
            Scope::SingleLevel => count(&children_counter(scope.base))?,
            Scope::Subordinate => count(&subtree_counter(scope.base))?,
            Scope::WholeSubtree => {
                count(&subtree_counter(scope.base))? + u64::from(scope.base != EntryId::ROOT)
            }
        };
        Ok(in_scope.min(plan.candidate_count))
    }

    /// Returns the memory that the search uses, without itself, in bytes.
    pub(super) fn heap_bytes(&mut self) -> usize {
        let stream = self.stream.as_ref().map_or(0, |stream| stream.heap_bytes());
        let sorting = self.sorting.as_ref().map_or(0, |sorting| size_of::<Sorting>() + sorting.heap_bytes());
        let follow = self.follow.as_mut().map_or(0, |follow| follow.memory_bytes());
        self.scanner.heap_bytes()
            + self.referrals.capacity() * size_of::<OtherServer>()
            + self.referrals.iter().map(OtherServer::heap_bytes).sum::<usize>()
            + stream
            + sorting
            + follow
    }

    fn now(&self) -> u64 {
        self.clock.as_ref().map_or(0, |clock| clock())
    }

    /// Runs one slice and records its time.
    pub(super) fn run_measured(
        &mut self,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>, OperationError> {
        if self.follow.is_some() {
            return self.run_followed(snapshot, out, budget);
        }
        let (start, gathered) = (self.now(), self.times.gather);
        let result = self.run(snapshot, out, budget);
        let took = self.now().saturating_sub(start);
        self.times.examine += took.saturating_sub(self.times.gather - gathered);
        self.times.slices += 1;
        result
    }

    /// Runs one slice of a search that sends later changes.
    #[cold]
    #[inline(never)]
    fn run_followed(
        &mut self,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>, OperationError> {
        let Some(mut follow) = self.follow.take() else { return Ok(None) };
        let result = follow.run(self, snapshot, out, budget);
        self.follow = Some(follow);
        result
    }

    /// Returns true if the client is up to date and the search waits for another change.
    pub(super) fn waits(&self) -> bool {
        self.follow.as_ref().is_some_and(|follow| follow.waits)
    }

    /// Registers the search with a feed, if the search listens for changes.
    pub(super) fn sit(&mut self, feed: &Feed, key: ListenerKey) -> Result<(), OperationError> {
        let scope = &self.scanner.scope;
        self.follow.as_mut().map_or(Ok(()), |follow| follow.sit(feed, key, scope))
    }

    /// Accepts changes. The next slice sends them.
    pub(super) fn take_changes(&mut self, set: Arc<ChangeSet>) {
        if let Some(follow) = &mut self.follow {
            follow.take(set);
        }
    }

    /// Returns true if the initial results are sent and changes follow.
    pub(super) fn is_listening(&self) -> bool {
        self.follow.as_ref().is_some_and(|follow| follow.has_started())
    }

    /// Lifts the limits on results. These limits apply only to the initial results. All initial results are sent now.
    pub(super) fn has_sent_all(&mut self) {
        (self.tally.size_limit, self.base_text) = (0, None);
        self.scanner.examine_single_entries();
    }

    /// Continues the stream of a large result, if there is one.
    pub(super) fn run_stream(&mut self, out: &mut Vec<u8>, budget: &Budget) -> Result<(), OperationError> {
        if let Some(stream) = &mut self.stream {
            let values = (budget.entries_examined_max.max(1) as usize).saturating_mul(STREAMED_PER_ENTRY);
            let mut room = Room { values, out_end: out.len().saturating_add(budget.out_bytes_max) };
            if stream.step(&self.scanner.writer, out, &mut room)? {
                self.stream = None;
            }
        }
        Ok(())
    }

    /// Runs one slice. Returns the result code after the last slice.
    fn run(
        &mut self,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
        budget: &Budget,
    ) -> Result<Option<ResultCode>, OperationError> {
        if self.stream.is_some() {
            self.run_stream(out, budget)?;
            return Ok(None);
        }
        if self.is_split {
            // Other threads scan the remaining candidates, so there is nothing to do here.
            return Ok(None);
        }
        let state = snapshot.state();
        self.scanner.catch_up(snapshot)?;
        let out_start = out.len();
        let mut budget = Budget { entries_examined_max: budget.entries_examined_max.max(1), ..*budget };
        while let Some(referral) = self.referrals.pop() {
            match referral {
                OtherServer::Below(id) => self.put_reference(out, state, &mut snapshot.names(), id)?,
                OtherServer::Aliased(urls) => {
                    self.base_text = None;
                    encode_search_reference(out, self.scanner.writer.id, &urls, Controls::NONE);
                }
            }
            budget.entries_examined_max -= 1;
            if budget.entries_examined_max == 0 || out.len() - out_start >= budget.out_bytes_max {
                return Ok(None);
            }
        }
        budget.out_bytes_max -= out.len() - out_start;
        let before = self.now();
        let is_gathered = self.scanner.gather(state, budget.entries_examined_max)?;
        self.times.gather += self.now().saturating_sub(before);
        if !is_gathered {
            return Ok(None);
        }
        if let Some(controls) = &mut self.scanner.entry_controls {
            if !controls.is_ready(state, budget.entries_examined_max)? {
                return Ok(None);
            }
            if let Some(ids) = controls.take_listed(state)? {
                self.scanner.plan = Plan::ids(ids);
            }
        }
        if self.is_sorted() {
            return self.run_sorted(snapshot, out, &budget);
        }
        let range = (self.next_id, u64::MAX);
        Ok(match self.scanner.examine(snapshot, range, &budget, out, &mut self.tally)? {
            Reached::Budget(next_id) | Reached::RangeEnd(next_id) => {
                self.next_id = next_id;
                None
            }
            Reached::Giant(id) => {
                self.next_id = id.0 + 1;
                self.begin_stream(snapshot, id)?;
                None
            }
            Reached::End => {
                self.check_base(state)?;
                Some(ResultCode::SUCCESS)
            }
            Reached::Full(next_id) => {
                self.next_id = next_id;
                Some(ResultCode::SIZE_LIMIT_EXCEEDED)
            }
        })
    }

    #[inline(never)]
    pub(super) fn begin_stream(&mut self, snapshot: &Snapshot, id: EntryId) -> Result<(), OperationError> {
        self.begin_stream_of(snapshot, id, true).map(|_| ())
    }

    /// Begins a stream for an entry. Returns false if the entry is no longer visible or, if `is_result`, no longer a
    /// result.
    pub(super) fn begin_stream_of(
        &mut self,
        snapshot: &Snapshot,
        id: EntryId,
        is_result: bool,
    ) -> Result<bool, OperationError> {
        self.stream = EntryStream::begin(snapshot, &mut self.scanner, id, is_result)?.map(Box::new);
        self.tally.entries_sent += u64::from(self.stream.is_some());
        Ok(self.stream.is_some())
    }

    pub(super) fn is_streaming(&self) -> bool {
        self.stream.is_some()
    }

    pub(super) fn is_mid_message(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.has_started())
    }

    /// Returns the number of remaining candidates according to the plan. Returns fewer if, at the current rate of
    /// results, the size limit will end the search earlier. Returns `None` for sorted, synchronizing and listening
    /// searches, while ids are gathered, and while references or a large entry are being sent.
    pub(super) fn candidates_left(&self) -> Option<u64> {
        let is_ready = self.referrals.is_empty()
            && self.scanner.plan.gathering.is_none()
            && self.stream.is_none()
            && !self.is_sorted()
            && self.follow.is_none()
            && self.scanner.sync().is_none();
        let Tally { size_limit, entries_sent, examined_count, .. } = self.tally;
        let left = self.scanner.plan.candidate_count.saturating_sub(examined_count);
        let wanted = (u64::from(size_limit) + 1).saturating_sub(entries_sent);
        is_ready.then(|| match (size_limit, entries_sent) {
            (0, _) | (_, 0) => left,
            (_, sent) => left.min(wanted.saturating_mul(examined_count) / sent),
        })
    }

    /// Returns the number of candidates according to the plan, if the search sorts or may examine many candidates for
    /// few results. Returns `None` for other searches, and when the initial results are sent. If a scan replaces the
    /// chosen plan because a scan costs less for pages, returns the number according to the chosen plan.
    pub(super) fn costly_candidates(&self) -> Option<u64> {
        let Scanner { filter, plan, .. } = &self.scanner;
        let sorts = self.is_sorted() && !self.examines_results_only();
        let is_costly = sorts || (!self.scans_for_page && explain::is_unindexed(filter, plan));
        (is_costly && !self.is_listening()).then_some(plan.candidate_count)
    }

    /// Prepares to share the remaining candidates with other threads. Returns a scanner for the other threads, and the
    /// id from which they continue.
    pub(super) fn split(&mut self) -> Option<(PartScanner, u64)> {
        self.candidates_left()?;
        self.is_split = true;
        Some((PartScanner::new(self.scanner.copy()), self.next_id))
    }

    /// Appends the results of a piece. Returns the result code after the last piece.
    pub(super) fn take(
        &mut self,
        snapshot: &Snapshot,
        piece: Piece,
        out: &mut Vec<u8>,
    ) -> Result<Option<ResultCode>, OperationError> {
        self.scanner.check_schema(snapshot)?;
        self.times.slices += 1;
        self.times.part_slices += 1;
        self.times.examine += piece.micros;
        let tally = &mut self.tally;
        let room = match tally.size_limit {
            0 => u64::MAX,
            limit => u64::from(limit).saturating_sub(tally.entries_sent),
        };
        let rejected_room = tally.rejected_max - tally.rejected_count;
        // Number of results before the candidate whose rejection exceeds the limit.
        let affordable = piece.marks.partition_point(|mark| mark.rejected_before <= rejected_room);
        let count = affordable.min(usize::try_from(room).unwrap_or(usize::MAX));
        let (sent, unsent) = piece.marks.split_at(count);
        let end = sent.last().map_or(0, |mark| mark.end);
        out.extend_from_slice(piece.results.get(..end).unwrap_or_default());
        tally.entries_sent += count as u64;
        if count < affordable
            && let Some(mark) = unsent.first()
        {
            self.next_id = mark.id.0;
            tally.examined_count += count as u64 + mark.rejected_before + 1;
            return Ok(Some(ResultCode::SIZE_LIMIT_EXCEEDED));
        }
        if piece.rejected_count > rejected_room {
            tally.examined_count += count as u64 + rejected_room + 1;
            let (state, filter) = (snapshot.state(), &self.scanner.filter);
            let counted = (!tally.is_bound).then_some(tally.examined_count);
            return Err(unindexed(state, filter, counted, tally.rejected_max));
        }
        tally.examined_count += piece.examined_count;
        tally.rejected_count += piece.rejected_count;
        if let Some(giant) = piece.giant {
            if count as u64 == room {
                self.next_id = giant.0;
                return Ok(Some(ResultCode::SIZE_LIMIT_EXCEEDED));
            }
            self.begin_stream(snapshot, giant)?;
        }
        let is_last = piece.end? == PieceEnd::Last;
        if is_last {
            self.check_base(snapshot.state())?;
        }
        Ok(is_last.then_some(ResultCode::SUCCESS))
    }

    /// Fails if the search found nothing below a base that the requester may not see.
    #[inline]
    fn check_base(&self, state: TreeState<'_>) -> Result<(), OperationError> {
        match &self.base_text {
            Some(dn) if self.tally.entries_sent == 0 => {
                self.scanner.rights.at_visible(state, self.scanner.scope.base, dn).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Returns the error to report in place of `error`. If `error` is a refusal and the search has found nothing
    /// below a base that the requester may not see, the error is noSuchObject. Otherwise it is `error`.
    #[cold]
    pub(super) fn refusal(&self, state: TreeState<'_>, error: OperationError) -> OperationError {
        if matches!(error, OperationError::Refused { .. })
            && let Err(hidden) = self.check_base(state)
        {
            return hidden;
        }
        error
    }

    /// Appends the continuation reference for a referral entry, if the entry is still a referral in scope.
    fn put_reference(
        &mut self,
        out: &mut Vec<u8>,
        state: TreeState<'_>,
        names: &mut NameCache,
        id: EntryId,
    ) -> Result<(), OperationError> {
        let Some(row) = node(state.read, id)? else { return Ok(()) };
        let scope = &mut self.scanner.scope;
        if !row.flags.is_referral()
            || !scope.contains(state, names, id, &row)?
            || !self.scanner.rights.may_browse(state, id)?
        {
            return Ok(());
        }
        let dn = state.dn(id)?.unwrap_or_default();
        let uris = crate::tree::referral::continuation(state, id, &dn, scope.kind)?;
        if !uris.is_empty() {
            // The client now knows of an entry below the base, so the base need not be reported as missing any more.
            self.base_text = None;
            let controls = self.scanner.controls_of_name(state, &Candidate::new(id, row))?;
            encode_search_reference(out, self.scanner.writer.id, &uris, controls.as_controls());
        }
        Ok(())
    }
}

impl Sink for Tally {
    fn examined(&mut self) {
        self.examined_count += 1;
    }

    fn rejected(&mut self, state: TreeState<'_>, filter: &Term) -> Result<(), OperationError> {
        self.rejected_count += 1;
        if self.rejected_count > self.rejected_max {
            let counted = (!self.is_bound).then_some(self.examined_count);
            return Err(unindexed(state, filter, counted, self.rejected_max));
        }
        Ok(())
    }

    fn accepts(&mut self) -> bool {
        self.size_limit == 0 || self.entries_sent < u64::from(self.size_limit)
    }

    fn written(&mut self, _: EntryId, _: usize) {
        self.entries_sent += 1;
    }
}

/// Refuses a search without a suitable index if the plan shows that the search would examine too many entries.
/// Otherwise the search is refused when it reaches the limit.
fn check_cost(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    filter: &Term,
    plan: &Plan,
) -> Result<(), OperationError> {
    let max = rights.examined_max();
    let is_long = plan.candidate_count > max && explain::is_unindexed(filter, plan);
    if is_long && !explain::missing(state.catalog, filter).is_empty() {
        return Err(unindexed(state, filter, (!rights.is_restricted()).then_some(plan.candidate_count), max));
    }
    Ok(())
}

/// Returns the refusal of a search that examines too many entries. `examined` is `None` if access rules restrict the
/// requester, because that number would reveal hidden entries.
fn unindexed(state: TreeState<'_>, filter: &Term, examined: Option<u64>, max: u64) -> OperationError {
    let help = explain::remedy(state.catalog, filter);
    let examined = examined.map_or("too many".to_owned(), |count| count.to_string());
    OperationError::refused(
        ResultCode::UNWILLING_TO_PERFORM,
        format!(
            "{examined} entries to look at, searches without an index may look at {max} (limits.unindexed_examined, or \
             limit.examined of the node file); {help}"
        ),
    )
}
