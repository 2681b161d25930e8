//! Search (RFC 4511 section 4.5): a state machine that owns its request and no snapshot.
//!
//! [`Search::start`] finds the base, prepares the filter and chooses a plan. [`Search::run`] runs one slice on the
//! current snapshot of the calling thread, until the budget is used up. Thus a long search never blocks a thread or
//! pins a position of the store, and any thread may run its next slice.
//!
//! Results come in ascending entry id unless the client requests another order. An entry that matches throughout is
//! returned exactly once, an entry that changes during the search at most once, and each result is consistent in
//! itself. Each slice continues after the last id of the previous slice. If the snapshot has changed between slices,
//! the search resolves the names in the filter again and verifies the candidates found before. [`Search::split`] lets
//! several threads scan the rest of a long search in parts, with the same guarantees.
//!
//! Each step is a separate type that does not refer to earlier steps:
//!
//! 1. [`Search`] checks the request and lets `base` find the base entry
//! 2. `outside` answers at once if the base is not in the tree: the root DSE, the schema, the monitor, the settings
//! 3. [`TreeSearch`] prepares the search of the tree once: `scope` decides which entries are covered, `filter` has its
//!    names resolved and its values normalized, `plan` supplies candidates, and `selection` determines the attributes
//!    to return
//! 4. `scanner` examines `candidates` in slices: `scope` and `matcher` decide which candidates are results, `result`
//!    writes most results, and `stream` writes results too large for a buffer, with an `attribute_stream`
//!
//! `sorting` holds results until they can be sent in order, and `ordered` takes results from a sort order. `usability`
//! reports for each result whether its password can be used, `paging` returns one page at a time, `parts` lets several
//! threads scan, `explain` describes the plan, and `again` compares what a search returns under different access rules.
//! `sync` reports changes since an earlier search, and `feed` reports later changes. `deleted` adds deleted entries.
//! `end` writes the searchResDone.

mod again;
mod assertion;
mod attribute_stream;
mod base;
mod budget;
mod candidates;
mod change_set;
mod count;
mod deleted;
mod dereference;
mod effective;
mod end;
mod entry_controls;
mod entry_copy;
mod explain;
mod feed;
mod matched;
mod order_traversal;
mod ordered;
mod outside;
mod paging;
mod parts;
mod permitted;
mod persistent;
mod plan;
mod result;
mod scanner;
mod scope;
mod selection;
mod shape;
mod sorting;
mod stream;
mod sync;
#[cfg(test)]
mod tests;
mod tree_search;
mod usability;
mod value_ranges;
mod window;

use std::sync::Arc;

use ldap::{MessageId, PositionToken, ResultCode, SearchRequest};

use crate::access::{EffectiveRights, RequestContext, denied};
use crate::model::outcome::{OperationError, Outcome, ServerFault};
use crate::model::rows::EntryId;
use crate::read::controls::RequestControls;
use crate::snapshot::Snapshot;
pub(crate) use again::{Extent, RequesterView, ResultDifference, SearchAgain};
pub(crate) use assertion::{check_assertion, check_assertion_in_memory, check_no_assertion};
use base::Base;
pub use budget::{Budget, Clock, Step};
pub use change_set::ChangeSet;
use count::Count;
use deleted::DeletedSearch;
pub(crate) use entry_copy::copy_of_entry;
pub use explain::{CandidateSource, ExplainedTerm, Explanation, MissingIndex, StepTimes};
pub use feed::{Advance, Feed, ListenerKey, WakeReason};
use outside::Results;
pub(crate) use outside::entries as entries_outside;
use paging::Paging;
pub use parts::{PartScanner, Piece, PieceEnd};
pub(crate) use result::resolved;
pub(crate) use scope::SearchScope;
pub(crate) use selection::Selection;
pub use shape::FilterShape;
use sorting::SortOutcome;
use tree_search::TreeSearch;
use window::WindowError;

/// Inputs of a search at its start.
#[derive(Clone, Copy)]
struct SearchInputs<'a> {
    snapshot: &'a Snapshot,
    context: &'a RequestContext<'a>,
    rights: &'a EffectiveRights,
    id: MessageId,
    request: &'a SearchRequest<'a>,
    controls: &'a RequestControls,
}

