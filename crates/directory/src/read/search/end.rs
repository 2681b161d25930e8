//! The end of a search: the searchResDone with its controls, and the diagnostic messages of refusals.

use ldap::response::{LdapResult, ResponseOp, encode_result};
use ldap::{Control, Controls, ControlsBuf, ListViewResult, PagedResults, ResultCode, SortResult, oids};

use super::budget::Step;
use super::paging::NextPage;
use super::sync::Sync;
use super::window::{WINDOW_TOO_LARGE, WindowError};
use super::{Search, Work, explain};
use crate::model::outcome::{OperationError, Outcome};
use crate::read::controls::EXPLAIN;
use crate::snapshot::Snapshot;

impl Search {
    /// Writes the searchResDone, if this was the last slice.
    pub(super) fn end_slice(
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
        if outcome.code == ResultCode::UNWILLING_TO_PERFORM {
            self.refusal = Some(outcome.diagnostic.as_str().into());
        }
        self.fault = outcome.fault.map(|fault| Box::new((fault, outcome.diagnostic.clone())));
        if is_broken {
            self.result_code = Some(ResultCode::OTHER);
            return Step::Broken;
        }
        let mut controls = self.explanation_control(snapshot);
        if let Some(count) = &self.count {
            count.put(outcome.code, &mut controls);
        }
        // If the base is hidden from the requester, the response has no page control, as if the base were missing.
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
            outcome.diagnostic = "more may have changed than can be sent: poll with this cookie".to_owned();
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

    /// Returns the synchronization state, if the client synchronizes (RFC 4533).
    fn sync(&mut self) -> Option<&mut Sync> {
        match &mut self.work {
            Work::Made(_) => None,
            Work::Tree(search) => search.scanner.entry_controls.as_mut()?.sync.as_mut(),
        }
    }

    /// Returns the step to report after a slice that is not the last.
    fn unfinished(&self) -> Step {
        match &self.work {
            Work::Tree(search) if search.waits() => Step::Waits,
            _ => Step::More,
        }
    }

    /// Returns the start of the next page.
    fn next(&self) -> NextPage<'_> {
        if let Some(deleted) = self.deleted.as_deref().filter(|deleted| deleted.has_started) {
            return NextPage::After(deleted.last());
        }
        match &self.work {
            Work::Made(results) => NextPage::From(results.next(), false),
            Work::Tree(search) => match search.last_key() {
                Some(key) => NextPage::After(key),
                None => NextPage::From(search.next_id, search.scans_for_page),
            },
        }
    }

    /// Builds the sort response control (RFC 2891). Returns `None` if the client requested no sorting, if the search
    /// returned no entries (section 2, scenario 6), or if it failed for a reason other than sorting and the size
    /// limit.
    fn sort_result(&self, code: ResultCode) -> Option<Vec<u8>> {
        let outcome = self.order.as_deref()?.outcome.as_ref()?;
        let is_reported = match code {
            ResultCode::UNAVAILABLE_CRITICAL_EXTENSION => true,
            ResultCode::SUCCESS | ResultCode::SIZE_LIMIT_EXCEEDED => self.entries_sent() > 0,
            _ => false,
        };
        let given_up = match &self.work {
            Work::Made(_) => None,
            Work::Tree(search) => search.sorting_failure(),
        };
        let outcome = given_up.unwrap_or(outcome);
        let result = SortResult { code: outcome.code, attribute: outcome.attribute.as_deref() };
        is_reported.then(|| result.encode())
    }

    /// Builds the list view response for a search that ends with `code`.
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

    /// Returns the total number of entries of all pages if it is cheap to compute; otherwise 0.
    fn estimate(&self, snapshot: &Snapshot) -> u64 {
        match &self.work {
            Work::Made(results) => results.count(),
            Work::Tree(search) => search.estimate(snapshot).unwrap_or(0),
        }
    }

    /// Builds the control with the explanation, if the request asks for an explanation.
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

