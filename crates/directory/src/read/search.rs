//! Search (RFC 4511 section 4.5): a state machine that owns its request and no snapshot.
//!
//! [`Search::start`] finds the base, makes the filter ready and chooses a plan; [`Search::run`] goes on for as
//! long as its budget lasts, on whatever snapshot the calling thread has by then. So a long search never holds up a
//! thread or a position of the store, and any thread may run its next slice.
//!
//! Results come in ascending entry id, unless the client wants them in another order. An entry that matches throughout
//! is returned exactly once, one that changes meanwhile at most once, and each is consistent in itself: between slices
//! the search remembers the last id and goes on behind it. When the snapshot has moved, names in the filter are looked
//! up again and nothing is taken for granted of candidates found before. [`Search::split`] lets several threads do the
//! rest of a long search in parts; the promise stays the same.
//!
//! Each step is a type of its own, and none looks back:
//!
//! 1. [`Search`] checks what the request asks and lets `base` find where it begins
//! 2. `outside` answers at once where that is not in the tree: the root DSE, the schema, the monitor, the settings
//! 3. [`TreeSearch`] prepares the rest once: `scope` which entries it is about, `filter` the filter with its names
//!    resolved and its values normalised, `plan` where candidates come from, `selection` what is returned of them
//! 4. `scanner` looks at `candidates` in slices: `scope` and `matcher` say which are results, `result` writes them,
//!    `stream` those that are too large for a buffer, with an `attribute_stream`
//!
//! `sorting` keeps results until they can go out in an order, `usability` says of each whether one can bind with it,
//! `paging` returns one page at a time, `parts` has several threads look at candidates, `explain` tells the plan,
//! `again` compares what access rules show, `sync` tells what became of results since the last time,
//! and `follow` what becomes of them.

mod again;
mod assertion;
mod attribute_stream;
mod base;
mod budget;
mod candidates;
mod change_set;
mod dereference;
mod effective;
mod entry_controls;
mod entry_copy;
mod explain;
mod feed;
mod matched;
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
mod sorting;
mod stream;
mod sync;
#[cfg(test)]
mod tests;
mod tree_search;
mod usability;
mod window;

use std::sync::Arc;

use ldap::response::{LdapResult, ResponseOp, encode_result};
use ldap::{
    Control, Controls, ControlsBuf, ListViewResult, MessageId, PagedResults, PositionToken, ResultCode,
    SearchRequest, SortResult, oids,
};

use crate::access::{Access, RequestContext};
use crate::filter::InMemory;
use crate::model::outcome::{OperationError, Outcome, ServerFault};
use crate::model::rows::EntryId;
use crate::read::controls::{EXPLAIN, RequestControls, SortAsked, WindowAsked};
use crate::snapshot::Snapshot;
pub(crate) use again::{Extent, SearchAgain, Shift, Sight};
use assertion::check_assertion_of_base;
pub(crate) use assertion::{check_assertion, check_assertion_in_memory, check_no_assertion};
use base::{Base, find_permitted_base};
pub use budget::{Budget, Clock, Step};
pub use change_set::ChangeSet;
pub(crate) use entry_copy::copy_of_entry;
pub use explain::{CandidateSource, ExplainedTerm, Explanation, StepTimes};
pub use feed::{Advance, Feed, ListenerKey, Woken};
use outside::Results;
pub(crate) use outside::entries as entries_outside;
use paging::{NextPage, Paging};
pub use parts::{PartScanner, Piece, PieceEnd};
pub(crate) use permitted::ValuesAllowed;
pub(crate) use result::resolved;
pub(crate) use scope::SearchScope;
pub(crate) use selection::Selection;
use sorting::SortOutcome;
use sync::Sync;
use tree_search::TreeSearch;
use window::{WINDOW_TOO_LARGE, WindowError};

