//! Searches of a session. If the first slice completes a search, it is answered at once. Other searches stay
//! outstanding and run slices in turn. Long searches pass their remaining candidates to the scan threads and wait for
//! results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use directory::controls::RequestControls;
use directory::search::{FilterShape, Search, Step, WakeReason};
use directory::{Outcome, RequestContext};
use ldap::ResultCode;

use super::audit::OperationEnd;
use super::outstanding::{Outstanding, Work};
use super::responder::Responder;
use super::shared_rest::{SLICE, SharedRest};
use super::{RequestHead, Session};
use crate::limits::SCAN_CANDIDATES_MIN;
use crate::net::client_identity::ClientIdentity;
use crate::net::listening_places::{ListeningClient, ListeningPlace, NoPlace};
use crate::net::mailbox::Address;
use crate::net::request_memory::{Admission, HolderKey};
use crate::session::context::Context;
use crate::stamp::{micros_since, thread_micros};
use crate::telemetry::index_advice::SearchCosts;
use crate::workers::scan::ScanOwner;
use crate::workers::scan_shares::{ScanAccount, ScanClient};

/// Returns true if the search has enough candidates left to be worth running on scan threads.
fn is_long(search: &Search) -> bool {
    search.candidates_left().is_some_and(|left| left >= SCAN_CANDIDATES_MIN)
}

/// Passes the remaining candidates of a search to the scan threads. Returns `None` if the search is short or the scan
/// pool does not accept it.
fn share(
    context: &Context,
    address: Address,
    identity: ClientIdentity,
    account: Option<&Arc<ScanAccount>>,
    search: &mut Search,
) -> Option<SharedRest> {
    if !is_long(search) {
        return None;
    }
    let is_measured = search.explains();
    let owner = ScanOwner { identity, account: account.cloned() };
    let scan = context.shared.scan_pool.begin(address, owner, is_measured, || search.split())?;
    Some(SharedRest::new(scan))
}

/// Runs a slice on the event loop. Charges its processor time to `account`, if there is one.
fn run_here(
    context: &Context,
    account: Option<&ScanAccount>,
    search: &mut Search,
    out: &mut Vec<u8>,
) -> Step {
    let Some(account) = account else { return search.run(&context.snapshot, out, &SLICE) };
    let before = thread_micros();
    let step = search.run(&context.snapshot, out, &SLICE);
    account.charge(thread_micros().saturating_sub(before), context.now);
    step
}

/// Returns the limit on costly searches that the client has reached. Returns `None` for a search that must not be
/// refused now, because it only sends changes or is in the middle of a message.
fn met_limit(account: Option<&ScanAccount>, context: &Context, search: &Search) -> Option<String> {
    account?.met_limit(context.now).filter(|_| !search.is_listening() && !search.is_mid_message())
}

impl Session {
    pub(super) fn search(
        &mut self,
        mut to: Responder<'_>,
        request: &ldap::SearchRequest<'_>,
        controls: &RequestControls,
    ) {
        let place = match self.take_listening_place(to.context, controls) {
            Ok(place) => place,
            Err(outcome) => return self.answer(to, &outcome),
        };
        let begun_at = controls.explain.then(Instant::now);
        let request_context = self.read_context(to.context, request.base_object, controls);
        let started = Search::start(&to.context.snapshot, &request_context, to.head.id, request, controls);
        let mut search = match started {
            Ok(search) => search,
            Err(outcome) => {
                self.report_refused_start(to.context, request, &request_context, &outcome);
                return self.answer(to, &outcome);
            }
        };
        if place.is_some()
            && let Err(outcome) = search.sit(&to.context.feed, (self.slot as usize, self.next_ticket))
        {
            return self.answer(to, &outcome);
        }
        if let Some(event) = to.head.event.as_deref_mut()
            && to.context.shared.traces.is_some()
        {
            event.planned = Some(Instant::now());
        }
        if let Some(begun_at) = begun_at {
            search.measure(micros_since(begun_at), Box::new(move || micros_since(begun_at)));
        }
        // If the session has another search to run, the new search waits for its turn. Therefore even a thousand scans
        // that arrive together run one slice at a time.
        let waits = self.wants_slice() || (self.has_search() && is_long(&search));
        let step = if waits { Step::More } else { search.run(&to.context.snapshot, to.out, &SLICE) };
        if step == Step::Done {
            return self.finish_search(to.context, &to.head, &search, None, None);
        }
        let follows = step == Step::Waits;
        if follows {
            to.head.is_not_timed();
        }
        let deadline = match search.time_limit_seconds() {
            0 => None,
            // The time limit applies only to the first phase of the search (RFC 4533 section 3.5.4).
            _ if follows => None,
            seconds => to.context.now.checked_add(Duration::from_secs(u64::from(seconds))),
        };
        let account = self.scan_account(to.context, &search);
        if let Some(limit) = met_limit(account.as_deref(), to.context, &search) {
            return self.refuse_search(to.context, &to.head, (search, account.as_deref()), &limit, to.out);
        }
        let rest =
            share(to.context, self.address(to.context), self.identity(), account.as_ref(), &mut search);
        self.keep(
            to.head,
            Work::Search { search: Box::new(search), deadline, rest, account, follows, _place: place },
            0,
            None,
        );
        if follows && self.has_ended_input {
            self.end_listening(to.context, to.out);
        }
    }

