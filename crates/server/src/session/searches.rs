//! Searches of a session: answered at once if one slice is enough, else kept, and run slice by slice in turn.

use std::time::{Duration, Instant};

use directory::controls::RequestControls;
use directory::search::{Budget, Search, Step};
use ldap::ResultCode;

use super::{Asked, Outstanding, Session, Work};
use crate::context::Context;
use crate::limits::{SLICE_BYTES_MAX, SLICE_ENTRIES_MAX};

/// What one slice of a search may do.
const SLICE: Budget = Budget { entries_examined_max: SLICE_ENTRIES_MAX, out_bytes_max: SLICE_BYTES_MAX };

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
        // Behind another search this one waits for its turn, so that a thousand scans sent at once are one slice.
        if !self.has_search()
            && let Step::Done = search.run(&context.snapshot, out, &SLICE)
        {
            return finish_search(context, self.number, asked, &search);
        }
        let deadline = match search.time_limit_seconds() {
            0 => None,
            seconds => context.now.checked_add(Duration::from_secs(u64::from(seconds))),
        };
        self.keep(asked, Work::Search { search: Box::new(search), deadline });
    }

    /// Runs one slice of one of the searches, in turn.
    pub(crate) fn run_slice(&mut self, context: &mut Context, out: &mut Vec<u8>) {
        let count = self.outstanding.len();
        let places = (0..count).map(|step| (self.next_slice + step) % count);
        let is_search = |place: &usize| {
            matches!(self.outstanding.get(*place), Some(Outstanding { work: Work::Search { .. }, .. }))
        };
        let Some(place) = places.into_iter().find(is_search) else { return };
        self.next_slice = place + 1;
        let Work::Search { search, deadline } = &mut self.outstanding[place].work else { return };
        if deadline.is_some_and(|deadline| deadline <= context.now) {
            return self.stop_search(context, place, ResultCode::TIME_LIMIT_EXCEEDED, out);
        }
        if let Step::Done = search.run(&context.snapshot, out, &SLICE) {
            let Outstanding { id, operation, line, work, .. } = self.outstanding.remove(place);
            self.next_slice = place;
            if let Work::Search { search, .. } = work {
                finish_search(context, self.number, Asked { id, operation, line }, &search);
            }
        }
    }

    /// Ends the searches whose time is over.
    pub(crate) fn expire(&mut self, context: &mut Context, out: &mut Vec<u8>) {
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
    context.counters.completed(asked.operation, code);
    if let Some(line) = asked.line {
        line.end(connection, asked.id, asked.operation, code, Some(search.entries_sent()));
    }
}