/// A search under way. `Send`; owns everything it needs.
pub struct Search {
    id: MessageId,
    time_limit_seconds: u32,
    asked: AskedLimits,
    result_code: Option<ResultCode>,
    /// The fault of the server's by which it failed, and the text.
    fault: Option<Box<(ServerFault, String)>>,
    work: Work,
    /// The page that it returns, where it is one of several.
    paging: Option<Box<Paging>>,
    /// What the client is told of the order of its results, where it asked for one.
    order: Option<Box<Order>>,
    /// Where in the order of changes it began, for whoever wants to know.
    position: Option<Box<PositionToken>>,
}

/// The limits of the request itself, 0 being none: they say whose limit ends a search.
#[derive(Clone, Copy)]
struct AskedLimits {
    size: u32,
    time_seconds: u32,
    /// Whether the node file has a limit of the requester's own, in place of the directory's.
    has_own_size: bool,
    has_own_time: bool,
}

/// The order that a client wants its results in.
struct Order {
    /// Whether they can be sorted; `None` where that is not asked for.
    outcome: Option<SortOutcome>,
    is_critical: bool,
    /// Whether a part of them can be returned; `None` where that is not asked for.
    part: Option<Result<(), WindowError>>,
}

enum Work {
    /// Results that were made at the start.
    Made(Results),
    Tree(Box<TreeSearch>),
}

impl Search {
    /// Prepares a search.
    ///
    /// # Errors
    /// The outcome to answer with: the base is not there, may not be read, or is held elsewhere.
    pub fn start(
        snapshot: &Snapshot,
        context: &RequestContext<'_>,
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Result<Search, Outcome> {
        Search::try_start(snapshot, context, id, request, controls).map_err(Outcome::from)
    }

    fn try_start(
        snapshot: &Snapshot,
        context: &RequestContext<'_>,
        id: MessageId,
        request: &SearchRequest<'_>,
        controls: &RequestControls,
    ) -> Result<Search, OperationError> {
        let state = snapshot.state();
        let access = Access::of(context.requester, state.settings).limited(context.limits);
        if controls.explain && !access.is_administrator() {
            // Estimates count entries, whoever may read them.
            return Err(OperationError::refused(
                ResultCode::INSUFFICIENT_ACCESS_RIGHTS,
                "only the administrator may ask how a search is carried out",
            ));
        }
        let paging = match controls.page() {
            None => None,
            Some(page) => {
                let key = &snapshot.directory().page_key;
                Some(Box::new(Paging::begin(key, context.requester, request, controls, page)?))
            }
        };
        let standing = snapshot.standing(context)?;
        let mut work =
            match find_permitted_base(snapshot, (context, access, standing.as_deref()), request, controls)? {
                Base::Tree(base) => {
                    check_assertion_of_base(state, context, controls, (base, request.base_object))?;
                    let scans = paging.as_deref().is_some_and(|page| page.scans);
                    let asker = (context, access, standing);
                    match TreeSearch::start(snapshot, asker, id, request, controls, base, scans) {
                        Ok(search) => Work::Tree(search),
                        Err(error) => {
                            return Err(refusal_at(snapshot, context, (base, request.base_object), error)?);
                        }
                    }
                }
                Base::Outside(entries) => {
                    if let Some((_, base)) = entries.first() {
                        let attributes = resolved(&state.catalog.schema, base);
                        let base = InMemory { dn: &base.dn, attributes };
                        check_assertion_in_memory(state, access, controls, &base)?;
                    }
                    Work::Made(Results::of(snapshot, access, id, request, (&entries, controls))?)
                }
            };
        let order = match (controls.sort(), controls.window()) {
            (None, None) => None,
            asked => {
                let base = match &work {
                    Work::Tree(search) => search.scanner.scope.base,
                    Work::Made(_) => EntryId::ROOT,
                };
                let order = work.arrange(asked, paging.as_deref(), snapshot, access);
                if let Some(error) = order.refusal()
                    && let hidden @ OperationError::NoSuchObject { .. } =
                        refusal_at(snapshot, context, (base, request.base_object), error)?
                {
                    return Err(hidden);
                }
                Some(Box::new(order))
            }
        };
        if let Some(page) = paging.as_deref() {
            // The setting is a limit of each page: of all of them together a client gets as many as it asks for.
            work.turn_to(page, access.size_limit(page.room()), snapshot)?;
        }
        Ok(Search {
            id,
            time_limit_seconds: access.time_limit_seconds(request.time_limit_seconds),
            asked: AskedLimits {
                size: request.size_limit,
                time_seconds: request.time_limit_seconds,
                has_own_size: context.limits.size.is_some(),
                has_own_time: context.limits.time_seconds.is_some(),
            },
            result_code: None,
            fault: None,
            work,
            paging,
            order,
            position: context.position.map(Box::new),
        })
    }

    /// Goes on with the search until it ends or the budget is used up. Appends whole messages to `out`, the
    /// searchResDone last. Not to be called again after [`Step::Done`].
    pub fn run(&mut self, snapshot: &Snapshot, out: &mut Vec<u8>, budget: &Budget) -> Step {
        let outcome = match &mut self.work {
            Work::Made(results) => match self.order.as_ref().and_then(|order| order.refusal()) {
                Some(refusal) => Err(refusal),
                None => Ok(Some(results.send(out))),
            },
            Work::Tree(search) => search.run_measured(snapshot, out, budget),
        };
        self.end_slice(snapshot, outcome, out)
    }

    /// Leaves the rest of the search to others: what looks at the rest of the candidates, and the first id to look at.
    /// From now on the search goes on by [`take`](Search::take) and no longer by [`run`](Search::run). `None` where
    /// there is nothing to share out, or not yet: ask again after another slice.
    pub fn split(&mut self) -> Option<(PartScanner, u64)> {
        match &mut self.work {
            Work::Made(_) => None,
            Work::Tree(search) => search.split(),
        }
    }

    /// How many candidates are left to look at, as far as the plan knows, or until the limit on results is likely to be
    /// reached; `None` where that is not known (yet).
    pub fn candidates_left(&self) -> Option<u64> {
        match &self.work {
            Work::Made(_) => None,
            Work::Tree(search) => search.candidates_left(),
        }
    }

    /// Takes the next piece of a search that was [`split`](Search::split), in the order of ids, and appends its results
    /// to `out`, as far as the limits allow. With [`Step::Done`] the searchResDone is written too; pieces behind that
    /// one are not wanted.
    pub fn take(&mut self, snapshot: &Snapshot, piece: Piece, out: &mut Vec<u8>) -> Step {
        let Work::Tree(search) = &mut self.work else { return Step::Done };
        let outcome = search.take(snapshot, piece, out);
        self.end_slice(snapshot, outcome, out)
    }

    /// Whether a large result is on its way: [`run`](Search::run) goes on with it, and pieces have to wait, also where
    /// the search was split.
    pub fn is_streaming(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.is_streaming())
    }