/// A search in progress. It is `Send` and owns all its data.
pub struct Search {
    id: MessageId,
    time_limit_seconds: u32,
    requested: RequestedLimits,
    result_code: Option<ResultCode>,
    /// The server fault that ended the search, and its text.
    fault: Option<Box<(ServerFault, String)>>,
    /// Diagnostic message for the client, if the search reached a limit on examined entries.
    refusal: Option<Box<str>>,
    work: Work,
    /// The page that the search returns, if the results are paged.
    paging: Option<Box<Paging>>,
    /// Requested order, if the client asked for one.
    order: Option<Box<Order>>,
    /// Position in the log at the start, if the client asked for it.
    position: Option<Box<PositionToken>>,
    /// Count of the results, if the search returns the count in place of the results.
    count: Option<Box<Count>>,
    /// Search of the deleted entries, if the search returns them too.
    deleted: Option<Box<DeletedSearch>>,
}

/// Limits in the request; 0 for none. These limits determine whether an error names the client's or the server's limit.
#[derive(Clone, Copy)]
struct RequestedLimits {
    size: u32,
    time_seconds: u32,
    /// Whether the node file sets a size limit for this requester. That limit replaces the limit in the settings of the
    /// directory.
    has_own_size: bool,
    has_own_time: bool,
}

/// The order that the client requested.
struct Order {
    /// Result of the sort request; `None` without a sort request.
    outcome: Option<SortOutcome>,
    is_critical: bool,
    /// Result of the list view request; `None` without a list view request.
    part: Option<Result<(), WindowError>>,
}

enum Work {
    /// Results computed at the start.
    Made(Box<Results>),
    Tree(Box<TreeSearch>),
}