    fn identity(&self) -> ClientIdentity {
        ClientIdentity::of(&self.requester, self.source)
    }

    /// Opens an account for the processor time of a search that may examine many entries for few results. Returns
    /// `None` for any other search.
    fn scan_account(&self, context: &Context, search: &Search) -> Option<Arc<ScanAccount>> {
        search.costly_candidates().filter(|count| *count >= SCAN_CANDIDATES_MIN)?;
        let client = ScanClient {
            requester: &self.requester,
            source: self.source,
            is_trusted: self.is_trusted || self.source.address().is_none(),
            share_percent: search.scan_share(),
        };
        Some(Arc::new(context.shared.scan_shares.open(client)))
    }

    /// Counts and reports a search that was refused at its start because no index supports it.
    #[cold]
    fn report_refused_start(
        &self,
        context: &Context,
        request: &ldap::SearchRequest<'_>,
        request_context: &RequestContext<'_>,
        outcome: &Outcome,
    ) {
        if outcome.code != ResultCode::UNWILLING_TO_PERFORM {
            return;
        }
        self.report_refusal(context, &outcome.diagnostic);
        if let Ok(shape) = FilterShape::of(&context.snapshot, request_context, request.filter) {
            let costs = SearchCosts { searches: 1, refused: 1, ..SearchCosts::default() };
            context.shared.index_advice.count(shape, &costs);
        }
    }

    /// Adds a costly search to the statistics about missing indexes.
    #[cold]
    fn count_costly(context: &Context, search: &Search, account: &ScanAccount, code: ResultCode) {
        let Some(shape) = search.shape(&context.snapshot) else { return };
        let is_refused = code == ResultCode::ADMIN_LIMIT_EXCEEDED || code == ResultCode::UNWILLING_TO_PERFORM;
        let costs = SearchCosts {
            searches: 1,
            refused: u64::from(is_refused),
            examined: search.entries_examined(),
            returned: search.entries_sent(),
            micros: account.micros(),
            candidates: search.costly_candidates().unwrap_or(0),
        };
        context.shared.index_advice.count(shape, &costs);
    }

    /// Ends a search because its client has reached a limit on searches without an index.
    #[cold]
    fn refuse_search(
        &self,
        context: &Context,
        head: &RequestHead,
        (search, account): (Search, Option<&ScanAccount>),
        limit: &str,
        out: &mut Vec<u8>,
    ) {
        self.finish_search(context, head, &search, account, Some(ResultCode::ADMIN_LIMIT_EXCEEDED));
        let text = search.refuse(&context.snapshot, out, limit);
        self.report_refusal(context, &text);
    }

    /// Logs that a search reached a limit on searches without an index.
    #[cold]
    fn report_refusal(&self, context: &Context, text: &str) {
        let client = HolderKey::new(self.source, &self.requester);
        context.shared.scan_shares.report_refusal(client, text, context.now);
    }

    /// Takes the permission for a persistent search, which counts towards the client's limit. Other searches need no
    /// permission.
    #[inline]
    fn take_listening_place(
        &self,
        context: &Context,
        controls: &RequestControls,
    ) -> Result<Option<Box<ListeningPlace>>, Outcome> {
        if controls.listens() { self.find_listening_place(context).map(Some) } else { Ok(None) }
    }

    #[cold]
    #[inline(never)]
    fn find_listening_place(&self, context: &Context) -> Result<Box<ListeningPlace>, Outcome> {
        let is_trusted = self.is_trusted || self.source.address().is_none();
        let client = ListeningClient { source: self.source, is_trusted, requester: &self.requester };
        let admitted =
            context.shared.listening.take(context.settings.persistent_searches, client, context.now);
        admitted.map(Box::new).map_err(|why| {
            let code = match why {
                NoPlace::Full => ResultCode::BUSY,
                NoPlace::IdentityShare | NoPlace::SourceShare => ResultCode::ADMIN_LIMIT_EXCEEDED,
            };
            Outcome::new(code, why.text())
        })
    }