    /// Whether the search has sent what was there at its start and goes on with changes, until it is ended.
    pub fn is_listening(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.is_listening())
    }

    /// Gives a search that is to listen for changes a seat at the feed of its event loop. Without one it looks for
    /// changes by itself.
    ///
    /// # Errors
    /// The store failed.
    pub fn sit(&mut self, feed: &Feed, key: ListenerKey) -> Result<(), Outcome> {
        match &mut self.work {
            Work::Made(_) => Ok(()),
            Work::Tree(search) => search.sit(feed, key).map_err(Outcome::from),
        }
    }

    /// Takes changes that its feed hands out, to tell of them.
    pub fn take_changes(&mut self, set: Arc<ChangeSet>) {
        if let Work::Tree(search) = &mut self.work {
            search.take_changes(set);
        }
    }

    /// The code with which a search ends whose client reads changes slower than they come.
    pub fn code_of_laggard(&self) -> ResultCode {
        match &self.work {
            Work::Tree(search) if search.scanner.sync().is_some() => ResultCode::E_SYNC_REFRESH_REQUIRED,
            _ => ResultCode::BUSY,
        }
    }

    /// Whether the last byte of the output is in the middle of a message. Nothing else may be sent on the connection
    /// then, and the search cannot be stopped.
    pub fn is_mid_message(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.is_mid_message())
    }

    /// Writes the searchResDone, if this was the last slice.
    fn end_slice(
        &mut self,
        snapshot: &Snapshot,
        outcome: Result<Option<ResultCode>, OperationError>,
        out: &mut Vec<u8>,
    ) -> Step {
        let is_broken = outcome.is_err() && self.is_mid_message();
        let mut outcome = match outcome {
            Ok(None) => return self.unfinished(),
            Ok(Some(code)) => Outcome::code(code),
            Err(error) => Outcome::from(match &self.work {
                Work::Made(_) => error,
                Work::Tree(search) => search.refusal(snapshot.state(), error),
            }),
        };
        self.fault = outcome.fault.map(|fault| Box::new((fault, outcome.diagnostic.clone())));
        if is_broken {
            self.result_code = Some(ResultCode::OTHER);
            return Step::Broken;
        }
        let mut controls = self.explanation_control(snapshot);
        // A base that is not there for the asker is refused as at the start: without a page.
        if let Some(paging) = self.paging.as_ref().filter(|_| outcome.code != ResultCode::NO_SUCH_OBJECT) {
            let estimate = self.estimate(snapshot);
            let (code, value) = paging.end(outcome.code, self.next(), self.entries_sent(), estimate);
            outcome.code = code;
            controls.push(page_control(&value));
        }
        if let Some(value) = self.sort_result(outcome.code) {
            controls.push(Control { oid: oids::SORT_RESPONSE, critical: false, value: Some(&value) });
        }
        if let Some(result) = self.list_view_result(outcome.code) {
            controls.push(Control {
                oid: oids::VLV_RESPONSE,
                critical: false,
                value: Some(&result.encode()),
            });
        }
        if let Some(position) = &self.position {
            controls.push(position_control(&position.encode()));
        }
        if let Some(sync) = self.sync() {
            sync.name_present(out);
            if [ResultCode::SUCCESS, ResultCode::E_SYNC_REFRESH_REQUIRED].contains(&outcome.code) {
                let value = sync.done_value();
                controls.push(Control { oid: oids::SYNC_DONE, critical: false, value: Some(&value) });
            }
        }
        if outcome.code == ResultCode::SIZE_LIMIT_EXCEEDED {
            outcome.diagnostic = self.size_limit_text();
        }
        if outcome.code == ResultCode::E_SYNC_REFRESH_REQUIRED {
            outcome.diagnostic = "more may have changed than can be told: poll with this cookie".to_owned();
        }
        self.result_code = Some(outcome.code);
        let result = LdapResult {
            code: outcome.code,
            matched_dn: &outcome.matched_dn,
            diagnostic: &outcome.diagnostic,
            referrals: &outcome.referrals,
        };
        encode_result(out, self.id, ResponseOp::SearchDone, &result, controls.as_controls());
        Step::Done
    }

    /// What the client is told of a content, if it is.
    fn sync(&mut self) -> Option<&mut Sync> {
        match &mut self.work {
            Work::Made(_) => None,
            Work::Tree(search) => search.scanner.entry_controls.as_mut()?.sync.as_mut(),
        }
    }

    /// What a slice is that is not the last.
    fn unfinished(&self) -> Step {
        match &self.work {
            Work::Tree(search) if search.waits() => Step::Waits,
            _ => Step::More,
        }
    }

    /// How the search goes about it and what it has done so far; `None` where there is no plan: the root DSE, the
    /// schema and the monitor are not in the tree.
    ///
    /// # Errors
    /// The store failed.
    pub fn explanation(&self, snapshot: &Snapshot) -> Result<Option<Explanation>, OperationError> {
        let Work::Tree(search) = &self.work else { return Ok(None) };
        let scanner = &search.scanner;
        if !scanner.knows_schema(snapshot) {
            return Ok(None);
        }
        let explanation = explain::explain(snapshot.state(), &scanner.filter, &scanner.plan)?;
        Ok(Some(Explanation {
            examined_count: search.tally.examined_count,
            returned_count: search.tally.entries_sent,
            times: search.clock.is_some().then_some(search.times),
            ..explanation
        }))
    }

    /// Whether the request asks for an explanation: then [`measure`](Search::measure) is worth a call.
    pub fn explains(&self) -> bool {
        matches!(&self.work, Work::Tree(search) if search.explains)
    }

    /// Lets the explanation say how long each step takes. `plan_micros` went by until [`start`](Search::start)
    /// returned.
    pub fn measure(&mut self, plan_micros: u64, clock: Clock) {
        if let Work::Tree(search) = &mut self.work {
            search.times.plan = plan_micros;
            search.clock = Some(clock);
        }
    }

    /// Where the first entry is for which there was no room.
    fn next(&self) -> NextPage<'_> {
        match &self.work {
            Work::Made(results) => NextPage::From(results.next(), false),
            Work::Tree(search) => match search.last_key() {
                Some(key) => NextPage::Behind(key),
                None => NextPage::From(search.next_id, search.scans_for_page),
            },
        }
    }

    /// What the client is told of the order of its results, where the search ends with this code: nothing where there
    /// are none (RFC 2891 section 2, scenario 6), but why the search is refused.
    fn sort_result(&self, code: ResultCode) -> Option<Vec<u8>> {
        let outcome = self.order.as_deref()?.outcome.as_ref()?;
        let is_told = match code {
            ResultCode::UNAVAILABLE_CRITICAL_EXTENSION => true,
            ResultCode::SUCCESS | ResultCode::SIZE_LIMIT_EXCEEDED => self.entries_sent() > 0,
            _ => false,
        };
        let given_up = match &self.work {
            Work::Made(_) => None,
            Work::Tree(search) => search.gave_up_sorting(),
        };
        let outcome = given_up.unwrap_or(outcome);
        let result = SortResult { code: outcome.code, attribute: outcome.attribute.as_deref() };
        is_told.then(|| result.encode())
    }

    /// What the client is told of the part of a list that it asked for, where the search ends with this code.
    fn list_view_result(&self, code: ResultCode) -> Option<ListViewResult> {
        let part = self.order.as_deref()?.part?;
        let window = match &self.work {
            Work::Made(_) => None,
            Work::Tree(search) => search.window(),
        };
        match code {
            ResultCode::VIRTUAL_LIST_VIEW_ERROR => {
                let WindowError(code, _) = part.err().unwrap_or(WINDOW_TOO_LARGE);
                Some(ListViewResult { position: 0, count: 0, code })
            }
            ResultCode::SUCCESS | ResultCode::SIZE_LIMIT_EXCEEDED => window,
            _ => None,
        }
    }

    /// How many entries all pages have together, where that is easily told; else 0.
    fn estimate(&self, snapshot: &Snapshot) -> u64 {
        match &self.work {
            Work::Made(results) => results.count(),
            Work::Tree(search) => search.estimate(snapshot).unwrap_or(0),
        }
    }

    /// The control with the explanation, if the request asks for one.
    fn explanation_control(&self, snapshot: &Snapshot) -> ControlsBuf {
        let mut controls = ControlsBuf::new();
        if self.explains()
            && let Ok(Some(explanation)) = self.explanation(snapshot)
        {
            let text = explanation.to_string();
            controls.push(Control { oid: EXPLAIN, critical: false, value: Some(text.as_bytes()) });
        }
        controls
    }

    /// Whose size limit ended the search, how many entries it allows, and what to do.
    fn size_limit_text(&self) -> String {
        let (asked, sent) = (self.asked.size, self.entries_sent());
        if self.paging.is_some() {
            // The limit of the settings makes pages smaller and ends no sequence.
            format!(
                "the request's size limit of {asked} for all pages together is reached, and more entries match"
            )
        } else if asked != 0 && sent >= u64::from(asked) {
            format!("the request's size limit of {asked} is reached, and more entries match: ask for more")
        } else {
            let setting = if self.asked.has_own_size { "limit.size" } else { "limits.size_limit" };
            format!(
                "the server's size limit of {sent} ({setting}) is reached, and more entries match: ask in pages (RFC \
                 2696) or for less"
            )
        }
    }

    /// Why the search is stopped with this code, and what to do.
    fn stop_text(&self, code: ResultCode) -> String {
        if code == ResultCode::CANCELED {
            return "the client cancelled it, or closed its side of the connection".to_owned();
        }
        if code == ResultCode::E_SYNC_REFRESH_REQUIRED || (code == ResultCode::BUSY && self.is_listening()) {
            return "the client reads changes slower than they come: ask again for all that is there"
                .to_owned();
        }
        if code != ResultCode::TIME_LIMIT_EXCEEDED {
            return "the server ended the search before it was done: ask again later".to_owned();
        }
        let seconds = self.time_limit_seconds;
        if seconds == self.asked.time_seconds {
            return format!(
                "the request's time limit of {seconds} s is over: ask for less, or with a longer limit"
            );
        }
        let setting =
            if self.asked.has_own_time { "limit.time_seconds" } else { "limits.time_limit_seconds" };
        let pages = if self.paging.is_some() { "smaller pages" } else { "pages (RFC 2696)" };
        format!(
            "the server's time limit of {seconds} s ({setting}) is over: ask for less, in {pages}, or by an indexed \
             attribute"
        )
    }

    /// Ends the search before its time, with a searchResDone of this code: timeLimitExceeded, for example. Where it was
    /// over entries that the requester may not see, the answer is that its base is not there.
    pub fn stop(self, snapshot: &Snapshot, out: &mut Vec<u8>, code: ResultCode) {
        if code == ResultCode::TIME_LIMIT_EXCEEDED
            && let Work::Tree(search) = &self.work
            && let error @ OperationError::NoSuchObject { .. } =
                search.refusal(snapshot.state(), OperationError::refused(code, ""))
        {
            let Outcome { code, matched_dn, diagnostic, .. } = error.into();
            let result = LdapResult { matched_dn: &matched_dn, ..LdapResult::new(code, &diagnostic) };
            return encode_result(out, self.id, ResponseOp::SearchDone, &result, Controls::NONE);
        }
        let mut controls = ControlsBuf::new();
        if self.paging.is_some() {
            // The sequence of pages is over.
            controls.push(page_control(&PagedResults { size: 0, cookie: b"" }.encode()));
        }
        let text = self.stop_text(code);
        let result = LdapResult::new(code, &text);
        encode_result(out, self.id, ResponseOp::SearchDone, &result, controls.as_controls());
    }

    /// Bytes of memory that the search holds, itself included, as it is now. What a [`PartScanner`] of it holds comes
    /// on top: [`part_bytes`](Search::part_bytes).
    pub fn memory_bytes(&mut self) -> usize {
        let work = match &mut self.work {
            Work::Made(results) => results.heap_bytes(),
            Work::Tree(search) => size_of::<TreeSearch>() + search.heap_bytes(),
        };
        let order = self.order.as_ref().map_or(0, |_| size_of::<Order>());
        size_of::<Search>() + work + order + self.paging.as_ref().map_or(0, |_| size_of::<Paging>())
    }

    /// Bytes of memory that each [`PartScanner`] of this search holds, its results apart.
    pub fn part_bytes(&mut self) -> usize {
        match &mut self.work {
            Work::Made(_) => 0,
            Work::Tree(search) => search.scanner.copy_bytes(),
        }
    }

    /// Seconds that the search may take; 0 for any time.
    pub fn time_limit_seconds(&self) -> u32 {
        self.time_limit_seconds
    }

    /// The message that it answers.
    pub fn message_id(&self) -> MessageId {
        self.id
    }

    /// Entries returned so far.
    pub fn entries_sent(&self) -> u64 {
        match &self.work {
            Work::Made(results) => results.entries_sent,
            Work::Tree(search) => search.tally.entries_sent,
        }
    }

    /// Candidates looked at so far, in the tree.
    pub fn entries_examined(&self) -> u64 {
        match &self.work {
            Work::Made(_) => 0,
            Work::Tree(search) => search.tally.examined_count,
        }
    }

    /// The result code, once the search is done.
    pub fn result_code(&self) -> Option<ResultCode> {
        self.result_code
    }

    /// The fault of the server's by which the search failed, if it was one, and the text that says more.
    pub fn fault(&self) -> Option<(ServerFault, &str)> {
        self.fault.as_deref().map(|(fault, text)| (*fault, text.as_str()))
    }
}