impl Search {
    /// Prepares a search.
    ///
    /// # Errors
    /// The outcome to send, for example if the base does not exist, is hidden from the requester, or is on another
    /// server.
    pub fn start(
        snapshot: &Snapshot,
        context: &RequestContext<'_>,
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Result<Search, Outcome> {
        let rights = &snapshot.rights(context)?;
        if controls.explain && !rights.is_administrator() {
            // The estimates in an explanation count all entries, including those that the requester may not read.
            return Err(denied("only the administrator may ask how a search is carried out").into());
        }
        let inputs = SearchInputs { snapshot, context, rights, id, request, controls };
        // The controls are checked before the lookup of the base, so that a refusal reveals nothing about the base.
        let count = Count::of(controls)?;
        let shows_deleted = inputs.shows_deleted()?;
        let paging = match controls.page() {
            None => None,
            Some(page) => Some(Box::new(Paging::begin(&snapshot.directory().page_key, &inputs, page)?)),
        };
        let filter = inputs.filter_ahead();
        let (base, mut work) = match inputs.base(shows_deleted)? {
            Base::Tree(base) => {
                if controls.assertion().is_some() {
                    inputs.check_assertion(base)?;
                }
                let scans = paging.as_deref().is_some_and(|page| page.scans);
                match TreeSearch::start(&inputs, base, scans, filter) {
                    Ok(search) => (base, Work::Tree(search)),
                    Err(error) => return Err(inputs.refusal_at(base, error)?.into()),
                }
            }
            Base::Outside(entries) => (EntryId::ROOT, Work::Made(Box::new(Results::of(&inputs, &entries)?))),
        };
        let order = match (controls.sort(), controls.window()) {
            (None, None) => None,
            _ => {
                let order = work.arrange(&inputs, paging.as_deref());
                if let Some(error) = order.refusal()
                    && let hidden @ OperationError::NoSuchObject { .. } = inputs.refusal_at(base, error)?
                {
                    return Err(hidden.into());
                }
                Some(Box::new(order))
            }
        };
        let deleted = match &work {
            Work::Tree(_) if shows_deleted => DeletedSearch::begin(&inputs, base, paging.as_deref())?,
            _ => None,
        };
        if let Some(page) = paging.as_deref() {
            // The size limit of the settings applies to each page. The size limit of the request applies to all pages
            // in total.
            let room = rights.size_limit(page.room());
            match &deleted {
                Some(deleted) if deleted.has_started && !page.is_abandoned() => work.turn_to_deleted(room),
                _ => work.turn_to(page, room, snapshot)?,
            }
        }
        if order.is_some()
            && let Work::Tree(search) = &mut work
        {
            search.use_order(snapshot)?;
        }
        Ok(Search {
            id,
            time_limit_seconds: rights.time_limit_seconds(request.time_limit_seconds),
            requested: RequestedLimits {
                size: request.size_limit,
                time_seconds: request.time_limit_seconds,
                has_own_size: context.limits.size.is_some(),
                has_own_time: context.limits.time_seconds.is_some(),
            },
            result_code: None,
            fault: None,
            refusal: None,
            work,
            paging,
            order,
            position: context.position.map(Box::new),
            count,
            deleted,
        })
    }

    /// Continues the search until it ends or the budget is used up. Appends messages to `out`, the searchResDone last.
    /// Only a slice of a streamed result may end in the middle of a message. Must not be called after [`Step::Done`].
    pub fn run(&mut self, snapshot: &Snapshot, out: &mut Vec<u8>, budget: &Budget) -> Step {
        let start = out.len();
        let outcome = match &mut self.work {
            Work::Made(results) => match self.order.as_ref().and_then(|order| order.refusal()) {
                Some(refusal) => Err(refusal),
                None => Ok(Some(results.send(out))),
            },
            Work::Tree(search) => match self.deleted.as_deref_mut() {
                None => search.run_measured(snapshot, out, budget),
                Some(deleted) => deleted.run_after(search, snapshot, out, budget),
            },
        };
        if let Some(count) = &mut self.count {
            count.take(out, start);
        }
        self.end_slice(snapshot, outcome, out)
    }

    /// Prepares to share the remaining candidates with other threads. Returns a scanner for the other threads, and the
    /// id from which they continue. From then on, the caller continues the search with [`take`](Search::take) in place
    /// of [`run`](Search::run). Returns `None` if there is nothing to share now: try again after the next slice.
    pub fn split(&mut self) -> Option<(PartScanner, u64)> {
        match &mut self.work {
            Work::Made(_) => None,
            Work::Tree(_) if self.deleted.is_some() => None,
            Work::Tree(search) => search.split(),
        }
    }

    /// Returns an estimate of the number of candidates that the search will still examine until it ends or reaches the
    /// size limit. Returns `None` while the number is unknown.
    pub fn candidates_left(&self) -> Option<u64> {
        match &self.work {
            Work::Made(_) => None,
            Work::Tree(_) if self.deleted.is_some() => None,
            Work::Tree(search) => search.candidates_left(),
        }
    }

    /// Returns the number of candidates of a costly search; `None` for other searches. A costly search sorts its
    /// results, or may examine many candidates for few results because its candidates need not match the filter.
    pub fn costly_candidates(&self) -> Option<u64> {
        match &self.work {
            Work::Made(_) => None,
            Work::Tree(search) => search.costly_candidates(),
        }
    }

    /// Returns the percentage of the scan threads' time that costly searches of the requester may take; 0 for no limit.
    pub fn scan_share(&self) -> u32 {
        match &self.work {
            Work::Made(_) => 0,
            Work::Tree(search) => search.scanner.rights.scan_share(),
        }
    }

    /// Returns the shape of the filter, with the indexes that it lacks. Returns `None` if the search is outside the
    /// tree, or if the schema has changed since the start.
    pub fn shape(&self, snapshot: &Snapshot) -> Option<FilterShape> {
        match &self.work {
            Work::Tree(search) if search.scanner.has_same_schema(snapshot) => {
                Some(FilterShape::of_term(snapshot.state().catalog, &search.scanner.filter))
            }
            _ => None,
        }
    }

    /// Calls `each` with the name of each attribute whose index supplies candidates. Does nothing if the schema has
    /// changed since the start.
    pub fn each_index(&self, snapshot: &Snapshot, each: &mut dyn FnMut(&str)) {
        if let Work::Tree(search) = &self.work
            && search.scanner.has_same_schema(snapshot)
        {
            let scanner = &search.scanner;
            explain::each_index(&snapshot.state().catalog.schema, &scanner.filter, &scanner.plan, each);
        }
    }

    /// Accepts the next piece of a search that was [`split`](Search::split), and appends the piece's results to `out`,
    /// within the limits. The caller must pass pieces in ascending id. [`Step::Done`] means that the searchResDone is
    /// written, so that later pieces are not needed.
    pub fn take(&mut self, snapshot: &Snapshot, piece: Piece, out: &mut Vec<u8>) -> Step {
        let Work::Tree(search) = &mut self.work else { return Step::Done };
        let start = out.len();
        let outcome = search.take(snapshot, piece, out);
        if let Some(count) = &mut self.count {
            count.take(out, start);
        }
        self.end_slice(snapshot, outcome, out)
    }

    /// Returns true while a large result is streamed. Then [`run`](Search::run) continues the search even if it was
    /// split, and pieces have to wait.
    pub fn is_streaming(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.is_streaming())
    }