    /// Handles the end of the client's input (RFC 4511 section 5.3). No Abandon or Unbind can follow, so a persistent
    /// search would never end. Therefore this function ends it, even if the client has closed only its side and still
    /// reads. Other operations are answered as before.
    #[cold]
    pub(crate) fn end_input(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        if !self.has_ended_input {
            self.has_ended_input = true;
            self.end_listening(context, out);
        }
    }

    /// Ends all persistent searches. Does nothing if the output ends in the middle of a message. The slice that
    /// completes the message then ends them.
    fn end_listening(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        if self.is_mid_message() {
            return;
        }
        while let Some(index) = self.outstanding.iter().position(Outstanding::is_listening) {
            self.stop_search(context, index, ResultCode::CANCELED, out);
        }
    }

    /// Returns true if a persistent search is in its second phase.
    pub(crate) fn listens(&self) -> bool {
        self.outstanding.iter().any(Outstanding::is_listening)
    }

    /// Returns true if a persistent search has notifications to send.
    pub(crate) fn has_changes_to_send(&self) -> bool {
        self.outstanding.iter().any(|other| other.is_listening() && other.wants_slice())
    }

    /// Wakes a persistent search. `woken` describes the changes that it may have to send. Returns false if the search
    /// has ended.
    pub(crate) fn wake(&mut self, ticket: u64, woken: WakeReason) -> bool {
        let found = self.outstanding.iter_mut().find(|other| other.ticket == ticket);
        let Some(Work::Search { search, follows, .. }) = found.map(|other| &mut other.work) else {
            return false;
        };
        *follows = false;
        if let WakeReason::Changes(set) = woken {
            search.take_changes(set);
        }
        true
    }

    /// Ends a persistent search whose client reads notifications more slowly than changes occur.
    pub(crate) fn cut_off(&mut self, context: &mut Context, ticket: u64, out: &mut Vec<u8>) {
        if self.is_mid_message() {
            return;
        }
        let Some(index) = self.outstanding.iter().position(|other| other.ticket == ticket) else { return };
        let Some(Work::Search { search, .. }) = self.outstanding.get(index).map(|other| &other.work) else {
            return;
        };
        let code = search.code_of_laggard();
        context.shared.listening.has_cut_off();
        self.stop_search(context, index, code, out);
    }

    /// Ends the persistent searches. If `code` is given, it is their result code. A bind ends persistent searches
    /// because it changes the identity of the session (RFC 4511 section 4.2.1). A stopping server ends them as well.
    pub(crate) fn end_following(
        &mut self,
        context: &mut Context,
        code: Option<ResultCode>,
        out: &mut Vec<u8>,
    ) {
        if self.is_mid_message() {
            return;
        }
        while let Some(index) = self.outstanding.iter().position(Outstanding::is_listening) {
            match code {
                Some(code) => self.stop_search(context, index, code, out),
                None => self.drop_outstanding(context, index),
            }
        }
    }

    /// Runs one slice of the next search, or takes results for it from the scan threads. Returns false if the search
    /// failed in the middle of a message. The connection must then be closed.
    pub(crate) fn run_slice(&mut self, context: &mut Context, out: &mut Vec<u8>) -> bool {
        let Some(index) = self.next_search_index() else { return true };
        self.next_slice = slice_index(index + 1);
        let (admission, address, identity) =
            (self.admission(context), self.address(context), self.identity());
        let Some(Outstanding {
            ticket,
            head,
            work: Work::Search { search, deadline, rest, account, follows, .. },
            ..
        }) = self.outstanding.get_mut(index)
        else {
            return true;
        };
        if !search.is_mid_message() {
            if admission == Admission::Refused {
                context.shared.request_memory.refuse(context.now);
                self.stop_search(context, index, ResultCode::BUSY, out);
                return true;
            }
            if deadline.is_some_and(|deadline| deadline <= context.now) {
                self.stop_search(context, index, ResultCode::TIME_LIMIT_EXCEEDED, out);
                return true;
            }
            if let Some(limit) = met_limit(account.as_deref(), context, search) {
                let Outstanding { head, work, .. } = self.outstanding.remove(index);
                if let Work::Search { search, account, .. } = work {
                    self.refuse_search(context, &head, (*search, account.as_deref()), &limit, out);
                }
                return true;
            }
        }
        let step = match rest {
            Some(rest) => rest.take(search, &context.snapshot, out),
            None => run_here(context, account.as_deref(), search, out),
        };
        if step == Step::Waits {
            (*follows, *deadline) = (true, None);
            head.is_not_timed();
            self.outstanding.recount(index);
        } else if step != Step::More {
            let Outstanding { head, work, .. } = self.outstanding.remove(index);
            self.next_slice = slice_index(index);
            if let Work::Search { search, account, .. } = work {
                self.finish_search(context, &head, &search, account.as_deref(), None);
            }
        } else {
            if rest.is_none() {
                let address = Address { ticket: *ticket, ..address };
                *rest = share(context, address, identity, account.as_ref(), search);
            }
            self.outstanding.recount(index);
        }
        if self.has_ended_input && step != Step::Broken {
            self.end_listening(context, out);
        }
        step != Step::Broken
    }