/// Why a search at a base is not carried out: where the requester may not see the base, in the words for one that is
/// not there. What is wrong with a request would tell otherwise that it is.
#[cold]
#[inline(never)]
fn refusal_at(
    snapshot: &Snapshot,
    context: &RequestContext<'_>,
    (base, dn): (EntryId, &str),
    error: OperationError,
) -> Result<OperationError, OperationError> {
    let state = snapshot.state();
    match snapshot.standing(context)? {
        Some(standing) if base != EntryId::ROOT && !standing.at_entry(state, base)?.may_browse() => {
            standing.hidden(state, dn, Some(base))
        }
        _ => Ok(error),
    }
}

impl Order {
    /// Why the search is refused, if it is.
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
    /// Makes it return its results in an order, and a part of them, or, where the client has no use for them otherwise,
    /// nothing.
    fn arrange(
        &mut self,
        (sort, window): (Option<&SortAsked>, Option<&WindowAsked>),
        page: Option<&Paging>,
        snapshot: &Snapshot,
        access: Access,
    ) -> Order {
        let outcome = sort.map(|asked| self.sort(asked, page, snapshot, access));
        let part = window.map(|asked| match &outcome {
            None => Err(WindowError(
                ResultCode::SORT_CONTROL_MISSING,
                "it takes the control server-side sorting beside it",
            )),
            Some(outcome) if outcome.code != ResultCode::SUCCESS => {
                Err(WindowError(outcome.code, "the list cannot be sorted"))
            }
            Some(_) if page.is_some() => {
                Err(WindowError(ResultCode::UNWILLING_TO_PERFORM, "a part of a list has no pages"))
            }
            Some(_) => match self {
                Work::Tree(search) => search.show(asked, snapshot.state().catalog),
                Work::Made(_) => Ok(()),
            },
        });
        let order = Order { outcome, is_critical: sort.is_some_and(|asked| asked.is_critical), part };
        if order.refusal().is_some() {
            *self = Work::Made(Results::default());
        }
        order
    }