    /// Returns true if the search has sent its initial results and now sends changes until the client or the server
    /// ends the search.
    pub fn is_listening(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.is_listening())
    }

    /// Registers this search with the feed of its event loop. The feed passes changes to listening searches. Without a
    /// feed, the search reads changes from the log itself.
    ///
    /// # Errors
    /// The store failed.
    pub fn sit(&mut self, feed: &Feed, key: ListenerKey) -> Result<(), Outcome> {
        match &mut self.work {
            Work::Made(_) => Ok(()),
            Work::Tree(search) => search.sit(feed, key).map_err(Outcome::from),
        }
    }

    /// Accepts changes from the feed. The next call of [`run`](Search::run) sends them.
    pub fn take_changes(&mut self, set: Arc<ChangeSet>) {
        if let Work::Tree(search) = &mut self.work {
            search.take_changes(set);
        }
    }

    /// Returns the result code for ending the search because its client reads changes more slowly than they occur.
    pub fn code_of_laggard(&self) -> ResultCode {
        match &self.work {
            Work::Tree(search) if search.scanner.sync().is_some() => ResultCode::E_SYNC_REFRESH_REQUIRED,
            _ => ResultCode::BUSY,
        }
    }

    /// Returns true if the output ends in the middle of a message. Then nothing else may be sent on the connection, and
    /// the search cannot be stopped.
    pub fn is_mid_message(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.is_mid_message())
    }

    /// Returns the plan of the search and its counts so far. Returns `None` for a search of virtual entries, such as
    /// the root DSE, because that search has no plan. Also returns `None` if the schema has changed since the start.
    ///
    /// # Errors
    /// The store failed.
    pub fn explanation(&self, snapshot: &Snapshot) -> Result<Option<Explanation>, OperationError> {
        let Work::Tree(search) = &self.work else { return Ok(None) };
        let scanner = &search.scanner;
        if !scanner.has_same_schema(snapshot) {
            return Ok(None);
        }
        let mut explanation = explain::explain(snapshot.state(), &scanner.filter, &scanner.plan)?;
        if search.uses_order() {
            explanation.source = CandidateSource::Order;
        }
        Ok(Some(Explanation {
            examined_count: search.tally.examined_count,
            returned_count: search.tally.entries_sent,
            times: search.clock.is_some().then_some(search.times),
            ..explanation
        }))
    }

    /// Returns true if the request asks for an explanation. Only then is [`measure`](Search::measure) useful.
    pub fn explains(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.explains)
    }

    /// Adds the time of each step to the explanation. `plan_micros` is the time that [`start`](Search::start) took.
    pub fn measure(&mut self, plan_micros: u64, clock: Clock) {
        if let Work::Tree(search) = &mut self.work {
            search.times.plan = plan_micros;
            search.clock = Some(clock);
        }
    }

    /// Returns the memory that the search uses now, itself included, in bytes. Each [`PartScanner`] adds
    /// [`part_bytes`](Search::part_bytes).
    pub fn memory_bytes(&mut self) -> usize {
        let work = match &mut self.work {
            Work::Made(results) => size_of::<Results>() + results.heap_bytes(),
            Work::Tree(search) => size_of::<TreeSearch>() + search.heap_bytes(),
        };
        let order = self.order.as_ref().map_or(0, |_| size_of::<Order>());
        let deleted = self.deleted.as_ref().map_or(0, |deleted| deleted.memory_bytes());
        size_of::<Search>() + work + order + deleted + self.paging.as_ref().map_or(0, |_| size_of::<Paging>())
    }

    /// Returns the memory that each [`PartScanner`] of this search uses, without its results, in bytes.
    pub fn part_bytes(&mut self) -> usize {
        match &mut self.work {
            Work::Made(_) => 0,
            Work::Tree(search) => search.scanner.copy_bytes(),
        }
    }

    /// Returns the time limit in seconds; 0 for none.
    pub fn time_limit_seconds(&self) -> u32 {
        self.time_limit_seconds
    }

    /// Returns the message id of the request.
    pub fn message_id(&self) -> MessageId {
        self.id
    }

    /// Returns the number of entries returned so far.
    pub fn entries_sent(&self) -> u64 {
        match &self.work {
            Work::Made(results) => results.entries_sent,
            Work::Tree(search) => search.tally.entries_sent,
        }
    }

    /// Returns the number of candidates examined so far; 0 for a search of virtual entries.
    pub fn entries_examined(&self) -> u64 {
        match &self.work {
            Work::Made(_) => 0,
            Work::Tree(search) => search.tally.examined_count,
        }
    }

    /// Returns the result code, once the search is done.
    pub fn result_code(&self) -> Option<ResultCode> {
        self.result_code
    }

    /// Returns the diagnostic message for the client, if the search reached a limit on examined entries.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Returns the server fault that ended the search, and its text, if there was one.
    pub fn fault(&self) -> Option<(ServerFault, &str)> {
        self.fault.as_deref().map(|(fault, text)| (*fault, text.as_str()))
    }
}