    /// Returns the index of the search that runs next. A search in the middle of a message is first. Otherwise the
    /// searches that can run take turns.
    fn next_search_index(&self) -> Option<usize> {
        if let Some(index) = self.outstanding.iter().position(Outstanding::is_mid_message) {
            return Some(index);
        }
        // Each search collects candidates while it runs. Therefore searches run one after another if memory is short.
        let first = if self.outstanding.has_full_searches() { 0 } else { self.next_slice as usize };
        let indexed = || self.outstanding.iter().enumerate();
        let mut in_turn = indexed().skip(first).chain(indexed().take(first));
        in_turn.find(|(_, other)| other.wants_slice()).map(|(index, _)| index)
    }

    /// Records that scan threads have a result for one of the searches.
    pub(crate) fn scanned(&mut self, ticket: u64) {
        let mut all = self.outstanding.iter_mut();
        let found = all.find(|other| other.ticket == ticket).map(|other| &mut other.work);
        if let Some(Work::Search { rest: Some(rest), .. }) = found {
            rest.set_ready();
        }
    }

    /// Stops the searches whose time limit is over. Does nothing if the output ends in the middle of a message.
    pub(crate) fn expire(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        if self.is_mid_message() {
            return;
        }
        self.expire_transaction(context, out);
        let now = context.now;
        let is_over = |other: &Outstanding| other.deadline().is_some_and(|deadline| deadline <= now);
        while let Some(index) = self.outstanding.iter().position(is_over) {
            self.stop_search(context, index, ResultCode::TIME_LIMIT_EXCEEDED, out);
        }
    }

    pub(super) fn stop_search(
        &mut self,
        context: &mut Context,
        index: usize,
        code: ResultCode,
        out: &mut Vec<u8>,
    ) {
        let Outstanding { head, work, .. } = self.outstanding.remove(index);
        let Work::Search { search, account, .. } = work else { return };
        self.finish_search(context, &head, &search, account.as_deref(), Some(code));
        search.stop(&context.snapshot, out, code);
    }

    /// Counts and logs a search that has ended. `stopped` is the result code if the search was stopped.
    pub(super) fn finish_search(
        &self,
        context: &Context,
        head: &RequestHead,
        search: &Search,
        account: Option<&ScanAccount>,
        stopped: Option<ResultCode>,
    ) {
        let code = stopped.or_else(|| search.result_code()).unwrap_or(ResultCode::SUCCESS);
        context.counters.entries.add(search.entries_sent());
        context.counters.examined.add(search.entries_examined());
        context.counters.completed(head.operation, code, head.waited(context.now));
        if let Some((fault, text)) = search.fault() {
            context.report_fault(fault, self.number, head, code, text);
        }
        if let Some(text) = search.refusal() {
            context.counters.refused(code, text);
            self.report_refusal(context, text);
        }
        search.each_index(&context.snapshot, &mut |attribute| {
            let (examined, returned) = (search.entries_examined(), search.entries_sent());
            context.usage.borrow_mut().index_used(attribute, examined, returned);
        });
        if let Some(account) = account {
            context.counters.micros.add(account.take_uncounted());
            Session::count_costly(context, search, account, code);
        }
        let entries = Some(search.entries_sent());
        self.end_event(
            context,
            head,
            code,
            OperationEnd { entries, search: Some(search), ..OperationEnd::default() },
        );
    }
}

/// Converts an index to 32 bits, which makes sessions smaller. A session has far fewer outstanding requests.
fn slice_index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(0)
}