    fn sort(
        &mut self,
        asked: &SortAsked,
        page: Option<&Paging>,
        snapshot: &Snapshot,
        access: Access,
    ) -> SortOutcome {
        match self {
            Work::Made(_) => SortOutcome::not(
                ResultCode::UNWILLING_TO_PERFORM,
                "entries that are not in the tree come as they are",
            ),
            Work::Tree(_) if page.is_some_and(Paging::goes_on_unsorted) => SortOutcome::as_before(),
            Work::Tree(search) => search.sort_by(asked, snapshot.state().catalog, access),
        }
    }

    /// Makes it the work for a page of up to `room` entries.
    fn turn_to(&mut self, page: &Paging, room: u32, snapshot: &Snapshot) -> Result<(), OperationError> {
        if page.is_abandoned() {
            *self = Work::Made(Results::default());
        }
        match self {
            Work::Tree(search) if search.is_sorted() => search.turn_to_sorted(page.after.clone(), room),
            // They could be sorted when the page before was made.
            _ if page.after.is_some() && !page.is_abandoned() => return Err(paging::foreign()),
            Work::Made(results) => results.turn_to(page.from, room),
            Work::Tree(search) => search.turn_to(page.from, room, snapshot.state())?,
        }
        Ok(())
    }
}

fn position_control(value: &[u8]) -> Control<'_> {
    Control { oid: oids::POSITION, critical: false, value: Some(value) }
}

fn page_control(value: &[u8]) -> Control<'_> {
    Control { oid: oids::PAGED_RESULTS, critical: false, value: Some(value) }
}