impl SearchInputs<'_> {
    /// Refuses a search whose assertion does not match its base. A hidden base is treated as missing even if an entry
    /// below it is visible, because otherwise assertions would reveal its values.
    ///
    /// # Errors
    /// assertionFailed; noSuchObject as from [`EffectiveRights::hidden`].
    #[cold]
    #[inline(never)]
    fn check_assertion(&self, base: EntryId) -> Result<(), OperationError> {
        if base == EntryId::ROOT {
            return check_no_assertion(self.controls);
        }
        let state = self.snapshot.state();
        self.rights.at_visible(state, base, self.request.base_object)?;
        check_assertion(state, self.rights, self.controls, base)
    }

    /// Returns the error for a refused search. If the requester may not see the base, returns the error for a missing
    /// base, because any other error would reveal that the base exists.
    #[cold]
    #[inline(never)]
    fn refusal_at(&self, base: EntryId, error: OperationError) -> Result<OperationError, OperationError> {
        let state = self.snapshot.state();
        match self.rights.may_browse(state, base)? {
            true => Ok(error),
            false => self.rights.hidden(state, self.request.base_object, Some(base)),
        }
    }
}

impl Order {
    /// Returns the reason for refusing the search, if there is one.
    fn refusal(&self) -> Option<OperationError> {
        let unsorted = self.outcome.as_ref().filter(|outcome| outcome.code != ResultCode::SUCCESS);
        match (unsorted.filter(|_| self.is_critical), self.part) {
            (Some(outcome), _) => Some(outcome.refusal()),
            (None, Some(Err(error))) => Some(error.refusal()),
            (None, _) => None,
        }
    }
}

impl Work {
    /// Sorts the results, and limits them to the requested part of the list. If that is impossible and the control is
    /// critical, the search returns nothing.
    fn arrange(&mut self, inputs: &SearchInputs<'_>, page: Option<&Paging>) -> Order {
        let (sort, window) = (inputs.controls.sort(), inputs.controls.window());
        let outcome = sort.map(|requested| match self {
            Work::Made(_) => SortOutcome::not(
                ResultCode::UNWILLING_TO_PERFORM,
                "entries that are not in the tree come as they are",
            ),
            Work::Tree(_) if page.is_some_and(Paging::continues_unsorted) => SortOutcome::as_before(),
            Work::Tree(search) => search.sort_by(requested, inputs.snapshot.state().catalog),
        });
        let part = window.map(|requested| match &outcome {
            None => {
                Err(WindowError(ResultCode::SORT_CONTROL_MISSING, "it needs the control server-side sorting"))
            }
            Some(outcome) if outcome.code != ResultCode::SUCCESS => {
                Err(WindowError(outcome.code, "the list cannot be sorted"))
            }
            Some(_) if page.is_some() => {
                Err(WindowError(ResultCode::UNWILLING_TO_PERFORM, "a part of a list has no pages"))
            }
            Some(_) => match self {
                Work::Tree(search) => search.show(requested, inputs.snapshot.state().catalog),
                Work::Made(_) => Ok(()),
            },
        });
        let order = Order { outcome, is_critical: sort.is_some_and(|requested| requested.is_critical), part };
        if order.refusal().is_some() {
            *self = Work::Made(Box::default());
        }
        order
    }

    /// Limits the search to one page of up to `room` entries.
    fn turn_to(&mut self, page: &Paging, room: u32, snapshot: &Snapshot) -> Result<(), OperationError> {
        if page.is_abandoned() {
            *self = Work::Made(Box::default());
        }
        match self {
            Work::Tree(search) if search.is_sorted() => search.turn_to_sorted(page.after.clone(), room),
            // The previous page was sorted, but this page cannot be sorted, so the cookie is invalid.
            _ if page.after.is_some() && !page.is_abandoned() => return Err(paging::foreign()),
            Work::Made(results) => results.turn_to(page.from, room),
            Work::Tree(search) => search.turn_to(page.from, room, snapshot.state())?,
        }
        Ok(())
    }
}
