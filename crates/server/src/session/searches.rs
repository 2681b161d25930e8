//! Searches of a session: answered at once if one slice is enough, else kept, and run slice by slice in turn. Long ones
//! leave the rest of their candidates to the scan threads and wait for pieces.

use std::time::{Duration, Instant};

use directory::controls::RequestControls;
use directory::search::{Search, Step};
use ldap::ResultCode;

use super::outstanding::{Outstanding, Work};
use super::shared_rest::{SLICE, SharedRest};
use super::{Asked, Session};
use crate::limits::SCAN_CANDIDATES_MIN;
use crate::net::mailbox::Address;
use crate::net::request_memory::Admission;
use crate::session::context::Context;

/// Whether there is so much left to look at that it is worth other threads' while.
fn is_long(search: &Search) -> bool {
    search.candidates_left().is_some_and(|left| left >= SCAN_CANDIDATES_MIN)
}

/// Leaves the rest of a search to the scan threads, if they take it.
fn share(context: &Context, address: Address, search: &mut Search) -> Option<SharedRest> {
    if !is_long(search) {
        return None;
    }
    let is_measured = search.explains();
    let scan = context.shared.scan_pool.begin(address, is_measured, || search.split())?;
    Some(SharedRest::new(scan))
}

impl Session {
    pub(super) fn search(
        &mut self,
        context: &mut Context,
        asked: Asked,
        request: &ldap::SearchRequest<'_>,
        controls: &RequestControls,
        out: &mut Vec<u8>,
    ) {
        let asked_at = controls.explain.then(Instant::now);
        let started = Search::start(&context.snapshot, &self.requester, asked.id, request, controls);
        let mut search = match started {
            Ok(search) => search,
            Err(outcome) => return self.answer(context, &asked, &outcome, out),
        };
        if let Some(asked_at) = asked_at {
            let micros = move || asked_at.elapsed().as_micros() as u64;
            search.measure(micros(), Box::new(micros));
        }
        // Behind others this one waits for its turn, so that a thousand scans sent at once are one slice.
        let waits = self.wants_slice() || (self.has_search() && is_long(&search));
        if !waits && let Step::Done = search.run(&context.snapshot, out, &SLICE) {
            return finish_search(context, self.number, asked, &search);
        }
        let deadline = match search.time_limit_seconds() {
            0 => None,
            seconds => context.now.checked_add(Duration::from_secs(u64::from(seconds))),
        };
        let rest = share(context, self.address(context), &mut search);
        self.keep(asked, Work::Search { search: Box::new(search), deadline, rest }, 0);
    }

    /// Answers with a search that is over and its messages.
    pub(super) fn found_search(
        &self,
        context: &Context,
        asked: Asked,
        (search, messages): (Search, &[u8]),
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(messages);
        finish_search(context, self.number, asked, &search);
    }

    /// Runs one slice of one of the searches, in turn, or takes what scan threads have done of it. False when it failed
    /// in the middle of a message, so that the connection is of no more use.
    pub(crate) fn run_slice(&mut self, context: &mut Context, out: &mut Vec<u8>) -> bool {
        let Some(place) = self.place_of_next_slice() else { return true };
        self.next_slice = place + 1;
        let address = Address { ticket: self.outstanding[place].ticket, ..self.address(context) };
        let is_mid_message = self.outstanding[place].is_mid_message();
        if !is_mid_message && self.admission(context) == Admission::Refused {
            context.shared.request_memory.refuse(context.now);
            self.stop_search(context, place, ResultCode::BUSY, out);
            return true;
        }
        let Work::Search { search, deadline, rest } = &mut self.outstanding[place].work else { return true };
        if !is_mid_message && deadline.is_some_and(|deadline| deadline <= context.now) {
            self.stop_search(context, place, ResultCode::TIME_LIMIT_EXCEEDED, out);
            return true;
        }
        let step = match rest {
            Some(rest) => rest.take(search, context, out),
            None => search.run(&context.snapshot, out, &SLICE),
        };
        if step != Step::More {
            let Outstanding { id, operation, line, work, .. } = self.outstanding.remove(place);
            self.next_slice = place;
            if let Work::Search { search, .. } = work {
                finish_search(context, self.number, Asked { id, operation, line }, &search);
            }
        } else {
            if rest.is_none() {
                *rest = share(context, address, search);
            }
            self.outstanding.count_anew(place);
        }
        step != Step::Broken
    }

    /// Where the search is whose turn it is: the one in the middle of a message, or the next that can go on.
    fn place_of_next_slice(&self) -> Option<usize> {
        if let Some(place) = self.outstanding.iter().position(Outstanding::is_mid_message) {
            return Some(place);
        }
        if self.outstanding.has_full_searches() {
            // Each gathers candidates while it runs, so one after the other.
            return self.outstanding.iter().position(Outstanding::wants_slice);
        }
        let count = self.outstanding.len();
        let mut places = (0..count).map(|step| (self.next_slice + step) % count);
        places.find(|place| self.outstanding.get(*place).is_some_and(Outstanding::wants_slice))
    }

    /// Scan threads have a piece for one of the searches, if that is still wanted.
    pub(crate) fn scanned(&mut self, ticket: u64) {
        let mut all = self.outstanding.iter_mut();
        let found = all.find(|other| other.ticket == ticket).map(|other| &mut other.work);
        if let Some(Work::Search { rest: Some(rest), .. }) = found {
            rest.set_ready();
        }
    }

    /// Ends the searches whose time is over. In the middle of a message none of them is.
    pub(crate) fn expire(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        if self.is_mid_message() {
            return;
        }
        let now = context.now;
        let is_over = |other: &Outstanding| other.deadline().is_some_and(|deadline| deadline <= now);
        while let Some(place) = self.outstanding.iter().position(is_over) {
            self.stop_search(context, place, ResultCode::TIME_LIMIT_EXCEEDED, out);
        }
    }

    fn stop_search(&mut self, context: &mut Context, place: usize, code: ResultCode, out: &mut Vec<u8>) {
        let Outstanding { id, operation, line, work, .. } = self.outstanding.remove(place);
        let Work::Search { search, .. } = work else { return };
        let entries = search.entries_sent();
        context.counters.examined.add(search.entries_examined());
        search.stop(out, code);
        context.counters.entries.add(entries);
        context.counters.completed(operation, code);
        if let Some(line) = line {
            line.end(self.number, id, operation, code, Some(entries));
        }
    }
}

fn finish_search(context: &Context, connection: u64, asked: Asked, search: &Search) {
    let code = search.result_code().unwrap_or(ResultCode::SUCCESS);
    context.counters.entries.add(search.entries_sent());
    context.counters.examined.add(search.entries_examined());
    context.counters.completed(asked.operation, code);
    if let Some((fault, text)) = search.fault() {
        context.tell(fault, connection, (asked.id, asked.operation, code), text);
    }
    if let Some(line) = asked.line {
        line.end(connection, asked.id, asked.operation, code, Some(search.entries_sent()));
    }
}