    /// Returns the diagnostic message for an exceeded size limit. The message states the limit, whether the client or
    /// the server set it, and a remedy.
    fn size_limit_text(&self) -> String {
        let (asked, sent) = (self.requested.size, self.entries_sent());
        if self.paging.is_some() {
            // In a paged search the server's limit only shortens pages, so the exceeded limit is the limit of the
            // request.
            format!(
                "the request's size limit of {asked} for all pages together is reached, and more entries match"
            )
        } else if asked != 0 && sent >= u64::from(asked) {
            format!("the request's size limit of {asked} is reached, and more entries match: ask for more")
        } else {
            let setting = if self.requested.has_own_size { "limit.size" } else { "limits.size_limit" };
            format!(
                "the server's size limit of {sent} ({setting}) is reached, and more entries match: ask in pages (RFC \
                 2696) or for less"
            )
        }
    }

    /// Returns the diagnostic message for a search that stops with this code. The message states the reason and a
    /// remedy.
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
        if seconds == self.requested.time_seconds {
            return format!(
                "the request's time limit of {seconds} s is over: ask for less, or with a longer limit"
            );
        }
        let setting =
            if self.requested.has_own_time { "limit.time_seconds" } else { "limits.time_limit_seconds" };
        let pages = if self.paging.is_some() { "smaller pages" } else { "pages (RFC 2696)" };
        format!(
            "the server's time limit of {seconds} s ({setting}) is over: ask for less, in {pages}, or by an indexed \
             attribute"
        )
    }

    /// Ends the search early with a searchResDone of this code, such as timeLimitExceeded. If the requester may see
    /// neither the base nor an entry below it, the response is the same as for a missing base.
    pub fn stop(self, snapshot: &Snapshot, out: &mut Vec<u8>, code: ResultCode) {
        let text = self.stop_text(code);
        self.stop_because(snapshot, out, code, &text);
    }

    /// Ends the search with adminLimitExceeded, because it reached `limit`. Returns the diagnostic message, which
    /// states the limit and the missing indexes.
    pub fn refuse(self, snapshot: &Snapshot, out: &mut Vec<u8>, limit: &str) -> String {
        let text = match &self.work {
            Work::Tree(search) if search.scanner.has_same_schema(snapshot) => {
                let remedy = explain::remedy(snapshot.state().catalog, &search.scanner.filter);
                format!("{limit}; {remedy}")
            }
            _ => limit.to_owned(),
        };
        self.stop_because(snapshot, out, ResultCode::ADMIN_LIMIT_EXCEEDED, &text);
        text
    }

    fn stop_because(self, snapshot: &Snapshot, out: &mut Vec<u8>, code: ResultCode, text: &str) {
        if [ResultCode::TIME_LIMIT_EXCEEDED, ResultCode::ADMIN_LIMIT_EXCEEDED].contains(&code)
            && let Work::Tree(search) = &self.work
            && let error @ OperationError::NoSuchObject { .. } =
                search.refusal(snapshot.state(), OperationError::refused(code, ""))
        {
            let Outcome { code, matched_dn, diagnostic, .. } = error.into();
            let result = LdapResult { matched_dn: &matched_dn, ..LdapResult::new(code, &diagnostic) };
            return encode_result(out, self.id, ResponseOp::SearchDone, &result, Controls::NONE);
        }
        let mut controls = ControlsBuf::new();
        if let Some(count) = &self.count {
            count.put(code, &mut controls);
        }
        if self.paging.is_some() {
            // An empty cookie ends the sequence of pages.
            controls.push(page_control(&PagedResults { size: 0, cookie: b"" }.encode()));
        }
        let result = LdapResult::new(code, text);
        encode_result(out, self.id, ResponseOp::SearchDone, &result, controls.as_controls());
    }
}

fn position_control(value: &[u8]) -> Control<'_> {
    Control { oid: oids::POSITION, critical: false, value: Some(value) }
}

fn page_control(value: &[u8]) -> Control<'_> {
    Control { oid: oids::PAGED_RESULTS, critical: false, value: Some(value) }
}
